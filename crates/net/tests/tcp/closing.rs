//! Tests of closing: by FIN, by reset, in every state, and the release of all resources.

//~ tcp: RST and FIN in every state, half close and simultaneous close follow RFC 9293 §3.10.7

use net::stack::{CloseReason, Config};
use net::{ConnId, EventKind};
use queueing::Span;
use wire::tcp::{Flags, Options, Timestamps};

use crate::peer::{Peer, Seg};
use crate::world::{World, config};

/// Every state into which a peer can bring a connection, by name.
pub const STATES: [&str; 8] = [
    "SYN-RECEIVED",
    "ESTABLISHED",
    "FIN-WAIT-1",
    "FIN-WAIT-2",
    "CLOSE-WAIT",
    "CLOSING",
    "LAST-ACK",
    "TIME-WAIT",
];

/// Peer whose connection is in state `STATES[n]`.
pub fn in_state(n: usize) -> (Peer, Option<ConnId>) {
    if n == 0 {
        let mut peer = Peer::new(config(1));
        let answer = peer.exchange(peer.seg(Flags::SYN));
        peer.seq += 1;
        peer.ack = answer[0].seq + 1;
        return (peer, None);
    }
    let (mut peer, conn) = Peer::established();
    let fin = |peer: &mut Peer| {
        let fin = peer.seg(Flags::FIN | Flags::ACK);
        peer.seq += 1;
        peer.exchange(fin)
    };
    let close = |peer: &mut Peer| {
        peer.stack.close(peer.now, conn);
        assert!(peer.receive()[0].flags.contains(Flags::FIN));
        peer.ack += 1;
    };
    let ack = |peer: &mut Peer| {
        let ack = peer.seg(Flags::ACK);
        peer.exchange(ack);
    };
    match STATES[n] {
        "ESTABLISHED" => {}
        "FIN-WAIT-1" => {
            close(&mut peer);
            peer.ack = peer.ack - 1;
        }
        "FIN-WAIT-2" => {
            close(&mut peer);
            ack(&mut peer);
        }
        "CLOSE-WAIT" => drop(fin(&mut peer)),
        "CLOSING" => {
            close(&mut peer);
            peer.ack = peer.ack - 1;
            fin(&mut peer);
        }
        "LAST-ACK" => {
            fin(&mut peer);
            close(&mut peer);
            peer.ack = peer.ack - 1;
        }
        "TIME-WAIT" => {
            close(&mut peer);
            ack(&mut peer);
            fin(&mut peer);
        }
        other => unreachable!("{other}"),
    }
    (peer, Some(conn))
}

//~ tcp: every reset is counted, by sender and by refusal
#[test]
fn every_reset_is_counted_as_sent_or_received() {
    let counted = |peer: &Peer| {
        let c = peer.stack.counters();
        (c.resets, c.resets_received, c.refusals)
    };
    let resets = |received: &[Seg]| received.iter().filter(|s| s.flags.contains(Flags::RST)).count() as u64;
    for (n, name) in STATES.iter().enumerate() {
        let (mut peer, _) = in_state(n);
        peer.exchange(peer.seg(Flags::RST));
        assert_eq!(counted(&peer), (0, u64::from(*name != "TIME-WAIT"), 0), "reset by the peer in {name}");
        // As many resets as the peer receives.
        let (mut peer, conn) = in_state(n);
        let Some(conn) = conn else { continue };
        peer.stack.abort(peer.now, conn);
        let received = resets(&peer.receive());
        assert_eq!(counted(&peer), (received, 0, 0), "reset by the application in {name}");
        assert_eq!(
            received,
            u64::from(["ESTABLISHED", "FIN-WAIT-1", "FIN-WAIT-2", "CLOSE-WAIT"].contains(name))
        );
    }
    // Data for an application that has detached.
    let (mut peer, conn) = Peer::established();
    peer.stack.detach(peer.now, conn);
    peer.receive();
    let late = peer.exchange(peer.data(0, b"late"));
    assert_eq!((resets(&late), counted(&peer)), (1, (1, 0, 0)));
    // No listener; an unknown connection; an ACK that fits no handshake.
    let (mut peer, _) = in_state(0);
    let strange = Seg { ack: peer.ack + 5, ..peer.seg(Flags::ACK) };
    let stray = Seg { from: 999, ..peer.seg(Flags::ACK) };
    let refused = Seg { to: 81, ..peer.seg(Flags::SYN) };
    let received: u64 = [strange, stray, refused].map(|s| resets(&peer.exchange(s))).iter().sum();
    assert_eq!((received, counted(&peer)), (3, (0, 0, 3)));
    // A refused connect.
    let mut peer = Peer::new(config(1));
    peer.stack.connect(peer.now, "10.0.0.2:5000".parse().unwrap(), Some(6000)).unwrap();
    peer.ack = peer.receive()[0].seq + 1;
    peer.exchange(Seg { to: 6000, ..peer.seg(Flags::RST | Flags::ACK) });
    assert_eq!(counted(&peer), (0, 1, 0));
}

#[test]
fn reset_ends_every_state() {
    for (n, name) in STATES.iter().enumerate() {
        let (mut peer, conn) = in_state(n);
        let reset = peer.seg(Flags::RST);
        assert_eq!(peer.exchange(reset), [], "{name}: a reset is never answered");
        if *name == "TIME-WAIT" {
            assert_eq!((peer.stack.connections(), peer.stack.counters().time_wait_resets), (1, 1));
            continue; // RFC 1337
        }
        assert_eq!(peer.stack.connections(), 0, "{name}");
        let expected = match *name {
            "SYN-RECEIVED" => vec![],
            _ => vec![CloseReason::Reset],
        };
        assert_eq!(peer.closed(), expected, "{name}: reported once");
        if let Some(conn) = conn {
            assert!(peer.stack.send(peer.now, conn, b"x").is_err(), "{name}: the id is invalid");
        }
    }
}

//~ tcp: a RST out of sequence is challenged, within a budget per second (RFC 5961)
#[test]
fn reset_off_the_expected_sequence_number_is_challenged_in_every_state() {
    for (n, name) in STATES.iter().enumerate() {
        let (mut peer, _) = in_state(n);
        for flags in [Flags::RST, Flags::SYN] {
            if *name == "TIME-WAIT" {
                continue; // A later SYN opens a new connection, a reset does nothing.
            }
            if (*name, flags) == ("SYN-RECEIVED", Flags::SYN) {
                continue; // Back to LISTEN (RFC 9293 §3.10.7.4).
            }
            let blind = Seg { seq: peer.seq + 100, ..peer.seg(flags) };
            let answer = peer.exchange(blind);
            assert_eq!(peer.stack.connections(), 1, "{name} survives {flags:?}");
            assert_eq!(answer.last().map(|s| s.flags), Some(Flags::ACK), "{name} answers {flags:?}");
        }
    }
}

#[test]
fn fin_is_acknowledged_in_every_state() {
    for (n, name) in STATES.iter().enumerate().skip(1) {
        let (mut peer, _) = in_state(n);
        let closed_already = matches!(*name, "CLOSE-WAIT" | "CLOSING" | "LAST-ACK" | "TIME-WAIT");
        let seq = if closed_already { peer.seq - 1 } else { peer.seq };
        let fin = Seg { seq, ..peer.seg(Flags::FIN | Flags::ACK) };
        let answer = peer.exchange(fin);
        assert_eq!(answer.last().map(|s| s.ack), Some(seq + 1), "{name}");
    }
}

#[test]
fn half_closed_connection_still_sends_and_receives() {
    let (mut peer, conn) = in_state(4);
    let conn = conn.unwrap();
    assert_eq!(peer.kinds().last(), Some(&EventKind::PeerClosed));
    assert_eq!(peer.stack.send(peer.now, conn, b"still"), Ok(5));
    assert_eq!(peer.receive()[0].payload, b"still");

    let (mut peer, conn) = in_state(3);
    let conn = conn.unwrap();
    assert!(peer.stack.send(peer.now, conn, b"no").is_err());
    let data = peer.data(0, b"more");
    peer.exchange(data);
    assert_eq!(peer.stack.received(conn), b"more");
}

#[test]
fn unread_bytes_can_be_read_after_both_sides_closed() {
    let (mut peer, conn) = in_state(3);
    let conn = conn.unwrap();
    let last = Seg { flags: Flags::FIN | Flags::ACK, ..peer.data(0, b"last words") };
    peer.exchange(last);
    assert_eq!(peer.closed(), [], "not before all data is read");
    assert_eq!(peer.stack.received(conn), b"last words");
    peer.stack.consume(peer.now, conn, 10);
    peer.receive();
    assert_eq!(peer.closed(), [CloseReason::Finished]);
}

//~ programs: unread bytes can be read after a reset where configured
#[test]
fn unread_bytes_can_be_read_after_a_reset_where_that_is_configured() {
    for is_kept in [false, true] {
        let settings = Config { reads_after_reset: is_kept, ..config(1) };
        let (mut peer, conn) = Peer::established_with(settings, Options::NONE);
        let last = peer.data(0, b"last words");
        peer.exchange(last);
        peer.seq += 10;
        let reset = peer.seg(Flags::RST | Flags::ACK);
        peer.exchange(reset);
        if is_kept {
            assert_eq!(peer.closed(), [], "not before all data is read");
            assert_eq!(peer.stack.received(conn), b"last words");
            assert!(peer.stack.send(peer.now, conn, b"no").is_err());
            peer.stack.consume(peer.now, conn, 10);
            peer.receive();
        }
        assert_eq!((peer.closed(), peer.stack.connections()), (vec![CloseReason::Reset], 0));
    }
    // Unread data is not kept forever.
    let settings = Config { reads_after_reset: true, ..config(1) };
    let (mut peer, _) = Peer::established_with(settings, Options::NONE);
    let last = peer.data(0, b"last words");
    peer.exchange(last);
    peer.seq += 10;
    let reset = peer.seg(Flags::RST | Flags::ACK);
    peer.exchange(reset);
    peer.wait();
    assert_eq!((peer.closed(), peer.stack.connections()), (vec![CloseReason::Reset], 0));
    // A local abort closes at once.
    let settings = Config { reads_after_reset: true, ..config(1) };
    let (mut peer, conn) = Peer::established_with(settings, Options::NONE);
    let last = peer.data(0, b"last words");
    peer.exchange(last);
    peer.stack.abort(peer.now, conn);
    peer.receive();
    assert_eq!((peer.closed(), peer.stack.connections()), (vec![CloseReason::Aborted], 0));
}

#[test]
fn early_fin_waits_for_the_missing_data() {
    let (mut peer, conn) = Peer::established();
    let fin = Seg { flags: Flags::FIN | Flags::ACK, ..peer.data(3, b"def") };
    peer.exchange(fin);
    assert!(!peer.kinds().contains(&EventKind::PeerClosed));
    let first = peer.data(0, b"abc");
    let answer = peer.exchange(first);
    assert_eq!((answer[0].ack, peer.stack.received(conn)), (peer.seq + 7, &b"abcdef"[..]));
    assert_eq!(peer.kinds().last(), Some(&EventKind::PeerClosed));
}

//~ tcp: TIME-WAIT ends, is bounded, and gives way to a new connection (RFC 9293 §3.6.1, 6191)
#[test]
fn time_wait_ends_by_itself() {
    let (mut peer, _) = in_state(7);
    assert_eq!((peer.closed(), peer.stack.connections()), (vec![CloseReason::Finished], 1));
    peer.wait();
    assert_eq!((peer.closed().len(), peer.stack.connections()), (1, 0));
    assert_eq!(peer.stack.poll_timeout(), None);
}

//~ tcp: TIME-WAIT ends, is bounded, and gives way to a new connection (RFC 9293 §3.6.1, 6191)
#[test]
fn time_wait_is_replaced_by_a_new_connection() {
    let (mut peer, _) = in_state(7);
    let old = Seg { seq: peer.seq - 1, ..peer.seg(Flags::SYN) };
    assert_ne!(peer.exchange(old)[0].flags, Flags::SYN | Flags::ACK, "an old SYN does not reopen");
    peer.seq += 1000;
    peer.pass(Span::from_millis(1));
    peer.open(Options::NONE);
    assert_eq!((peer.stack.connections(), peer.stack.counters().time_wait_reused), (1, 1));
}

//~ tcp: TIME-WAIT ends, is bounded, and gives way to a new connection (RFC 9293 §3.6.1, 6191)
#[test]
fn time_wait_is_replaced_on_a_later_timestamp_even_with_an_older_number() {
    let stamp = |value| Options { timestamps: Some(Timestamps { value, echo: 0 }), ..Options::NONE };
    let (mut peer, conn) = Peer::established_with(config(1), stamp(10));
    let fin = Seg { options: stamp(11), ..peer.seg(Flags::FIN | Flags::ACK) };
    peer.stack.close(peer.now, conn);
    peer.receive();
    peer.exchange(fin);
    peer.seq += 1;
    peer.ack += 1;
    let ack = Seg { options: stamp(12), ..peer.seg(Flags::ACK) };
    peer.exchange(ack);
    assert_eq!(peer.closed(), [CloseReason::Finished]);
    peer.seq = peer.seq - 5000;
    peer.pass(Span::from_millis(1));
    peer.open(stamp(13));
    assert_eq!(peer.stack.counters().time_wait_reused, 1);
}

#[test]
fn abort_resets_and_both_sides_are_notified() {
    let mut world = World::perfect();
    let (server, client) = world.connect();
    world.stacks[0].abort(world.now, server);
    let events = world.run_for(Span::from_millis(1));
    let last = |side: usize| events[side].last().map(|e| (e.conn, e.kind));
    assert_eq!(last(0), Some((server, EventKind::Closed(CloseReason::Aborted))));
    assert_eq!(last(1), Some((client, EventKind::Closed(CloseReason::Reset))));
    assert_eq!(world.stacks.each_ref().map(net::Stack::connections), [0, 0]);
}

#[test]
fn stale_ids_do_nothing() {
    let (mut peer, conn) = Peer::established();
    peer.stack.abort(peer.now, conn);
    peer.receive();
    let again = peer.stack.connect(peer.now, "10.0.0.2:9".parse().unwrap(), None).unwrap();
    assert_eq!(again.index, conn.index, "the slot is reused");
    let stack = &mut peer.stack;
    assert!(stack.send(peer.now, conn, b"x").is_err());
    stack.consume(peer.now, conn, 1);
    stack.close(peer.now, conn);
    stack.abort(peer.now, conn);
    stack.attach(conn, None);
    stack.set_classifier(conn, None);
    assert!(stack.received(conn).is_empty() && stack.private(conn).is_none() && stack.flow(conn).is_none());
    assert_eq!(stack.connections(), 1);
}

//~ tcp: a silent peer is given up after 100 s or more (RFC 1122 §4.2.3.5)
#[test]
fn dead_peer_does_not_hold_a_half_closed_connection_for_ever() {
    let (mut peer, _) = in_state(3);
    let start = peer.now;
    // A live peer that answers the probes is not timed out.
    for _ in 0..20 {
        let probe = peer.wait();
        assert_eq!((probe.len(), probe[0].payload.len()), (1, 0));
        peer.exchange(peer.seg(Flags::ACK));
    }
    assert!(peer.now.since(start) > Span::from_secs(20 * 59));
    let silent = peer.now;
    while peer.closed().is_empty() {
        peer.wait();
        assert!(peer.now.since(silent) < Span::from_secs(130), "FIN-WAIT-2 has an end");
    }
    assert_eq!((peer.closed(), peer.stack.connections()), (vec![CloseReason::TimedOut], 0));
}

//~ tcp: TIME-WAIT ends, is bounded, and gives way to a new connection (RFC 9293 §3.6.1, 6191)
#[test]
fn oldest_time_wait_is_evicted() {
    let mut few = config(1);
    few.time_wait_max = 3;
    let mut peer = Peer::new(few);
    for port in 6000..6010 {
        peer.port = port;
        let conn = peer.open(Options::NONE);
        peer.stack.close(peer.now, conn);
        peer.receive();
        peer.ack += 1;
        peer.exchange(peer.seg(Flags::FIN | Flags::ACK));
        peer.seq += 1;
        peer.pass(Span::from_millis(1));
        peer.stack.handle_timeout(peer.now);
        assert!(peer.stack.connections() <= 3);
    }
    assert_eq!(peer.closed(), [CloseReason::Finished; 10]);
    // The last three are still in TIME-WAIT: a repeated FIN is acknowledged, not refused.
    let again = Seg { seq: peer.seq - 1, ..peer.seg(Flags::FIN | Flags::ACK) };
    assert_eq!(peer.exchange(again)[0].flags, Flags::ACK);
}

#[test]
fn both_sides_may_close_at_once() {
    let mut world = World::perfect();
    let (server, client) = world.connect();
    world.stacks[0].send(world.now, server, b"from the server").unwrap();
    world.stacks[1].send(world.now, client, b"from the client").unwrap();
    world.stacks[0].close(world.now, server);
    world.stacks[1].close(world.now, client);
    world.run_for(Span::from_millis(1));
    // Both FINs crossed: each side reads the other's data, then has finished.
    for (side, id, message) in [(0, server, b"from the client"), (1, client, b"from the server")] {
        assert_eq!(world.stacks[side].received(id), message);
        world.stacks[side].consume(world.now, id, message.len());
    }
    let events = world.run_for(Span::from_millis(100));
    for (side, id) in [(0, server), (1, client)] {
        let last = events[side].last().map(|e| (e.conn, e.kind));
        assert_eq!(last, Some((id, EventKind::Closed(CloseReason::Finished))), "side {side}");
        assert_eq!(world.stacks[side].connections(), 1, "TIME-WAIT on both sides");
        assert_eq!(world.stacks[side].counters().retransmissions, 0, "side {side}");
    }
    world.run_for(Span::from_secs(2));
    assert_eq!(world.stacks.each_ref().map(net::Stack::connections), [0, 0]);
}

//~ tcp: a RST out of sequence is challenged, within a budget per second (RFC 5961)
#[test]
fn challenges_have_a_budget_for_each_second() {
    let few = net::stack::Config { challenges_per_second_max: 5, answers_max: 100, ..config(1) };
    let (mut peer, conn) = Peer::established_with(few, Options::NONE);
    for second in 1..=2 {
        for flags in [Flags::RST, Flags::SYN, Flags::RST, Flags::SYN] {
            for _ in 0..10 {
                let blind = Seg { seq: peer.seq + 100, ..peer.seg(flags) };
                peer.exchange(blind);
            }
        }
        let unsent = Seg { ack: peer.ack + 5000, ..peer.seg(Flags::ACK) };
        assert_eq!(peer.exchange(unsent), [], "all reasons share one budget");
        assert_eq!(peer.stack.counters().challenge_acks, 5 * second);
        peer.pass(Span::from_secs(1));
    }
    // Valid data is answered all the same.
    let data = peer.data(0, b"fine");
    assert_eq!(peer.exchange(data)[0].ack, peer.seq + 4);
    assert_eq!(peer.stack.received(conn), b"fine");
}
