//! One client, one cable, one server: the world of ADPS's experiments.
//!
//! The client is [`load::Client`] and costs nothing. The server is a
//! [`Shard`] with the synthetic application, the very code that runs on
//! threads. Its stack core does one step after another; each keeps it busy
//! for as long as the [`CostModel`] says, and it sees what happened meanwhile
//! when the next one starts. Workers are cores of their own, or the stack's
//! core between its steps ([`Cores::Shared`], mTCP-like), or an ideal that no
//! machine reaches ([`Cores::Preemptive`]).

mod config;
mod outcome;
mod scenario;
mod workers;

use std::sync::Arc;

use load::{Client, Plan};
use queueing::{Span, Time};
use runtime::Shard;
use runtime::shard::{Job, Step};

pub use crate::BadConfig;
pub use config::{Config, Cores, Link};
pub use outcome::{Core, Outcome};
use scenario::Application;
pub use scenario::{BadClassifier, Driver, Scenario, Transport};
use workers::{Expected, Workers};

use super::Alarm;
use super::cores::Ending;
use crate::{CostModel, Engine, SimDevice, link};

/// Events between two reports of progress.
const PROGRESS_EVERY: u64 = 1 << 15;

/// Runs the world that `config` describes to its end. `progress` hears now
/// and then which share of the virtual time has passed, 0.0..=1.0.
///
/// # Panics
/// When `config` was changed after [`Config::check`] had accepted it.
#[must_use]
pub fn run(config: &Config, progress: &mut dyn FnMut(f64)) -> Outcome {
    World::new(config).run(progress)
}

/// What can happen.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Event {
    /// The client has a frame, a timeout or a request that is due.
    Client,
    /// The stack core is free, or has something to do again.
    Stack,
    /// A worker's core ends a job.
    Done(u8),
    /// A preemptive core ends a job, if nothing interrupted it.
    Ending(Ending),
}

struct World {
    engine: Engine<Event>,
    cost: CostModel,
    client: Client,
    client_device: SimDevice,
    client_alarm: Alarm,
    shard: Shard<SimDevice, Application>,
    server_device: SimDevice,
    stack_alarm: Alarm,
    stack_free_at: Time,
    stack_busy: Span,
    /// Jobs that the stack core has not taken back yet.
    served: Vec<Job>,
    /// How busy stack and workers were when the first request could be due.
    before: Option<(Time, Vec<Span>)>,
    workers: Workers,
    plan: Plan,
}

impl World {
    fn new(config: &Config) -> Self {
        config.check().expect("the configuration was checked before");
        let cost = config.cost();
        let (client_device, server_device) = link::connect(config.link());
        let (app, classifiers) = config.scenario.build();
        let app = Arc::new(app);
        let mut shard = Shard::new(config.shard(classifiers), Arc::clone(&app));
        config.listen(shard.stack());
        Self {
            engine: Engine::new(),
            cost,
            client: config.client(),
            client_device,
            client_alarm: Alarm::new(),
            shard,
            server_device: server_device.with_transmit_cost(cost.transmit()),
            stack_alarm: Alarm::new(),
            stack_free_at: Time::ZERO,
            stack_busy: Span::ZERO,
            served: Vec::new(),
            before: None,
            workers: Workers::new(config.cores, config.workers, config.slots(), cost, app),
            plan: config.load.clone(),
        }
    }

    fn run(mut self, progress: &mut dyn FnMut(f64)) -> Outcome {
        self.client_alarm.arm(&mut self.engine, Time::ZERO, Event::Client);
        self.stack_alarm.arm(&mut self.engine, Time::ZERO, Event::Stack);
        let mut events = 0;
        while !self.client.is_done()
            && let Some((now, event)) = self.engine.next()
        {
            self.handle(now, event);
            events += 1;
            if events % PROGRESS_EVERY == 0 {
                progress(self.progress(now));
            }
        }
        progress(1.0);
        self.outcome(events)
    }

    /// Which share of the plan lies behind, 0.0..=1.0.
    fn progress(&self, now: Time) -> f64 {
        let Some(start) = self.client.started() else { return 0.0 };
        let of = |done: f64, all: f64| (done / all).clamp(0.0, 1.0);
        let time = self.plan.duration.map(|all| of(now.since(start).as_secs_f64(), all.as_secs_f64()));
        let requests = self.plan.requests.map(|all| of(self.client.progress().settled as f64, all as f64));
        time.unwrap_or(0.0).max(requests.unwrap_or(0.0))
    }

    fn outcome(self, events: u64) -> Outcome {
        let now = self.engine.now();
        let busy = self.busy();
        let (start, before) = self.before.unwrap_or_else(|| (now, busy.clone()));
        let elapsed = now.since(start);
        let workers = (0..).map(|worker| format!("worker {worker}"));
        let names = std::iter::once("stack".to_owned()).chain(workers);
        let cores = names.zip(busy.iter().zip(before)).map(|(name, (&busy, before))| {
            let busy = busy - before;
            Core { name, busy, utilisation: busy.as_secs_f64() / elapsed.as_secs_f64().max(1e-9) }
        });
        Outcome {
            cores: cores.collect(),
            report: self.client.report("sim"),
            shard: self.shard.stats().counters,
            nic: self.server_device.received(),
            elapsed,
            events,
        }
    }

    /// How long the stack's core and each worker have been busy.
    fn busy(&self) -> Vec<Span> {
        std::iter::once(self.stack_busy).chain(self.workers.busy()).collect()
    }

    fn handle(&mut self, now: Time, event: Event) {
        match event {
            Event::Client if self.client_alarm.rings(now) => self.client(now),
            Event::Stack if self.stack_alarm.rings(now) => self.stack(now),
            Event::Client | Event::Stack => {}
            Event::Done(worker) => {
                let job = self.workers.done(worker);
                self.serve_end(now, job);
            }
            Event::Ending(ending) => {
                if let Some((job, next)) = self.workers.end(ending) {
                    self.expect(next);
                    self.serve_end(now, job);
                }
            }
        }
    }

    /// Lets the client do all that it can do now, for nothing.
    fn client(&mut self, now: Time) {
        while self.client.step(now, &mut self.client_device) {}
        if self.before.is_none() && self.client.started().is_some() {
            self.before = Some((now, self.busy()));
        }
        let due = [self.client.poll_timeout(), self.client_device.next_arrival()];
        if let Some(due) = due.into_iter().flatten().min() {
            // Asked again in the same instant, it would not do more.
            let due = due.max(now + Span::from_nanos(1));
            self.client_alarm.arm(&mut self.engine, due, Event::Client);
        }
        self.wake_stack(now);
    }

    /// Lets the stack core do its next step.
    fn stack(&mut self, now: Time) {
        for job in self.served.drain(..) {
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
                    self.stack_free_at = self.workers.look(worker, self.stack_free_at);
                }
                Step::Transmit { .. } => self.wake_client(),
                Step::Drive { .. } | Step::Transport { .. } => {}
            }
            if self.stack_free_at > now {
                return self.stack_alarm.arm(&mut self.engine, self.stack_free_at, Event::Stack);
            }
        }
    }

    fn assign(&mut self, now: Time, job: Job) {
        let (stack_free_at, expected) = self.workers.start(now, self.stack_free_at, job);
        self.stack_free_at = stack_free_at;
        self.expect(expected);
    }

    fn expect(&mut self, expected: Expected) {
        if let Some((at, event)) = expected {
            self.engine.schedule(at, event);
        }
    }

    /// A worker hands a job back; the stack core sees it at its next step.
    fn serve_end(&mut self, now: Time, job: Job) {
        self.served.push(job);
        let free_at = self.stack_free_at.max(now);
        self.stack_alarm.arm(&mut self.engine, free_at, Event::Stack);
    }

    /// The stack core found nothing to do.
    fn sleep(&mut self, now: Time) {
        let due = [self.shard.poll_timeout(), self.server_device.next_arrival()];
        if let Some(due) = due.into_iter().flatten().min() {
            let due = due.max(now + Span::from_nanos(1));
            self.stack_alarm.arm(&mut self.engine, due, Event::Stack);
        }
    }

    /// A frame may be on its way to the server.
    fn wake_stack(&mut self, now: Time) {
        if let Some(arrival) = self.server_device.next_arrival() {
            let at = arrival.max(self.stack_free_at).max(now);
            self.stack_alarm.arm(&mut self.engine, at, Event::Stack);
        }
    }

    /// A frame may be on its way to the client.
    fn wake_client(&mut self) {
        if let Some(arrival) = self.client_device.next_arrival() {
            self.client_alarm.arm(&mut self.engine, arrival, Event::Client);
        }
    }
}
