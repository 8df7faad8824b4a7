//! Reordering without loss does not reduce the sending rate.

//~ recovery: reordering of 1 to 50 % of segments without loss keeps 60 % of the throughput

use net::congestion::{self, ALGORITHMS};
use net::device::fault_injector::Rates;
use queueing::{Bytes, Rate, Span};
use sim::path;

use super::world::{Transfer, World};

const RTT: Span = Span::from_millis(10);
const BYTES: u64 = 8 << 20;
/// Minimum share of the throughput without reordering.
const SHARE_MIN: f64 = 0.6;

/// Throughput of a bulk transfer by `algorithm` at 400 Mb/s, in bytes per second. A share
/// `reorder` of the segments is delayed by `late`; arrivals within `batch` are processed before
/// anything is sent.
fn throughput(algorithm: &str, reorder: f64, late: Span, batch: Span) -> f64 {
    let new = congestion::by_name(algorithm).expect("a known name").new;
    let (rate, buffer) = (Rate::from_bits_per_sec(400_000_000), Bytes::new(1 << 20));
    let up = path::Config { rate, delay: RTT / 2, buffer, mark: None, faults: Rates::NONE };
    let down = path::Config { faults: Rates { reorder, late, ..Rates::NONE }, ..up };
    let settings = |config: &mut net::stack::Config| {
        config.congestion = Some(new);
        (config.recv_buffer, config.send_buffer) = (4 << 20, 4 << 20);
        config.time_wait = Span::from_secs(3600);
    };
    let transfer = Transfer { starts: Span::ZERO, bytes: BYTES, count: 1 };
    let mut world = World::new(settings, [down, up], 7, &[transfer]);
    world.batch = batch;
    world.run(Span::from_secs(600));
    BYTES as f64 / world.durations[&0][0].as_secs_f64()
}

#[test]
fn late_segments_cost_little_throughput() {
    for (algorithm, batch) in ALGORITHMS.iter().flat_map(|all| [(all.name, Span::ZERO), (all.name, RTT / 8)])
    {
        let ordered = throughput(algorithm, 0.0, Span::ZERO, batch);
        for reorder in [0.01, 0.1, 0.3, 0.5] {
            for late in [RTT / 8, RTT * 3 / 10, RTT * 2 / 5, RTT] {
                let share = throughput(algorithm, reorder, late, batch) / ordered;
                assert!(share > SHARE_MIN, "{algorithm}, {reorder} late by {late}, {batch}: {share}");
            }
        }
    }
}
