//! Core allocation: which task has which core, decided every few microseconds.
//!
//! Latency-critical tasks (LC) have guaranteed cores, available whenever they have
//! work; best-effort tasks (BE) use the rest. A [`Policy`] reads [`Signals`] and
//! changes a [`CoreAssignment`]; it does not touch the cores. [`Cores`] does: simulated
//! ones, or Linux. An [`Allocator`] connects the two, round by round. [`POLICIES`]
//! lists every policy.
//! Source: Caladan (OSDI '20).
//!
//! ```
//! use queueing::{Span, Time};
//! use sched::cores::{CoreAssignment, Settings, Signals, TaskId, TaskSpec, Topology, by_name};
//!
//! let topology = Topology::regular(1, 2, 2)?;
//! let tasks = vec![TaskSpec::critical(2), TaskSpec::best_effort()];
//! let mut cores = CoreAssignment::new(topology, tasks)?;
//! let mut caladan = by_name("caladan", &Settings::default(), &cores)?;
//! let mut signals = Signals::of(&cores);
//! signals.tasks[1].runnable = 4;
//! caladan.round(Time::ZERO, &signals, &mut cores);
//! assert_eq!(cores.running(TaskId(1)), 4, "LC has no work");
//! signals.tasks[0].runnable = 1;
//! signals.tasks[0].delay = Span::from_micros(11);
//! caladan.round(Time::from_nanos(10_000), &signals, &mut cores);
//! assert_eq!((cores.running(TaskId(0)), cores.running(TaskId(1))), (1, 3));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use queueing::{CoreId, Span, Time};

pub mod affinity;
mod allocator;
mod assignment;
mod caladan;
pub mod contention_alarm;
mod elfen;
pub mod fake;
mod linux;
mod parties;
mod partition;
mod policies;
pub mod reallocations;
mod settings;
mod shenango;
mod signals;
mod task;
mod topology;
pub mod worker_signals;

pub use allocator::Allocator;
pub use assignment::{CoreAssignment, CoreState};
pub use caladan::Caladan;
pub use elfen::Elfen;
pub use linux::Linux;
pub use parties::Parties;
pub use partition::Static;
pub use policies::{Make, POLICIES, PolicyEntry, by_name};
pub use settings::Settings;
pub use shenango::Shenango;
pub use signals::{CoreSignals, Sample, Signals, TaskSignals};
pub use task::{Class, TaskId, TaskSpec};
pub use topology::Topology;

/// Policy of core allocation, run once per round.
pub trait Policy: Send {
    /// Time between two rounds, above zero.
    fn period(&self) -> Span;

    /// Changes `assignment`. Cores yielded since the last round are already free in it.
    fn round(&mut self, now: Time, signals: &Signals, assignment: &mut CoreAssignment);

    /// Guarantees of the policy.
    fn promise(&self) -> Guarantees;
}

/// Guarantees of a policy to tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Guarantees {
    /// True if a task with work below its guarantee gains a core within two rounds,
    /// and no task is preempted below its guarantee.
    pub guarantees: bool,
    /// Longest time that a task with work can be without a core while some core
    /// exceeds its holder's guarantee; `None` if unbounded.
    pub starvation: Option<Span>,
}

/// Command to the mechanism (C6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Run `task` on the core, preempting the current task.
    Run {
        /// The core.
        core: CoreId,
        /// The task.
        task: TaskId,
        /// True if the core stays reserved while the task has no work: it does not yield.
        keep: bool,
    },
    /// Idle the core.
    Idle {
        /// The core.
        core: CoreId,
    },
    /// Leave the core to the kernel: LC in its normal class, BE in its idle class.
    Share {
        /// The core.
        core: CoreId,
    },
    /// Read the core's cache-miss counter; [`CoreSignals::sample`] returns it.
    Sample {
        /// The core.
        core: CoreId,
    },
}

/// Mechanism: cores that can be sensed and assigned, simulated or Linux's.
pub trait Cores {
    /// Overwrites `signals` with the current ones.
    fn sense(&mut self, now: Time, signals: &mut Signals);

    /// Starts the actions; asynchronous.
    fn act(&mut self, now: Time, actions: &[Action]);
}

/// Error of a configuration; the text gives the value and the valid ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CoresConfigError(pub(crate) String);

impl std::fmt::Display for CoresConfigError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for CoresConfigError {}

#[cfg(test)]
mod tests;
