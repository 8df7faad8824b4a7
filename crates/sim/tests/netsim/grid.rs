//! Grid: throughput and response times over loss, round trip, reordering and buffer size, for
//! each congestion control.
//!
//! The tables are checked in as `snapshots/*.snap`; a change of TCP changes them. Review the
//! difference, then accept it with `INSTA_UPDATE=always cargo test -p sim --test netsim`. Every
//! cell is also checked against bounds: see [`Row::check`].
//! whatever the figures are is asserted for every cell: see [`Row::check`].

//~ recovery: every cell of loss × RTT × reordering × buffer ends with intact data and at least 60 % of the theory

use std::fmt::Write;

use net::congestion;
use net::device::fault_injector;
use net::stack::{Config, Ecn};
use queueing::{Bytes, Rate, Span};
use sim::path;

use super::world::{Transfer, World};

const LOSSES: [f64; 4] = [0.0, 0.001, 0.01, 0.05];
const REORDERS: [f64; 2] = [0.0, 0.03];
/// Bulk transfers per cell, each with its own seed, and bytes of each.
const BULKS: (u64, u64) = (3, 3 << 20);
/// Responses of a train, and bytes of each: seven segments.
const TRAIN: (u64, u64) = (50, 10_000);
/// Data bytes of a full segment with timestamps, and its bytes on the line.
const MSS: f64 = 1448.0;
const ON_LINE: f64 = 1538.0;

/// Round-trip time with a matching rate.
#[derive(Clone, Copy, Debug)]
struct Distance {
    rtt: Span,
    rate_mbps: u64,
}

/// Bandwidth-delay products of 62 to 500 kB.
const DISTANCES: [Distance; 4] = [
    Distance { rtt: Span::from_micros(50), rate_mbps: 10_000 },
    Distance { rtt: Span::from_millis(1), rate_mbps: 1000 },
    Distance { rtt: Span::from_millis(20), rate_mbps: 100 },
    Distance { rtt: Span::from_millis(200), rate_mbps: 20 },
];

/// Congestion control of both sides.
#[derive(Clone, Copy, Debug)]
struct Variant {
    algorithm: &'static str,
    pacing: bool,
    ecn: Ecn,
}

const CUBIC: Variant = Variant { algorithm: "cubic", pacing: false, ecn: Ecn::Off };

/// Path parameters.
#[derive(Clone, Copy, Debug)]
struct Cell {
    distance: Distance,
    /// True for a buffer of one bandwidth-delay product, false for a small one.
    deep: bool,
    reorder: f64,
    loss: f64,
}

/// Results of one cell.
#[derive(Clone, Copy, Debug)]
struct Row {
    cell: Cell,
    cubic: Bulks,
    paced: Bulks,
    newreno: Bulks,
    /// Only for data centre paths: short round trip, marking bottleneck.
    dctcp: Option<Bulks>,
    /// Median and maximum response time of a train.
    train: (Span, Span),
}

/// Results over all bulk transfers of a cell.
#[derive(Clone, Copy, Debug)]
struct Bulks {
    mbps: f64,
    segments_again: u64,
    timeouts: u64,
}

impl Distance {
    fn rate(self) -> Rate {
        Rate::from_bits_per_sec(self.rate_mbps * 1_000_000)
    }

    /// Bandwidth-delay product in bytes.
    fn bdp(self) -> f64 {
        self.rate_mbps as f64 * 1e6 / 8.0 * self.rtt.as_secs_f64()
    }
}

impl Cell {
    fn directions(self) -> [path::Config; 2] {
        let Distance { rtt, .. } = self.distance;
        let small = (self.distance.bdp() / 8.0).max(16.0 * 1024.0);
        let buffer = if self.deep { self.distance.bdp() } else { small };
        let rates = fault_injector::Rates::NONE;
        let faults = fault_injector::Rates { loss: self.loss, reorder: self.reorder, late: rtt / 8, ..rates };
        let (rate, buffer) = (self.distance.rate(), Bytes::new(buffer as u64));
        let mark = Some(Bytes::new((self.distance.bdp() / 4.0) as u64));
        [path::Config { rate, delay: rtt / 2, buffer, mark, faults }; 2]
    }

    fn world(self, variant: Variant, seed: u64, transfer: Transfer) -> World {
        let Variant { algorithm, pacing, ecn } = variant;
        let new = congestion::by_name(algorithm).expect("a known name").new;
        let settings = |config: &mut Config| {
            (config.congestion, config.pacing, config.ecn) = (Some(new), pacing, ecn);
            (config.recv_buffer, config.send_buffer) = (2 << 20, 2 << 20);
            // Longer than the last FIN can take under loss.
            config.time_wait = Span::from_secs(3600);
        };
        World::new(settings, self.directions(), seed, &[transfer])
    }

    fn bulks(self, variant: Variant) -> Bulks {
        let (count, bytes) = BULKS;
        // Without random faults all runs are equal.
        let count = if self.loss + self.reorder > 0.0 { count } else { 1 };
        let (mut took, mut segments_again, mut timeouts) = (Span::ZERO, 0, 0);
        for seed in 0..count {
            let mut world = self.world(variant, seed, Transfer { starts: Span::ZERO, bytes, count: 1 });
            world.run(self.limit());
            took += world.durations[&0][0];
            let server = world.counters()[1];
            segments_again += server.retransmissions;
            timeouts += server.timeouts;
        }
        let mbps = (count * bytes) as f64 * 8.0 / took.as_secs_f64() / 1e6;
        Bulks { mbps, segments_again, timeouts }
    }

    fn train(self) -> (Span, Span) {
        let (count, bytes) = TRAIN;
        let mut world = self.world(CUBIC, 7, Transfer { starts: Span::ZERO, bytes, count });
        world.run(Span::from_secs(600));
        let mut answers = world.durations[&0].clone();
        answers.sort_unstable();
        (answers[answers.len() / 2], answers[answers.len() - 1])
    }

    /// Expected throughput of a bulk transfer, in Mbit/s: the smaller of the line rate after a
    /// slow start from ten segments, and the throughput of Reno at this loss rate (Mathis et
    /// al., CCR 1997).
    fn theory_mbps(self) -> f64 {
        let rtt_s = self.distance.rtt.as_secs_f64();
        let rounds = 2.0 + (self.distance.bdp() / MSS / 10.0).log2().max(0.0);
        let line_s = BULKS.1 as f64 * 8.0 / (self.distance.rate_mbps as f64 * 1e6 * MSS / ON_LINE);
        let line = BULKS.1 as f64 * 8.0 / (line_s + rounds * rtt_s) / 1e6;
        if self.loss == 0.0 {
            return line;
        }
        let window = (1.5 / self.loss).sqrt() * MSS;
        line.min(window * 8.0 / rtt_s / 1e6)
    }

    /// Time limit of a transfer.
    fn limit(self) -> Span {
        Span::from_secs_f64(10.0 * BULKS.1 as f64 * 8.0 / (self.theory_mbps() * 1e6)) + Span::from_secs(5)
    }

    fn row(self) -> Row {
        let marked = self.deep && self.distance.rtt <= Span::from_millis(1);
        Row {
            cell: self,
            cubic: self.bulks(CUBIC),
            paced: self.bulks(Variant { pacing: true, ..CUBIC }),
            newreno: self.bulks(Variant { algorithm: "newreno", ..CUBIC }),
            dctcp: marked.then(|| self.bulks(Variant { algorithm: "dctcp", ecn: Ecn::Dctcp, ..CUBIC })),
            train: self.train(),
        }
    }
}

fn rows(distance: Distance) -> Vec<Row> {
    let mut rows = Vec::new();
    for deep in [false, true] {
        for reorder in REORDERS {
            for loss in LOSSES {
                rows.push(Cell { distance, deep, reorder, loss }.row());
            }
        }
    }
    rows
}

impl Row {
    /// Checks the bounds of a cell.
    ///
    /// A deep buffer, or a loss rate that keeps the window small, gives at least 60 % of the
    /// expected throughput; a small buffer hit by the bursts of an unpaced slow start, 40 %.
    /// Half a window of four segments has no three to detect a loss by: at 5 % loss NewReno,
    /// and DCTCP, which reacts to loss as NewReno does, give 45 % of an expectation that
    /// ignores timeouts. At 1 % loss or more CUBIC is at least as fast as NewReno (RFC 9438
    /// §4.3), apart from random variation. The median response takes one round trip, or two
    /// where most responses lose a segment.
    fn check(&self) {
        let Self { cell, cubic, paced, newreno, dctcp, train } = self;
        let theory = cell.theory_mbps();
        let floor = if cell.deep || cell.loss >= 0.01 { 0.6 } else { 0.4 };
        let floor_newreno = if cell.loss < 0.05 { floor } else { 0.45 };
        for (name, bulks, floor) in [("cubic", cubic, floor), ("newreno", newreno, floor_newreno)] {
            assert!(bulks.mbps > floor * theory, "{name} at {cell:?}: {} Mbit/s of {theory}", bulks.mbps);
        }
        let slower = newreno.mbps < 1.1 * cubic.mbps;
        assert!(slower || cell.loss < 0.01, "{cell:?}: newreno {}, cubic {}", newreno.mbps, cubic.mbps);
        let [dctcp, paced] = [dctcp.as_ref(), Some(paced)];
        for (bulks, floor) in [(dctcp, floor_newreno), (paced, 0.6)] {
            let mbps = bulks.map_or(f64::MAX, |bulks| bulks.mbps);
            assert!(mbps > floor * theory, "{cell:?}: {mbps} Mbit/s of {theory}");
        }
        let serial = cell.distance.rate().time_for(Bytes::new(11_000)) + cell.distance.rtt / 4;
        let round_trips = if cell.loss < 0.05 { 1 } else { 2 };
        let most = cell.distance.rtt * round_trips + serial;
        assert!(train.0 <= most, "{cell:?}: the median answer took {}, not {most}", train.0);
    }

    /// More loss or reordering does not help, apart from random variation: without faults there
    /// is a single run, in which one overflow of the buffer weighs much.
    fn check_beside_better(&self, better: &Self) {
        let (now, before) = (self.cubic.mbps, better.cubic.mbps);
        assert!(now < 1.2 * before, "{now} Mbit/s at {:?}, {before} at {:?}", self.cell, better.cell);
    }

    /// Reordering by an eighth of a round trip does not count as loss.
    fn check_beside_ordered(&self, ordered: &Self) {
        let (now, before) = (self.cubic.mbps, ordered.cubic.mbps);
        assert!(now > 0.8 * before, "{now} Mbit/s at {:?}, {before} in order", self.cell);
    }
}

fn table(rows: &[Row]) -> String {
    let mut text = String::from(
        "buffer  reorder   loss |  theory    cubic    paced  newreno    dctcp        |  again  timeouts | answer p50      max\n",
    );
    for Row { cell, cubic, paced, newreno, dctcp, train } in rows {
        let _ = writeln!(
            text,
            "{:6}  {:6}%  {:>4}% | {:7.2}  {:7.2}  {:7.2}  {:7.2}  {:>7} Mbit/s | {:6}  {:8} | {:>10}  {:>7}",
            if cell.deep { "bdp" } else { "small" },
            cell.reorder * 100.0,
            cell.loss * 100.0,
            cell.theory_mbps(),
            cubic.mbps,
            paced.mbps,
            newreno.mbps,
            dctcp.map_or("–".to_owned(), |dctcp| format!("{:.2}", dctcp.mbps)),
            cubic.segments_again,
            cubic.timeouts,
            train.0.to_string(),
            train.1.to_string(),
        );
    }
    text
}

/// Computes and checks the tables of one distance.
fn check(distance: Distance) -> String {
    let rows = rows(distance);
    rows.iter().for_each(Row::check);
    for losses in rows.chunks(LOSSES.len()) {
        losses.windows(2).for_each(|pair| pair[1].check_beside_better(&pair[0]));
    }
    for buffer in rows.chunks(2 * LOSSES.len()) {
        let (ordered, reordered) = buffer.split_at(LOSSES.len());
        reordered
            .iter()
            .zip(ordered)
            .for_each(|(reordered, ordered)| reordered.check_beside_ordered(ordered));
    }
    table(&rows)
}

#[test]
fn fifty_microseconds() {
    insta::assert_snapshot!(check(DISTANCES[0]));
}

#[test]
fn a_millisecond() {
    insta::assert_snapshot!(check(DISTANCES[1]));
}

#[test]
fn twenty_milliseconds() {
    insta::assert_snapshot!(check(DISTANCES[2]));
}

#[test]
fn two_hundred_milliseconds() {
    insta::assert_snapshot!(check(DISTANCES[3]));
}
