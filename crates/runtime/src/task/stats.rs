//! Step results and counters of a task shard.

use net::driver::DriverCounters;
use queueing::{Priority, Time};

use super::task_poll::TaskPoll;
use crate::pipeline::Shed;

/// Work done in one step, so that the simulator can charge for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskStep {
    /// Moved a frame from the device, classified, into the receive buffer.
    Drive {
        /// True if a classifier was called.
        classified: bool,
        /// True if the guard shed the frame; it is in no buffer.
        shed: bool,
    },
    /// Ran one frame through TCP.
    Transport {
        /// True if the frame carried payload.
        payload: bool,
    },
    /// Woke a task whose request on a file is finished.
    Complete,
    /// Polled a task.
    Poll {
        /// Level at which the task was queued.
        priority: Priority,
    },
    /// Submitted requests on files to the disk.
    Submit {
        /// Number of requests.
        requests: usize,
    },
    /// Transmitted frames.
    Transmit {
        /// Number of frames.
        frames: usize,
    },
    /// Nothing to do before `poll_timeout`, the next frame or the next wake-up.
    Idle,
}

/// Result of [`TaskShard::next`](super::TaskShard::next).
pub enum Next {
    /// Work that the shard has done.
    Done(TaskStep),
    /// A poll for the caller to run and to [give back](super::TaskShard::finish_poll); the shard can
    /// go on meanwhile.
    Poll(TaskPoll),
}

/// Event counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Driver stage: frames, verdicts, drops.
    pub driver: DriverCounters,
    /// SYNs at the guard, by the level of their class.
    pub guard: [Shed; Priority::LEVELS],
    /// Tasks started.
    pub started: u64,
    /// Tasks ended, by a panic or not.
    pub ended: u64,
    /// Tasks ended by a panic.
    pub panicked: u64,
    /// Tasks refused at the maximum.
    pub refused: u64,
    /// Polls of tasks.
    pub polls: u64,
    /// Polls among these that threads of other shards ran.
    pub stolen: u64,
    /// Handovers to a spare thread because of a long poll.
    pub handed_over: u64,
    /// Connections reset because of a full accept queue.
    pub overflows: u64,
}

/// Start of the oldest wait in each queue, if any.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Oldest {
    /// Receive buffer.
    pub frames: Option<Time>,
    /// Run queue.
    pub tasks: Option<Time>,
    /// End of the next sleep, in the past or future. Each step wakes all that are due.
    pub timers: Option<Time>,
    /// Detection of the oldest completed request on a file whose task has not been woken.
    pub storage: Option<Time>,
}
