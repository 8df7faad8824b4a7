//! Service times per kind of work, over the last seconds.
//!
//! A kind keeps two windows of samples. A window is closed after [`WINDOW`] if it has
//! [`SAMPLES_MIN`] samples, so a forecast rests on the last one to two seconds, or on the last
//! samples of a kind that is rarely requested. A change of speed shows sooner: after
//! [`RUN_MAX`] samples in a row outside of the central 90 %, older samples are discarded.
//! The number of kinds (methods, phases) is bounded: the kind that was recorded least recently
//! makes room. Once kinds have made room, those with few samples of their own share one
//! estimate; before, nothing is known of them.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use queueing::{Span, Time};

use crate::Forecast;
use crate::forecast::{BUCKETS, bucket};

/// Service times of kinds `K`.
#[derive(Clone, Debug)]
pub struct History<K> {
    kinds: BTreeMap<K, Estimator>,
    /// Kinds by the number of their last record.
    recency: BTreeMap<u64, K>,
    records: u64,
    shared: Estimator,
    unknown: Forecast,
    /// True once a kind has made room.
    is_full: bool,
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
    previous: Window,
    current: Window,
    opened: Time,
    forecast: Forecast,
    /// Samples since the forecast was made.
    unpublished: u64,
    /// Samples in a row below p5 and above p95.
    run: [u32; 2],
    /// Number of the last record.
    recorded: u64,
}

#[derive(Clone, Debug, Default)]
struct Window {
    /// Empty without samples.
    counts: Vec<u32>,
    samples: u64,
    sum_ns: u128,
    longest: Span,
}

impl<K: Ord + Clone> History<K> {
    /// Estimator for at most `kinds_max` kinds, about 6 kB each.
    #[must_use]
    pub fn new(kinds_max: usize) -> Self {
        Self {
            kinds: BTreeMap::new(),
            recency: BTreeMap::new(),
            records: 0,
            shared: Estimator::new(),
            unknown: Forecast::default(),
            is_full: kinds_max == 0,
            kinds_max,
        }
    }

    /// Records at `now` that work of `kind` took `service`.
    pub fn record(&mut self, now: Time, kind: K, service: Span) {
        if self.kinds_max == 0 {
            return self.shared.record(now, service);
        }
        self.records += 1;
        let estimator = match self.kinds.get_mut(&kind) {
            Some(known) => known,
            None => {
                if self.kinds.len() >= self.kinds_max {
                    self.is_full = true;
                    let stale = self.recency.pop_first().map(|(_, stale)| stale);
                    stale.and_then(|stale| self.kinds.remove(&stale));
                }
                self.kinds.entry(kind.clone()).or_insert_with(Estimator::new)
            }
        };
        self.recency.remove(&estimator.recorded);
        estimator.recorded = self.records;
        self.recency.insert(self.records, kind);
        if estimator.samples() < SAMPLES_MIN {
            self.shared.record(now, service);
        }
        estimator.record(now, service);
    }

    /// True if `kind` has an estimate of its own.
    #[must_use]
    pub fn tracks(&self, kind: &K) -> bool {
        self.kinds.contains_key(kind)
    }

    /// Discards the samples of `kind`.
    pub fn forget(&mut self, kind: &K) {
        match self.kinds.remove(kind) {
            Some(known) => drop(self.recency.remove(&known.recorded)),
            None => self.shared = Estimator::new(),
        }
    }

    /// Forecast for `kind`.
    #[must_use]
    pub fn forecast(&self, kind: &K) -> Forecast {
        self.known(kind).clone()
    }

    /// Quantiles for `kind`, at the resolution of a forecast.
    #[must_use]
    pub fn estimate(&self, kind: &K) -> Estimate {
        let forecast = self.known(kind);
        Estimate { p50: forecast.quantile(50), p95: forecast.quantile(95), samples: forecast.samples() }
    }

    fn known(&self, kind: &K) -> &Forecast {
        match self.kinds.get(kind).filter(|own| own.samples() >= SAMPLES_MIN) {
            Some(own) => &own.forecast,
            None if self.is_full => &self.shared.forecast,
            None => &self.unknown,
        }
    }
}

impl Estimator {
    fn new() -> Self {
        Self {
            previous: Window::default(),
            current: Window::default(),
            opened: Time::ZERO,
            forecast: Forecast::default(),
            unpublished: 0,
            run: [0; 2],
            recorded: 0,
        }
    }

    fn samples(&self) -> u64 {
        self.previous.samples + self.current.samples
    }

    fn record(&mut self, now: Time, service: Span) {
        if self.samples() == 0 {
            self.opened = now;
        }
        let is_closing = now.since(self.opened) >= WINDOW && self.current.samples >= SAMPLES_MIN;
        if is_closing {
            self.previous = std::mem::take(&mut self.current);
            self.opened = now;
        }
        let has_changed = self.is_change(service);
        if has_changed {
            self.previous = Window::default();
            self.current = Window::default();
        }
        self.current.record(service);
        self.unpublished += 1;
        if is_closing || has_changed || self.unpublished * PUBLISH_SHARE >= self.samples() {
            self.publish();
        }
    }

    /// True if `service` ends a run of samples outside of the central 90 %.
    fn is_change(&mut self, service: Span) -> bool {
        if self.forecast.samples() < SAMPLES_MIN {
            return false;
        }
        let side = self.forecast.compare(service);
        for (run, outside) in self.run.iter_mut().zip([Ordering::Less, Ordering::Greater]) {
            *run = if side == outside { *run + 1 } else { 0 };
        }
        let is_change = self.run.iter().any(|&run| run >= RUN_MAX);
        if is_change {
            self.run = [0; 2];
        }
        is_change
    }

    fn publish(&mut self) {
        let count = |at: usize| {
            let of = |window: &Window| window.counts.get(at).copied().unwrap_or(0);
            of(&self.previous) + of(&self.current)
        };
        let sum_ns = self.previous.sum_ns + self.current.sum_ns;
        let longest = self.previous.longest.max(self.current.longest);
        self.forecast = Forecast::new((0..BUCKETS).map(count), sum_ns, longest);
        self.unpublished = 0;
    }
}

impl Window {
    fn record(&mut self, service: Span) {
        if self.counts.is_empty() {
            self.counts = vec![0; BUCKETS];
        }
        self.counts[bucket(service)] += 1;
        self.samples += 1;
        self.sum_ns += u128::from(service.as_nanos());
        self.longest = self.longest.max(service);
    }
}

/// Samples needed before an estimate is used.
const SAMPLES_MIN: u64 = 16;
/// Minimum duration of a window.
const WINDOW: Span = Span::from_secs(1);
/// Samples in a row outside of the central 90 % that show a change of speed; by chance once
/// in three million samples.
const RUN_MAX: u32 = 5;
/// A forecast is renewed when a 32nd of its samples is new.
const PUBLISH_SHARE: u64 = 32;
