//! No interleaving of a worker that falls asleep and a shard that rings loses
//! the wake-up.
//!
//! The code under test is the crate's own source, compiled here against
//! loom's threads and atomics. A lost wake-up is a deadlock, which loom finds.

use loom::sync::Arc;
use loom::sync::atomic::AtomicUsize;

mod sync {
    pub use loom::sync::atomic::{AtomicBool, Ordering, fence};
    pub use loom::thread::{Thread, park};
}
#[path = "../src/doorbell.rs"]
mod doorbell;

use doorbell::Doorbell;
use sync::Ordering;

/// A shard that gives `jobs` one after the other, and a worker that sleeps
/// whenever it has seen all there are.
fn check(jobs: usize) {
    loom::model(move || {
        let (bell, given) = (Arc::new(Doorbell::default()), Arc::new(AtomicUsize::new(0)));
        let worker = loom::thread::spawn({
            let (bell, given) = (bell.clone(), given.clone());
            move || {
                let mut seen = 0;
                while seen < jobs {
                    let now = given.load(Ordering::Acquire);
                    if now == seen {
                        bell.sleep(|| given.load(Ordering::Relaxed) == seen);
                    }
                    seen = now;
                }
            }
        });
        for job in 1..=jobs {
            given.store(job, Ordering::Release);
            bell.ring(worker.thread());
        }
        worker.join().unwrap();
    });
}

#[test]
fn a_worker_that_falls_asleep_while_a_job_comes_wakes_up() {
    check(1);
}

#[test]
fn every_further_job_wakes_it_again() {
    check(2);
}
