//! The task that runs on this thread, if one does.

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

/// Until this is dropped, a task runs on this thread.
pub(crate) struct Entered(Option<Running>);

/// `running` begins to run.
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

/// What `ask` finds out about the task that runs, if one does.
pub(crate) fn with<R>(ask: impl FnOnce(&Running) -> R) -> Option<R> {
    CURRENT.with_borrow(|current| current.as_ref().map(ask))
}

/// What its shard shares.
pub(crate) fn shared() -> Option<Arc<Shared>> {
    with(|running| running.task.home.clone())
}
