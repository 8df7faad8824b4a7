//! Tests of undo: a spurious recovery restores window and threshold, for all negotiated options and
//! congestion controls.

//~ recovery: recovery caused by delayed segments is undone, with and without SACK and timestamps

use net::congestion::{ALGORITHMS, Algorithm};
use net::stack::{Config, Info};
use net::{ConnId, EventKind};
use queueing::{Bytes, Span};
use wire::tcp::{Flags, Options, SackBlocks, Seq, Timestamps};

use crate::peer::{Peer, Seg};
use crate::world::config;

const RTT: Span = Span::from_millis(20);

/// Evidence that no segment was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Proof {
    /// The originals are acknowledged before any retransmission.
    NothingSentAgain,
    /// An echoed timestamp older than the retransmission.
    Echo,
    /// The peer reports the retransmitted segment as a duplicate.
    CameTwice,
    /// The timer fired; the originals are acknowledged before any retransmission.
    TimeoutNothingSentAgain,
    /// The timer fired, and the originals are acknowledged.
    Timeout,
}

/// Parameters of the enumeration.
#[derive(Clone, Copy, Debug)]
struct Case {
    sack: bool,
    timestamps: bool,
    algorithm: &'static str,
    /// True if an earlier loss has ended slow start.
    lost_before: bool,
    proof: Proof,
}

impl Case {
    fn all() -> Vec<Self> {
        use Proof::{CameTwice, Echo, NothingSentAgain, Timeout, TimeoutNothingSentAgain};
        let mut all = Vec::new();
        for Algorithm { name: algorithm, .. } in ALGORITHMS {
            for bits in 0..8 {
                let [sack, timestamps, lost_before] = [1, 2, 4].map(|bit| bits & bit != 0);
                for proof in [NothingSentAgain, Echo, CameTwice, TimeoutNothingSentAgain, Timeout] {
                    let reports = match proof {
                        Echo => timestamps,
                        CameTwice => sack,
                        _ => true,
                    };
                    all.extend(reports.then_some(Self { sack, timestamps, algorithm, lost_before, proof }));
                }
            }
        }
        all
    }
}

/// Stack, and a peer that behaves as one [`Case`] requires.
struct World {
    peer: Peer,
    conn: ConnId,
    case: Case,
    /// The stack's timestamp when the current segments were sent, as the peer echoes it.
    echo: u32,
}

impl World {
    fn new(case: Case) -> Self {
        let new = ALGORITHMS.iter().find(|known| known.name == case.algorithm).map(|known| known.new);
        let mut peer = Peer::new(Config { congestion: new, ..config(1) });
        let timestamps = case.timestamps.then_some(Timestamps { value: 1, echo: 0 });
        let options = Options { sack_permitted: case.sack, timestamps, mss: Some(1000), ..Options::NONE };
        let answer = peer.exchange(Seg { options, ..peer.seg(Flags::SYN) }).remove(0);
        peer.seq += 1;
        peer.ack = answer.seq + 1;
        peer.pass(RTT);
        let echo = answer.options.timestamps.map_or(0, |stamps| stamps.value);
        let timestamps = timestamps.map(|stamps| Timestamps { echo, ..stamps });
        peer.exchange(Seg { options: Options { timestamps, ..Options::NONE }, ..peer.seg(Flags::ACK) });
        let accepted = peer.events.iter().find(|e| matches!(e.kind, EventKind::Accepted(_)));
        let conn = accepted.expect("the connection is accepted").conn;
        Self { peer, conn, case, echo }
    }

    fn info(&self) -> Info {
        self.peer.stack.info(self.peer.now, self.conn).expect("the connection lives")
    }

    /// Congestion window and slow-start threshold.
    fn state(&self) -> (Bytes, Bytes) {
        (self.info().cwnd, self.info().ssthresh)
    }

    /// Queues `bytes`; the segments sent at once are in flight for a round trip.
    fn send(&mut self, bytes: usize) -> Vec<Seg> {
        self.peer.stack.send(self.peer.now, self.conn, &vec![7; bytes]).unwrap();
        self.flight()
    }

    fn flight(&mut self) -> Vec<Seg> {
        let sent = self.peer.receive();
        self.echo = sent[0].options.timestamps.map_or(0, |stamps| stamps.value);
        self.peer.pass(RTT);
        sent
    }

    /// Acknowledges up to `ack` and reports `blocks` if SACK is negotiated.
    fn ack(&mut self, ack: Seq, blocks: &[(Seq, Seq)]) {
        self.peer.ack = ack;
        let sack: SackBlocks = blocks.iter().copied().filter(|_| self.case.sack).collect();
        let timestamps = self.case.timestamps.then_some(Timestamps { value: 1, echo: self.echo });
        let options = Options { sack, timestamps, ..Options::NONE };
        self.peer.inject(&Seg { options, ..self.peer.seg(Flags::ACK) });
    }

    /// Reports all of `sent` but the first.
    fn report_all_but_first(&mut self, sent: &[Seg]) {
        for upto in 2..=sent.len() {
            self.ack(sent[0].seq, &[(sent[1].seq, end(&sent[upto - 1]))]);
        }
    }

    /// Loses and repairs a segment; the window grows again.
    fn lose_one(&mut self) {
        let sent = self.send(10_000);
        self.report_all_but_first(&sent);
        let again = self.flight();
        assert_eq!(again[0].seq, sent[0].seq);
        let last = again.iter().chain(&sent).map(end).max_by_key(|at| at.distance(sent[0].seq));
        self.ack(last.expect("something was sent"), &[]);
        for _ in 0..6 {
            let window = self.info().cwnd.get() as usize;
            let sent = self.send(window);
            sent.iter().for_each(|s| self.ack(end(s), &[]));
        }
        assert_eq!((self.info().unacknowledged, self.info().lost), (Bytes::ZERO, Bytes::ZERO));
    }

    /// Fires the retransmission timer without sending.
    fn time_out(&mut self) {
        let before = self.peer.stack.counters().timeouts;
        while self.peer.stack.counters().timeouts == before {
            self.peer.now = self.peer.now.max(self.peer.stack.poll_timeout().expect("a timer runs"));
            self.peer.stack.handle_timeout(self.peer.now);
        }
    }
}

fn end(s: &Seg) -> Seq {
    s.seq + s.payload.len() as u32
}

fn check(case: Case) {
    let mut world = World::new(case);
    if case.lost_before {
        world.lose_one();
    }
    // More than the window allows.
    let sent = world.send(30_000);
    let (before, undone) = (world.state(), world.peer.stack.counters().recoveries_undone);
    let echo = world.echo;
    match case.proof {
        Proof::NothingSentAgain | Proof::Echo | Proof::CameTwice => world.report_all_but_first(&sent[..5]),
        Proof::TimeoutNothingSentAgain | Proof::Timeout => world.time_out(),
    }
    let reduced = world.state();
    assert!(reduced.0 < before.0 && reduced.1 < before.1, "{case:?}: {before:?} {reduced:?}");
    match case.proof {
        Proof::NothingSentAgain | Proof::TimeoutNothingSentAgain => world.ack(end(&sent[4]), &[]),
        Proof::Echo => {
            assert_eq!(world.flight()[0].seq, sent[0].seq, "{case:?}");
            world.echo = echo;
            world.ack(end(&sent[4]), &[]);
        }
        Proof::CameTwice => {
            let again = world.flight();
            assert_eq!(again[0].seq, sent[0].seq, "{case:?}");
            // All segments in flight have arrived, the first twice.
            let last = again.iter().chain(&sent).map(end).max_by_key(|at| at.distance(sent[0].seq)).unwrap();
            world.ack(last, &[]);
            world.ack(last, &[(sent[0].seq, end(&sent[0]))]);
        }
        Proof::Timeout => {
            assert_eq!(world.flight()[0].seq, sent[0].seq, "{case:?}");
            world.echo = echo;
            world.ack(end(&sent[0]), &[]);
            if !case.timestamps {
                // New data is sent (F-RTO), and originals are acknowledged.
                let new = world.peer.receive();
                assert!(new.iter().all(|s| s.seq.after(sent[sent.len() - 1].seq)), "{case:?}: {new:?}");
                world.ack(end(&sent[2]), &[]);
            }
        }
    }
    let after = world.state();
    assert!(sent.len() >= 6, "{case:?}: {}", sent.len());
    assert!(after.0 >= before.0 && after.1 == before.1, "{case:?}: {before:?} {reduced:?} {after:?}");
    assert_eq!(world.peer.stack.counters().recoveries_undone, undone + 1, "{case:?}");
    assert_eq!(world.info().lost, Bytes::ZERO, "{case:?}");
}

#[test]
fn a_retransmission_of_merely_late_data_is_undone() {
    Case::all().into_iter().for_each(check);
}
