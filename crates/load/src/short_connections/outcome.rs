//! Outcomes of requests on short connections, and their counters.

use queueing::{Histogram, Span};

/// Outcome of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestOutcome {
    /// Answered with status 200 within the timeout.
    Ok,
    /// Response incomplete at the timeout.
    Late,
    /// Connected, but no byte of a response before the timeout.
    NoResponse,
    /// Reset or closed before the response was complete.
    Refused,
    /// Another status, or a malformed response.
    BadResponse,
    /// Not connected at the timeout.
    ConnectTimeout,
    /// No connection available at the client.
    ClientLimit,
}

/// Counters by outcome.
#[derive(Clone, Debug)]
pub struct OutcomeCounts {
    counts: [u64; 7],
    /// Time from due to answered, of successful requests.
    pub latency: Histogram,
}

impl Default for OutcomeCounts {
    fn default() -> Self {
        Self { counts: [0; 7], latency: Histogram::new() }
    }
}

impl OutcomeCounts {
    /// Records a request with `outcome`, settled `took` after it was due.
    pub(super) fn add(&mut self, outcome: RequestOutcome, took: Span) {
        self.counts[outcome as usize] += 1;
        if outcome == RequestOutcome::Ok {
            self.latency.record(took);
        }
    }

    /// Number of requests with `outcome`.
    #[must_use]
    pub const fn count(&self, outcome: RequestOutcome) -> u64 {
        self.counts[outcome as usize]
    }

    /// Number of requests.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.counts.iter().sum()
    }
}

/// Slice of the measured time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Slice {
    /// Number of requests due in this slice.
    pub due: u64,
    /// Number of requests due in this slice that succeeded, whenever they were answered.
    pub good: u64,
    /// Number of successful responses in this slice, whenever the requests were due.
    pub answers: u64,
}
