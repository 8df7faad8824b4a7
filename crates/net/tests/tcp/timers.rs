//! Tests of delays and timeouts: delayed acknowledgements, Nagle, keep-alive, user timeout, and
//! peers that do not close.

//~ tcp: delayed ACKs, keep-alive and user timeout are options of a stack or connection (RFC 9293 §3.8, 5482)

use net::stack::{CloseReason, Config, KeepAlive};
use net::{ConnId, EventKind};
use queueing::Span;
use wire::tcp::{Flags, Options, Timestamps};

use crate::peer::{Peer, Seg};
use crate::world::{World, config};

/// Runs every timer until `ends` is true; returns the time that it took.
fn time_to_end(peer: &mut Peer, ends: impl Fn(&Peer) -> bool) -> Span {
    let start = peer.now;
    for _ in 0..10_000 {
        peer.receive();
        if ends(peer) {
            return peer.now.since(start);
        }
        peer.now = peer.now.max(peer.stack.poll_timeout().expect("a timer runs"));
        peer.stack.handle_timeout(peer.now);
    }
    panic!("the connection never ends");
}

/// Established peer after the initial quick acknowledgements, with ACKs delayed up to 40 ms.
fn delaying() -> (Peer, ConnId) {
    let delayed_ack = Some(Span::from_millis(40));
    let options = Options { mss: Some(1000), ..Options::NONE };
    let (mut peer, conn) = Peer::established_with(Config { delayed_ack, ..config(1) }, options);
    for _ in 0..16 {
        let data = peer.data(0, &[1; 1000]);
        assert_eq!(peer.exchange(data).len(), 1, "no delay at the start");
        peer.seq += 1000;
        peer.stack.consume(peer.now, conn, 1000);
    }
    (peer, conn)
}

#[test]
fn second_full_segment_is_acknowledged_and_a_single_one_after_the_delay() {
    let (mut peer, _) = delaying();
    let first = peer.data(0, &[1; 1000]);
    assert_eq!(peer.exchange(first), []);
    peer.seq += 1000;
    peer.pass(Span::from_millis(30));
    let second = peer.data(0, &[1; 1000]);
    let acks = peer.exchange(second);
    peer.seq += 1000;
    assert_eq!((acks.len(), acks[0].ack), (1, peer.seq));
    let third = peer.data(0, b"tail");
    assert_eq!(peer.exchange(third), []);
    let (start, acks) = (peer.now, peer.wait());
    assert_eq!((acks.len(), acks[0].ack), (1, peer.seq + 4));
    let waited = peer.now.since(start);
    assert!(waited >= Span::from_millis(40) && waited < Span::from_millis(42), "{waited:?}");
    assert_eq!(peer.stack.counters().delayed_acks, 1);
}

#[test]
fn small_segments_do_not_postpone_the_acknowledgement() {
    let (mut peer, _) = delaying();
    let start = peer.now;
    let mut acked = None;
    for _ in 0..10 {
        let byte = peer.data(0, b"x");
        peer.inject(&byte);
        peer.seq += 1;
        peer.pass(Span::from_millis(10));
        peer.stack.handle_timeout(peer.now);
        if !peer.receive().is_empty() {
            acked.get_or_insert(peer.now.since(start));
        }
    }
    assert!(acked.is_some_and(|at| at <= Span::from_millis(50)), "{acked:?}");
}

#[test]
fn delayed_acknowledgement_is_sent_with_the_response() {
    let (mut peer, conn) = delaying();
    let question = peer.data(0, b"question");
    assert_eq!(peer.exchange(question), []);
    peer.stack.send(peer.now, conn, b"answer").unwrap();
    let answer = peer.receive();
    assert_eq!((answer.len(), answer[0].ack), (1, peer.seq + 8));
    peer.ack += 6;
    peer.seq += 8;
    peer.exchange(peer.seg(Flags::ACK));
    assert_eq!((peer.wait(), peer.stack.counters().delayed_acks), (vec![], 0));
}

#[test]
fn gaps_and_their_filling_are_acknowledged_at_once() {
    let (mut peer, _) = delaying();
    let early = peer.data(3, b"def");
    assert_eq!(peer.exchange(early)[0].ack, peer.seq);
    let first = peer.data(0, b"abc");
    assert_eq!(peer.exchange(first)[0].ack, peer.seq + 6);
    peer.seq += 6;
    let fin = Seg { flags: Flags::FIN | Flags::ACK, ..peer.data(0, b"end") };
    assert_eq!(peer.exchange(fin)[0].ack, peer.seq + 4);
}

//~ tcp: Nagle's algorithm delays small segments while data is in flight, if enabled (RFC 9293 §3.7.4)
#[test]
fn nagle_holds_small_segments_while_data_is_in_flight() {
    let (mut peer, conn) = Peer::established();
    let lens = |received: &[Seg]| received.iter().map(|s| s.payload.len()).collect::<Vec<_>>();
    peer.stack.set_nodelay(peer.now, conn, false);
    peer.stack.send(peer.now, conn, b"first").unwrap();
    assert_eq!(lens(&peer.receive()), [5]);
    for _ in 0..3 {
        peer.stack.send(peer.now, conn, b"more").unwrap();
        assert_eq!(peer.receive(), []);
    }
    peer.ack += 5;
    let ack = peer.seg(Flags::ACK);
    assert_eq!(lens(&peer.exchange(ack)), [12], "all at once");
    peer.stack.send(peer.now, conn, &[0; 1010]).unwrap();
    assert_eq!(lens(&peer.receive()), [1000], "a full segment does not wait");
    peer.stack.set_nodelay(peer.now, conn, true);
    assert_eq!(lens(&peer.receive()), [10]);
    // FIN is not delayed either.
    peer.stack.set_nodelay(peer.now, conn, false);
    peer.stack.send(peer.now, conn, b"last").unwrap();
    peer.stack.close(peer.now, conn);
    let last = peer.receive();
    assert!(last[0].flags.contains(Flags::FIN) && last[0].payload == b"last");
}

//~ tcp: keep-alive intervals can be set for one connection (RFC 9293 §3.8.4, 1122 §4.2.3.6)
#[test]
fn keep_alive_interval_is_set_per_connection() {
    let (mut peer, conn) = Peer::established();
    let requested = KeepAlive { idle: Span::from_secs(5), interval: Span::from_secs(1), count: 3 };
    peer.stack.set_keep_alive(peer.now, conn, Some(requested));
    let end = time_to_end(&mut peer, |peer| !peer.closed().is_empty());
    assert!(end >= Span::from_secs(8) && end < Span::from_millis(8100), "{end:?}");
    assert_eq!((peer.closed(), peer.stack.counters().probes), (vec![CloseReason::TimedOut], 3));
}

#[test]
fn the_maximum_number_of_keep_alive_probes_ends_the_connection() {
    let (mut peer, conn) = Peer::established();
    let requested = KeepAlive { idle: Span::from_secs(5), interval: Span::from_secs(1), count: u8::MAX };
    peer.stack.set_keep_alive(peer.now, conn, Some(requested));
    time_to_end(&mut peer, |peer| !peer.closed().is_empty());
    assert_eq!((peer.closed(), peer.stack.counters().probes), (vec![CloseReason::TimedOut], 255));
}

#[test]
fn keep_alive_can_be_disabled_per_connection() {
    let keep_alive = Some(Span::from_secs(8));
    let (mut peer, conn) = Peer::established_with(Config { keep_alive, ..config(1) }, Options::NONE);
    peer.stack.set_keep_alive(peer.now, conn, None);
    assert_eq!((peer.wait(), peer.closed()), (vec![], vec![]));
}

#[test]
fn user_timeout_ends_a_connection_whose_data_is_lost() {
    let (mut peer, conn) = Peer::established();
    peer.stack.set_user_timeout(peer.now, conn, Some(Span::from_secs(3)));
    peer.stack.send(peer.now, conn, b"anybody there?").unwrap();
    let end = time_to_end(&mut peer, |peer| !peer.closed().is_empty());
    assert!(end >= Span::from_secs(3) && end < Span::from_millis(3100), "{end:?}");
    assert_eq!(peer.closed(), [CloseReason::TimedOut]);
}

#[test]
fn user_timeout_ends_a_connection_whose_window_stays_closed_and_progress_restarts_it() {
    let user_timeout = Some(Span::from_secs(10));
    let options = Options { mss: Some(1000), ..Options::NONE };
    let (mut peer, conn) = Peer::established_with(Config { user_timeout, ..config(1) }, options);
    peer.stack.send(peer.now, conn, &[0; 3000]).unwrap();
    peer.receive();
    for ack in [1000, 2000] {
        // Two windows, each after some seconds.
        peer.pass(Span::from_secs(7));
        peer.stack.handle_timeout(peer.now);
        peer.receive();
        peer.exchange(Seg { ack: peer.ack + ack, ..peer.seg(Flags::ACK) });
    }
    peer.ack += 3000;
    peer.window = 0;
    peer.exchange(peer.seg(Flags::ACK));
    peer.stack.send(peer.now, conn, b"more").unwrap();
    peer.receive();
    let start = peer.now;
    while peer.closed().is_empty() {
        if !peer.wait().is_empty() {
            peer.exchange(peer.seg(Flags::ACK));
        }
        assert!(peer.now.since(start) < Span::from_secs(12), "even if every probe is answered");
    }
    assert!(peer.now.since(start) >= Span::from_secs(10));
}

#[test]
fn detached_connection_ends_in_fin_wait_2_though_its_peer_is_alive() {
    let (mut peer, conn) = Peer::established();
    peer.stack.send(peer.now, conn, b"bye").unwrap();
    peer.stack.detach(peer.now, conn);
    assert!(peer.stack.send(peer.now, conn, b"x").is_err(), "the id is invalid");
    let last = peer.receive();
    assert!(last[0].payload == b"bye" && last[0].flags.contains(Flags::FIN));
    peer.ack += 4;
    peer.exchange(peer.seg(Flags::ACK));
    // The peer answers every probe and never closes.
    let start = peer.now;
    while peer.stack.connections() > 0 {
        for probe in peer.wait() {
            assert_eq!(probe.payload, b"", "{probe:?}");
            peer.exchange(peer.seg(Flags::ACK));
        }
        assert!(peer.now.since(start) <= Span::from_secs(61));
    }
    assert!(peer.now.since(start) >= Span::from_secs(60));
    assert_eq!((peer.closed(), peer.stack.counters().fin_wait_timeouts), (vec![], 1), "no event is reported");
}

#[test]
fn detached_connection_closes_normally_when_its_peer_closes() {
    let mut world = World::perfect();
    let (server, client) = world.connect();
    world.stacks[0].detach(world.now, server);
    world.run_for(Span::from_millis(1));
    world.stacks[1].close(world.now, client);
    let events = world.run_for(Span::from_secs(2));
    assert!(events[1].iter().any(|e| e.kind == EventKind::Closed(CloseReason::Finished)));
    assert!(events[0].iter().all(|e| e.conn != server), "{:?}", events[0]);
    assert_eq!(world.stacks.each_ref().map(net::Stack::connections), [0, 0]);
}

#[test]
fn data_for_a_closed_reader_resets_the_connection() {
    // Data that arrives after the application has detached.
    let (mut peer, conn) = Peer::established();
    peer.stack.detach(peer.now, conn);
    peer.receive();
    peer.ack += 1;
    let late = peer.data(0, b"late");
    assert_eq!(peer.exchange(late)[0].flags, Flags::RST);
    assert_eq!((peer.stack.connections(), peer.closed()), (0, vec![]));
    // Data that had arrived before.
    let (mut peer, conn) = Peer::established();
    let unread = peer.data(0, b"unread");
    peer.exchange(unread);
    peer.stack.detach(peer.now, conn);
    assert!(peer.receive()[0].flags.contains(Flags::RST));
    assert_eq!((peer.stack.connections(), peer.closed()), (0, vec![]));
}

#[test]
fn detaching_works_in_every_state() {
    for n in 1..8 {
        let (mut peer, conn) = crate::closing::in_state(n);
        peer.stack.detach(peer.now, conn.unwrap());
        peer.receive();
        for _ in 0..100 {
            peer.wait();
        }
        assert_eq!(peer.stack.connections(), 0, "state {n}");
        let reported = usize::from(n == 7);
        assert_eq!(peer.closed().len(), reported, "state {n}: only earlier events are reported");
    }
}

#[test]
fn data_and_fin_in_the_syn_are_accepted() {
    let mut peer = Peer::new(config(1));
    let conn = peer.stack.connect(peer.now, "10.0.0.2:7".parse().unwrap(), Some(9)).unwrap();
    let syn = peer.receive().remove(0);
    let answer = Seg {
        from: 7,
        to: 9,
        seq: peer.seq,
        ack: syn.seq + 1,
        flags: Flags::SYN | Flags::ACK | Flags::FIN,
        payload: b"early".to_vec(),
        options: Options { timestamps: Some(Timestamps { value: 5, echo: 0 }), ..Options::NONE },
        ..peer.seg(Flags::ACK)
    };
    let received = peer.exchange(answer);
    assert_eq!(received.last().map(|s| s.ack), Some(peer.seq + 7));
    assert_eq!(peer.stack.received(conn), b"early");
    let kinds = [EventKind::Connected, EventKind::Readable { fresh: 5 }, EventKind::PeerClosed];
    assert_eq!(peer.kinds(), kinds);
}

/// Number of frames sent by early egress, or by egress.
fn leave(peer: &mut Peer, early: bool) -> usize {
    let mut outbox = crate::world::Outbox { frames: Vec::new(), space: usize::MAX };
    match early {
        true => peer.stack.egress_early(peer.now, &mut outbox),
        false => peer.stack.egress(peer.now, &mut outbox),
    }
}

#[test]
fn acknowledgement_is_sent_with_a_response_within_a_round() {
    let (mut peer, conn) = Peer::established();
    let question = peer.data(0, b"question");
    peer.inject(&question);
    assert!(peer.stack.wants_egress());
    assert_eq!(leave(&mut peer, true), 0, "the round has not ended");
    peer.stack.send(peer.now, conn, b"answer").unwrap();
    let answer = peer.receive();
    assert_eq!((answer.len(), answer[0].ack, &answer[0].payload[..]), (1, peer.seq + 8, &b"answer"[..]));
    assert!(!peer.stack.wants_egress());
}

#[test]
fn acknowledgement_waits_for_at_most_one_round() {
    let (mut peer, _) = Peer::established();
    for (early, left) in [(&[true, true][..], &[0, 1][..]), (&[true, false], &[0, 1]), (&[false], &[1])] {
        let data = peer.data(0, b"data");
        peer.inject(&data);
        peer.seq += 4;
        let frames: Vec<usize> = early.iter().map(|early| leave(&mut peer, *early)).collect();
        assert_eq!(frames, left, "early: {early:?}");
        assert!(!peer.stack.wants_egress());
    }
    // An ACK that reports or closes a gap is not delayed at all.
    let early = peer.data(4, b"late");
    peer.inject(&early);
    assert_eq!(leave(&mut peer, true), 1);
    let first = peer.data(0, b"gone");
    peer.inject(&first);
    assert_eq!(leave(&mut peer, true), 1);
}
