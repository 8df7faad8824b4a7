//! Steering: the workers that may serve each priority (M7), such as a core of
//! their own for long requests.
//!
//! A configuration lists workers for levels, such as `low = [3]`. Every worker may
//! serve levels that are not listed. A level without a worker would starve, so
//! it is an error.

use std::fmt;

use queueing::{Priority, PrioritySet};

use super::{WorkerId, WorkerSet};

/// Set of workers per priority; none is empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Steering([WorkerSet; Priority::LEVELS]);

impl Steering {
    /// Every worker serves every priority.
    #[must_use]
    pub fn all(workers: usize) -> Self {
        Self([WorkerSet::first(workers); Priority::LEVELS])
    }

    /// Steering from pairs of levels and workers. Levels are `0`..=`7`, a range
    /// `2-5`, `high` (0-3) or `low` (4-7); workers are numbered from 0.
    ///
    /// # Errors
    /// [`SteeringError`] with the invalid value and the valid ones.
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

    /// Sets of workers by priority.
    #[must_use]
    pub const fn sets(&self) -> [WorkerSet; Priority::LEVELS] {
        self.0
    }

    /// Workers that may serve `priority`.
    #[must_use]
    pub const fn workers(&self, priority: Priority) -> &WorkerSet {
        &self.0[priority.index()]
    }
}

/// Error for an invalid steering configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SteeringError {
    /// Number of workers out of range.
    Workers(usize),
    /// Key that is not a set of levels.
    Levels(String),
    /// Listed worker that does not exist.
    Worker {
        /// Key of the list.
        key: String,
        /// Number of the worker.
        worker: usize,
        /// Number of workers.
        workers: usize,
    },
    /// Empty list.
    Empty {
        /// Key of the list.
        key: String,
        /// Number of workers.
        workers: usize,
    },
    /// Level that an earlier key includes.
    Twice {
        /// Key of the list.
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
                write!(f, "steering {key}: [] lists no worker; list workers of 0..={}", workers - 1)
            }
            Self::Twice { key, level } => {
                write!(f, "steering {key}: level {level} is named by another line; name each level once")
            }
        }
    }
}

impl std::error::Error for SteeringError {}
