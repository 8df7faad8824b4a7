//! Tests of opening: active, passive, simultaneous, refused and timed out.

//~ tcp: handshakes as client, server and both at once survive repeated, refused and lost SYNs (RFC 9293 §3.5)

use net::stack::{CloseReason, Config, ConnectError, ListenError, ListenOptions, SynCookies, Unreachable};
use net::{EventKind, Stack};
use queueing::{Span, Time};
use wire::tcp::{Flags, Options, Seq, Timestamps};

use crate::peer::{Peer, Seg};
use crate::world::{World, config, sent};

#[test]
fn handshake_notifies_both_sides_once() {
    let mut world = World::perfect();
    let (server, client) = world.connect();
    assert_eq!(world.stacks[0].tuple(server).unwrap().local_port, 80);
    assert!((32_768..61_000).contains(&world.stacks[1].tuple(client).unwrap().local_port));
    assert_eq!(world.stacks.each_ref().map(Stack::connections), [1, 1]);
}

#[test]
fn both_sides_may_open_at_once() {
    let mut world = World::perfect();
    // Both know each other's hardware address, so that the SYNs cross.
    let _ = world.connect();
    let ids = [
        world.stacks[0].connect(world.now, "10.0.0.2:7000".parse().unwrap(), Some(6000)).unwrap(),
        world.stacks[1].connect(world.now, "10.0.0.1:6000".parse().unwrap(), Some(7000)).unwrap(),
    ];
    let events = world.run_for(Span::from_secs(3));
    for (side, id) in ids.into_iter().enumerate() {
        let kinds: Vec<EventKind> = events[side].iter().map(|e| e.kind).collect();
        assert_eq!(kinds, [EventKind::Connected], "side {side}");
        assert_eq!(world.stacks[side].send(world.now, id, b"hello"), Ok(5));
    }
    world.run_for(Span::from_millis(10));
    for (stack, id) in world.stacks.iter().zip(ids) {
        assert_eq!(stack.received(id), b"hello");
    }
}

//~ tcp: initial sequence numbers are keyed and differ by tuple and time (RFC 6528)
#[test]
fn sequence_numbers_start_differently_for_every_tuple_and_time() {
    let mut peer = Peer::new(config(1));
    let mut start = |port, ms| {
        peer.port = port;
        peer.pass(Span::from_millis(ms));
        let answer = peer.exchange(peer.seg(Flags::SYN));
        let reset = Seg { seq: peer.seq + 1, ..peer.seg(Flags::RST) };
        peer.exchange(reset);
        answer[0].seq
    };
    let (a, b, c) = (start(1000, 0), start(1001, 0), start(1000, 4));
    assert_ne!(a, b);
    assert_eq!(c - a, 1000, "a tick each 4 µs (RFC 6528)");
}

#[test]
fn secret_keys_the_sequence_numbers() {
    // First sequence number for one tuple at one instant; only the secret differs.
    let start = |secret, port| {
        let mut peer = Peer::new(Config { secret: [secret; 16], ..config(1) });
        peer.port = port;
        peer.exchange(peer.seg(Flags::SYN))[0].seq
    };
    assert_eq!(start(1, 1000), start(1, 1000));
    assert_ne!(start(1, 1000), start(2, 1000));
    // The distance between two tuples' first numbers also depends on the secret.
    assert_ne!(start(1, 1000) - start(1, 1001), start(2, 1000) - start(2, 1001));
}

#[test]
fn ephemeral_ports_start_at_a_hash_of_secret_and_peer() {
    let first = |secret, remote: &str| {
        let mut stack = Stack::new(Config { secret: [secret; 16], ..config(1) });
        let mut port = || {
            let conn = stack.connect(Time::ZERO, remote.parse().unwrap(), None).unwrap();
            stack.tuple(conn).unwrap().local_port
        };
        let ports = (port(), port());
        assert!(ports.1 == ports.0 + 1 || ports == (60_999, 32_768), "consecutive: {ports:?}");
        ports.0
    };
    assert_eq!(first(1, "10.0.0.9:80"), first(1, "10.0.0.9:80"));
    assert_ne!(first(1, "10.0.0.9:80"), first(2, "10.0.0.9:80"));
    assert_ne!(first(1, "10.0.0.9:80"), first(1, "10.0.0.8:80"));
    assert_ne!(first(1, "10.0.0.9:80"), first(1, "10.0.0.9:81"));
}

#[test]
fn fin_in_syn_received_opens_and_half_closes() {
    let (mut peer, _) = crate::closing::in_state(0);
    let last = Seg { flags: Flags::FIN | Flags::ACK, ..peer.data(0, b"all") };
    let answer = peer.exchange(last);
    assert_eq!(answer.last().map(|s| (s.flags, s.ack)), Some((Flags::ACK, peer.seq + 4)));
    let conn = peer.events[0].conn;
    let readable = EventKind::Readable { fresh: 3 };
    assert!(
        matches!(peer.kinds()[..], [EventKind::Accepted(_), kind, EventKind::PeerClosed] if kind == readable)
    );
    assert_eq!(peer.stack.received(conn), b"all");
    assert_eq!(peer.stack.send(peer.now, conn, b"answer"), Ok(6));
    assert_eq!(peer.receive()[0].payload, b"answer");
}

//~ tcp: an unacceptable ACK in SYN-SENT is reset and the SYN is repeated after 2 ms, once (RFC 9293 §3.10.7.3)
#[test]
fn a_peer_with_an_old_connection_is_reset_and_sent_the_syn_again_at_once() {
    // Acknowledgement numbers before our SYN or beyond it, in an ACK or in a reset (the answer to
    // an answer of ours).
    for (off, flags, resets) in [
        (-1000, Flags::ACK, 1),
        (0, Flags::ACK, 1),
        (1000, Flags::ACK, 1),
        (1000, Flags::SYN | Flags::ACK, 1),
        (1000, Flags::RST | Flags::ACK, 0),
    ] {
        let mut peer = Peer::new(config(1));
        let remote = "10.0.0.2:5000".parse().unwrap();
        peer.stack.connect(peer.now, remote, Some(6000)).unwrap();
        let syn = peer.receive().remove(0);
        peer.ack = syn.seq + off as u32;
        for first in [true, false] {
            let answers = peer.exchange(Seg { to: 6000, ..peer.seg(flags) });
            assert_eq!(answers.len(), resets, "{off} {flags:?}");
            assert!(answers.iter().all(|s| s.flags == Flags::RST && s.seq == peer.ack));
            let start = peer.now;
            let again = peer.wait();
            assert_eq!((again[0].flags, again[0].seq), (syn.flags, syn.seq), "{off} {flags:?}");
            let waited = peer.now.since(start);
            let soon = waited <= Span::from_millis(3);
            assert_eq!(soon, first, "once only: {off} {flags:?} after {waited}");
        }
    }
}

#[test]
fn a_restarted_host_reconnects_while_its_peer_has_the_old_connection() {
    let mut world = World::perfect();
    let remote = "10.0.0.1:80".parse().unwrap();
    world.stacks[0].listen(80, ListenOptions::default()).unwrap();
    world.stacks[1].connect(world.now, remote, Some(7000)).unwrap();
    world.run_for(Span::from_millis(10));
    world.stacks[1] = Stack::new(Config { secret: [9; 16], ..config(2) });
    world.stacks[1].connect(world.now, remote, Some(7000)).unwrap();
    let events = world.run_for(Span::from_millis(10));
    assert!(events[1].iter().any(|e| e.kind == EventKind::Connected), "{events:?}");
    assert!(events[0].iter().any(|e| e.kind == EventKind::Closed(CloseReason::Reset)), "{events:?}");
}

//~ ip: frames of another VLAN are ignored; a tag that only sets priority changes nothing (802.1Q)
#[test]
fn frames_of_a_vlan_are_ignored_and_a_priority_tag_changes_nothing() {
    let tagged = |frame: &[u8], tci: u16| {
        let tag = [0x81, 0, (tci >> 8) as u8, tci as u8];
        [&frame[..12], &tag, &frame[12..]].concat()
    };
    let none = Peer::new(config(1));
    let syn = crate::peer::frame(&none.seg(Flags::SYN));
    let question = crate::peer::introduction([2, 0, 0, 0, 0, 2], [10, 0, 0, 2].into());
    for frame in [&syn, &question] {
        for (tci, accepted) in [(0, true), (7 << 13, true), (1, false), (5 | 7 << 13, false), (4095, false)] {
            let mut peer = Peer::new(config(1));
            peer.raw(&tagged(frame, tci));
            assert_eq!(sent(&mut peer.stack, peer.now).len(), usize::from(accepted), "{tci:#x}");
            assert_eq!(peer.stack.counters().not_for_us, u64::from(!accepted), "{tci:#x}");
        }
    }
    // A SYN of another VLAN that a guard sheds gets no reset.
    let mut peer = Peer::new(config(1));
    let meta = crate::world::meta(peer.now, &syn);
    peer.stack.refuse_syn(&tagged(&syn, 5), &meta);
    assert!(sent(&mut peer.stack, peer.now).is_empty());
}

#[test]
fn unknown_port_refuses() {
    let mut world = World::perfect();
    let conn = world.stacks[1].connect(world.now, "10.0.0.1:81".parse().unwrap(), None).unwrap();
    let events = world.run_for(Span::from_millis(10));
    assert_eq!(
        events[1].last().map(|e| (e.conn, e.kind)),
        Some((conn, EventKind::Closed(CloseReason::Reset)))
    );
    assert_eq!(world.stacks[0].counters().no_listener, 1);
    assert_eq!(world.stacks[1].connections(), 0);
}

#[test]
fn silent_peer_times_out() {
    let mut peer = Peer::new(config(1));
    let conn = peer.stack.connect(peer.now, "10.0.0.2:9".parse().unwrap(), None).unwrap();
    assert_eq!(peer.receive().len(), 1);
    while !peer.wait().is_empty() {}
    assert_eq!(
        peer.events.last().map(|e| (e.conn, e.kind)),
        Some((conn, EventKind::Closed(CloseReason::TimedOut)))
    );
    assert_eq!(peer.stack.connections(), 0);
}

#[test]
fn neighbor_that_does_not_answer_is_unreachable() {
    let mut stack = Stack::new(config(1));
    let conn = stack.connect(Time::ZERO, "10.0.0.9:80".parse().unwrap(), None).unwrap();
    crate::world::sent(&mut stack, Time::ZERO);
    for _ in 0..10_000 {
        let Some(next) = stack.poll_timeout() else { break };
        stack.handle_timeout(next);
        crate::world::sent(&mut stack, next);
    }
    let event = stack.poll_event().unwrap();
    assert_eq!(
        (event.conn, event.kind),
        (conn, EventKind::Closed(CloseReason::Unreachable(Unreachable::Host)))
    );
    assert_eq!((stack.connections(), stack.poll_event()), (0, None));
}

#[test]
fn backlog_bounds_half_open_connections() {
    let mut peer = Peer::new(Config { syn_cookies: SynCookies::Off, ..config(1) });
    let options = ListenOptions { backlog: 3, ..ListenOptions::default() };
    peer.stack.listen(81, options).unwrap();
    for port in 0..10 {
        let syn = Seg { from: 1000 + port, to: 81, ..peer.seg(Flags::SYN) };
        peer.exchange(syn);
    }
    assert_eq!((peer.stack.connections(), peer.stack.counters().backlog_drops), (3, 7));
    // A reset and an accepted, polled connection each free a slot.
    let reset = Seg { from: 1000, to: 81, seq: peer.seq + 1, ..peer.seg(Flags::RST) };
    peer.exchange(reset);
    let syn = Seg { from: 1009, to: 81, ..peer.seg(Flags::SYN) };
    assert_eq!(peer.exchange(syn)[0].flags, Flags::SYN | Flags::ACK);
    assert_eq!(peer.closed(), [], "the application never saw it");
}

#[test]
fn repeated_syn_is_answered_again() {
    let mut peer = Peer::new(config(1));
    let first = peer.exchange(peer.seg(Flags::SYN));
    let again = peer.exchange(peer.seg(Flags::SYN));
    assert_eq!((first[0].seq, first[0].flags), (again[0].seq, again[0].flags));
    assert_eq!(peer.stack.connections(), 1);
}

#[test]
fn repeated_syn_is_echoed_with_its_own_timestamp() {
    let mut peer = Peer::new(config(1));
    let syn = |peer: &Peer, value| {
        let timestamps = Some(Timestamps { value, echo: 0 });
        Seg { options: Options { timestamps, ..Options::NONE }, ..peer.seg(Flags::SYN) }
    };
    for value in [7000, 8000] {
        let answer = peer.exchange(syn(&peer, value));
        assert_eq!(answer[0].options.timestamps.map(|stamps| stamps.echo), Some(value));
    }
}

#[test]
fn options_are_used_only_if_both_offer_them() {
    let (mut peer, conn) = Peer::established_with(config(1), Options { mss: Some(500), ..Options::NONE });
    peer.stack.send(peer.now, conn, &[1; 600]).unwrap();
    let received = peer.receive();
    assert_eq!(received.iter().map(|s| s.payload.len()).collect::<Vec<_>>(), [500, 100]);
    assert!(received.iter().all(|s| s.options == Options::NONE));

    let stamps = Timestamps { value: 77, echo: 0 };
    let all = Options {
        mss: Some(1460),
        window_scale: Some(3),
        sack_permitted: true,
        timestamps: Some(stamps),
        ..Options::NONE
    };
    let mut peer = Peer::new(config(1));
    let answer = peer.exchange(Seg { options: all, ..peer.seg(Flags::SYN) });
    let options = answer[0].options;
    assert_eq!((options.mss, options.window_scale, options.sack_permitted), (Some(1460), Some(7), true));
    assert_eq!(options.timestamps.map(|t| t.echo), Some(77));
}

//~ tcp: an ephemeral port is given out once, from a secret start (RFC 6056 §3.3.3)
#[test]
fn ports_are_assigned_once() {
    let mut stack = Stack::new(config(1));
    let listen = |stack: &mut Stack, port| stack.listen(port, ListenOptions::default());
    assert!(listen(&mut stack, 80).is_ok());
    assert_eq!(listen(&mut stack, 80), Err(ListenError::PortInUse(80)));
    assert_eq!(listen(&mut stack, 0), Err(ListenError::PortZero));
    let remote = "10.0.0.9:80".parse().unwrap();
    assert!(stack.connect(Time::ZERO, remote, Some(5)).is_ok());
    assert_eq!(stack.connect(Time::ZERO, remote, Some(5)), Err(ConnectError::NoPort));
    assert_eq!(stack.connect(Time::ZERO, "11.0.0.9:80".parse().unwrap(), None), Err(ConnectError::NoRoute));
    let ids: Vec<_> = (0..28_232).map(|_| stack.connect(Time::ZERO, remote, None)).collect();
    assert!(ids.iter().all(Result::is_ok));
    assert_eq!(stack.connect(Time::ZERO, remote, None), Err(ConnectError::NoPort));
}

//~ run: a closed port refuses and keeps what it accepted
#[test]
fn a_port_whose_listener_closed_refuses_and_keeps_accepted_connections() {
    let mut world = World::perfect();
    let (server, client) = world.connect();
    world.stacks[0].unlisten(80);
    world.stacks[0].unlisten(80);
    let late = world.stacks[1].connect(world.now, "10.0.0.1:80".parse().unwrap(), None).unwrap();
    let events = world.run_for(Span::from_secs(1));
    let of_late: Vec<EventKind> = events[1].iter().filter(|e| e.conn == late).map(|e| e.kind).collect();
    assert_eq!(of_late, [EventKind::Closed(CloseReason::Reset)]);
    assert_eq!(world.stacks[1].send(world.now, client, b"still"), Ok(5));
    world.run_for(Span::from_millis(10));
    assert_eq!(world.stacks[0].received(server), b"still");
    assert!(world.stacks[0].listen(80, ListenOptions::default()).is_ok(), "the port is free again");
    assert_eq!(world.stacks[0].listen(80, ListenOptions::default()), Err(ListenError::PortInUse(80)));
}

#[test]
fn listeners_can_open_and_close_any_number_of_times() {
    let mut stack = Stack::new(config(1));
    for round in 0..70_000_u32 {
        let classifier: classify::TransportClassifier =
            std::sync::Arc::new(|_: &mut classify::FlowContext<'_>| classify::Verdict::NoVerdict);
        let options = ListenOptions { classifier: Some(classifier), ..ListenOptions::default() };
        let id = stack.listen(80, options).unwrap();
        assert!(id.0 < 1000, "after {round} others its number is {}", id.0);
        stack.unlisten(80);
    }
}

#[test]
fn wrong_acknowledgement_of_the_handshake_is_refused() {
    let mut peer = Peer::new(config(1));
    let answer = peer.exchange(peer.seg(Flags::SYN));
    let wrong = Seg { seq: peer.seq + 1, ack: answer[0].seq + 2, ..peer.seg(Flags::ACK) };
    let reset = peer.exchange(wrong);
    assert_eq!((reset[0].flags, reset[0].seq), (Flags::RST, answer[0].seq + 2));
    assert_eq!(peer.stack.counters().bad_acks, 1);
    assert_ne!(answer[0].seq, Seq(0));
}

#[test]
fn flood_of_half_open_connections_is_bounded_and_passes() {
    let mut peer = Peer::new(config(1));
    peer.window = 0;
    for i in 0..50_000_u32 {
        peer.seq += 7;
        peer.inject(&Seg { from: 1024 + (i % 60_000) as u16, ..peer.seg(Flags::SYN) });
        peer.pass(Span::from_micros(10));
        if i % 100 == 0 {
            peer.receive();
        }
    }
    assert_eq!(peer.stack.connections(), 1024, "the default backlog");
    assert!(peer.stack.connection_bytes() < 2 * 1024 * 640);
    let start = peer.now;
    while peer.stack.connections() > 0 {
        peer.wait();
        assert!(peer.now.since(start) < Span::from_secs(70), "half-open connections give up");
    }
    peer.window = 60_000;
    peer.open(Options::NONE);
    assert_eq!(peer.closed(), [], "the application never saw them");
}
