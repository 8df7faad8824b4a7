//! Work budget of a round, like that of NAPI.

use queueing::Span;

/// Maximum of each kind of work in a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkBudget {
    /// Frames taken from the device, at least 1.
    pub drive: usize,
    /// Frames run through TCP, at least 1.
    pub transport: usize,
    /// Requests assigned to workers, at least 1. A shard that serves them itself assigns one per
    /// round, so that an urgent frame waits for one request at most. With worker threads a limit
    /// would only leave workers idle.
    pub assign: usize,
    /// Longest time that output may be coalesced while there is other work: a device sends many
    /// frames in one system call at little more than the cost of one. Zero transmits in every
    /// round.
    pub hold: Span,
    /// Maximum share of time for receiving (moving frames in and running them through TCP), in
    /// percent, 1..=100, while a request waits that an idle worker would take. It applies over some
    /// milliseconds; 100 means no bound.
    pub receive_percent: u8,
}

/// Up to 128 received frames are classified before the next one goes through TCP, so an urgent
/// frame in the device waits for at most one other. No worker is left idle.
impl Default for WorkBudget {
    fn default() -> Self {
        Self { drive: 128, transport: 1, assign: usize::MAX, hold: Span::ZERO, receive_percent: 100 }
    }
}

impl WorkBudget {
    /// Budget of a shard whose own thread serves, one request per round.
    #[must_use]
    pub fn inline(hold: Span) -> Self {
        Self { transport: 8, assign: 1, hold, ..Self::default() }
    }

    pub(crate) fn check(&self) {
        assert!(self.drive > 0, "a round drives nothing");
        assert!(self.transport > 0, "a round transports nothing");
        assert!(self.assign > 0, "a round assigns nothing");
        let percent = self.receive_percent;
        assert!((1..=100).contains(&percent), "a share of {percent} percent is outside 1..=100");
    }
}
