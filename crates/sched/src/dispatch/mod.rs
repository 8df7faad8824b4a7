//! Dispatch: assignment of queued requests to idle workers.
//!
//! [`POLICIES`] lists every policy: the orders of [`queueing`], and those that need
//! more than an order, one file each. A policy runs nothing: it queues tasks and,
//! given the idle workers, returns the next task and its worker. Every policy obeys
//! [`IdleWorkers::accepting`], so steering and selective waiting (M7) work with all
//! of them. Each states its starvation bound.
//!
//! ```
//! use queueing::{Label, Priority, Time};
//! use sched::dispatch::{IdleWorkers, Params, Task, WorkerSet, by_name};
//!
//! let mut strict = by_name("strict", &Params::new(2, 64)).unwrap();
//! for (token, level) in [(1, 7), (2, 0)] {
//!     let label = Label::new(Priority::new(level).unwrap());
//!     strict.push(Time::ZERO, Task { token, label, kind: None }).unwrap();
//! }
//! let idle = IdleWorkers { accepting: [WorkerSet::first(2); 8] };
//! assert_eq!(strict.assign(Time::ZERO, &idle).unwrap().1.token, 2);
//! ```

use queueing::{Entry, Label, PrioritySet, Span, StarvationBound, Time};

mod darc;
mod from_discipline;
mod policies;
mod profile;
mod steering;

pub use darc::{Darc, DarcSettings, Reservation};
pub use from_discipline::{Ordered, edf, fcfs, strict, strict_edf, weighted};
pub use policies::{POLICIES, Params, PolicyEntry, UnknownPolicy, by_name};
pub use profile::{Profile, Share};
pub use steering::{Steering, SteeringError};

/// Number of a worker within its shard, 0..256.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorkerId(pub u8);

/// Type of a request, as the application classifies it (DARC).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestType(pub u16);

/// Queued request, or a part of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Task {
    /// The shard's identifier.
    pub token: u64,
    /// Priority and remaining budget.
    pub label: Label,
    /// Type, if the policy needs it and the bytes contain it.
    pub kind: Option<RequestType>,
}

impl Entry for Task {
    fn label(&self) -> Label {
        self.label
    }
}

/// Set of workers (256 at most).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WorkerSet([u64; 4]);

impl WorkerSet {
    /// No worker.
    pub const NONE: Self = Self([0; 4]);

    /// Workers 0..n, n ≤ 256.
    #[must_use]
    pub fn first(n: usize) -> Self {
        (0..n).map(|w| WorkerId(w as u8)).collect()
    }

    /// True if `worker` is a member.
    #[must_use]
    pub const fn contains(&self, worker: WorkerId) -> bool {
        self.0[worker.0 as usize / 64] & 1 << (worker.0 % 64) != 0
    }

    /// Adds `worker`.
    pub const fn insert(&mut self, worker: WorkerId) {
        self.0[worker.0 as usize / 64] |= 1 << (worker.0 % 64);
    }

    /// Removes `worker`.
    pub const fn remove(&mut self, worker: WorkerId) {
        self.0[worker.0 as usize / 64] &= !(1 << (worker.0 % 64));
    }

    /// Union.
    #[must_use]
    pub fn or(&self, other: &Self) -> Self {
        Self(std::array::from_fn(|i| self.0[i] | other.0[i]))
    }

    /// Number of members.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Intersection.
    #[must_use]
    pub fn and(&self, other: &Self) -> Self {
        Self(std::array::from_fn(|i| self.0[i] & other.0[i]))
    }

    /// True if the set is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0 == [0; 4]
    }

    /// Member with the smallest number.
    #[must_use]
    pub fn lowest(&self) -> Option<WorkerId> {
        let word = self.0.iter().position(|&word| word != 0)?;
        Some(WorkerId((word * 64) as u8 + self.0[word].trailing_zeros() as u8))
    }

    /// Members in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = WorkerId> + '_ {
        self.0.iter().enumerate().flat_map(|(i, &word)| {
            std::iter::successors((word != 0).then_some(word), |w| Some(w & (w - 1)).filter(|&w| w != 0))
                .map(move |w| WorkerId((i * 64) as u8 + w.trailing_zeros() as u8))
        })
    }
}

impl FromIterator<WorkerId> for WorkerSet {
    fn from_iter<I: IntoIterator<Item = WorkerId>>(workers: I) -> Self {
        let mut set = Self::NONE;
        workers.into_iter().for_each(|w| set.insert(w));
        set
    }
}

/// Idle workers per priority that they accept, after steering (ADPS M7) and the
/// priorities each worker waits for.
#[derive(Clone, Copy, Debug)]
pub struct IdleWorkers {
    /// Idle workers that accept each priority level.
    pub accepting: [WorkerSet; queueing::Priority::LEVELS],
}

impl IdleWorkers {
    /// Priorities that at least one idle worker accepts.
    #[must_use]
    pub fn wanted(&self) -> PrioritySet {
        queueing::Priority::all().filter(|p| !self.accepting[p.index()].is_empty()).collect()
    }

    /// Idle workers and their priorities, restricted to the workers in `set`.
    #[must_use]
    pub fn within(&self, set: &WorkerSet) -> Self {
        Self { accepting: self.accepting.map(|workers| workers.and(set)) }
    }
}

/// Policy that assigns tasks to idle workers.
pub trait Dispatch: Send {
    /// True if tasks need their [`RequestType`], found after the transport layer.
    fn needs_kind(&self) -> bool {
        false
    }

    /// True if the order depends on the deadline in a task's label, found after the transport
    /// layer.
    fn needs_deadline(&self) -> bool {
        false
    }

    /// Enqueues a task.
    ///
    /// # Errors
    /// The task, if the queue is full.
    fn push(&mut self, now: Time, task: Task) -> Result<(), Task>;

    /// Dequeues the next task, with the idle worker to serve it.
    fn assign(&mut self, now: Time, idle: &IdleWorkers) -> Option<(WorkerId, Task)>;

    /// Records that `worker` served a task of `kind` for `service`.
    fn on_done(&mut self, now: Time, worker: WorkerId, kind: Option<RequestType>, service: Span) {
        let _ = (now, worker, kind, service);
    }

    /// Starvation bound of a task while every worker accepts every priority.
    fn starvation(&self) -> StarvationBound;

    /// Push time of the task that has waited longest.
    fn oldest(&self) -> Option<Time>;

    /// Number of queued tasks.
    fn len(&self) -> usize;

    /// True if no task is queued.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests;
