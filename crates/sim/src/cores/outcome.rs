//! What became of the tasks.

use queueing::{Histogram, Span};

/// A run's result.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// By task.
    pub tasks: Vec<TaskOutcome>,
    /// The time that it is about.
    pub counted: Span,
    /// The policy's rounds in it.
    pub rounds: u64,
    /// What the policy ordered in it.
    pub actions: u64,
    /// Events simulated.
    pub events: u64,
}

/// A task's result.
#[derive(Clone, Debug)]
pub struct TaskOutcome {
    /// Requests answered.
    pub answered: u64,
    /// Requests that were not by the end.
    pub unanswered: u64,
    /// Requests that found no room.
    pub lost: u64,
    /// From arrival to answer; of who still waits, to the end.
    pub latency: Histogram,
    /// The worst p99.9 of any 100 ms.
    pub peak: Span,
    /// Work done, in time of one lane on a machine of its own.
    pub work: Span,
}

impl TaskOutcome {
    /// Work per time: lanes of a machine of its own.
    #[must_use]
    pub fn cores(&self, counted: Span) -> f64 {
        self.work.as_secs_f64() / counted.as_secs_f64()
    }
}
