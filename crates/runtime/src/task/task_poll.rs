//! One turn of one task, to be taken by any thread.
//!
//! Whose turn it is a shard says; taking it needs nothing of the shard. So
//! while a turn is being taken the shard can go on elsewhere: on a spare thread,
//! should it be a long one, or beside another shard's thread that has nothing
//! else to do. What is over comes back as [`PolledTask`].
//!
//! A task that panics ends, alone, and is counted.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::task::{Context, Waker};

use queueing::Priority;

use super::control_block::{Body, Task};
use super::current::{self, Running};
use super::handle::Shared;
use super::state::WakeAction;

/// A task whose turn it is. One that is not taken is a task that waits for
/// ever.
#[must_use]
pub struct TaskPoll {
    pub(super) task: Arc<Task>,
    pub(super) priority: Priority,
}

/// A turn that was taken; [`TaskShard::take_back`](super::TaskShard::take_back)
/// wants it, or [`PolledTask::leave`].
#[must_use]
pub struct PolledTask {
    task: Arc<Task>,
    ended: bool,
    panicked: bool,
}

impl TaskPoll {
    /// The level at which the task waited.
    #[must_use]
    pub fn priority(&self) -> Priority {
        self.priority
    }

    /// Whether it is a task of this shard.
    pub(super) fn is_of(&self, home: &Arc<Shared>) -> bool {
        Arc::ptr_eq(&self.task.home, home)
    }

    /// Runs the task until it waits or ends.
    pub fn take(self) -> PolledTask {
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
                // Its shard has dropped the others.
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
                // After those that it woke itself.
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
    /// The task that is over, if it is, and whether by a panic.
    pub(super) fn ended(self) -> Option<(Arc<Task>, bool)> {
        self.ended.then_some((self.task, self.panicked))
    }

    /// Leaves it for its shard, which somebody else has.
    pub fn leave(self) {
        if self.ended {
            let home = self.task.home.clone();
            home.leave(self);
        }
    }
}

/// Drops what a task ran; `false` when that panicked.
pub(super) fn dropped(body: Body) -> bool {
    catch_unwind(AssertUnwindSafe(|| drop(body))).is_ok()
}
