//! One client, one cable, one server: the simulation of ADPS's experiments.
//!
//! The client is [`load::Client`] and costs no time. The server is a [`Shard`] with the
//! synthetic application, the code that runs on threads. Its stack core executes one step after
//! another; each takes the time given by the [`CostModel`], and arrivals during a step are seen
//! by the next one. Workers have their own cores, share the stack's core between its steps
//! ([`WorkerPlacement::Shared`], mTCP-like), or are ideal ([`WorkerPlacement::Preemptive`]).

pub(super) mod config;
mod outcome;
pub(super) mod scenario;
mod workers;

use std::sync::Arc;

use load::{Client, Plan};
use net::stack::ListenOptions;
use queueing::{Span, Time};
use runtime::Shard;
use runtime::shard::{self, Counters, Job, Step};

pub use crate::BadConfig;
pub use config::{Config, LinkConfig, WorkerPlacement};
pub use outcome::{CoreLoad, Outcome};
use scenario::Application;
pub use scenario::{BadClassifier, Driver, ScenarioClassifiers, TransportClassifiers};
use workers::{ScheduledEvent, SimWorkers};

use super::Alarm;
use super::cores::WorkCompletion;
use crate::{CostModel, Engine, SimDevice, link};

/// Number of events between two progress reports.
const PROGRESS_EVERY: u64 = 1 << 15;

/// Runs the simulation described by `config`. `progress` receives the elapsed share of virtual
/// time, 0.0..=1.0, from time to time.
///
/// # Panics
/// If `config` was changed after [`Config::check`] had accepted it.
#[must_use]
pub fn run(config: &Config, progress: &mut dyn FnMut(f64)) -> Outcome {
    config.check().expect("the configuration was checked before");
    let mut world = World::new(config.machine(), config.client());
    world.run(&mut |client, now| progress(done(client, &config.load, now)));
    progress(1.0);
    world.outcome()
}

/// Completed fraction of the plan, 0.0..=1.0.
fn done(client: &Client, plan: &Plan, now: Time) -> f64 {
    let Some(start) = client.started() else { return 0.0 };
    let of = |done: f64, all: f64| (done / all).clamp(0.0, 1.0);
    let time = plan.duration.map(|all| of(now.since(start).as_secs_f64(), all.as_secs_f64()));
    let requests = plan.requests.map(|all| of(client.progress().settled as f64, all as f64));
    time.unwrap_or(0.0).max(requests.unwrap_or(0.0))
}

/// Clients at the other end of the cable; they cost no time.
pub(super) trait Clients {
    /// Does one piece of work at `now`; `false` if there is none.
    fn step(&mut self, now: Time, device: &mut SimDevice) -> bool;
    /// Time of the next call of `step`, if no frame arrives earlier.
    fn poll_timeout(&self) -> Option<Time>;
    /// Start of measurement.
    fn started(&self) -> Option<Time>;
    /// True if all measured requests have ended.
    fn is_done(&self) -> bool;
}

impl Clients for Client {
    fn step(&mut self, now: Time, device: &mut SimDevice) -> bool {
        Self::step(self, now, device)
    }

    fn poll_timeout(&self) -> Option<Time> {
        Self::poll_timeout(self)
    }

    fn started(&self) -> Option<Time> {
        Self::started(self)
    }

    fn is_done(&self) -> bool {
        Self::is_done(self)
    }
}

/// Server and its cable.
pub(super) struct Machine {
    pub(super) cost: CostModel,
    pub(super) link: link::Config,
    pub(super) shard: shard::Config,
    pub(super) app: Arc<Application>,
    /// Listening ports.
    pub(super) ports: Vec<u16>,
    pub(super) cores: WorkerPlacement,
    pub(super) workers: usize,
    /// Workers as seen by the shard.
    pub(super) slots: usize,
}

/// Event.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Event {
    /// The client has a frame, a timeout or a due request.
    Client,
    /// The stack core is free or has work.
    Stack,
    /// A worker's core completes a job.
    Done(u8),
    /// A preemptive core completes a job, unless stale.
    Completion(WorkCompletion),
}

pub(super) struct World<C> {
    engine: Engine<Event>,
    cost: CostModel,
    pub(super) client: C,
    client_device: SimDevice,
    client_alarm: Alarm,
    pub(super) shard: Shard<SimDevice, Application>,
    server_device: SimDevice,
    stack_alarm: Alarm,
    stack_free_at: Time,
    stack_busy: Span,
    receiving: Span,
    /// Completed jobs that the stack core has not processed yet.
    completed_jobs: Vec<Job>,
    /// State at the start of measurement.
    baseline: Option<Baseline>,
    workers: SimWorkers,
    events: u64,
}

/// State at the start of measurement.
struct Baseline {
    at: Time,
    busy: Vec<Span>,
    receiving: Span,
    counters: Counters,
}

/// Work of a server since the start of measurement.
pub(super) struct RunStats {
    pub(super) elapsed: Span,
    pub(super) busy: Vec<Span>,
    /// Time of the stack core spent in driver and TCP.
    pub(super) receiving: Span,
    /// Counters at the start of measurement, and now.
    pub(super) counters: [Counters; 2],
    pub(super) nic: link::Counters,
    pub(super) events: u64,
}

impl<C: Clients> World<C> {
    pub(super) fn new(machine: Machine, client: C) -> Self {
        let Machine { cost, link, shard, app, ports, cores, workers, slots } = machine;
        let (client_device, server_device) = link::connect(link);
        let mut shard = Shard::new(shard, Arc::clone(&app));
        for port in ports {
            shard.stack().listen(port, ListenOptions::default()).expect("a fresh stack has its ports free");
        }
        Self {
            engine: Engine::new(),
            cost,
            client,
            client_device,
            client_alarm: Alarm::new(),
            shard,
            server_device: server_device.with_transmit_cost(cost.transmit()),
            stack_alarm: Alarm::new(),
            stack_free_at: Time::ZERO,
            stack_busy: Span::ZERO,
            completed_jobs: Vec::new(),
            baseline: None,
            receiving: Span::ZERO,
            workers: SimWorkers::new(cores, workers, slots, cost, app),
            events: 0,
        }
    }

    /// Runs until the client is done.
    pub(super) fn run(&mut self, progress: &mut dyn FnMut(&C, Time)) {
        self.client_alarm.arm(&mut self.engine, Time::ZERO, Event::Client);
        self.stack_alarm.arm(&mut self.engine, Time::ZERO, Event::Stack);
        while !self.client.is_done()
            && let Some((now, event)) = self.engine.next()
        {
            self.handle(now, event);
            self.events += 1;
            if self.events.is_multiple_of(PROGRESS_EVERY) {
                progress(&self.client, now);
            }
        }
    }

    /// Work done since the start of measurement.
    pub(super) fn done(&self) -> RunStats {
        let now = self.engine.now();
        let busy = self.busy();
        let counters = self.shard.stats().counters;
        let (at, before, receiving, then) = match &self.baseline {
            Some(before) => (before.at, before.busy.clone(), before.receiving, before.counters),
            None => (now, busy.clone(), self.receiving, counters),
        };
        RunStats {
            elapsed: now.since(at),
            busy: busy.iter().zip(before).map(|(&busy, before)| busy - before).collect(),
            receiving: self.receiving - receiving,
            counters: [then, counters],
            nic: self.server_device.received(),
            events: self.events,
        }
    }

    /// Busy time of the stack core and of each worker.
    fn busy(&self) -> Vec<Span> {
        std::iter::once(self.stack_busy).chain(self.workers.busy()).collect()
    }

    fn handle(&mut self, now: Time, event: Event) {
        match event {
            Event::Client if self.client_alarm.is_due(now) => self.client(now),
            Event::Stack if self.stack_alarm.is_due(now) => self.stack(now),
            Event::Client | Event::Stack => {}
            Event::Done(worker) => {
                let job = self.workers.done(worker);
                self.return_job(now, job);
            }
            Event::Completion(ending) => {
                if let Some((job, next)) = self.workers.end(ending) {
                    self.schedule(next);
                    self.return_job(now, job);
                }
            }
        }
    }

    /// Runs the client until it has nothing to do; costs no time.
    fn client(&mut self, now: Time) {
        while self.client.step(now, &mut self.client_device) {}
        if self.baseline.is_none() && self.client.started().is_some() {
            let counters = self.shard.stats().counters;
            let (busy, receiving) = (self.busy(), self.receiving);
            self.baseline = Some(Baseline { at: now, busy, receiving, counters });
        }
        let due = [self.client.poll_timeout(), self.client_device.next_arrival()];
        if let Some(due) = due.into_iter().flatten().min() {
            // A second call in the same instant would do nothing.
            let due = due.max(now + Span::from_nanos(1));
            self.client_alarm.arm(&mut self.engine, due, Event::Client);
        }
        self.wake_stack(now);
    }

    /// Executes steps of the stack core up to the first one that takes time.
    fn stack(&mut self, now: Time) {
        for job in self.completed_jobs.drain(..) {
            self.shard.complete(now, job);
        }
        loop {
            let step = self.shard.step(now, &mut self.server_device);
            let cost = self.cost.step(&step);
            self.stack_busy += cost;
            self.stack_free_at = now + cost;
            match step {
                Step::Idle => return self.sleep(now),
                Step::Assign(job) => self.assign(now, job),
                Step::Partial(worker) => {
                    self.stack_free_at = self.workers.charge_poll(worker, self.stack_free_at);
                }
                Step::Transmit { .. } => self.wake_client(),
                Step::Drive { .. } | Step::Transport { .. } => self.receiving += cost,
            }
            if self.stack_free_at > now {
                return self.stack_alarm.arm(&mut self.engine, self.stack_free_at, Event::Stack);
            }
        }
    }

    fn assign(&mut self, now: Time, job: Job) {
        let (stack_free_at, expected) = self.workers.start(now, self.stack_free_at, job);
        self.stack_free_at = stack_free_at;
        self.schedule(expected);
    }

    fn schedule(&mut self, expected: ScheduledEvent) {
        if let Some((at, event)) = expected {
            self.engine.schedule(at, event);
        }
    }

    /// Returns a job to the stack core, which sees it at its next step.
    fn return_job(&mut self, now: Time, job: Job) {
        self.completed_jobs.push(job);
        let free_at = self.stack_free_at.max(now);
        self.stack_alarm.arm(&mut self.engine, free_at, Event::Stack);
    }

    /// Puts the idle stack core to sleep until its next timeout or frame.
    fn sleep(&mut self, now: Time) {
        let due = [self.shard.poll_timeout(), self.server_device.next_arrival()];
        if let Some(due) = due.into_iter().flatten().min() {
            let due = due.max(now + Span::from_nanos(1));
            self.stack_alarm.arm(&mut self.engine, due, Event::Stack);
        }
    }

    /// Schedules the stack's next run, at the arrival of the next frame for the server.
    fn wake_stack(&mut self, now: Time) {
        if let Some(arrival) = self.server_device.next_arrival() {
            let at = arrival.max(self.stack_free_at).max(now);
            self.stack_alarm.arm(&mut self.engine, at, Event::Stack);
        }
    }

    /// Schedules the client's next run, at the arrival of the next frame for it.
    fn wake_client(&mut self) {
        if let Some(arrival) = self.client_device.next_arrival() {
            self.client_alarm.arm(&mut self.engine, arrival, Event::Client);
        }
    }
}

impl World<Client> {
    fn outcome(&self) -> Outcome {
        let RunStats { elapsed, busy, counters: [_, shard], nic, events, .. } = self.done();
        let workers = (0..).map(|worker| format!("worker {worker}"));
        let names = std::iter::once("stack".to_owned()).chain(workers);
        let cores = names.zip(busy).map(|(name, busy)| CoreLoad {
            name,
            busy,
            utilisation: busy.as_secs_f64() / elapsed.as_secs_f64().max(1e-9),
        });
        Outcome { cores: cores.collect(), report: self.client.report("sim"), shard, nic, elapsed, events }
    }
}
