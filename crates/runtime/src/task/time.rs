//! Sleeps and timeouts of tasks.

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};

use queueing::{Span, Time};

use super::Handle;
use super::handle::{Shared, lock};
use super::timers::Until;

/// Waits for `span`, and up to a tick of the timer wheel (1 µs) longer; see [`Handle::sleep`].
///
/// # Panics
/// If called outside a task.
pub fn sleep(span: Span) -> Sleep {
    Handle::current().sleep(span)
}

/// Waits until `at`; see [`sleep`].
///
/// # Panics
/// If called outside a task.
pub fn sleep_until(at: Time) -> Sleep {
    Handle::current().sleep_until(at)
}

/// Result of `future`, or [`Elapsed`] after `span`.
///
/// # Errors
/// [`Elapsed`]; `future` is dropped then.
///
/// # Panics
/// If called outside a task.
pub async fn timeout<F: Future>(span: Span, future: F) -> Result<F::Output, Elapsed> {
    let (mut future, mut sleep) = (pin!(future), sleep(span));
    poll_fn(|cx| match future.as_mut().poll(cx) {
        Poll::Ready(output) => Poll::Ready(Ok(output)),
        Poll::Pending => Pin::new(&mut sleep).poll(cx).map(|()| Err(Elapsed)),
    })
    .await
}

/// Yields to tasks that are at least as urgent.
pub async fn yield_now() {
    let mut yielded = false;
    poll_fn(|cx| {
        if std::mem::replace(&mut yielded, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// Error of a timeout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Elapsed;

impl fmt::Display for Elapsed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("timeout")
    }
}

impl std::error::Error for Elapsed {}

impl Handle {
    /// Waits for `span`, counted from the end of the step of its first poll.
    pub fn sleep(&self, span: Span) -> Sleep {
        Sleep::new(self, Until::In(span))
    }

    /// Waits until `at`.
    pub fn sleep_until(&self, at: Time) -> Sleep {
        Sleep::new(self, Until::At(at))
    }
}

/// Future of a sleep; starts at its first poll.
#[must_use = "futures do nothing unless awaited"]
pub struct Sleep {
    home: Arc<Shared>,
    until: Until,
    index: Option<u32>,
    over: bool,
}

impl Sleep {
    fn new(handle: &Handle, until: Until) -> Self {
        Self { home: handle.0.clone(), until, index: None, over: false }
    }

    fn give_up(&mut self) {
        if let Some(index) = self.index.take() {
            let waker = lock(&self.home.timers).give_up(index);
            drop(waker);
        }
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if self.over {
            return Poll::Ready(());
        }
        let Some(index) = self.index else {
            let index = lock(&self.home.timers).begin(self.until, cx.waker().clone());
            self.index = Some(index);
            self.home.notify();
            return Poll::Pending;
        };
        let polled = lock(&self.home.timers).poll(index, cx.waker());
        // The previous waker, if any, is dropped without the lock.
        if polled.is_err() {
            return Poll::Pending;
        }
        self.give_up();
        self.over = true;
        Poll::Ready(())
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        self.give_up();
    }
}
