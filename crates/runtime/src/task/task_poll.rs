//! One poll of one task, for any thread.
//!
//! The shard selects the task; the poll itself needs nothing of the shard. Meanwhile the shard can
//! go on elsewhere: on a spare thread after a long poll ([`Quantum`](super::Quantum)), or on its own
//! while another shard's idle thread runs the poll. The result goes back as a [`PolledTask`].
//!
//! A panic ends only the task that panics, and is counted.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::task::{Context, Waker};

use queueing::Priority;

use super::control_block::{Body, Task};
use super::current::{self, Running};
use super::handle::Shared;
use super::state::WakeAction;

/// A task selected for a poll. If dropped, the task never runs again.
#[must_use]
pub struct TaskPoll {
    pub(super) task: Arc<Task>,
    pub(super) priority: Priority,
}

/// A finished poll, to be given to [`TaskShard::finish_poll`](super::TaskShard::finish_poll) or
/// [`PolledTask::return_home`].
#[must_use]
pub struct PolledTask {
    task: Arc<Task>,
    ended: bool,
    panicked: bool,
}

impl TaskPoll {
    /// Level at which the task was queued.
    #[must_use]
    pub fn priority(&self) -> Priority {
        self.priority
    }

    /// True if the task belongs to the shard of `home`.
    pub(super) fn is_of(&self, home: &Arc<Shared>) -> bool {
        Arc::ptr_eq(&self.task.home, home)
    }

    /// Polls the task.
    pub fn run(self) -> PolledTask {
        let task = self.task;
        let Some(mut body) = task.take_body() else {
            return PolledTask { task, ended: false, panicked: false };
        };
        let waker = Waker::from(task.clone());
        let running = current::enter(Running { task: task.clone(), waker: waker.clone() });
        let mut cx = Context::from_waker(&waker);
        let polled = catch_unwind(AssertUnwindSafe(|| body.as_mut().poll(&mut cx).is_pending()));
        if let Ok(true) = polled {
            task.put_body(body);
            if task.home.has_ended() {
                // The shard has dropped all other tasks.
                if let Some(body) = task.take_body() {
                    dropped(body);
                    task.state.end();
                    task.home.on_end();
                }
                drop(running);
                return PolledTask { task, ended: false, panicked: false };
            }
            drop(running);
            if task.state.pause() == WakeAction::Queue {
                // Queued after the tasks that it woke itself.
                task.home.enqueue(task.clone());
            }
            return PolledTask { task, ended: false, panicked: false };
        }
        let dropped = dropped(body);
        drop(running);
        task.state.end();
        task.home.on_end();
        PolledTask { task, ended: true, panicked: polled.is_err() || !dropped }
    }
}

impl PolledTask {
    /// The task, if it has ended, and whether by a panic.
    pub(super) fn ended(self) -> Option<(Arc<Task>, bool)> {
        self.ended.then_some((self.task, self.panicked))
    }

    /// Returns the poll to its shard's inject queue, for use by threads that do not hold the shard.
    pub fn return_home(self) {
        if self.ended {
            let home = self.task.home.clone();
            home.return_polled(self);
        }
    }
}

/// Drops a task's future; `false` if that panicked.
pub(super) fn dropped(body: Body) -> bool {
    catch_unwind(AssertUnwindSafe(|| drop(body))).is_ok()
}
