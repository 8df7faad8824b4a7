//! What can become of a visit, and how many met each fate.

use queueing::{Histogram, Span};

/// What became of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestOutcome {
    /// Answered with status 200 within its patience.
    Ok,
    /// An answer had begun when patience ended.
    Late,
    /// Connected, and not a byte of an answer until patience ended.
    NoResponse,
    /// Reset, or closed before the answer was whole.
    Refused,
    /// Answered with another status, or with what is no response.
    BadResponse,
    /// Not even connected when patience ended.
    ConnectTimeout,
    /// The client had no connection left to make it with.
    ClientLimit,
}

/// How many visits met which fate.
#[derive(Clone, Debug)]
pub struct OutcomeCounts {
    counts: [u64; 7],
    /// From due to answered, of the good ones.
    pub latency: Histogram,
}

impl Default for OutcomeCounts {
    fn default() -> Self {
        Self { counts: [0; 7], latency: Histogram::new() }
    }
}

impl OutcomeCounts {
    /// An attempt met `fate`, `took` after it was due.
    pub(super) fn add(&mut self, outcome: RequestOutcome, took: Span) {
        self.counts[outcome as usize] += 1;
        if outcome == RequestOutcome::Ok {
            self.latency.record(took);
        }
    }

    /// How many met `fate`.
    #[must_use]
    pub const fn count(&self, outcome: RequestOutcome) -> u64 {
        self.counts[outcome as usize]
    }

    /// All visits.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.counts.iter().sum()
    }
}

/// A piece of the counted time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Slice {
    /// Visits that were due in it.
    pub due: u64,
    /// Of those, the good ones, whenever they were answered.
    pub good: u64,
    /// Good answers that came in it, whenever they were due.
    pub answers: u64,
}
