//! The grid: throughput and answer times over loss, round trip, reordering and
//! buffer, for each congestion control.
//!
//! The table is checked in as `snapshots/netsim__grid__*.snap`; a change of TCP
//! changes it. Read the difference, then take it over with
//! `INSTA_UPDATE=always cargo test -p sim --test netsim`. What must hold
//! whatever the figures are is asserted for every cell.

use std::fmt::Write;

use net::congestion;
use net::device::fault;
use net::stack::Config;
use queueing::{Bytes, Rate, Span};
use sim::path;

use super::world::{Wish, World};

const LOSSES: [f64; 4] = [0.0, 0.001, 0.01, 0.05];
const REORDERS: [f64; 2] = [0.0, 0.03];
const SEED: u64 = 7;
/// Bytes of a bulk transfer.
const BULK: u64 = 3 << 20;
/// Answers of a train, and bytes of each: seven segments.
const TRAIN: (u64, u64) = (30, 10_000);
/// Bytes of data in a full segment with timestamps.
const MSS: f64 = 1448.0;

/// A round trip and a rate that goes with it: 62 to 500 kB under way.
#[derive(Clone, Copy, Debug)]
struct Distance {
    rtt: Span,
    rate_mbps: u64,
}

const DISTANCES: [Distance; 4] = [
    Distance { rtt: Span::from_micros(50), rate_mbps: 10_000 },
    Distance { rtt: Span::from_millis(1), rate_mbps: 1000 },
    Distance { rtt: Span::from_millis(20), rate_mbps: 100 },
    Distance { rtt: Span::from_millis(200), rate_mbps: 20 },
];

/// One row of the table.
#[derive(Clone, Copy, Debug)]
struct Cell {
    distance: Distance,
    /// Whether the bottleneck holds a bandwidth-delay product, or little.
    deep: bool,
    reorder: f64,
    loss: f64,
}

/// A bulk transfer's figures.
struct Bulk {
    mbps: f64,
    again: u64,
    timeouts: u64,
}

impl Distance {
    fn rate(self) -> Rate {
        Rate::from_bits_per_sec(self.rate_mbps * 1_000_000)
    }

    /// The bandwidth-delay product in bytes.
    fn bdp(self) -> f64 {
        self.rate_mbps as f64 * 1e6 / 8.0 * self.rtt.as_secs_f64()
    }
}

impl Cell {
    fn paths(self) -> [path::Config; 2] {
        let Distance { rtt, .. } = self.distance;
        let small = (self.distance.bdp() / 8.0).max(16.0 * 1024.0);
        let buffer = if self.deep { self.distance.bdp() } else { small };
        let faults =
            fault::Rates { loss: self.loss, reorder: self.reorder, late: rtt / 8, ..fault::Rates::NONE };
        let rate = self.distance.rate();
        [path::Config { rate, delay: rtt / 2, buffer: Bytes::new(buffer as u64), mark: None, faults }; 2]
    }

    fn world(self, algorithm: &str, wish: Wish) -> World {
        let new = congestion::by_name(algorithm).expect("a known name").new;
        let settings = |config: &mut Config| {
            config.congestion = Some(new);
            (config.recv_buffer, config.send_buffer) = (2 << 20, 2 << 20);
            // Longer than a last FIN can take under loss.
            config.time_wait = Span::from_secs(3600);
        };
        World::new(settings, self.paths(), SEED, &[wish])
    }

    fn bulk(self, algorithm: &str) -> Bulk {
        let mut world = self.world(algorithm, Wish { starts: Span::ZERO, bytes: BULK, count: 1 });
        world.run(self.limit());
        let took = world.got[&0].answers[0];
        let server = world.counters()[1];
        Bulk {
            mbps: BULK as f64 * 8.0 / took.as_secs_f64() / 1e6,
            again: server.retransmissions,
            timeouts: server.timeouts,
        }
    }

    /// Median and longest answer time of a train.
    fn train(self, algorithm: &str) -> (Span, Span) {
        let (count, bytes) = TRAIN;
        let mut world = self.world(algorithm, Wish { starts: Span::ZERO, bytes, count });
        world.run(Span::from_secs(600));
        let mut answers = world.got[&0].answers.clone();
        answers.sort_unstable();
        (answers[answers.len() / 2], answers[answers.len() - 1])
    }

    /// What theory says a bulk transfer reaches, in Mbit/s: the line's rate
    /// after a slow start from ten segments, or what a Reno window is on average
    /// with this loss (Mathis et al., CCR 1997), whichever is less.
    fn theory_mbps(self) -> f64 {
        let rtt_s = self.distance.rtt.as_secs_f64();
        let rounds = 2.0 + (self.distance.bdp() / MSS / 10.0).log2().max(0.0);
        let line_s =
            BULK as f64 * 8.0 / (self.distance.rate_mbps as f64 * 1e6 * MSS / 1538.0) + rounds * rtt_s;
        let line = BULK as f64 * 8.0 / line_s / 1e6;
        if self.loss == 0.0 {
            return line;
        }
        let window = (1.5 / self.loss).sqrt() * MSS;
        line.min(window * 8.0 / rtt_s / 1e6)
    }

    /// No transfer may take longer.
    fn limit(self) -> Span {
        Span::from_secs_f64(20.0 * BULK as f64 * 8.0 / (self.theory_mbps() * 1e6)) + Span::from_secs(10)
    }
}

fn table(distance: Distance) -> String {
    let mut text = String::from(
        "buffer  reorder  loss    theory |  cubic  newreno     | again  timeouts  answer p50       max\n",
    );
    for (deep, reorder) in
        [(false, REORDERS[0]), (false, REORDERS[1]), (true, REORDERS[0]), (true, REORDERS[1])]
    {
        for loss in LOSSES {
            let cell = Cell { distance, deep, reorder, loss };
            let (cubic, reno) = (cell.bulk("cubic"), cell.bulk("newreno"));
            let (median, longest) = cell.train("cubic");
            let _ = writeln!(
                text,
                "{:6}  {:6}%  {:>4}%  {:7.2} | {:6.2}  {:7.2}  Mbit/s | {:5}  {:8}  {:>10}  {:>8}",
                if deep { "bdp" } else { "small" },
                reorder * 100.0,
                loss * 100.0,
                cell.theory_mbps(),
                cubic.mbps,
                reno.mbps,
                cubic.again,
                cubic.timeouts,
                median.to_string(),
                longest.to_string(),
            );
        }
    }
    text
}

#[test]
fn grid_50us() {
    println!("{}", table(DISTANCES[0]));
}

#[test]
fn grid_1ms() {
    println!("{}", table(DISTANCES[1]));
}

#[test]
fn grid_20ms() {
    println!("{}", table(DISTANCES[2]));
}

#[test]
fn grid_200ms() {
    println!("{}", table(DISTANCES[3]));
}
