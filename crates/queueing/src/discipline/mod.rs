//! Who goes next: the one question every queue answers.
//!
//! A discipline orders entries and nothing else: no clock, no I/O, no
//! blocking. Small ones compose into the papers' queues (FISH is strict over
//! levels of round robin over flows of FIFO). Every discipline is bounded and
//! says how long an entry can be passed over.
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
pub use mlfq::{BadThresholds, Mlfq, Thresholds};
pub use pifo::Pifo;
pub use rank_index::EntryHandle;
pub use red::{Red, RedSettings};
pub use selective_fifo::SelectiveFifo;
pub use strict::Strict;

use crate::{Bytes, Label, Priority, PrioritySet, Span, Time};

/// Which flow an entry belongs to; disciplines that are fair between flows
/// hash nothing themselves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FlowId(pub u64);

/// What a discipline may know of an entry.
pub trait Entry {
    /// Urgency and remaining budget, as they were when the entry was pushed.
    fn label(&self) -> Label;

    /// The flow it belongs to.
    fn flow(&self) -> FlowId {
        FlowId::default()
    }

    /// Its size, for disciplines that share by bytes.
    fn bytes(&self) -> Bytes {
        Bytes::new(1)
    }

    /// How long its service is expected to take, for laxity.
    fn service(&self) -> Span {
        Span::ZERO
    }

    /// How long the slowest is expected to take of those that are waited for
    /// together, here or elsewhere; its own service where it stands alone.
    fn slowest(&self) -> Span {
        self.service()
    }

    /// Whether a queue told it to leave: whoever pops it drops it instead of
    /// serving it, and pops again. Queues do not count its service.
    fn doomed(&self) -> bool {
        false
    }
}

/// An entry that can be told that its queue is too long, as [`AqmQueue`] does.
pub trait EcnMarkable: Entry {
    /// Has it carry the news to whom it concerns; `false` when it cannot.
    fn mark(&mut self) -> bool;

    /// Tells it to leave: from now on it is [doomed](Entry::doomed).
    fn doom(&mut self);
}

/// An order over waiting entries.
pub trait Discipline<T: Entry> {
    /// Takes `entry` in at `now`, or hands back what does not fit.
    fn push(&mut self, now: Time, entry: T) -> PushResult<T>;

    /// Hands out the entry whose turn it is, to be served, or to be dropped if
    /// it is [doomed](Entry::doomed).
    fn pop(&mut self, now: Time) -> Option<T>;

    /// How many entries wait.
    fn len(&self) -> usize;

    /// Whether nothing waits.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// When the entry that has waited longest was pushed.
    fn oldest(&self) -> Option<Time>;

    /// How long an entry can be passed over.
    fn starvation(&self) -> StarvationBound;

    /// Whether `entry`, if it came now and were popped at the same instant, would
    /// come out as it went in and leave nothing behind: then whoever is free to
    /// serve need not queue it. Asked while nothing waits; `false` is always
    /// safe. Where one passes, every other of its level does that is no longer,
    /// until something is pushed.
    fn passes(&self, _entry: &T) -> bool {
        false
    }

    /// Gives up one entry, so that a more urgent one of an enclosing
    /// discipline finds room. A discipline that knows which entry would be
    /// served last gives up that one; by default it is the one whose turn it is.
    fn evict(&mut self, now: Time) -> Option<T> {
        self.pop(now)
    }

    /// Takes `entry` into a full queue in the place of one that has less right
    /// to wait, or hands it back; by default nobody has less.
    fn replace(&mut self, _now: Time, entry: T) -> PushResult<T> {
        PushResult::Refused(entry)
    }
}

/// A discipline that also serves those who take some levels only, as an event
/// loop that waits for some priorities does (ADPS §2.3).
///
/// The bound of [`Discipline::starvation`] holds while every level is asked for.
pub trait SelectiveDequeue<T: Entry>: Discipline<T> {
    /// Hands out the entry whose turn it is among the levels in `wanted`.
    fn pop_among(&mut self, now: Time, wanted: PrioritySet) -> Option<T>;
}

/// What became of a push.
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub enum PushResult<T> {
    /// It waits.
    Queued,
    /// The queue is full and nothing in it has less right to wait, or it is too
    /// long for one that cannot be marked: the entry comes back.
    Refused(T),
    /// The entry waits; one with less right to wait had to leave for it.
    PushedOut(T),
}

/// Turns in a row that may pass over who must not wait for ever: those that are
/// old, or less urgent. The next is theirs. A ninth of the service is enough that
/// nobody starves; were it a half, in lasting overload, when everybody is old,
/// the urgent would starve as soon as they need more than the other half.
pub const PASSED_IN_A_ROW: u8 = 8;

/// What can be served between an entry's push and its pop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StarvationBound {
    /// At most this many entries go first, whatever arrives later.
    Bounded {
        /// Entries served before it, at the most.
        entries: u64,
    },
    /// Only entries pushed before it, or at most this long after it, go first,
    /// however many they are.
    Window {
        /// How much later an entry may come and still go first.
        span: Span,
    },
    /// Anything goes first for this long; from then on at most this many
    /// entries do, whatever arrives.
    Aged {
        /// How long an entry is passed over without limit.
        span: Span,
        /// Entries served before it after that, at the most.
        entries: u64,
    },
    /// Entries of this level or less urgent can wait for ever while more
    /// urgent ones keep coming.
    Unbounded {
        /// The most urgent level that can starve.
        from: Priority,
    },
}
