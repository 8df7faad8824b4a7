//! Datagrams that programs receive and send.

//~ datagrams: datagrams are delivered and collected in the order of labels; overflow is counted

use net::stack::{SendOptions, UdpId, UdpOptions, UdpPath};
use wire::icmp::Cause;
use wire::ip::TrafficClass;

use super::world::MAIL;
use super::*;

/// Address of the client's socket.
pub(super) const CLIENT: &str = "10.0.0.2:7";

impl World {
    /// A program whose socket holds `room` datagrams, and a client.
    pub(super) fn with_mail(room: usize) -> (Self, UdpId) {
        let mut world = Self::without(1000);
        world.proxy.programs.mail.room = room;
        world.proxy.programs.events.push(AppEvent::Bound(53));
        let options = UdpOptions { capacity: 1000, ..UdpOptions::default() };
        let id = world.client.bind_udp(7, options).unwrap();
        world.settle();
        (world, id)
    }

    pub(super) fn post(&mut self, id: UdpId, payload: &[u8]) {
        self.client.send_to(self.now, id, MAIL.parse().unwrap(), payload).unwrap();
        self.client.egress(self.now, &mut self.far);
    }

    /// Sends from the program's `socket`.
    pub(super) fn send_mail(&mut self, socket: u64, to: &str, payload: &[u8]) {
        let programs = &mut self.proxy.programs;
        programs.mail.sent.push_back((socket, to.parse().unwrap(), payload.to_vec()));
        programs.events.push(AppEvent::DatagramReadable(socket));
    }

    /// Datagrams received by the client.
    fn got(&mut self, id: UdpId) -> Vec<Vec<u8>> {
        let (now, client) = (self.now, &mut self.client);
        std::iter::from_fn(|| client.receive_from(now, id)).map(|datagram| datagram.payload).collect()
    }

    fn take_delivered(&mut self) -> Vec<Vec<u8>> {
        std::mem::take(&mut self.proxy.programs.mail.delivered)
    }
}

#[test]
fn datagrams_pass_both_ways() {
    let (mut world, id) = World::with_mail(10);
    for payload in [&b"question"[..], b"", &[b'x'; 5000]] {
        world.post(id, payload);
        world.settle();
        assert_eq!(world.take_delivered(), [payload]);
        world.send_mail(1, CLIENT, payload);
        world.settle();
        assert_eq!(world.got(id), [payload]);
    }
    let Counters { datagrams_in, datagrams_out, bytes_in, bytes_out, .. } = *world.proxy.counters();
    assert_eq!((datagrams_in, datagrams_out, bytes_in, bytes_out), (3, 3, 5008, 5008));
}

//~ datagrams: UDP_SEGMENT cuts up to 128 datagrams, by option or control data
/// Each segment of a send call is a datagram, also where the stack is full in between.
#[test]
fn a_gso_send_leaves_in_segments() {
    let (mut world, id) = World::with_mail(10);
    for (len, segment) in [(2_500, 1_000), (3_000, 1_000), (0, 9), (60_000, 470)] {
        let payload: Vec<u8> = (0..len).map(|n: usize| n as u8).collect();
        world.proxy.programs.mail.segment = Some(segment);
        world.send_mail(1, CLIENT, &payload);
        world.settle();
        let expected: Vec<Vec<u8>> = match len {
            0 => vec![Vec::new()],
            _ => payload.chunks(segment).map(<[u8]>::to_vec).collect(),
        };
        assert_eq!(world.got(id), expected);
    }
    assert_eq!(world.proxy.counters().bytes_out, 65_500);
}

//~ datagrams: IP_TOS and IPV6_TCLASS are set and reported, with ECN bits
/// RFC 3168: a sender of datagrams sets their ECN bits, and a receiver can read them.
#[test]
fn ip_header_fields_of_datagrams_pass_in_both_directions() {
    let (mut world, id) = World::with_mail(10);
    for byte in 0..=255 {
        let marks = TrafficClass::of(byte);
        let path = UdpPath { id, local: [0; 4].into(), remote: MAIL.parse().unwrap() };
        let options = SendOptions { marks, ..SendOptions::default() };
        world.client.answer(&path, &options, b"question").unwrap();
        world.client.egress(world.now, &mut world.far);
        world.settle();
        assert_eq!((world.take_delivered().len(), world.proxy.programs.mail.marked), (1, marks));
        world.proxy.programs.mail.marks = marks;
        world.send_mail(1, CLIENT, b"answer");
        world.settle();
        let got = world.client.receive_from(world.now, id).expect("an answer");
        assert_eq!(got.marks, marks);
    }
}

//~ datagrams: UDP_GRO delivers several datagrams of one length in one call
/// A socket with UDP_GRO gets the same bytes as one without, in fewer pieces; a merge ends where
/// the socket is full.
#[test]
fn equally_long_datagrams_are_delivered_together_with_udp_gro() {
    let lens = [100, 100, 100, 40, 40, 7, 0, 0, 100, 200, 200, 1, 1472, 1472];
    for (merges, room, calls) in [(false, 1000, 14), (true, 1000, 7), (true, 1, 8)] {
        let (mut world, id) = World::with_mail(room);
        world.post(id, b"know who it is");
        world.settle();
        world.proxy.programs.mail.merges = merges;
        world.take_delivered();
        world.proxy.programs.mail.calls = 0;
        let all: Vec<Vec<u8>> = lens.iter().enumerate().map(|(n, len)| vec![n as u8; *len]).collect();
        all.iter().for_each(|payload| world.post(id, payload));
        // All go through UDP before any is delivered.
        assert!(world.proxy.receive(world.now, &mut world.near));
        world.settle();
        let mut delivered = world.take_delivered();
        while delivered.len() < all.len() {
            world.proxy.programs.events.push(AppEvent::DatagramWritable(53));
            world.settle();
            delivered.extend(world.take_delivered());
        }
        assert_eq!(delivered, all, "{merges} {room}");
        assert_eq!(world.proxy.programs.mail.calls, calls, "{merges} {room}");
        let Counters { datagrams_in, datagrams_lost, .. } = *world.proxy.counters();
        assert_eq!((datagrams_in, datagrams_lost), (15, 0));
    }
}

//~ datagrams: with IP_MTU_DISCOVER a datagram longer than the link is dropped and not fragmented
/// A probe for the path's MTU is dropped if it is too long, and no other datagram is (RFC 8899).
#[test]
fn a_datagram_with_dont_fragment_is_sent_whole_or_not_at_all() {
    let (mut world, id) = World::with_mail(10);
    for (dont_fragment, len, arrives) in [(true, 1472, true), (true, 1473, false), (false, 1473, true)] {
        world.proxy.programs.mail.dont_fragment = dont_fragment;
        world.send_mail(1, CLIENT, &vec![b'x'; len]);
        world.settle();
        assert_eq!(world.got(id).len(), usize::from(arrives), "{len} bytes");
        assert_eq!(world.client.counters().fragments > 0, !dont_fragment, "in pieces");
    }
    assert_eq!(world.proxy.stack().counters().udp_unsent, 1);
}

#[test]
fn the_most_urgent_datagram_is_delivered_first_and_waits_in_the_stack() {
    let (mut world, id) = World::with_mail(1);
    world.post(id, b"know who it is");
    world.settle();
    world.take_delivered();
    for payload in [b"5", b"7", b"0"] {
        world.post(id, payload);
    }
    // All go through UDP before any is delivered.
    assert!(world.proxy.receive(world.now, &mut world.near));
    world.settle();
    assert_eq!(world.take_delivered(), [b"0"]);
    world.post(id, b"1");
    world.settle();
    assert_eq!(world.take_delivered(), [b""; 0], "no space was reported");
    for expected in [b"5", b"1", b"7"] {
        world.proxy.programs.events.push(AppEvent::DatagramWritable(53));
        world.settle();
        assert_eq!(world.take_delivered(), [expected], "the held one, then the most urgent");
    }
    assert_eq!(world.proxy.counters().datagrams_lost, 0);
}

#[test]
fn a_full_socket_does_not_block_others_on_its_port() {
    let (mut world, id) = World::with_mail(1);
    world.proxy.programs.mail.shared = true;
    (0..3).for_each(|_| world.post(id, b"more"));
    world.settle();
    assert_eq!((world.take_delivered().len(), world.proxy.counters().datagrams_lost), (1, 2));
    world.post(id, b"later");
    world.settle();
    assert_eq!(world.take_delivered(), [b"later"]);
}

#[test]
fn sent_datagrams_are_collected_in_label_order() {
    let (mut world, id) = World::with_mail(10);
    for (socket, level) in [(1, b"5"), (2, b"0"), (3, b"7")] {
        world.proxy.programs.mail.taker = socket;
        world.post(id, level);
        world.settle();
    }
    // The level of a socket without deliveries is unknown until it is read.
    for socket in [4, 3, 1, 2] {
        world.send_mail(socket, CLIENT, b"answer");
    }
    world.settle();
    let taken = std::mem::take(&mut world.proxy.programs.mail.taken);
    assert_eq!(taken, [4, 2, 1, 3]);
    assert_eq!(world.got(id).len(), 4);
}

#[test]
fn datagrams_wait_while_the_stacks_buffer_is_full() {
    let (mut world, id) = World::with_mail(1);
    world.post(id, b"know who it is");
    world.settle();
    for n in 0..400_u32 {
        world.send_mail(u64::from(n % 20), CLIENT, &n.to_be_bytes());
    }
    world.settle();
    let mut got = world.got(id);
    got.sort();
    assert!(got == (0..400_u32).map(|n| n.to_be_bytes().to_vec()).collect::<Vec<_>>(), "{}", got.len());
    let Counters { datagrams_out, datagrams_unsent, .. } = *world.proxy.counters();
    assert_eq!((datagrams_out, datagrams_unsent), (400, 0));
}

//~ datagrams: a connected socket reports a missing listener once, by the next call
#[test]
fn a_program_gets_port_unreachable() {
    let (mut world, _) = World::with_mail(1);
    let unbound = "10.0.0.2:8";
    world.send_mail(1, unbound, b"anybody there?");
    world.send_mail(1, "192.0.2.1:8", b"no way leads there");
    world.settle();
    assert_eq!(world.proxy.programs.mail.undelivered, [(53, unbound.parse().unwrap())]);
    assert_eq!(world.proxy.counters().datagrams_unsent, 1);
}

#[test]
fn a_closed_port_answers_port_unreachable() {
    let (mut world, id) = World::with_mail(1);
    assert!(!world.proxy.is_quiet(), "it may still send");
    world.proxy.programs.mail.gone = true;
    world.send_mail(1, CLIENT, b"the last");
    world.settle();
    assert_eq!(world.got(id), [b"the last"], "output from before the close");
    assert!(world.proxy.is_quiet());
    world.post(id, b"late");
    world.settle();
    assert_eq!(world.client.take_udp_error(id), Some((MAIL.parse().unwrap(), Cause::Port)));
}
