//! Who waits at a socket.

use std::sync::Arc;
use std::task::{Context, Waker};

use queueing::Priority;

use super::control_block::Task;
use super::current;

/// A task, or whatever else knows how to be woken.
///
/// A task that waits itself is woken as urgently as what came. What waits
/// inside a combinator with wakers of its own is woken through those, and then
/// its task waits at its own label, or as urgently as what came, if that is more.
#[derive(Clone)]
pub(crate) struct Waiter {
    task: Option<Arc<Task>>,
    /// `None` where it is the task's own.
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

    /// Wakes it for something that is as urgent as `level`.
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
