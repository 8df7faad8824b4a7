//! How many packets wait where, over time.
//!
//! Ports are looked at every so often, by place. A run of any length leaves
//! at most [`INSTANTS`] instants: when there are as many, every other one is
//! forgotten and looks become half as frequent. A look costs one step per
//! port; whoever does not ask pays one comparison per event.

use queueing::{Span, Time};

use super::port::Port;
use super::topology::{Line, Node, Wiring};

/// Instants that are kept at most.
pub const INSTANTS: usize = 1024;
/// From one look to the next, at first.
const INTERVAL: Span = Span::from_micros(1);

/// Where ports are, in the order of [`Occupancy::places`].
pub const PLACES: [&str; 3] = ["from hosts", "to hosts", "between switches"];

/// What waited, by place; empty when nobody asked.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Occupancy {
    /// One per name in [`PLACES`].
    pub places: Vec<Waited>,
    /// From one instant to the next.
    pub interval: Span,
}

/// What waited at the ports of one place.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Waited {
    /// How many there are.
    pub ports: usize,
    /// At each instant from the start on, packets that waited: at a port in
    /// the mean, and at the fullest.
    pub series: Vec<(f64, usize)>,
    /// Per number of waiting packets, for how long (in first intervals, over
    /// all ports) so many waited.
    counts: Vec<u64>,
}

impl Waited {
    /// Packets at a port that waited no more than a share `q` (0 to 1) of the
    /// time; 0 where there is no port.
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

    /// Packets that waited at a port, in the mean over ports and time; NaN
    /// where there is no port.
    #[must_use]
    pub fn mean(&self) -> f64 {
        let weighted: f64 = self.counts.iter().enumerate().map(|(n, &count)| n as f64 * count as f64).sum();
        weighted / self.counts.iter().sum::<u64>() as f64
    }
}

/// Looks at some of a fabric's ports.
pub(super) struct Watch {
    /// Per place, what waited at the ports that are looked at.
    seen: [Seen; PLACES.len()],
    interval: Span,
    /// Per port, its place in [`PLACES`] if it is looked at.
    place_of: Vec<Option<usize>>,
    /// Per place, all ports there are.
    ports: [usize; PLACES.len()],
    /// When to look next; never, when nobody asked.
    pub due: Time,
}

#[derive(Clone, Debug, Default)]
struct Seen {
    /// At each instant, all that waited, and at the fullest port.
    series: Vec<(usize, usize)>,
    /// As [`Waited`] has them.
    counts: Vec<u64>,
}

impl Watch {
    /// Looks, if `asked`, at the ports of the nodes that are `here`.
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

    /// Looks at all ports as they have been since the last event; `now` is
    /// that of the next.
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

    /// What `watches`, each of its own ports and up to the same instant, saw
    /// together.
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
