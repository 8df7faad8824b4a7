//! The slowest requests, each whole: where a histogram says what was waited at
//! a stage, this says which request waited where.
//!
//! A shard keeps the few slowest since it was asked last ([`Slowest`]), so the
//! cost of a request that is none of them is a comparison, and the memory is
//! bounded by [`Limits`]. What a request says of itself ([`RequestAttributes`]) is read only
//! when it is kept, or while its response waits for room.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use std::fmt;
use std::net::SocketAddr;

use queueing::{Label, Priority, PrioritySet, Span, Time};

use super::Job;
use crate::app::{RequestAttributes, Stages};

/// Names of the stages of [`Slow::stages`], in order: [`STAGES`](super::STAGES)
/// and the way out.
pub const PASSAGE: [&str; 5] = ["nic", "tcp", "event", "service", "transmit"];

/// Which requests are kept whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Those that took so long, or longer.
    pub over: Span,
    /// The slowest of them, so many from one look to the next; 0: none.
    pub most: usize,
    /// Those that are as urgent: beside many that may take long, the few that may not.
    pub levels: PrioritySet,
}

impl Default for Limits {
    /// None.
    fn default() -> Self {
        Self { over: Span::ZERO, most: 0, levels: PrioritySet::ALL }
    }
}

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// TCP took the last byte of the response, or the network a datagram's.
    Answered,
    /// Its connection was gone before that.
    Gone,
    /// The application panicked.
    Failed,
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Answered => "answered",
            Self::Gone => "gone",
            Self::Failed => "failed",
        })
    }
}

/// Whose a request is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Side {
    /// A peer's, that is served here.
    #[default]
    Served,
    /// A program's of this machine, that is served there.
    Called(SocketAddr),
}

/// One request, from its beginning to its end. Its stages follow each other
/// without a gap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slow {
    /// Whose it is.
    pub side: Side,
    /// Its label, as it was when a worker took it.
    pub label: Label,
    /// When the device stamped the segment that completed it; of one that is
    /// called, when TCP was given its first byte.
    pub begun: Time,
    /// How long it was at each stage of [`PASSAGE`]. `service` begins when a
    /// worker is given the request and ends when the shard has it back;
    /// `transmit` is the wait for room in the send buffer, until TCP has the
    /// last byte. Of one that is called, `transmit` comes first, and `service`
    /// is the peer's and the way there and back; the others are those of what
    /// its answer begins with.
    pub stages: [Span; PASSAGE.len()],
    /// The part of `service` that was the application's.
    pub app: Span,
    /// Length of the request in bytes.
    pub request: usize,
    /// Length of the response in bytes.
    pub response: usize,
    /// How it ended.
    pub end: End,
    /// What it says of itself.
    pub told: RequestAttributes,
}

impl Slow {
    /// How long it took: all stages together.
    #[must_use]
    pub fn total(&self) -> Span {
        self.stages.into_iter().sum()
    }

    /// Its stages one after the other, with their names.
    pub fn passage(&self) -> impl Iterator<Item = (&'static str, Span)> + use<> {
        let order = match self.side {
            Side::Served => [0, 1, 2, 3, 4],
            Side::Called(_) => [4, 3, 0, 1, 2],
        };
        let stages = self.stages;
        order.into_iter().map(move |stage| (PASSAGE[stage], stages[stage]))
    }
}

/// The slowest requests since the last look.
#[derive(Clone, Debug, Default)]
pub struct Slowest {
    limits: Limits,
    /// The first to go is on top.
    kept: BinaryHeap<Reverse<Ranked>>,
    offered: u64,
    left_out: u64,
}

/// Ranked by how long it took; of equals the earlier one is slower.
#[derive(Clone, Debug)]
struct Ranked {
    total: Span,
    order: Reverse<u64>,
    slow: Slow,
}

impl Slowest {
    /// Nobody yet.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        Self { limits, ..Self::default() }
    }

    /// Which are kept.
    #[must_use]
    pub const fn limits(&self) -> Limits {
        self.limits
    }

    /// Changes which are kept from now on.
    pub fn set_limits(&mut self, limits: Limits) {
        self.limits = limits;
    }

    /// Whether any are kept.
    #[inline]
    #[must_use]
    pub const fn is_on(&self) -> bool {
        self.limits.most > 0
    }

    /// Keeps what `make` gives if `total` is long enough; who has to go for it,
    /// and who is not kept though he took [`Limits::over`], is left out.
    #[inline]
    pub fn offer(&mut self, level: Priority, total: Span, make: impl FnOnce() -> Slow) {
        if !self.is_on() || total < self.limits.over || !self.limits.levels.contains(level) {
            return;
        }
        if self.kept.len() >= self.limits.most {
            self.left_out += 1;
            if self.kept.peek().is_some_and(|Reverse(least)| least.total >= total) {
                return;
            }
            self.kept.pop();
        }
        self.offered += 1;
        self.kept.push(Reverse(Ranked { total, order: Reverse(self.offered), slow: make() }));
    }

    /// Takes those that are kept, the slowest first.
    pub fn take(&mut self) -> Vec<Slow> {
        let sorted = std::mem::take(&mut self.kept).into_sorted_vec();
        sorted.into_iter().map(|Reverse(ranked)| ranked.slow).collect()
    }

    /// Requests that took [`Limits::over`] or longer and are not kept, as
    /// others were slower.
    #[must_use]
    pub const fn left_out(&self) -> u64 {
        self.left_out
    }

    /// Forgets everybody; limits stay.
    pub fn clear(&mut self) {
        self.kept.clear();
        (self.offered, self.left_out) = (0, 0);
    }
}

impl PartialEq for Ranked {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Ranked {}

impl PartialOrd for Ranked {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Ranked {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.total, self.order).cmp(&(other.total, other.order))
    }
}

/// A request that a worker has served and that may yet be slow.
#[derive(Clone, Copy, Debug)]
pub(super) struct ServedRequest {
    label: Label,
    stages: Stages,
    given: Time,
    served: Time,
    app: Span,
    request: usize,
    response: usize,
}

impl ServedRequest {
    /// How urgent it was.
    pub(super) const fn level(&self) -> Priority {
        self.label.priority
    }

    /// `job`, which a worker got at `given` and the shard has back at `now`.
    pub(super) fn new(now: Time, given: Time, job: &Job) -> Self {
        Self {
            label: job.label,
            stages: job.stages,
            given,
            served: now,
            app: job.service,
            request: job.request.len(),
            response: job.response_len(),
        }
    }

    /// How long it took until `now`.
    pub(super) fn total(&self, now: Time) -> Span {
        let Stages { nic, tcp, event } = self.stages;
        nic + tcp + event + now.since(self.given)
    }

    /// The same as a whole, ended at `now`.
    pub(super) fn until(&self, now: Time, end: End, told: RequestAttributes) -> Slow {
        let Stages { nic, tcp, event } = self.stages;
        let waited = nic + tcp + event;
        let service = self.served.since(self.given);
        Slow {
            side: Side::Served,
            label: self.label,
            begun: Time::from_nanos(self.given.as_nanos().saturating_sub(waited.as_nanos())),
            stages: [nic, tcp, event, service, now.since(self.served)],
            app: self.app,
            request: self.request,
            response: self.response,
            end,
            told,
        }
    }
}

#[cfg(test)]
mod tests;
