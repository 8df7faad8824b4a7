//! Packet sockets beside the kernel, over veth.

//~ devices: packet sockets deliver merged frames whole, of any length

use std::net::{IpAddr, UdpSocket};
use std::os::fd::AsRawFd;

use drivers::packet::{self, Fanout, Options, PacketSocket};
use host::interface::InterfaceError;
use net::Device;
use net::device::multi_queue::MultiQueue;
use netlab::{Namespace, NetLab, Veth};
use queueing::{Span, Time};
use wire::ethernet::{self, EtherType};
use wire::ip::Protocol;
use wire::tcp::{self, Flags, Segment, Seq, Timestamps};
use wire::{ipv4, ipv6};

use crate::echo::{CLIENT, CLIENT6, Cable, HOST, HOST6, OURS, Server};
use crate::skipped;

fn echo_over(test: &str, name: &str, veth: &Veth, options: &Options) {
    if let Some(why) = NetLab::unavailable() {
        return skipped(test, &why);
    }
    let cable = Cable::new(name, veth);
    let (interface, devices) =
        cable.ours.enter(|| packet::open("gw0", options)).expect("packet sockets work");
    assert_eq!(devices.len(), usize::from(options.sockets));
    let server = Server::on(MultiQueue::new(devices), interface.mac);
    cable.echoes(1_000_000);
    cable.host_answers();
    server.stop();
}

#[test]
fn the_kernels_tcp_is_served_over_packet_rings_and_the_host_stays_reachable() {
    let test = "the_kernels_tcp_is_served_over_packet_rings_and_the_host_stays_reachable";
    echo_over(test, "packet", &Veth::default(), &Options::default());
}

#[test]
fn missing_checksums_and_merged_frames_are_taken_as_they_come() {
    let test = "missing_checksums_and_merged_frames_are_taken_as_they_come";
    echo_over(test, "packet-offloads", &Veth { offloads: true, ..Veth::default() }, &Options::default());
}

#[test]
fn two_packet_sockets_share_an_interface() {
    for fanout in [Fanout::Flow, Fanout::Queue] {
        let options = Options { sockets: 2, fanout, ..Options::default() };
        echo_over("two_packet_sockets_share_an_interface", "packet-fanout", &Veth::default(), &options);
    }
}

#[test]
fn an_interface_that_is_down_has_no_packets() {
    if let Some(why) = NetLab::unavailable() {
        return skipped("an_interface_that_is_down_has_no_packets", &why);
    }
    let cable = Cable::new("packet-down", &Veth::default());
    cable.ours.run("ip", &["link", "set", "gw0", "down"]).unwrap();
    match cable.ours.enter(|| packet::open("gw0", &Options::default())) {
        Err(InterfaceError::Down(name)) => assert_eq!(name, "gw0"),
        other => panic!("gw0 is down, got {other:?}"),
    }
}

//~ devices: a packet socket restores the VLAN tag that the kernel removed (802.1Q)
#[test]
fn frames_of_a_vlan_come_with_their_tag() {
    if let Some(why) = NetLab::unavailable() {
        return skipped("frames_of_a_vlan_come_with_their_tag", &why);
    }
    for offloads in [false, true] {
        let mut ends = Ends::new("packet-vlan", &Veth { offloads, ..Veth::default() });
        let [near, far] = ends.macs;
        // A priority tag alone is no VLAN. The longest frame fits no slot.
        for (tci, len) in [(5, 64), (7 << 13 | 4095, 64), (1, 1500), (0, 64), (7 << 13, 1500)] {
            let [high, low] = u16::to_be_bytes(tci);
            let frame = [&near[..], &far, &[0x81, 0, high, low, 8, 0], &vec![0xa5; len - 4]].concat();
            let sent = ends.far.transmit(Time::ZERO, frame.len(), &mut |slot| slot.copy_from_slice(&frame));
            sent.expect("the ring has a slot");
            ends.far.flush(Time::ZERO);
            let mut found = None;
            for _ in 0..200 {
                while let Some(received) = ends.near.receive(Time::ZERO) {
                    let parsed = ethernet::Frame::parse(received.frame.as_ref()).expect("a frame");
                    if parsed.payload.starts_with(&[0xa5; 50]) {
                        found = Some((parsed.vlan.unwrap_or(0), parsed.kind, parsed.payload.len()));
                    }
                }
                if found.is_some() {
                    break;
                }
                ends.near.wait(Span::from_millis(10));
            }
            assert_eq!(found, Some((tci & 0xfff, EtherType::Ipv4, len - 4)), "{tci:#x}, offloads {offloads}");
        }
    }
}

/// Two packet sockets at the ends of a veth pair, and TCP segments between them.
struct Ends {
    near: PacketSocket,
    far: PacketSocket,
    macs: [[u8; 6]; 2],
    _cable: Cable,
}

impl Ends {
    fn new(name: &str, veth: &Veth) -> Self {
        let cable = Cable::new(name, veth);
        let open = |namespace: &Namespace, name: &str| {
            let (interface, devices) =
                namespace.enter(|| packet::open(name, &Options::default())).expect("packet sockets work");
            (interface.mac, devices.into_iter().next().expect("one socket"))
        };
        let ((near_mac, near), (far_mac, far)) = (open(&cable.ours, "gw0"), open(&cable.clients, "eth0"));
        Self { near, far, macs: [near_mac, far_mac], _cable: cable }
    }

    /// Sends `segment`, to be segmented by `size`.
    fn send(&mut self, segment: &Segment<'_>, size: u16) {
        let payload_len = segment.header_len() + segment.payload.len();
        let (source, target, protocol) = (OURS, CLIENT, Protocol::Tcp);
        let header = ipv4::Header { source, target, protocol, dscp: 0, ecn: 0, ttl: ipv4::TTL, payload_len };
        let [near, far] = self.macs;
        let sent = self.near.transmit_cut(Time::ZERO, 34 + payload_len, size, &mut |frame| {
            ethernet::emit_header(frame, far, near, EtherType::Ipv4);
            header.emit(&mut frame[14..]);
            segment.emit_partial(OURS, CLIENT, &mut frame[34..]);
        });
        sent.expect("the ring has a slot");
        self.near.flush(Time::ZERO);
    }

    /// The next `count` segments received, mapped by `map`.
    fn come<T>(&mut self, count: usize, verify_checksum: bool, map: impl Fn(&Segment<'_>) -> T) -> Vec<T> {
        let mut segments = Vec::new();
        for _ in 0..100 {
            while let Some(received) = self.far.receive(Time::ZERO) {
                let packet = &received.frame.as_ref()[14..];
                // The kernel's own traffic is there, too.
                if packet[0] == 0x45 && packet[9] == 6 {
                    let packet = ipv4::Packet::parse(packet).expect("an IPv4 packet");
                    let segment = Segment::parse(packet.payload, OURS, CLIENT, verify_checksum);
                    segments.push(map(&segment.expect("a segment")));
                }
                self.far.recycle(received.frame);
            }
            if segments.len() >= count {
                break;
            }
            self.far.wait(Span::from_millis(20));
        }
        segments
    }
}

fn segment(payload: &[u8]) -> Segment<'_> {
    Segment {
        source_port: 4,
        target_port: 5,
        seq: Seq(u32::MAX - 1500),
        ack: Seq(7),
        flags: Flags::ACK.with(Flags::PSH),
        window: 9,
        options: tcp::Options { timestamps: Some(Timestamps { value: 1, echo: 2 }), ..tcp::Options::NONE },
        payload,
    }
}

//~ devices: segmentation offload (TSO) puts the same bytes on the wire as single segments
#[test]
fn the_kernel_cuts_what_is_longer_than_the_interface_carries() {
    if let Some(why) = NetLab::unavailable() {
        return skipped("the_kernel_cuts_what_is_longer_than_the_interface_carries", &why);
    }
    const SIZE: u16 = 1000;
    let mut ends = Ends::new("packet-cut", &Veth::default());
    let data: Vec<u8> = (0..3500).map(|n| n as u8).collect();
    let frame = segment(&data);
    ends.send(&frame, SIZE);
    let segments = ends.come(4, true, |got| (got.seq, got.flags, got.options, got.payload.to_vec()));
    let parts: Vec<_> = data.chunks(SIZE.into()).collect();
    assert_eq!(segments.len(), parts.len());
    for (n, (seq, flags, options, payload)) in segments.into_iter().enumerate() {
        assert_eq!((seq, &payload[..]), (frame.seq + n as u32 * u32::from(SIZE), parts[n]));
        assert_eq!((flags.contains(Flags::PSH), options), (n == 3, frame.options));
    }
}

//~ devices: packet sockets deliver merged frames whole, of any length
#[test]
fn unsegmented_packets_arrive_whole_whether_they_fit_a_slot_or_not() {
    if let Some(why) = NetLab::unavailable() {
        return skipped("unsegmented_packets_arrive_whole_whether_they_fit_a_slot_or_not", &why);
    }
    let mut ends = Ends::new("packet-whole", &Veth { offloads: true, ..Veth::default() });
    // Around the length of an ordinary frame, around that of a slot, and the maximum.
    for len in (1449..2100).step_by(13).chain([23_168, 65_000]) {
        let data: Vec<u8> = (0..len).map(|n| n as u8).collect();
        ends.send(&segment(&data), 1448);
        assert_eq!(ends.come(1, false, |got| got.payload == data), [true], "{len} bytes");
    }
    assert_eq!(ends.far.truncated(), 0);
}

//~ devices: datagrams sent with UDP_SEGMENT on this machine arrive one by one
/// QUIC sends like this; datagram boundaries are significant.
#[test]
fn datagrams_that_were_sent_at_once_come_one_by_one() {
    if let Some(why) = NetLab::unavailable() {
        return skipped("datagrams_that_were_sent_at_once_come_one_by_one", &why);
    }
    let cable = Cable::new("packet-datagrams", &Veth { offloads: true, ..Veth::default() });
    let (_, mut devices) =
        cable.ours.enter(|| packet::open("gw0", &Options::default())).expect("packet sockets work");
    // Within a slot, beyond it, and each shorter than the minimum frame.
    for (size, len) in [(100, 250), (1000, 2500), (1400, 60_000), (7, 21)] {
        let data: Vec<u8> = (0..len).map(|n: usize| n as u8).collect();
        for (client, host) in [(IpAddr::from(CLIENT), IpAddr::from(HOST)), (CLIENT6.into(), HOST6.into())] {
            let socket = cable.clients.enter(|| UdpSocket::bind((client, 0)).unwrap());
            send_in_segments(&socket, size);
            socket.send_to(&data, (host, 9)).unwrap();
            let received = datagrams(&mut devices, len.div_ceil(size.into()));
            assert!(
                received.iter().map(Vec::as_slice).eq(data.chunks(size.into())),
                "{size} of {len} to {host}"
            );
        }
    }
    assert_eq!(devices[0].truncated(), 0);
}

/// As in two containers, where both may have the same process ID.
#[test]
fn two_stacks_on_an_interface_each_see_every_frame() {
    if let Some(why) = NetLab::unavailable() {
        return skipped("two_stacks_on_an_interface_each_see_every_frame", &why);
    }
    let cable = Cable::new("packet-stacks", &Veth::default());
    let options = Options { sockets: 2, ..Options::default() };
    let stacks = [(); 2].map(|()| cable.ours.enter(|| packet::open("gw0", &options)));
    // Many flows, so that every socket gets some.
    let sent: Vec<_> = (0..64_u8).map(|n| vec![n]).collect();
    for data in &sent {
        let socket = cable.clients.enter(|| UdpSocket::bind((CLIENT, 0)).unwrap());
        socket.send_to(data, (HOST, 9)).unwrap();
    }
    for stack in stacks {
        let (_, mut devices) = stack.expect("packet sockets work");
        let mut received = datagrams(&mut devices, sent.len());
        received.sort();
        assert_eq!(received, sent);
    }
}

/// The next `count` datagrams to port 9 from any of `devices`, or those that arrived.
fn datagrams(devices: &mut [PacketSocket], count: usize) -> Vec<Vec<u8>> {
    let mut payloads = Vec::new();
    for _ in 0..100 {
        for device in &mut *devices {
            while let Some(received) = device.receive(Time::ZERO) {
                payloads.extend(datagram(received.frame.as_ref()));
                device.recycle(received.frame);
            }
        }
        if payloads.len() >= count {
            break;
        }
        devices[0].wait(Span::from_millis(20));
    }
    payloads
}

/// Payload of a frame, if it is a datagram to port 9.
fn datagram(frame: &[u8]) -> Option<Vec<u8>> {
    let packet = &frame[14..];
    let udp = match packet[0] >> 4 {
        4 => ipv4::Packet::parse(packet).ok().filter(|packet| packet.protocol == Protocol::Udp)?.payload,
        _ => ipv6::Packet::parse(packet).ok().filter(|packet| packet.protocol == Protocol::Udp)?.payload,
    };
    (udp[2..4] == 9_u16.to_be_bytes()).then(|| udp[8..].to_vec())
}

/// Makes `socket` split each send into datagrams of `size` bytes (udp(7), UDP_SEGMENT).
fn send_in_segments(socket: &UdpSocket, size: u16) {
    let (size, len) = (i32::from(size), size_of::<i32>() as libc::socklen_t);
    let (level, name) = (libc::SOL_UDP, libc::UDP_SEGMENT);
    // SAFETY: the option's value lives through the call and has this length.
    let set = unsafe { libc::setsockopt(socket.as_raw_fd(), level, name, (&raw const size).cast(), len) };
    assert_eq!(set, 0, "{}", std::io::Error::last_os_error());
}
