//! Tests of peers that make the victim hold data and never read or complete it.
//!
//! Bounds: all buffers together stay within `memory_max` (32 MiB here) plus 16 MiB kept for reuse,
//! for thousands of connections. Out-of-order segments stay within half of it, and a small exchange
//! still succeeds. Tiny windows cost at most one segment per retransmission timeout.

//~ stack: memory of all connections stays within `memory_max`; windows closed for it reopen
//~ attacks: slow readers and unread requests stay within `memory_max`

use net::stack::{Config, ListenOptions};
use net::{ConnId, EventKind};
use queueing::{Span, Time};
use wire::tcp::{Flags, Options, Seq};

use crate::peer::{Peer, Seg};
use crate::world::config;

const MEMORY: usize = 32 << 20;

/// Connection as the attacker knows it.
#[derive(Clone, Copy)]
struct Held {
    conn: ConnId,
    port: u16,
    seq: Seq,
    ack: Seq,
}

/// Stack with little memory and `n` connections of one attacker.
fn fill(n: u16) -> (Peer, Vec<Held>) {
    let mut peer = Peer::new(Config { memory_max: MEMORY, ..config(1) });
    let options = Options { mss: Some(1460), window_scale: Some(7), ..Options::NONE };
    let held = (0..n).map(|i| open(&mut peer, 1024 + i, options)).collect();
    (peer, held)
}

fn open(peer: &mut Peer, port: u16, options: Options) -> Held {
    peer.port = port;
    peer.events.clear();
    let conn = peer.open(options);
    Held { conn, port, seq: peer.seq, ack: peer.ack }
}

/// Segment of `held`'s peer with `payload`, `offset` bytes ahead.
fn data(peer: &Peer, held: &Held, offset: u32, payload: &[u8]) -> Seg {
    Seg {
        from: held.port,
        seq: held.seq + offset,
        ack: held.ack,
        payload: payload.to_vec(),
        ..peer.seg(Flags::ACK)
    }
}

/// Checks that a small request and response on a new connection succeed.
fn small_exchange_works(peer: &mut Peer) {
    let mut small = open(peer, 60_000, Options { mss: Some(1460), ..Options::NONE });
    for _ in 0..3 {
        let question = data(peer, &small, 0, &[b'?'; 500]);
        let acks = peer.exchange(question);
        assert_eq!(acks.last().map(|s| s.ack), Some(small.seq + 500));
        small.seq += 500;
        assert_eq!(peer.stack.received(small.conn).len(), 500);
        peer.stack.consume(peer.now, small.conn, 500);
        assert_eq!(peer.stack.send(peer.now, small.conn, &[b'!'; 1000]), Ok(1000));
        let answer = peer.receive();
        assert_eq!(answer.iter().map(|s| s.payload.len()).sum::<usize>(), 1000);
        small.ack += 1000;
        let ack = data(peer, &small, 0, b"");
        peer.exchange(ack);
    }
}

#[test]
fn unread_responses_are_bounded_and_small_ones_pass() {
    let (mut peer, held) = fill(4000);
    let mut accepted = 0;
    let mut most = 0;
    for _ in 0..4 {
        for held in &held {
            accepted += peer.stack.send(peer.now, held.conn, &[0; 256 * 1024]).unwrap();
            most = most.max(peer.stack.buffer_bytes());
        }
        peer.receive();
    }
    println!("4000 × 1 MiB of responses wanted: {} KiB taken, {} KiB held", accepted >> 10, most >> 10);
    assert!(most <= MEMORY && accepted > MEMORY / 4, "{most}");
    assert!(peer.stack.counters().memory_refusals > 1000);
    // The attacker also occupies the last quarter, but not permanently.
    for held in held.iter().take(500) {
        peer.stack.abort(peer.now, held.conn);
    }
    peer.receive();
    assert!(peer.kinds().contains(&EventKind::Writable), "blocked senders are notified");
    small_exchange_works(&mut peer);
    for held in &held {
        peer.stack.abort(peer.now, held.conn);
    }
    peer.receive();
    assert_eq!(peer.stack.buffer_bytes(), 0);
}

#[test]
fn unconsumed_requests_are_bounded() {
    let (mut peer, held) = fill(2000);
    let mut most = 0;
    for round in 0..40 {
        for held in &held {
            let bytes = data(&peer, held, round * 1400, &[0; 1400]);
            peer.inject(&bytes);
            most = most.max(peer.stack.buffer_bytes());
        }
        peer.receive();
    }
    println!("2000 × 56 KB of requests sent: {} KiB held", most >> 10);
    assert!((MEMORY / 2..=MEMORY).contains(&most), "{most}");
    let dropped = peer.stack.counters().memory_drops;
    assert!(dropped > 10_000, "{dropped}");
    held.iter().for_each(|held| peer.stack.abort(peer.now, held.conn));
    peer.receive();
    assert_eq!(peer.stack.buffer_bytes(), 0);
    small_exchange_works(&mut peer);
}

#[test]
fn out_of_order_segments_of_one_connection_are_bounded() {
    // Every second byte of the window, in single segments.
    let (mut peer, held) = fill(1);
    for offset in (1..65_000).step_by(2) {
        let byte = data(&peer, &held[0], offset, b"x");
        peer.inject(&byte);
    }
    let fragments = peer.stack.buffer_bytes();
    println!("32,500 single bytes with gaps: {} KiB", fragments >> 10);
    assert!(fragments <= 192 << 10, "64 pieces and no more: {fragments}");
    // All bytes without gaps, backwards and forwards.
    for offset in (1..65_000).rev().chain(1..65_000) {
        let byte = data(&peer, &held[0], offset, b"x");
        peer.inject(&byte);
    }
    let bytes = peer.stack.buffer_bytes();
    println!("65,000 single bytes without gaps: {} KiB", bytes >> 10);
    assert!(bytes <= 512 << 10, "{bytes}");
}

#[test]
fn out_of_order_segments_of_all_stay_within_half_of_the_memory() {
    let (mut peer, held) = fill(2000);
    let mut most = 0;
    for i in 0..60 {
        for held in &held {
            let early = data(&peer, held, 100 + i * 1000, &[0; 700]);
            peer.inject(&early);
        }
        most = most.max(peer.stack.buffer_bytes());
        peer.receive();
    }
    println!("2000 × 60 early segments: {} KiB held", most >> 10);
    assert!(most <= MEMORY / 2 + (64 << 10), "{most}");
    assert!(peer.stack.counters().memory_drops > 50_000);
    small_exchange_works(&mut peer);
}

#[test]
fn advertised_window_is_accepted_under_memory_pressure() {
    let (mut peer, held) = fill(300);
    let (victim, hogs) = held.split_first().expect("300 connections");
    // The first connection was offered the whole receive buffer when memory was ample.
    let first = data(&peer, victim, 0, &[1; 1000]);
    let promised = usize::from(peer.exchange(first).last().expect("an answer").window) << 7;
    assert!(promised > 200_000);
    for held in hogs {
        let _ = peer.stack.send(peer.now, held.conn, &[0; 80 * 1024]);
    }
    peer.receive();
    assert!(peer.stack.buffer_bytes() > MEMORY / 2, "memory is short");
    let mut edge = victim.seq + 1000 + promised as u32;
    for i in 0..100_u32 {
        let s = data(&peer, victim, 1000 + i * 1000, &[1; 1000]);
        let answer = peer.exchange(s).pop().expect("an answer");
        let offered = answer.ack + (u32::from(answer.window) << 7);
        assert!(offered.distance(edge) > -128, "the edge never moves back by more than rounding");
        edge = edge.max(offered);
        assert_eq!(answer.ack, victim.seq + 2000 + i * 1000, "the offered window is accepted");
    }
    let more = edge.distance(victim.seq + 1000 + promised as u32);
    assert!((0..128).contains(&more), "no more window is offered: {more}");
}

#[test]
fn window_closed_for_want_of_memory_reopens_when_memory_returns() {
    let (mut peer, hogs) = fill(300);
    for held in &hogs {
        let _ = peer.stack.send(peer.now, held.conn, &[0; 80 * 1024]);
    }
    peer.receive();
    assert!(peer.stack.buffer_bytes() > MEMORY / 2, "memory is short");
    // Their applications wait for more than the limit allows.
    let options = Options { mss: Some(1460), window_scale: Some(7), ..Options::NONE };
    let victims = [2000, 2001].map(|port| open(&mut peer, port, options));
    let mut sent = [0; 2];
    for (held, sent) in victims.iter().zip(&mut sent) {
        for _ in 0..400 {
            let s = data(&peer, held, *sent, &[1; 1000]);
            let answer = peer.exchange(s).pop().expect("an answer");
            *sent = answer.ack - held.seq;
            if answer.window == 0 {
                break;
            }
        }
        let probe = data(&peer, held, *sent, b"");
        peer.inject(&probe);
        let again = data(&peer, held, *sent, b"?");
        assert_eq!(peer.exchange(again).last().map(|s| s.window), Some(0), "closed");
    }
    // All but the first victim are aborted; only it is sent a window update.
    for held in victims[1..].iter().chain(&hogs) {
        peer.stack.abort(peer.now, held.conn);
    }
    let updates: Vec<Seg> = peer
        .receive()
        .into_iter()
        .filter(|s| !s.flags.contains(Flags::RST) && s.payload.is_empty())
        .collect();
    assert_eq!(updates.len(), 1, "{updates:?}");
    assert_eq!((updates[0].to, updates[0].ack), (victims[0].port, victims[0].seq + sent[0]));
    assert!(usize::from(updates[0].window) << 7 >= 1460, "at least a segment");
    let more = data(&peer, &victims[0], sent[0], &[2; 1000]);
    assert_eq!(peer.exchange(more).last().map(|s| s.ack), Some(victims[0].seq + sent[0] + 1000));
}

#[test]
fn tiny_windows_cost_one_segment_in_each_timeout() {
    for window in [1, 2, 7, 43, 88] {
        let (mut peer, conn) = Peer::established();
        peer.window = window;
        peer.exchange(peer.seg(Flags::ACK));
        peer.stack.send(peer.now, conn, &[0; 64 * 1024]).unwrap();
        let (start, mut segments, mut bytes) = (peer.now, 0, 0);
        while peer.now.since(start) < Span::from_secs(2) {
            for s in peer.receive() {
                segments += 1;
                bytes += s.payload.len();
                peer.ack += s.payload.len() as u32;
            }
            peer.inject(&peer.seg(Flags::ACK));
            let next = peer.stack.poll_timeout().unwrap_or(Time::MAX).max(peer.now);
            peer.now = next.min(peer.now + Span::from_millis(1));
            peer.stack.handle_timeout(peer.now);
        }
        println!("window {window}: {segments} segments, {bytes} bytes in 2 s");
        assert!(segments <= 2 * 200 + 2, "window {window}: {segments} segments in 2 s at a 5 ms floor");
        assert!(bytes >= 100 * usize::from(window), "window {window}: but it progresses");
        assert!(peer.stack.buffer_bytes() <= 256 * 1024);
    }
}

#[test]
fn peer_that_keeps_its_window_closed_is_disconnected_if_configured() {
    let user_timeout = Some(Span::from_secs(20));
    let mut peer = Peer::new(Config { user_timeout, memory_max: MEMORY, ..config(1) });
    peer.stack.listen(81, ListenOptions::default()).unwrap();
    let held: Vec<Held> =
        (0..200).map(|i| open(&mut peer, 2000 + i, Options { mss: Some(1460), ..Options::NONE })).collect();
    peer.window = 0;
    for held in &held {
        let closed = data(&peer, held, 0, b"");
        peer.inject(&closed);
        peer.stack.send(peer.now, held.conn, &[0; 30_000]).unwrap();
    }
    let start = peer.now;
    peer.receive();
    while peer.stack.buffer_bytes() > 0 {
        peer.now = peer.now.max(peer.stack.poll_timeout().expect("a timer runs"));
        peer.stack.handle_timeout(peer.now);
        for probe in peer.receive() {
            // Every probe is answered: the peer is alive but does not read.
            let answer = Seg { from: probe.to, seq: probe.ack, ack: probe.seq + 1, ..peer.seg(Flags::ACK) };
            peer.inject(&answer);
        }
        assert!(peer.now.since(start) < Span::from_secs(22));
    }
}
