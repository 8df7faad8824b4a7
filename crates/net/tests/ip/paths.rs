//! Paths that carry less than the link: routers that say so, routers that do
//! not, and liars.

use net::stack::Config;
use net::wire::icmp::Cause;
use net::{ConnId, EventKind};
use proptest::prelude::*;
use queueing::Span;

use crate::host::{Host, PAIRS, Sent};
use crate::world::{Faults, SERVER, World, config};

/// A world in which stack 1 sends `len` bytes and nothing larger than `mtu` passes.
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
        assert!(world.step(), "{remote} {mtu} {faults:?} seed {seed}: everything sleeps");
    }
    panic!("{remote} {mtu} {faults:?} seed {seed}: no end in sight");
}

#[test]
fn a_path_that_swallows_large_packets_is_found_out() {
    for (remote, mtu) in [(SERVER[0], 1400), (SERVER[0], 600), (SERVER[1], 1400), (SERVER[1], 1280)] {
        let start = World::perfect().now;
        let world = transfer(remote, mtu, 300_000, Faults::default(), 1);
        assert!(world.stacks[1].counters().black_holes >= 1, "{remote} {mtu}");
        assert!(world.now.since(start) < Span::from_secs(10), "{remote} {mtu}: {:?}", world.now.since(start));
    }
}

#[test]
fn a_moment_without_any_answer_is_no_black_hole() {
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
fn the_next_connection_to_the_same_peer_knows() {
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

/// A host with a connection to the peer that has a full segment in flight.
fn in_flight(pair: (std::net::IpAddr, std::net::IpAddr)) -> (Host, ConnId, Sent) {
    let mut host = Host::introduced(config(1));
    let conn = host.connect(pair, 1460);
    host.stack.send(host.now, conn, &[9; 2000]).unwrap();
    let sent = host.hear();
    let large = sent.into_iter().find(|s| s.packet.len() == 1500).expect("a full packet");
    (host, conn, large)
}

#[test]
fn a_router_that_says_so_is_heard_and_the_segment_goes_again_in_smaller_ones() {
    for pair in PAIRS {
        let (mut host, conn, large) = in_flight(pair);
        let cwnd = host.stack.flow(conn).unwrap().cwnd;
        crate::icmp::complain(&mut host, pair, Cause::TooBig { mtu: 1300 }, &large.packet);
        let again = host.hear();
        assert!(!again.is_empty() && again.iter().all(|s| s.packet.len() <= 1300), "{again:?}");
        assert_eq!(host.stack.flow(conn).unwrap().cwnd, cwnd, "that is no congestion");
        let resent: usize = again.iter().map(|s| s.payload.len() - 20).sum();
        assert!(resent >= large.payload.len() - 20, "all of it");
    }
}

#[test]
fn an_old_router_that_names_no_size_is_heard() {
    let (mut host, _, large) = in_flight(PAIRS[0]);
    crate::icmp::complain(&mut host, PAIRS[0], Cause::TooBig { mtu: 0 }, &large.packet);
    let again = host.hear();
    assert_eq!(again.iter().map(|s| s.packet.len()).max(), Some(1492));
}

#[test]
fn liars_shrink_nothing() {
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
        // Smaller than any path: IPv6 does not believe it, IPv4 only so far.
        crate::icmp::complain(&mut host, pair, Cause::TooBig { mtu: 68 }, &large.packet);
        let again = host.hear();
        let smallest = again.iter().map(|s| s.packet.len()).max();
        assert_eq!(smallest, if pair.0.is_ipv4() { Some(552) } else { None });
    }
}

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
