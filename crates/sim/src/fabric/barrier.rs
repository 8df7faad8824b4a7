//! A barrier for threads that meet every few microseconds.
//!
//! The standard library's puts threads to sleep, which takes longer than what
//! they do in between. Here they spin for a little, and then let others run.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Looks at the gate before others may run.
const SPINS: u32 = 100;

/// Nobody passes before all have come; then again.
pub(super) struct SpinBarrier {
    threads: usize,
    arrived: AtomicUsize,
    /// How often all have come.
    turn: AtomicUsize,
    broken: AtomicBool,
}

/// Tells the others when its thread panics, so that they do not wait for it.
pub(super) struct Member<'a>(&'a SpinBarrier);

impl SpinBarrier {
    /// For so many threads.
    pub fn new(threads: usize) -> Self {
        Self { threads, arrived: AtomicUsize::new(0), turn: AtomicUsize::new(0), broken: false.into() }
    }

    /// The calling thread is one of them.
    pub fn join(&self) -> Member<'_> {
        Member(self)
    }
}

impl Member<'_> {
    /// Waits until all have come. What they did before is seen afterwards.
    ///
    /// # Panics
    /// When another of them did.
    pub fn wait(&self) {
        let SpinBarrier { threads, arrived, turn, broken } = self.0;
        let this = turn.load(Ordering::Relaxed);
        if arrived.fetch_add(1, Ordering::AcqRel) + 1 == *threads {
            arrived.store(0, Ordering::Relaxed);
            turn.store(this.wrapping_add(1), Ordering::Release);
            return;
        }
        let mut spins = 0;
        while turn.load(Ordering::Acquire) == this {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_passes_before_all_have_come() {
        const THREADS: usize = 3;
        let (gate, came) = (SpinBarrier::new(THREADS), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    let member = gate.join();
                    for round in 1..=500 {
                        came.fetch_add(1, Ordering::Relaxed);
                        member.wait();
                        assert_eq!(came.load(Ordering::Relaxed), round * THREADS);
                        member.wait();
                    }
                });
            }
        });
    }

    #[test]
    fn who_panics_does_not_leave_the_others_waiting() {
        let gate = SpinBarrier::new(2);
        let results = std::thread::scope(|scope| {
            let waits = scope.spawn(|| gate.join().wait());
            let panics = scope.spawn(|| {
                let _member = gate.join();
                panic!("on purpose");
            });
            [waits.join().is_err(), panics.join().is_err()]
        });
        assert_eq!(results, [true, true]);
    }
}
