//! Shard: driver, transport, event queue and dispatcher of one core, stepped by its owner.
//!
//! A round moves frames into the receive buffer, runs frames through TCP, assigns requests to idle
//! workers and transmits. [`Shard::step`] does the next single piece of work and reports it, so
//! that threads can spin on it and the simulator can charge for it. Idle workers come before
//! packets: if a task waits that an idle worker accepts, it is next, so a flood of frames never
//! starves the workers. Rounds are bounded, so neither starves transmission.
//!
//! A datagram is a request of its own and waits in the same event queue, by the same labels;
//! applications see no difference.
//!
//! Bytes of a connection stay in order: at most one request per connection is in service, and its
//! response is sent before the next request is parsed. A full event queue loses nothing: the
//! connection keeps its bytes (its window closes) and waits to enter, the most urgent first. A
//! waiting connection is as urgent as its most urgent segment. After a worker found its request
//! incomplete, the next segment's own label counts; only a classifier that knows the flow can give
//! a request's rest the priority of its beginning. Response bytes beyond the send buffer's space
//! count towards the stack's memory (`response`). Uses no clock, no thread, and no allocation per
//! request once the pools are warm.
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

use classify::Private;
use net::buffer_pool::BufferPool;
pub use net::driver::RxOrder;
use net::stack::ConnId;
use net::{Device, Stack};
use queueing::{Priority, Time};
use sched::dispatch::{Dispatch, IdleWorkers, WorkerId, WorkerSet};

use crate::app::App;
use crate::pipeline::{DriverCountersMut, Pipeline, ServerLoad, Setup, Work};
pub use crate::pipeline::{Refusal, ShardGuard, Shed, WorkBudget};
pub use config::Config;
use connections::Connections;
use datagrams::Datagrams;
pub use job::{Job, Origin};
use response::SlowReaders;
use slow_requests::ServedRequest;
pub use slow_requests::{RequestEnd, STAGE_NAMES, Side, Slow, SlowRequestLimits, Slowest};
pub use snapshot::{Depths, ShardSnapshot};
pub use stats::{Counters, HOPS, STAGES, Stats};

/// Work done in one step, so that the simulator can charge for it.
#[derive(Debug)]
pub enum Step {
    /// Moved a frame from the device, classified, into the receive buffer.
    Drive {
        /// True if a classifier was called.
        classified: bool,
        /// True if the guard shed the frame; it is in no buffer.
        shed: bool,
    },
    /// Ran one frame through TCP.
    Transport {
        /// True if it carried payload.
        payload: bool,
    },
    /// Assigned a request to a worker.
    Assign(Job),
    /// Found a request incomplete (the worker stays idle).
    Partial(WorkerId),
    /// Transmitted frames.
    Transmit {
        /// Number of frames.
        frames: usize,
    },
    /// Nothing to do before `poll_timeout` or the next frame.
    Idle,
}

/// Pure core of a server.
pub struct Shard<D: Device, A: App> {
    app: Arc<A>,
    stack: Stack,
    front: Pipeline<D::Frame>,
    dispatch: Box<dyn Dispatch>,
    needs_kind: bool,
    needs_deadline: bool,
    conns: Connections,
    datagrams: Datagrams,
    /// Connections waiting to enter the event queue, by priority.
    stalled: [VecDeque<ConnId>; Priority::LEVELS],
    stalled_len: usize,
    /// True if the event queue had space since the stalled connections last tried.
    room: bool,
    workers: Workers,
    round: Round,
    /// Requests assigned in this round.
    assigned: usize,
    recv_buffer: usize,
    slow_readers: SlowReaders,
    /// Buffers of requests and responses in flight.
    buffers: BufferPool,
    stats: Stats,
    /// True once a [`ShardSnapshot`] was requested.
    watched: bool,
}

/// Position of the shard in its round.
#[derive(Clone, Copy, Debug)]
enum Round {
    Drive { left: usize },
    Transport { left: usize },
    Transmit,
}

/// Idle workers and the priorities that each accepts.
struct Workers {
    idle: WorkerSet,
    steering: [WorkerSet; Priority::LEVELS],
    /// Steering combined with the priorities that each worker waits for.
    accepts: [WorkerSet; Priority::LEVELS],
    /// The shared bytes as each worker got them.
    given: Vec<Private>,
    /// Capacity of the response buffer as each worker got it.
    room: Vec<usize>,
    /// Time at which each worker got its request.
    since: Vec<Time>,
}

impl<D: Device, A: App> Shard<D, A> {
    /// A shard without listeners.
    ///
    /// # Panics
    /// If `workers` is outside 1..=256, a priority is steered to no worker, or a budget is 0.
    #[must_use]
    pub fn new(config: Config, app: Arc<A>) -> Self {
        let workers = config.workers;
        assert!((1..=256).contains(&workers), "workers {workers} is outside 1..=256");
        let steering = config.steering.map(|set| set.and(&WorkerSet::first(workers)));
        assert!(steering.iter().all(|set| !set.is_empty()), "a priority is steered to no worker");
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
            needs_deadline: config.dispatch.needs_deadline(),
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
        // True until a whole round found no work.
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
            // No idle worker accepts the waiting tasks, so receiving delays none.
            self.front.reset_share();
            return self.work(now, device);
        }
        // Only coalesced output is left.
        if !self.front.is_coalescing() {
            return Step::Idle;
        }
        transmitted(self.front.send(now, device, &mut self.stack, false)).unwrap_or(Step::Idle)
    }

    /// Takes back a served job and sends its response.
    pub fn complete(&mut self, now: Time, mut job: Job) {
        self.front.start_round(now);
        self.take_events(now);
        self.workers.idle.insert(job.worker);
        self.dispatch.on_done(now, job.worker, job.kind, job.service);
        self.stats.on_served(&job);
        if job.response.capacity() > self.workers.room[usize::from(job.worker.0)] {
            self.buffers.missed();
        }
        if let Some(admission) = &mut self.front.admission {
            admission.on_answered(job.stages.nic + job.stages.tcp + job.stages.event + job.service);
        }
        let given = self.workers.since[usize::from(job.worker.0)];
        let served_request = self.stats.slow.is_on().then(|| ServedRequest::new(now, given, &job));
        let (from, request) = (job.from, std::mem::take(&mut job.request));
        let end = self.answer(now, job);
        if let Some(served_request) = served_request {
            self.on_served_request(now, from, served_request, end, &request);
        }
        match from {
            Origin::Connection(_) => self.buffers.give(request),
            Origin::Datagram(_) => self.stack.recycle(request),
        }
    }

    /// Time of the next `step` if no frame arrives and no job completes before.
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

    /// Evaluates the guard's policy, if due.
    #[inline]
    fn look_around(&mut self, now: Time) {
        if !self.front.is_due(now) {
            return;
        }
        let behind = ServerLoad {
            waiting: self.dispatch.len() + self.stalled_len,
            oldest: self.dispatch.oldest(),
            present: self.conns.live() as u64,
            long_polls: None,
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

    /// Offers waiting tasks to idle workers until one is assigned or found incomplete.
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
                Some(id) => return Some(self.parse_request(now, worker, id, task)),
                None => self.stats.counters.stale += 1,
            }
        }
        None
    }
}

fn transmitted(frames: usize) -> Option<Step> {
    (frames > 0).then_some(Step::Transmit { frames })
}

/// Phases of a full round without work: each phase, and the first one again.
const ROUND_PHASES: usize = 7;

#[cfg(test)]
mod tests;
