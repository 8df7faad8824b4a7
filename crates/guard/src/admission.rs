//! Admission control by class: admits or sheds arrivals by the current limit.
//!
//! Sheds the least important class first. The classes' shares of the limit are in [`Share`]; this
//! is the token bucket and the counters.

use queueing::Time;

use crate::{Limit, Share};

/// Importance class of a request; the first is shed last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Class(u8);

impl Class {
    /// Most important class.
    pub const FIRST: Self = Self(0);

    /// Class `n`, from 0.
    #[must_use]
    pub const fn new(n: u8) -> Self {
        Self(n)
    }

    /// Index, from 0.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// Counters of one class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Requests offered.
    pub offered: u64,
    /// Requests shed; in a dry run, those that would have been.
    pub shed: u64,
}

/// Admission controller.
#[derive(Clone, Debug)]
pub struct AdmissionController {
    limit: Limit,
    counts: Vec<Counts>,
    dry_run: bool,
    /// Tokens of a [`Limit::Rate`]; a request takes one.
    tokens: f64,
    refilled: Time,
}

impl AdmissionController {
    /// Open controller for `classes` classes; later classes count as the last one.
    ///
    /// # Panics
    /// If `classes` is zero.
    #[must_use]
    pub fn new(classes: u8) -> Self {
        assert!(classes > 0, "classes 0 is outside 1..; give at least one class");
        let counts = vec![Counts::default(); classes.into()];
        Self { limit: Limit::Open, counts, dry_run: false, tokens: 0.0, refilled: Time::ZERO }
    }

    /// Dry run: admits every request and counts those that it would have shed.
    #[must_use]
    pub fn dry_run(self) -> Self {
        Self { dry_run: true, ..self }
    }

    /// Sets `limit` from `now` on.
    pub fn set(&mut self, now: Time, limit: Limit) {
        self.refill(now);
        if !matches!(self.limit, Limit::Rate { .. }) {
            // The bucket starts almost empty.
            self.tokens = 1.0;
        }
        self.limit = limit;
        self.tokens = self.tokens.min(self.tokens_max());
    }

    /// True if a request of `class` is admitted at `now`, with `present` requests in the
    /// server.
    pub fn try_admit(&mut self, now: Time, class: Class, present: u64) -> bool {
        self.refill(now);
        let class_index = class.index().min(self.counts.len() - 1);
        let share = self.share();
        let admitted = match self.limit {
            Limit::Open => true,
            Limit::Closed => false,
            Limit::Concurrency { max } => present < share.present(max, class_index),
            Limit::Rate { per_s, .. } => {
                let enough = self.tokens >= share.required_tokens(per_s, class_index);
                self.tokens -= f64::from(u8::from(enough));
                enough
            }
        };
        let counts = &mut self.counts[class_index];
        counts.offered += 1;
        counts.shed += u64::from(!admitted);
        admitted || self.dry_run
    }

    /// Counters by class.
    #[must_use]
    pub fn counts(&self) -> &[Counts] {
        &self.counts
    }

    fn share(&self) -> Share {
        Share::new(self.counts.len())
    }

    fn tokens_max(&self) -> f64 {
        match self.limit {
            Limit::Rate { per_s, burst } => self.share().bucket(per_s, burst),
            _ => f64::INFINITY,
        }
    }

    fn refill(&mut self, now: Time) {
        if let Limit::Rate { per_s, .. } = self.limit {
            let earned = now.since(self.refilled).as_secs_f64() * per_s;
            self.tokens = (self.tokens + earned).min(self.tokens_max());
        }
        // Threads may call in another order than they read the clock.
        self.refilled = self.refilled.max(now);
    }
}
