//! Model check: no interleaving of a worker that falls asleep and a shard that rings loses the
//! wake-up.
//!
//! The code under test is the crate's own source, compiled here against loom's threads and atomics.
//! A lost wake-up is a deadlock, which loom finds.
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

/// Checks a shard that passes `jobs` one after the other to a worker that sleeps whenever it has
/// seen them all.
fn check(jobs: usize) {
    loom::model(move || {
        let (doorbell, given) = (Arc::new(Doorbell::default()), Arc::new(AtomicUsize::new(0)));
        let worker = loom::thread::spawn({
            let (doorbell, given) = (doorbell.clone(), given.clone());
            move || {
                let mut seen = 0;
                while seen < jobs {
                    let now = given.load(Ordering::Acquire);
                    if now == seen {
                        doorbell.sleep(|| given.load(Ordering::Relaxed) == seen);
                    }
                    seen = now;
                }
            }
        });
        for job in 1..=jobs {
            given.store(job, Ordering::Release);
            doorbell.ring(worker.thread());
        }
        worker.join().unwrap();
    });
}

//~ runtime: no wake-up of a worker is lost, under all interleavings
#[test]
fn a_job_wakes_a_worker_that_is_falling_asleep() {
    check(1);
}

//~ runtime: no wake-up of a worker is lost, under all interleavings
#[test]
fn every_further_job_wakes_the_worker_again() {
    check(2);
}

/// Checks two shards that each pass `frames` frames to a third one. It sleeps whenever it has
/// received them all, by a sleep that keeps an early wake-up.
fn check_hand_over(frames: usize) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(move || {
        let doorbell = Arc::new(Doorbell::default());
        let rings = [(); 2].map(|()| Arc::new(AtomicUsize::new(0)));
        let taker = loom::thread::spawn({
            let (doorbell, rings) = (doorbell.clone(), rings.clone());
            move || {
                let mut taken = [0; 2];
                while taken != [frames; 2] {
                    let now = [0, 1].map(|ring: usize| rings[ring].load(Ordering::Acquire));
                    if now == taken {
                        let empty = || (0..2).all(|ring| rings[ring].load(Ordering::Acquire) == taken[ring]);
                        doorbell.sleep_by(empty, sync::park);
                    }
                    taken = now;
                }
            }
        });
        let sleeper = taker.thread().clone();
        let other = loom::thread::spawn({
            let (doorbell, ring, sleeper) = (doorbell.clone(), rings[1].clone(), sleeper.clone());
            move || hand(&doorbell, &ring, &sleeper, frames)
        });
        hand(&doorbell, &rings[0], &sleeper, frames);
        other.join().unwrap();
        taker.join().unwrap();
    });
}

fn hand(doorbell: &Doorbell, ring: &AtomicUsize, sleeper: &sync::Thread, frames: usize) {
    for frame in 1..=frames {
        ring.store(frame, Ordering::Release);
        doorbell.ring_by(|| sleeper.unpark());
    }
}

//~ shards: no wake-up between shards is lost, under all interleavings
#[test]
fn frames_of_two_shards_wake_a_shard_that_is_falling_asleep() {
    check_hand_over(1);
}
