//! Current task of this thread.

use std::cell::RefCell;
use std::sync::Arc;
use std::task::Waker;

use super::control_block::Task;
use super::handle::Shared;

/// A task and its own waker.
pub(crate) struct Running {
    pub task: Arc<Task>,
    pub waker: Waker,
}

thread_local! {
    static CURRENT: RefCell<Option<Running>> = const { RefCell::new(None) };
}

/// Guard for the time in which a task runs on this thread.
pub(crate) struct Entered(Option<Running>);

/// Sets `running` as the current task.
pub(crate) fn enter(running: Running) -> Entered {
    Entered(CURRENT.with_borrow_mut(|current| current.replace(running)))
}

impl Drop for Entered {
    fn drop(&mut self) {
        let before = self.0.take();
        let over = CURRENT.with_borrow_mut(|current| std::mem::replace(current, before));
        drop(over);
    }
}

/// Result of `ask` on the current task, if any.
pub(crate) fn with<R>(ask: impl FnOnce(&Running) -> R) -> Option<R> {
    CURRENT.with_borrow(|current| current.as_ref().map(ask))
}

/// Shared state of the current task's shard.
pub(crate) fn shared() -> Option<Arc<Shared>> {
    with(|running| running.task.home.clone())
}
