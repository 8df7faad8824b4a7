//! A logical core: who has it, what it does, how fast.

use queueing::Time;
use sched::cores::{Sample, TaskId};

use super::task::Request;

/// What a lane is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LogicalCoreState {
    /// Nothing, in an idle state that leaves the physical core to its siblings.
    Nothing,
    /// It is being handed over.
    Switching,
    /// Its LC task looks for work.
    Spinning,
    /// A request.
    Serving,
    /// A thread of BE.
    Working,
}

/// A lane.
#[derive(Clone, Debug)]
pub(super) struct LogicalCore {
    pub holder: Option<TaskId>,
    /// Whether the holder keeps it without work.
    pub keep: bool,
    /// Whether the kernel divides it.
    pub shared: bool,
    pub doing: LogicalCoreState,
    /// Counts what was planned for it, so that plans that no longer count are known.
    pub turn: u32,
    pub request: Option<Request>,
    /// When the request was taken up here.
    pub began: Time,
    /// Until when the following is up to date.
    pub touched: Time,
    /// Work per time, 1 on a machine of its own.
    pub speed: f64,
    /// Bytes per ns to and from DRAM.
    pub rate: f64,
    /// Bytes so far.
    pub moved: f64,
    pub yielded: Option<TaskId>,
    pub sample: Option<Sample>,
}

/// Bytes of a cache line: what one miss moves.
pub(super) const LINE: f64 = 64.0;

impl LogicalCore {
    pub const fn new() -> Self {
        Self {
            holder: None,
            keep: false,
            shared: false,
            doing: LogicalCoreState::Nothing,
            turn: 0,
            request: None,
            began: Time::ZERO,
            touched: Time::ZERO,
            speed: 1.0,
            rate: 0.0,
            moved: 0.0,
            yielded: None,
            sample: None,
        }
    }

    /// The task that uses the physical core's means from here.
    pub fn active(&self) -> Option<TaskId> {
        self.holder.filter(|_| matches!(self.doing, LogicalCoreState::Serving | LogicalCoreState::Working))
    }

    /// Brings its books up to `now`; the work that was done.
    pub fn touch(&mut self, now: Time) -> f64 {
        let span_ns = now.since(self.touched).as_nanos() as f64;
        self.touched = now;
        if self.active().is_none() {
            return 0.0;
        }
        self.moved += span_ns * self.rate;
        let work_ns = span_ns * self.speed;
        if let Some(request) = &mut self.request {
            request.left_ns = (request.left_ns - work_ns).max(0.0);
        }
        work_ns
    }

    /// Its miss counter.
    pub fn misses(&self) -> u64 {
        (self.moved / LINE) as u64
    }
}
