//! The run queue of one shard, and the tasks that stand in it.
//!
//! Who runs next is a dispatch policy's to say, as for requests: the most
//! urgent first, shares, or first come first served, and so is how long a task
//! can be passed over ([`Dispatch::starvation`]). A task that something more
//! urgent wakes while it waits enters once more at that level; its older entry
//! is skipped when its turn comes. Bound: a task stands once on each level.
//!
//! A task that panics ends, alone, and is counted.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::task::{Context, Waker};

use queueing::{Label, Priority, Time};
use sched::dispatch::{Dispatch, Idle, Task as Turn, WorkerId, WorkerSet};

use super::cell::{Body, NO_SLOT, Task, unpack};
use super::current::{self, Running};
use super::handle::Shared;
use super::state::Woken;

/// See the module.
pub(crate) struct Executor {
    home: Arc<Shared>,
    slots: Vec<Slot>,
    free: Vec<u32>,
    queue: Box<dyn Dispatch>,
    /// Found the run queue full; by level.
    stuck: [VecDeque<u32>; Priority::LEVELS],
    stuck_len: usize,
    arriving: Vec<Arc<Task>>,
    idle: Idle,
    pub counts: Counts,
}

/// What became of tasks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub started: u64,
    pub ended: u64,
    pub panicked: u64,
    pub polls: u64,
}

/// A task's place; outlived by its entries in the run queue.
#[derive(Default)]
struct Slot {
    task: Option<Arc<Task>>,
    /// Levels at which an entry stands, a bit each.
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
            idle: Idle { accepting: [WorkerSet::first(1); Priority::LEVELS] },
            counts: Counts::default(),
        }
    }

    /// Tasks that wait for their turn, entries that will be skipped included.
    pub fn waiting(&self) -> usize {
        self.queue.len() + self.stuck_len
    }

    /// Since when the task that has waited longest waits.
    pub fn oldest(&self) -> Option<Time> {
        self.queue.oldest()
    }

    /// Lets those that were woken wait for their turn.
    pub fn gather(&mut self, now: Time) {
        let mut arriving = std::mem::take(&mut self.arriving);
        self.home.take_inbox(&mut arriving);
        for task in arriving.drain(..) {
            self.place(now, &task);
        }
        self.arriving = arriving;
    }

    fn place(&mut self, now: Time, task: &Arc<Task>) {
        // It may have had its turn already.
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
        if self.queue.push(now, Turn { token: slot.into(), label, kind: None }).is_err() {
            self.stuck[label.priority.index()].push_back(slot);
            self.stuck_len += 1;
        }
    }

    /// The task whose turn it is, and the level at which it waited.
    pub fn next(&mut self, now: Time) -> Option<(Arc<Task>, Priority)> {
        while let Some((WorkerId(_), turn)) = self.queue.assign(now, &self.idle) {
            self.unstick(now);
            let slot = &mut self.slots[turn.token as usize];
            slot.standing &= !(1 << turn.label.priority.level());
            if let Some(task) = slot.task.as_ref().filter(|task| task.state.begin()) {
                return Some((task.clone(), turn.label.priority));
            }
        }
        None
    }

    /// There is room: lets one in that found none.
    fn unstick(&mut self, now: Time) {
        if self.stuck_len == 0 {
            return;
        }
        for priority in Priority::all() {
            if let Some(slot) = self.stuck[priority.index()].pop_front() {
                self.stuck_len -= 1;
                return self.push(now, slot, Label::new(priority));
            }
        }
    }

    /// Polls `task`, which [`next`](Self::next) has given.
    pub fn poll(&mut self, task: Arc<Task>) {
        let Some(mut body) = task.take_body() else { return };
        self.counts.polls += 1;
        let waker = Waker::from(task.clone());
        let running = current::enter(Running { task: task.clone(), waker: waker.clone() });
        let mut cx = Context::from_waker(&waker);
        let polled = catch_unwind(AssertUnwindSafe(|| body.as_mut().poll(&mut cx).is_pending()));
        if let Ok(true) = polled {
            task.put_body(body);
            drop(running);
            if task.state.pause() == Woken::Queue {
                // After those that it woke itself.
                self.home.enqueue(task);
            }
            return;
        }
        let dropped = dropped(body);
        drop(running);
        self.counts.panicked += u64::from(polled.is_err() || !dropped);
        self.end(&task);
    }

    fn end(&mut self, task: &Arc<Task>) {
        task.state.end();
        if task.slot() != NO_SLOT {
            self.slots[task.slot() as usize].task = None;
            self.free.push(task.slot());
            self.counts.ended += 1;
        }
        self.home.on_end();
    }
}

/// Tasks end with their shard; what waits for them is told.
impl Drop for Executor {
    fn drop(&mut self) {
        self.home.end();
        // What ends may wake and start others, but nothing comes in any more.
        self.home.take_inbox(&mut self.arriving);
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
    }
}

/// Drops what a task ran; `false` when that panicked.
fn dropped(body: Body) -> bool {
    catch_unwind(AssertUnwindSafe(|| drop(body))).is_ok()
}
