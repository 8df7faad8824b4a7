//! Trunk reservation: shares of a limit by importance class.
//!
//! The last part of the limit is reserved for the first class, a slightly larger part for the
//! first two, and so on. A class is shed only after the less important ones, without knowledge of
//! their arrival rates. Of a concurrency limit, at least half is open to all classes. Of a rate, the
//! reserved tokens cover random bursts of the more important classes; otherwise these would be
//! shed although their mean rate fits. Counting requests and tokens is left to
//! [`AdmissionController`](crate::AdmissionController) and the BPF program.
//! Source: trunk reservation of telephone networks (Key, 1990).

/// Shares of `classes` classes; later classes have the share of the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    classes: usize,
}

impl Share {
    /// Shares of `classes` classes.
    ///
    /// # Panics
    /// If `classes` is zero.
    #[must_use]
    pub fn new(classes: usize) -> Self {
        assert!(classes > 0, "classes 0 is outside 1..; give at least one class");
        Self { classes }
    }

    /// Concurrency limit of `class`, from 0, under a total limit of `max`: it is admitted
    /// while fewer requests are in the server.
    #[must_use]
    pub fn present(self, max: u64, class: usize) -> u64 {
        let reserved = u128::from(max) * self.step(class) as u128 / (2 * self.classes) as u128;
        max - reserved as u64
    }

    /// Size of the token bucket at rate `per_s`: `burst` tokens for all, and a twentieth of a second's
    /// reserved for the classes before the last.
    #[must_use]
    pub fn bucket(self, per_s: f64, burst: f64) -> f64 {
        burst.max(1.0) + self.reserved(per_s) * (self.classes - 1) as f64
    }

    /// Tokens that must be in the bucket at rate `per_s` to admit a request of `class`,
    /// from 0.
    #[must_use]
    pub fn required_tokens(self, per_s: f64, class: usize) -> f64 {
        1.0 + self.reserved(per_s) * self.step(class) as f64
    }

    /// Tokens reserved for each class against the next.
    fn reserved(self, per_s: f64) -> f64 {
        let steps = self.classes.saturating_sub(1).max(1) as f64;
        (per_s / 20.0).max(RESERVED_MIN) / steps
    }

    fn step(self, class: usize) -> usize {
        class.min(self.classes - 1)
    }
}

/// Minimum reservation.
const RESERVED_MIN: f64 = 8.0;

//~ guard: classes get decreasing shares of a limit, none more than the class before it
#[cfg(test)]
mod tests {
    use proptest::prelude::{prop_assert, prop_assert_eq, proptest};
    use queueing::{Span, Time};

    use super::*;
    use crate::{AdmissionController, Class, Limit};

    #[test]
    fn of_nine_three_classes_find_nine_eight_and_six() {
        assert_eq!([0, 1, 2].map(|class| Share::new(3).present(9, class)), [9, 8, 6]);
    }

    proptest! {
        #[test]
        fn of_a_number_half_is_for_all_and_the_whole_for_the_first(
            max in 1..u64::MAX / 2, more in 0..1_000_u64, classes in 1..9_usize, class in 0..12_usize,
        ) {
            let share = Share::new(classes);
            prop_assert_eq!(share.present(max, 0), max);
            let present = share.present(max, class);
            prop_assert!(present <= max && present >= max.div_ceil(2), "{} of {}", present, max);
            prop_assert!(share.present(max, class + 1) <= present, "the next class has no more");
            prop_assert!(share.present(max + more, class) >= present, "a larger limit gives no less");
        }

        #[test]
        fn of_a_rate_each_finds_one_when_all_is_saved_up(
            per_s in 0.1..1e7_f64, more in 1.0..10.0_f64, classes in 1..9_usize, class in 0..12_usize,
        ) {
            let share = Share::new(classes);
            prop_assert_eq!(share.required_tokens(per_s, 0), 1.0);
            let need = share.required_tokens(per_s, class);
            prop_assert!(need >= 1.0 && need <= share.bucket(per_s, 4.0), "{} of {}", need, share.bucket(per_s, 4.0));
            prop_assert!(share.required_tokens(per_s, class + 1) >= need, "the next class needs no less");
            prop_assert!(share.required_tokens(per_s * more, class) >= need);
            prop_assert!(share.bucket(per_s * more, 4.0) >= share.bucket(per_s, 4.0));
        }

        #[test]
        fn a_class_that_stays_below_its_share_is_served_whole(
            max in 1..10_000_u64, classes in 1..9_u8, class in 0..12_u8, per_s in 1.0..1e6_f64,
        ) {
            let mut admission = AdmissionController::new(classes);
            admission.set(Time::ZERO, Limit::Concurrency { max });
            let below = Share::new(classes.into()).present(max, class.into());
            for present in [0, below / 2, below - 1] {
                prop_assert!(admission.try_admit(Time::ZERO, Class::new(class), present));
            }
            prop_assert!(!admission.try_admit(Time::ZERO, Class::new(class), below), "not one more");

            // Evenly, a tenth below the rate, from a full bucket.
            admission.set(Time::ZERO, Limit::Rate { per_s, burst: 4.0 });
            let mut now = Time::ZERO + Span::from_secs(60);
            for _ in 0..200 {
                prop_assert!(admission.try_admit(now, Class::new(class), 0));
                now += Span::from_nanos((1.1e9 / per_s) as u64);
            }
        }
    }
}
