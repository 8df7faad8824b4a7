//! How long a core takes from hand to hand, between processes.
//!
//! One process waits as LC does, on a futex; one computes as BE does and says
//! when it did last; both write the time into memory that they share with who
//! measures. Not here: who changes class and cores in between, which is measured.

use std::fs::OpenOptions;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use queueing::{Clock, Span, Time};
use rustix::thread::{futex, sched_getcpu};

use crate::Monotonic;
use crate::mapping::Mapping;

/// Memory that three processes share, of a file.
#[derive(Debug)]
pub struct Page(Mapping);

/// What stands in it. Each word has one writer.
#[repr(C)]
#[derive(Debug)]
struct Words {
    /// Who measures: how often LC was woken; what it waits on.
    woken: AtomicU32,
    /// Who measures: all are to end.
    over: AtomicU32,
    /// LC: when it had the core.
    began_ns: AtomicU64,
    /// LC: when it went to sleep again.
    slept_ns: AtomicU64,
    /// BE: when it computed last.
    beat_ns: AtomicU64,
    /// BE: when it computed first on the core where it is …
    moved_ns: AtomicU64,
    /// … and which that is.
    core: AtomicU32,
}

/// So long has LC the core.
const SERVICE: Span = Span::from_micros(20);
/// Nothing here takes as long.
const LIMIT: Span = Span::from_secs(10);
/// LC looks so often whether all is over, should nobody wake it any more.
const LOOK_EVERY_S: i64 = 5;

impl Page {
    /// Makes it, or opens the one that is there.
    ///
    /// # Errors
    /// What the kernel says of the file.
    pub fn open(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
        file.set_len(4096)?;
        Mapping::of(&file, 0, 4096).map(Self)
    }

    fn words(&self) -> &Words {
        // SAFETY: the mapping lives as long as `self`, holds a page, and its words are
        // atomics, which others may change at any time.
        unsafe { self.0.at::<Words>(0).as_ref() }
    }

    /// Waits to be woken, has the core for a while, and sleeps again; until all is over.
    /// Who was woken before it came to wait is awake: nobody wakes it again.
    pub fn latency_critical(&self) {
        let (words, clock) = (self.words(), Monotonic::new());
        let mut seen = 0;
        let patience = rustix::time::Timespec { tv_sec: LOOK_EVERY_S, tv_nsec: 0 };
        while words.over.load(Ordering::Acquire) == 0 {
            // Whatever it says, the words are looked at.
            let _ = futex::wait(&words.woken, futex::Flags::empty(), seen, Some(&patience));
            let woken = words.woken.load(Ordering::Acquire);
            if woken == seen {
                continue;
            }
            seen = woken;
            words.began_ns.store(clock.now().as_nanos(), Ordering::Release);
            clock.compute(SERVICE);
            words.slept_ns.store(clock.now().as_nanos(), Ordering::Release);
        }
    }

    /// Computes until all is over.
    pub fn best_effort(&self) {
        let (words, clock) = (self.words(), Monotonic::new());
        let mut last = u32::MAX;
        while words.over.load(Ordering::Relaxed) == 0 {
            // In this order: who is moved between the two is on its new core at a later time, not an earlier one.
            let core = sched_getcpu() as u32;
            let now = clock.now().as_nanos();
            if core != last {
                last = core;
                words.core.store(core, Ordering::Relaxed);
                words.moved_ns.store(now, Ordering::Release);
            }
            words.beat_ns.store(now, Ordering::Release);
        }
    }

    /// Ends both.
    pub fn end(&self) {
        self.words().over.store(1, Ordering::Release);
        self.words().woken.fetch_add(1, Ordering::Release);
        let _ = futex::wake(&self.words().woken, futex::Flags::empty(), 1);
    }

    /// Wakes LC: how long until it has the core, and from when it sleeps again until BE
    /// computes, if BE does. Spins meanwhile; nothing when it took beyond all measure.
    #[must_use]
    pub fn wake(&self, be_follows: bool) -> Option<(Span, Span)> {
        let (words, clock) = (self.words(), Monotonic::new());
        let start = clock.now();
        words.woken.fetch_add(1, Ordering::Release);
        futex::wake(&words.woken, futex::Flags::empty(), 1).ok()?;
        let began = self.after(&words.began_ns, start)?;
        let slept = self.after(&words.slept_ns, began)?;
        let resumed = if be_follows { self.after(&words.beat_ns, slept)? } else { slept };
        Some((began.since(start), resumed.since(slept)))
    }

    /// When BE computed after `start`; nothing when it does not.
    #[must_use]
    pub fn beat_after(&self, start: Time) -> Option<Time> {
        self.after(&self.words().beat_ns, start)
    }

    /// When BE computed last.
    #[must_use]
    pub fn last_beat(&self) -> Time {
        Time::from_nanos(self.words().beat_ns.load(Ordering::Acquire))
    }

    /// On which core BE is, and since when.
    #[must_use]
    pub fn place(&self) -> (u32, Time) {
        let since = Time::from_nanos(self.words().moved_ns.load(Ordering::Acquire));
        (self.words().core.load(Ordering::Relaxed), since)
    }

    fn after(&self, word: &AtomicU64, start: Time) -> Option<Time> {
        let clock = Monotonic::new();
        let since = clock.now();
        loop {
            let at = Time::from_nanos(word.load(Ordering::Acquire));
            if at > start {
                return Some(at);
            }
            if clock.now().since(since) > LIMIT {
                return None;
            }
            std::hint::spin_loop();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lc_is_woken_and_be_goes_on_and_both_end() {
        let path = std::env::temp_dir().join(format!("greenwave-handoff-{}", std::process::id()));
        let page = Page::open(&path).unwrap();
        let (beat, woken) = std::thread::scope(|scope| {
            scope.spawn(|| page.latency_critical());
            let other = Page::open(&path).unwrap();
            scope.spawn(move || other.best_effort());
            let seen = (page.beat_after(Time::ZERO), page.wake(true));
            // Before anything is asked of what was seen: who fails here would wait for both.
            page.end();
            seen
        });
        std::fs::remove_file(path).unwrap();
        assert!(beat.is_some());
        assert!(woken.unwrap().0 > Span::ZERO);
    }

    #[test]
    fn lc_that_comes_late_has_been_woken() {
        let path = std::env::temp_dir().join(format!("greenwave-late-{}", std::process::id()));
        let page = Page::open(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        let before = Monotonic::new().now();
        page.words().woken.fetch_add(1, Ordering::Release);
        std::thread::scope(|scope| {
            scope.spawn(|| page.latency_critical());
            let began = page.after(&page.words().began_ns, before);
            page.end();
            assert!(began.is_some(), "woken before it waited, and never ran");
        });
    }
}
