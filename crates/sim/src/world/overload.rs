//! A server of two stages on one core: receiving interrupts serving.
//!
//! The measured twin of `queueing::theory::livelock`: any arrivals, any laws of
//! service, clients whose patience ends while the server works on, and the
//! crate `guard`'s own policies at the first stage. What is shed costs core
//! time too. Nothing of a real kernel is in it but that order.
//! Source: the overload paper, §2 (the model) and §4 (its experiments).

use std::collections::VecDeque;
use std::str::FromStr;

use guard::{AdmissionController, Class, Limit, Params, Policy, Signals};
use queueing::theory::livelock::TwoStages;
use queueing::{Arrivals, Distribution, Histogram, Rng, Span, Time, UnknownName, named};

pub use crate::BadConfig;
use crate::Engine;
use crate::text::text;

/// The server and who calls it.
#[derive(Clone, Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// When requests come.
    #[serde(deserialize_with = "text")]
    pub arrivals: Arrivals,
    /// Requests that are counted, 1 and more; a tenth as many come before.
    pub requests: u64,
    /// The first stage's work on one: 1/µ1 on average.
    #[serde(deserialize_with = "text")]
    pub receive: Distribution,
    /// The second's, while nothing is received: 1/µ2 on average.
    #[serde(deserialize_with = "text")]
    pub serve: Distribution,
    /// Room at the first, the one at work included: l1.
    pub receive_room: u32,
    /// Room at the second, the same: l2.
    pub serve_room: u32,
    /// How long a client waits for its answer. Who has given up is served all
    /// the same: nobody tells the server.
    #[serde(deserialize_with = "text")]
    pub patience: Span,
    /// Who is shed at the first stage.
    #[serde(default, deserialize_with = "text")]
    pub guard: Guard,
    /// What it takes to shed one.
    #[serde(default = "nothing", deserialize_with = "text")]
    pub shed: Span,
    /// How long a request may wait, for policies that ask.
    #[serde(default = "target_default", deserialize_with = "text")]
    pub delay_target: Span,
    /// Replays the run.
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

/// Who is shed.
#[derive(Clone, Copy, Debug, Default)]
pub enum Guard {
    /// Nobody.
    #[default]
    Nobody,
    /// By chance, what the model says is too much: knows rates and laws.
    Model,
    /// What a policy says, which knows what can be measured.
    Policy(guard::policy::Make),
}

impl FromStr for Guard {
    type Err = UnknownName;

    fn from_str(name: &str) -> Result<Self, UnknownName> {
        match name {
            "none" => Ok(Self::Nobody),
            "model" => Ok(Self::Model),
            name => named(&guard::POLICIES, "guard", name).map(Self::Policy),
        }
    }
}

impl Config {
    /// Reads a configuration and checks it.
    ///
    /// # Errors
    /// One line: the value and what would be valid.
    pub fn from_toml(text: &str) -> Result<Self, BadConfig> {
        crate::text::settings(text, Self::check)
    }

    /// Refuses what cannot be simulated.
    ///
    /// # Errors
    /// One line: the value and what would be valid.
    pub fn check(&self) -> Result<(), BadConfig> {
        let rooms = [("receive_room", self.receive_room), ("serve_room", self.serve_room)];
        if let Some((name, _)) = rooms.iter().find(|(_, room)| *room == 0) {
            return Err(BadConfig(format!("{name} 0 holds nobody, 1 and more do")));
        }
        if self.requests == 0 {
            return Err(BadConfig("requests 0 is nothing to count, 1 and more is".to_owned()));
        }
        let works = [("receive", self.receive.mean()), ("serve", self.serve.mean())];
        match works.iter().find(|(_, mean)| *mean == Span::ZERO) {
            Some((name, _)) => Err(BadConfig(format!("{name} takes no time: more than 0ns has a rate"))),
            None => Ok(()),
        }
    }

    /// The model of this server.
    #[must_use]
    pub fn model(&self) -> TwoStages {
        TwoStages {
            receive_per_s: 1.0 / self.receive.mean().as_secs_f64(),
            serve_per_s: 1.0 / self.serve.mean().as_secs_f64(),
            receive_room: self.receive_room,
            serve_room: self.serve_room,
        }
    }

    /// The share of requests that the model lets in.
    fn admitted(&self) -> f64 {
        let rate_per_s = self.arrivals.rate_per_s();
        match self.guard {
            Guard::Model => self.model().admitted_best(rate_per_s, self.shed) / rate_per_s,
            Guard::Nobody | Guard::Policy(_) => 1.0,
        }
    }

    fn params(&self) -> Params {
        Params { delay_target: self.delay_target, ..Params::default() }
    }

    fn policy(&self) -> Option<Box<dyn Policy>> {
        match self.guard {
            Guard::Policy(make) => Some(make(&self.params())),
            Guard::Nobody | Guard::Model => None,
        }
    }
}

/// What became of the requests that were counted; they add up.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Shed at the first stage.
    pub shed: u64,
    /// Found no room at the first.
    pub lost_receiving: u64,
    /// Received, and found no room at the second.
    pub lost_serving: u64,
    /// Served while the client waited.
    pub in_time: u64,
    /// Served after it had given up.
    pub in_vain: u64,
    /// From arrival to answer, of those served.
    pub sojourn: Histogram,
    /// From the first arrival that counts to the last.
    pub arriving: Span,
    /// Events simulated.
    pub events: u64,
}

/// Runs until everybody has been served or lost.
///
/// # Panics
/// When the configuration does not pass [`Config::check`].
#[must_use]
pub fn run(config: &Config) -> Outcome {
    config.check().expect("a checked configuration");
    let mut server = Server::new(config);
    while let Some((now, event)) = server.engine.next() {
        match event {
            Event::Arrive => server.arrive(now),
            Event::Received => server.received(now),
            Event::Served { turn } => server.served(now, turn),
            Event::Look => server.look(now),
        }
    }
    server.outcome.events = server.engine.scheduled();
    server.outcome
}

#[derive(Clone, Copy, Debug)]
enum Event {
    Arrive,
    /// The first stage is done with the request at its head.
    Received,
    /// The second is, unless it was interrupted since.
    Served {
        turn: u64,
    },
    /// The policy looks at the server.
    Look,
}

/// A request: when it came, and whether it counts.
#[derive(Clone, Copy, Debug)]
struct Request {
    at: Time,
    counts: bool,
    shed: bool,
}

struct Server<'a> {
    config: &'a Config,
    engine: Engine<Event>,
    times: queueing::ArrivalTimes,
    draws: [Rng; 3],
    admitted: f64,
    born: u64,
    first: Option<Time>,
    receiving: VecDeque<Request>,
    serving: VecDeque<Request>,
    /// Work left on the head of `serving`.
    left: Span,
    /// When the second stage took the core; `None` while it has not got it.
    since: Option<Time>,
    /// Counts interruptions, so that events of before are known.
    turn: u64,
    params: Params,
    policy: Option<Box<dyn Policy>>,
    door: AdmissionController,
    signals: Signals,
    /// Since the last look: the first stage's work, and what answers took.
    received_for: Span,
    answered_in: Span,
    outcome: Outcome,
}

impl<'a> Server<'a> {
    fn new(config: &'a Config) -> Self {
        let rng = Rng::seeded(config.seed);
        let mut server = Self {
            config,
            engine: Engine::new(),
            times: config.arrivals.times(Time::ZERO, rng.fork(0)),
            draws: [1, 2, 3].map(|n| rng.fork(n)),
            admitted: config.admitted(),
            born: 0,
            first: None,
            receiving: VecDeque::new(),
            serving: VecDeque::new(),
            left: Span::ZERO,
            since: None,
            turn: 0,
            params: config.params(),
            policy: config.policy(),
            door: AdmissionController::new(1),
            signals: Signals::default(),
            received_for: Span::ZERO,
            answered_in: Span::ZERO,
            outcome: Outcome::default(),
        };
        server.schedule_arrival();
        if server.policy.is_some() {
            server.engine.schedule(Time::ZERO + server.params.period, Event::Look);
        }
        server
    }

    fn warmup(&self) -> u64 {
        self.config.requests / 10
    }

    /// Whether there are requests to come.
    fn goes_on(&self) -> bool {
        self.born < self.warmup() + self.config.requests
    }

    fn schedule_arrival(&mut self) {
        if self.goes_on()
            && let Some(at) = self.times.next()
        {
            self.engine.schedule(at, Event::Arrive);
        }
    }

    fn arrive(&mut self, now: Time) {
        let counts = self.born >= self.warmup();
        self.born += 1;
        if counts {
            let first = *self.first.get_or_insert(now);
            self.outcome.arriving = now.since(first);
        }
        self.schedule_arrival();
        // Drawn for everyone, so that room and shedding change no later draw.
        let shed = self.draws[0].unit() >= self.admitted;
        if self.receiving.len() as u32 == self.config.receive_room {
            self.outcome.lost_receiving += u64::from(counts);
            return;
        }
        let present = (self.receiving.len() + self.serving.len()) as u64;
        let shed = shed || !self.door.try_admit(now, Class::FIRST, present);
        self.signals.offered += 1;
        self.signals.admitted += u64::from(!shed);
        self.receiving.push_back(Request { at: now, counts, shed });
        if self.receiving.len() == 1 {
            self.interrupt(now);
            self.receive(now);
        }
    }

    /// The first stage takes up its head.
    fn receive(&mut self, now: Time) {
        let Some(head) = self.receiving.front() else { return };
        let work = if head.shed { self.config.shed } else { self.config.receive.sample(&mut self.draws[1]) };
        self.received_for += work;
        self.engine.schedule(now + work, Event::Received);
    }

    fn received(&mut self, now: Time) {
        let request = self.receiving.pop_front().expect("it was being received");
        let count = u64::from(request.counts);
        if request.shed {
            self.outcome.shed += count;
        } else if self.serving.len() as u32 == self.config.serve_room {
            self.outcome.lost_serving += count;
        } else {
            self.serving.push_back(request);
            if self.serving.len() == 1 {
                self.left = self.config.serve.sample(&mut self.draws[2]);
            }
        }
        if self.receiving.is_empty() { self.resume(now) } else { self.receive(now) }
    }

    /// Takes the core from the second stage.
    fn interrupt(&mut self, now: Time) {
        if let Some(since) = self.since.take() {
            self.left = self.left.saturating_sub(now.since(since));
            self.turn += 1;
        }
    }

    /// Gives the core to the second stage, if it has work.
    fn resume(&mut self, now: Time) {
        if !self.serving.is_empty() {
            self.since = Some(now);
            self.engine.schedule(now + self.left, Event::Served { turn: self.turn });
        }
    }

    fn served(&mut self, now: Time, turn: u64) {
        if turn != self.turn || self.since.is_none() {
            return;
        }
        self.since = None;
        let request = self.serving.pop_front().expect("it was being served");
        let sojourn = now.since(request.at);
        self.signals.served += 1;
        self.answered_in += sojourn;
        if request.counts {
            self.outcome.sojourn.record(sojourn);
            let ends = match sojourn <= self.config.patience {
                true => &mut self.outcome.in_time,
                false => &mut self.outcome.in_vain,
            };
            *ends += 1;
        }
        if !self.serving.is_empty() {
            self.left = self.config.serve.sample(&mut self.draws[2]);
            self.resume(now);
        }
    }

    /// Tells the policy what the server looks like, and the door what it says.
    fn look(&mut self, now: Time) {
        let Some(policy) = &mut self.policy else { return };
        let Signals { offered, admitted, served, .. } = std::mem::take(&mut self.signals);
        let received_for = std::mem::take(&mut self.received_for);
        let answered_in = std::mem::take(&mut self.answered_in);
        let waiting = self.serving.len() as u64;
        let signals = Signals {
            offered,
            admitted,
            served,
            waiting,
            delay: self.serving.front().map_or(Span::ZERO, |oldest| now.since(oldest.at)),
            latency: (served > 0).then(|| answered_in / served.max(1)),
            present: waiting + self.receiving.len() as u64,
            kernel_share: received_for.as_secs_f64() / self.params.period.as_secs_f64(),
            sockets: waiting,
            ..Signals::default()
        };
        let limit: Limit = policy.tick(now, &signals);
        self.door.set(now, limit);
        if self.goes_on() {
            self.engine.schedule(now + self.params.period, Event::Look);
        }
    }
}
