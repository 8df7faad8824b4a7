//! DRAM latency under load, and a shared last-level cache.
//!
//! Latency over utilisation u is a hyperbola, 1 + r·u/(1 − u): flat up to three quarters, steep
//! beyond. A task that waits for DRAM issues fewer accesses; utilisation is the equilibrium of
//! demand and latency ([`settle`]). A last-level cache that is too small holds the same
//! fraction of every footprint; accesses to the rest miss. Both apply at once, without warm-up.
//! Source: shapes from Caladan (OSDI '20) §3; the caller supplies the numbers.

/// One task's demand on a socket's memory.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Demand {
    /// Bytes per second with idle DRAM and exclusive cache.
    pub bytes_per_s: f64,
    /// Fraction of time spent waiting for DRAM in that state, 0 to 1.
    pub memory: f64,
    /// Factor by which misses exceed those with exclusive cache.
    pub misses: f64,
}

impl Demand {
    /// Slowdown when DRAM's latency is `latency` times its idle latency.
    #[must_use]
    pub fn dilation(&self, latency: f64) -> f64 {
        (1.0 - self.memory) + self.memory * self.misses * latency
    }
}

/// DRAM latency at utilisation `used` (0..1), relative to idle latency.
#[must_use]
pub fn latency(used: f64, rise: f64) -> f64 {
    1.0 + rise * used / (1.0 - used)
}

/// Utilisation (0..1) at which the demand of the tasks, slowed by DRAM's latency, equals
/// supply.
///
/// `capacity` in bytes per second, more than 0; `rise` as in [`latency`].
#[must_use]
pub fn settle(demands: &[Demand], capacity: f64, rise: f64) -> f64 {
    let moved = |used: f64| -> f64 {
        let latency = latency(used, rise);
        demands.iter().map(|d| d.bytes_per_s * d.misses / d.dilation(latency)).sum()
    };
    let (mut low, mut high) = (0.0, USED_MAX);
    // Demand falls and supply grows with utilisation: there is one intersection.
    for _ in 0..24 {
        let middle = (low + high) / 2.0;
        if moved(middle) > middle * capacity {
            low = middle;
        } else {
            high = middle;
        }
    }
    (low + high) / 2.0
}

/// Maximum utilisation of DRAM.
const USED_MAX: f64 = 0.999;

/// Factor of misses when a fraction `cached_share` (0 to 1) of the footprint is cached; `alone` (more
/// than 0) is the miss ratio with all of it cached.
#[must_use]
pub fn misses(alone: f64, cached_share: f64) -> f64 {
    (alone + (1.0 - alone) * (1.0 - cached_share)) / alone
}

/// Fraction of each footprint that a cache of `capacity` bytes holds, when `footprints` bytes use
/// it.
#[must_use]
pub fn cached_share(capacity: f64, footprints: f64) -> f64 {
    if footprints <= capacity { 1.0 } else { capacity / footprints }
}

//~ cores: the simulated machine agrees with M/M/c and with the model of interference
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latency_is_a_hyperbola() {
        for (used, expected) in [(0.0, 1.0), (0.5, 1.1), (0.75, 1.3), (0.9, 1.9), (0.99, 10.9)] {
            assert!((latency(used, 0.1) - expected).abs() < 1e-9, "{used}");
        }
    }

    #[test]
    fn the_settled_bandwidth_is_the_tasks_traffic() {
        let stream = Demand { bytes_per_s: 2e11, memory: 0.9, misses: 1.0 };
        let other = Demand { bytes_per_s: 3e9, memory: 0.4, misses: 2.5 };
        for demands in [vec![], vec![other], vec![stream], vec![stream, other]] {
            let used = settle(&demands, 32e9, 0.1);
            let slow = latency(used, 0.1);
            let moved: f64 = demands.iter().map(|d| d.bytes_per_s * d.misses / d.dilation(slow)).sum();
            assert!((moved - used * 32e9).abs() < 32e9 * 1e-3, "{moved} for {used}");
        }
        assert!(settle(&[stream], 32e9, 0.1) > 0.95, "one that streams saturates");
    }

    #[test]
    fn tasks_that_share_a_small_cache_miss_more() {
        assert_eq!(cached_share(30e6, 20e6), 1.0);
        assert_eq!(cached_share(30e6, 60e6), 0.5);
        assert_eq!(misses(0.1, 1.0), 1.0);
        assert!((misses(0.1, 0.5) - 5.5).abs() < 1e-9);
        assert_eq!(misses(1.0, 0.0), 1.0, "who misses always cannot miss more");
    }
}
