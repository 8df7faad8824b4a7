//! Worker signals: shared memory between a program's workers and the core scheduler.
//!
//! Workers publish the signals that only the program has (C2): the enqueue time of
//! the oldest element in each queue, and the start of the current request. These are
//! instants of the machine's monotonic clock, not ages: the reader subtracts them from
//! its own clock, so the delay keeps growing if the worker loses its core or computes
//! for long. The scheduler publishes park requests. This module defines the layout;
//! [`SignalMemory`] provides the memory and the sleep.
//!
//! ```text
//! byte  content
//! 0     "gwpulse2", then the number of slots and the process ID, 4 bytes each
//! 64    end of the lease on park requests, an instant
//! 128   a slot per worker, 256 bytes
//!       0    two buffers of eight words of 8 bytes; the count selects one
//!            0 published at   1 frames   2 tasks   3 timers   4 storage
//!            5 request   6 runnable   7 sleeping, 1 byte; core plus one, 2 bytes from
//!            the second; long polls elsewhere, 4 bytes
//!       128  the count, 8 bytes
//!       192  park request (odd: leave the core) and acknowledgement, 4 bytes each
//! ```
//! Park requests are valid for a lease, which the scheduler extends in every round: a
//! parked worker resumes by itself if the scheduler dies or hangs.
//!
//! An instant is in nanoseconds, plus one; zero is none. Both sides run on one machine,
//! so words are in native byte order. Readers do not trust the words: any value is
//! valid. A program that lies about its delay gets no core that a policy's guarantees
//! deny it.
//! Source: Caladan (OSDI '20) §4.1.

mod park;
mod slot;
mod workers;

use std::time::Duration;

use queueing::{CoreId, Span, Time};

use super::TaskSignals;
pub use park::ParkPolicy;
pub use slot::{ParkRequest, SeqCell};
use sync::{AtomicU32, AtomicU64, Ordering};
pub use workers::Workers;

/// Atomics of [`slot`]; its model check replaces them with loom's.
mod sync {
    pub use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
}

/// Signals of one worker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WorkerSignals {
    /// Time of publication.
    pub at: Time,
    /// Arrival of the oldest received frame.
    pub frames: Option<Time>,
    /// Time at which the oldest runnable task became runnable.
    pub tasks: Option<Time>,
    /// Expiry of the next timer, past or future.
    pub timers: Option<Time>,
    /// Time of the oldest storage completion.
    pub storage: Option<Time>,
    /// Start of the current request.
    pub request: Option<Time>,
    /// Runnable tasks.
    pub runnable: u32,
    /// True if the worker has no work and sleeps.
    pub sleeping: bool,
    /// Linux's number of the core that runs the request, if known.
    pub core: Option<CoreId>,
    /// Task polls that took longer than the worker's quantum and continue in threads of their own.
    pub long: u32,
}

/// Number of words of a slot.
const WORDS: usize = 8;
const SLEEPING: u64 = 1;
const CORE_AT: u32 = 16;
const LONG_AT: u32 = 32;

impl WorkerSignals {
    /// Sum of the ages of the oldest elements in all queues at `now`.
    #[must_use]
    pub fn delay(&self, now: Time) -> Span {
        let queues = [self.frames, self.tasks, self.timers, self.storage];
        let waited = queues.into_iter().flatten().map(|since| now.since(since));
        waited.fold(Span::ZERO, |sum, span| Span::from_nanos(sum.as_nanos().saturating_add(span.as_nanos())))
    }

    /// True if the worker could keep a core busy at `now`.
    #[must_use]
    pub fn needs_core(&self, now: Time) -> bool {
        let waits = [self.frames, self.tasks, self.storage, self.request].iter().any(Option::is_some);
        waits || self.timers.is_some_and(|due| due <= now)
    }

    /// Adds this worker to `signals` at `now`: the maximum delay, and the sum of busy cores.
    fn add_to(&self, now: Time, signals: &mut TaskSignals) {
        signals.delay = signals.delay.max(self.delay(now));
        let busy = u32::from(self.needs_core(now)).saturating_add(self.long);
        signals.runnable = signals.runnable.saturating_add(busy);
    }

    fn words(&self) -> [u64; WORDS] {
        let since = |at: Option<Time>| at.map_or(0, |at| at.as_nanos().saturating_add(1));
        let core = self.core.map_or(0, |core| u64::from(core.0.saturating_add(1)));
        let sleeping = if self.sleeping { SLEEPING } else { 0 };
        [
            self.at.as_nanos(),
            since(self.frames),
            since(self.tasks),
            since(self.timers),
            since(self.storage),
            since(self.request),
            u64::from(self.runnable),
            sleeping | core << CORE_AT | u64::from(self.long) << LONG_AT,
        ]
    }

    fn from_words(words: &[u64; WORDS]) -> Self {
        let since = |n: usize| words[n].checked_sub(1).map(Time::from_nanos);
        Self {
            at: Time::from_nanos(words[0]),
            frames: since(1),
            tasks: since(2),
            timers: since(3),
            storage: since(4),
            request: since(5),
            runnable: words[6] as u32,
            sleeping: words[7] & SLEEPING != 0,
            core: ((words[7] >> CORE_AT) as u16).checked_sub(1).map(CoreId),
            long: (words[7] >> LONG_AT) as u32,
        }
    }
}

/// Slot of one worker.
#[derive(Debug, Default)]
#[repr(C)]
pub struct WorkerSlot {
    cell: SeqCell<WORDS>,
    /// Park request to the worker.
    pub park: ParkRequest,
}

impl WorkerSlot {
    /// Publishes `signals`. One thread at a time, each after the last.
    pub fn publish(&self, signals: &WorkerSignals) {
        self.cell.write(&signals.words());
    }

    /// Last published signals; `None` if they changed too often during the read.
    #[must_use]
    pub fn read(&self) -> Option<WorkerSignals> {
        self.cell.read().map(|words| WorkerSignals::from_words(&words))
    }
}

/// Shared memory of one program. Of fixed size for any number of workers.
#[derive(Debug)]
#[repr(C)]
pub struct SignalPage {
    head: Head,
    lease: Lease,
    slots: [WorkerSlot; WORKERS_MAX],
}

#[derive(Debug, Default)]
#[repr(C, align(64))]
struct Head {
    /// Written last.
    magic: AtomicU64,
    slots: AtomicU32,
    process: AtomicU32,
}

/// Written in every round, so on another cache line than the words that workers read.
#[derive(Debug, Default)]
#[repr(C, align(64))]
struct Lease {
    until: AtomicU64,
}

/// Number of slots of a page.
pub const WORKERS_MAX: usize = 64;
const MAGIC: u64 = u64::from_ne_bytes(*b"gwpulse2");

const _: () = assert!(size_of::<WorkerSlot>() == 256, "a slot has the documented size");
const _: () = assert!(size_of::<SignalPage>() == 128 + 256 * WORKERS_MAX, "a page has the documented size");

impl SignalPage {
    /// Page of `slots` workers of this process, in its own memory.
    ///
    /// # Panics
    /// The same as for [`SignalPage::init`].
    #[must_use]
    pub fn new(slots: usize) -> Self {
        let workers = std::array::from_fn(|_| WorkerSlot::default());
        let page = Self { head: Head::default(), lease: Lease::default(), slots: workers };
        page.init(slots, std::process::id());
        page
    }

    /// Initialises a zeroed page for `slots` workers of `process`.
    ///
    /// # Panics
    /// If `slots` is outside 1..=[`WORKERS_MAX`].
    pub fn init(&self, slots: usize, process: u32) {
        assert!((1..=WORKERS_MAX).contains(&slots), "{slots} workers are outside 1..={WORKERS_MAX}");
        self.head.slots.store(slots as u32, Ordering::Relaxed);
        self.head.process.store(process, Ordering::Relaxed);
        self.head.magic.store(MAGIC, Ordering::Release);
    }

    /// True if the page is initialised.
    #[must_use]
    pub fn is_initialized(&self) -> bool {
        self.head.magic.load(Ordering::Acquire) == MAGIC
    }

    /// ID of the workers' process, as that process claims.
    #[must_use]
    pub fn process(&self) -> u32 {
        self.head.process.load(Ordering::Relaxed)
    }

    /// Slots of the workers; none before initialisation.
    #[must_use]
    pub fn slots(&self) -> &[WorkerSlot] {
        let initialized = usize::from(self.is_initialized());
        let slots = self.head.slots.load(Ordering::Relaxed) as usize;
        &self.slots[..slots.min(WORKERS_MAX) * initialized]
    }

    /// Extends the lease on park requests until `until`; `None` ends it.
    pub fn set_lease(&self, until: Option<Time>) {
        let until = until.map_or(0, |until| until.as_nanos().saturating_add(1));
        self.lease.until.store(until, Ordering::Release);
    }

    /// True if park requests are valid at `now`.
    #[must_use]
    pub fn is_leased(&self, now: Time) -> bool {
        now.as_nanos() < self.lease.until.load(Ordering::Acquire)
    }

    /// Signals of the program at `now`, for a policy. Slots that cannot be read do not
    /// count.
    #[must_use]
    pub fn signals(&self, now: Time) -> TaskSignals {
        let mut signals = TaskSignals::default();
        for worker in self.slots().iter().filter_map(WorkerSlot::read) {
            worker.add_to(now, &mut signals);
        }
        signals
    }
}

/// Memory of a page, with sleep and wake-up on its words (futex).
pub trait SignalMemory: Send + Sync {
    /// The page.
    fn page(&self) -> &SignalPage;
    /// Sleeps while `word` is `value`, for at most `span`, until woken; may return
    /// early. Compares and sleeps atomically, so no wake-up is lost.
    fn wait(&self, word: &AtomicU32, value: u32, span: Duration);
    /// Wakes sleepers on `word`.
    fn wake(&self, word: &AtomicU32);

    /// Asks worker `slot` to leave its core (`park`) or to resume; `false` if there is
    /// no such worker.
    fn request_park(&self, slot: usize, park: bool) -> bool {
        let Some(slot) = self.page().slots().get(slot) else { return false };
        if slot.park.request(park) && !park {
            self.wake(slot.park.word());
        }
        true
    }

    /// Ends the lease and resumes every worker.
    fn release(&self) {
        self.page().set_lease(None);
        (0..self.page().slots().len()).for_each(|slot| {
            self.request_park(slot, false);
        });
    }
}

#[cfg(test)]
mod tests;
