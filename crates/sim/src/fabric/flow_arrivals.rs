//! Flow arrivals: start, endpoints and size of every flow. They do not depend on the network,
//! hence are the same for every scheduler.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use queueing::{Rng, Span, Time};

use super::mrg32k3a::Mrg32k3a;
use super::packet::MSS;
use super::{Config, RngStreams, Senders};

/// Arrival of one flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FlowArrival {
    pub at: Time,
    pub from: u32,
    pub to: u32,
    pub segments: u32,
}

/// All flows of a run, in order of start.
pub(super) type FlowArrivals = std::iter::Peekable<Box<dyn Iterator<Item = FlowArrival> + Send>>;

/// Flow arrivals described by `config`.
pub(super) fn births(config: &Config) -> FlowArrivals {
    let births: Box<dyn Iterator<Item = FlowArrival> + Send> = match (&config.planned, config.senders) {
        (Some(planned), _) => {
            let planned = std::sync::Arc::clone(planned);
            Box::new((0..planned.len()).map(move |n| {
                let flow = planned[n];
                FlowArrival { at: flow.start, from: flow.from, to: flow.to, segments: segments(flow.bytes) }
            }))
        }
        (None, Senders::First | Senders::All) => Box::new(Drawn::new(config)),
        (None, Senders::Incast(_) | Senders::AllToAll) => Box::new(Rounds::new(config)),
    };
    let births: Box<dyn Iterator<Item = FlowArrival> + Send> = Box::new(births.take(config.flows as usize));
    births.peekable()
}

/// Number of full segments that carry `bytes`.
fn segments(bytes: u64) -> u32 {
    bytes.div_ceil(MSS) as u32
}

/// Independent arrival process per sender.
struct Drawn {
    config: Config,
    /// Next start per sender, as a heap.
    heads: BinaryHeap<Reverse<(Time, u32)>>,
    times: Vec<Box<dyn Iterator<Item = Time> + Send>>,
    /// Uniform numbers in 0..1.
    sizes: Box<dyn FnMut() -> f64 + Send>,
    peers: Rng,
    drawn: u64,
}

impl Drawn {
    fn new(config: &Config) -> Self {
        let rng = Rng::seeded(config.seed);
        let senders = match config.senders {
            Senders::First => 1,
            _ => config.topology.hosts(),
        };
        let times = |sender: u32| -> Box<dyn Iterator<Item = Time> + Send> {
            match config.draws {
                RngStreams::Own => {
                    Box::new(config.arrivals.times(Time::ZERO, rng.fork(2).fork(sender.into())))
                }
                RngStreams::Ns2 => Box::new(ns2_times(config)),
            }
        };
        let mut times: Vec<_> = (0..senders).map(times).collect();
        let head = |(times, host): (&mut Box<dyn Iterator<Item = Time> + Send>, u32)| {
            Some(Reverse((times.next()?, host)))
        };
        let heads = times.iter_mut().zip(0..).filter_map(head).collect();
        let sizes: Box<dyn FnMut() -> f64 + Send> = match config.draws {
            RngStreams::Own => {
                let mut rng = rng.fork(0);
                Box::new(move || rng.unit())
            }
            RngStreams::Ns2 => {
                let mut generator = Mrg32k3a::seeded(4_369 + 200_003 * config.seed as u32);
                Box::new(move || generator.unit())
            }
        };
        Self { config: config.clone(), heads, times, sizes, peers: rng.fork(1), drawn: 0 }
    }
}

impl Iterator for Drawn {
    type Item = FlowArrival;

    fn next(&mut self) -> Option<FlowArrival> {
        let Reverse((at, from)) = self.heads.pop()?;
        self.heads.extend(self.times[from as usize].next().map(|next| Reverse((next, from))));
        let to = match self.config.senders {
            Senders::First => 1,
            _ => other(&mut self.peers, self.config.topology.hosts(), from),
        };
        let segments = self.config.sizes.size(self.drawn, (self.sizes)());
        self.drawn += 1;
        Some(FlowArrival { at, from, to, segments })
    }
}

/// Uniform choice among `hosts`, `from` excluded.
fn other(rng: &mut Rng, hosts: u32, from: u32) -> u32 {
    let other = rng.below(u64::from(hosts) - 1) as u32;
    other + u32::from(other >= from)
}

/// Arrival process of rounds; many flows start at once in each round.
struct Rounds {
    config: Config,
    times: queueing::ArrivalTimes,
    /// Remaining (sender, receiver) pairs of the current round.
    pairs: VecDeque<(u32, u32)>,
    at: Time,
    rng: Rng,
    sizes: Rng,
    drawn: u64,
}

impl Rounds {
    fn new(config: &Config) -> Self {
        let rng = Rng::seeded(config.seed);
        let times = config.arrivals.times(Time::ZERO, rng.fork(2).fork(0));
        let (pairs, at) = (VecDeque::new(), Time::ZERO);
        Self { config: config.clone(), times, pairs, at, rng: rng.fork(1), sizes: rng.fork(0), drawn: 0 }
    }

    fn begin(&mut self) {
        let hosts = self.config.topology.hosts();
        match self.config.senders {
            Senders::Incast(senders) => {
                let to = self.rng.below(hosts.into()) as u32;
                let mut from: Vec<u32> = (0..hosts).filter(|&host| host != to).collect();
                for place in 0..senders as usize {
                    let chosen = place + self.rng.below((from.len() - place) as u64) as usize;
                    from.swap(place, chosen);
                    self.pairs.push_back((from[place], to));
                }
            }
            _ => {
                let of = |from: u32| (0..hosts).filter(move |&to| to != from).map(move |to| (from, to));
                self.pairs.extend((0..hosts).flat_map(of));
            }
        }
    }
}

impl Iterator for Rounds {
    type Item = FlowArrival;

    fn next(&mut self) -> Option<FlowArrival> {
        if self.pairs.is_empty() {
            self.at = self.times.next()?;
            self.begin();
        }
        let (from, to) = self.pairs.pop_front()?;
        let segments = self.config.sizes.size(self.drawn, self.sizes.unit());
        self.drawn += 1;
        Some(FlowArrival { at: self.at, from, to, segments })
    }
}

/// Arrival times drawn as by the PIAS scripts, from host 0 to host 1.
fn ns2_times(config: &Config) -> impl Iterator<Item = Time> + use<> {
    let mut generator = Mrg32k3a::seeded(1_244 + 100_003 * config.seed as u32);
    let mean_s = 1.0 / config.arrivals.rate_per_s();
    let mut at_s = 0.0;
    std::iter::repeat_with(move || {
        at_s -= mean_s * generator.unit().ln();
        Time::ZERO + Span::from_secs_f64(at_s)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(senders: &str, more: &str) -> Vec<FlowArrival> {
        let text = format!(
            "topology = {{ kind = \"star\", hosts = 5, host = {{ gbps = 10, delay = \"1us\" }} }}\n\
             scheduler = \"fifo\"\nroom = 10\nflows = 400\nsizes = \"list 1460 2920\"\n\
             arrivals = \"poisson 1000\"\nsenders = {senders}\n{more}"
        );
        births(&Config::from_toml(&text).unwrap()).collect()
    }

    #[test]
    fn in_an_incast_so_many_others_begin_at_once_to_one() {
        let births = drawn("{ incast = 3 }", "");
        for round in births.chunks_exact(3) {
            assert!(round.iter().all(|birth| (birth.at, birth.to) == (round[0].at, round[0].to)));
            let mut from: Vec<u32> = round.iter().map(|birth| birth.from).chain([round[0].to]).collect();
            from.sort_unstable();
            from.dedup();
            assert_eq!(from.len(), 4, "three senders and who receives: {round:?}");
        }
        let (first, last) = (births[0].at, births[399].at);
        let rounds_per_s = 133.0 / last.since(first).as_secs_f64();
        assert!((rounds_per_s / 1000.0 - 1.0).abs() < 0.3, "{rounds_per_s}");
    }

    #[test]
    fn all_to_all_is_every_pair_at_once() {
        let mut round: Vec<_> = drawn("\"all-to-all\"", "")[..20].to_vec();
        assert!(round.iter().all(|birth| birth.at == round[0].at));
        round.dedup_by_key(|birth| (birth.from, birth.to));
        assert!(round.len() == 20 && round.iter().all(|birth| birth.from != birth.to));
    }

    #[test]
    fn flows_begin_in_order_whoever_sends() {
        for senders in ["\"first\"", "\"all\"", "{ incast = 4 }", "\"all-to-all\""] {
            let births = drawn(senders, "");
            assert_eq!(births.len(), 400, "{senders}");
            assert!(births.windows(2).all(|pair| pair[0].at <= pair[1].at), "{senders}");
            assert!(births.iter().all(|birth| birth.from != birth.to && birth.from.max(birth.to) < 5));
            assert_eq!(births[..4].iter().map(|b| b.segments).collect::<Vec<_>>(), [1, 2, 1, 2], "{senders}");
        }
    }
}
