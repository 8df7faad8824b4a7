//! Random early detection: the longer a queue is on average, the more of its
//! arrivals are told.
//!
//! The average follows the length with each arrival, and decays while nothing
//! waits as if small entries had come. Between `min` and `max` the chance of an
//! arrival grows up to `chance_max`, spread out so that those told do not come
//! in clusters; from `max` on everybody is told. Only decides; [`AqmQueue`]
//! tells.
//! Source: Floyd and Jacobson, IEEE/ACM ToN 1(4), 1993, Figs. 2 and 3 and §11
//! (parameters); to mark instead of to drop: RFC 3168 §5.
//!
//! [`AqmQueue`]: super::Managed

use super::QueueLength;
use crate::{Rng, Span, Time};

/// When arrivals are told.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RedSettings {
    /// Up to this average nobody is.
    pub min: QueueLength,
    /// From this average on everybody is; counted as `min` is.
    pub max: QueueLength,
    /// The chance just below that, 0..=1.
    pub chance_max: f64,
    /// How much of each look at the length the average takes over, 0..=1.
    pub weight: f64,
    /// How long a small entry takes to leave: so often the average takes over
    /// a zero while nothing waits.
    pub service: Span,
}

/// The average and the chances of one queue.
#[derive(Clone, Debug)]
pub struct Red {
    settings: RedSettings,
    average: f64,
    /// Arrivals since the last one that was told, or since some may be.
    passed: u32,
    idle_since: Option<Time>,
    rng: Rng,
}

impl Red {
    /// An idle queue; `rng` decides who is told.
    ///
    /// # Panics
    /// When `min` and `max` are not counted alike, or `max` is not above `min`.
    #[must_use]
    pub fn new(settings: RedSettings, rng: Rng) -> Self {
        let RedSettings { min, max, .. } = settings;
        assert!(min.same_unit(max), "one queue has one length");
        assert!(min.amount() < max.amount(), "the chance grows over some length");
        Self { settings, average: 0.0, passed: 0, idle_since: None, rng }
    }

    /// The average length.
    #[must_use]
    pub const fn average(&self) -> f64 {
        self.average
    }

    /// Whether an arrival at `now` is told, where `entries` of `bytes` together
    /// wait before it.
    pub fn hits(&mut self, now: Time, entries: u64, bytes: u64) -> bool {
        let RedSettings { min, max, chance_max, weight, service } = self.settings;
        if let Some(since) = self.idle_since.take() {
            let missed = now.since(since).as_nanos() / service.as_nanos().max(1);
            self.average *= (1.0 - weight).powf(missed as f64);
        }
        let waiting = min.measure(entries, bytes);
        self.average += weight * (waiting as f64 - self.average);
        let (min, max) = (min.amount() as f64, max.amount() as f64);
        if self.average < min {
            self.passed = 0;
            return false;
        }
        let chance = chance_max * (self.average - min) / (max - min);
        // Every place between two that are told is as likely as another.
        let spread = chance / (1.0 - f64::from(self.passed) * chance).max(f64::MIN_POSITIVE);
        let hit = self.average >= max || self.rng.chance(spread.min(1.0));
        self.passed = if hit { 0 } else { self.passed + 1 };
        hit
    }

    /// Nothing waits from `now` on.
    pub const fn on_idle(&mut self, now: Time) {
        self.idle_since = Some(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn red(weight: f64) -> Red {
        let settings = RedSettings {
            min: QueueLength::Entries(20),
            max: QueueLength::Entries(60),
            chance_max: 0.1,
            weight,
            service: Span::from_micros(1),
        };
        Red::new(settings, Rng::seeded(7))
    }

    fn told(red: &mut Red, waiting: u64, arrivals: u32) -> u32 {
        (0..arrivals).map(|_| u32::from(red.hits(Time::ZERO, waiting, 0))).sum()
    }

    #[test]
    fn nobody_is_told_below_min_and_everybody_from_max_on() {
        let mut red = red(1.0);
        assert_eq!(told(&mut red, 19, 1_000), 0);
        assert_eq!(told(&mut red, 60, 1_000), 1_000);
    }

    /// Halfway the chance is 5 %, and places between 1 and 20 are equally
    /// likely: 10.5 on average.
    #[test]
    fn between_them_one_in_half_the_inverse_of_the_chance_is() {
        let share = f64::from(told(&mut red(1.0), 40, 100_000)) / 100_000.0;
        assert!((share - 1.0 / 10.5).abs() < 0.002, "{share}");
    }

    /// 1 − (1 − 1/4)² of 64 after two looks.
    #[test]
    fn the_average_follows_by_its_weight_and_decays_while_idle() {
        let mut red = red(0.25);
        let _ = told(&mut red, 64, 2);
        assert!((red.average() - 28.0).abs() < 1e-9, "{}", red.average());
        red.on_idle(Time::ZERO);
        let _ = red.hits(Time::ZERO + Span::from_micros(1), 0, 0);
        assert!((red.average() - 28.0 * 0.75 * 0.75).abs() < 1e-9, "one missed, and this one");
    }
}
