//! One worker's words, written by one and read by another process.
//!
//! What a worker tells stands in one of two places, and a number says in which:
//! the worker writes the other one and then counts on, so what was last told
//! stays readable even if the worker loses its core, or dies, in the middle of a
//! word. Who reads looks at the number before and after; the worker had
//! counted on before it began to write there, so an unchanged number means that
//! nothing was torn. Whoever tells never waits.
//!
//! What the scheduler asks is one number, too: odd asks the worker to leave its
//! core, even to go on. The worker writes the number next to it when it has done
//! so, and sleeps on the first by futex, which looks again before it sleeps. So
//! asking twice is asking once, and no wish is lost. `tests/worker_signals.rs` checks both
//! with this file's own code.

use super::sync::{AtomicU32, AtomicU64, Ordering, fence};

/// What a worker tells: `N` words that belong together.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct SeqCell<const N: usize> {
    places: [[AtomicU64; N]; 2],
    /// How often something was told; its lowest bit says where that stands.
    count: AtomicU64,
}

/// How often a reader looks again; between two looks the worker has told something.
const LOOKS: usize = 8;

impl<const N: usize> SeqCell<N> {
    /// All words are zero.
    #[must_use]
    pub fn new() -> Self {
        let zeros = || std::array::from_fn(|_| AtomicU64::new(0));
        Self { places: [zeros(), zeros()], count: AtomicU64::new(0) }
    }

    /// Tells `words`. One thread at a time, and after the one before.
    pub fn tell(&self, words: &[u64; N]) {
        let next = self.count.load(Ordering::Relaxed).wrapping_add(1);
        // Who sees a word of these sees that the place had been left before.
        fence(Ordering::Release);
        for (place, word) in self.places[(next & 1) as usize].iter().zip(words) {
            place.store(*word, Ordering::Relaxed);
        }
        self.count.store(next, Ordering::Release);
    }

    /// What was last told, whole; `None` when it changed too often while this
    /// looked.
    #[must_use]
    pub fn read(&self) -> Option<[u64; N]> {
        for _ in 0..LOOKS {
            let count = self.count.load(Ordering::Acquire);
            let place = &self.places[(count & 1) as usize];
            let words = std::array::from_fn(|n| place[n].load(Ordering::Relaxed));
            fence(Ordering::Acquire);
            if self.count.load(Ordering::Relaxed) == count {
                return Some(words);
            }
        }
        None
    }
}

impl<const N: usize> Default for SeqCell<N> {
    fn default() -> Self {
        Self::new()
    }
}

/// What the scheduler asks of a worker, and what it has done.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct ParkRequest {
    wish: AtomicU32,
    done: AtomicU32,
}

impl ParkRequest {
    /// To go on.
    #[must_use]
    pub fn new() -> Self {
        Self { wish: AtomicU32::new(0), done: AtomicU32::new(0) }
    }

    /// Asks the worker to leave its core, or to go on; whether that is news, so
    /// that a worker that may sleep on [`ParkRequest::word`] is to be woken. One
    /// process asks.
    pub fn ask(&self, park: bool) -> bool {
        let wish = self.wish.load(Ordering::Relaxed);
        let news = (wish & 1 == 1) != park;
        if news {
            self.wish.store(wish.wrapping_add(1), Ordering::Release);
        }
        news
    }

    /// Whether the worker has done what was asked last.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.done.load(Ordering::Acquire) == self.wish.load(Ordering::Relaxed)
    }

    /// The worker looks: `Some` when it is to leave its core, namely to sleep on
    /// [`ParkRequest::word`] while that has this value. It has done what is asked then.
    #[must_use]
    pub fn parked(&self) -> Option<u32> {
        let wish = self.wish.load(Ordering::Acquire);
        if self.done.load(Ordering::Relaxed) != wish {
            self.done.store(wish, Ordering::Release);
        }
        (wish & 1 == 1).then_some(wish)
    }

    /// What a parked worker sleeps on.
    #[must_use]
    pub fn word(&self) -> &AtomicU32 {
        &self.wish
    }
}

impl Default for ParkRequest {
    fn default() -> Self {
        Self::new()
    }
}
