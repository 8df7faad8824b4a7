//! Which workers serve which priorities (M7): *long requests go to a core of
//! their own*.
//!
//! A configuration names levels and lists their workers, for example
//! `low = [3]`. Levels that it does not name may run on every worker. A level
//! nobody serves would wait for ever, so it is refused.

use std::fmt;

use queueing::{Priority, PrioritySet};

use super::{WorkerId, WorkerSet};

/// Per priority, the workers that may serve it; none is empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Steering([WorkerSet; Priority::LEVELS]);

impl Steering {
    /// Every worker serves everything.
    #[must_use]
    pub fn all(workers: usize) -> Self {
        Self([WorkerSet::first(workers); Priority::LEVELS])
    }

    /// From pairs of levels and workers. Levels are `0`..=`7`, a range `2-5`,
    /// `high` (0-3) or `low` (4-7); workers are numbered from 0.
    ///
    /// # Errors
    /// [`SteeringError`] names the value at fault and what would be valid.
    pub fn from_lists<'a>(
        workers: usize,
        lists: impl IntoIterator<Item = (&'a str, &'a [usize])>,
    ) -> Result<Self, SteeringError> {
        if !(1..=256).contains(&workers) {
            return Err(SteeringError::Workers(workers));
        }
        let mut sets = [None; Priority::LEVELS];
        for (key, list) in lists {
            if let Some(&worker) = list.iter().find(|&&w| w >= workers) {
                return Err(SteeringError::Worker { key: key.to_owned(), worker, workers });
            }
            let set: WorkerSet = list.iter().map(|&w| WorkerId(w as u8)).collect();
            if set.is_empty() {
                return Err(SteeringError::Empty { key: key.to_owned(), workers });
            }
            let levels: PrioritySet = key.parse().map_err(|_| SteeringError::Levels(key.to_owned()))?;
            for level in levels.iter().map(Priority::index) {
                if sets[level].replace(set).is_some() {
                    return Err(SteeringError::Twice { key: key.to_owned(), level });
                }
            }
        }
        Ok(Self(sets.map(|set| set.unwrap_or_else(|| WorkerSet::first(workers)))))
    }

    /// The sets, by priority.
    #[must_use]
    pub const fn sets(&self) -> [WorkerSet; Priority::LEVELS] {
        self.0
    }

    /// The workers that may serve `priority`.
    #[must_use]
    pub const fn workers(&self, priority: Priority) -> &WorkerSet {
        &self.0[priority.index()]
    }
}

/// Why a steering configuration is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SteeringError {
    /// The number of workers is out of range.
    Workers(usize),
    /// The key names no levels.
    Levels(String),
    /// A listed worker does not exist.
    Worker {
        /// The key.
        key: String,
        /// The worker.
        worker: usize,
        /// How many there are.
        workers: usize,
    },
    /// The list is empty.
    Empty {
        /// The key.
        key: String,
        /// How many workers there are.
        workers: usize,
    },
    /// A level was already named by another key.
    Twice {
        /// The key.
        key: String,
        /// The level.
        level: usize,
    },
}

impl fmt::Display for SteeringError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Workers(n) => write!(f, "workers {n} is outside 1..=256"),
            Self::Levels(key) => {
                write!(
                    f,
                    "steering {key:?} is no level 0..=7, range such as 2-5, \"high\" (0-3) or \"low\" (4-7)"
                )
            }
            Self::Worker { key, worker, workers } => {
                write!(f, "steering {key}: worker {worker} is outside 0..={}", workers - 1)
            }
            Self::Empty { key, workers } => {
                write!(f, "steering {key}: [] leaves nobody to serve it; list workers of 0..={}", workers - 1)
            }
            Self::Twice { key, level } => {
                write!(f, "steering {key}: level {level} is named by another line; name each level once")
            }
        }
    }
}

impl std::error::Error for SteeringError {}
