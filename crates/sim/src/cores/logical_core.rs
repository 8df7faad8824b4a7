//! Logical core: its task, state and speed.

use queueing::Time;
use sched::cores::{Sample, TaskId};

use super::task::Request;

/// State of a logical core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LogicalCoreState {
    /// Idle; the siblings have the physical core to themselves.
    Idle,
    /// Context switch.
    Switching,
    /// The LC task polls for work.
    Spinning,
    /// Serves a request.
    Serving,
    /// Runs a BE thread.
    Working,
}

/// Logical core (hyperthread).
#[derive(Clone, Debug)]
pub(super) struct LogicalCore {
    pub holder: Option<TaskId>,
    /// True if the task keeps the core without work.
    pub keep: bool,
    /// True if the kernel schedules the core.
    pub shared: bool,
    pub state: LogicalCoreState,
    /// Generation of the scheduled event; events of older generations are stale.
    pub generation: u32,
    pub request: Option<Request>,
    /// Start of service on this core.
    pub service_start: Time,
    /// Time up to which work and traffic are accounted.
    pub accounted_until: Time,
    /// Speed, 1 on an otherwise idle machine.
    pub speed: f64,
    /// DRAM traffic, bytes per ns.
    pub rate: f64,
    /// DRAM traffic so far, bytes.
    pub bytes_moved: f64,
    pub yielded: Option<TaskId>,
    pub sample: Option<Sample>,
}

/// Bytes of a cache line: traffic per miss.
pub(super) const LINE: f64 = 64.0;

impl LogicalCore {
    pub const fn new() -> Self {
        Self {
            holder: None,
            keep: false,
            shared: false,
            state: LogicalCoreState::Idle,
            generation: 0,
            request: None,
            service_start: Time::ZERO,
            accounted_until: Time::ZERO,
            speed: 1.0,
            rate: 0.0,
            bytes_moved: 0.0,
            yielded: None,
            sample: None,
        }
    }

    /// Task that uses the physical core.
    pub fn active(&self) -> Option<TaskId> {
        self.holder.filter(|_| matches!(self.state, LogicalCoreState::Serving | LogicalCoreState::Working))
    }

    /// Accounts work and traffic up to `now`; returns the work done, in ns.
    pub fn account(&mut self, now: Time) -> f64 {
        let span_ns = now.since(self.accounted_until).as_nanos() as f64;
        self.accounted_until = now;
        if self.active().is_none() {
            return 0.0;
        }
        self.bytes_moved += span_ns * self.rate;
        let work_ns = span_ns * self.speed;
        if let Some(request) = &mut self.request {
            request.left_ns = (request.left_ns - work_ns).max(0.0);
        }
        work_ns
    }

    /// Cache miss counter.
    pub fn misses(&self) -> u64 {
        (self.bytes_moved / LINE) as u64
    }
}
