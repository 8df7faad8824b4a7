//! Result of a fabric run.

use queueing::{Span, Time};

use super::occupancy::Occupancy;
use super::packet::MSS;

/// Result of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// All flows, in order of start.
    pub flows: Vec<FlowOutcome>,
    /// Packet counters.
    pub counters: Counters,
    /// Largest number of concurrently active flows.
    pub active_max: u32,
    /// Queue lengths over time, if sampling was enabled.
    pub occupancy: Occupancy,
    /// Virtual duration: until the last packet left the network.
    pub elapsed: Span,
    /// Events: flow starts, packet arrivals, transmissions completed, timer expirations.
    pub events: u64,
}

/// Result of one flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowOutcome {
    /// Sending host.
    pub from: u32,
    /// Receiving host.
    pub to: u32,
    /// Size in full segments.
    pub segments: u32,
    /// Start time.
    pub began: Time,
    /// Completion time, from start to acknowledgement of the last byte; `None` if unfinished.
    pub took: Option<Span>,
    /// Completion time with the network to itself, all segments sent at once: a lower bound for
    /// every transport.
    pub ideal: Span,
    /// Retransmitted segments.
    pub retransmitted: u32,
    /// Timer expirations.
    pub timeouts: u32,
}

impl FlowOutcome {
    /// Size in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        u64::from(self.segments) * MSS
    }

    /// Completion time divided by the ideal, at least 1; `None` if unfinished.
    #[must_use]
    pub fn slowdown(&self) -> Option<f64> {
        self.took.map(|took| took.as_nanos() as f64 / self.ideal.as_nanos() as f64)
    }
}

/// Packet counters of the network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Packets offered to a host's own queue, dropped ones included.
    pub sent: u64,
    /// Packets delivered to their destination host.
    pub delivered: u64,
    /// Packets refused by a full queue or evicted from one.
    pub dropped: u64,
    /// Marked segments, each counted once.
    pub marked: u64,
    /// Packets transmitted on a line.
    pub hops: u64,
    /// Packets queued or in flight at the end.
    pub left: u64,
}

impl std::iter::Sum for Counters {
    fn sum<I: Iterator<Item = Self>>(parts: I) -> Self {
        parts.fold(Self::default(), |a, b| Self {
            sent: a.sent + b.sent,
            delivered: a.delivered + b.delivered,
            dropped: a.dropped + b.dropped,
            marked: a.marked + b.marked,
            hops: a.hops + b.hops,
            left: a.left + b.left,
        })
    }
}
