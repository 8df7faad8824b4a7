//! Counters and waiting-time histograms of a shard.

use net::buffer_pool::PoolStats;
use net::driver::DriverCounters;
use queueing::{Histogram, Priority, Span, StageHistograms};
use wire::Malformed;

use super::Job;
use super::slow_requests::Slowest;
use crate::app::Stages;
use crate::pipeline::Shed;

/// Event counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Driver stage: frames, verdicts, drops.
    pub driver: DriverCounters,
    /// SYNs at the guard, by the level of their class.
    pub guard: [Shed; Priority::LEVELS],
    /// Connections accepted or opened.
    pub accepted: u64,
    /// Datagrams that left their socket for the event queue.
    pub datagrams: u64,
    /// Connections that ended, for any reason.
    pub closed: u64,
    /// Requests assigned to workers.
    pub requests: u64,
    /// Responses passed to the transport in full.
    pub responses: u64,
    /// Responses to datagrams dropped because too many were queued or there is no route to the
    /// sender.
    pub unsent: u64,
    /// Incomplete requests found on an attempt to assign.
    pub partial: u64,
    /// Tasks skipped because of a more urgent copy or the end of the connection.
    pub stale: u64,
    /// Tasks that found the event queue full; none is lost.
    pub queue_full: u64,
    /// Connections reset, and datagrams dropped, because their bytes never become a request.
    pub invalid: u64,
    /// Connections reset because an incomplete request filled the receive buffer.
    pub oversized: u64,
    /// Connections closed by the peer in the middle of a request.
    pub truncated: u64,
    /// Responses dropped because the connection was gone.
    pub late: u64,
    /// Connections reset for memory, as the ones whose responses had made no progress for the
    /// longest time.
    pub unread: u64,
    /// Panics of the application; the connection was reset where one request caused it.
    pub panics: u64,
    /// Connections reset by us, for any reason.
    pub aborted: u64,
}

/// Counters and histograms of one shard.
#[derive(Clone, Debug)]
pub struct Stats {
    /// Event counters.
    pub counters: Counters,
    /// Waiting times by priority level (class) and stage (`nic`, `tcp`, `event`, `service`).
    pub stages: StageHistograms,
    /// Wait of the oldest at each evaluation of the guard.
    pub delay: Histogram,
    /// Remaining budget (`App::budget`) when a worker took the request, by class and [`HOPS`]; zero
    /// if late. Recorded only with a guard, or once a snapshot was taken
    /// ([`Shard::show`](super::Shard::show)).
    pub left: StageHistograms,
    /// Slowest requests since the last snapshot ([`Shard::show`](super::Shard::show)); none if
    /// [`Config::slow`](super::Config::slow) is off.
    pub slow: Slowest,
    /// Use of the buffer pools; set at the end ([`Shard::into_stats`](super::Shard::into_stats)).
    pub buffers: PoolStats,
    /// Malformed frames by [`Malformed::index`]; set at the end as well.
    pub malformed: [u64; Malformed::ALL.len()],
}

/// Names of the stages in [`Stats::stages`], in order.
pub const STAGES: [&str; 4] = ["nic", "tcp", "event", "service"];
/// Points in a server at which budgets are recorded ([`Stats::left`]).
pub const HOPS: [&str; 1] = ["worker"];

impl Default for Stats {
    fn default() -> Self {
        let levels: Vec<String> = Priority::all().map(|p| p.to_string()).collect();
        let levels: Vec<&str> = levels.iter().map(String::as_str).collect();
        Self {
            counters: Counters::default(),
            stages: StageHistograms::new(&levels, &STAGES),
            delay: Histogram::default(),
            left: StageHistograms::coarse(&levels, &HOPS),
            malformed: [0; Malformed::ALL.len()],
            slow: Slowest::default(),
            buffers: PoolStats::default(),
        }
    }
}

impl Stats {
    /// Clears all, e.g. after a warm-up.
    pub fn clear(&mut self) {
        (self.counters, self.buffers) = (Counters::default(), PoolStats::default());
        self.stages.clear();
        self.delay.clear();
        self.left.clear();
        self.slow.clear();
    }

    /// Adds the waits and budgets of `other`; counters and slow requests stay.
    pub fn merge_spans(&mut self, other: &Self) {
        self.stages.merge(&other.stages);
        self.delay.merge(&other.delay);
        self.left.merge(&other.left);
    }

    /// Records that a worker takes a request after the waits `stages`.
    pub(super) fn on_given(&mut self, priority: Priority, stages: &Stages) {
        self.counters.requests += 1;
        for (stage, span) in [stages.nic, stages.tcp, stages.event].into_iter().enumerate() {
            self.stages.record(priority.index(), stage, span);
        }
    }

    /// Records the budget of a request of `priority` when a worker takes it.
    pub(super) fn on_budget(&mut self, priority: Priority, left: Span) {
        self.left.record(priority.index(), 0, left);
    }

    /// Records the service time of `job`.
    pub(super) fn on_served(&mut self, job: &Job) {
        self.stages.record(job.label.priority.index(), STAGES.len() - 1, job.service);
    }
}
