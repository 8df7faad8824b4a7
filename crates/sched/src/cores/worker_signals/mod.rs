//! A program's pulse: what its workers tell the core scheduler, and what that
//! asks of them, in memory that both see.
//!
//! The signals that only the program has (C2): since when the oldest element of
//! each of its queues waits, and when the current request began. They are told
//! as instants of the machine's monotonic clock, not as ages: whoever reads them
//! subtracts from its own reading, so a worker that has lost its core, or that
//! computes for long, still grows older. Here are the words and their order;
//! whose memory it is, and how one sleeps on it, is a [`CoreAssignment`]'s to know.
//!
//! ```text
//! byte  what
//! 0     "gwpulse2", then the number of lanes and the process, 4 bytes each
//! 64    until when what is asked counts, an instant
//! 128   a lane for each worker, 256 bytes
//!       0    two places of eight words of 8 bytes; which counts, a number says (lane)
//!            0 told at   1 frames   2 tasks   3 timers   4 storage
//!            5 request   6 runnable 7 it rests, 1 byte; its core plus one, 2 bytes from
//!            the second; long turns elsewhere, 4 bytes
//!       128  that number, 8 bytes
//!       192  what is asked (odd: to leave its core) and what is done, 4 bytes each
//! ```
//! What is asked counts for a while only, which the scheduler prolongs in every
//! round: a worker that was asked to leave its core goes on by itself once whoever
//! asked has died, or hangs.
//!
//! An instant is in nanoseconds, plus one; zero is none. Both ends belong to one
//! machine, so words are in its order of bytes. A reader trusts nothing: any
//! words mean something, at worst a program that lies about its own waiting,
//! which gets it no core that a policy's guarantees deny it.
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

/// What [`lane`] is made of; its test puts loom's in their place.
mod sync {
    pub use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
}

/// What one worker tells.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WorkerSignals {
    /// When it was told.
    pub at: Time,
    /// Since when the oldest received frame waits.
    pub frames: Option<Time>,
    /// Since when the oldest runnable task waits.
    pub tasks: Option<Time>,
    /// When the next timer is due, or was.
    pub timers: Option<Time>,
    /// Since when the oldest storage completion waits.
    pub storage: Option<Time>,
    /// When the request that runs began.
    pub request: Option<Time>,
    /// Tasks that wait for their turn.
    pub runnable: u32,
    /// It has nothing to do and sleeps.
    pub resting: bool,
    /// Linux's number of the core on which the request runs, where that is known.
    pub core: Option<CoreId>,
    /// Turns that took long and go on in threads of their own.
    pub long: u32,
}

/// Words of a pulse.
const WORDS: usize = 8;
const RESTING: u64 = 1;
const CORE_AT: u32 = 16;
const LONG_AT: u32 = 32;

impl WorkerSignals {
    /// How long the oldest elements of its queues have waited by `now`, added up.
    #[must_use]
    pub fn delay(&self, now: Time) -> Span {
        let queues = [self.frames, self.tasks, self.timers, self.storage];
        let waited = queues.into_iter().flatten().map(|since| now.since(since));
        waited.fold(Span::ZERO, |sum, span| Span::from_nanos(sum.as_nanos().saturating_add(span.as_nanos())))
    }

    /// Whether a core could be kept busy by `now`.
    #[must_use]
    pub fn wants(&self, now: Time) -> bool {
        let waits = [self.frames, self.tasks, self.storage, self.request].iter().any(Option::is_some);
        waits || self.timers.is_some_and(|due| due <= now)
    }

    /// Adds what it tells to `signals` at `now`: the longest delay counts, and every core that could be kept busy.
    fn add_to(&self, now: Time, signals: &mut TaskSignals) {
        signals.delay = signals.delay.max(self.delay(now));
        let busy = u32::from(self.wants(now)).saturating_add(self.long);
        signals.runnable = signals.runnable.saturating_add(busy);
    }

    fn words(&self) -> [u64; WORDS] {
        let since = |at: Option<Time>| at.map_or(0, |at| at.as_nanos().saturating_add(1));
        let core = self.core.map_or(0, |core| u64::from(core.0.saturating_add(1)));
        let resting = if self.resting { RESTING } else { 0 };
        [
            self.at.as_nanos(),
            since(self.frames),
            since(self.tasks),
            since(self.timers),
            since(self.storage),
            since(self.request),
            u64::from(self.runnable),
            resting | core << CORE_AT | u64::from(self.long) << LONG_AT,
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
            resting: words[7] & RESTING != 0,
            core: ((words[7] >> CORE_AT) as u16).checked_sub(1).map(CoreId),
            long: (words[7] >> LONG_AT) as u32,
        }
    }
}

/// One worker's place.
#[derive(Debug, Default)]
#[repr(C)]
pub struct WorkerSlot {
    told: SeqCell<WORDS>,
    /// What the scheduler asks of it.
    pub asked: ParkRequest,
}

impl WorkerSlot {
    /// Tells `pulse`. One thread at a time, and after the one before.
    pub fn publish(&self, pulse: &WorkerSignals) {
        self.told.tell(&pulse.words());
    }

    /// What was last told; `None` when it changed too often meanwhile.
    #[must_use]
    pub fn read(&self) -> Option<WorkerSignals> {
        self.told.read().map(|words| WorkerSignals::from_words(&words))
    }
}

/// All of a program's words. Of fixed size, whatever the number of workers.
#[derive(Debug)]
#[repr(C)]
pub struct SignalPage {
    head: Head,
    lead: Lead,
    lanes: [WorkerSlot; WORKERS_MAX],
}

#[derive(Debug, Default)]
#[repr(C, align(64))]
struct Head {
    /// Written last.
    name: AtomicU64,
    lanes: AtomicU32,
    process: AtomicU32,
}

/// Written in every round, and so not beside what workers read in every turn.
#[derive(Debug, Default)]
#[repr(C, align(64))]
struct Lead {
    until: AtomicU64,
}

/// Workers that a page has room for.
pub const WORKERS_MAX: usize = 64;
const NAME: u64 = u64::from_ne_bytes(*b"gwpulse2");

const _: () = assert!(size_of::<WorkerSlot>() == 256, "a lane has the documented size");
const _: () = assert!(size_of::<SignalPage>() == 128 + 256 * WORKERS_MAX, "a page has the documented size");

impl SignalPage {
    /// A page of `lanes` workers of this process, in its own memory.
    ///
    /// # Panics
    /// As [`SignalPage::begin`].
    #[must_use]
    pub fn new(lanes: usize) -> Self {
        let workers = std::array::from_fn(|_| WorkerSlot::default());
        let page = Self { head: Head::default(), lead: Lead::default(), lanes: workers };
        page.begin(lanes, std::process::id());
        page
    }

    /// Names a page of zeros as that of `lanes` workers of `process`.
    ///
    /// # Panics
    /// When `lanes` is outside 1..=[`WORKERS_MAX`].
    pub fn begin(&self, lanes: usize, process: u32) {
        assert!((1..=WORKERS_MAX).contains(&lanes), "{lanes} lanes are outside 1..={WORKERS_MAX}");
        self.head.lanes.store(lanes as u32, Ordering::Relaxed);
        self.head.process.store(process, Ordering::Relaxed);
        self.head.name.store(NAME, Ordering::Release);
    }

    /// Whether it is named and so has lanes.
    #[must_use]
    pub fn is_named(&self) -> bool {
        self.head.name.load(Ordering::Acquire) == NAME
    }

    /// The process whose workers these are, as it says itself.
    #[must_use]
    pub fn process(&self) -> u32 {
        self.head.process.load(Ordering::Relaxed)
    }

    /// A lane for each worker; none while the page is not named.
    #[must_use]
    pub fn lanes(&self) -> &[WorkerSlot] {
        let named = usize::from(self.is_named());
        let lanes = self.head.lanes.load(Ordering::Relaxed) as usize;
        &self.lanes[..lanes.min(WORKERS_MAX) * named]
    }

    /// What is asked counts until `until`; `None`: no longer.
    pub fn lead(&self, until: Option<Time>) {
        let until = until.map_or(0, |until| until.as_nanos().saturating_add(1));
        self.lead.until.store(until, Ordering::Release);
    }

    /// Whether what is asked counts at `now`.
    #[must_use]
    pub fn is_led(&self, now: Time) -> bool {
        now.as_nanos() < self.lead.until.load(Ordering::Acquire)
    }

    /// The program's signals at `now`, as a policy wants them; a lane that
    /// could not be read tells nothing this time.
    #[must_use]
    pub fn signals(&self, now: Time) -> TaskSignals {
        let mut signals = TaskSignals::default();
        for pulse in self.lanes().iter().filter_map(WorkerSlot::read) {
            pulse.add_to(now, &mut signals);
        }
        signals
    }
}

/// Memory in which a page is, and how one sleeps on its words.
pub trait SignalMemory: Send + Sync {
    /// The page.
    fn page(&self) -> &SignalPage;
    /// Sleeps while `word` is `value`, `span` at the most, until it is woken;
    /// may return early. A wake-up between the look and the sleep is not lost.
    fn wait(&self, word: &AtomicU32, value: u32, span: Duration);
    /// Wakes whoever sleeps on `word`.
    fn wake(&self, word: &AtomicU32);

    /// Asks worker `lane` to leave its core, or to go on; `false` when there is
    /// no such worker.
    fn ask(&self, lane: usize, park: bool) -> bool {
        let Some(lane) = self.page().lanes().get(lane) else { return false };
        if lane.asked.ask(park) && !park {
            self.wake(lane.asked.word());
        }
        true
    }

    /// Asks nothing any more: every worker goes on.
    fn release(&self) {
        self.page().lead(None);
        (0..self.page().lanes().len()).for_each(|lane| {
            self.ask(lane, false);
        });
    }
}

#[cfg(test)]
mod tests;
