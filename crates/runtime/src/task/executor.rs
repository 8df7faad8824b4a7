//! Executor: run queue of one shard and its tasks.
//!
//! A dispatch policy selects the next task, as for requests (strict priority, shares, or first
//! come, first served), and bounds how long a task can be passed over ([`Dispatch::starvation`]). A
//! queued task that is woken at a more urgent level is queued again at that level; its older entry
//! is skipped later. Bound: one entry per task and level.
//!
//! The executor returns a [`TaskPoll`], which any thread may run; mostly the shard's own does.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::Waker;

use queueing::{Label, Priority, Time};
use sched::dispatch::{Dispatch, IdleWorkers, Task as Entry, WorkerId, WorkerSet};

use super::control_block::{NO_SLOT, Task, unpack};
use super::current::{self, Running};
use super::handle::{Shared, lock};
use super::task_poll::{PolledTask, TaskPoll, dropped};

/// Executor of one shard; see the module.
pub(crate) struct Executor {
    home: Arc<Shared>,
    slots: Vec<Slot>,
    free: Vec<u32>,
    queue: Box<dyn Dispatch>,
    /// Tasks that found the run queue full, by level.
    stuck: [VecDeque<u32>; Priority::LEVELS],
    stuck_len: usize,
    arriving: Vec<Arc<Task>>,
    ended: Vec<PolledTask>,
    idle: IdleWorkers,
    /// Entries in the run queue, by level.
    standing: [u32; Priority::LEVELS],
    pub counts: Counts,
}

/// Counters of tasks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub started: u64,
    pub ended: u64,
    pub panicked: u64,
    pub polls: u64,
}

/// Slot of a task; its entries in the run queue may outlive the task.
#[derive(Default)]
struct Slot {
    task: Option<Arc<Task>>,
    /// Levels at which the task has an entry, one bit each.
    standing: u8,
}

impl Executor {
    pub fn new(home: Arc<Shared>, queue: Box<dyn Dispatch>) -> Self {
        Self {
            home,
            slots: Vec::new(),
            free: Vec::new(),
            queue,
            stuck: Default::default(),
            stuck_len: 0,
            arriving: Vec::new(),
            ended: Vec::new(),
            standing: [0; Priority::LEVELS],
            idle: IdleWorkers { accepting: [WorkerSet::first(1); Priority::LEVELS] },
            counts: Counts::default(),
        }
    }

    /// Queued entries, including those that will be skipped.
    pub fn waiting(&self) -> usize {
        self.queue.len() + self.stuck_len
    }

    /// Time since which the oldest entry waits.
    pub fn oldest(&self) -> Option<Time> {
        self.queue.oldest()
    }

    /// Queues the woken tasks.
    pub fn gather(&mut self, now: Time) {
        let (mut arriving, mut ended) = (std::mem::take(&mut self.arriving), std::mem::take(&mut self.ended));
        self.home.take_injected(&mut arriving, &mut ended);
        for task in arriving.drain(..) {
            self.enqueue(now, &task);
        }
        // Tasks polled by other threads.
        for polled in ended.drain(..) {
            self.finish_poll(polled);
        }
        (self.arriving, self.ended) = (arriving, ended);
        self.show();
    }

    /// Publishes the most urgent waiting level to other shards.
    fn show(&self) {
        let level = self.standing.iter().position(|&standing| standing > 0);
        self.home.publish_waiting(level.map_or(NONE_WAITING, |level| level as u8));
    }

    fn enqueue(&mut self, now: Time, task: &Arc<Task>) {
        // It may have been polled already.
        let Some(priority) = task.state.queued_at().and_then(Priority::new) else { return };
        if task.slot() == NO_SLOT {
            let slot = self.free.pop().unwrap_or_else(|| {
                self.slots.push(Slot::default());
                self.slots.len() as u32 - 1
            });
            self.slots[slot as usize].task = Some(task.clone());
            task.set_slot(slot);
            self.counts.started += 1;
        }
        let (token, bit) = (task.slot(), 1 << priority.level());
        let slot = &mut self.slots[token as usize];
        if slot.standing & bit == 0 {
            slot.standing |= bit;
            let deadline = unpack(now, task.label()).deadline;
            self.push(now, token, Label { priority, deadline });
        }
    }

    fn push(&mut self, now: Time, slot: u32, label: Label) {
        if self.queue.push(now, Entry { token: slot.into(), label, kind: None }).is_ok() {
            self.standing[label.priority.index()] += 1;
        } else {
            self.stuck[label.priority.index()].push_back(slot);
            self.stuck_len += 1;
        }
    }

    /// Next task to poll.
    pub fn next(&mut self, now: Time) -> Option<TaskPoll> {
        let mut turn = None;
        while let Some((WorkerId(_), entry)) = self.queue.assign(now, &self.idle) {
            let priority = entry.label.priority;
            self.standing[priority.index()] -= 1;
            self.unstick(now);
            let slot = &mut self.slots[entry.token as usize];
            slot.standing &= !(1 << priority.level());
            if let Some(task) = slot.task.as_ref().filter(|task| task.state.begin()) {
                self.counts.polls += 1;
                turn = Some(TaskPoll { task: task.clone(), priority });
                break;
            }
        }
        self.show();
        turn
    }

    /// Queues one task that found the run queue full.
    fn unstick(&mut self, now: Time) {
        if self.stuck_len == 0 {
            return;
        }
        for priority in Priority::all() {
            if let Some(slot) = self.stuck[priority.index()].pop_front() {
                self.stuck_len -= 1;
                // The task may have ended; its entry is then skipped.
                let task = self.slots[slot as usize].task.as_ref();
                let deadline = task.and_then(|task| unpack(now, task.label()).deadline);
                return self.push(now, slot, Label { priority, deadline });
            }
        }
    }

    /// Takes back a finished poll.
    pub fn finish_poll(&mut self, polled: PolledTask) {
        let Some((task, panicked)) = polled.ended() else { return };
        self.counts.panicked += u64::from(panicked);
        if task.slot() != NO_SLOT {
            self.slots[task.slot() as usize].task = None;
            self.free.push(task.slot());
            self.counts.ended += 1;
        }
    }
}

/// Ends all tasks with their shard; their join handles report it.
impl Drop for Executor {
    fn drop(&mut self) {
        self.home.end();
        // Ending a task may wake and start others, but the inject queue is closed.
        self.home.take_injected(&mut self.arriving, &mut self.ended);
        let arriving = std::mem::take(&mut self.arriving);
        let placed: Vec<_> = self.slots.iter_mut().filter_map(|slot| slot.task.take()).collect();
        for task in arriving.into_iter().chain(placed) {
            if let Some(body) = task.take_body() {
                let running = current::enter(Running { waker: Waker::noop().clone(), task: task.clone() });
                dropped(body);
                drop(running);
                task.state.end();
                self.home.on_end();
            }
        }
        // Completes requests that the disk has begun, so that later readers of a file see them.
        if let Some(files) = &self.home.files {
            lock(files).finish(self.home.now());
        }
    }
}

/// Value of [`Shared::publish_waiting`] for no waiting task.
pub(crate) const NONE_WAITING: u8 = Priority::LEVELS as u8;
