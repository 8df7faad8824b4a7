//! Spin barrier for threads that synchronise every few microseconds.
//!
//! The standard library's barrier sleeps, which takes longer than the work between two
//! meetings. This one spins briefly, then yields the CPU.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Number of spins before the thread yields.
const SPINS: u32 = 100;

/// Reusable barrier: no thread passes before all have arrived.
pub(super) struct SpinBarrier {
    threads: usize,
    arrived: AtomicUsize,
    /// Number of completed rounds.
    round: AtomicUsize,
    broken: AtomicBool,
}

/// One thread's membership; a panic of its thread releases the others.
pub(super) struct Member<'a>(&'a SpinBarrier);

impl SpinBarrier {
    /// Barrier for `threads` threads.
    pub fn new(threads: usize) -> Self {
        Self { threads, arrived: AtomicUsize::new(0), round: AtomicUsize::new(0), broken: false.into() }
    }

    /// Membership of the calling thread.
    pub fn join(&self) -> Member<'_> {
        Member(self)
    }
}

impl Member<'_> {
    /// Waits until all threads have arrived. Memory written before is visible after.
    ///
    /// # Panics
    /// If another thread panicked.
    pub fn wait(&self) {
        let SpinBarrier { threads, arrived, round, broken } = self.0;
        let current = round.load(Ordering::Relaxed);
        if arrived.fetch_add(1, Ordering::AcqRel) + 1 == *threads {
            arrived.store(0, Ordering::Relaxed);
            round.store(current.wrapping_add(1), Ordering::Release);
            return;
        }
        let mut spins = 0;
        while round.load(Ordering::Acquire) == current {
            assert!(!broken.load(Ordering::Relaxed), "another thread panicked");
            spins += 1;
            if spins < SPINS { std::hint::spin_loop() } else { std::thread::yield_now() }
        }
    }
}

impl Drop for Member<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.broken.store(true, Ordering::Relaxed);
        }
    }
}

//~ fabric: a run on 1, 2 or 3 threads gives the same flows, counters and events
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_thread_passes_the_barrier_before_all_arrive() {
        const THREADS: usize = 3;
        let (barrier, arrivals) = (SpinBarrier::new(THREADS), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    let member = barrier.join();
                    for round in 1..=500 {
                        arrivals.fetch_add(1, Ordering::Relaxed);
                        member.wait();
                        assert_eq!(arrivals.load(Ordering::Relaxed), round * THREADS);
                        member.wait();
                    }
                });
            }
        });
    }

    #[test]
    fn a_panicking_thread_releases_the_others() {
        let barrier = SpinBarrier::new(2);
        let results = std::thread::scope(|scope| {
            let waits = scope.spawn(|| barrier.join().wait());
            let panics = scope.spawn(|| {
                let _member = barrier.join();
                panic!("on purpose");
            });
            [waits.join().is_err(), panics.join().is_err()]
        });
        assert_eq!(results, [true, true]);
    }
}
