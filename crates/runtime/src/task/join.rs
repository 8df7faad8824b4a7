//! Join handle of a task.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use super::handle::lock;

/// Future of a task's result. Dropping it does not stop the task.
pub struct JoinHandle<T>(Arc<Mutex<Outcome<T>>>);

/// Reason why a task has no result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JoinError {
    /// The task panicked.
    Panicked,
    /// The shard ended before the task did.
    Ended,
    /// The maximum of tasks was reached.
    Refused,
}

impl fmt::Display for JoinError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Panicked => "the task panicked",
            Self::Ended => "the task's shard ended before it did",
            Self::Refused => "the task was not started: the limit of tasks is reached",
        })
    }
}

impl std::error::Error for JoinError {}

struct Outcome<T> {
    result: Option<Result<T, JoinError>>,
    /// True once the result was taken; there is no second one.
    taken: bool,
    waiter: Option<Waker>,
}

impl<T> Outcome<T> {
    fn take(&mut self) -> Option<Result<T, JoinError>> {
        let result = self.result.take();
        self.taken |= result.is_some();
        result
    }
}

impl<T> JoinHandle<T> {
    fn new(result: Option<Result<T, JoinError>>) -> Self {
        Self(Arc::new(Mutex::new(Outcome { result, taken: false, waiter: None })))
    }

    pub(crate) fn refused() -> Self {
        Self::new(Some(Err(JoinError::Refused)))
    }

    /// The result, if it is available and not yet taken.
    #[must_use]
    pub fn try_take(&self) -> Option<Result<T, JoinError>> {
        lock(&self.0).take()
    }
}

/// # Panics
/// If polled after it was ready, or after [`JoinHandle::try_take`] took the result: nothing would
/// ever wake such a waiter.
impl<T> Future for JoinHandle<T> {
    type Output = Result<T, JoinError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut outcome = lock(&self.0);
        assert!(!outcome.taken, "a task's join handle was polled after its result was taken");
        if let Some(result) = outcome.take() {
            return Poll::Ready(result);
        }
        let before = outcome.waiter.replace(cx.waker().clone());
        drop(outcome);
        drop(before);
        Poll::Pending
    }
}

/// `future`, which stores its result for the handle.
pub(crate) fn with_handle<T, F: Future<Output = T>>(
    future: F,
) -> (impl Future<Output = ()> + use<T, F>, JoinHandle<T>) {
    let handle = JoinHandle::new(None);
    let mut promise = Promise(Some(handle.0.clone()));
    let body = async move {
        let result = future.await;
        promise.keep(Ok(result));
    };
    (body, handle)
}

/// Obligation to store a result or the reason for none; `None` once fulfilled.
struct Promise<T>(Option<Arc<Mutex<Outcome<T>>>>);

impl<T> Promise<T> {
    fn keep(&mut self, result: Result<T, JoinError>) {
        let Some(cell) = self.0.take() else { return };
        let mut outcome = lock(&cell);
        outcome.result = Some(result);
        let waiter = outcome.waiter.take();
        drop(outcome);
        if let Some(waiter) = waiter {
            waiter.wake();
        }
    }
}

impl<T> Drop for Promise<T> {
    fn drop(&mut self) {
        let panicked = std::thread::panicking();
        self.keep(Err(if panicked { JoinError::Panicked } else { JoinError::Ended }));
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;

    fn poll<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
        Pin::new(future).poll(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn a_result_is_taken_once_and_a_second_wait_is_an_error() {
        for by_poll in [true, false] {
            let (body, mut handle) = with_handle(async { 5 });
            assert_eq!((poll(&mut handle), handle.try_take()), (Poll::Pending, None));
            assert_eq!(poll(&mut Box::pin(body)), Poll::Ready(()));
            let taken = if by_poll {
                poll(&mut handle)
            } else {
                handle.try_take().map_or(Poll::Pending, Poll::Ready)
            };
            assert_eq!(taken, Poll::Ready(Ok(5)));
            assert_eq!(handle.try_take(), None);
            let again = catch_unwind(AssertUnwindSafe(|| poll(&mut handle)));
            assert!(again.is_err(), "nothing would wake it");
        }
    }
}
