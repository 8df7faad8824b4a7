//! Slow-request log: the slowest requests, each with its time at every stage.
//!
//! Histograms show the waits of a stage; this shows one request at all stages. A shard keeps the
//! few slowest since the last query ([`Slowest`]): any other request costs one comparison, and
//! [`SlowRequestLimits`] bounds the memory. A request's attributes ([`RequestAttributes`]) are parsed only if
//! it is recorded, or while its response waits for space.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use std::fmt;
use std::net::SocketAddr;

use queueing::{Label, Priority, PrioritySet, Span, Time};

use super::Job;
use crate::app::{RequestAttributes, Stages};

/// Names of the stages of [`Slow::stages`], in order: [`STAGES`](super::STAGES) and transmission.
pub const STAGE_NAMES: [&str; 5] = ["nic", "tcp", "event", "service", "transmit"];

/// Criteria for recording a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlowRequestLimits {
    /// Minimum total time.
    pub over: Span,
    /// Maximum of requests between two queries; 0: none.
    pub most: usize,
    /// Recorded levels, e.g. only urgent ones beside many slow others.
    pub levels: PrioritySet,
}

impl Default for SlowRequestLimits {
    /// None.
    fn default() -> Self {
        Self { over: Span::ZERO, most: 0, levels: PrioritySet::ALL }
    }
}

/// End of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestEnd {
    /// TCP took the last byte of the response, or the network a datagram's.
    Answered,
    /// The connection was gone before that.
    Gone,
    /// The application panicked.
    Failed,
}

impl fmt::Display for RequestEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Answered => "answered",
            Self::Gone => "gone",
            Self::Failed => "failed",
        })
    }
}

/// Side of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Side {
    /// A peer's request, served here.
    #[default]
    Served,
    /// A request of a program on this machine, served at this address.
    Called(SocketAddr),
}

/// One request from beginning to end. Its stages follow each other without a gap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slow {
    /// Served or called.
    pub side: Side,
    /// Label when a worker took it.
    pub label: Label,
    /// Device timestamp of the segment that completed it; for a called one, the time at which TCP
    /// got its first byte.
    pub begun: Time,
    /// Time at each stage of [`STAGE_NAMES`]. `service` begins when a worker is given the request and
    /// ends when the shard has it back. `transmit` is the wait for space in the send buffer, until
    /// TCP has the last byte. For a called request, `transmit` comes first, `service` is the peer's
    /// time and the round trip, and the other stages are those of the first bytes of its answer.
    pub stages: [Span; STAGE_NAMES.len()],
    /// The application's part of `service`.
    pub app: Span,
    /// Length of the request in bytes.
    pub request: usize,
    /// Length of the response in bytes.
    pub response: usize,
    /// End of the request.
    pub end: RequestEnd,
    /// Attributes of the request.
    pub attributes: RequestAttributes,
}

impl Slow {
    /// Total time over all stages.
    #[must_use]
    pub fn total(&self) -> Span {
        self.stages.into_iter().sum()
    }

    /// Stages in order of time, with their names.
    pub fn passage(&self) -> impl Iterator<Item = (&'static str, Span)> + use<> {
        let order = match self.side {
            Side::Served => [0, 1, 2, 3, 4],
            Side::Called(_) => [4, 3, 0, 1, 2],
        };
        let stages = self.stages;
        order.into_iter().map(move |stage| (STAGE_NAMES[stage], stages[stage]))
    }
}

/// The slowest requests since the last query.
#[derive(Clone, Debug, Default)]
pub struct Slowest {
    limits: SlowRequestLimits,
    /// Heap of the recorded requests, the least slow on top.
    kept: BinaryHeap<Reverse<Ranked>>,
    offered: u64,
    left_out: u64,
}

/// A request ranked by total time; of equals the earlier one ranks as slower.
#[derive(Clone, Debug)]
struct Ranked {
    total: Span,
    order: Reverse<u64>,
    slow: Slow,
}

impl Slowest {
    /// An empty log.
    #[must_use]
    pub fn new(limits: SlowRequestLimits) -> Self {
        Self { limits, ..Self::default() }
    }

    /// Criteria for recording.
    #[must_use]
    pub const fn limits(&self) -> SlowRequestLimits {
        self.limits
    }

    /// Changes the criteria from now on.
    pub fn set_limits(&mut self, limits: SlowRequestLimits) {
        self.limits = limits;
    }

    /// True if recording is on.
    #[inline]
    #[must_use]
    pub const fn is_on(&self) -> bool {
        self.limits.most > 0
    }

    /// Records the result of `make` if `total` is among the slowest. A replaced request, or one of
    /// at least [`SlowRequestLimits::over`] that is not recorded, counts as left out.
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

    /// Takes the recorded requests, the slowest first.
    pub fn take(&mut self) -> Vec<Slow> {
        let sorted = std::mem::take(&mut self.kept).into_sorted_vec();
        sorted.into_iter().map(|Reverse(ranked)| ranked.slow).collect()
    }

    /// Requests of at least [`SlowRequestLimits::over`] that were left out for slower ones.
    #[must_use]
    pub const fn left_out(&self) -> u64 {
        self.left_out
    }

    /// Clears the log; the limits stay.
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

/// A served request that may turn out slow.
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
    /// Priority level.
    pub(super) const fn level(&self) -> Priority {
        self.label.priority
    }

    /// Request of `job`, assigned at `given` and returned at `now`.
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

    /// Total time until `now`.
    pub(super) fn total(&self, now: Time) -> Span {
        let Stages { nic, tcp, event } = self.stages;
        nic + tcp + event + now.since(self.given)
    }

    /// Full record, ended at `now`.
    pub(super) fn until(&self, now: Time, end: RequestEnd, attributes: RequestAttributes) -> Slow {
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
            attributes,
        }
    }
}

#[cfg(test)]
mod tests;
