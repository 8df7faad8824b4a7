//! Two-stage server on one core: receiving preempts serving.
//!
//! Simulated counterpart of `queueing::theory::livelock`: any arrivals, any service time
//! distributions, clients that time out while the server works on, and `guard`'s own policies
//! at the first stage. Shedding costs core time too. A SYN flood comes from false addresses: the first
//! stage receives its SYNs, and they become no requests. Nothing else of a kernel is modelled.
//! Source: overload paper, §2 (model) and §4 (experiments).

use std::collections::VecDeque;
use std::str::FromStr;

use guard::{AdmissionController, Class, HandshakeEnds, Handshakes, Params, Policy, Signals};
use queueing::theory::livelock::TwoStages;
use queueing::{Arrivals, Distribution, Histogram, Rng, Span, Time, UnknownName, named};

pub use crate::BadConfig;
use crate::Engine;
use crate::serde_text::text;

/// Server and its load.
#[derive(Clone, Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Arrival process.
    #[serde(deserialize_with = "text")]
    pub arrivals: Arrivals,
    /// Measured requests, at least 1; a tenth as many precede them as warm-up.
    pub requests: u64,
    /// Service time of the first stage: mean 1/µ1.
    #[serde(deserialize_with = "text")]
    pub receive: Distribution,
    /// Service time of the second stage while nothing is received: mean 1/µ2.
    #[serde(deserialize_with = "text")]
    pub serve: Distribution,
    /// Capacity of the first stage, the request in service included: l1.
    #[serde(alias = "receive_room")]
    pub receive_capacity: u32,
    /// Capacity of the second stage, the request in service included: l2.
    #[serde(alias = "serve_room")]
    pub serve_capacity: u32,
    /// Client timeout. A request whose client has timed out is served all the same, since the
    /// server does not know.
    #[serde(alias = "patience", deserialize_with = "text")]
    pub timeout: Span,
    /// Admission control at the first stage.
    #[serde(default, deserialize_with = "text")]
    pub guard: AdmissionControl,
    /// Cost of shedding one request.
    #[serde(default = "nothing", deserialize_with = "text")]
    pub shed: Span,
    /// SYNs per second of a flood, as a Poisson process; at most 10 million.
    #[serde(default)]
    pub flood_per_s: f64,
    /// Interval between the beginnings of two stalls of the second stage; zero: no stalls.
    #[serde(default = "nothing", deserialize_with = "text")]
    pub stall_every: Span,
    /// Duration of a stall, such as a garbage collection: the second stage serves nothing.
    #[serde(default = "nothing", deserialize_with = "text")]
    pub stall: Span,
    /// Target queueing delay, for policies that use one.
    #[serde(default = "target_default", deserialize_with = "text")]
    pub delay_target: Span,
    /// Seed; the same seed replays the run.
    #[serde(default = "one")]
    pub seed: u64,
}

fn nothing() -> Span {
    Span::ZERO
}

fn target_default() -> Span {
    Params::default().delay_target
}

fn one() -> u64 {
    1
}

/// Admission control.
#[derive(Clone, Copy, Debug, Default)]
pub enum AdmissionControl {
    /// No shedding.
    #[default]
    None,
    /// Random shedding of the excess computed by the model, which knows rates and service
    /// times.
    Model,
    /// Policy that sees only measurable signals.
    Policy(guard::policy::Make),
}

impl FromStr for AdmissionControl {
    type Err = UnknownName;

    fn from_str(name: &str) -> Result<Self, UnknownName> {
        match name {
            "none" => Ok(Self::None),
            "model" => Ok(Self::Model),
            name => named(&guard::POLICIES, "guard", name).map(Self::Policy),
        }
    }
}

impl Config {
    /// Parses a configuration and checks it.
    ///
    /// # Errors
    /// One line with the invalid value and the valid ones.
    pub fn from_toml(text: &str) -> Result<Self, BadConfig> {
        crate::serde_text::settings(text, Self::check)
    }

    /// Checks that the configuration can be simulated.
    ///
    /// # Errors
    /// One line with the invalid value and the valid ones.
    pub fn check(&self) -> Result<(), BadConfig> {
        let capacities =
            [("receive_capacity", self.receive_capacity), ("serve_capacity", self.serve_capacity)];
        if let Some((name, _)) = capacities.iter().find(|(_, capacity)| *capacity == 0) {
            return Err(BadConfig(format!("{name} 0 is not at least 1")));
        }
        if !(0.0..=FLOOD_MAX).contains(&self.flood_per_s) {
            return Err(BadConfig(format!("flood_per_s {} is outside 0..={FLOOD_MAX}", self.flood_per_s)));
        }
        if self.requests == 0 {
            return Err(BadConfig("requests 0 is not at least 1".to_owned()));
        }
        let service_means = [("receive", self.receive.mean()), ("serve", self.serve.mean())];
        if self.stall > Span::ZERO && self.stall_every <= self.stall {
            return Err(BadConfig(format!(
                "stall_every {} is not longer than stall {}, so nothing would be served",
                self.stall_every, self.stall
            )));
        }
        match service_means.iter().find(|(_, mean)| *mean == Span::ZERO) {
            Some((name, _)) => Err(BadConfig(format!("{name} takes no time: its mean must be above 0ns"))),
            None => Ok(()),
        }
    }

    /// Analytic model of this server.
    #[must_use]
    pub fn model(&self) -> TwoStages {
        TwoStages {
            receive_per_s: 1.0 / self.receive.mean().as_secs_f64(),
            serve_per_s: 1.0 / self.serve.mean().as_secs_f64(),
            receive_room: self.receive_capacity,
            serve_room: self.serve_capacity,
        }
    }

    /// Fraction of requests that the model admits.
    fn admit_share(&self) -> f64 {
        let rate_per_s = self.arrivals.rate_per_s();
        match self.guard {
            AdmissionControl::Model => self.model().admitted_best(rate_per_s, self.shed) / rate_per_s,
            AdmissionControl::None | AdmissionControl::Policy(_) => 1.0,
        }
    }

    fn params(&self) -> Params {
        Params { delay_target: self.delay_target, ..Params::default() }
    }

    fn policy(&self) -> Option<Box<dyn Policy>> {
        match self.guard {
            AdmissionControl::Policy(make) => Some(make(&self.params())),
            AdmissionControl::None | AdmissionControl::Model => None,
        }
    }
}

/// Outcomes of the measured requests; they add up.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Shed at the first stage.
    pub shed: u64,
    /// Dropped at the full first stage.
    pub lost_receiving: u64,
    /// Received, then dropped at the full second stage.
    pub lost_serving: u64,
    /// Served before the client's timeout.
    pub in_time: u64,
    /// Served after the client's timeout.
    pub in_vain: u64,
    /// Time from arrival to answer, of served requests.
    pub sojourn: Histogram,
    /// Time from the first measured arrival to the last.
    pub arriving: Span,
    /// Events simulated.
    pub events: u64,
}

/// Maximum of [`Config::flood_per_s`].
const FLOOD_MAX: f64 = 1e7;

/// Runs until every request is served, shed or dropped.
///
/// # Panics
/// If the configuration does not pass [`Config::check`].
#[must_use]
pub fn run(config: &Config) -> Outcome {
    config.check().expect("a checked configuration");
    let mut server = Server::new(config);
    while let Some((now, event)) = server.engine.next() {
        match event {
            Event::Arrive => server.arrive(now),
            Event::FloodArrives => server.flood_arrives(now),
            Event::Received => server.received(now),
            Event::Served { generation } => server.served(now, generation),
            Event::PolicyTick => server.policy_tick(now),
            Event::Stall => server.stall(now),
            Event::StallEnd => server.end_stall(now),
        }
    }
    server.outcome.events = server.engine.scheduled();
    server.outcome
}

#[derive(Clone, Copy, Debug)]
enum Event {
    Arrive,
    /// A SYN of the flood arrives.
    FloodArrives,
    /// The first stage has completed its head.
    Received,
    /// The second stage has completed its head, unless stale.
    Served {
        generation: u64,
    },
    /// Round of the policy.
    PolicyTick,
    /// A stall of the second stage begins.
    Stall,
    /// The stall ends.
    StallEnd,
}

/// Arrival time of a request, and whether it is measured, shed, or only a SYN of the flood.
#[derive(Clone, Copy, Debug)]
struct Request {
    at: Time,
    counts: bool,
    shed: bool,
    is_flood: bool,
}

struct Server<'a> {
    config: &'a Config,
    engine: Engine<Event>,
    times: queueing::ArrivalTimes,
    rngs: [Rng; 4],
    admit_share: f64,
    arrived: u64,
    first: Option<Time>,
    receiving: VecDeque<Request>,
    serving: VecDeque<Request>,
    /// Remaining work of the head of `serving`.
    left: Span,
    /// Time since when the second stage has the core.
    running_since: Option<Time>,
    /// Number of preemptions; identifies stale events.
    generation: u64,
    is_stalled: bool,
    params: Params,
    policy: Option<Box<dyn Policy>>,
    admission: AdmissionController,
    signals: Signals,
    handshakes: Handshakes,
    handshake_ends: HandshakeEnds,
    /// Work of the first stage and total latency of answers, both since the last policy round.
    receive_time: Span,
    latency_sum: Span,
    outcome: Outcome,
}

impl<'a> Server<'a> {
    fn new(config: &'a Config) -> Self {
        let rng = Rng::seeded(config.seed);
        let mut server = Self {
            config,
            engine: Engine::new(),
            times: config.arrivals.times(Time::ZERO, rng.fork(0)),
            rngs: [1, 2, 3, 4].map(|n| rng.fork(n)),
            admit_share: config.admit_share(),
            arrived: 0,
            first: None,
            receiving: VecDeque::new(),
            serving: VecDeque::new(),
            left: Span::ZERO,
            running_since: None,
            generation: 0,
            is_stalled: false,
            params: config.params(),
            policy: config.policy(),
            admission: AdmissionController::new(1),
            signals: Signals::default(),
            handshakes: Handshakes::default(),
            handshake_ends: HandshakeEnds::default(),
            receive_time: Span::ZERO,
            latency_sum: Span::ZERO,
            outcome: Outcome::default(),
        };
        server.schedule_arrival();
        server.schedule_flood(Time::ZERO);
        if config.stall > Span::ZERO {
            server.engine.schedule(Time::ZERO + config.stall_every, Event::Stall);
        }
        if server.policy.is_some() {
            server.engine.schedule(Time::ZERO + server.params.period, Event::PolicyTick);
        }
        server
    }

    fn warmup(&self) -> u64 {
        self.config.requests / 10
    }

    /// True if more requests will arrive.
    fn has_more_arrivals(&self) -> bool {
        self.arrived < self.warmup() + self.config.requests
    }

    fn schedule_arrival(&mut self) {
        if self.has_more_arrivals()
            && let Some(at) = self.times.next()
        {
            self.engine.schedule(at, Event::Arrive);
        }
    }

    fn arrive(&mut self, now: Time) {
        let counts = self.arrived >= self.warmup();
        self.arrived += 1;
        if counts {
            let first = *self.first.get_or_insert(now);
            self.outcome.arriving = now.since(first);
        }
        self.schedule_arrival();
        // Drawn for every request, so that capacity and shedding do not change later draws.
        let shed = self.rngs[0].unit() >= self.admit_share;
        self.arrive_at_first_stage(now, Request { at: now, counts, shed, is_flood: false });
    }

    fn schedule_flood(&mut self, now: Time) {
        if self.config.flood_per_s > 0.0 && self.has_more_arrivals() {
            let gap_s = -(1.0 - self.rngs[3].unit()).ln() / self.config.flood_per_s;
            self.engine.schedule(now + Span::from_secs_f64(gap_s), Event::FloodArrives);
        }
    }

    fn flood_arrives(&mut self, now: Time) {
        self.schedule_flood(now);
        self.arrive_at_first_stage(now, Request { at: now, counts: false, shed: false, is_flood: true });
    }

    fn arrive_at_first_stage(&mut self, now: Time, request: Request) {
        if self.receiving.len() as u32 == self.config.receive_capacity {
            self.outcome.lost_receiving += u64::from(request.counts);
            return;
        }
        let present = (self.receiving.len() + self.serving.len()) as u64;
        let shed = request.shed || !self.admission.try_admit(now, Class::FIRST, present);
        self.signals.offered += 1;
        self.signals.admitted += u64::from(!shed);
        self.receiving.push_back(Request { shed, ..request });
        if self.receiving.len() == 1 {
            self.interrupt(now);
            self.receive(now);
        }
    }

    /// Starts service of the first stage's head.
    fn receive(&mut self, now: Time) {
        let Some(head) = self.receiving.front() else { return };
        let work = if head.shed { self.config.shed } else { self.config.receive.sample(&mut self.rngs[1]) };
        self.receive_time += work;
        self.engine.schedule(now + work, Event::Received);
    }

    fn received(&mut self, now: Time) {
        let request = self.receiving.pop_front().expect("a request is in the first stage");
        let count = u64::from(request.counts);
        if request.shed {
            self.outcome.shed += count;
        } else if request.is_flood {
            // Half open: the client does not exist.
        } else if self.serving.len() as u32 == self.config.serve_capacity {
            self.outcome.lost_serving += count;
            self.handshake_ends.dropped += 1;
        } else {
            self.handshake_ends.completed += 1;
            self.serving.push_back(request);
            if self.serving.len() == 1 {
                self.left = self.config.serve.sample(&mut self.rngs[2]);
            }
        }
        if self.receiving.is_empty() { self.resume(now) } else { self.receive(now) }
    }

    /// Preempts the second stage.
    fn interrupt(&mut self, now: Time) {
        if let Some(since) = self.running_since.take() {
            self.left = self.left.saturating_sub(now.since(since));
            self.generation += 1;
        }
    }

    /// Resumes the second stage if it has work.
    fn resume(&mut self, now: Time) {
        if !self.serving.is_empty() && !self.is_stalled {
            self.running_since = Some(now);
            self.engine.schedule(now + self.left, Event::Served { generation: self.generation });
        }
    }

    fn served(&mut self, now: Time, generation: u64) {
        if generation != self.generation || self.running_since.is_none() {
            return;
        }
        self.running_since = None;
        let request = self.serving.pop_front().expect("a request is in the second stage");
        let sojourn = now.since(request.at);
        self.signals.served += 1;
        self.latency_sum += sojourn;
        if request.counts {
            self.outcome.sojourn.record(sojourn);
            let ends = match sojourn <= self.config.timeout {
                true => &mut self.outcome.in_time,
                false => &mut self.outcome.in_vain,
            };
            *ends += 1;
        }
        if !self.serving.is_empty() {
            self.left = self.config.serve.sample(&mut self.rngs[2]);
            self.resume(now);
        }
    }

    fn stall(&mut self, now: Time) {
        self.interrupt(now);
        self.is_stalled = true;
        self.engine.schedule(now + self.config.stall, Event::StallEnd);
    }

    fn end_stall(&mut self, now: Time) {
        self.is_stalled = false;
        if self.receiving.is_empty() {
            self.resume(now);
        }
        if self.has_more_arrivals() {
            let next = now + self.config.stall_every.saturating_sub(self.config.stall);
            self.engine.schedule(next, Event::Stall);
        }
    }

    /// Runs a policy round: reads the signals and sets the admission limit.
    fn policy_tick(&mut self, now: Time) {
        let Some(policy) = &mut self.policy else { return };
        let Signals { offered, admitted, served, .. } = std::mem::take(&mut self.signals);
        let receive_time = std::mem::take(&mut self.receive_time);
        let latency_sum = std::mem::take(&mut self.latency_sum);
        let waiting = self.serving.len() as u64;
        let signals = Signals {
            offered,
            admitted,
            served,
            waiting,
            delay: self.serving.front().map_or(Span::ZERO, |oldest| now.since(oldest.at)),
            latency: (served > 0).then(|| latency_sum / served.max(1)),
            present: waiting + self.receiving.len() as u64,
            kernel_share: receive_time.as_secs_f64() / self.params.period.as_secs_f64(),
            sockets: waiting,
            ..Signals::default()
        };
        let ends = std::mem::take(&mut self.handshake_ends);
        let signals = self.handshakes.signals(self.params.period, ends, signals);
        let limit = self.handshakes.limit(policy.tick(now, &signals));
        self.admission.set(now, limit);
        if self.has_more_arrivals() {
            self.engine.schedule(now + self.params.period, Event::PolicyTick);
        }
    }
}
