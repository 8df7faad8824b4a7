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
//! A datagram is a request of its own and waits in the same event queue, by
//! the same labels; applications see no difference.
//!
//! The order of bytes inside a connection is never touched: at most one
//! request per connection is in service and its response is out before the
//! next is looked at. Nothing is lost when the event queue is full: the
//! connection keeps its bytes (its window closes) and waits to enter, the
//! most urgent first. A waiting connection is as urgent as its most urgent
//! segment; once a worker has looked in vain, the next segment speaks for
//! itself: that a request's rest is as urgent as its beginning is for a
//! classifier that knows the flow to say. A response that finds no room in the
//! send buffer counts towards the stack's memory (`response`). No clock, no
//! thread, no allocation per request once the pools are warm.
//! Source: ADPS §2.3, M6 and M7.

mod commands;
mod config;
mod connections;
mod datagrams;
mod job;
mod request_lifecycle;
mod response;
mod slow_requests;
mod snapshot;
mod stats;

use std::collections::VecDeque;
use std::sync::Arc;

use net::buffer_pool::BufferPool;
use net::classify::Private;
pub use net::driver::RxOrder;
use net::stack::ConnId;
use net::{Device, Stack};
use queueing::{Priority, Time};
use sched::dispatch::{Dispatch, IdleWorkers, WorkerId, WorkerSet};

use crate::app::App;
pub use crate::pipeline::{Budget, Guard, Refusal, Shed};
use crate::pipeline::{DriverCountersMut, Pipeline, ServerLoad, Setup, Work};
pub use config::Config;
use connections::Connections;
use datagrams::Datagrams;
pub use job::{Job, Origin};
use response::SlowReaders;
use slow_requests::ServedRequest;
pub use slow_requests::{End, Limits, PASSAGE, Side, Slow, Slowest};
pub use snapshot::{Depths, ShardSnapshot};
pub use stats::{Counters, HOPS, STAGES, Stats};

/// What the shard did in one step, so that the simulator can charge for it.
#[derive(Debug)]
pub enum Step {
    /// Took a frame from the device, classified it, put it into the receive buffer.
    Drive {
        /// A classifier was called.
        classified: bool,
        /// The guard shed it, so that it is in no buffer.
        shed: bool,
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

/// The pure heart of a server core.
pub struct Shard<D: Device, A: App> {
    app: Arc<A>,
    stack: Stack,
    front: Pipeline<D::Frame>,
    dispatch: Box<dyn Dispatch>,
    needs_kind: bool,
    conns: Connections,
    datagrams: Datagrams,
    /// Connections that wait to enter the event queue, by priority.
    stalled: [VecDeque<ConnId>; Priority::LEVELS],
    stalled_len: usize,
    /// The event queue had room since the stalled ones last tried.
    room: bool,
    workers: Workers,
    round: Round,
    /// Requests given to workers in this round.
    assigned: usize,
    recv_buffer: usize,
    slow_readers: SlowReaders,
    /// For requests and responses under way.
    buffers: BufferPool,
    stats: Stats,
    /// Somebody has asked for [`ShardSnapshot`].
    watched: bool,
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
    /// What the response's buffer held when each worker got it.
    room: Vec<usize>,
    /// When each worker got its request.
    since: Vec<Time>,
}

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
        Self {
            app,
            recv_buffer: config.stack.recv_buffer,
            stack: Stack::new(config.stack),
            front: Pipeline::new(Setup {
                rx_order: config.rx_order,
                rx_frames_max: config.rx_frames_max,
                classifier: config.driver_classifier,
                guard: config.guard,
                budget: config.budget,
            }),
            needs_kind: config.dispatch.needs_kind(),
            dispatch: config.dispatch,
            conns: Connections::default(),
            datagrams: Datagrams::default(),
            stalled: Default::default(),
            stalled_len: 0,
            room: false,
            workers: Workers {
                idle: WorkerSet::first(workers),
                steering,
                accepts: steering,
                given: vec![[0; 64]; workers],
                room: vec![0; workers],
                since: vec![Time::ZERO; workers],
            },
            round: Round::Drive { left: config.budget.drive },
            assigned: 0,
            slow_readers: SlowReaders::default(),
            buffers: BufferPool::new(),
            stats: Stats { slow: Slowest::new(config.slow), ..Stats::default() },
            watched: false,
        }
    }

    /// Does the next piece of work, in the order and within the budgets of one round.
    ///
    /// Events of a [`Step::Transport`] are stamped by the `now` of the next
    /// call, so time in TCP includes what the owner charged for the step.
    pub fn step(&mut self, now: Time, device: &mut D) -> Step {
        self.front.start_round(now);
        self.look_around(now);
        let step = self.work(now, device);
        self.front.set_work(match step {
            Step::Drive { .. } | Step::Transport { .. } => Work::Receive,
            Step::Idle => Work::None,
            Step::Assign(_) | Step::Partial(_) | Step::Transmit { .. } => Work::Rest,
        });
        step
    }

    fn work(&mut self, now: Time, device: &mut D) -> Step {
        self.take_events(now);
        self.enter_stalled(now);
        if let Some(step) = self.assign(now) {
            return step;
        }
        // Until a round has found nothing there may be more to do.
        let mut more = true;
        let (dispatch, idle) = (&self.dispatch, &self.workers.idle);
        let over = self.front.receive_share_exhausted(|| !dispatch.is_empty() && !idle.is_empty());
        for _ in 0..ROUND_PHASES {
            let (step, next) = match self.round {
                Round::Drive { left } if over || left == 0 => {
                    (None, Round::Transport { left: self.front.budget.transport })
                }
                Round::Drive { left } => {
                    if left >= self.front.budget.drive {
                        self.run_timers(now);
                    }
                    match self.drive(now, device) {
                        Some(step) => (Some(step), Round::Drive { left: left - 1 }),
                        None => (None, Round::Transport { left: self.front.budget.transport }),
                    }
                }
                Round::Transport { left } if over || left == 0 => (None, Round::Transmit),
                Round::Transport { left } => match self.transport(now, device) {
                    Some(step) => (Some(step), Round::Transport { left: left - 1 }),
                    None => (None, Round::Transmit),
                },
                Round::Transmit => {
                    self.assigned = 0;
                    let step = self.transmit(now, device, more);
                    more = false;
                    (step, Round::Drive { left: self.front.budget.drive })
                }
            };
            self.round = next;
            if let Some(step) = step {
                return step;
            }
        }
        if let Some(step) = self.assign(now) {
            return step;
        }
        if over {
            // No idle worker takes what waits, so nobody is kept waiting.
            self.front.reset_share();
            return self.work(now, device);
        }
        // Nothing to do but to send what was held.
        if !self.front.is_coalescing() {
            return Step::Idle;
        }
        transmitted(self.front.send(now, device, &mut self.stack, false)).unwrap_or(Step::Idle)
    }

    /// Takes a served job back and sends its response.
    pub fn complete(&mut self, now: Time, mut job: Job) {
        self.front.start_round(now);
        self.take_events(now);
        self.workers.idle.insert(job.worker);
        self.dispatch.on_done(now, job.worker, job.kind, job.service);
        self.stats.on_served(&job);
        if job.response.capacity() > self.workers.room[usize::from(job.worker.0)] {
            self.buffers.missed();
        }
        if let Some(gate) = &mut self.front.gate {
            gate.on_answered(job.stages.nic + job.stages.tcp + job.stages.event + job.service);
        }
        let given = self.workers.since[usize::from(job.worker.0)];
        let passed = self.stats.slow.is_on().then(|| ServedRequest::new(now, given, &job));
        let (from, request) = (job.from, std::mem::take(&mut job.request));
        let end = self.answer(now, job);
        if let Some(passed) = passed {
            self.on_passed(now, from, passed, end, &request);
        }
        match from {
            Origin::Connection(_) => self.buffers.give(request),
            Origin::Datagram(_) => self.stack.recycle(request),
        }
    }

    /// When `step` should be called next if no frame comes and no job completes.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Time> {
        self.front.timeout(self.stack.poll_timeout())
    }

    fn run_timers(&mut self, now: Time) {
        if self.stack.poll_timeout().is_some_and(|at| at <= now) {
            self.stack.handle_timeout(now);
            self.take_events(now);
        }
    }

    /// Tells the guard's policy what the shard looks like, if it is time to.
    #[inline]
    fn look_around(&mut self, now: Time) {
        if !self.front.is_due(now) {
            return;
        }
        let behind = ServerLoad {
            waiting: self.dispatch.len() + self.stalled_len,
            oldest: self.dispatch.oldest(),
            present: self.conns.live() as u64,
            reordered: false,
        };
        let delay = self.front.update_admission(now, &mut self.stack, &behind);
        self.stats.delay.record(delay);
    }

    fn drive(&mut self, now: Time, device: &mut D) -> Option<Step> {
        let counters = &mut self.stats.counters;
        let counted = DriverCountersMut { driver: &mut counters.driver, guard: &mut counters.guard };
        let present = self.conns.live() as u64;
        let driven = self.front.receive_batch(now, device, &mut self.stack, present, counted)?;
        Some(Step::Drive { classified: driven.classified, shed: driven.shed })
    }

    fn transport(&mut self, now: Time, device: &mut D) -> Option<Step> {
        let payload = self.front.transport(now, device, &mut self.stack)?;
        Some(Step::Transport { payload })
    }

    fn transmit(&mut self, now: Time, device: &mut D, more: bool) -> Option<Step> {
        let dispatch = &self.dispatch;
        transmitted(self.front.transmit(now, device, &mut self.stack, more, || !dispatch.is_empty()))
    }

    /// Gives waiting tasks to idle workers until one takes a request or looks in vain.
    fn assign(&mut self, now: Time) -> Option<Step> {
        while self.assigned < self.front.budget.assign
            && !self.workers.idle.is_empty()
            && !self.dispatch.is_empty()
        {
            let accepting = std::array::from_fn(|p| self.workers.accepts[p].and(&self.workers.idle));
            let (worker, task) = self.dispatch.assign(now, &IdleWorkers { accepting })?;
            assert!(self.workers.idle.contains(worker), "the policy chose a worker that is not idle");
            self.room = true;
            if let Some(slot) = Datagrams::slot(task.token) {
                return Some(self.look_at_datagram(now, worker, slot, task));
            }
            match self.conns.current(task.token) {
                Some(id) => return Some(self.look(now, worker, id, task)),
                None => self.stats.counters.stale += 1,
            }
        }
        None
    }
}

fn transmitted(frames: usize) -> Option<Step> {
    (frames > 0).then_some(Step::Transmit { frames })
}

/// A full round without work: every phase once, and the one it began in again.
const ROUND_PHASES: usize = 7;

#[cfg(test)]
mod tests;
