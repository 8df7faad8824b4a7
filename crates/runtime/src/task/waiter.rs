//! Waiter of a socket or file.

use std::sync::Arc;
use std::task::{Context, Waker};

use queueing::Priority;

use super::control_block::Task;
use super::current;

/// A task, or any other waker.
///
/// A task that waits directly is woken at the level of the event. A future inside a combinator with
/// wakers of its own is woken through those; its task is then queued at its own label or the
/// event's level, whichever is more urgent.
#[derive(Clone)]
pub(crate) struct Waiter {
    task: Option<Arc<Task>>,
    /// `None` for the task's own waker.
    waker: Option<Waker>,
}

impl Waiter {
    pub fn new(cx: &Context<'_>) -> Self {
        let running = current::with(|running| (running.task.clone(), running.waker.will_wake(cx.waker())));
        match running {
            Some((task, true)) => Self { task: Some(task), waker: None },
            other => Self { task: other.map(|(task, _)| task), waker: Some(cx.waker().clone()) },
        }
    }

    /// Wakes the waiter for an event at `level`.
    pub fn wake(self, level: Priority) {
        if let Some(task) = self.task {
            task.wake_at(level);
        }
        if let Some(waker) = self.waker {
            waker.wake();
        }
    }
}

/// Waiters to wake once no lock is held.
pub(crate) type Woken = Vec<(Waiter, Priority)>;
