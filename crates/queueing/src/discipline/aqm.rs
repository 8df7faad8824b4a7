//! AQM: a queue that marks or drops entries while it is too long.
//!
//! Wraps any queue: a whole port's, one level's or each flow's. An entry that is
//! not ECN-capable ([`EcnMarkable::mark`]) is dropped instead: refused at the
//! push or, if the wait decides ([`CoDel`]), returned by the pop as
//! [doomed](Entry::doomed). Every entry thus leaves the queue through its caller.
//! Source: RFC 3168 §5 (marks instead of drops); DCTCP, SIGCOMM '10 §3.1 (a
//! threshold on the instantaneous length).

use super::{CoDel, Discipline, EcnMarkable, Entry, PushResult, Red, StarvationBound};
use crate::{Bytes, Time};

/// Length of a queue, in entries or in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueLength {
    /// Number of entries.
    Entries(u64),
    /// Number of bytes.
    Bytes(u64),
}

impl QueueLength {
    /// Number, without its unit.
    #[must_use]
    pub const fn amount(self) -> u64 {
        match self {
            Self::Entries(amount) | Self::Bytes(amount) => amount,
        }
    }

    /// True if both have the same unit.
    #[must_use]
    pub const fn same_unit(self, other: Self) -> bool {
        matches!((self, other), (Self::Entries(_), Self::Entries(_)) | (Self::Bytes(_), Self::Bytes(_)))
    }

    /// Length of `entries` entries of `bytes` bytes in total, in the unit of `self`.
    #[must_use]
    pub const fn measure(self, entries: u64, bytes: u64) -> u64 {
        match self {
            Self::Entries(_) => entries,
            Self::Bytes(_) => bytes,
        }
    }
}

/// Algorithm that decides when a queue is too long.
#[derive(Clone, Debug)]
pub enum Aqm {
    /// Marks if the length, with the arrival, is above this (DCTCP). Never drops.
    Above(QueueLength),
    /// Marks or drops by the average length.
    Red(Box<Red>),
    /// Marks or drops by the wait of departing entries; for queues in order of arrival.
    CoDel(CoDel),
}

/// Queue with active queue management.
///
/// Starvation: that of the queue.
#[derive(Clone, Debug)]
pub struct AqmQueue<D> {
    queue: D,
    aqm: Aqm,
    /// Bytes queued.
    bytes: u64,
}

impl<D> AqmQueue<D> {
    /// Wraps `queue`, which is empty.
    #[must_use]
    pub const fn new(queue: D, aqm: Aqm) -> Self {
        Self { queue, aqm, bytes: 0 }
    }
}

impl<D> AqmQueue<D> {
    /// Applies the algorithm to `entry`, which arrives at `now`; `false` if it is
    /// to be dropped.
    fn admits<T: EcnMarkable>(&mut self, now: Time, entry: &mut T) -> bool
    where
        D: Discipline<T>,
    {
        let (entries, bytes) = (self.queue.len() as u64, self.bytes);
        match &mut self.aqm {
            Aqm::Above(limit) => {
                if limit.measure(entries + 1, bytes + entry.bytes().get()) > limit.amount() {
                    entry.mark();
                }
                true
            }
            Aqm::Red(red) => !red.should_mark(now, entries, bytes) || entry.mark(),
            Aqm::CoDel(_) => true,
        }
    }

    fn count<T: Entry>(&mut self, bytes: Bytes, outcome: PushResult<T>) -> PushResult<T> {
        match &outcome {
            PushResult::Queued => self.bytes += bytes.get(),
            PushResult::PushedOut(evicted) => self.bytes = self.bytes + bytes.get() - evicted.bytes().get(),
            PushResult::Refused(_) => {}
        }
        outcome
    }
}

impl<T: EcnMarkable, D: Discipline<T>> Discipline<T> for AqmQueue<D> {
    fn push(&mut self, now: Time, mut entry: T) -> PushResult<T> {
        if !self.admits(now, &mut entry) {
            return PushResult::Refused(entry);
        }
        let bytes = entry.bytes();
        let outcome = self.queue.push(now, entry);
        self.count(bytes, outcome)
    }

    fn pop(&mut self, now: Time) -> Option<T> {
        let pushed = if matches!(self.aqm, Aqm::CoDel(_)) { self.queue.oldest() } else { None };
        let mut entry = self.queue.pop(now)?;
        self.bytes -= entry.bytes().get();
        match &mut self.aqm {
            Aqm::CoDel(codel) => {
                let waited = now.since(pushed.unwrap_or(now));
                if codel.should_mark(now, waited, Bytes::new(self.bytes)) && !entry.mark() {
                    entry.doom();
                }
            }
            Aqm::Red(red) if self.queue.is_empty() => red.on_idle(now),
            Aqm::Red(_) | Aqm::Above(_) => {}
        }
        Some(entry)
    }

    fn len(&self) -> usize {
        self.queue.len()
    }

    fn oldest(&self) -> Option<Time> {
        self.queue.oldest()
    }

    fn starvation(&self) -> StarvationBound {
        self.queue.starvation()
    }

    #[inline]
    fn passes(&self, entry: &T) -> bool {
        match self.aqm {
            Aqm::Above(limit) => {
                limit.measure(1, entry.bytes().get()) <= limit.amount() && self.queue.passes(entry)
            }
            Aqm::Red(_) | Aqm::CoDel(_) => false,
        }
    }

    fn evict(&mut self, now: Time) -> Option<T> {
        let evicted = self.queue.evict(now)?;
        self.bytes -= evicted.bytes().get();
        Some(evicted)
    }

    fn replace(&mut self, now: Time, mut entry: T) -> PushResult<T> {
        if !self.admits(now, &mut entry) {
            return PushResult::Refused(entry);
        }
        let bytes = entry.bytes();
        let outcome = self.queue.replace(now, entry);
        self.count(bytes, outcome)
    }
}
