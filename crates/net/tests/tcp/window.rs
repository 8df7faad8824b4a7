//! Tests of flow control: a sender stays within the other side's window.

//~ tcp: silly windows are avoided on both sides and the peer's window is never exceeded (RFC 9293 §3.8.6.2)

use net::EventKind;
use queueing::Span;
use wire::tcp::{Flags, Options};

use crate::peer::{Peer, Seg};
use crate::world::config;

//~ tcp: a closed window is probed until it opens (RFC 9293 §3.8.6.1)
#[test]
fn closed_window_is_probed_until_it_opens() {
    let (mut peer, conn) = Peer::established();
    peer.window = 0;
    let close = peer.seg(Flags::ACK);
    peer.exchange(close);
    peer.stack.send(peer.now, conn, b"hello").unwrap();
    assert_eq!(peer.receive(), []);
    for _ in 0..40 {
        let probe = peer.wait();
        assert_eq!((probe.len(), probe[0].payload.len()), (1, 0));
        assert_eq!(probe[0].seq, peer.ack - 1, "a number outside the window");
        let answer = peer.seg(Flags::ACK);
        assert_eq!(peer.exchange(answer), []);
    }
    peer.window = 1000;
    let open = peer.seg(Flags::ACK);
    assert_eq!(peer.exchange(open)[0].payload, b"hello");
    assert_eq!(peer.closed(), [], "an answering peer is never given up");
}

//~ tcp: windows are scaled, but not in a SYN (RFC 7323 §2)
#[test]
fn window_is_scaled_but_not_in_syn() {
    let mut config = config(1);
    (config.recv_buffer, config.recv_buffer_max) = (1 << 20, 0);
    let options = Options { mss: Some(1000), window_scale: Some(2), ..Options::NONE };
    let mut peer = Peer::new(config);
    peer.window = 500;
    let answer = peer.exchange(Seg { options, ..peer.seg(Flags::SYN) });
    assert_eq!((answer[0].options.window_scale, answer[0].window), (Some(5), 65_535));
    peer.seq += 1;
    peer.ack = answer[0].seq + 1;
    let ack = peer.data(0, b"x");
    let answer = peer.exchange(ack);
    assert_eq!(u32::from(answer[0].window) << 5, (1 << 20) - 32, "the rest of the buffer, rounded down");
    let conn = peer.events[0].conn;
    peer.stack.send(peer.now, conn, &[0; 5000]).unwrap();
    let sent: usize = peer.receive().iter().map(|s| s.payload.len()).sum();
    assert_eq!(sent, 2000, "500 << 2");
}

#[test]
fn reading_opens_the_window_by_whole_segments() {
    let mut config = config(1);
    (config.recv_buffer, config.recv_buffer_max) = (4000, 0);
    let (mut peer, conn) = Peer::established_with(config, Options { mss: Some(1000), ..Options::NONE });
    for _ in 0..4 {
        let s = peer.data(0, &[1; 1000]);
        peer.exchange(s);
        peer.seq += 1000;
    }
    let beyond = peer.data(0, b"beyond");
    let answer = peer.exchange(beyond);
    assert_eq!((answer[0].ack, answer[0].window), (peer.seq, 0));
    peer.stack.consume(peer.now, conn, 500);
    assert_eq!(peer.receive(), [], "too little to announce (SWS)");
    peer.stack.consume(peer.now, conn, 1500);
    assert_eq!(peer.receive()[0].window, 2000);
}

#[test]
fn writable_follows_a_full_buffer() {
    let mut config = config(1);
    (config.send_buffer, config.send_buffer_max) = (3000, 0);
    let (mut peer, conn) = Peer::established_with(config, Options { mss: Some(1000), ..Options::NONE });
    assert_eq!(peer.stack.send(peer.now, conn, &[0; 5000]), Ok(3000));
    peer.receive();
    let ack = Seg { ack: peer.ack + 3000, ..peer.seg(Flags::ACK) };
    peer.exchange(ack);
    assert_eq!(peer.kinds().last(), Some(&EventKind::Writable));
}

#[test]
fn idle_peer_is_probed_by_keep_alive() {
    let mut config = config(1);
    config.keep_alive = Some(Span::from_secs(8));
    let (mut peer, _) = Peer::established_with(config, Options::NONE);
    let start = peer.now;
    let probe = peer.wait();
    assert_eq!((probe[0].seq, probe[0].flags), (peer.ack - 1, Flags::ACK));
    assert!(peer.now.since(start) >= Span::from_secs(8));
    let alive = peer.seg(Flags::ACK);
    peer.exchange(alive);
    let mut probes = 0;
    while !peer.wait().is_empty() {
        probes += 1;
    }
    assert_eq!((probes, peer.closed()), (8, vec![net::stack::CloseReason::TimedOut]));
}

#[test]
fn sender_avoids_silly_window_segments() {
    let (mut peer, conn) = Peer::established();
    peer.window = 10;
    let small = peer.seg(Flags::ACK);
    peer.exchange(small);
    peer.stack.send(peer.now, conn, &[0; 5000]).unwrap();
    assert_eq!(peer.receive(), [], "10 bytes are too little for a segment");
    assert_eq!(peer.wait().len(), 1, "the peer is probed");
}

#[test]
fn receiver_with_a_small_window_is_sent_what_fits() {
    let (mut peer, conn) = Peer::established();
    // From now on the peer offers at most a tenth of a segment.
    peer.window = 100;
    peer.exchange(peer.seg(Flags::ACK));
    peer.stack.send(peer.now, conn, &[7; 450]).unwrap();
    assert_eq!(peer.receive(), [], "no small segment at once");
    let mut lens = Vec::new();
    while lens.iter().sum::<usize>() < 450 {
        let received = peer.wait();
        assert!(!received.is_empty(), "the timer sends what the window allows");
        for s in received.iter().filter(|s| !s.payload.is_empty()) {
            lens.push(s.payload.len());
            peer.ack += s.payload.len() as u32;
        }
        peer.exchange(peer.seg(Flags::ACK));
    }
    assert_eq!(lens, [100, 100, 100, 100, 50]);
}

#[test]
fn peer_cannot_exceed_the_receive_window() {
    let mut small = config(1);
    (small.recv_buffer, small.recv_buffer_max) = (10_000, 0);
    let (mut peer, conn) = Peer::established_with(small, Options { mss: Some(1000), ..Options::NONE });
    let start = peer.seq;
    for offset in (1..40_000).step_by(900) {
        let s = peer.data(offset, &[1; 1000]);
        peer.exchange(s);
    }
    let first = peer.data(0, b"x");
    let answer = peer.exchange(first);
    let held = peer.stack.received(conn).len();
    assert_eq!(held, 10_000);
    let last = answer.last().expect("an answer");
    assert_eq!((last.ack, last.window), (start + held as u32, 0));
}
