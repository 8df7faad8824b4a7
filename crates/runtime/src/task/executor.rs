//! The run queue of one shard, and the tasks that stand in it.
//!
//! Who runs next is a dispatch policy's to say, as for requests: the most
//! urgent first, shares, or first come first served, and so is how long a task
//! can be passed over ([`Dispatch::starvation`]). A task that something more
//! urgent wakes while it waits enters once more at that level; its older entry
//! is skipped when its turn comes. Bound: a task stands once on each level.
//!
//! What is given out is a [`TaskPoll`], which any thread may take; most are taken
//! by the shard's own.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::Waker;

use queueing::{Label, Priority, Time};
use sched::dispatch::{Dispatch, IdleWorkers, Task as Entry, WorkerId, WorkerSet};

use super::control_block::{NO_SLOT, Task, unpack};
use super::current::{self, Running};
use super::handle::{Shared, lock};
use super::task_poll::{PolledTask, TaskPoll, dropped};

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
    ended: Vec<PolledTask>,
    idle: IdleWorkers,
    /// Entries in the run queue, by level.
    standing: [u32; Priority::LEVELS],
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
            ended: Vec::new(),
            standing: [0; Priority::LEVELS],
            idle: IdleWorkers { accepting: [WorkerSet::first(1); Priority::LEVELS] },
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
        let (mut arriving, mut ended) = (std::mem::take(&mut self.arriving), std::mem::take(&mut self.ended));
        self.home.take_inbox(&mut arriving, &mut ended);
        for task in arriving.drain(..) {
            self.place(now, &task);
        }
        // Their turns were taken elsewhere.
        for ran in ended.drain(..) {
            self.take_back(ran);
        }
        (self.arriving, self.ended) = (arriving, ended);
        self.show();
    }

    /// Shows other shards how urgent the most urgent is that waits.
    fn show(&self) {
        let level = self.standing.iter().position(|&standing| standing > 0);
        self.home.show_waiting(level.map_or(NOBODY, |level| level as u8));
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
        if self.queue.push(now, Entry { token: slot.into(), label, kind: None }).is_ok() {
            self.standing[label.priority.index()] += 1;
        } else {
            self.stuck[label.priority.index()].push_back(slot);
            self.stuck_len += 1;
        }
    }

    /// Whose turn it is.
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

    /// There is room: lets one in that found none.
    fn unstick(&mut self, now: Time) {
        if self.stuck_len == 0 {
            return;
        }
        for priority in Priority::all() {
            if let Some(slot) = self.stuck[priority.index()].pop_front() {
                self.stuck_len -= 1;
                // It may be over already; its entry is skipped then.
                let task = self.slots[slot as usize].task.as_ref();
                let deadline = task.and_then(|task| unpack(now, task.label()).deadline);
                return self.push(now, slot, Label { priority, deadline });
            }
        }
    }

    /// A turn is over.
    pub fn take_back(&mut self, ran: PolledTask) {
        let Some((task, panicked)) = ran.ended() else { return };
        self.counts.panicked += u64::from(panicked);
        if task.slot() != NO_SLOT {
            self.slots[task.slot() as usize].task = None;
            self.free.push(task.slot());
            self.counts.ended += 1;
        }
    }
}

/// Tasks end with their shard; what waits for them is told.
impl Drop for Executor {
    fn drop(&mut self) {
        self.home.end();
        // What ends may wake and start others, but nothing comes in any more.
        self.home.take_inbox(&mut self.arriving, &mut self.ended);
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
        // Whoever looks at a file next finds what they have begun there.
        if let Some(files) = &self.home.files {
            lock(files).finish(self.home.now());
        }
    }
}

/// How urgent nobody is ([`Shared::show_waiting`]).
pub(crate) const NOBODY: u8 = Priority::LEVELS as u8;
