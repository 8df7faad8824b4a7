//! A queue whose length is looked after: who adds to it while it is too long
//! is told.
//!
//! Wraps any queue, so that a whole port is looked after, one of its levels, or
//! each flow. To be told is to be marked; an entry that cannot carry a mark
//! ([`EcnMarkable::mark`]) is dropped: refused at the push, or, where the wait
//! decides ([`CoDel`]), handed out by the pop as [doomed](Entry::doomed), so
//! that every entry comes out of a queue somewhere and none inside it.
//! Source: RFC 3168 §5 (mark instead of drop); DCTCP, SIGCOMM '10 §3.1 (a
//! threshold on what waits now).

use super::{CoDel, Discipline, EcnMarkable, Entry, PushResult, Red, StarvationBound};
use crate::{Bytes, Time};

/// How much waits, in entries or in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueLength {
    /// So many entries.
    Entries(u64),
    /// So many bytes.
    Bytes(u64),
}

impl QueueLength {
    /// The number.
    #[must_use]
    pub const fn amount(self) -> u64 {
        match self {
            Self::Entries(amount) | Self::Bytes(amount) => amount,
        }
    }

    /// Whether both are entries, or both bytes.
    #[must_use]
    pub const fn same_unit(self, other: Self) -> bool {
        matches!((self, other), (Self::Entries(_), Self::Entries(_)) | (Self::Bytes(_), Self::Bytes(_)))
    }

    /// `entries` entries of `bytes` bytes together, in the unit of this.
    #[must_use]
    pub const fn measure(self, entries: u64, bytes: u64) -> u64 {
        match self {
            Self::Entries(_) => entries,
            Self::Bytes(_) => bytes,
        }
    }
}

/// When a queue is too long.
#[derive(Clone, Debug)]
pub enum Aqm {
    /// When, with the arrival, more than this waits. Who cannot be marked stays.
    Above(QueueLength),
    /// As the average length says.
    Red(Box<Red>),
    /// As the wait says of those who leave; of a queue in order of arrival.
    CoDel(CoDel),
}

/// A queue, and who says when it is too long.
///
/// Starvation: that of the queue.
#[derive(Clone, Debug)]
pub struct AqmQueue<D> {
    queue: D,
    manager: Aqm,
    /// What waits.
    bytes: u64,
}

impl<D> AqmQueue<D> {
    /// Looks after `queue`, which is empty.
    #[must_use]
    pub const fn new(queue: D, manager: Aqm) -> Self {
        Self { queue, manager, bytes: 0 }
    }
}

impl<D> AqmQueue<D> {
    /// Tells `entry`, which comes at `now`, if the queue is too long; whether
    /// it may come in.
    fn admits<T: EcnMarkable>(&mut self, now: Time, entry: &mut T) -> bool
    where
        D: Discipline<T>,
    {
        let (entries, bytes) = (self.queue.len() as u64, self.bytes);
        match &mut self.manager {
            Aqm::Above(most) => {
                if most.measure(entries + 1, bytes + entry.bytes().get()) > most.amount() {
                    entry.mark();
                }
                true
            }
            Aqm::Red(red) => !red.hits(now, entries, bytes) || entry.mark(),
            Aqm::CoDel(_) => true,
        }
    }

    fn count<T: Entry>(&mut self, bytes: Bytes, outcome: PushResult<T>) -> PushResult<T> {
        match &outcome {
            PushResult::Queued => self.bytes += bytes.get(),
            PushResult::PushedOut(gone) => self.bytes = self.bytes + bytes.get() - gone.bytes().get(),
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
        let pushed = if matches!(self.manager, Aqm::CoDel(_)) { self.queue.oldest() } else { None };
        let mut entry = self.queue.pop(now)?;
        self.bytes -= entry.bytes().get();
        match &mut self.manager {
            Aqm::CoDel(codel) => {
                let waited = now.since(pushed.unwrap_or(now));
                if codel.hits(now, waited, Bytes::new(self.bytes)) && !entry.mark() {
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
        match self.manager {
            Aqm::Above(most) => {
                most.measure(1, entry.bytes().get()) <= most.amount() && self.queue.passes(entry)
            }
            Aqm::Red(_) | Aqm::CoDel(_) => false,
        }
    }

    fn evict(&mut self, now: Time) -> Option<T> {
        let gone = self.queue.evict(now)?;
        self.bytes -= gone.bytes().get();
        Some(gone)
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
