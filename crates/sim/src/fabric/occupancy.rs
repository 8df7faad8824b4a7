//! Queue lengths of ports over time, by location.
//!
//! Ports are sampled at a fixed interval. A run keeps at most [`INSTANTS`] samples: when the
//! limit is reached, every other sample is discarded and the interval doubles. A sample costs
//! one step per port; with sampling disabled the cost is one comparison per event.

use queueing::{Span, Time};

use super::port::Port;
use super::topology::{Line, Node, Wiring};

/// Maximum number of samples kept.
pub const INSTANTS: usize = 1024;
/// Initial sampling interval.
const INTERVAL: Span = Span::from_micros(1);

/// Locations of ports, in the order of [`Occupancy::places`].
pub const PLACES: [&str; 3] = ["from hosts", "to hosts", "between switches"];

/// Queue lengths by location; empty if sampling was disabled.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Occupancy {
    /// One entry per name in [`PLACES`].
    pub places: Vec<Waited>,
    /// Interval between samples.
    pub interval: Span,
}

/// Queue lengths at the ports of one location.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Waited {
    /// Number of ports.
    pub ports: usize,
    /// Per sample from the start of the run: mean and maximum of packets queued at a port.
    pub series: Vec<(f64, usize)>,
    /// Histogram over queue length: samples of all ports with this many packets, in units of
    /// the initial interval.
    counts: Vec<u64>,
}

impl Waited {
    /// Quantile `q` (0 to 1) over time of packets queued at a port; 0 without ports.
    #[must_use]
    pub fn quantile(&self, q: f64) -> usize {
        let wanted = (self.counts.iter().sum::<u64>() as f64 * q).ceil() as u64;
        let mut seen = 0;
        let reached = |count: &u64| {
            seen += count;
            seen >= wanted
        };
        self.counts.iter().position(reached).unwrap_or_default()
    }

    /// Mean over ports and time of packets queued at a port; NaN without ports.
    #[must_use]
    pub fn mean(&self) -> f64 {
        let weighted: f64 = self.counts.iter().enumerate().map(|(n, &count)| n as f64 * count as f64).sum();
        weighted / self.counts.iter().sum::<u64>() as f64
    }
}

/// Sampler of the ports of one partition.
pub(super) struct Watch {
    /// Samples per location.
    seen: [Seen; PLACES.len()],
    interval: Span,
    /// Location of each port, as an index of [`PLACES`]; `None` for ports of other partitions.
    place_of: Vec<Option<usize>>,
    /// Number of ports per location, in the whole fabric.
    ports: [usize; PLACES.len()],
    /// Time of the next sample; [`Time::MAX`] if sampling is disabled.
    pub due: Time,
}

#[derive(Clone, Debug, Default)]
struct Seen {
    /// Per sample: packets at all ports, and at the fullest port.
    series: Vec<(usize, usize)>,
    /// Same as in [`Waited`].
    counts: Vec<u64>,
}

impl Watch {
    /// Sampler for the ports of the nodes selected by `here`; `asked` enables sampling.
    pub fn new(wiring: &Wiring, asked: bool, here: impl Fn(Node) -> bool) -> Self {
        let place = |line: &Line| match (line.from < wiring.hosts, line.to < wiring.hosts) {
            (true, _) => 0,
            (false, true) => 1,
            (false, false) => 2,
        };
        let mut ports = [0; PLACES.len()];
        wiring.lines.iter().for_each(|line| ports[place(line)] += 1);
        let place_of = |line: &Line| here(line.from).then(|| place(line));
        Self {
            seen: Default::default(),
            interval: INTERVAL,
            place_of: wiring.lines.iter().map(place_of).collect(),
            ports,
            due: if asked { Time::ZERO } else { Time::MAX },
        }
    }

    /// Takes the samples due up to `now`, the time of the next event; queues have not changed
    /// since the last one.
    pub fn look(&mut self, now: Time, ports: &[Port]) {
        while self.due <= now {
            let interval = self.interval;
            self.look_once(ports);
            self.due += interval;
        }
    }

    fn look_once(&mut self, ports: &[Port]) {
        let weight = self.interval.as_nanos() / INTERVAL.as_nanos();
        let mut now = [(0_usize, 0_usize); PLACES.len()];
        let here = ports.iter().zip(&self.place_of).filter_map(|(port, place)| Some((port, (*place)?)));
        for (port, place) in here {
            let waiting = port.waiting();
            let counts = &mut self.seen[place].counts;
            if counts.len() <= waiting {
                counts.resize(waiting + 1, 0);
            }
            counts[waiting] += weight;
            now[place] = (now[place].0 + waiting, now[place].1.max(waiting));
        }
        let full = self.seen[0].series.len() + 1 == INSTANTS;
        for (seen, now) in self.seen.iter_mut().zip(now) {
            seen.series.push(now);
            if full {
                let mut index = 0;
                seen.series.retain(|_| {
                    index += 1;
                    index % 2 == 1
                });
            }
        }
        if full {
            self.interval = self.interval * 2;
        }
    }

    /// Merges the samples of `watches`, which cover disjoint ports up to the same instant.
    pub fn finish(watches: Vec<Self>) -> Occupancy {
        let Some(all) = watches.into_iter().reduce(Self::and) else { return Occupancy::default() };
        if all.due == Time::MAX {
            return Occupancy::default();
        }
        let places = all.seen.into_iter().zip(all.ports).map(|(Seen { series, counts }, ports)| {
            let mean = |(sum, most): (usize, usize)| (sum as f64 / ports.max(1) as f64, most);
            Waited { ports, series: series.into_iter().map(mean).collect(), counts }
        });
        Occupancy { places: places.collect(), interval: all.interval }
    }

    fn and(mut self, other: Self) -> Self {
        for (seen, other) in self.seen.iter_mut().zip(other.seen) {
            for ((sum, most), (other_sum, other_most)) in seen.series.iter_mut().zip(other.series) {
                (*sum, *most) = (*sum + other_sum, (*most).max(other_most));
            }
            seen.counts.resize(seen.counts.len().max(other.counts.len()), 0);
            seen.counts.iter_mut().zip(other.counts).for_each(|(count, other)| *count += other);
        }
        self
    }
}
