//! What a run of the fabric found.

use queueing::{Span, Time};

use super::occupancy::Occupancy;
use super::packet::MSS;

/// A run's result.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// Every flow, in the order of their beginnings.
    pub flows: Vec<Flow>,
    /// What the network did.
    pub counters: Counters,
    /// Most flows under way at once.
    pub active_max: u32,
    /// How many packets waited where, if that was asked for.
    pub occupancy: Occupancy,
    /// Virtual time of the whole run: until the last packet had left the network.
    pub elapsed: Span,
    /// What happened: flows that began, packets that arrived, lines that were
    /// free for the next, timers that expired.
    pub events: u64,
}

/// One flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flow {
    /// The host that sends.
    pub from: u32,
    /// The host that receives.
    pub to: u32,
    /// Full segments it sends.
    pub segments: u32,
    /// When it began.
    pub began: Time,
    /// From then until its last byte was acknowledged; `None`: it was not.
    pub took: Option<Span>,
    /// How long it takes with the network to itself, all segments sent at
    /// once: what no transport beats.
    pub ideal: Span,
    /// Segments that were sent again.
    pub retransmitted: u32,
    /// Timers that expired.
    pub timeouts: u32,
}

impl Flow {
    /// How much it sends.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        u64::from(self.segments) * MSS
    }

    /// How many times its ideal it took, 1 and more; `None` of one that was
    /// not done.
    #[must_use]
    pub fn slowdown(&self) -> Option<f64> {
        self.took.map(|took| took.as_nanos() as f64 / self.ideal.as_nanos() as f64)
    }
}

/// What the network did with packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Put into a host's own queue, or refused there.
    pub sent: u64,
    /// Taken by the host they were for.
    pub delivered: u64,
    /// Refused by a full queue, or pushed out of one.
    pub dropped: u64,
    /// Segments that were marked, each once.
    pub marked: u64,
    /// Packets put on a line.
    pub hops: u64,
    /// Packets still waiting or on a line at the end.
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
