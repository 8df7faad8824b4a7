//! Memory layout shared by the manager and the kernel's half: `bpf/cores.h` in Rust.
//!
//! Each word has one writer at a time and is read at any time. Values are not trusted: slots out of
//! range mean no thread.

use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64};

use queueing::Time;
use sched::cores::TaskId;

/// Maximum of Linux's core numbers.
pub const CORES: usize = 256;
/// Maximum of tasks.
pub const TASKS: usize = 64;
/// Maximum of threads whose waits are published.
pub const THREADS: usize = 4096;

/// Decision for a core: a task or none, with a sequence number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wanted(pub u64);

impl Wanted {
    /// The next decision: `task` runs, or none.
    #[must_use]
    pub fn next(self, task: Option<TaskId>) -> Self {
        let number = (self.0 >> 32).wrapping_add(1) as u32;
        Self(u64::from(number) << 32 | task.map_or(0, |task| u64::from(task.0) + 1))
    }

    /// Task that is to run.
    #[must_use]
    pub fn task(self) -> Option<TaskId> {
        (self.0 as u32).checked_sub(1).and_then(|task| u16::try_from(task).ok()).map(TaskId)
    }
}

/// Entry of a core.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub struct Core {
    wanted: AtomicU64,
    pub(super) seen: AtomicU64,
    pub(super) runs: AtomicU64,
    pub(super) since_ns: AtomicU64,
    pub(super) stale: AtomicU64,
}

impl Core {
    /// Current decision for the core.
    pub fn wanted(&self) -> Wanted {
        Wanted(self.wanted.load(Relaxed))
    }

    /// Replaces the decision.
    pub fn want(&self, wanted: Wanted) {
        self.wanted.store(wanted.0, Release);
    }

    /// Decision that the core last read.
    pub fn seen(&self) -> Wanted {
        Wanted(self.seen.load(Acquire))
    }

    /// Managed task that runs there.
    pub fn runs(&self) -> Option<TaskId> {
        Wanted(self.runs.load(Acquire)).task()
    }

    /// Time since which that task runs.
    pub fn since(&self) -> Time {
        Time::from_nanos(self.since_ns.load(Relaxed))
    }

    /// Number of times the core was about to run a task that no longer had the core.
    pub fn stale(&self) -> u64 {
        self.stale.load(Relaxed)
    }
}

/// Core list of a task.
#[derive(Debug)]
#[repr(C)]
pub struct Task {
    count: AtomicU32,
    _unused: AtomicU32,
    cores: [AtomicU32; CORES],
}

impl Default for Task {
    fn default() -> Self {
        Self {
            count: AtomicU32::new(0),
            _unused: AtomicU32::new(0),
            cores: [const { AtomicU32::new(0) }; CORES],
        }
    }
}

impl Task {
    /// Replaces its cores. A concurrent reader sees a mix of old and new ones, and checks the core's
    /// own entry.
    pub fn set(&self, cores: impl Iterator<Item = u32>) {
        let mut count = 0;
        for (slot, core) in self.cores.iter().zip(cores) {
            slot.store(core, Relaxed);
            count += 1;
        }
        self.count.store(count, Release);
    }

    /// Cores.
    #[cfg(test)]
    pub fn get(&self) -> Vec<u32> {
        let count = self.count.load(Acquire) as usize;
        self.cores.iter().take(count).map(|core| core.load(Relaxed)).collect()
    }
}

/// Entry of a thread, for as long as it lives.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub struct Thread {
    pub(super) owner: AtomicU64,
    pub(super) task: AtomicU64,
    pub(super) waits_ns: AtomicU64,
    pub(super) runs_ns: AtomicU64,
    pub(super) ran_ns: AtomicU64,
    pub(super) waited_ns: AtomicU64,
    pub(super) turns: AtomicU64,
    pub(super) slept_ns: AtomicU64,
}

/// Snapshot of a thread's words.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ThreadSnapshot {
    /// Time since which the thread waits for a core, if it waits.
    pub waits: Option<Time>,
    /// True if the thread runs.
    pub runs: bool,
    /// Nanoseconds on cores, without the present time slice.
    pub ran_ns: u64,
    /// Nanoseconds spent waiting, without the present wait.
    pub waited_ns: u64,
    /// Number of times it got a core.
    pub turns: u64,
}

impl Thread {
    /// Number of the thread that owns the slot.
    pub fn owner(&self) -> Option<u32> {
        self.owner.load(Acquire).checked_sub(1).map(|owner| owner as u32)
    }

    /// Task of that thread.
    pub fn task(&self) -> usize {
        self.task.load(Relaxed) as usize
    }

    /// Takes the slot for `thread` of `task`, if it is free.
    pub fn take(&self, thread: u32, task: TaskId) -> bool {
        if self.owner.compare_exchange(0, u64::from(thread) + 1, AcqRel, Relaxed).is_err() {
            return false;
        }
        self.task.store(task.0.into(), Relaxed);
        let rest =
            [&self.waits_ns, &self.runs_ns, &self.ran_ns, &self.waited_ns, &self.turns, &self.slept_ns];
        rest.iter().for_each(|word| word.store(0, Relaxed));
        true
    }

    /// Frees the slot.
    pub fn free(&self) {
        self.owner.store(0, Release);
    }

    /// Reads the thread's state.
    pub fn snapshot(&self) -> ThreadSnapshot {
        let waits = self.waits_ns.load(Relaxed);
        ThreadSnapshot {
            waits: (waits > 0).then(|| Time::from_nanos(waits)),
            runs: self.runs_ns.load(Relaxed) > 0,
            ran_ns: self.ran_ns.load(Relaxed),
            waited_ns: self.waited_ns.load(Relaxed),
            turns: self.turns.load(Relaxed),
        }
    }

    /// Time at which the thread last went to sleep.
    pub fn slept(&self) -> Time {
        Time::from_nanos(self.slept_ns.load(Relaxed))
    }
}

/// State of the scheduler, with the kernel's reason for removing it.
#[derive(Debug)]
#[repr(C)]
pub struct State {
    pub(super) kind: AtomicU64,
    _code: AtomicU64,
    pub(super) reason: [AtomicU8; 64],
    message: [AtomicU8; 128],
}

impl Default for State {
    fn default() -> Self {
        Self {
            kind: AtomicU64::new(0),
            _code: AtomicU64::new(0),
            reason: [const { AtomicU8::new(0) }; 64],
            message: [const { AtomicU8::new(0) }; 128],
        }
    }
}

impl State {
    /// That reason in one line, if the scheduler was removed.
    pub fn why(&self) -> Option<String> {
        if self.kind.load(Acquire) == 0 {
            return None;
        }
        let text = |bytes: &[AtomicU8]| {
            let bytes: Vec<u8> = bytes.iter().map(|byte| byte.load(Relaxed)).take_while(|b| *b > 0).collect();
            String::from_utf8_lossy(&bytes).into_owned()
        };
        let (reason, message) = (text(&self.reason), text(&self.message));
        Some(if message.is_empty() { reason } else { format!("{reason}: {message}") })
    }
}

/// Membership of a thread, as the kernel stores it with the thread.
#[cfg_attr(not(feature = "bpf"), allow(dead_code, reason = "only the BPF scheduler keeps it"))]
pub fn member(task: TaskId, slot: Option<usize>) -> [u8; 8] {
    let slot = slot.map_or(u32::MAX, |slot| slot as u32);
    let words = [u32::from(task.0), slot].map(u32::to_ne_bytes);
    words.concat().try_into().expect("two words")
}

/// Cores to kick, as arguments of a call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Kick([u64; CORES / 64]);

impl Kick {
    /// Adds core `number`.
    pub fn add(&mut self, number: u32) {
        self.0[number as usize / 64] |= 1 << (number % 64);
    }

    /// True if there is none.
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|word| *word == 0)
    }

    /// Numbers.
    #[cfg(test)]
    pub fn cores(&self) -> impl Iterator<Item = u32> + '_ {
        (0..CORES as u32).filter(|n| self.0[*n as usize / 64] >> (n % 64) & 1 == 1)
    }

    /// `struct kick`.
    #[cfg_attr(not(feature = "bpf"), allow(dead_code, reason = "only the BPF scheduler is called"))]
    pub fn arguments(&self) -> [u8; 8 * (CORES / 64 + 1)] {
        const PREEMPT: u64 = 2;
        let mut bytes = [0; 8 * (CORES / 64 + 1)];
        let words = self.0.iter().chain([&PREEMPT]);
        bytes.chunks_exact_mut(8).zip(words).for_each(|(to, word)| to.copy_from_slice(&word.to_ne_bytes()));
        bytes
    }
}

const _: () = assert!(size_of::<Core>() == 64 && size_of::<Thread>() == 64, "as in cores.h");
const _: () = assert!(size_of::<Task>() == 8 + 4 * CORES && size_of::<State>() == 208, "as in cores.h");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_decision_is_distinct_and_names_the_running_task() {
        let idle = Wanted::default().next(None);
        let first = idle.next(Some(TaskId(0)));
        assert_eq!((Wanted::default().task(), idle.task(), first.task()), (None, None, Some(TaskId(0))));
        assert_ne!(first, first.next(Some(TaskId(0))));
        assert_eq!(Wanted(u64::MAX).next(Some(TaskId(7))), Wanted(8));
    }

    #[test]
    fn a_place_is_taken_once_and_begins_anew() {
        let thread = Thread::default();
        assert!(thread.take(70, TaskId(1)) && !thread.take(71, TaskId(2)));
        thread.turns.store(5, Relaxed);
        assert_eq!((thread.owner(), thread.task(), thread.snapshot().turns), (Some(70), 1, 5));
        thread.free();
        assert!(thread.owner().is_none() && thread.take(71, TaskId(2)));
        assert_eq!(thread.snapshot(), ThreadSnapshot::default());
    }

    #[test]
    fn the_kernels_reason_is_a_line() {
        let state = State::default();
        assert_eq!(state.why(), None);
        state.kind.store(1026, Relaxed);
        state.reason.iter().zip(b"runnable task stall").for_each(|(to, byte)| to.store(*byte, Relaxed));
        assert_eq!(state.why().as_deref(), Some("runnable task stall"));
    }

    #[test]
    fn kicked_cores_are_bits_and_then_comes_how() {
        let mut kick = Kick::default();
        assert!(kick.is_empty());
        [0, 65, 255].into_iter().for_each(|core| kick.add(core));
        assert_eq!(kick.cores().collect::<Vec<_>>(), [0, 65, 255]);
        let bytes = kick.arguments();
        assert_eq!((bytes[0], bytes[8], bytes[31], bytes[32], bytes.len()), (1, 2, 0x80, 2, 40));
    }
}
