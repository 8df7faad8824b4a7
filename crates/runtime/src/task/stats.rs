//! What a shard of tasks says of itself.

use net::driver::DriverCounters;
use queueing::{Priority, Time};

use super::task_poll::TaskPoll;
use crate::pipeline::Shed;

/// What the shard did in one step, so that the simulator can charge for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Took a frame from the device, classified it, put it into the receive buffer.
    Drive {
        /// A classifier was called.
        classified: bool,
        /// The guard shed it, so that it is in no buffer.
        shed: bool,
    },
    /// Ran one frame through TCP.
    Transport {
        /// It carried payload.
        payload: bool,
    },
    /// Let a task run whose request on a file is over.
    Complete,
    /// Polled a task.
    Poll {
        /// The level at which it waited.
        priority: Priority,
    },
    /// Handed requests on files to the disk.
    Submit {
        /// How many.
        requests: usize,
    },
    /// Sent frames.
    Transmit {
        /// How many.
        frames: usize,
    },
    /// Nothing to do before `poll_timeout`, the next frame or the next wake-up.
    Idle,
}

/// What a shard is at.
pub enum Next {
    /// It has done this.
    Done(Step),
    /// This task's turn is to be taken, and to be [taken back](super::TaskShard::take_back)
    /// when it is over; until then the shard can go on.
    Turn(TaskPoll),
}

/// How often each thing happened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// The driver stage: frames, verdicts, drops.
    pub driver: DriverCounters,
    /// SYNs at the guard, by the level of their class.
    pub guard: [Shed; Priority::LEVELS],
    /// Tasks that began.
    pub started: u64,
    /// Tasks that ended, by a panic or not.
    pub ended: u64,
    /// Tasks that a panic ended.
    pub panicked: u64,
    /// Tasks that were not started: as many existed as may.
    pub refused: u64,
    /// Turns that tasks had.
    pub polls: u64,
    /// Of those, taken by threads of other shards.
    pub stolen: u64,
    /// How often the shard went on elsewhere because a turn was a long one.
    pub handed_over: u64,
    /// Connections reset because as many waited to be accepted as may.
    pub overflows: u64,
}

/// Since when the oldest element of each queue waits, where one does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Oldest {
    /// In the receive buffer.
    pub frames: Option<Time>,
    /// In the run queue.
    pub tasks: Option<Time>,
    /// When the next sleep is over: it waits since then, or will. Each step wakes
    /// all of those.
    pub timers: Option<Time>,
    /// Of the requests on files that are over: since when it was seen that one
    /// is whose task has not been let run.
    pub storage: Option<Time>,
}
