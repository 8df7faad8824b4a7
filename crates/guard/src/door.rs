//! Holds arrivals to a limit, the least important class first.
//!
//! Classes share what may come in by trunk reservation: the last bit of it is
//! for the first class alone, a little more for the first two. So a class is
//! only shed once those after it have been, and a limit needs no knowledge of
//! who will come. Of a number in the server half is for all; of a rate, what is
//! kept beyond ([`Share`]) outlasts the chance by which those before the last
//! come together, or they were shed though all of them would have been served.
//! Source: trunk reservation, as telephone networks have it (Key, 1990).

use queueing::Time;

use crate::Limit;

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

    /// Its place, from 0.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// What came to a door.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Requests that came.
    pub seen: u64,
    /// Requests that were shed, or would have been, if it only watches.
    pub shed: u64,
}

/// What of a rate may come in at once, and who finds it: requests that were
/// saved up while fewer came.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Share {
    /// Saved up for all.
    all: f64,
    /// Kept beyond that for each class from those after it.
    kept: f64,
    classes: usize,
}

impl Share {
    /// Of `per_s` requests a second, among `classes`: what comes in a hundredth of
    /// a second for all, and in a twentieth for those before the last, a step for each.
    ///
    /// # Panics
    /// When `classes` is zero.
    #[must_use]
    pub fn new(per_s: f64, classes: usize) -> Self {
        assert!(classes > 0, "everybody is of some class");
        let steps = classes.saturating_sub(1).max(1) as f64;
        Self { all: (per_s / 100.0).max(ALL_MIN), kept: (per_s / 20.0).max(KEPT_MIN) / steps, classes }
    }

    /// What can be saved up.
    #[must_use]
    pub fn most(self) -> f64 {
        self.all + self.kept * (self.classes - 1) as f64
    }

    /// What must have been for a request of the class at `place`, from 0.
    #[must_use]
    pub fn need(self, place: usize) -> f64 {
        1.0 + self.kept * place.min(self.classes - 1) as f64
    }
}

/// The least that all may bring at once, however small the rate is.
const ALL_MIN: f64 = 4.0;
/// The least that is kept for those before the last.
const KEPT_MIN: f64 = 8.0;

/// Where arrivals are let in or shed.
#[derive(Clone, Debug)]
pub struct Door {
    limit: Limit,
    counts: Vec<Counts>,
    watches: bool,
    /// Requests that may come in at once, of a rate.
    tokens: f64,
    filled: Time,
}

impl Door {
    /// An open door for `classes` classes; requests of later ones count as of
    /// the last.
    ///
    /// # Panics
    /// When `classes` is zero.
    #[must_use]
    pub fn new(classes: u8) -> Self {
        assert!(classes > 0, "everybody is of some class");
        let counts = vec![Counts::default(); classes.into()];
        Self { limit: Limit::Open, counts, watches: false, tokens: 0.0, filled: Time::ZERO }
    }

    /// The same, letting everybody in and counting whom it would have shed.
    #[must_use]
    pub fn watching(self) -> Self {
        Self { watches: true, ..self }
    }

    /// From `now` on holds to `limit`.
    pub fn set(&mut self, now: Time, limit: Limit) {
        self.fill(now);
        if !matches!(self.limit, Limit::Rate { .. }) {
            // Nobody has saved up.
            self.tokens = 1.0;
        }
        self.limit = limit;
        self.tokens = self.tokens.min(self.most());
    }

    /// Whether a request of `class` may come in at `now`, of whom `present`
    /// are in the server.
    pub fn admits(&mut self, now: Time, class: Class, present: u64) -> bool {
        self.fill(now);
        let place = class.index().min(self.counts.len() - 1);
        let classes = self.counts.len();
        let admitted = match self.limit {
            Limit::Open => true,
            Limit::Closed => false,
            // Of what there is at most, some only for those before this class.
            Limit::Present { max } => {
                (present as f64) < max as f64 * (1.0 - place as f64 / (2 * classes) as f64)
            }
            Limit::Rate { per_s } => {
                let enough = self.tokens >= Share::new(per_s, classes).need(place);
                self.tokens -= f64::from(u8::from(enough));
                enough
            }
        };
        let counts = &mut self.counts[place];
        counts.seen += 1;
        counts.shed += u64::from(!admitted);
        admitted || self.watches
    }

    /// What came so far, by class.
    #[must_use]
    pub fn counts(&self) -> &[Counts] {
        &self.counts
    }

    fn most(&self) -> f64 {
        match self.limit {
            Limit::Rate { per_s } => Share::new(per_s, self.counts.len()).most(),
            _ => f64::INFINITY,
        }
    }

    fn fill(&mut self, now: Time) {
        if let Limit::Rate { per_s } = self.limit {
            let more = now.since(self.filled).as_secs_f64() * per_s;
            self.tokens = (self.tokens + more).min(self.most());
        }
        self.filled = now;
    }
}
