//! Which task has which core, decided anew every few microseconds.
//!
//! Latency-critical tasks (LC) have guaranteed cores, theirs whenever they have
//! work; best-effort tasks (BE) live on what is left. A [`Policy`] looks at
//! [`Signals`] and rearranges a [`CoreAssignment`]; it never touches a core. A [`Cores`]
//! does that: simulated ones, or Linux. An [`Allocator`] goes between them, round
//! for round. [`POLICIES`] names every policy.
//! Source: Caladan (OSDI '20).
//!
//! ```
//! use queueing::{Span, Time};
//! use sched::cores::{Board, Settings, Signals, TaskId, TaskSpec, Topology, by_name};
//!
//! let topology = Topology::regular(1, 2, 2)?;
//! let tasks = vec![TaskSpec::critical(2), TaskSpec::best_effort()];
//! let mut board = Board::new(topology, tasks)?;
//! let mut caladan = by_name("caladan", &Settings::default(), &board)?;
//! let mut signals = Signals::of(&board);
//! signals.tasks[1].runnable = 4;
//! caladan.round(Time::ZERO, &signals, &mut board);
//! assert_eq!(board.running(TaskId(1)), 4, "nobody else wants the machine");
//! signals.tasks[0].runnable = 1;
//! signals.tasks[0].delay = Span::from_micros(11);
//! caladan.round(Time::from_nanos(10_000), &signals, &mut board);
//! assert_eq!((board.running(TaskId(0)), board.running(TaskId(1))), (1, 3));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use queueing::{CoreId, Span, Time};

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

/// What a policy does about cores, once per round.
pub trait Policy: Send {
    /// How long from one round to the next, more than zero.
    fn period(&self) -> Span;

    /// Rearranges `board`. Whatever gave a core back since the last round has
    /// lost it there already.
    fn round(&mut self, now: Time, signals: &Signals, board: &mut CoreAssignment);

    /// What it promises.
    fn promise(&self) -> Guarantees;
}

/// What a policy promises to tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Guarantees {
    /// Whether a task with work below its guarantee gains a core within two
    /// rounds, and nobody is pushed below its own.
    pub guarantees: bool,
    /// How long a task with work can be without a core, as long as a core is
    /// beyond everybody's guarantee; `None` where nothing is promised.
    pub starvation: Option<Span>,
}

/// What is to be done to a core: the mechanism's commands (C6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Let `task` run on it, instead of whoever does.
    Run {
        /// The core.
        core: CoreId,
        /// The task.
        task: TaskId,
        /// Whether it is the task's also while it has no work there: it does not give it back.
        keep: bool,
    },
    /// Let nobody run on it.
    Idle {
        /// The core.
        core: CoreId,
    },
    /// Leave it to the kernel: LC in its normal class, BE in its idle class.
    Share {
        /// The core.
        core: CoreId,
    },
    /// Read its cache-miss counter; [`CoreSignals::sample`] brings it.
    Sample {
        /// The core.
        core: CoreId,
    },
}

/// Cores that can be sensed and given away: simulated ones, or Linux's.
pub trait Cores {
    /// Overwrites `signals` with what there is now.
    fn sense(&mut self, now: Time, signals: &mut Signals);

    /// Begins what is to be done; it need not be done when this returns.
    fn act(&mut self, now: Time, actions: &[Action]);
}

/// Something that cannot be arranged; the text names the value and what would be valid.
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
