//! Tests of loss recovery: lost segments are retransmitted once, soon, and alone.

//~ recovery: SACK blocks and D-SACK are sent and used, latest block first (RFC 2018, 2883)

use std::sync::atomic::{AtomicU32, Ordering};

use net::congestion::{Ack, CongestionControl};
use net::stack::{CloseReason, Config};
use queueing::{Bytes, Span, Time};
use wire::tcp::{Flags, Options, SackBlocks, Timestamps};

use crate::peer::{Peer, Seg};
use crate::world::config;

/// Peer that was sent `n` full segments and has acknowledged none.
fn sender(options: Options, n: usize) -> (Peer, Vec<Seg>) {
    let (mut peer, conn) = Peer::established_with(config(1), Options { mss: Some(1000), ..options });
    peer.stack.send(peer.now, conn, &vec![7; 1000 * n]).unwrap();
    let sent = peer.receive();
    assert_eq!(sent.len(), n);
    // Answers take some time, as on a real path.
    peer.pass(Span::from_micros(100));
    (peer, sent)
}

#[test]
fn third_duplicate_ack_retransmits_once() {
    let (mut peer, sent) = sender(Options::NONE, 6);
    let ack = peer.seg(Flags::ACK);
    assert_eq!(peer.exchange(ack.clone()), []);
    assert_eq!(peer.exchange(ack.clone()), []);
    let again = peer.exchange(ack.clone());
    assert_eq!((again.len(), again[0].seq, again[0].payload.len()), (1, sent[0].seq, 1000));
    assert_eq!(peer.exchange(ack), []);
    assert_eq!(peer.stack.counters().fast_retransmits, 1);
    assert_eq!(peer.stack.counters().retransmissions, 1);
}

//~ recovery: NewReno repairs without SACK; limited transmit sends new segments (RFC 6582, 3042)
#[test]
fn partial_ack_retransmits_the_next_hole() {
    let (mut peer, sent) = sender(Options::NONE, 6);
    let ack = peer.seg(Flags::ACK);
    (0..3).for_each(|_| drop(peer.exchange(ack.clone())));
    let again = peer.exchange(Seg { ack: sent[2].seq, ..ack });
    assert_eq!(again.iter().map(|s| s.seq).collect::<Vec<_>>(), [sent[2].seq]);
}

#[test]
fn sacked_segments_are_not_sent_again() {
    let (mut peer, sent) = sender(Options { sack_permitted: true, ..Options::NONE }, 8);
    let end = |i: usize| sent[i].seq + 1000;
    // Segments 0, 2 and 4 are lost.
    let mut sack = SackBlocks::NONE;
    for i in [1, 3, 5, 6, 7] {
        sack.push(sent[i].seq, end(i));
    }
    let with = |sack| Seg { options: Options { sack, ..Options::NONE }, ..peer.seg(Flags::ACK) };
    let blocks = [vec![(1, 1)], vec![(3, 3), (1, 1)], vec![(5, 7), (3, 3), (1, 1)]];
    let acks: Vec<Seg> =
        blocks.iter().map(|list| with(list.iter().map(|(a, b)| (sent[*a].seq, end(*b))).collect())).collect();
    let again: Vec<_> = acks.into_iter().flat_map(|ack| peer.exchange(ack)).map(|s| s.seq).collect();
    assert_eq!(again, [sent[0].seq, sent[2].seq, sent[4].seq]);
}

#[test]
fn timeout_doubles_and_sends_one_segment() {
    let (mut peer, sent) = sender(Options::NONE, 3);
    let start = peer.now;
    let again = peer.wait();
    assert_eq!((again.len(), again[0].seq), (1, sent[0].seq));
    let first = peer.now.since(start);
    let middle = peer.now;
    assert_eq!(peer.wait()[0].seq, sent[0].seq);
    let second = peer.now.since(middle);
    let doubled = second.as_nanos() as f64 / first.as_nanos() as f64;
    assert!((1.9..2.1).contains(&doubled), "{first} then {second}");
}

//~ recovery: RTO = SRTT + max(floor, 4 RTTVAR), doubled up to 60 s; the floor is 5 ms by default (RFC 6298)
#[test]
fn timeout_is_milliseconds_once_the_path_is_known() {
    let (mut peer, sent) = sender(Options::NONE, 1);
    peer.pass(Span::from_micros(100));
    let ack = Seg { ack: sent[0].seq + 1000, ..peer.seg(Flags::ACK) };
    peer.exchange(ack);
    let conn = peer.events[0].conn;
    assert!(peer.stack.flow(conn).unwrap().srtt.unwrap() <= Span::from_micros(100));
    peer.stack.send(peer.now, conn, b"x").unwrap();
    peer.receive();
    let start = peer.now;
    assert_eq!(peer.wait().len(), 1);
    assert!(peer.now.since(start) < Span::from_millis(6), "{}", peer.now.since(start));
}

//~ tcp: a silent peer is given up after 100 s or more (RFC 1122 §4.2.3.5)
#[test]
fn silence_ends_the_connection() {
    let (mut peer, _) = sender(Options::NONE, 1);
    let start = peer.now;
    while !peer.wait().is_empty() {}
    assert_eq!(peer.closed(), [CloseReason::TimedOut]);
    assert!(peer.now.since(start) > Span::from_secs(100), "at least 100 s (RFC 1122)");
    assert_eq!(peer.stack.connections(), 0);
}

#[test]
fn out_of_order_data_is_acknowledged_selectively() {
    let options = Options { sack_permitted: true, mss: Some(1000), ..Options::NONE };
    let (mut peer, conn) = Peer::established_with(config(1), options);
    let s = peer.data(10, b"klmno");
    let answer = peer.exchange(s);
    assert_eq!(answer[0].ack, peer.seq);
    assert_eq!(answer[0].options.sack.as_slice(), [(peer.seq + 10, peer.seq + 15)]);
    let s = peer.data(0, b"abcdefghij");
    let answer = peer.exchange(s);
    assert_eq!((answer[0].ack, answer[0].options.sack.len()), (peer.seq + 15, 0));
    assert_eq!(peer.stack.received(conn), b"abcdefghijklmno");
}

#[test]
fn each_out_of_order_segment_causes_one_duplicate_ack() {
    let (mut peer, _) = Peer::established();
    for offset in [10, 20, 30] {
        let s = peer.data(offset, b"x");
        peer.inject(&s);
    }
    let answers = peer.receive();
    assert_eq!(answers.len(), 3);
    assert!(answers.iter().all(|s| s.ack == peer.seq));
}

//~ tcp: segments with old timestamps are dropped (PAWS, RFC 7323 §5)
#[test]
fn old_timestamps_are_refused() {
    let stamp = |value| Options { timestamps: Some(Timestamps { value, echo: 0 }), ..Options::NONE };
    let (mut peer, conn) = Peer::established_with(config(1), stamp(1000));
    let old = Seg { options: stamp(999), ..peer.data(0, b"old") };
    assert_eq!(peer.exchange(old).len(), 1, "an acknowledgement");
    let new = Seg { options: stamp(1001), ..peer.data(0, b"new") };
    peer.exchange(new);
    assert_eq!((peer.stack.received(conn), peer.stack.counters().paws), (&b"new"[..], 1));
}

#[test]
fn reneged_sacks_are_retransmitted() {
    let (mut peer, sent) = sender(Options { sack_permitted: true, ..Options::NONE }, 5);
    // All segments but the first are SACKed, then the report is withdrawn (reneging).
    let mut options = Options::NONE;
    options.sack.push(sent[1].seq, sent[4].seq + sent[4].payload.len() as u32);
    for _ in 0..3 {
        let s = Seg { options, ..peer.seg(Flags::ACK) };
        peer.exchange(s);
    }
    peer.ack = sent[1].seq;
    peer.exchange(peer.seg(Flags::ACK));
    let end = sent[4].seq + sent[4].payload.len() as u32;
    for _ in 0..20 {
        let received = peer.wait();
        for s in received {
            if s.seq == peer.ack {
                peer.ack += s.payload.len() as u32;
            }
        }
        peer.exchange(peer.seg(Flags::ACK));
    }
    assert_eq!(peer.ack, end);
}

/// Constant window of two segments that counts its calls.
struct Two {
    window: Bytes,
}

static REPORTS: [AtomicU32; 4] = [const { AtomicU32::new(0) }; 4];

fn reported(what: usize) {
    REPORTS[what].fetch_add(1, Ordering::Relaxed);
}

impl CongestionControl for Two {
    fn on_ack(&mut self, ack: &Ack) {
        assert!(ack.acked <= ack.flight && ack.flight <= self.window);
        reported(0);
    }

    fn on_loss(&mut self, _now: Time, _flight: Bytes) {
        reported(1);
    }

    fn on_recovered(&mut self, _now: Time) {
        reported(2);
    }

    fn on_timeout(&mut self, _now: Time, flight: Bytes) {
        assert_eq!(flight, self.window);
        reported(3);
    }

    fn window(&self) -> Bytes {
        self.window
    }

    fn ssthresh(&self) -> Bytes {
        self.window
    }
}

//~ recovery: congestion control can be chosen, and restarts slowly after idle time (RFC 5681)
#[test]
fn congestion_control_may_be_chosen() {
    let two =
        |mss: u16| -> Box<dyn CongestionControl> { Box::new(Two { window: Bytes::new(2 * u64::from(mss)) }) };
    let chosen = Config { congestion: Some(two), ..config(1) };
    let (mut peer, conn) = Peer::established_with(chosen, Options { mss: Some(1000), ..Options::NONE });
    peer.stack.send(peer.now, conn, &[7; 8000]).unwrap();
    assert_eq!(peer.stack.flow(conn).unwrap().cwnd, Bytes::new(2000));
    for _ in 0..3 {
        assert_eq!(peer.receive().len(), 2);
        peer.ack += 2000;
        peer.inject(&peer.seg(Flags::ACK));
    }
    // The last two are lost: detected first by duplicate ACKs, then by the timer.
    peer.receive();
    (0..3).for_each(|_| drop(peer.exchange(peer.seg(Flags::ACK))));
    peer.wait();
    peer.ack += 2000;
    peer.exchange(peer.seg(Flags::ACK));
    let reported = REPORTS.each_ref().map(|n| n.load(Ordering::Relaxed));
    assert_eq!((reported[1], reported[3]), (1, 1), "one loss and one timeout: {reported:?}");
    assert!(reported[0] >= 3, "{reported:?}");
}
