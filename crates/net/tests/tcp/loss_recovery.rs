//! Tests of loss detection by time (RACK), proportional rate reduction and undo.

//~ recovery: RACK-TLP detects loss by time, adapts to reordering and probes for tail loss (RFC 8985)

use net::congestion::NewReno;
use net::stack::Config;
use net::{ConnId, EventKind};
use queueing::{Span, Time};
use wire::tcp::{Flags, Options, SackBlocks, Seq, Timestamps};

use crate::peer::{Peer, Seg};
use crate::world::config;

const RTT: Span = Span::from_millis(20);
const SACK: Options = Options { sack_permitted: true, mss: Some(1000), ..Options::NONE };
const PLAIN: Options = Options { mss: Some(1000), ..Options::NONE };

/// Peer at distance `RTT`, on a connection without data so far.
fn far(config: Config, options: Options) -> (Peer, ConnId) {
    let mut peer = Peer::new(config);
    let answer = peer.exchange(Seg { options, ..peer.seg(Flags::SYN) });
    peer.seq += 1;
    peer.ack = answer[0].seq + 1;
    peer.pass(RTT);
    let echo = answer[0].options.timestamps.map_or(0, |stamps| stamps.value);
    let timestamps = options.timestamps.map(|stamps| Timestamps { echo, ..stamps });
    peer.exchange(Seg { options: Options { timestamps, ..Options::NONE }, ..peer.seg(Flags::ACK) });
    let accepted = peer.events.iter().find(|e| matches!(e.kind, EventKind::Accepted(_)));
    let conn = accepted.expect("the connection is accepted").conn;
    (peer, conn)
}

/// As [`far`], with `n` segments of 1000 bytes in flight for one round trip.
fn flight(config: Config, options: Options, n: usize) -> (Peer, ConnId, Vec<Seg>) {
    let (mut peer, conn) = far(config, options);
    let sent = send(&mut peer, conn, n);
    peer.pass(RTT);
    (peer, conn, sent)
}

fn send(peer: &mut Peer, conn: ConnId, n: usize) -> Vec<Seg> {
    peer.stack.send(peer.now, conn, &vec![7; 1000 * n]).unwrap();
    peer.receive()
}

/// Acknowledgement at the peer's current number with these SACK blocks.
fn reports(peer: &Peer, blocks: &[(Seq, Seq)]) -> Seg {
    let sack: SackBlocks = blocks.iter().copied().collect();
    Seg { options: Options { sack, ..Options::NONE }, ..peer.seg(Flags::ACK) }
}

fn range_of(s: &Seg) -> (Seq, Seq) {
    (s.seq, s.seq + s.payload.len() as u32)
}

fn cwnd(peer: &Peer, conn: ConnId) -> u64 {
    peer.stack.flow(conn).unwrap().cwnd.get()
}

/// Next segments, and the time until they are sent.
fn next(peer: &mut Peer) -> (Vec<Seg>, Span) {
    let start = peer.now;
    let received = peer.wait();
    (received, peer.now.since(start))
}

#[test]
fn tail_loss_is_repaired_by_a_probe_within_two_round_trips() {
    let (mut peer, _, sent) = flight(config(1), SACK, 5);
    peer.ack = sent[3].seq;
    assert_eq!(peer.exchange(peer.seg(Flags::ACK)), []);
    let (probe, waited) = next(&mut peer);
    assert_eq!((probe.len(), probe[0].seq), (1, sent[4].seq), "the last segment again");
    assert!(waited <= RTT * 2 + Span::from_micros(2), "{waited}");
    peer.pass(RTT);
    let again = peer.exchange(reports(&peer, &[range_of(&sent[4])]));
    assert_eq!(again.iter().map(|s| s.seq).collect::<Vec<_>>(), [sent[3].seq]);
    let counters = peer.stack.counters();
    assert_eq!((counters.tail_probes, counters.fast_retransmits, counters.timeouts), (1, 1, 0));
}

#[test]
fn new_data_is_the_better_probe() {
    let small = Seg { window: 2000, ..Peer::new(config(1)).seg(Flags::SYN) }.window;
    let (mut peer, conn) = far(config(1), SACK);
    peer.window = small;
    peer.exchange(peer.seg(Flags::ACK));
    let sent = send(&mut peer, conn, 3);
    assert_eq!(sent.len(), 2);
    // The window opens without an acknowledgement of data; the probe is next.
    let (probe, _) = next(&mut peer);
    assert_eq!(probe[0].seq, sent[1].seq, "no window for new data: the last again");
}

#[test]
fn probe_that_repaired_a_loss_reduces_the_window_and_one_that_did_not_does_not() {
    for duplicate in [false, true] {
        let (mut peer, conn, sent) = flight(config(1), SACK, 2);
        peer.ack = sent[1].seq;
        peer.exchange(peer.seg(Flags::ACK));
        let (probe, _) = next(&mut peer);
        assert_eq!(probe[0].seq, sent[1].seq);
        let before = cwnd(&peer, conn);
        peer.pass(RTT);
        peer.ack = range_of(&sent[1]).1;
        let twice: &[(Seq, Seq)] = if duplicate { &[range_of(&sent[1])] } else { &[] };
        peer.exchange(reports(&peer, twice));
        let more = send(&mut peer, conn, 1);
        peer.pass(RTT);
        peer.ack = range_of(&more[0]).1;
        peer.exchange(peer.seg(Flags::ACK));
        assert_eq!(cwnd(&peer, conn) < before, !duplicate);
    }
}

#[test]
fn reordering_within_a_quarter_round_trip_causes_no_retransmission() {
    let (mut peer, _, sent) = flight(config(1), SACK, 5);
    assert_eq!(peer.exchange(reports(&peer, &[(sent[1].seq, range_of(&sent[2]).1)])), []);
    peer.pass(RTT / 5);
    peer.stack.handle_timeout(peer.now);
    assert_eq!(peer.receive(), []);
    peer.ack = range_of(&sent[4]).1;
    peer.exchange(peer.seg(Flags::ACK));
    assert_eq!(peer.stack.counters().retransmissions, 0);
}

#[test]
fn segment_later_than_that_is_lost_by_a_timer_of_its_own() {
    let (mut peer, _, sent) = flight(config(1), SACK, 5);
    peer.exchange(reports(&peer, &[range_of(&sent[1])]));
    let (again, waited) = next(&mut peer);
    assert_eq!(again[0].seq, sent[0].seq);
    assert!(waited <= RTT / 4 + Span::from_micros(2), "{waited}");
    assert_eq!(peer.stack.counters().timeouts, 0);
}

#[test]
fn lost_retransmission_is_sent_again_without_a_timeout() {
    let (mut peer, conn, sent) = flight(config(1), SACK, 4);
    let again = peer.exchange(reports(&peer, &[(sent[1].seq, range_of(&sent[3]).1)]));
    assert_eq!(again[0].seq, sent[0].seq);
    peer.pass(RTT / 10);
    let more = send(&mut peer, conn, 1);
    peer.pass(RTT + RTT / 2);
    let again = peer.exchange(reports(&peer, &[(sent[1].seq, range_of(&more[0]).1)]));
    assert_eq!(again[0].seq, sent[0].seq);
    assert_eq!(peer.stack.counters().timeouts, 0);
}

//~ recovery: without RACK loss is detected by counting SACKed segments (RFC 6675)
#[test]
fn without_rack_three_segments_beyond_a_hole_mean_loss() {
    let counting = Config { rack: false, ..config(1) };
    let (mut peer, _, sent) = flight(counting, SACK, 5);
    assert_eq!(peer.exchange(reports(&peer, &[range_of(&sent[1])])), []);
    assert_eq!(peer.exchange(reports(&peer, &[(sent[1].seq, range_of(&sent[2]).1)])), []);
    let again = peer.exchange(reports(&peer, &[(sent[1].seq, range_of(&sent[3]).1)]));
    assert_eq!(again.iter().map(|s| s.seq).collect::<Vec<_>>(), [sent[0].seq]);
    let (again, _) = next(&mut peer);
    assert_eq!((again[0].seq, peer.stack.counters().timeouts), (sent[0].seq, 1), "lost again: timeout");
    assert_eq!(peer.stack.counters().tail_probes, 0);
}

//~ recovery: proportional rate reduction paces recovery (RFC 9937)
#[test]
fn recovery_sends_in_proportion_to_what_arrives() {
    let newreno = Config { congestion: Some(|mss| Box::new(NewReno::new(mss))), ..config(1) };
    let (mut peer, _, sent) = flight(newreno, SACK, 30);
    assert_eq!(sent.len(), 10);
    let answers: Vec<usize> = (1..10)
        .map(|i| peer.exchange(reports(&peer, &[(sent[1].seq, range_of(&sent[i]).1)])).len())
        .collect();
    // Two by limited transmit, the retransmission, then one per two ACKs: half of the ten in flight
    // remain, limited transmit not counted.
    assert_eq!(answers, [1, 1, 1, 0, 1, 0, 1, 0, 0], "RFC 3042, RFC 9937");
    peer.pass(RTT);
    peer.ack = range_of(&sent[9]).1;
    let conn = peer.events[0].conn;
    peer.exchange(peer.seg(Flags::ACK));
    assert_eq!(peer.stack.counters().fast_retransmits, 1);
    assert!(cwnd(&peer, conn) < 8000);
}

//~ recovery: NewReno repairs without SACK; limited transmit sends new segments (RFC 6582, 3042)
#[test]
fn two_duplicates_let_two_new_segments_out() {
    let (mut peer, _, _) = flight(config(1), PLAIN, 14);
    let ack = peer.seg(Flags::ACK);
    let sent: Vec<usize> = (0..3).map(|_| peer.exchange(ack.clone()).len()).collect();
    assert_eq!(sent, [1, 1, 1], "two new ones (RFC 3042), then the lost one");
    assert_eq!(peer.stack.counters().retransmissions, 1);
}

//~ recovery: a spurious timeout is undone, by timestamps or F-RTO (RFC 3522, 4015, 5682)
#[test]
fn spurious_timeout_restores_the_window_by_timestamps() {
    let stamp = Timestamps { value: 1, echo: 0 };
    let (mut peer, conn, sent) = flight(config(1), Options { timestamps: Some(stamp), ..PLAIN }, 8);
    let before = cwnd(&peer, conn);
    let (again, _) = next(&mut peer);
    assert_eq!((again[0].seq, cwnd(&peer, conn)), (sent[0].seq, u64::from(again[0].payload.len() as u32)));
    let echo = sent[0].options.timestamps.unwrap().value;
    let options = Options { timestamps: Some(Timestamps { value: 2, echo }), ..Options::NONE };
    peer.ack = range_of(&sent[0]).1;
    let received = peer.exchange(Seg { options, ..peer.seg(Flags::ACK) });
    assert!(received.iter().all(|s| s.seq != sent[1].seq), "no other retransmission");
    assert!(cwnd(&peer, conn) >= before, "{} after {before}", cwnd(&peer, conn));
    assert_eq!(peer.stack.counters().recoveries_undone, 1);
}

#[test]
fn spurious_timeout_restores_the_window_by_two_acknowledgements() {
    for options in [PLAIN, SACK] {
        let rackless = Config { rack: false, ..config(1) };
        let (mut peer, conn, sent) = flight(rackless, options, 20);
        assert_eq!(sent.len(), 10);
        let before = cwnd(&peer, conn);
        assert_eq!(next(&mut peer).0[0].seq, sent[0].seq);
        peer.ack = sent[1].seq;
        let new = peer.exchange(peer.seg(Flags::ACK));
        let end = range_of(&sent[9]).1;
        assert_eq!(new.iter().map(|s| s.seq).collect::<Vec<_>>(), [end, end + 1000], "new data, RFC 5682");
        peer.ack = sent[2].seq;
        let received = peer.exchange(peer.seg(Flags::ACK));
        assert!(received.iter().all(|s| s.seq.after(end)));
        assert!(cwnd(&peer, conn) >= before, "{} after {before}", cwnd(&peer, conn));
        assert_eq!(peer.stack.counters().recoveries_undone, 1);
    }
}

#[test]
fn genuine_timeout_continues_recovery() {
    let (mut peer, conn, sent) = flight(config(1), PLAIN, 20);
    let before = cwnd(&peer, conn);
    peer.wait();
    peer.ack = sent[1].seq;
    peer.exchange(peer.seg(Flags::ACK));
    let again = peer.exchange(peer.seg(Flags::ACK));
    assert_eq!(again.first().map(|s| s.seq), Some(sent[1].seq));
    assert!(cwnd(&peer, conn) < before);
    assert_eq!(peer.stack.counters().recoveries_undone, 0);
}

//~ recovery: SACK blocks and D-SACK are sent and used, latest block first (RFC 2018, 2883)
#[test]
fn duplicate_data_is_reported_by_dsack() {
    let (mut peer, _) = far(config(1), SACK);
    let first = peer.data(0, b"abc");
    peer.exchange(first.clone());
    peer.seq += 3;
    let reported = peer.exchange(first.clone());
    assert_eq!(reported[0].options.sack.as_slice(), [range_of(&first)]);
    let early = peer.data(10, b"xyz");
    peer.exchange(early.clone());
    let reported = peer.exchange(early.clone());
    assert_eq!(reported[0].options.sack.as_slice(), [range_of(&early), range_of(&early)]);
    let reported = peer.exchange(peer.data(20, b"more"));
    assert_eq!(reported[0].options.sack.len(), 2, "reported once");
}

#[test]
fn reported_duplicate_widens_the_window_for_reordering() {
    let (mut peer, conn, sent) = flight(config(1), SACK, 2);
    // Reordered by half a round trip: a spurious retransmission, which the peer reports.
    peer.exchange(reports(&peer, &[range_of(&sent[1])]));
    assert_eq!(next(&mut peer).0[0].seq, sent[0].seq);
    peer.ack = range_of(&sent[1]).1;
    peer.exchange(peer.seg(Flags::ACK));
    let sent = send(&mut peer, conn, 2);
    peer.pass(RTT);
    peer.exchange(reports(&peer, &[range_of(&sent[1]), range_of(&sent[1])]));
    assert_eq!(peer.stack.counters().duplicates_reported, 1);
    let (_, waited) = next(&mut peer);
    assert!(waited > RTT / 3, "half a round trip at least, not a quarter: {waited}");
}

//~ recovery: congestion control can be chosen, and restarts slowly after idle time (RFC 5681)
#[test]
fn pause_longer_than_a_timeout_restarts_slowly() {
    let (mut peer, conn) = far(config(1), SACK);
    for _ in 0..3 {
        let sent = send(&mut peer, conn, 40);
        peer.pass(RTT);
        peer.ack = range_of(sent.last().unwrap()).1;
        let mut sent = peer.exchange(peer.seg(Flags::ACK));
        while let Some(last) = sent.last() {
            peer.pass(RTT);
            peer.ack = range_of(last).1;
            sent = peer.exchange(peer.seg(Flags::ACK));
        }
    }
    assert!(cwnd(&peer, conn) > 15_000);
    peer.pass(Span::from_secs(5));
    assert!(send(&mut peer, conn, 40).len() <= 10, "RFC 5681 §4.1");
}

#[test]
fn idle_connection_has_no_timer() {
    let (mut peer, _, sent) = flight(config(1), SACK, 5);
    peer.ack = range_of(&sent[4]).1;
    peer.exchange(peer.seg(Flags::ACK));
    assert_eq!(peer.wait(), []);
    assert!(peer.stack.poll_timeout().is_none_or(|at: Time| at > peer.now));
}
