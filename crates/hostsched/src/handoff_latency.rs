//! Latency of a core's hand-off between processes, measured.
//!
//! One process waits on a futex as LC does. Another computes as BE does and records when it last ran.
//! Both write times into memory that they share with the measuring process. The change of classes and
//! cores in between, which is measured, is the caller's.

use std::fs::OpenOptions;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use queueing::{Clock, Span, Time};
use rustix::thread::{futex, sched_getcpu};

use host::Monotonic;
use host::mapping::Mapping;

/// A file mapping shared by the three processes.
#[derive(Debug)]
pub struct Page(Mapping);

/// Contents of [`Page`]. Each word has one writer.
#[repr(C)]
#[derive(Debug)]
struct Words {
    /// Written by the measuring process: number of LC wake-ups; LC waits on it.
    woken: AtomicU32,
    /// Written by the measuring process: both others end.
    over: AtomicU32,
    /// Written by LC: time at which it got the core.
    began_ns: AtomicU64,
    /// Written by LC: time at which it went back to sleep.
    slept_ns: AtomicU64,
    /// Written by BE: time at which it last computed.
    beat_ns: AtomicU64,
    /// Written by BE: time at which it first computed on its present core.
    moved_ns: AtomicU64,
    /// Written by BE: number of that core.
    core: AtomicU32,
}

/// Time for which LC uses the core.
const SERVICE: Span = Span::from_micros(20);
/// Upper bound of every measurement.
const LIMIT: Span = Span::from_secs(10);
/// Interval at which a sleeping LC checks for the end.
const LOOK_EVERY_S: i64 = 5;

impl Page {
    /// Opens the file, or creates it.
    ///
    /// # Errors
    /// The kernel's error for the file.
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

    /// Waits for a wake-up, uses the core for a while and sleeps again, until the end.
    ///
    /// A wake-up that is sent before the first wait is not lost.
    pub fn latency_critical(&self) {
        let (words, clock) = (self.words(), Monotonic::new());
        let mut seen = 0;
        let timeout = rustix::time::Timespec { tv_sec: LOOK_EVERY_S, tv_nsec: 0 };
        while words.over.load(Ordering::Acquire) == 0 {
            // Any result will do: the words are checked next.
            let _ = futex::wait(&words.woken, futex::Flags::empty(), seen, Some(&timeout));
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

    /// Computes until [`end`](Self::end) is called.
    pub fn best_effort(&self) {
        let (words, clock) = (self.words(), Monotonic::new());
        let mut last = u32::MAX;
        while words.over.load(Ordering::Relaxed) == 0 {
            // In this order, a move between the two calls gives the new core a later time, never an
            // earlier one.
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

    /// Ends both processes.
    pub fn end(&self) {
        self.words().over.store(1, Ordering::Release);
        self.words().woken.fetch_add(1, Ordering::Release);
        let _ = futex::wake(&self.words().woken, futex::Flags::empty(), 1);
    }

    /// Wakes LC. Result: time until LC has the core, and time from its sleep until BE computes (if
    /// `be_follows`).
    ///
    /// Spins meanwhile; `None` after 10 s.
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

    /// Time at which BE first computed after `start`; `None` if it does not.
    #[must_use]
    pub fn beat_after(&self, start: Time) -> Option<Time> {
        self.after(&self.words().beat_ns, start)
    }

    /// Time at which BE last computed.
    #[must_use]
    pub fn last_beat(&self) -> Time {
        Time::from_nanos(self.words().beat_ns.load(Ordering::Acquire))
    }

    /// Core of BE, and time since which BE runs on it.
    #[must_use]
    pub fn core_and_time(&self) -> (u32, Time) {
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
            // Ends both first: a failing assertion would wait for them.
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
