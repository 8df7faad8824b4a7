//! Services that call services.
//!
//! Requests pass through stages in series. A stage is one service with some threads, or a
//! parallel unit that splits each request over its workers and continues when all parts are
//! back or, with partial answers, when their time is up. Queues are the real [`DeadlineQueue`],
//! budgets the real [`Budget`]. All random values of a request are drawn at its arrival, so
//! that all policies of one seed get the same work. The network stack is not modelled: see
//! [`server`](super::server).
//! Source: D2P §2 (stage-service and parallel-unit model) and §5.

mod config;
mod outcome;
mod record;
mod trace;

pub use crate::BadConfig;
pub use config::{Config, Expects, Learns, Slo, SpeedChange, Stage, WorkKind};
pub use outcome::{Outcome, StageReport, UserClassOutcome};
pub use record::ServiceTimeRecord;
pub use trace::{SampledWork, Trace, TraceRequest};

use deadline::{
    Budget, DeadlineQueue, DequeueResult, EnqueueResult, Forecast, History, QueueSettings, ServiceTimeEwma,
    StageTimer, Work,
};
use queueing::{Entry, Label, Priority, Span, Time};

use crate::Engine;

/// Runs the simulation described by `config` until its last request is over.
///
/// # Panics
/// If the configuration does not pass [`Config::check`].
#[must_use]
pub fn run(config: &Config) -> Outcome {
    config.check().expect("a checked configuration");
    let mut world = World::new(config);
    while let Some((now, event)) = world.engine.next() {
        world.on_event(now, event);
    }
    world.outcome.elapsed = world.engine.now().since(Time::ZERO);
    world.outcome.events = world.engine.scheduled();
    world.outcome
}

struct World<'a> {
    config: &'a Config,
    engine: Engine<Event>,
    stages: Vec<Servers>,
    requests: Vec<Request>,
    trace: Trace,
    outcome: Outcome,
}

enum Event {
    /// A request arrives.
    Arrival(TraceRequest),
    /// A part of a request reaches its queue.
    Arrive(Part),
    /// A server completes a part.
    Done(Part, StageTimer),
    /// The answer of a part reaches the aggregator.
    Return(Part, StageTimer),
    /// The time of a unit's parts is up: it continues with the available answers.
    PartsTimeout { request: usize, stage: usize },
}

/// One of a request's sub-requests at a stage; for a service, the only one.
#[derive(Clone, Copy)]
struct Part {
    request: usize,
    stage: usize,
    part: usize,
}

/// Servers of a stage, one per part.
struct Servers {
    parts: Vec<Server>,
    /// Times by which parts are ordered and dropped ([`Expects`]).
    history: History<usize>,
    /// Service times at this stage.
    own: History<usize>,
    /// Expected service time per query and worker.
    estimates: ServiceTimeEwma<(usize, usize)>,
}

struct Server {
    queue: DeadlineQueue<Job>,
    idle: usize,
}

/// Waiting part.
struct Job {
    part: Part,
    visit: StageTimer,
    remaining: Span,
    expected: Span,
    forecast: Forecast,
    occupancy: Span,
    slowest: Span,
}

impl Work for Job {
    fn forecast(&self) -> Forecast {
        self.forecast.clone()
    }

    fn occupancy(&self) -> Span {
        self.occupancy
    }
}

impl Entry for Job {
    fn label(&self) -> Label {
        Label { priority: Priority::LOWEST, deadline: Some(self.remaining) }
    }

    fn service(&self) -> Span {
        self.expected
    }

    fn slowest(&self) -> Span {
        self.slowest
    }
}

struct Request {
    class: usize,
    counted: bool,
    /// Budget after the last stage.
    budget: Budget,
    /// Per service passed: `elapsed_time` at the start of its service.
    started: Vec<(usize, Span)>,
    /// Current stage; parts of earlier stages are ignored.
    stage: usize,
    /// Answers of the parts at this stage.
    answers: Vec<StageTimer>,
    /// Outstanding parts.
    outstanding: usize,
    dropped: usize,
    /// Parts used by the last unit, and all its parts.
    used: (usize, usize),
    samples: Vec<SampledWork>,
    query: Option<usize>,
    /// Expected service time of the slowest part at this stage.
    slowest: Span,
}

impl<'a> World<'a> {
    fn new(config: &'a Config) -> Self {
        let settings = QueueSettings {
            capacity: config.capacity,
            order: config.order,
            shedding: config.shedding,
            age_max: config.age_max,
        };
        let servers = |stage: &Stage| Servers {
            parts: (0..stage.parts)
                .map(|_| Server {
                    queue: DeadlineQueue::new(settings).with_servers(stage.servers),
                    idle: stage.servers,
                })
                .collect(),
            history: History::new(stage.kinds.len() + 1),
            own: History::new(stage.kinds.len() + 1),
            estimates: ServiceTimeEwma::new(ESTIMATES_MAX),
        };
        let mut world = Self {
            config,
            engine: Engine::new(),
            stages: config.stages.iter().map(servers).collect(),
            requests: Vec::new(),
            trace: Trace::new(config),
            outcome: Outcome::new(config),
        };
        world.schedule_arrival();
        world
    }

    fn schedule_arrival(&mut self) {
        if let Some(arrival) = self.trace.next() {
            self.engine.schedule(arrival.at, Event::Arrival(arrival));
        }
    }

    fn on_event(&mut self, now: Time, event: Event) {
        match event {
            Event::Arrival(arrival) => {
                let request = self.create(now, arrival);
                self.enter(now, request, 0);
                self.schedule_arrival();
            }
            Event::Arrive(part) => self.arrive(now, part),
            Event::Done(part, visit) => self.done(now, part, visit),
            Event::Return(part, visit) => self.on_return(now, part, Some(visit)),
            Event::PartsTimeout { request, stage } => {
                if self.requests[request].stage == stage && self.requests[request].outstanding > 0 {
                    self.aggregate(now, request);
                }
            }
        }
    }

    fn create(&mut self, now: Time, arrival: TraceRequest) -> usize {
        let TraceRequest { class, parts: samples, query, .. } = arrival;
        let number = self.requests.len();
        let counted = number as u64 >= self.config.warmup;
        self.outcome.count_arrival(now, class, counted);
        self.requests.push(Request {
            class,
            counted,
            budget: Budget::new(self.config.slos[class].claim()),
            started: Vec::new(),
            stage: 0,
            answers: Vec::new(),
            outstanding: 0,
            dropped: 0,
            used: (1, 1),
            samples,
            query,
            slowest: Span::ZERO,
        });
        number
    }

    fn sampled(&self, part: Part) -> SampledWork {
        self.requests[part.request].samples[self.config.parts(part.stage).start + part.part]
    }

    /// Sends the request to `stage`, whole or split over the unit's workers.
    fn enter(&mut self, now: Time, request: usize, stage: usize) {
        let unit = &self.config.stages[stage];
        let current = &mut self.requests[request];
        (current.stage, current.outstanding, current.dropped) = (stage, unit.parts, 0);
        current.answers.clear();
        if let Some(query) = current.query.filter(|_| unit.learns == Learns::Query) {
            let estimates = &self.stages[stage].estimates;
            let expected = (0..unit.parts).map(|part| estimates.expected(&(query, part)));
            current.slowest = expected.max().unwrap_or(Span::ZERO);
        }
        if unit.parts > 1 {
            current.budget = current.budget.split(unit.reserve);
            if unit.partial {
                let at = now + current.budget.remaining().left();
                self.engine.schedule(at, Event::PartsTimeout { request, stage });
            }
        }
        for part in 0..unit.parts {
            let part = Part { request, stage, part };
            let at = now + self.sampled(part).hop;
            self.engine.schedule(at, Event::Arrive(part));
        }
    }

    fn arrive(&mut self, now: Time, part: Part) {
        let SampledWork { hop, kind, .. } = self.sampled(part);
        let unit = &self.config.stages[part.stage];
        let current = &mut self.requests[part.request];
        let visit = StageTimer::arrive(now, current.budget_at(part.stage), hop);
        let servers = &mut self.stages[part.stage];
        let remaining = visit.remaining(now).left();
        let (expected, slowest) = match current.query.filter(|_| unit.learns == Learns::Query) {
            Some(query) => (servers.estimates.expected(&(query, part.part)), current.slowest),
            None => [servers.history.estimate(&kind).expected(); 2].into(),
        };
        let forecast = match unit.learns {
            Learns::Query => Forecast::constant(expected),
            Learns::All => servers.history.forecast(&kind),
        };
        let occupancy = match unit.learns {
            Learns::Query => expected,
            Learns::All => servers.own.forecast(&kind).mean(),
        };
        let job = Job { part, visit, remaining, expected, forecast, occupancy, slowest };
        let queue = &mut servers.parts[part.part].queue;
        let shed = match queue.enqueue(now, job) {
            EnqueueResult::Queued => None,
            EnqueueResult::Refused(job, _) | EnqueueResult::Replaced(job, _) => Some(job.part),
        };
        if let Some(shed) = shed {
            self.drop_part(now, shed);
        }
        self.dispatch(now, part.stage, part.part);
    }

    /// Serves waiting parts on idle servers.
    fn dispatch(&mut self, now: Time, stage: usize, part: usize) {
        loop {
            let server = &mut self.stages[stage].parts[part];
            if server.idle == 0 {
                return;
            }
            match server.queue.dequeue(now) {
                None => return,
                Some(DequeueResult::Shed(job, _)) => self.drop_part(now, job.part),
                Some(DequeueResult::Serve(job)) => {
                    server.idle -= 1;
                    let mut visit = job.visit;
                    visit.start(now);
                    let at = now + self.sampled(job.part).service;
                    self.engine.schedule(at, Event::Done(job.part, visit));
                }
            }
        }
    }

    fn done(&mut self, now: Time, part: Part, visit: StageTimer) {
        let sampled = self.sampled(part);
        let servers = &mut self.stages[part.stage];
        servers.parts[part.part].idle += 1;
        if self.config.expects == Expects::Own || self.config.stages[part.stage].parts > 1 {
            servers.history.record(now, sampled.kind, sampled.service);
        }
        servers.own.record(now, sampled.kind, sampled.service);
        if self.requests[part.request].counted {
            self.outcome.served(part.stage, &visit.stage(now), visit.elapsed(now));
        }
        if self.config.stages[part.stage].parts == 1 {
            let current = &mut self.requests[part.request];
            current.started.push((part.stage, visit.elapsed(now) - visit.stage(now).service));
            current.budget = visit.outgoing_budget(now);
            self.advance(now, part.request);
        } else {
            let arrived = now + sampled.back;
            let visit = StageTimer::arrive(arrived, visit.outgoing_budget(now), sampled.back);
            self.engine.schedule(arrived, Event::Return(part, visit));
        }
        self.dispatch(now, part.stage, part.part);
    }

    /// Handles a part that will not be served.
    fn drop_part(&mut self, now: Time, part: Part) {
        if self.requests[part.request].counted {
            self.outcome.dropped(part.stage);
        }
        self.on_return(now, part, None);
    }

    /// Handles the return of a part, with an answer or without.
    fn on_return(&mut self, now: Time, part: Part, visit: Option<StageTimer>) {
        if let (Some(query), true) = (self.requests[part.request].query, visit.is_some()) {
            let service = self.sampled(part).service;
            self.stages[part.stage].estimates.record((query, part.part), service);
        }
        let current = &mut self.requests[part.request];
        if current.stage != part.stage || current.outstanding == 0 {
            return;
        }
        current.outstanding -= 1;
        match visit {
            Some(visit) => current.answers.push(visit),
            None => current.dropped += 1,
        }
        if current.outstanding == 0 {
            self.aggregate(now, part.request);
        }
    }

    /// Joins the available answers: the request continues if it may.
    fn aggregate(&mut self, now: Time, request: usize) {
        let current = &mut self.requests[request];
        let unit = &self.config.stages[current.stage];
        let is_complete = current.answers.len() == unit.parts;
        current.outstanding = 0;
        current.used = (current.answers.len(), unit.parts);
        let answers = std::mem::take(&mut current.answers);
        let timer = StageTimer::join(now, answers).filter(|_| is_complete || unit.partial);
        match timer {
            Some(visit) => {
                current.budget = visit.outgoing_budget(now);
                self.advance(now, request);
            }
            None => self.fail(request),
        }
    }

    /// Sends the request to the next stage, or completes it.
    fn advance(&mut self, now: Time, request: usize) {
        let next = self.requests[request].stage + 1;
        if next < self.config.stages.len() {
            return self.enter(now, request, next);
        }
        let current = &mut self.requests[request];
        current.stage = next;
        if self.config.expects == Expects::Rest {
            for &(stage, started) in &current.started {
                let kind = current.samples[self.config.parts(stage).start].kind;
                self.stages[stage].history.record(now, kind, current.budget.elapsed() - started);
            }
        }
        if current.counted {
            self.outcome.answered(current.class, &current.budget, current.used);
        }
    }

    fn fail(&mut self, request: usize) {
        let current = &mut self.requests[request];
        current.stage = self.config.stages.len();
        if current.counted {
            self.outcome.failed(current.class);
        }
    }
}

impl Request {
    /// Budget that a part brings to `stage`. A part that its unit no longer waits for has the
    /// remaining budget of the request.
    fn budget_at(&self, stage: usize) -> Budget {
        debug_assert!(stage <= self.stage, "no stage is entered early");
        self.budget
    }
}

/// Maximum number of entries (query, worker) in an aggregator's estimates.
const ESTIMATES_MAX: usize = 1_000_000;
