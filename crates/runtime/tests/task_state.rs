//! Model check: no interleaving of threads that wake a task and the one that polls it loses a
//! wake-up, queues the task twice at a level, or polls it twice at a time.
//!
//! The code under test is the crate's own source, compiled here against loom's atomics.

use loom::sync::Arc;
use loom::sync::atomic::AtomicUsize;
use loom::sync::{Mutex, MutexGuard};

mod sync {
    pub use loom::sync::atomic::{AtomicU8, Ordering};
}
#[path = "../src/task/state.rs"]
mod state;

use state::{State, WakeAction};
use sync::Ordering;

/// A task that counts what it has seen, and its run queue.
struct Task {
    state: State,
    queue: Mutex<usize>,
    wakes: AtomicUsize,
    polling: AtomicUsize,
    seen: AtomicUsize,
}

impl Task {
    fn queue(&self) -> MutexGuard<'_, usize> {
        self.queue.lock().unwrap()
    }

    fn tell(&self, level: u8) {
        self.wakes.fetch_add(1, Ordering::Relaxed);
        if self.state.wake(level) == WakeAction::Queue {
            *self.queue() += 1;
        }
    }

    /// Pops every entry and polls the task where it is queued.
    fn drain(&self) {
        loop {
            let mut queue = self.queue();
            if *queue == 0 {
                return;
            }
            *queue -= 1;
            drop(queue);
            if !self.state.begin() {
                continue;
            }
            assert_eq!(self.polling.fetch_add(1, Ordering::Relaxed), 0, "it is polled twice at a time");
            self.seen.store(self.wakes.load(Ordering::Relaxed), Ordering::Relaxed);
            self.polling.fetch_sub(1, Ordering::Relaxed);
            if self.state.pause() == WakeAction::Queue {
                *self.queue() += 1;
            }
        }
    }
}

#[test]
fn every_wake_up_is_followed_by_a_poll() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(|| {
        let task = Arc::new(Task {
            state: State::queued(7),
            queue: Mutex::new(1),
            wakes: AtomicUsize::new(0),
            polling: AtomicUsize::new(0),
            seen: AtomicUsize::new(0),
        });
        let wakers: Vec<_> = [5, 0]
            .map(|level| {
                let task = task.clone();
                loom::thread::spawn(move || task.tell(level))
            })
            .into();
        task.drain();
        wakers.into_iter().for_each(|waker| waker.join().unwrap());
        task.drain();
        assert_eq!(task.seen.load(Ordering::Relaxed), 2, "the last wake-up was lost");
        assert_eq!(task.state.queued_at(), None);
        task.state.end();
        assert_eq!(task.state.wake(0), WakeAction::Nothing, "the task has ended");
    });
}
