//! What tells how busy DRAM is.
//!
//! Behind one port: [`Unseen`], which knows nothing, [`Probe`], which needs
//! no counters, and [`Counters`] of memory controllers, caches and cores, of which
//! most virtual machines have none.
//!
//! The probe is a walk through memory that no cache holds: each load waits for
//! the one before, so the time of one is the latency of DRAM, and latency rises
//! as DRAM nears saturation. It says how much on the socket where it runs, and
//! nothing about who it is. The memory is in huge pages where the kernel has them: with small
//! ones, each load waits for page tables, too, which others push out of the caches
//! long before DRAM is busy.

use std::hint::black_box;
use std::time::Duration;

use queueing::{Clock, CoreId, Span, Time};

use crate::Monotonic;

mod counters;

pub use counters::Counters;

/// How busy DRAM is, per socket.
pub trait Sensor: Send {
    /// Its name.
    fn name(&self) -> &'static str;

    /// Overwrites `used`, bytes per second and socket since the last reading;
    /// `None` where it cannot tell.
    fn bandwidth(&mut self, now: Time, used: &mut [Option<f64>]);

    /// Misses of the last-level cache so far of Linux's `core`, where they are counted.
    fn misses(&mut self, _core: CoreId) -> Option<u64> {
        None
    }

    /// How many times as long a load takes as on an idle machine, if it knows.
    fn slowdown(&self) -> Option<f64> {
        None
    }
}

/// Knows nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unseen;

impl Sensor for Unseen {
    fn name(&self) -> &'static str {
        "none"
    }

    fn bandwidth(&mut self, _now: Time, used: &mut [Option<f64>]) {
        used.fill(None);
    }
}

/// Latency of DRAM by walking.
#[derive(Debug)]
pub struct Probe {
    /// The place after each place; one circle.
    next: Vec<u32>,
    at: u32,
    /// The last few readings of one load, ns.
    recent: [f64; RECENT],
    turn: usize,
    /// Of an idle machine: the shortest so far.
    idle_ns: f64,
    limit: Limit,
}

/// Which slowdown counts as which bandwidth.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limit {
    /// Loads that take so many times as long as on an idle machine …
    pub slowdown: f64,
    /// … are THRESH_BW, bytes per second.
    pub bandwidth: f64,
}

/// Readings of which the shortest counts: one may have been interrupted.
const RECENT: usize = 4;
/// Loads of one reading.
const LOADS: u32 = 32;
/// Readings from which the latency of an idle machine is learned at first.
const LEARN: usize = 64;
/// They are as far apart as a round's: read in a row, they would find in caches what is others' by then,
/// and every later one would look like a busy machine's.
const APART: Duration = Duration::from_millis(2);
/// Bytes of a cache line, of which each holds one place.
const LINE: usize = 64;
/// Bytes of a huge page.
const HUGE: usize = 2 << 20;

impl Probe {
    /// Walks through `bytes`, several times the last-level cache.
    #[must_use]
    pub fn new(bytes: usize, limit: Limit) -> Self {
        let lines = (bytes / LINE).max(2);
        // One circle through all lines (Sattolo), one place a line; no clock and no
        // outside randomness: any order that prefetchers cannot guess will do.
        let mut order: Vec<u32> = (0..lines as u32).collect();
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        for i in (1..lines).rev() {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            order.swap(i, (state >> 33) as usize % i);
        }
        let step = LINE / size_of::<u32>();
        let mut next = vec![0; lines * step];
        widen(&mut next);
        for (line, &to) in order.iter().enumerate() {
            next[line * step] = to * step as u32;
        }
        let mut probe = Self { next, at: 0, recent: [f64::MAX; RECENT], turn: 0, idle_ns: f64::MAX, limit };
        for _ in 0..LEARN {
            std::thread::sleep(APART);
            probe.read();
        }
        probe
    }

    /// Twice the largest cache that the kernel tells of, within 16 and 256 MB.
    #[must_use]
    pub fn size() -> usize {
        let of = |index: usize| {
            let path = format!("/sys/devices/system/cpu/cpu0/cache/index{index}/size");
            let text = std::fs::read_to_string(path).ok()?;
            text.trim().strip_suffix('K')?.parse::<usize>().ok()
        };
        let largest = (0..8).filter_map(of).max().unwrap_or(0) << 10;
        (2 * largest).clamp(16 << 20, 256 << 20)
    }

    /// How long one load takes on an idle machine, as far as was seen.
    #[must_use]
    pub fn idle(&self) -> Span {
        Span::from_nanos(self.idle_ns as u64)
    }

    fn read(&mut self) {
        let clock = Monotonic::new();
        let start = clock.now();
        let mut at = self.at;
        for _ in 0..LOADS {
            at = self.next[at as usize];
        }
        self.at = black_box(at);
        let ns = clock.now().since(start).as_nanos() as f64 / f64::from(LOADS);
        self.recent[self.turn % RECENT] = ns;
        self.turn += 1;
        if self.turn >= RECENT {
            self.idle_ns = self.idle_ns.min(self.latency_ns());
        }
    }

    fn latency_ns(&self) -> f64 {
        self.recent.iter().copied().fold(f64::MAX, f64::min)
    }
}

/// Asks for huge pages under `memory`, which nobody has touched yet; without any, it stays as it is.
fn widen(memory: &mut [u32]) {
    let all = memory.as_mut_ptr_range();
    let start = (all.start as usize).next_multiple_of(HUGE);
    let len = (all.end as usize).saturating_sub(start) / HUGE * HUGE;
    // SAFETY: within `memory`, whose contents this advice leaves as they are.
    unsafe { libc::madvise(start as *mut libc::c_void, len, libc::MADV_HUGEPAGE) };
}

impl Sensor for Probe {
    fn name(&self) -> &'static str {
        "latency probe"
    }

    fn bandwidth(&mut self, _now: Time, used: &mut [Option<f64>]) {
        self.read();
        used.fill(None);
        let rise = (self.latency_ns() / self.idle_ns - 1.0).max(0.0);
        if let Some(first) = used.first_mut() {
            *first = Some(self.limit.bandwidth * rise / (self.limit.slowdown - 1.0));
        }
    }

    fn slowdown(&self) -> Option<f64> {
        Some(self.latency_ns() / self.idle_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_walk_visits_every_line_before_it_returns() {
        let limit = Limit { slowdown: 2.0, bandwidth: 25e9 };
        let probe = Probe::new(64 * 1000, limit);
        let (mut at, mut steps) = (probe.next[0], 1);
        while at != 0 {
            at = probe.next[at as usize];
            steps += 1;
        }
        assert_eq!(steps, 1000);
    }

    #[test]
    fn the_limit_of_slowdown_is_the_limit_of_bandwidth() {
        let limit = Limit { slowdown: 3.0, bandwidth: 25e9 };
        let mut probe = Probe::new(64 * 1000, limit);
        let mut used = [None, Some(1.0)];
        // Whatever is read next, an idle latency far below it makes DRAM busy …
        probe.idle_ns = 1e-9;
        probe.bandwidth(Time::ZERO, &mut used);
        assert!(used[0].is_some_and(|used| used > 25e9) && used[1].is_none(), "{used:?}");
        // … and one that is what was read makes it idle.
        probe.recent = [5.0; RECENT];
        probe.idle_ns = 5.0;
        assert_eq!(probe.slowdown(), Some(1.0));
    }
}
