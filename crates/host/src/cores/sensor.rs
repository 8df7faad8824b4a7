//! What tells how busy DRAM is.
//!
//! Behind one port: [`NullSensor`], which knows nothing, [`Probe`], which needs
//! no counters, and [`Counters`] of memory controllers, caches and cores, of which
//! most virtual machines have none.
//!
//! The probe is a walk through memory that no cache holds: each load waits for
//! the one before, so the time of one is the latency of DRAM, and latency rises
//! as DRAM nears saturation. It says how much on the socket where it runs, and
//! nothing about who it is. The memory is in huge pages where the kernel has them: with small
//! ones, each load waits for page tables, too, which others push out of the caches
//! long before DRAM is busy. What counts is a quarter's: of the last few readings, beside the
//! quietest block of many. The shortest of all would be a reading whose lines some cache
//! happened to hold, shorter the longer one looks, and everything busy beside it.

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
pub struct NullSensor;

impl Sensor for NullSensor {
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
    latencies: Latencies,
    limit: Limit,
}

/// Readings of one load, ns.
#[derive(Debug)]
struct Latencies {
    /// The last few.
    recent: [f64; RECENT],
    /// Those of this block.
    block: Vec<f64>,
    /// Of an idle machine, as far as was seen: of the quietest block.
    idle: f64,
    turn: usize,
}

/// Which slowdown counts as which bandwidth.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limit {
    /// Loads that take so many times as long as on an idle machine …
    pub slowdown: f64,
    /// … are THRESH_BW, bytes per second.
    pub bandwidth: f64,
}

/// Readings of which a quarter is shorter than what counts: most of them may have been interrupted.
const RECENT: usize = 8;
/// Loads of one reading.
const LOADS: u32 = 32;
/// Readings of a block. From the first, the latency of an idle machine is learned.
const BLOCK: usize = 64;
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
        let mut probe = Self { next, at: 0, latencies: Latencies::default(), limit };
        for _ in 0..BLOCK {
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
        Span::from_nanos(self.latencies.idle as u64)
    }

    fn read(&mut self) {
        let clock = Monotonic::new();
        let start = clock.now();
        let mut at = self.at;
        for _ in 0..LOADS {
            at = self.next[at as usize];
        }
        self.at = black_box(at);
        self.latencies.add(clock.now().since(start).as_nanos() as f64 / f64::from(LOADS));
    }
}

impl Default for Latencies {
    fn default() -> Self {
        Self { recent: [f64::MAX; RECENT], block: Vec::with_capacity(BLOCK), idle: f64::MAX, turn: 0 }
    }
}

impl Latencies {
    fn add(&mut self, ns: f64) {
        self.recent[self.turn % RECENT] = ns;
        self.turn += 1;
        self.block.push(ns);
        if self.block.len() == BLOCK {
            self.idle = self.idle.min(quarter(&mut self.block));
            self.block.clear();
        }
    }

    /// How many times as long a load takes as on an idle machine.
    fn slowdown(&self) -> f64 {
        quarter(&mut self.recent.clone()) / self.idle
    }
}

/// What a quarter of `readings`, which are not none, is shorter than.
fn quarter(readings: &mut [f64]) -> f64 {
    let (_, quarter, _) = readings.select_nth_unstable_by(readings.len() / 4, f64::total_cmp);
    *quarter
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
        let rise = (self.latencies.slowdown() - 1.0).max(0.0);
        if let Some(first) = used.first_mut() {
            *first = Some(self.limit.bandwidth * rise / (self.limit.slowdown - 1.0));
        }
    }

    fn slowdown(&self) -> Option<f64> {
        Some(self.latencies.slowdown())
    }
}

#[cfg(test)]
mod tests {
    use queueing::Rng;

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
        probe.latencies.idle = 1e-9;
        probe.bandwidth(Time::ZERO, &mut used);
        assert!(used[0].is_some_and(|used| used > 25e9) && used[1].is_none(), "{used:?}");
        // … and one that is what was read makes it idle.
        probe.latencies.recent = [5.0; RECENT];
        probe.latencies.idle = 5.0;
        assert_eq!(probe.slowdown(), Some(1.0));
    }

    /// Readings of an idle machine: 250 to 350 ns, one in a hundred half as long, as a cache held its
    /// lines, and one in twenty a thousand times, as something ran instead.
    fn idle(rng: &mut Rng) -> f64 {
        let ns = 250.0 + 100.0 * rng.unit();
        match rng.below(100) {
            0 => ns / 2.0,
            1..=5 => ns * 1000.0,
            _ => ns,
        }
    }

    #[test]
    fn an_idle_machine_stays_idle_however_long_one_looks() {
        let (mut rng, mut latencies) = (Rng::seeded(1), Latencies::default());
        (0..BLOCK).for_each(|_| latencies.add(idle(&mut rng)));
        for reading in 0..100_000 {
            latencies.add(idle(&mut rng));
            let slowdown = latencies.slowdown();
            assert!((0.4..1.4).contains(&slowdown), "{slowdown} after {reading} readings");
        }
    }

    #[test]
    fn loads_that_take_twice_as_long_are_noticed_in_a_few_readings() {
        let (mut rng, mut latencies) = (Rng::seeded(2), Latencies::default());
        (0..10 * BLOCK).for_each(|_| latencies.add(idle(&mut rng)));
        (0..RECENT).for_each(|_| latencies.add(2.2 * (250.0 + 100.0 * rng.unit())));
        assert!(latencies.slowdown() > 2.0, "{}", latencies.slowdown());
    }
}
