//! Tests of fragments: reassembly, rejection, timeout and bounds.

//~ ip: IPv4 options are skipped; fragments are reassembled within a time and memory bound (RFC 791, 815)

use std::net::IpAddr;

use net::device::Device;
use net::stack::UdpOptions;
use queueing::Span;
use wire::ethernet;
use wire::icmp::{self, Cause};
use wire::{icmpv6, ipv6, udp};

use crate::host::{Host, PAIRS, Sent, fragment};
use crate::world::config;

fn datagram(source: IpAddr, target: IpAddr, len: usize) -> Vec<u8> {
    let payload: Vec<u8> = (0..len).map(|i| i as u8).collect();
    let datagram = udp::Datagram { source_port: 9, target_port: 53, payload: &payload };
    let mut bytes = vec![0; datagram.len()];
    datagram.emit(source, target, &mut bytes);
    bytes
}

//~ ip: overlapping fragments deliver nothing, in both families (RFC 5722, 8900)
#[test]
fn overlapping_fragments_deliver_nothing() {
    for (stack, peer) in PAIRS {
        let mut host = Host::introduced(config(1));
        let id = host.stack.bind_udp(53, UdpOptions::default()).unwrap();
        let bytes = datagram(peer, stack, 92);
        host.raw(&fragment(peer, stack, 1, 0, &bytes[..48], true));
        host.raw(&fragment(peer, stack, 1, 40, &[0xff; 8], true));
        host.raw(&fragment(peer, stack, 1, 48, &bytes[48..], false));
        assert_eq!(host.stack.receive_from(host.now, id), None);
        assert_eq!(host.stack.counters().fragments_refused, 2);
        // Another datagram is not affected.
        host.raw(&fragment(peer, stack, 2, 48, &bytes[48..], false));
        host.raw(&fragment(peer, stack, 2, 0, &bytes[..48], true));
        assert_eq!(host.stack.receive_from(host.now, id).map(|d| d.payload.len()), Some(92));
    }
}

#[test]
fn missing_fragments_time_out_and_are_reported_to_the_sender() {
    for (stack, peer) in PAIRS {
        let mut host = Host::introduced(config(1));
        let bytes = datagram(peer, stack, 92);
        host.raw(&fragment(peer, stack, 1, 0, &bytes[..48], true));
        host.raw(&fragment(peer, stack, 2, 48, &bytes[48..], false));
        let delivered =
            |received: Vec<Sent>| received.into_iter().filter(|s| s.target == peer).collect::<Vec<_>>();
        assert_eq!(delivered(host.pass(Span::from_secs(14))), []);
        let received = delivered(host.pass(Span::from_secs(2)));
        assert_eq!(received.len(), 1, "an error quotes the first fragment");
        let cause = match (received[0].source, received[0].target) {
            (IpAddr::V6(source), IpAddr::V6(target)) => {
                match icmpv6::Message::parse(&received[0].payload, source, target) {
                    Ok(icmpv6::Message::Error(error)) => error.cause,
                    other => panic!("{other:?}"),
                }
            }
            _ => match icmp::Message::parse(&received[0].payload) {
                Ok(icmp::Message::Error(error)) => error.cause,
                other => panic!("{other:?}"),
            },
        };
        assert_eq!(cause, Cause::Reassembly);
        assert_eq!(host.stack.counters().fragments_expired, 2);
        assert_eq!(host.stack.poll_timeout(), None);
    }
}

#[test]
fn a_flood_of_fragments_evicts_only_its_own_packets() {
    for (stack, peer) in PAIRS {
        let mut host = Host::introduced(config(1));
        let id = host.stack.bind_udp(53, UdpOptions::default()).unwrap();
        for ident in 0..10_000 {
            host.raw(&fragment(peer, stack, ident, 1400, &[0; 1400], true));
        }
        assert_eq!(host.stack.counters().fragments_evicted, 10_000 - 64);
        let bytes = datagram(peer, stack, 92);
        host.raw(&fragment(peer, stack, 70_000, 0, &bytes[..48], true));
        host.raw(&fragment(peer, stack, 70_000, 48, &bytes[48..], false));
        assert!(host.stack.receive_from(host.now, id).is_some());
    }
}

#[test]
fn a_fragmented_segment_reaches_its_connection() {
    use wire::tcp::{Flags, Options, Segment, Seq};
    for (stack, peer) in PAIRS {
        let mut host = Host::introduced(config(1));
        host.stack.listen(80, net::stack::ListenOptions::default()).unwrap();
        let syn = Segment {
            source_port: 9,
            target_port: 80,
            seq: Seq(1),
            ack: Seq(0),
            flags: Flags::SYN,
            window: 1000,
            options: Options { mss: Some(1000), ..Options::NONE },
            payload: &[],
        };
        let mut bytes = vec![0; syn.header_len()];
        syn.emit(peer, stack, &mut bytes);
        let mut frames = [
            fragment(peer, stack, 1, 0, &bytes[..16], true),
            fragment(peer, stack, 1, 16, &bytes[16..], false),
        ];
        for frame in &mut frames {
            if stack.is_ipv4() {
                frame[ethernet::HEADER_LEN + 9] = 6;
                frame[ethernet::HEADER_LEN + 10..][..2].fill(0);
                let sum = wire::checksum::of(&frame[ethernet::HEADER_LEN..][..20]);
                frame[ethernet::HEADER_LEN + 10..][..2].copy_from_slice(&sum);
            } else {
                frame[ethernet::HEADER_LEN + ipv6::HEADER_LEN] = 6;
            }
            host.raw(frame);
        }
        let received = host.receive();
        let answer = Segment::parse(&received[0].payload, stack, peer, true).unwrap();
        assert_eq!((answer.flags, answer.ack), (Flags::SYN | Flags::ACK, Seq(2)));
    }
}

#[test]
fn a_device_that_fills_up_between_fragments_gets_the_rest_later() {
    let (stack, peer) = PAIRS[0];
    let mut host = Host::introduced(config(1));
    let id = host.stack.bind_udp(53, UdpOptions::default()).unwrap();
    host.stack.send_to(host.now, id, (peer, 1).into(), &[7; 5000]).unwrap();
    let mut frames = Vec::new();
    for _ in 0..10 {
        let mut outbox = crate::world::Outbox { frames: Vec::new(), space: 1 };
        host.stack.egress(host.now, &mut outbox);
        outbox.flush(host.now);
        frames.extend(outbox.frames);
    }
    let sent: Vec<_> = frames.iter().filter_map(|f| crate::host::parse(f)).collect();
    let fragments: Vec<_> = sent.iter().map(|s| s.fragment.unwrap()).map(|f| (f.offset, f.more)).collect();
    assert_eq!(fragments, [(0, true), (1480, true), (2960, true), (4440, false)]);
    assert!(
        sent.iter()
            .all(|s| s.source == stack && s.fragment.unwrap().ident == sent[0].fragment.unwrap().ident)
    );
}
