//! What a shard counts, and where its requests waited.

use net::buffer_pool::PoolStats;
use net::driver::DriverCounters;
use net::wire::Malformed;
use queueing::{Histogram, Priority, Span, StageHistograms};

use super::Job;
use super::slow_requests::Slowest;
use crate::app::Stages;
use crate::pipeline::Shed;

/// How often each thing happened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// The driver stage: frames, verdicts, drops.
    pub driver: DriverCounters,
    /// SYNs at the guard, by the level of their class.
    pub guard: [Shed; Priority::LEVELS],
    /// Connections that came.
    pub accepted: u64,
    /// Datagrams that left their socket for the event queue.
    pub datagrams: u64,
    /// Connections that ended, for any reason.
    pub closed: u64,
    /// Requests given to workers.
    pub requests: u64,
    /// Responses handed to the transport in full.
    pub responses: u64,
    /// Responses to datagrams that were dropped: too many waited to be sent, or
    /// there is no way to the sender.
    pub unsent: u64,
    /// Looks at a connection whose request was not complete.
    pub partial: u64,
    /// Tasks skipped because a more urgent copy went first or the connection ended.
    pub stale: u64,
    /// Tasks that found the event queue full; none is lost.
    pub queue_full: u64,
    /// Connections reset, and datagrams dropped, because their bytes will never
    /// be a request.
    pub invalid: u64,
    /// Connections reset because a request filled the receive buffer without being complete.
    pub oversized: u64,
    /// Connections whose peer closed in the middle of a request.
    pub truncated: u64,
    /// Responses dropped because their connection was gone.
    pub late: u64,
    /// Connections reset because they took nothing of their response for longer
    /// than others, and memory was full.
    pub unread: u64,
    /// Panics of the application; the connection was reset where one request caused it.
    pub panics: u64,
    /// Connections reset by us, whatever the reason.
    pub aborted: u64,
}

/// Counters and histograms of one shard.
#[derive(Clone, Debug)]
pub struct Stats {
    /// How often each thing happened.
    pub counters: Counters,
    /// How long requests waited, by priority level (class) and stage
    /// (`nic`, `tcp`, `event`, `service`).
    pub stages: StageHistograms,
    /// How long the oldest had waited whenever the guard looked.
    pub delay: Histogram,
    /// What requests that say how long they can wait (`App::budget`) had left
    /// of it when a worker took them, by class and [`HOPS`]; zero for those that
    /// were too late. Looked for only where there is a guard, or where somebody
    /// watches ([`Shard::show`](super::Shard::show)).
    pub left: StageHistograms,
    /// The slowest requests since somebody looked
    /// ([`Shard::show`](super::Shard::show)); none, where
    /// [`Config::slow`](super::Config::slow) wants none.
    pub slow: Slowest,
    /// How often payload that waits needed a buffer; filled in at the end
    /// ([`Shard::into_stats`](super::Shard::into_stats)).
    pub buffers: PoolStats,
    /// Frames that were refused, by [`Malformed::index`]; filled in at the end as well.
    pub malformed: [u64; Malformed::ALL.len()],
}

/// Names of the stages in [`Stats::stages`], in order.
pub const STAGES: [&str; 4] = ["nic", "tcp", "event", "service"];
/// Where in a server budgets are looked at ([`Stats::left`]).
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
    /// Forgets everything, at the end of a warm-up for instance.
    pub fn clear(&mut self) {
        (self.counters, self.buffers) = (Counters::default(), PoolStats::default());
        self.stages.clear();
        self.delay.clear();
        self.left.clear();
        self.slow.clear();
    }

    /// Adds what `other` says of waits and budgets; counters and slow requests
    /// stay as they are.
    pub fn merge_spans(&mut self, other: &Self) {
        self.stages.merge(&other.stages);
        self.delay.merge(&other.delay);
        self.left.merge(&other.left);
    }

    /// A worker takes a request that waited `stages`.
    pub(super) fn on_given(&mut self, priority: Priority, stages: &Stages) {
        self.counters.requests += 1;
        for (stage, span) in [stages.nic, stages.tcp, stages.event].into_iter().enumerate() {
            self.stages.record(priority.index(), stage, span);
        }
    }

    /// A request of `priority` can spare so much when a worker takes it.
    pub(super) fn on_budget(&mut self, priority: Priority, left: Span) {
        self.left.record(priority.index(), 0, left);
    }

    /// A worker has served `job`.
    pub(super) fn on_served(&mut self, job: &Job) {
        self.stages.record(job.label.priority.index(), STAGES.len() - 1, job.service);
    }
}
