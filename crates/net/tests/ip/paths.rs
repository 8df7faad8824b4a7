//! Tests of path MTU discovery: with router messages, without them, and with forged ones.

//~ ip: a router's packet-too-big lowers the path MTU (RFC 1191, 8201)

use net::stack::Config;
use net::{ConnId, EventKind};
use proptest::prelude::*;
use queueing::Span;
use wire::icmp::Cause;

use crate::host::{Host, PAIRS, Sent};
use crate::world::{Faults, SERVER, World, config};

/// World in which stack 1 sends `len` bytes and packets larger than `mtu` are lost.
fn transfer(remote: &str, mtu: usize, len: usize, faults: Faults, seed: u64) -> World {
    let mut world = World::new([config(1), config(2)], faults, seed);
    world.packet_len_max = mtu;
    world.stacks[0].listen(80, net::stack::ListenOptions::default()).unwrap();
    let client = world.stacks[1].connect(world.now, remote.parse().unwrap(), None).unwrap();
    let bytes: Vec<u8> = (0..len).map(|i| ((i * 31) >> 3) as u8).collect();
    let (mut sent, mut got, mut server): (usize, Vec<u8>, Option<ConnId>) = (0, Vec::new(), None);
    for _ in 0..200_000 {
        while let Some(event) = world.stacks[0].poll_event() {
            match event.kind {
                EventKind::Accepted(_) => server = Some(event.conn),
                EventKind::Closed(_) => panic!("{remote} {mtu} {faults:?} seed {seed}: closed"),
                _ => {}
            }
        }
        while let Some(event) = world.stacks[1].poll_event() {
            if let EventKind::Closed(reason) = event.kind {
                assert!(
                    got.is_empty() && faults.loss > 0,
                    "{remote} {mtu} {faults:?} seed {seed}: {reason:?}"
                );
                return world;
            }
        }
        if world.stacks[1].flow(client).is_some() {
            sent += world.stacks[1].send(world.now, client, &bytes[sent..]).unwrap_or(0);
        }
        if let Some(server) = server {
            got.extend_from_slice(world.stacks[0].received(server));
            let n = world.stacks[0].received(server).len();
            world.stacks[0].consume(world.now, server, n);
        }
        if got.len() == len {
            assert!(got == bytes, "the stream arrived whole");
            return world;
        }
        assert!(world.step(), "{remote} {mtu} {faults:?} seed {seed}: no timer is due");
    }
    panic!("{remote} {mtu} {faults:?} seed {seed}: not finished");
}

//~ ip: path MTU is probed from below, survives black holes, and is shared by connections to one peer (RFC 4821, 8899)
#[test]
fn a_path_that_drops_large_packets_is_detected() {
    for (remote, mtu) in [(SERVER[0], 1400), (SERVER[0], 600), (SERVER[1], 1400), (SERVER[1], 1280)] {
        let start = World::perfect().now;
        let world = transfer(remote, mtu, 300_000, Faults::default(), 1);
        assert!(world.stacks[1].counters().black_holes >= 1, "{remote} {mtu}");
        assert!(world.now.since(start) < Span::from_secs(10), "{remote} {mtu}: {:?}", world.now.since(start));
    }
}

#[test]
fn a_short_silence_is_no_black_hole() {
    let mut world = World::perfect();
    world.stacks[0].listen(80, net::stack::ListenOptions::default()).unwrap();
    let client = world.stacks[1].connect(world.now, SERVER[0].parse().unwrap(), None).unwrap();
    world.run_for(Span::from_millis(5));
    world.faults.loss = 100;
    world.stacks[1].send(world.now, client, &[1; 20_000]).unwrap();
    world.run_for(Span::from_millis(150));
    world.faults.loss = 0;
    world.run_for(Span::from_secs(1));
    let counters = world.stacks[1].counters();
    assert!(counters.timeouts >= 3, "{} timeouts", counters.timeouts);
    assert_eq!((counters.black_holes, world.stacks[1].flow(client).unwrap().sent.get()), (0, 20_000));
}

#[test]
fn the_next_connection_to_the_same_peer_uses_the_path_mtu() {
    for remote in SERVER {
        let mut world = transfer(remote, 1400, 50_000, Faults::default(), 1);
        let found = world.stacks[1].counters().black_holes;
        let client = world.stacks[1].connect(world.now, remote.parse().unwrap(), None).unwrap();
        world.run_for(Span::from_millis(5));
        world.stacks[1].send(world.now, client, &[1; 20_000]).unwrap();
        world.run_for(Span::from_secs(5));
        assert_eq!(world.stacks[1].flow(client).unwrap().sent.get(), 20_000);
        assert_eq!(world.stacks[1].counters().black_holes, found);
    }
}

/// Host with a connection to the peer that has a full segment in flight.
fn in_flight(pair: (std::net::IpAddr, std::net::IpAddr)) -> (Host, ConnId, Sent) {
    let mut host = Host::introduced(config(1));
    let conn = host.connect(pair, 1460);
    host.stack.send(host.now, conn, &[9; 2000]).unwrap();
    let sent = host.receive();
    let large = sent.into_iter().find(|s| s.packet.len() == 1500).expect("a full packet");
    (host, conn, large)
}

#[test]
fn a_packet_too_big_error_retransmits_the_segment_in_smaller_ones() {
    for pair in PAIRS {
        let (mut host, conn, large) = in_flight(pair);
        let cwnd = host.stack.flow(conn).unwrap().cwnd;
        crate::icmp::complain(&mut host, pair, Cause::TooBig { mtu: 1300 }, &large.packet);
        let again = host.receive();
        assert!(!again.is_empty() && again.iter().all(|s| s.packet.len() <= 1300), "{again:?}");
        assert_eq!(host.stack.flow(conn).unwrap().cwnd, cwnd, "not a congestion signal");
        let resent: usize = again.iter().map(|s| s.payload.len() - 20).sum();
        assert!(resent >= large.payload.len() - 20, "all of it");
    }
}

#[test]
fn an_error_without_an_mtu_is_accepted() {
    let (mut host, _, large) = in_flight(PAIRS[0]);
    crate::icmp::complain(&mut host, PAIRS[0], Cause::TooBig { mtu: 0 }, &large.packet);
    let again = host.receive();
    assert_eq!(again.iter().map(|s| s.packet.len()).max(), Some(1492));
}

#[test]
fn forged_errors_shrink_no_segment() {
    for pair in PAIRS {
        let (mut host, _, large) = in_flight(pair);
        let start = large.packet.len() - large.payload.len();
        let mut other_seq = large.packet.clone();
        other_seq[start + 4] ^= 0x80;
        for (mtu, quoted) in [
            (1300, &other_seq[..]),
            (1300, &large.packet[..start + 7]),
            (1500, &large.packet),
            (9000, &large.packet),
        ] {
            crate::icmp::complain(&mut host, pair, Cause::TooBig { mtu }, quoted);
            assert!(host.frames().is_empty(), "{mtu}");
        }
        // Smaller than any path: IPv6 ignores it, IPv4 stops at its minimum.
        crate::icmp::complain(&mut host, pair, Cause::TooBig { mtu: 68 }, &large.packet);
        let again = host.receive();
        let smallest = again.iter().map(|s| s.packet.len()).max();
        assert_eq!(smallest, if pair.0.is_ipv4() { Some(552) } else { None });
    }
}

//~ tcp: the MSS is sent, obeyed, and clamped to the MTU and `mss_max` (RFC 6691)
#[test]
fn the_largest_segment_can_be_set() {
    let mut world =
        World::new([config(1), Config { mss_max: Some(1000), ..config(2) }], Faults::default(), 1);
    let (server, client) = world.connect();
    world.stacks[0].send(world.now, server, &[1; 5000]).unwrap();
    world.stacks[1].send(world.now, client, &[1; 5000]).unwrap();
    for stack in &mut world.stacks {
        let frames = crate::world::sent(stack, world.now);
        assert_eq!(frames.iter().map(Vec::len).max(), Some(14 + 20 + 20 + 1000));
    }
}

/// Stream from stack 1 to stack 0 on a path that may change.
struct Stream {
    world: World,
    remote: std::net::SocketAddr,
    client: ConnId,
    server: ConnId,
    sent: usize,
    got: usize,
}

fn pattern(i: usize) -> u8 {
    ((i * 31) >> 3) as u8
}

impl Stream {
    fn new(remote: &str, seed: u64) -> Self {
        let mut world = World::new([config(1), config(2)], Faults::default(), seed);
        let (server, client) = world.connect_to(remote);
        Self { world, remote: remote.parse().unwrap(), client, server, sent: 0, got: 0 }
    }

    /// Sends `len` more bytes and checks that all of them arrive.
    fn send(&mut self, len: usize) {
        let end = self.sent + len;
        let bytes: Vec<u8> = (self.sent..end).map(pattern).collect();
        let start = self.sent;
        for _ in 0..200_000 {
            let Self { world, client, server, sent, got, .. } = self;
            *sent += world.stacks[1].send(world.now, *client, &bytes[*sent - start..]).unwrap();
            let arrived = world.stacks[0].received(*server);
            let right = arrived.iter().enumerate().all(|(i, byte)| *byte == pattern(*got + i));
            assert!(right, "the stream arrives unchanged");
            let n = arrived.len();
            *got += n;
            world.stacks[0].consume(world.now, *server, n);
            (0..2).for_each(|i| while world.stacks[i].poll_event().is_some() {});
            if *got == end {
                return;
            }
            assert!(world.step(), "no timer is due");
        }
        panic!("not finished: {} of {end} bytes", self.got);
    }

    /// Path MTU that the sender has found.
    fn found(&self) -> usize {
        self.world.stacks[1].path_mtu(self.world.now, self.remote.ip()).into()
    }

    fn counters(&self) -> net::stack::Counters {
        *self.world.stacks[1].counters()
    }
}

//~ ip: path MTU is probed from below, survives black holes, and is shared by connections to one peer (RFC 4821, 8899)
#[test]
fn the_path_mtu_is_found_from_below() {
    for (remote, mtu) in [(SERVER[0], 1400), (SERVER[1], 1420), (SERVER[0], 1491), (SERVER[0], 900)] {
        let mut stream = Stream::new(remote, 1);
        stream.world.packet_len_max = mtu;
        stream.send(300_000);
        let until = stream.world.now + Span::from_secs(20);
        while stream.world.now < until {
            stream.send(50_000);
            stream.world.run_for(Span::from_millis(100));
        }
        let (found, counters) = (stream.found(), stream.counters());
        assert!(found <= mtu && mtu - found < 4, "{remote}: {found} of {mtu}");
        assert!(counters.path_probes <= 25, "{} probes", counters.path_probes);
        let holes = if mtu < 1280 { 2 } else { 1 };
        assert_eq!(counters.black_holes, holes, "{remote} {mtu}");
        assert_eq!(counters.fast_retransmits, 0, "a lost probe is not a congestion signal");
    }
}

#[test]
fn a_recovered_path_is_used_in_full_after_ten_minutes() {
    let mut stream = Stream::new(SERVER[0], 1);
    stream.world.packet_len_max = 1400;
    stream.send(300_000);
    stream.world.run_for(Span::from_secs(10));
    stream.send(300_000);
    assert_eq!(stream.found(), 1400);
    stream.world.packet_len_max = 9000;
    stream.world.run_for(Span::from_secs(601));
    stream.send(50_000);
    stream.world.run_for(Span::from_secs(1));
    stream.send(50_000);
    assert_eq!(stream.found(), 1500);
}

//~ ip: path MTU is probed from below, survives black holes, and is shared by connections to one peer (RFC 4821, 8899)
#[test]
fn connections_to_one_peer_share_the_path_mtu() {
    let mut stream = Stream::new(SERVER[0], 1);
    stream.world.packet_len_max = 1400;
    stream.send(20_000);
    assert!(stream.found() < 1400);
    let other = stream.world.stacks[1].connect(stream.world.now, stream.remote, None).unwrap();
    stream.world.run_for(Span::from_secs(1));
    (0..40).for_each(|_| {
        stream.send(30_000);
        stream.world.run_for(Span::from_millis(500));
    });
    assert_eq!(stream.found(), 1400);
    let probes = stream.counters().path_probes;
    stream.world.stacks[1].send(stream.world.now, other, &[1; 100_000]).unwrap();
    stream.world.run_for(Span::from_secs(1));
    let counters = stream.counters();
    assert_eq!((counters.path_probes, counters.black_holes), (probes, 1));
    stream.world.stacks[1].send(stream.world.now, other, &[1; 20_000]).unwrap();
    let frames = crate::world::sent(&mut stream.world.stacks[1], stream.world.now);
    assert_eq!(frames.iter().map(|frame| frame.len() - 14).max(), Some(1400));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    //~ ip: path MTU is probed from below, survives black holes, and is shared by connections to one peer (RFC 4821, 8899)
    #[test]
    fn a_path_that_changes_is_followed(
        remote in prop::sample::select(SERVER.to_vec()),
        profile in prop::collection::vec((1280usize..1600, 1usize..100_000), 1..5),
        loss in 0u64..3,
        reorder in 0u64..10,
        seed in any::<u64>(),
    ) {
        let mut stream = Stream::new(remote, seed);
        stream.world.faults = Faults { loss, reorder, ..Faults::default() };
        for &(mtu, len) in &profile {
            stream.world.packet_len_max = mtu;
            stream.send(len);
        }
        // A finished search starts again after ten minutes.
        let until = stream.world.now + Span::from_secs(1300);
        while stream.world.now < until {
            stream.send(100_000);
            stream.world.run_for(Span::from_secs(10));
        }
        let (found, mtu) = (stream.found(), profile.last().unwrap().0.min(1500));
        prop_assert!(found <= mtu && mtu - found < 4, "{} of {}", found, mtu);
        let (probes, most) = (stream.counters().path_probes, 25 * (profile.len() as u64 + 3));
        prop_assert!(probes <= most, "{} probes", probes);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn streams_arrive_whole_through_black_holes(
        remote in prop::sample::select(SERVER.to_vec()),
        mtu in 1280usize..1500,
        loss in 0u64..5,
        reorder in 0u64..20,
        seed in any::<u64>(),
    ) {
        transfer(remote, mtu, 60_000, Faults { loss, reorder, ..Faults::default() }, seed);
    }
}
