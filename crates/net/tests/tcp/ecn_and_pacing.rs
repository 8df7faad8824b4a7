//! Tests of ECN and pacing.

use net::congestion::{Dctcp, NewReno};
use net::stack::{Config, Ecn};
use net::{ConnId, EventKind};
use queueing::Span;
use wire::tcp::{Flags, Options};

use crate::peer::{Peer, Seg};
use crate::world::config;

const RTT: Span = Span::from_millis(20);
const OPTIONS: Options = Options { sack_permitted: true, mss: Some(1000), ..Options::NONE };
const ASK: Flags = Flags::SYN.with(Flags::ECE).with(Flags::CWR);
const ECT0: u8 = 2;
const CE: u8 = 3;

fn with(ecn: Ecn) -> Config {
    Config { ecn, congestion: Some(|mss| Box::new(NewReno::new(mss))), ..config(1) }
}

/// Connection whose handshake the peer opens with `syn`; the flags of the stack's answer.
fn open(config: Config, syn: Flags) -> (Peer, ConnId, Flags) {
    let mut peer = Peer::new(config);
    let answer = peer.exchange(Seg { options: OPTIONS, ack: wire::tcp::Seq(0), ..peer.seg(syn) });
    peer.seq += 1;
    peer.ack = answer[0].seq + 1;
    peer.pass(RTT);
    peer.exchange(peer.seg(Flags::ACK));
    let conn = peer.events.iter().find(|e| matches!(e.kind, EventKind::Accepted(_))).unwrap().conn;
    (peer, conn, answer[0].flags)
}

fn send(peer: &mut Peer, conn: ConnId, n: usize) -> Vec<Seg> {
    peer.stack.send(peer.now, conn, &vec![7; 1000 * n]).unwrap();
    peer.receive()
}

fn cwnd(peer: &Peer, conn: ConnId) -> u64 {
    peer.stack.flow(conn).unwrap().cwnd.get()
}

/// Acknowledges the first `n` of `sent`; sets ECE if `echo`.
fn acknowledge(peer: &mut Peer, sent: &[Seg], n: usize, echo: bool) -> Vec<Seg> {
    peer.ack = sent[n - 1].seq + 1000;
    let flags = if echo { Flags::ACK | Flags::ECE } else { Flags::ACK };
    peer.exchange(peer.seg(flags))
}

//~ recovery: ECN is negotiated by both ends; only new data is marked capable (RFC 3168)
#[test]
fn ecn_is_negotiated_by_both_or_not_used() {
    let syn_ack = Flags::SYN | Flags::ACK;
    for (ecn, syn, answer, mark) in [
        (Ecn::Classic, ASK, syn_ack | Flags::ECE, ECT0),
        (Ecn::Dctcp, ASK, syn_ack | Flags::ECE, ECT0),
        (Ecn::Classic, Flags::SYN, syn_ack, 0),
        (Ecn::Classic, Flags::SYN | Flags::ECE, syn_ack, 0),
        (Ecn::Off, ASK, syn_ack, 0),
    ] {
        let (mut peer, conn, flags) = open(with(ecn), syn);
        assert_eq!(flags, answer, "{ecn:?} {syn:?}");
        assert_eq!(send(&mut peer, conn, 1)[0].ecn, mark, "{ecn:?} {syn:?}");
    }
}

//~ recovery: ECN is negotiated by both ends; only new data is marked capable (RFC 3168)
#[test]
fn only_new_data_is_marked_capable() {
    let (mut peer, conn, _) = open(with(Ecn::Classic), ASK);
    let data = peer.data(0, b"x");
    assert_eq!(peer.exchange(data)[0].ecn, 0, "a bare acknowledgement");
    peer.seq += 1;
    let sent = send(&mut peer, conn, 1);
    assert_eq!(sent[0].ecn, ECT0);
    let again = peer.wait();
    assert_eq!((again[0].seq, again[0].ecn), (sent[0].seq, 0), "retransmitted");
}

#[test]
fn syn_without_an_answer_is_repeated_without_ecn() {
    let mut peer = Peer::new(with(Ecn::Classic));
    peer.stack.connect(peer.now, "10.0.0.2:5000".parse().unwrap(), Some(999)).unwrap();
    assert_eq!(peer.receive()[0].flags, ASK);
    let again = peer.wait();
    assert_eq!(again[0].flags, Flags::SYN, "RFC 3168 §6.1.1.1");
}

//~ recovery: echoed congestion marks reduce the window once per round trip (RFC 3168)
#[test]
fn echoes_reduce_the_window_once_a_round_trip() {
    let (mut peer, conn, _) = open(with(Ecn::Classic), ASK);
    let sent = send(&mut peer, conn, 30);
    assert_eq!(sent.len(), 10);
    peer.pass(RTT);
    let before = cwnd(&peer, conn);
    let mut new = Vec::new();
    for n in 1..=10 {
        new.extend(acknowledge(&mut peer, &sent, n, true));
    }
    assert_eq!(peer.stack.counters().ecn_reductions, 1);
    assert!(cwnd(&peer, conn) <= before * 6 / 10, "{} after {before}", cwnd(&peer, conn));
    let reported: Vec<bool> = new.iter().map(|s| s.flags.contains(Flags::CWR)).collect();
    assert!(
        reported[0] && reported[1..].iter().all(|reported| !reported),
        "CWR on the first new data: {reported:?}"
    );
    // The peer echoes until it has seen CWR: no further reduction.
    peer.pass(RTT);
    acknowledge(&mut peer, &new, 1, true);
    assert_eq!(peer.stack.counters().ecn_reductions, 2, "but for a mark after that");
    assert_eq!(peer.stack.counters().retransmissions, 0);
}

#[test]
fn mark_is_echoed_until_the_sender_reports_the_reduction() {
    let (mut peer, _, _) = open(with(Ecn::Classic), ASK);
    let mut receive = |ecn, flags: Flags| {
        let s = Seg { ecn, flags: Flags::ACK | flags, ..peer.data(0, b"x") };
        let answer = peer.exchange(s);
        peer.seq += 1;
        answer[0].flags.contains(Flags::ECE)
    };
    assert!(!receive(ECT0, Flags::NONE));
    assert!(receive(CE, Flags::NONE));
    assert!(receive(ECT0, Flags::NONE));
    assert!(!receive(ECT0, Flags::CWR));
    assert!(receive(CE, Flags::CWR), "CWR, and marked again");
}

//~ recovery: a DCTCP receiver reports every change of marks at once (RFC 8257)
#[test]
fn dctcp_echoes_every_change_of_marks_at_once() {
    let (mut peer, _, _) = open(with(Ecn::Dctcp), ASK);
    for ecn in [ECT0, ECT0, CE, CE] {
        let s = Seg { ecn, ..peer.data(0, b"x") };
        peer.inject(&s);
        peer.seq += 1;
    }
    let answers: Vec<_> =
        peer.receive().iter().map(|s| (peer.seq - s.ack, s.flags.contains(Flags::ECE))).collect();
    assert_eq!(answers, [(2, false), (0, true)], "RFC 8257 §3.2");
}

//~ recovery: DCTCP reduces by half the marked fraction, keeps the queue at the threshold and the link busy (RFC 8257)
#[test]
fn dctcp_reduces_by_half_the_marked_fraction() {
    let dctcp = Config { congestion: Some(|mss| Box::new(Dctcp::new(mss))), ..with(Ecn::Dctcp) };
    let (mut peer, conn, _) = open(dctcp, ASK);
    // Windows without a mark: α decreases from 1.
    for _ in 0..10 {
        let sent = send(&mut peer, conn, 2);
        peer.pass(RTT);
        acknowledge(&mut peer, &sent, 2, false);
    }
    let sent = send(&mut peer, conn, 2);
    peer.pass(RTT);
    let before = cwnd(&peer, conn) as f64;
    acknowledge(&mut peer, &sent, 2, true);
    let kept = cwnd(&peer, conn) as f64 / before;
    // α is (15/16)^n after n such windows, plus one marked window.
    let alpha = |n: i32| (15.0f64 / 16.0).powi(n);
    assert!((1.0 - alpha(8) / 2.0..=1.0 - alpha(12) / 2.0).contains(&kept), "{kept}");
}

//~ recovery: a paced window leaves over a round trip in small bursts
#[test]
fn paced_window_leaves_over_a_round_trip_in_small_bursts() {
    let paced = Config { pacing: true, ..with(Ecn::Off) };
    let (mut peer, conn, _) = open(paced, Flags::SYN);
    let start = peer.now;
    let mut bursts = vec![send(&mut peer, conn, 10).len()];
    while bursts.iter().sum::<usize>() < 10 {
        bursts.push(peer.wait().len());
    }
    let duration = peer.now.since(start);
    assert!(bursts.iter().all(|n| *n <= 3), "{bursts:?}");
    // Ten segments at twice the window per round trip, less the first burst.
    assert!(duration > RTT / 4 && duration < RTT / 2, "{duration}");
    assert_eq!(peer.stack.counters().retransmissions, 0);
}
