//! RED: random early detection, which marks more arrivals as the average length grows.
//!
//! The average is updated at each arrival, and decays during idle time as if
//! small entries had arrived. Between `min` and `max` the probability of a mark
//! grows up to `chance_max`, spread so that marks do not cluster; from `max` on
//! every arrival is marked. Only decides; [`AqmQueue`] marks or drops.
//! Source: Floyd and Jacobson, IEEE/ACM ToN 1(4), 1993, Figs. 2 and 3 and §11
//! (parameters); marks instead of drops: RFC 3168 §5.
//!
//! [`AqmQueue`]: super::AqmQueue

use super::QueueLength;
use crate::{Rng, Span, Time};

/// Parameters of RED.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RedSettings {
    /// Average below which nothing is marked.
    pub min: QueueLength,
    /// Average from which everything is marked; in the unit of `min`.
    pub max: QueueLength,
    /// Probability of a mark just below `max`, 0..=1.
    pub chance_max: f64,
    /// Weight of each new sample in the average, 0..=1.
    pub weight: f64,
    /// Transmission time of a small entry: the average takes one zero sample per
    /// this much idle time.
    pub service: Span,
}

/// State of one queue.
#[derive(Clone, Debug)]
pub struct Red {
    settings: RedSettings,
    average: f64,
    /// Arrivals since the last mark, or since the average rose above `min`.
    unmarked: u32,
    idle_since: Option<Time>,
    rng: Rng,
}

impl Red {
    /// RED for an empty queue; `rng` draws the marks.
    ///
    /// # Panics
    /// If `min` and `max` have different units, or `max` is not above `min`.
    #[must_use]
    pub fn new(settings: RedSettings, rng: Rng) -> Self {
        let RedSettings { min, max, .. } = settings;
        assert!(min.same_unit(max), "min {min:?} and max {max:?} have different units");
        assert!(min.amount() < max.amount(), "max {max:?} is not above min {min:?}");
        Self { settings, average: 0.0, unmarked: 0, idle_since: None, rng }
    }

    /// Average length.
    #[must_use]
    pub const fn average(&self) -> f64 {
        self.average
    }

    /// True if an arrival at `now` is to be marked or dropped; `entries` of `bytes`
    /// in total are queued.
    pub fn should_mark(&mut self, now: Time, entries: u64, bytes: u64) -> bool {
        let RedSettings { min, max, chance_max, weight, service } = self.settings;
        if let Some(since) = self.idle_since.take() {
            let missed = now.since(since).as_nanos() / service.as_nanos().max(1);
            self.average *= (1.0 - weight).powf(missed as f64);
        }
        let waiting = min.measure(entries, bytes);
        self.average += weight * (waiting as f64 - self.average);
        let (min, max) = (min.amount() as f64, max.amount() as f64);
        if self.average < min {
            self.unmarked = 0;
            return false;
        }
        let chance = chance_max * (self.average - min) / (max - min);
        // Makes the distance between two marks uniform.
        let spread = chance / (1.0 - f64::from(self.unmarked) * chance).max(f64::MIN_POSITIVE);
        let mark = self.average >= max || self.rng.chance(spread.min(1.0));
        self.unmarked = if mark { 0 } else { self.unmarked + 1 };
        mark
    }

    /// The queue is empty from `now` on.
    pub const fn on_idle(&mut self, now: Time) {
        self.idle_since = Some(now);
    }
}

//~ fabric: CoDel and RED follow their laws as worked out by hand (RFC 8289)
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

    fn marks(red: &mut Red, waiting: u64, arrivals: u32) -> u32 {
        (0..arrivals).map(|_| u32::from(red.should_mark(Time::ZERO, waiting, 0))).sum()
    }

    #[test]
    fn marks_nothing_below_min_and_everything_from_max() {
        let mut red = red(1.0);
        assert_eq!(marks(&mut red, 19, 1_000), 0);
        assert_eq!(marks(&mut red, 60, 1_000), 1_000);
    }

    /// Halfway the probability is 5 %, and distances from 1 to 20 are equally
    /// likely: 10.5 on average.
    #[test]
    fn distances_between_marks_average_half_the_inverse_probability() {
        let share = f64::from(marks(&mut red(1.0), 40, 100_000)) / 100_000.0;
        assert!((share - 1.0 / 10.5).abs() < 0.002, "{share}");
    }

    /// 1 - (1 - 1/4)² of 64 after two samples.
    #[test]
    fn the_average_follows_by_its_weight_and_decays_while_idle() {
        let mut red = red(0.25);
        let _ = marks(&mut red, 64, 2);
        assert!((red.average() - 28.0).abs() < 1e-9, "{}", red.average());
        red.on_idle(Time::ZERO);
        let _ = red.should_mark(Time::ZERO + Span::from_micros(1), 0, 0);
        assert!((red.average() - 28.0 * 0.75 * 0.75).abs() < 1e-9, "one idle sample, and this one");
    }
}
