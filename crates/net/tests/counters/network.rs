//! Inputs for the counters of the network layer, of UDP, and of malformed frames.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use classify::PacketMeta;
use net::stack::{Config, Counters, InterfaceId, Ipv6, UdpOptions};
use queueing::Span;
use wire::dhcp::{Message as Dhcp, MessageType};
use wire::icmp::{Cause, IcmpError};
use wire::ip::Protocol;
use wire::ndp::{Message, NeighborAdvertisement, RouterAdvertisement};
use wire::tcp::{Flags, Options};
use wire::{icmpv6, ipv6, udp};

use crate::Case;
use crate::host::{Host, MAC, PAIRS, PEER4, PEER6, STACK_MAC, STACK4, STACK6, fragment, frame};
use crate::peer::{self, Peer, STACK_ADDR, Seg};
use crate::world::{SERVER, World, config};

pub const CASES: &[Case] = &[
    (&["malformed: truncated"], || damaged(|frame| frame.truncate(20))),
    (&["malformed: bad length"], || damaged(|frame| frame[14] = 0x44)),
    (&["malformed: bad checksum"], || damaged(|frame| frame[24] ^= 1)),
    (&["malformed: bad version"], || damaged(|frame| frame[14] = 0x55)),
    (&["malformed: bad option"], || damaged(|frame| frame[14 + 20 + 21] = 1)),
    (&["malformed: bad address"], bad_address),
    (&["malformed: unsupported"], unsupported),
    (&["not_for_us"], || damaged(|frame| frame[5] ^= 1)),
    (&["fragments", "reassembled", "udp_received"], || fragments(&[(0, 48, true), (48, 92, false)])),
    (&["fragments_refused"], || fragments(&[(0, 48, true), (40, 56, true)])),
    (&["fragments_expired"], || fragments(&[(0, 48, true)])),
    (&["fragments_evicted"], fragments_evicted),
    (&["no_socket", "icmp_errors_sent", "icmp_suppressed"], port_without_listener),
    (&["udp_full"], udp_full),
    (&["udp_sent"], || sent(true)),
    (&["udp_unsent", "neighbors_silent"], || sent(false)),
    (&["duplicate_addresses"], duplicate_addresses),
    (&["redirects", "redirects_ignored"], redirects),
    (&["leases", "addresses_lost"], leases),
    (&["icmp_errors", "icmp_ignored"], || complained(Cause::Port, 0)),
    (&["paths_limited"], || complained(Cause::TooBig { mtu: 1300 }, 2000)),
    (&["black_holes", "path_probes", "path_probes_lost"], black_hole),
];

fn counted(host: &Host) -> Counters {
    *host.stack.counters()
}

/// Counters after a modified segment with options; its TCP checksum is not verified.
fn damaged(change: impl Fn(&mut Vec<u8>)) -> Counters {
    let mut peer = Peer::new(config(1));
    let options = Options { mss: Some(1000), ..Options::NONE };
    let mut frame = peer::frame(&Seg { options, ..peer.seg(Flags::SYN) });
    change(&mut frame);
    let meta = PacketMeta { checked: true, ..PacketMeta::new(peer.now, frame.len()) };
    peer.stack.ingress(peer.now, &frame, &meta);
    *peer.stack.counters()
}

fn bad_address() -> Counters {
    let mut peer = Peer::new(config(1));
    let frame = peer::frame_from(MAC, STACK_ADDR, &peer.seg(Flags::SYN));
    peer.raw(&frame);
    *peer.stack.counters()
}

/// ICMPv6 message of an unsupported type (RFC 4443 §2.1: type 200 is private).
fn unsupported() -> Counters {
    let mut host = Host::introduced(config(1));
    let (stack, peer) = PAIRS[1];
    let mut message = vec![200, 0, 0, 0, 0, 0, 0, 0];
    icmpv6::finish_checksum(&mut message, PEER6, STACK6);
    host.send(peer, stack, Protocol::Icmpv6, &message);
    counted(&host)
}

/// Datagram to port 53.
fn datagram(source: IpAddr, target: IpAddr, len: usize) -> Vec<u8> {
    let datagram = udp::Datagram { source_port: 9, target_port: 53, payload: &vec![1; len] };
    let mut bytes = vec![0; datagram.len()];
    datagram.emit(source, target, &mut bytes);
    bytes
}

/// Counters after these fragments of a datagram and their timeout.
fn fragments(all: &[(usize, usize, bool)]) -> Counters {
    let mut host = Host::introduced(config(1));
    let (stack, peer) = PAIRS[0];
    host.stack.bind_udp(53, UdpOptions::default()).unwrap();
    let bytes = datagram(peer, stack, 84);
    for &(start, end, more) in all {
        host.raw(&fragment(peer, stack, 1, start, &bytes[start..end], more));
    }
    host.pass(Span::from_secs(60));
    counted(&host)
}

fn fragments_evicted() -> Counters {
    let mut host = Host::introduced(config(1));
    let (stack, peer) = PAIRS[0];
    (0..100).for_each(|ident| host.raw(&fragment(peer, stack, ident, 1400, &[0; 1400], true)));
    counted(&host)
}

fn port_without_listener() -> Counters {
    let mut host = Host::introduced(Config { icmp_errors_per_second_max: 3, ..config(1) });
    let (stack, peer) = PAIRS[0];
    let bytes = datagram(peer, stack, 5);
    for _ in 0..4 {
        host.send(peer, stack, Protocol::Udp, &bytes);
        host.receive();
    }
    counted(&host)
}

fn udp_full() -> Counters {
    let mut host = Host::introduced(config(1));
    let (stack, peer) = PAIRS[0];
    host.stack.bind_udp(53, UdpOptions { capacity: 1, ..UdpOptions::default() }).unwrap();
    let bytes = datagram(peer, stack, 5);
    (0..2).for_each(|_| host.send(peer, stack, Protocol::Udp, &bytes));
    counted(&host)
}

/// Counters after a datagram to a neighbour that replies, or that does not.
fn sent(answers: bool) -> Counters {
    let mut host = if answers { Host::introduced(config(1)) } else { Host::new(config(1)) };
    let id = host.stack.bind_udp(53, UdpOptions::default()).unwrap();
    host.stack.send_to(host.now, id, (PAIRS[0].1, 1).into(), b"x").unwrap();
    host.pass(Span::from_secs(10));
    counted(&host)
}

fn automatic() -> Config {
    Config { ipv6: Some(Ipv6 { interface_id: InterfaceId::Eui64, ..Ipv6::default() }), ..config(1) }
}

fn duplicate_addresses() -> Counters {
    let mut host = Host::new(automatic());
    host.stack.handle_timeout(host.now);
    host.frames();
    let accepted: Ipv6Addr = "fe80::ff:fe00:1".parse().unwrap();
    let answer = NeighborAdvertisement {
        target: accepted,
        mac: Some(MAC),
        router: false,
        solicited: false,
        replaces: true,
    };
    host.discover(accepted, ipv6::ALL_NODES, &Message::NeighborAdvertisement(answer));
    counted(&host)
}

/// Redirects from the router and from another host.
fn redirects() -> Counters {
    let mut host = Host::new(automatic());
    let [router, better, far] =
        ["fe80::9", "fe80::a", "2001:db8:9:9::1"].map(|addr| addr.parse::<Ipv6Addr>().unwrap());
    // Hardware address of the router.
    let options = [&[1, 1][..], &MAC].concat();
    let message = RouterAdvertisement {
        hops: 64,
        lifetime_s: 1800,
        reachable_ms: 0,
        mac: None,
        mtu: None,
        options: &options,
    };
    host.discover(router, ipv6::ALL_NODES, &Message::RouterAdvertisement(message));
    host.pass(Span::from_secs(2));
    let ours: Ipv6Addr = "fe80::ff:fe00:1".parse().unwrap();
    let message = Message::Redirect { target: better, destination: far, mac: Some([2, 0, 0, 0, 0, 10]) };
    host.discover(better, ours, &message);
    host.discover(router, ours, &message);
    counted(&host)
}

/// A lease that is not renewed.
fn leases() -> Counters {
    let unspecified = Ipv4Addr::UNSPECIFIED;
    let mut host = Host::new(Config { dhcp: true, addr: unspecified, prefix: 0, ipv6: None, ..config(1) });
    host.stack.handle_timeout(host.now);
    for kind in [MessageType::Offer, MessageType::Ack] {
        let message = host.receive().remove(0);
        let requested = udp::Datagram::parse(&message.payload, message.source, message.target, true).unwrap();
        let requested = Dhcp::parse(requested.payload).unwrap();
        let answer = Dhcp {
            yours: STACK4,
            server: Some(PEER4),
            prefix: Some(24),
            lease_s: Some(1000),
            ..Dhcp::new(kind, requested.transaction, STACK_MAC)
        };
        let mut body = Vec::new();
        answer.emit(&mut body);
        let datagram = udp::Datagram { source_port: 67, target_port: 68, payload: &body };
        let mut bytes = vec![0; datagram.len()];
        datagram.emit(PEER4, Ipv4Addr::BROADCAST, &mut bytes);
        let mut frame = frame(PEER4.into(), Ipv4Addr::BROADCAST.into(), Protocol::Udp, &bytes);
        frame[..6].fill(0xff);
        host.raw(&frame);
    }
    host.pass(Span::from_secs(1001));
    counted(&host)
}

/// Sends the stack an ICMP error about `quoted`.
fn complain(host: &mut Host, cause: Cause, quoted: &[u8]) {
    let mut bytes = Vec::new();
    IcmpError { cause, quoted }.emit(&mut bytes);
    host.send(PAIRS[0].1, PAIRS[0].0, Protocol::Icmp, &bytes);
}

/// Counters after an error about the first packet with `len` bytes of data; with 0, about a packet
/// that was never sent.
fn complained(cause: Cause, len: usize) -> Counters {
    let mut host = Host::introduced(config(1));
    let conn = host.connect(PAIRS[0], 1460);
    host.stack.send(host.now, conn, &vec![9; len.max(1)]).unwrap();
    let mut quoted = host.receive().remove(0).packet;
    if len == 0 {
        quoted[20 + 4] ^= 0x80;
    }
    complain(&mut host, cause, &quoted);
    counted(&host)
}

/// Path that loses packets of more than 1400 bytes.
fn black_hole() -> Counters {
    let mut world = World::perfect();
    world.packet_len_max = 1400;
    let (server, client) = world.connect_to(SERVER[0]);
    for _ in 0..200 {
        let _ = world.stacks[1].send(world.now, client, &[1; 50_000]);
        world.run_for(Span::from_millis(100));
        let len = world.stacks[0].received(server).len();
        world.stacks[0].consume(world.now, server, len);
    }
    *world.stacks[1].counters()
}
