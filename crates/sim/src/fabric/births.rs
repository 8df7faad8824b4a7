//! When flows begin, between whom, and how long they are: the same for every
//! scheduler, since nothing here depends on what the network does.

use queueing::{Rng, Span, Time};

use super::mrg::Mrg32k3a;
use super::{Config, Draws, Senders};

/// Every sender has an arrival process of its own.
pub(super) struct Births {
    senders: Vec<Source>,
    /// Numbers in 0..1.
    sizes: Box<dyn FnMut() -> f64 + Send>,
    peers: Rng,
}

struct Source {
    times: Box<dyn Iterator<Item = Time> + Send>,
    next: Option<Time>,
}

/// A flow that begins.
pub(super) struct Birth {
    pub to: u32,
    pub segments: u32,
}

impl Births {
    pub fn new(config: &Config) -> Self {
        let rng = Rng::seeded(config.seed);
        let senders = match config.senders {
            Senders::First => 1,
            Senders::All => config.topology.hosts(),
        };
        let source = |sender: u32| {
            let mut times: Box<dyn Iterator<Item = Time> + Send> = match config.draws {
                Draws::Own => Box::new(config.arrivals.times(Time::ZERO, rng.fork(2).fork(sender.into()))),
                Draws::Ns2 => Box::new(ns2_times(config)),
            };
            let next = times.next();
            Source { times, next }
        };
        let sizes: Box<dyn FnMut() -> f64 + Send> = match config.draws {
            Draws::Own => {
                let mut rng = rng.fork(0);
                Box::new(move || rng.unit())
            }
            Draws::Ns2 => {
                let mut generator = Mrg32k3a::seeded(4_369 + 200_003 * config.seed as u32);
                Box::new(move || generator.unit())
            }
        };
        Self { senders: (0..senders).map(source).collect(), sizes, peers: rng.fork(1) }
    }

    /// When the next flow of all begins, and from which host.
    pub fn next(&self) -> Option<(Time, u32)> {
        let next = |(host, source): (usize, &Source)| Some((source.next?, host as u32));
        self.senders.iter().enumerate().filter_map(next).min()
    }

    /// The next flow of host `from` begins; it is the `number`-th of all.
    pub fn begin(&mut self, config: &Config, from: u32, number: u32) -> Birth {
        let source = &mut self.senders[from as usize];
        source.next = source.times.next();
        let to = match config.senders {
            Senders::First => 1,
            Senders::All => {
                let other = self.peers.below(u64::from(config.topology.hosts()) - 1) as u32;
                other + u32::from(other >= from)
            }
        };
        Birth { to, segments: config.sizes.size(number.into(), (self.sizes)()) }
    }
}

/// Beginnings as the scripts draw them from host 0 to host 1.
fn ns2_times(config: &Config) -> impl Iterator<Item = Time> + use<> {
    let mut generator = Mrg32k3a::seeded(1_244 + 100_003 * config.seed as u32);
    let mean_s = 1.0 / config.arrivals.rate_per_s();
    let mut at_s = 0.0;
    std::iter::repeat_with(move || {
        at_s -= mean_s * generator.unit().ln();
        Time::ZERO + Span::from_secs_f64(at_s)
    })
}
