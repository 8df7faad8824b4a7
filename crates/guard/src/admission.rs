//! Holds arrivals to a limit, the least important class first.
//!
//! Classes share what may come in ([`Share`]); here is what came, and what was
//! saved up.

use queueing::Time;

use crate::{Limit, Share};

/// How important a request is; the first is shed last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Class(u8);

impl Class {
    /// Shed last.
    pub const FIRST: Self = Self(0);

    /// The `n`-th, from 0.
    #[must_use]
    pub const fn new(n: u8) -> Self {
        Self(n)
    }

    /// Its class_index, from 0.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// What came to a door.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Requests that came.
    pub offered: u64,
    /// Requests that were shed, or would have been, if it only watches.
    pub shed: u64,
}

/// Where arrivals are let in or shed.
#[derive(Clone, Debug)]
pub struct AdmissionController {
    limit: Limit,
    counts: Vec<Counts>,
    dry_run: bool,
    /// Requests that may come in at once, of a rate.
    tokens: f64,
    refilled: Time,
}

impl AdmissionController {
    /// An open door for `classes` classes; requests of later ones count as of
    /// the last.
    ///
    /// # Panics
    /// When `classes` is zero.
    #[must_use]
    pub fn new(classes: u8) -> Self {
        assert!(classes > 0, "everybody is of some class");
        let counts = vec![Counts::default(); classes.into()];
        Self { limit: Limit::Open, counts, dry_run: false, tokens: 0.0, refilled: Time::ZERO }
    }

    /// The same, letting everybody in and counting whom it would have shed.
    #[must_use]
    pub fn dry_run(self) -> Self {
        Self { dry_run: true, ..self }
    }

    /// From `now` on holds to `limit`.
    pub fn set(&mut self, now: Time, limit: Limit) {
        self.refill(now);
        if !matches!(self.limit, Limit::Rate { .. }) {
            // Nobody has saved up.
            self.tokens = 1.0;
        }
        self.limit = limit;
        self.tokens = self.tokens.min(self.tokens_max());
    }

    /// Whether a request of `class` may come in at `now`, of whom `present`
    /// are in the server.
    pub fn try_admit(&mut self, now: Time, class: Class, present: u64) -> bool {
        self.refill(now);
        let class_index = class.index().min(self.counts.len() - 1);
        let share = self.share();
        let admitted = match self.limit {
            Limit::Open => true,
            Limit::Closed => false,
            Limit::Concurrency { max } => present < share.present(max, class_index),
            Limit::Rate { per_s } => {
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

    /// What came so far, by class.
    #[must_use]
    pub fn counts(&self) -> &[Counts] {
        &self.counts
    }

    fn share(&self) -> Share {
        Share::new(self.counts.len())
    }

    fn tokens_max(&self) -> f64 {
        match self.limit {
            Limit::Rate { per_s } => self.share().burst(per_s),
            _ => f64::INFINITY,
        }
    }

    fn refill(&mut self, now: Time) {
        if let Limit::Rate { per_s } = self.limit {
            let earned = now.since(self.refilled).as_secs_f64() * per_s;
            self.tokens = (self.tokens + earned).min(self.tokens_max());
        }
        // Threads may come in another order than they looked at the clock.
        self.refilled = self.refilled.max(now);
    }
}
