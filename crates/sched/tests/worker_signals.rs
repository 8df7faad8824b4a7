//! Model check of the worker slot: no torn reads, no lost park requests, in any
//! interleaving of worker and scheduler.
//!
//! Compiles the crate's own source against loom's atomics. A lost request is a
//! deadlock, which loom finds.

//~ tasks: request ages in shared memory are never torn, under all interleavings

use loom::sync::{Arc, Condvar, Mutex};

mod sync {
    pub use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
}
#[allow(dead_code, reason = "each test uses one half")]
#[path = "../src/cores/worker_signals/slot.rs"]
mod slot;

use slot::{ParkRequest, SeqCell};
use sync::Ordering;

fn check(scenario: impl Fn() + Sync + Send + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(scenario);
}

#[test]
fn published_values_are_read_together_and_never_go_back() {
    check(|| {
        let cell = Arc::new(SeqCell::<2>::new());
        let worker = loom::thread::spawn({
            let cell = cell.clone();
            move || (1..=3).for_each(|n| cell.write(&[n, n]))
        });
        let mut before = 0;
        for _ in 0..2 {
            if let Some([one, other]) = cell.read() {
                assert_eq!(one, other, "torn");
                assert!(one >= before, "older than the previous read");
                before = one;
            }
        }
        worker.join().unwrap();
        assert_eq!(cell.read(), Some([3, 3]));
    });
}

/// The kernel's futex for one word: compares and sleeps atomically.
#[derive(Default)]
struct Futex(Mutex<()>, Condvar);

impl Futex {
    fn wait(&self, request: &ParkRequest, value: u32) {
        let guard = self.0.lock().unwrap();
        if request.word().load(Ordering::Relaxed) == value {
            drop(self.1.wait(guard).unwrap());
        }
    }

    fn wake(&self) {
        drop(self.0.lock().unwrap());
        self.1.notify_all();
    }
}

#[test]
fn a_worker_asked_to_park_and_then_to_resume_runs() {
    check(|| {
        let shared = Arc::new((ParkRequest::new(), Futex::default()));
        let worker = loom::thread::spawn({
            let shared = shared.clone();
            move || {
                let (request, futex) = &*shared;
                // A worker between two units of work.
                for _ in 0..2 {
                    while let Some(word) = request.acknowledge() {
                        futex.wait(request, word);
                    }
                }
            }
        });
        let (request, futex) = &*shared;
        for park in [true, false] {
            if request.request(park) && !park {
                futex.wake();
            }
        }
        worker.join().unwrap();
        assert_eq!(request.acknowledge(), None);
        assert!(request.is_done());
    });
}
