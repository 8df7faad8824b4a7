//! Task shard: driver, transport and tasks of one core, stepped by its owner.
//!
//! It is a [`Shard`](crate::Shard) with tasks in place of requests. A round moves frames into the
//! receive buffer, runs some of them through TCP, polls the next task, submits requests on files to
//! the disk and transmits. [`TaskShard::step`] does the next single piece of work and reports it.
//! No clock, no thread: `now` is an argument.
//!
//! Between two polls newly received frames are classified and some of them, the most urgent first,
//! go through TCP. An urgent frame thus waits for one poll at most, and a flood of frames does not
//! keep tasks from running. The length of a poll is up to the task.

use std::future::Future;
use std::sync::{Arc, Mutex};
use std::task::Waker;

use net::driver::DriverCounters;
use net::{Device, Stack};
use queueing::{Priority, Span, Time};
use sched::cores::worker_signals::WorkerSignals;
use storage::IoScheduler;

use super::executor::Executor;
use super::handle::{Shared, lock};
use super::join::JoinHandle;
use super::sockets::Sockets;
use super::stats::{Counters, Next, Oldest, TaskStep};
use super::task_poll::{PolledTask, TaskPoll};
use super::waiter::Woken;
use super::{Config, Handle};
use crate::pipeline::{DriverCountersMut, Pipeline, ServerLoad, Setup, Shed, StackAccess, Work};

/// Pure core of a server of tasks; see the module.
pub struct TaskShard<D: Device> {
    home: Arc<Shared>,
    executor: Executor,
    front: Pipeline<D::Frame>,
    round: Round,
    driver: DriverCounters,
    guard: [Shed; Priority::LEVELS],
    /// Open connections, and connections read for the first time, as of the start of this step.
    present: u64,
    served: u64,
    stolen: u64,
    handed_over: u64,
    woken: Woken,
    due: Vec<Waker>,
}

/// Position of the shard in its round.
#[derive(Clone, Copy, Debug)]
enum Round {
    Drive { left: usize },
    Transport { left: usize },
    Complete { left: usize },
    Poll { left: usize },
    Submit,
    Transmit,
}

/// Number of phases of the rest of a round and of a whole round without work.
const ROUND_PHASES: usize = 13;
/// Maximum of file completions per round.
const COMPLETIONS: usize = 8;

impl<D: Device> TaskShard<D> {
    /// A shard without tasks.
    ///
    /// # Panics
    /// If a budget is 0.
    #[must_use]
    pub fn new(config: Config) -> Self {
        let files = config.disk.map(IoScheduler::new);
        let home = Shared::new(Sockets::new(Stack::new(config.stack)), files, config.tasks_max);
        Self {
            executor: Executor::new(home.clone(), config.dispatch),
            home,
            front: Pipeline::new(Setup {
                rx_order: config.rx_order,
                rx_frames_max: config.rx_frames_max,
                classifier: config.driver_classifier,
                guard: config.guard,
                budget: config.budget,
            }),
            round: Round::Drive { left: config.budget.drive },
            driver: DriverCounters::default(),
            guard: Default::default(),
            present: 0,
            served: 0,
            stolen: 0,
            handed_over: 0,
            woken: Vec::new(),
            due: Vec::new(),
        }
    }

    /// Handle to its tasks and sockets, for any thread.
    #[must_use]
    pub fn handle(&self) -> Handle {
        Handle(self.home.clone())
    }

    /// Spawns a task; see [`Handle::spawn`].
    pub fn spawn<T, F>(&self, future: F) -> JoinHandle<T>
    where
        F: Future<Output = T> + Send + 'static,
        T: Send + 'static,
    {
        self.handle().spawn(future)
    }

    /// Result of `access` on the stack, e.g. its counters.
    pub fn with_stack<R>(&self, access: impl FnOnce(&mut Stack) -> R) -> R {
        access(&mut lock(&self.home.sockets).stack)
    }

    /// Event counters.
    #[must_use]
    pub fn counters(&self) -> Counters {
        let counts = &self.executor.counts;
        Counters {
            driver: self.driver,
            guard: self.guard,
            started: counts.started,
            ended: counts.ended,
            panicked: counts.panicked,
            refused: self.home.refused(),
            polls: counts.polls,
            stolen: self.stolen,
            handed_over: self.handed_over,
            overflows: lock(&self.home.sockets).overflows,
        }
    }

    /// Queued entries of tasks, including those that will be skipped.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.executor.waiting()
    }

    /// Start of the oldest wait in each queue, for a core scheduler.
    #[must_use]
    pub fn oldest(&self) -> Oldest {
        let timers = lock(&self.home.timers).next();
        let storage = self.home.files.as_ref().and_then(|files| lock(files).oldest());
        Oldest { frames: self.front.oldest(), tasks: self.executor.oldest(), timers, storage }
    }

    /// Live tasks.
    #[must_use]
    pub fn tasks(&self) -> usize {
        self.home.live()
    }

    /// Time of the next `step`, if no frame and no wake-up comes before.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Time> {
        let stack = lock(&self.home.sockets).stack.poll_timeout();
        let timers = lock(&self.home.timers).next();
        timers.into_iter().chain(self.front.timeout(stack)).min()
    }

    /// Does the next piece of work, in the order and within the budgets of one round.
    pub fn step(&mut self, now: Time, device: &mut D) -> TaskStep {
        match self.next(now, device) {
            Next::Done(step) => step,
            Next::Poll(poll) => {
                let priority = poll.priority();
                self.finish_poll(poll.run());
                TaskStep::Poll { priority }
            }
        }
    }

    /// As [`TaskShard::step`], but returns a task's poll to the caller, for any thread.
    pub fn next(&mut self, now: Time, device: &mut D) -> Next {
        self.front.start_round(now);
        self.home.set_now(now);
        self.wake(now);
        self.update_guard(now);
        let next = self.work(now, device);
        self.front.set_work(match next {
            Next::Done(TaskStep::Drive { .. } | TaskStep::Transport { .. }) => Work::Receive,
            Next::Done(TaskStep::Idle) => Work::None,
            Next::Done(_) | Next::Poll(_) => Work::Rest,
        });
        next
    }

    /// Takes back a finished poll of [`TaskShard::next`].
    pub fn finish_poll(&mut self, polled: PolledTask) {
        self.executor.finish_poll(polled);
    }

    /// Next poll of this shard, for an idle thread of another shard.
    pub fn steal(&mut self, now: Time) -> Option<TaskPoll> {
        self.home.set_now(now);
        if self.home.take_notified() {
            self.executor.gather(now);
        }
        let poll = self.executor.next(now);
        self.stolen += u64::from(poll.is_some());
        poll
    }

    /// Receives up to a round's frames without polling tasks.
    pub(super) fn receive_only(&mut self, now: Time, device: &mut D) {
        self.front.start_round(now);
        self.home.set_now(now);
        self.wake(now);
        for _ in 0..self.front.budget.drive {
            if self.drive(now, device).is_none() {
                break;
            }
        }
        self.front.set_work(Work::Receive);
    }

    /// Wait of the task that has waited longest.
    pub(super) fn longest_wait(&self, now: Time) -> Span {
        self.executor.oldest().map_or(Span::ZERO, |since| now.since(since))
    }

    /// Signals for the core scheduler; `request`: start of the current poll.
    pub(super) fn signals(&self, request: Option<Time>) -> WorkerSignals {
        let Oldest { frames, tasks, timers, storage } = self.oldest();
        let runnable = self.waiting() as u32;
        WorkerSignals { frames, tasks, timers, storage, request, runnable, ..WorkerSignals::default() }
    }

    /// True if its thread has to poll the disk, which cannot wake it.
    pub(super) fn must_poll(&self) -> bool {
        self.home.files.as_ref().is_some_and(|files| lock(files).needs_poll())
    }

    /// Records a handover after a long poll.
    pub(super) fn on_handed_over(&mut self) {
        self.handed_over += 1;
    }

    fn work(&mut self, now: Time, device: &mut D) -> Next {
        // True until a whole round found no work.
        let mut more = true;
        let executor = &self.executor;
        let exhausted = self.front.receive_share_exhausted(|| executor.waiting() > 0);
        for _ in 0..ROUND_PHASES {
            let budget = &self.front.budget;
            let (step, next) = match self.round {
                Round::Drive { left } if exhausted || left == 0 => {
                    (None, Round::Transport { left: budget.transport })
                }
                Round::Drive { left } => match self.drive(now, device) {
                    Some(step) => (Some(step), Round::Drive { left: left - 1 }),
                    None => (None, Round::Transport { left: self.front.budget.transport }),
                },
                Round::Transport { left } if exhausted || left == 0 => {
                    (None, Round::Complete { left: COMPLETIONS })
                }
                Round::Transport { left } => match self.transport(now, device) {
                    Some(step) => (Some(step), Round::Transport { left: left - 1 }),
                    None => (None, Round::Complete { left: COMPLETIONS }),
                },
                Round::Complete { left } if left > 0 && self.complete(now) => {
                    (Some(TaskStep::Complete), Round::Complete { left: left - 1 })
                }
                Round::Complete { .. } => (None, Round::Poll { left: budget.assign }),
                Round::Poll { left: 0 } => (None, Round::Submit),
                Round::Poll { left } => match self.executor.next(now) {
                    Some(poll) => {
                        self.round = Round::Poll { left: left - 1 };
                        return Next::Poll(poll);
                    }
                    None => (None, Round::Submit),
                },
                Round::Submit => (self.submit(now), Round::Transmit),
                Round::Transmit => {
                    let executor = &self.executor;
                    let waits = || executor.waiting() > 0;
                    let mut below = &self.home.sockets;
                    let step = transmitted(self.front.transmit(now, device, &mut below, more, waits));
                    more = false;
                    (step, Round::Drive { left: self.front.budget.drive })
                }
            };
            self.round = next;
            if let Some(step) = step {
                return Next::Done(step);
            }
        }
        if exhausted {
            // The waiting entries were stale.
            self.front.reset_share();
            return self.work(now, device);
        }
        // Only coalesced output is left.
        if !self.front.is_coalescing() {
            return Next::Done(TaskStep::Idle);
        }
        Next::Done(transmitted(self.send(now, device)).unwrap_or(TaskStep::Idle))
    }

    /// Queues the last inject queue entries and transmits TCP's output, as far as the device has space.
    pub(super) fn finish(&mut self, now: Time, device: &mut D) {
        self.executor.gather(now);
        self.send(now, device);
    }

    /// Handles events, timers and completions, and wakes the tasks concerned.
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
        if let Some(files) = &self.home.files {
            lock(files).collect(now);
        }
        if self.home.take_notified() {
            self.executor.gather(now);
        }
    }

    /// Evaluates the guard's policy, if due. Request boundaries are unknown, so it gets no budgets
    /// and no latencies.
    fn update_guard(&mut self, now: Time) {
        if let Some(admission) = &mut self.front.admission {
            let sockets = lock(&self.home.sockets);
            let served = sockets.served;
            self.present = sockets.held();
            drop(sockets);
            (self.served..served).for_each(|_| admission.on_served());
            self.served = served;
        }
        if self.front.is_due(now) {
            let (waiting, oldest) = (self.executor.waiting(), self.executor.oldest());
            let load = ServerLoad { waiting, oldest, present: self.present, long_polls: None };
            self.front.update_admission(now, &mut &self.home.sockets, &load);
        }
    }

    /// Driver stage.
    fn drive(&mut self, now: Time, device: &mut D) -> Option<TaskStep> {
        let counted = DriverCountersMut { driver: &mut self.driver, guard: &mut self.guard };
        let driven = self.front.receive_batch(now, device, &mut &self.home.sockets, self.present, counted)?;
        Some(TaskStep::Drive { classified: driven.classified, shed: driven.shed })
    }

    /// Runs the next frame through TCP.
    fn transport(&mut self, now: Time, device: &mut D) -> Option<TaskStep> {
        let payload = self.front.transport(now, device, &mut &self.home.sockets)?;
        Some(TaskStep::Transport { payload })
    }

    /// Wakes the task of the most urgent completed request on a file.
    fn complete(&self, now: Time) -> bool {
        let completed = self.home.files.as_ref().and_then(|files| lock(files).pop_waiter(now));
        let Some((waiter, level)) = completed else { return false };
        waiter.wake(level);
        true
    }

    /// Submits tasks' requests on files to the disk.
    fn submit(&self, now: Time) -> Option<TaskStep> {
        let requests = lock(self.home.files.as_ref()?).submit(now);
        (requests > 0).then_some(TaskStep::Submit { requests })
    }

    fn send(&mut self, now: Time, device: &mut D) -> usize {
        self.front.send(now, device, &mut &self.home.sockets, false)
    }
}

fn transmitted(frames: usize) -> Option<TaskStep> {
    (frames > 0).then_some(TaskStep::Transmit { frames })
}

impl StackAccess for &Mutex<Sockets> {
    fn with<R>(&mut self, access: impl FnOnce(&mut Stack) -> R) -> R {
        access(&mut lock(self).stack)
    }
}
