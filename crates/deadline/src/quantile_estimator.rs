//! Service-time quantiles per kind of work.
//!
//! Quantiles are those of the last full window of samples, so a query costs a lookup and a
//! change shows within two windows. The number of kinds (methods, phases) is bounded; kinds
//! beyond the bound share one estimate.

use std::collections::BTreeMap;

use queueing::{Histogram, Span};

/// Service times of kinds `K`.
#[derive(Clone, Debug)]
pub struct History<K> {
    kinds: BTreeMap<K, Estimator>,
    shared: Estimator,
    kinds_max: usize,
}

/// Quantiles of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Estimate {
    /// Median.
    pub p50: Span,
    /// 95th percentile.
    pub p95: Span,
    /// Number of samples; zero if nothing was recorded.
    pub samples: u64,
}

impl Estimate {
    /// Expected service time: p95; zero while samples are too few.
    #[must_use]
    pub fn expected(&self) -> Span {
        if self.samples < SAMPLES_MIN { Span::ZERO } else { self.p95 }
    }
}

#[derive(Clone, Debug)]
struct Estimator {
    window: Histogram,
    estimate: Estimate,
}

impl<K: Ord> History<K> {
    /// Estimator for at most `kinds_max` kinds, about 30 kB each.
    #[must_use]
    pub fn new(kinds_max: usize) -> Self {
        Self { kinds: BTreeMap::new(), shared: Estimator::new(), kinds_max }
    }

    /// Records that work of `kind` took `service`.
    pub fn record(&mut self, kind: K, service: Span) {
        let has_capacity = self.kinds.len() < self.kinds_max;
        let estimator = match self.kinds.entry(kind) {
            std::collections::btree_map::Entry::Occupied(known) => known.into_mut(),
            std::collections::btree_map::Entry::Vacant(new) if has_capacity => new.insert(Estimator::new()),
            std::collections::btree_map::Entry::Vacant(_) => &mut self.shared,
        };
        estimator.record(service);
    }

    /// True if `kind` has an estimate of its own.
    #[must_use]
    pub fn tracks(&self, kind: &K) -> bool {
        self.kinds.contains_key(kind)
    }

    /// Discards the samples of `kind`.
    pub fn forget(&mut self, kind: &K) {
        *self.kinds.get_mut(kind).unwrap_or(&mut self.shared) = Estimator::new();
    }

    /// Estimate for `kind`.
    #[must_use]
    pub fn estimate(&self, kind: &K) -> Estimate {
        self.kinds.get(kind).unwrap_or(&self.shared).estimate
    }
}

impl Estimator {
    fn new() -> Self {
        Self { window: Histogram::coarse(), estimate: Estimate::default() }
    }

    /// Adds a sample. The estimate is renewed at each full window, and before the first
    /// full window at each power of two of samples.
    fn record(&mut self, service: Span) {
        self.window.record(service);
        let samples = self.window.count();
        let first = self.estimate.samples < WINDOW;
        if samples >= WINDOW || first && samples.is_power_of_two() {
            self.estimate =
                Estimate { p50: self.window.quantile(0.5), p95: self.window.quantile(0.95), samples };
        }
        if samples >= WINDOW {
            self.window.clear();
        }
    }
}

/// Samples needed before an estimate is used.
const SAMPLES_MIN: u64 = 16;
/// Samples per window.
const WINDOW: u64 = 1024;
