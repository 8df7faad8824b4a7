//! Sensors of DRAM load.
//!
//! One interface, four sensors: [`NullSensor`], which measures nothing; [`Probe`], which needs no
//! counters; [`Counters`] of memory controllers, caches and cores, which most virtual machines lack;
//! and [`ProbedCounters`], whose probe tells when DRAM is busy and whose counters tell who causes it.
//!
//! The probe walks through memory that no cache holds. Each load depends on the one before, so its time
//! is the latency of DRAM, which rises as DRAM nears saturation. It measures the load of the socket it
//! runs on, not the cause. Huge pages are used where the kernel has them: with small pages each load
//! also waits for page tables, which other programs evict from the caches long before DRAM is busy. The
//! measure is the lower quartile of the last few readings, against that of the quietest block of many.
//! The minimum would be a reading whose lines some cache happened to hold; it falls the longer one
//! measures, and everything looks busy beside it.

use std::hint::black_box;
use std::time::Duration;

use queueing::{Clock, CoreId, Span, Time};

use host::Monotonic;

mod counters;

pub use counters::Counters;

/// Sensor of DRAM load, per socket.
pub trait Sensor: Send {
    /// Name.
    fn name(&self) -> &'static str;

    /// Overwrites `used` with bytes per second since the last reading, per socket; `None` where that is
    /// unknown.
    fn bandwidth(&mut self, now: Time, used: &mut [Option<f64>]);

    /// Total last-level cache misses of Linux's `core`, where they are counted.
    fn misses(&mut self, _core: CoreId) -> Option<u64> {
        None
    }

    /// Load latency relative to an idle machine, if known.
    fn slowdown(&self) -> Option<f64> {
        None
    }
}

/// Sensor that measures nothing.
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

/// Load from one sensor, and the misses of each core from another.
///
/// A limit in bytes per second suits one machine; the latency of a load says on every machine whether DRAM
/// is busy.
pub struct ProbedCounters {
    /// Sensor of the load.
    pub load: Box<dyn Sensor>,
    /// Sensor of misses.
    pub misses: Box<dyn Sensor>,
}

impl Sensor for ProbedCounters {
    fn name(&self) -> &'static str {
        "latency probe, hardware counters"
    }

    fn bandwidth(&mut self, now: Time, used: &mut [Option<f64>]) {
        self.load.bandwidth(now, used);
    }

    fn misses(&mut self, core: CoreId) -> Option<u64> {
        self.misses.misses(core)
    }

    fn slowdown(&self) -> Option<f64> {
        self.load.slowdown()
    }
}

/// DRAM latency, measured by a pointer chase.
#[derive(Debug)]
pub struct Probe {
    /// Successor of each element; one cycle.
    next: Vec<u32>,
    at: u32,
    latencies: Latencies,
    limit: Limit,
}

/// Latencies of one load, in ns.
#[derive(Debug)]
struct Latencies {
    /// The last few readings.
    recent: [f64; RECENT],
    /// Readings of the current block.
    block: Vec<f64>,
    /// Latency of an idle machine so far: that of the quietest block.
    idle: f64,
    turn: usize,
}

/// Slowdown of loads that corresponds to the bandwidth limit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limit {
    /// Ratio of the load latency to that of an idle machine. At this ratio the bandwidth counts as
    /// `bandwidth`.
    pub slowdown: f64,
    /// The limit of memory bandwidth (the paper's THRESH_BW), in bytes per second.
    pub bandwidth: f64,
}

/// Number of latest readings, of which the lower quartile counts: most of them may have been
/// interrupted.
const RECENT: usize = 8;
/// Number of loads per reading.
const LOADS: u32 = 32;
/// Number of readings per block. The first block gives the latency of an idle machine.
const BLOCK: usize = 64;
/// Interval between those first readings, the same as between rounds. Taken in a row, they would find
/// lines in caches that later readings do not, and every later one would look busy.
const APART: Duration = Duration::from_millis(2);
/// Bytes of a cache line, which holds one element.
const LINE: usize = 64;
/// Bytes of a huge page.
const HUGE: usize = 2 << 20;

impl Probe {
    /// Probe over `bytes` of memory, several times the last-level cache.
    #[must_use]
    pub fn new(bytes: usize, limit: Limit) -> Self {
        let lines = (bytes / LINE).max(2);
        // One cycle through all lines (Sattolo), one element per line. Any order that prefetchers
        // cannot guess will do, so there is no clock and no outside randomness.
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

    /// Twice the largest cache that the kernel reports, between 16 and 256 MB.
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

    /// Latency of one load on an idle machine, as observed so far.
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

    /// Load latency relative to an idle machine.
    fn slowdown(&self) -> f64 {
        quarter(&mut self.recent.clone()) / self.idle
    }
}

/// Lower quartile of `readings`, which must not be empty.
fn quarter(readings: &mut [f64]) -> f64 {
    let (_, quarter, _) = readings.select_nth_unstable_by(readings.len() / 4, f64::total_cmp);
    *quarter
}

/// Requests huge pages for `memory`, which is still untouched; without any it stays as it is.
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

//~ sched: DRAM load is estimated by memory latency without hardware counters
#[cfg(test)]
mod tests {
    use queueing::Rng;

    use super::*;

    //~ sched: with counters, too, DRAM counts as busy by its latency and not by a number of bytes
    #[test]
    fn the_probe_tells_that_dram_is_busy_and_the_counters_who_causes_it() {
        struct FixedSensor;
        impl Sensor for FixedSensor {
            fn name(&self) -> &'static str {
                "fixed"
            }

            fn bandwidth(&mut self, _now: Time, used: &mut [Option<f64>]) {
                used.fill(Some(400e9));
            }

            fn misses(&mut self, core: CoreId) -> Option<u64> {
                Some(u64::from(core.0) * 1000)
            }
        }
        let mut probe = Probe::new(64 * 1000, Limit { slowdown: 2.0, bandwidth: 25e9 });
        probe.latencies.idle = f64::MAX;
        let mut sensor = ProbedCounters { load: Box::new(probe), misses: Box::new(FixedSensor) };
        let mut used = [None];
        sensor.bandwidth(Time::ZERO, &mut used);
        assert_eq!(used, [Some(0.0)], "400 GB/s with loads as fast as on an idle machine");
        assert_eq!(sensor.misses(CoreId(3)), Some(3000));
        assert!(sensor.slowdown().is_some());
    }

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
        // With an idle latency far below any reading, DRAM is busy …
        probe.latencies.idle = 1e-9;
        probe.bandwidth(Time::ZERO, &mut used);
        assert!(used[0].is_some_and(|used| used > 25e9) && used[1].is_none(), "{used:?}");
        // … and with one equal to the readings it is idle.
        probe.latencies.recent = [5.0; RECENT];
        probe.latencies.idle = 5.0;
        assert_eq!(probe.slowdown(), Some(1.0));
    }

    /// Reading of an idle machine: 250 to 350 ns. One in a hundred takes half as long (lines in a
    /// cache), one in twenty a thousand times (interrupted).
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
