//! How much of each kind of work a round does.

use queueing::Span;

/// How much of each kind of work a round does at the most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// Frames taken from the device, at least 1.
    pub drive: usize,
    /// Frames run through TCP, at least 1.
    pub transport: usize,
    /// Requests given to workers, at least 1. A shard that serves them itself
    /// gives one per round, so that an urgent frame waits for one request at
    /// the most; with other workers a limit would only leave them idle.
    pub assign: usize,
    /// How long what is ready to be sent may wait for more, as long as there is
    /// other work: a device sends many frames in one system call for little
    /// more than the price of one. Zero sends in every round.
    pub hold: Span,
    /// The share of time that receiving (taking frames in and running them
    /// through TCP) may take, in percent, 1..=100, as long as a request waits
    /// that an idle worker would take. It holds over some milliseconds; at 100
    /// there is no bound.
    pub receive_percent: u8,
}

/// Whatever has come is classified, up to 128 frames, before the next one goes
/// through TCP: an urgent frame that the device has waits for one other at
/// the most. No worker is left idle.
impl Default for Budget {
    fn default() -> Self {
        Self { drive: 128, transport: 1, assign: usize::MAX, hold: Span::ZERO, receive_percent: 100 }
    }
}

impl Budget {
    /// That of a shard whose own thread serves, one request each round.
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
