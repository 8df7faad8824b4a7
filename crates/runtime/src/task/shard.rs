//! One core's driver, transport and tasks, stepped by its owner.
//!
//! As [`Shard`](crate::Shard), with tasks in the requests' place: a round
//! drives frames into the receive buffer, runs some of them through TCP, polls
//! the task whose turn it is and sends. [`TaskShard::step`] does the next single
//! piece of it and says which. No clock, no thread: `now` is an argument.
//!
//! Between two polls the frames that came meanwhile are classified and some of
//! them, the most urgent first, go through TCP. So an urgent one waits for one
//! poll at the most, and no flood of frames keeps tasks from running. How long a
//! poll takes is the task's affair.

use std::future::Future;
use std::sync::Arc;
use std::task::Waker;

use net::classify::{DriverClassifier, PacketView};
use net::device::Received;
use net::driver::{Admission, DriverCounters, RxBuffer, RxOrder, classify};
use net::{Device, Stack};
use queueing::{Priority, Span, Time};

use super::executor::Executor;
use super::handle::{Shared, lock};
use super::join::JoinHandle;
use super::sockets::Sockets;
use super::waiter::Woken;
use super::{Config, Handle};
use crate::shard::{Budget, is_bare_ack};

/// What the shard did in one step, so that the simulator can charge for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
    /// Polled a task.
    Poll {
        /// The level at which it waited.
        priority: Priority,
    },
    /// Sent frames.
    Transmit {
        /// How many.
        frames: usize,
    },
    /// Nothing to do before `poll_timeout`, the next frame or the next wake-up.
    Idle,
}

/// How often each thing happened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// The driver stage: frames, verdicts, drops.
    pub driver: DriverCounters,
    /// Tasks that began.
    pub started: u64,
    /// Tasks that ended, by a panic or not.
    pub ended: u64,
    /// Tasks that a panic ended.
    pub panicked: u64,
    /// Tasks that were not started: as many existed as may.
    pub refused: u64,
    /// Turns that tasks had.
    pub polls: u64,
    /// Connections reset because as many waited to be accepted as may.
    pub overflows: u64,
}

/// Since when the oldest element of each queue waits, where one does. Sleeps
/// that are over wait for nothing: each step wakes all of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Oldest {
    /// In the receive buffer.
    pub frames: Option<Time>,
    /// In the run queue.
    pub tasks: Option<Time>,
}

/// See the module.
pub struct TaskShard<D: Device> {
    home: Arc<Shared>,
    executor: Executor,
    rx: RxBuffer<D::Frame>,
    ordered: bool,
    classifier: Option<DriverClassifier>,
    round: Round,
    budget: Budget,
    /// Until when what is ready to be sent waits for more.
    held: Option<Time>,
    /// When to try again to send: the device was full.
    blocked: Option<Time>,
    driver: DriverCounters,
    woken: Woken,
    due: Vec<Waker>,
}

/// Where in its round the shard is.
#[derive(Clone, Copy, Debug)]
enum Round {
    Drive { left: usize },
    Transport { left: usize },
    Poll { left: usize },
    Transmit,
}

/// The rest of a round, and a whole one that finds nothing.
const ROUND_PHASES: usize = 9;
/// How long to leave a full device alone.
const BLOCKED: Span = Span::from_micros(10);

impl<D: Device> TaskShard<D> {
    /// A shard without tasks.
    ///
    /// # Panics
    /// When a budget is 0.
    #[must_use]
    pub fn new(config: Config) -> Self {
        config.budget.check();
        let home = Shared::new(Sockets::new(Stack::new(config.stack)), config.tasks_max);
        Self {
            executor: Executor::new(home.clone(), config.dispatch),
            home,
            rx: RxBuffer::new(config.rx_order, config.rx_frames_max),
            ordered: config.rx_order == RxOrder::Strict && config.driver_classifier.is_some(),
            classifier: config.driver_classifier,
            round: Round::Drive { left: config.budget.drive },
            budget: config.budget,
            held: None,
            blocked: None,
            driver: DriverCounters::default(),
            woken: Vec::new(),
            due: Vec::new(),
        }
    }

    /// Its tasks and sockets, for any thread.
    #[must_use]
    pub fn handle(&self) -> Handle {
        Handle(self.home.clone())
    }

    /// Starts a task; see [`Handle::spawn`].
    pub fn spawn<T, F>(&self, future: F) -> JoinHandle<T>
    where
        F: Future<Output = T> + Send + 'static,
        T: Send + 'static,
    {
        self.handle().spawn(future)
    }

    /// Looks at the stack, to read its counters for instance.
    pub fn with_stack<R>(&self, look: impl FnOnce(&mut Stack) -> R) -> R {
        look(&mut lock(&self.home.sockets).stack)
    }

    /// What happened so far.
    #[must_use]
    pub fn counters(&self) -> Counters {
        let counts = &self.executor.counts;
        Counters {
            driver: self.driver,
            started: counts.started,
            ended: counts.ended,
            panicked: counts.panicked,
            refused: self.home.refused(),
            polls: counts.polls,
            overflows: lock(&self.home.sockets).overflows,
        }
    }

    /// Tasks that wait for their turn, entries that will be skipped included.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.executor.waiting()
    }

    /// Since when the oldest of each queue waits: what a core scheduler asks.
    #[must_use]
    pub fn oldest(&self) -> Oldest {
        Oldest { frames: self.rx.oldest(), tasks: self.executor.oldest() }
    }

    /// Tasks that exist.
    #[must_use]
    pub fn tasks(&self) -> usize {
        self.home.live()
    }

    /// When `step` should be called next if no frame and no wake-up comes.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Time> {
        let stack = lock(&self.home.sockets).stack.poll_timeout();
        let timers = lock(&self.home.timers).next();
        stack.into_iter().chain(timers).chain(self.blocked).min()
    }

    /// Does the next piece of work, in the order and within the budgets of one round.
    pub fn step(&mut self, now: Time, device: &mut D) -> Step {
        self.home.set_now(now);
        self.wake(now);
        // Until a round has found nothing there may be more to do.
        let mut more = true;
        for _ in 0..ROUND_PHASES {
            let (step, next) = match self.round {
                Round::Drive { left: 0 } => (None, Round::Transport { left: self.budget.transport }),
                Round::Drive { left } => match self.drive(now, device) {
                    Some(step) => (Some(step), Round::Drive { left: left - 1 }),
                    None => (None, Round::Transport { left: self.budget.transport }),
                },
                Round::Transport { left: 0 } => (None, Round::Poll { left: self.budget.assign }),
                Round::Transport { left } => match self.transport(now, device) {
                    Some(step) => (Some(step), Round::Transport { left: left - 1 }),
                    None => (None, Round::Poll { left: self.budget.assign }),
                },
                Round::Poll { left: 0 } => (None, Round::Transmit),
                Round::Poll { left } => match self.poll(now) {
                    Some(step) => (Some(step), Round::Poll { left: left - 1 }),
                    None => (None, Round::Transmit),
                },
                Round::Transmit => {
                    let step = self.transmit(now, device, more);
                    more = false;
                    (step, Round::Drive { left: self.budget.drive })
                }
            };
            self.round = next;
            if let Some(step) = step {
                return step;
            }
        }
        // Nothing to do but to send what was held.
        let held = self.held.is_some();
        held.then(|| self.send(now, device, false)).flatten().unwrap_or(Step::Idle)
    }

    /// Sends what TCP has ready, for the last time; a full device keeps it.
    pub(super) fn finish(&mut self, now: Time, device: &mut D) {
        self.send(now, device, false);
    }

    /// Hears what happened and lets those run whom it concerns.
    fn wake(&mut self, now: Time) {
        let mut sockets = lock(&self.home.sockets);
        if sockets.stack.poll_timeout().is_some_and(|at| at <= now) {
            sockets.stack.handle_timeout(now);
        }
        sockets.take_events(now, &mut self.woken);
        drop(sockets);
        for (waiter, level) in self.woken.drain(..) {
            waiter.wake(level);
        }
        lock(&self.home.timers).run(now, &mut self.due);
        self.due.drain(..).for_each(Waker::wake);
        if self.home.take_stirred() {
            self.executor.gather(now);
        }
    }

    /// Polls the task whose turn it is.
    fn poll(&mut self, now: Time) -> Option<Step> {
        let (task, priority) = self.executor.next(now)?;
        self.executor.poll(task);
        Some(Step::Poll { priority })
    }

    /// The driver stage: takes a frame from the device into the receive buffer.
    fn drive(&mut self, now: Time, device: &mut D) -> Option<Step> {
        let Received { frame, arrived, checked } = device.receive(now)?;
        let classifier = self.classifier.as_ref();
        match classify(classifier, frame.as_ref(), arrived.unwrap_or(now), &mut self.driver) {
            Admission::Queue(mut meta) => {
                meta.checked = checked;
                if self.ordered && meta.priority.is_none() {
                    meta.priority = is_bare_ack(frame.as_ref(), &meta).then_some(Priority::HIGHEST);
                }
                if let Some(frame) = self.rx.push(now, frame, meta) {
                    self.driver.dropped_full += 1;
                    device.recycle(frame);
                }
            }
            Admission::Drop => device.recycle(frame),
        }
        Some(Step::Drive { classified: self.classifier.is_some() })
    }

    /// Runs the frame whose turn it is through TCP.
    fn transport(&mut self, now: Time, device: &mut D) -> Option<Step> {
        let (frame, meta) = self.rx.pop(now)?;
        lock(&self.home.sockets).stack.ingress(now, frame.as_ref(), &meta);
        let payload = PacketView::new(frame.as_ref(), &meta).tcp_payload().is_some_and(|p| !p.is_empty());
        device.recycle(frame);
        Some(Step::Transport { payload })
    }

    /// Sends; while there is `more` to do, acknowledgements may wait a round
    /// for the response that takes them along.
    fn transmit(&mut self, now: Time, device: &mut D, more: bool) -> Option<Step> {
        if !lock(&self.home.sockets).stack.wants_egress() {
            self.blocked = None;
            return None;
        }
        if self.budget.hold > Span::ZERO && !(self.rx.is_empty() && self.executor.waiting() == 0) {
            let until = *self.held.get_or_insert(now + self.budget.hold);
            if now < until {
                return None;
            }
        }
        self.send(now, device, more)
    }

    /// Sends what TCP has ready; acknowledgements too, unless there is `more` to do.
    fn send(&mut self, now: Time, device: &mut D, more: bool) -> Option<Step> {
        self.held = None;
        let mut sockets = lock(&self.home.sockets);
        let stack = &mut sockets.stack;
        let frames = if more { stack.egress_early(now, device) } else { stack.egress(now, device) };
        self.blocked = stack.wants_egress().then_some(now + BLOCKED);
        (frames > 0).then_some(Step::Transmit { frames })
    }
}
