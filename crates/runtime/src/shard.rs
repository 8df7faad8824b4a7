//! One core's driver, transport, event queue and dispatcher, stepped by its
//! owner.
//!
//! A round drives frames into the receive buffer, runs frames through TCP,
//! gives requests to idle workers and sends. [`Shard::step`] does the next
//! single piece of it and says which, so that threads can spin on it and the
//! simulator can charge for it. Idle workers come before packets: whenever a
//! task waits that an idle worker accepts, that is the next piece, so a flood
//! of frames never starves the workers; rounds are bounded, so neither
//! starves the wire.
//!
//! The order of bytes inside a connection is never touched: at most one
//! request per connection is in service and its response is out before the
//! next is looked at. Nothing is lost when the event queue is full: the
//! connection keeps its bytes (its window closes) and waits to enter, the
//! most urgent first. No clock, no thread, no allocation per request once the
//! pools are warm.
//! Source: ADPS §2.3, M6 and M7.

mod conns;
mod flow;
mod stats;

use std::collections::VecDeque;
use std::sync::Arc;

use net::classify::{DriverClassifier, Private};
pub use net::driver::RxOrder;
use net::driver::{Admission, RxBuffer, classify};
use net::stack::ConnId;
use net::{Device, Stack};
use queueing::{Label, Priority, PrioritySet, Span, Time};
use sched::dispatch::{Dispatch, Idle, Kind, WorkerId, WorkerSet};

use crate::app::{App, Context, Outcome, Stages};
use crate::mode::Policy;
use conns::Conns;
pub use stats::{Counters, STAGES, Stats};

/// How a shard is set up.
pub struct Config {
    /// TCP/IP.
    pub stack: net::stack::Config,
    /// Receive buffer order.
    pub rx_order: RxOrder,
    /// Frames the receive buffer holds.
    pub rx_frames_max: usize,
    /// `pri_filter`, if any.
    pub driver_classifier: Option<DriverClassifier>,
    /// Who serves whom.
    pub dispatch: Box<dyn Dispatch>,
    /// Workers, 1..=256.
    pub workers: usize,
    /// Per priority, the workers that may serve it (M7).
    pub steering: [WorkerSet; Priority::LEVELS],
    /// How much of each kind of work a round does.
    pub budget: Budget,
}

impl Config {
    /// A shard of `workers` workers under `policy`, whose transport
    /// classifier becomes the stack's default; 16,384 frames of buffer.
    #[must_use]
    pub fn new(mut stack: net::stack::Config, policy: Policy, workers: usize) -> Self {
        if policy.transport.is_some() {
            stack.classifier = policy.transport;
        }
        Self {
            stack,
            rx_order: policy.rx_order,
            rx_frames_max: 16_384,
            driver_classifier: policy.driver,
            dispatch: policy.dispatch,
            workers,
            steering: policy.steering.sets(),
            budget: Budget::default(),
        }
    }
}

/// How much of each kind of work a round does at the most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// Frames taken from the device, at least 1.
    pub drive: usize,
    /// Frames run through TCP, at least 1.
    pub transport: usize,
    /// Requests given to workers, at least 1. A shard that serves them itself
    /// gives one per round, so that an urgent frame waits for one request at
    /// the most; with other workers a limit would only leave them idle.
    pub assign: usize,
}

/// Classify 32, then process 8, and leave no worker idle: the receive buffer sees enough frames to have
/// a choice, and the urgent one waits for 8 others at the most.
impl Default for Budget {
    fn default() -> Self {
        Self { drive: 128, transport: 1, assign: usize::MAX }
    }
}

impl Budget {
    fn check(&self) {
        assert!(self.drive > 0, "a round drives nothing");
        assert!(self.transport > 0, "a round transports nothing");
        assert!(self.assign > 0, "a round assigns nothing");
    }
}

/// What the shard did in one step, so that the simulator can charge for it.
#[derive(Debug)]
pub enum Step {
    /// Took a frame from the device, classified it, put it into the receive buffer.
    Drive {
        /// A classifier was called.
        classified: bool,
    },
    /// Ran one frame through TCP.
    Transport {
        /// It carried payload.
        payload: bool,
    },
    /// Gave a request to a worker.
    Assign(Job),
    /// Found an event whose request was not complete yet (a worker looked in vain).
    Partial(WorkerId),
    /// Sent frames.
    Transmit {
        /// How many.
        frames: usize,
    },
    /// Nothing to do before `poll_timeout` or the next frame.
    Idle,
}

/// One request on its way to a worker; comes back by [`Shard::complete`].
#[derive(Debug)]
pub struct Job {
    /// Who serves it.
    pub worker: WorkerId,
    /// Where it came from.
    pub conn: ConnId,
    /// Its label.
    pub label: Label,
    /// Its type, if known.
    pub kind: Option<Kind>,
    /// Where it has waited.
    pub stages: Stages,
    /// The request's bytes.
    pub request: Vec<u8>,
    /// The response's bytes, filled in by the worker.
    pub response: Vec<u8>,
    /// A copy of the 64 shared bytes; the bytes that the worker changed are
    /// written back on completion.
    pub private: Private,
    /// Filled in by the worker: how long it served.
    pub service: Span,
    /// Filled in by the worker: what becomes of the connection.
    pub outcome: Outcome,
    /// Filled in by the worker: the application panicked.
    pub panicked: bool,
}

/// The pure heart of a server core.
pub struct Shard<D: Device, A: App> {
    app: Arc<A>,
    stack: Stack,
    rx: RxBuffer<D::Frame>,
    classifier: Option<DriverClassifier>,
    dispatch: Box<dyn Dispatch>,
    needs_kind: bool,
    conns: Conns,
    /// Connections that wait to enter the event queue, by priority.
    stalled: [VecDeque<ConnId>; Priority::LEVELS],
    stalled_len: usize,
    /// The event queue had room since the stalled ones last tried.
    room: bool,
    workers: Workers,
    round: Round,
    budget: Budget,
    /// Requests given to workers in this round.
    assigned: usize,
    /// When the frame whose events come next was taken from the receive buffer.
    popped: Time,
    /// When to try again to send: the device was full.
    blocked: Option<Time>,
    recv_buffer: usize,
    buffers: Vec<Vec<u8>>,
    stats: Stats,
}

/// Where in its round the shard is.
#[derive(Clone, Copy, Debug)]
enum Round {
    Drive { left: usize },
    Transport { left: usize },
    Transmit,
}

/// Who is idle and who takes what.
struct Workers {
    idle: WorkerSet,
    steering: [WorkerSet; Priority::LEVELS],
    /// Steering and what each worker waits for, together.
    accepts: [WorkerSet; Priority::LEVELS],
    /// The shared bytes as each worker got them.
    given: Vec<Private>,
}

/// Buffers kept for reuse, and the largest that is kept.
const BUFFERS_MAX: usize = 512;
const BUFFER_BYTES_MAX: usize = 64 * 1024;
/// How long to leave a full device alone.
const BLOCKED: Span = Span::from_micros(10);

impl<D: Device, A: App> Shard<D, A> {
    /// A shard that listens on nothing yet.
    ///
    /// # Panics
    /// When `workers` is outside 1..=256, a priority is steered to nobody, or
    /// a budget is 0.
    #[must_use]
    pub fn new(config: Config, app: Arc<A>) -> Self {
        let workers = config.workers;
        assert!((1..=256).contains(&workers), "workers {workers} is outside 1..=256");
        let steering = config.steering.map(|set| set.and(&WorkerSet::first(workers)));
        assert!(steering.iter().all(|set| !set.is_empty()), "a priority is steered to nobody");
        config.budget.check();
        Self {
            app,
            recv_buffer: config.stack.recv_buffer,
            stack: Stack::new(config.stack),
            rx: RxBuffer::new(config.rx_order, config.rx_frames_max),
            classifier: config.driver_classifier,
            needs_kind: config.dispatch.needs_kind(),
            dispatch: config.dispatch,
            conns: Conns::default(),
            stalled: Default::default(),
            stalled_len: 0,
            room: false,
            workers: Workers {
                idle: WorkerSet::first(workers),
                steering,
                accepts: steering,
                given: vec![[0; 64]; workers],
            },
            round: Round::Drive { left: config.budget.drive },
            budget: config.budget,
            assigned: 0,
            popped: Time::ZERO,
            blocked: None,
            buffers: Vec::new(),
            stats: Stats::default(),
        }
    }

    /// The stack, to listen, connect, read flows.
    pub fn stack(&mut self) -> &mut Stack {
        &mut self.stack
    }

    /// Replaces `pri_filter` from the next frame on.
    pub fn set_driver_classifier(&mut self, classifier: Option<DriverClassifier>) {
        self.classifier = classifier;
    }

    /// What happened so far, and where requests waited.
    #[must_use]
    pub fn stats(&self) -> &Stats {
        &self.stats
    }

    /// The application.
    #[must_use]
    pub fn app(&self) -> Arc<A> {
        self.app.clone()
    }

    /// How many workers it gives requests to.
    #[must_use]
    pub fn workers(&self) -> usize {
        self.workers.given.len()
    }

    /// Changes the budgets from the next piece of work on.
    ///
    /// # Panics
    /// When one is 0.
    pub fn set_budget(&mut self, budget: Budget) {
        budget.check();
        self.budget = budget;
    }

    /// Starts counting anew, at the end of a warm-up for instance.
    pub fn clear_stats(&mut self) {
        self.stats.clear();
    }

    /// Frames in the receive buffer.
    #[must_use]
    pub fn rx_waiting(&self) -> usize {
        self.rx.len()
    }

    /// Tasks in the event queue, stale ones and those waiting to enter included.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.dispatch.len() + self.stalled_len
    }

    /// Workers without a job.
    #[must_use]
    pub fn idle(&self) -> &WorkerSet {
        &self.workers.idle
    }

    /// From now on `worker` takes tasks of `priorities` only, as far as
    /// steering allows them (M7). A worker that asks for nothing gets nothing.
    pub fn wants(&mut self, worker: WorkerId, priorities: PrioritySet) {
        for p in Priority::all() {
            let accepts = &mut self.workers.accepts[p.index()];
            match priorities.contains(p) && self.workers.steering[p.index()].contains(worker) {
                true => accepts.insert(worker),
                false => accepts.remove(worker),
            }
        }
    }

    /// Does the next piece of work, in the order and within the budgets of one round.
    ///
    /// Events of a [`Step::Transport`] are stamped by the `now` of the next
    /// call, so time in TCP includes what the owner charged for the step.
    pub fn step(&mut self, now: Time, device: &mut D) -> Step {
        self.take_events(now);
        self.enter_stalled(now);
        if let Some(step) = self.assign(now) {
            return step;
        }
        for _ in 0..ROUND_PHASES {
            let (step, next) = match self.round {
                Round::Drive { left: 0 } => (None, Round::Transport { left: self.budget.transport }),
                Round::Drive { left } => {
                    if left >= self.budget.drive {
                        self.run_timers(now);
                    }
                    match self.drive(now, device) {
                        Some(step) => (Some(step), Round::Drive { left: left - 1 }),
                        None => (None, Round::Transport { left: self.budget.transport }),
                    }
                }
                Round::Transport { left: 0 } => (None, Round::Transmit),
                Round::Transport { left } => match self.transport(now, device) {
                    Some(step) => (Some(step), Round::Transport { left: left - 1 }),
                    None => (None, Round::Transmit),
                },
                Round::Transmit => {
                    self.assigned = 0;
                    (self.transmit(now, device), Round::Drive { left: self.budget.drive })
                }
            };
            self.round = next;
            if let Some(step) = step {
                return step;
            }
        }
        self.assign(now).unwrap_or(Step::Idle)
    }

    /// Takes a served job back and sends its response.
    pub fn complete(&mut self, now: Time, mut job: Job) {
        self.take_events(now);
        self.workers.idle.insert(job.worker);
        self.dispatch.on_done(now, job.worker, job.kind, job.service);
        self.stats.on_served(&job);
        self.recycle(std::mem::take(&mut job.request));
        self.answer(now, job);
    }

    /// When `step` should be called next if no frame comes and no job completes.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Time> {
        match (self.stack.poll_timeout(), self.blocked) {
            (Some(timer), Some(blocked)) => Some(timer.min(blocked)),
            (timer, blocked) => timer.or(blocked),
        }
    }

    fn run_timers(&mut self, now: Time) {
        if self.stack.poll_timeout().is_some_and(|at| at <= now) {
            self.stack.handle_timeout(now);
            self.take_events(now);
        }
    }

    fn drive(&mut self, now: Time, device: &mut D) -> Option<Step> {
        let net::device::Received { frame, arrived } = device.receive(now)?;
        let counters = &mut self.stats.counters.driver;
        let received = arrived.unwrap_or(now);
        match classify(self.classifier.as_ref(), frame.as_ref(), received, counters) {
            Admission::Queue(meta) => {
                if let Some(frame) = self.rx.push(now, frame, meta) {
                    counters.dropped_full += 1;
                    device.recycle(frame);
                }
            }
            Admission::Drop => device.recycle(frame),
        }
        Some(Step::Drive { classified: self.classifier.is_some() })
    }

    fn transport(&mut self, now: Time, device: &mut D) -> Option<Step> {
        let (frame, meta) = self.rx.pop(now)?;
        self.popped = now;
        self.stack.ingress(now, frame.as_ref(), &meta);
        let payload = carries_payload(frame.as_ref());
        device.recycle(frame);
        Some(Step::Transport { payload })
    }

    fn transmit(&mut self, now: Time, device: &mut D) -> Option<Step> {
        if !self.stack.wants_egress() {
            self.blocked = None;
            return None;
        }
        let frames = self.stack.egress(now, device);
        self.blocked = self.stack.wants_egress().then_some(now + BLOCKED);
        (frames > 0).then_some(Step::Transmit { frames })
    }

    /// Gives waiting tasks to idle workers until one takes a request or looks in vain.
    fn assign(&mut self, now: Time) -> Option<Step> {
        while self.assigned < self.budget.assign && !self.workers.idle.is_empty() && !self.dispatch.is_empty()
        {
            let accepting = std::array::from_fn(|p| self.workers.accepts[p].and(&self.workers.idle));
            let (worker, task) = self.dispatch.assign(now, &Idle { accepting })?;
            assert!(self.workers.idle.contains(worker), "the policy chose a worker that is not idle");
            self.room = true;
            match self.conns.current(task.token) {
                Some(id) => return Some(self.look(now, worker, id, task)),
                None => self.stats.counters.stale += 1,
            }
        }
        None
    }

    /// A buffer from the pool.
    fn buffer(&mut self) -> Vec<u8> {
        self.buffers.pop().unwrap_or_default()
    }

    /// Takes a buffer back into the pool.
    fn recycle(&mut self, mut buffer: Vec<u8>) {
        if self.buffers.len() < BUFFERS_MAX && (1..=BUFFER_BYTES_MAX).contains(&buffer.capacity()) {
            buffer.clear();
            self.buffers.push(buffer);
        }
    }
}

/// A full round without work: every phase once, and the one it began in again.
const ROUND_PHASES: usize = 7;

/// Whether an Ethernet frame is an IPv4 TCP segment with payload.
fn carries_payload(frame: &[u8]) -> bool {
    let Some(ip) = frame.get(14..).filter(|ip| ip.len() >= 20) else { return false };
    let header = usize::from(ip[0] & 0x0f) * 4;
    let total = usize::from(u16::from_be_bytes([ip[2], ip[3]]));
    let Some(offset) = ip.get(header + 12) else { return false };
    frame[12..14] == [8, 0] && ip[9] == 6 && total > header + usize::from(offset >> 4) * 4
}

/// Lets a worker thread and the simulator serve a job the same way.
impl Job {
    /// Runs the application on this job. A panic of the application is caught
    /// and noted; the shard then aborts the connection.
    pub fn serve<A: App>(&mut self, app: &A, clock: &dyn queueing::Clock) {
        let start = clock.now();
        let served = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let mut cx =
                Context { label: self.label, stages: self.stages, private: &mut self.private, clock };
            app.serve(&self.request, &mut cx, &mut self.response)
        }));
        self.panicked = served.is_err();
        self.outcome = served.unwrap_or(Outcome::Close);
        self.service = clock.now().since(start);
    }
}

#[cfg(test)]
mod tests;
