//! Queue disciplines: the order in which queued entries are served.
//!
//! A discipline holds no clock, does no I/O and never blocks. Disciplines
//! compose into the papers' queues (FISH is strict priority over round robin
//! between flows over FIFO). Every discipline is bounded and states its
//! starvation bound.
//!
//! Source: PIFO trees (Sivaraman et al., SIGCOMM '16) for the composition.

mod aging;
mod aqm;
mod bands;
mod codel;
mod drr;
mod edf;
mod fair_queue;
mod fifo;
mod flow_pifo;
mod flow_table;
mod laxity;
mod mlfq;
mod pifo;
mod rank_index;
mod red;
mod selective_fifo;
mod strict;

pub use aqm::{Aqm, AqmQueue, QueueLength};
pub use codel::CoDel;
pub use drr::{Drr, DrrConfig};
pub use edf::Edf;
pub use fair_queue::FairQueue;
pub use fifo::Fifo;
pub use flow_pifo::FlowPifo;
pub use laxity::Laxity;
pub use mlfq::{Mlfq, Thresholds, ThresholdsError};
pub use pifo::Pifo;
pub use rank_index::EntryHandle;
pub use red::{Red, RedSettings};
pub use selective_fifo::SelectiveFifo;
pub use strict::Strict;

use crate::{Bytes, Label, Priority, PrioritySet, Span, Time};

/// Flow of an entry. The caller computes it; disciplines do not hash.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FlowId(pub u64);

/// Properties of an entry that a discipline may use.
pub trait Entry {
    /// Priority and remaining budget at the time of the push.
    fn label(&self) -> Label;

    /// Flow of the entry.
    fn flow(&self) -> FlowId {
        FlowId::default()
    }

    /// Size, for disciplines that share by bytes.
    fn bytes(&self) -> Bytes {
        Bytes::new(1)
    }

    /// Expected service time, for laxity.
    fn service(&self) -> Span {
        Span::ZERO
    }

    /// Expected service time of the slowest entry in the group that is awaited
    /// together, here or elsewhere; its own without a group.
    fn slowest(&self) -> Span {
        self.service()
    }

    /// True if a queue's AQM dropped the entry: the caller of `pop` discards it
    /// and pops again. Queues do not count its service.
    fn doomed(&self) -> bool {
        false
    }
}

/// Entry that carries congestion marks, as [`AqmQueue`] sets them.
pub trait EcnMarkable: Entry {
    /// Marks the entry (ECN CE); `false` if it is not ECN-capable.
    fn mark(&mut self) -> bool;

    /// Drops the entry: from now on it is [doomed](Entry::doomed).
    fn doom(&mut self);
}

/// Bounded queue with an order of service.
pub trait Discipline<T: Entry> {
    /// Enqueues `entry` at `now`, or returns it if it does not fit.
    fn push(&mut self, now: Time, entry: T) -> PushResult<T>;

    /// Dequeues the next entry, to be served, or to be discarded if it is
    /// [doomed](Entry::doomed).
    fn pop(&mut self, now: Time) -> Option<T>;

    /// Number of queued entries.
    fn len(&self) -> usize;

    /// True if the queue is empty.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Push time of the entry that has waited longest.
    fn oldest(&self) -> Option<Time>;

    /// Bound on the entries served before a queued one.
    fn starvation(&self) -> StarvationBound;

    /// True if pushing `entry` into the empty queue and popping it at once would
    /// return it unchanged and leave the state unchanged, so that an idle server
    /// can bypass the queue. Call it on an empty queue only; `false` is always safe.
    /// If one entry passes, so does any other of its level and at most its size, until
    /// the next push.
    fn passes(&self, _entry: &T) -> bool {
        false
    }

    /// Removes one entry to make space for a more urgent one of an enclosing
    /// discipline: the one that would be served last, if the discipline knows it;
    /// by default the next one.
    fn evict(&mut self, now: Time) -> Option<T> {
        self.pop(now)
    }

    /// Pushes `entry` into a full queue in exchange for an entry with less claim
    /// to the space, or returns it. The default always returns it.
    fn replace(&mut self, _now: Time, entry: T) -> PushResult<T> {
        PushResult::Refused(entry)
    }
}

/// Discipline that can serve a subset of levels, for event loops that wait for
/// some priorities only (ADPS §2.3).
///
/// The bound of [`Discipline::starvation`] holds while every level is requested.
pub trait SelectiveDequeue<T: Entry>: Discipline<T> {
    /// Dequeues the next entry among the levels in `wanted`.
    fn pop_among(&mut self, now: Time, wanted: PrioritySet) -> Option<T>;
}

/// Result of a push.
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub enum PushResult<T> {
    /// The entry is queued.
    Queued,
    /// The entry is returned: the queue is full and holds nothing with less claim
    /// to the space, or it is too long for an entry that cannot be marked.
    Refused(T),
    /// The entry is queued; the entry that it pushed out is returned.
    PushedOut(T),
}

/// Maximum number of consecutive services that may bypass an entry that must not starve, because it
/// is old or less urgent. The next service is its own. A ninth of the service prevents starvation.
/// With a half, in lasting overload, where every entry is old, urgent entries would starve once
/// they need more than the other half.
pub const PASSED_IN_A_ROW: u8 = 8;

/// Bound on the services between an entry's push and its pop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StarvationBound {
    /// At most this many entries are served first, whatever arrives later.
    Bounded {
        /// Maximum number of entries served first.
        entries: u64,
    },
    /// Only entries pushed before it, or at most `span` after it, are served
    /// first, in any number.
    Window {
        /// Latest arrival after the entry that can still be served first.
        span: Span,
    },
    /// Any number of entries is served first for `span`; after that at most
    /// `entries`, whatever arrives.
    Aged {
        /// Time without a bound.
        span: Span,
        /// Maximum number of entries served first after that.
        entries: u64,
    },
    /// Entries of this level or less urgent can starve while more urgent ones
    /// keep arriving.
    Unbounded {
        /// The most urgent level that can starve.
        from: Priority,
    },
}
