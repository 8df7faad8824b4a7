//! How long a kind of work takes, estimator from what it took.
//!
//! Two windows of samples per kind: quantiles come from the last full one
//! until the next is full, so they cost a lookup and follow a change within
//! two windows. Kinds are few (methods, phases) and bounded in number; one
//! too many shares the estimate of all others that came too late.

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
    /// Half take no longer.
    pub p50: Span,
    /// 95 % take no longer.
    pub p95: Span,
    /// Samples they rest on; zero when nothing is known.
    pub samples: u64,
}

impl Estimate {
    /// How long one more is expected to take: all but one in twenty take no
    /// longer; zero while too little is known.
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
    /// Tells at most `kinds_max` kinds apart; each takes about 30 kB.
    #[must_use]
    pub fn new(kinds_max: usize) -> Self {
        Self { kinds: BTreeMap::new(), shared: Estimator::new(), kinds_max }
    }

    /// A piece of work of `kind` took `service`.
    pub fn record(&mut self, kind: K, service: Span) {
        let has_capacity = self.kinds.len() < self.kinds_max;
        let estimator = match self.kinds.entry(kind) {
            std::collections::btree_map::Entry::Occupied(known) => known.into_mut(),
            std::collections::btree_map::Entry::Vacant(new) if has_capacity => new.insert(Estimator::new()),
            std::collections::btree_map::Entry::Vacant(_) => &mut self.shared,
        };
        estimator.record(service);
    }

    /// Whether `kind` is told apart from others, having been recorded while
    /// there was has_capacity.
    #[must_use]
    pub fn tracks(&self, kind: &K) -> bool {
        self.kinds.contains_key(kind)
    }

    /// Forgets what is known of `kind`, since it holds no longer.
    pub fn forget(&mut self, kind: &K) {
        *self.kinds.get_mut(kind).unwrap_or(&mut self.shared) = Estimator::new();
    }

    /// What is known of `kind`.
    #[must_use]
    pub fn estimate(&self, kind: &K) -> Estimate {
        self.kinds.get(kind).unwrap_or(&self.shared).estimate
    }
}

impl Estimator {
    fn new() -> Self {
        Self { window: Histogram::coarse(), estimate: Estimate::default() }
    }

    /// Until the first window is full, each power of two of samples renews the
    /// estimate; afterwards each full window.
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

/// Fewer samples say nothing of what a kind takes.
const SAMPLES_MIN: u64 = 16;
/// Samples after which quantiles are taken and counting begins anew.
const WINDOW: u64 = 1024;
