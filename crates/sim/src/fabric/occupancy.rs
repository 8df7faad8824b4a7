//! How many packets wait where, over time.
//!
//! Ports are looked at every so often, by place. A run of any length leaves
//! at most [`INSTANTS`] instants: when there are as many, every other one is
//! forgotten and looks become half as frequent. A look costs one step per
//! port; whoever does not ask pays one comparison per event.

use queueing::{Span, Time};

use super::port::Port;
use super::topology::Wiring;

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

/// Looks at ports.
pub(super) struct Watch {
    found: Occupancy,
    /// Per port, its place in [`PLACES`].
    place_of: Vec<usize>,
    /// When to look next; never, when nobody asked.
    pub due: Time,
}

impl Watch {
    pub fn new(wiring: &Wiring, asked: bool) -> Self {
        if !asked {
            return Self { found: Occupancy::default(), place_of: Vec::new(), due: Time::MAX };
        }
        let place = |line: &super::Line| match (line.from < wiring.hosts, line.to < wiring.hosts) {
            (true, _) => 0,
            (false, true) => 1,
            (false, false) => 2,
        };
        let place_of: Vec<usize> = wiring.lines.iter().map(place).collect();
        let places = (0..PLACES.len()).map(|place| Waited {
            ports: place_of.iter().filter(|&&of| of == place).count(),
            ..Waited::default()
        });
        let found = Occupancy { places: places.collect(), interval: INTERVAL };
        Self { found, place_of, due: Time::ZERO }
    }

    /// Looks at all ports as they have been since the last event; `now` is
    /// that of the next.
    pub fn look(&mut self, now: Time, ports: &[Port]) {
        while self.due <= now {
            let interval = self.found.interval;
            self.look_once(ports);
            self.due += interval;
        }
    }

    fn look_once(&mut self, ports: &[Port]) {
        let weight = self.found.interval.as_nanos() / INTERVAL.as_nanos();
        let mut seen = [(0_usize, 0_usize); PLACES.len()];
        for (port, &place) in ports.iter().zip(&self.place_of) {
            let waiting = port.waiting();
            let counts = &mut self.found.places[place].counts;
            if counts.len() <= waiting {
                counts.resize(waiting + 1, 0);
            }
            counts[waiting] += weight;
            seen[place] = (seen[place].0 + waiting, seen[place].1.max(waiting));
        }
        let full = self.found.places[0].series.len() + 1 == INSTANTS;
        for (place, (sum, most)) in self.found.places.iter_mut().zip(seen) {
            place.series.push((sum as f64 / place.ports.max(1) as f64, most));
            if full {
                let mut index = 0;
                place.series.retain(|_| {
                    index += 1;
                    index % 2 == 1
                });
            }
        }
        if full {
            self.found.interval = self.found.interval * 2;
        }
    }

    pub fn finish(self) -> Occupancy {
        self.found
    }
}
