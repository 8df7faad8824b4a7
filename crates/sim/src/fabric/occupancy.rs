//! Queue lengths of ports over time, by location.
//!
//! Ports are sampled at a fixed interval. A run keeps at most [`INSTANTS`] samples: when the
//! limit is reached, every other sample is discarded and the interval doubles. A sample costs
//! one step per port; with sampling disabled the cost is one comparison per event.

use queueing::{Span, Time};

use super::port::Port;
use super::topology::{DirectedLink, Node, Wiring};

/// Maximum number of samples kept.
pub const INSTANTS: usize = 1024;
/// Initial sampling interval.
const INTERVAL: Span = Span::from_micros(1);

/// Locations of ports, in the order of [`Occupancy::places`].
pub const LOCATIONS: [&str; 3] = ["from hosts", "to hosts", "between switches"];

/// Queue lengths by location; empty if sampling was disabled.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Occupancy {
    /// One entry per name in [`LOCATIONS`].
    pub queues: Vec<Waited>,
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
        let mut samples = 0;
        let reached = |count: &u64| {
            samples += count;
            samples >= wanted
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
pub(super) struct Sampler {
    /// Samples per location.
    samples: [LocationSamples; LOCATIONS.len()],
    interval: Span,
    /// Location of each port, as an index of [`LOCATIONS`]; `None` for ports of other partitions.
    location_of: Vec<Option<usize>>,
    /// Number of ports per location, in the whole fabric.
    ports: [usize; LOCATIONS.len()],
    /// Time of the next sample; [`Time::MAX`] if sampling is disabled.
    pub next_sample: Time,
}

#[derive(Clone, Debug, Default)]
struct LocationSamples {
    /// Per sample: packets at all ports, and at the fullest port.
    series: Vec<(usize, usize)>,
    /// Counts as in [`Waited`].
    counts: Vec<u64>,
}

impl Sampler {
    /// Sampler for the ports of the nodes selected by `local`; `enabled` enables sampling.
    pub fn new(wiring: &Wiring, enabled: bool, local: impl Fn(Node) -> bool) -> Self {
        let location = |line: &DirectedLink| match (line.from < wiring.hosts, line.to < wiring.hosts) {
            (true, _) => 0,
            (false, true) => 1,
            (false, false) => 2,
        };
        let mut ports = [0; LOCATIONS.len()];
        wiring.lines.iter().for_each(|line| ports[location(line)] += 1);
        let location_of = |line: &DirectedLink| local(line.from).then(|| location(line));
        Self {
            samples: Default::default(),
            interval: INTERVAL,
            location_of: wiring.lines.iter().map(location_of).collect(),
            ports,
            next_sample: if enabled { Time::ZERO } else { Time::MAX },
        }
    }

    /// Takes the samples due up to `now`, the time of the next event; queues have not changed
    /// since the last one.
    pub fn sample(&mut self, now: Time, ports: &[Port]) {
        while self.next_sample <= now {
            let interval = self.interval;
            self.sample_once(ports);
            self.next_sample += interval;
        }
    }

    fn sample_once(&mut self, ports: &[Port]) {
        let weight = self.interval.as_nanos() / INTERVAL.as_nanos();
        let mut now = [(0_usize, 0_usize); LOCATIONS.len()];
        let local =
            ports.iter().zip(&self.location_of).filter_map(|(port, location)| Some((port, (*location)?)));
        for (port, location) in local {
            let waiting = port.waiting();
            let counts = &mut self.samples[location].counts;
            if counts.len() <= waiting {
                counts.resize(waiting + 1, 0);
            }
            counts[waiting] += weight;
            now[location] = (now[location].0 + waiting, now[location].1.max(waiting));
        }
        let full = self.samples[0].series.len() + 1 == INSTANTS;
        for (samples, now) in self.samples.iter_mut().zip(now) {
            samples.series.push(now);
            if full {
                let mut index = 0;
                samples.series.retain(|_| {
                    index += 1;
                    index % 2 == 1
                });
            }
        }
        if full {
            self.interval = self.interval * 2;
        }
    }

    /// Merges the samples of `samplers`, which cover disjoint ports up to the same instant.
    pub fn finish(samplers: Vec<Self>) -> Occupancy {
        let Some(all) = samplers.into_iter().reduce(Self::merge) else { return Occupancy::default() };
        if all.next_sample == Time::MAX {
            return Occupancy::default();
        }
        let queues =
            all.samples.into_iter().zip(all.ports).map(|(LocationSamples { series, counts }, ports)| {
                let mean = |(sum, most): (usize, usize)| (sum as f64 / ports.max(1) as f64, most);
                Waited { ports, series: series.into_iter().map(mean).collect(), counts }
            });
        Occupancy { queues: queues.collect(), interval: all.interval }
    }

    fn merge(mut self, other: Self) -> Self {
        for (samples, other) in self.samples.iter_mut().zip(other.samples) {
            for ((sum, most), (other_sum, other_most)) in samples.series.iter_mut().zip(other.series) {
                (*sum, *most) = (*sum + other_sum, (*most).max(other_most));
            }
            samples.counts.resize(samples.counts.len().max(other.counts.len()), 0);
            samples.counts.iter_mut().zip(other.counts).for_each(|(count, other)| *count += other);
        }
        self
    }
}
