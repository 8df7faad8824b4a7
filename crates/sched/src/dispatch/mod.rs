//! Which waiting request goes to which idle worker.
//!
//! [`POLICIES`] names every policy: the orders that [`queueing`] has, and those
//! that need more than an order, one file each. A policy runs nothing: it takes tasks in, learns who is idle, and answers who serves whom. Every
//! policy obeys [`IdleWorkers::accepting`], so steering and waiting for given
//! priorities (M7) work under all of them; each states its starvation bound.
//!
//! ```
//! use queueing::{Label, Priority, Time};
//! use sched::dispatch::{Idle, Params, Task, WorkerSet, by_name};
//!
//! let mut strict = by_name("strict", &Params::new(2, 64)).unwrap();
//! for (token, level) in [(1, 7), (2, 0)] {
//!     let label = Label::new(Priority::new(level).unwrap());
//!     strict.push(Time::ZERO, Task { token, label, kind: None }).unwrap();
//! }
//! let idle = Idle { accepting: [WorkerSet::first(2); 8] };
//! assert_eq!(strict.assign(Time::ZERO, &idle).unwrap().1.token, 2);
//! ```

use queueing::{Entry, Label, PrioritySet, Span, StarvationBound, Time};

mod darc;
mod from_discipline;
mod policies;
mod profile;
mod steering;

pub use darc::{Darc, DarcSettings, Reservation};
pub use from_discipline::{Ordered, edf, fcfs, strict, weighted};
pub use policies::{POLICIES, Params, PolicyEntry, UnknownPolicy, by_name};
pub use profile::{Profile, Share};
pub use steering::{Steering, SteeringError};

/// A worker's number within its shard, 0..256.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorkerId(pub u8);

/// A request's type, as the application tells types apart (DARC).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestType(pub u16);

/// A request, or a piece of one, that waits for a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Task {
    /// The shard's name for it.
    pub token: u64,
    /// Urgency and remaining budget.
    pub label: Label,
    /// Its type, where the policy asked for it and the bytes told it.
    pub kind: Option<RequestType>,
}

impl Entry for Task {
    fn label(&self) -> Label {
        self.label
    }
}

/// A set of workers (256 at most).
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

    /// Whether `worker` is a member.
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

    /// Members of either.
    #[must_use]
    pub fn or(&self, other: &Self) -> Self {
        Self(std::array::from_fn(|i| self.0[i] | other.0[i]))
    }

    /// How many members there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Members of both.
    #[must_use]
    pub fn and(&self, other: &Self) -> Self {
        Self(std::array::from_fn(|i| self.0[i] & other.0[i]))
    }

    /// Whether there is no member.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0 == [0; 4]
    }

    /// The member with the smallest number.
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

/// Which idle workers would take a task of each priority: steering (M7) and
/// the priorities a worker waits for, already applied.
#[derive(Clone, Copy, Debug)]
pub struct IdleWorkers {
    /// Per priority level, the idle workers that accept it.
    pub accepting: [WorkerSet; queueing::Priority::LEVELS],
}

impl IdleWorkers {
    /// Priorities that at least one idle worker accepts.
    #[must_use]
    pub fn wanted(&self) -> PrioritySet {
        queueing::Priority::all().filter(|p| !self.accepting[p.index()].is_empty()).collect()
    }

    /// The same, of the workers in `set` only.
    #[must_use]
    pub fn within(&self, set: &WorkerSet) -> Self {
        Self { accepting: self.accepting.map(|workers| workers.and(set)) }
    }
}

/// A policy that gives tasks to idle workers.
pub trait Dispatch: Send {
    /// Whether tasks need their [`RequestType`] found after the transport layer.
    fn needs_kind(&self) -> bool {
        false
    }

    /// Takes a task in; hands it back when the queue is full.
    ///
    /// # Errors
    /// The task itself, when the queue is full.
    fn push(&mut self, now: Time, task: Task) -> Result<(), Task>;

    /// The next task and the idle worker that should serve it.
    fn assign(&mut self, now: Time, idle: &IdleWorkers) -> Option<(WorkerId, Task)>;

    /// `worker` served a task of `kind` for `service`.
    fn on_done(&mut self, now: Time, worker: WorkerId, kind: Option<RequestType>, service: Span) {
        let _ = (now, worker, kind, service);
    }

    /// How long a task can be passed over while every worker takes every priority.
    fn starvation(&self) -> StarvationBound;

    /// When the task that has waited longest was pushed.
    fn oldest(&self) -> Option<Time>;

    /// Tasks that wait.
    fn len(&self) -> usize;

    /// Whether none waits.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests;
