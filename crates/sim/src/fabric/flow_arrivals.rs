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
pub(super) fn flow_arrivals(config: &Config) -> FlowArrivals {
    let flow_arrivals: Box<dyn Iterator<Item = FlowArrival> + Send> = match (&config.planned, config.senders)
    {
        (Some(planned), _) => {
            let planned = std::sync::Arc::clone(planned);
            Box::new((0..planned.len()).map(move |n| {
                let flow = planned[n];
                FlowArrival { at: flow.start, from: flow.from, to: flow.to, segments: segments(flow.bytes) }
            }))
        }
        (None, Senders::First | Senders::All) => Box::new(SenderArrivals::new(config)),
        (None, Senders::Incast(_) | Senders::AllToAll) => Box::new(RoundArrivals::new(config)),
    };
    let flow_arrivals: Box<dyn Iterator<Item = FlowArrival> + Send> =
        Box::new(flow_arrivals.take(config.flows as usize));
    flow_arrivals.peekable()
}

/// Number of full segments that carry `bytes`.
fn segments(bytes: u64) -> u32 {
    bytes.div_ceil(MSS) as u32
}

/// Independent arrival process per sender.
struct SenderArrivals {
    config: Config,
    /// Next start per sender, as a heap.
    next_starts: BinaryHeap<Reverse<(Time, u32)>>,
    times: Vec<Box<dyn Iterator<Item = Time> + Send>>,
    /// Uniform numbers in 0..1.
    sizes: Box<dyn FnMut() -> f64 + Send>,
    peers: Rng,
    count: u64,
}

impl SenderArrivals {
    fn new(config: &Config) -> Self {
        let rng = Rng::seeded(config.seed);
        let senders = match config.senders {
            Senders::First => 1,
            _ => config.topology.hosts(),
        };
        let times = |sender: u32| -> Box<dyn Iterator<Item = Time> + Send> {
            match config.rng_streams {
                RngStreams::Own => {
                    Box::new(config.arrivals.times(Time::ZERO, rng.fork(2).fork(sender.into())))
                }
                RngStreams::Ns2 => Box::new(ns2_times(config)),
            }
        };
        let mut times: Vec<_> = (0..senders).map(times).collect();
        let next_start = |(times, host): (&mut Box<dyn Iterator<Item = Time> + Send>, u32)| {
            Some(Reverse((times.next()?, host)))
        };
        let next_starts = times.iter_mut().zip(0..).filter_map(next_start).collect();
        let sizes: Box<dyn FnMut() -> f64 + Send> = match config.rng_streams {
            RngStreams::Own => {
                let mut rng = rng.fork(0);
                Box::new(move || rng.unit())
            }
            RngStreams::Ns2 => {
                let mut generator = Mrg32k3a::seeded(4_369 + 200_003 * config.seed as u32);
                Box::new(move || generator.unit())
            }
        };
        Self { config: config.clone(), next_starts, times, sizes, peers: rng.fork(1), count: 0 }
    }
}

impl Iterator for SenderArrivals {
    type Item = FlowArrival;

    fn next(&mut self) -> Option<FlowArrival> {
        let Reverse((at, from)) = self.next_starts.pop()?;
        self.next_starts.extend(self.times[from as usize].next().map(|next| Reverse((next, from))));
        let to = match self.config.senders {
            Senders::First => 1,
            _ => other(&mut self.peers, self.config.topology.hosts(), from),
        };
        let segments = self.config.sizes.size(self.count, (self.sizes)());
        self.count += 1;
        Some(FlowArrival { at, from, to, segments })
    }
}

/// Uniform choice among `hosts`, `from` excluded.
fn other(rng: &mut Rng, hosts: u32, from: u32) -> u32 {
    let other = rng.below(u64::from(hosts) - 1) as u32;
    other + u32::from(other >= from)
}

/// Arrival process of rounds; many flows start at once in each round.
struct RoundArrivals {
    config: Config,
    times: queueing::ArrivalTimes,
    /// Remaining (sender, receiver) pairs of the current round.
    pairs: VecDeque<(u32, u32)>,
    at: Time,
    rng: Rng,
    sizes: Rng,
    count: u64,
}

impl RoundArrivals {
    fn new(config: &Config) -> Self {
        let rng = Rng::seeded(config.seed);
        let times = config.arrivals.times(Time::ZERO, rng.fork(2).fork(0));
        let (pairs, at) = (VecDeque::new(), Time::ZERO);
        Self { config: config.clone(), times, pairs, at, rng: rng.fork(1), sizes: rng.fork(0), count: 0 }
    }

    fn start_round(&mut self) {
        let hosts = self.config.topology.hosts();
        match self.config.senders {
            Senders::Incast(senders) => {
                let to = self.rng.below(hosts.into()) as u32;
                let mut from: Vec<u32> = (0..hosts).filter(|&host| host != to).collect();
                for index in 0..senders as usize {
                    let chosen = index + self.rng.below((from.len() - index) as u64) as usize;
                    from.swap(index, chosen);
                    self.pairs.push_back((from[index], to));
                }
            }
            _ => {
                let pairs_from =
                    |from: u32| (0..hosts).filter(move |&to| to != from).map(move |to| (from, to));
                self.pairs.extend((0..hosts).flat_map(pairs_from));
            }
        }
    }
}

impl Iterator for RoundArrivals {
    type Item = FlowArrival;

    fn next(&mut self) -> Option<FlowArrival> {
        if self.pairs.is_empty() {
            self.at = self.times.next()?;
            self.start_round();
        }
        let (from, to) = self.pairs.pop_front()?;
        let segments = self.config.sizes.size(self.count, self.sizes.unit());
        self.count += 1;
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

//~ fabric: flow lists, incast and all-to-all rounds start as defined
#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(senders: &str, more: &str) -> Vec<FlowArrival> {
        let text = format!(
            "topology = {{ kind = \"star\", hosts = 5, host = {{ gbps = 10, delay = \"1us\" }} }}\n\
             scheduler = \"fifo\"\nbuffer_size = 10\nflows = 400\nsizes = \"list 1460 2920\"\n\
             arrivals = \"poisson 1000\"\nsenders = {senders}\n{more}"
        );
        flow_arrivals(&Config::from_toml(&text).unwrap()).collect()
    }

    #[test]
    fn an_incast_starts_n_flows_to_one_host_at_once() {
        let flow_arrivals = drawn("{ incast = 3 }", "");
        for round in flow_arrivals.chunks_exact(3) {
            assert!(round.iter().all(|arrival| (arrival.at, arrival.to) == (round[0].at, round[0].to)));
            let mut from: Vec<u32> = round.iter().map(|arrival| arrival.from).chain([round[0].to]).collect();
            from.sort_unstable();
            from.dedup();
            assert_eq!(from.len(), 4, "three senders and who receives: {round:?}");
        }
        let (first, last) = (flow_arrivals[0].at, flow_arrivals[399].at);
        let rounds_per_s = 133.0 / last.since(first).as_secs_f64();
        assert!((rounds_per_s / 1000.0 - 1.0).abs() < 0.3, "{rounds_per_s}");
    }

    #[test]
    fn all_to_all_starts_every_pair_at_once() {
        let mut round: Vec<_> = drawn("\"all-to-all\"", "")[..20].to_vec();
        assert!(round.iter().all(|arrival| arrival.at == round[0].at));
        round.dedup_by_key(|arrival| (arrival.from, arrival.to));
        assert!(round.len() == 20 && round.iter().all(|arrival| arrival.from != arrival.to));
    }

    #[test]
    fn flows_start_in_time_order_over_all_senders() {
        for senders in ["\"first\"", "\"all\"", "{ incast = 4 }", "\"all-to-all\""] {
            let flow_arrivals = drawn(senders, "");
            assert_eq!(flow_arrivals.len(), 400, "{senders}");
            assert!(flow_arrivals.windows(2).all(|pair| pair[0].at <= pair[1].at), "{senders}");
            assert!(
                flow_arrivals
                    .iter()
                    .all(|arrival| arrival.from != arrival.to && arrival.from.max(arrival.to) < 5)
            );
            assert_eq!(
                flow_arrivals[..4].iter().map(|b| b.segments).collect::<Vec<_>>(),
                [1, 2, 1, 2],
                "{senders}"
            );
        }
    }
}
