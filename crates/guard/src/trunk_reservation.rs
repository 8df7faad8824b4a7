//! What of a limit each class finds: trunk reservation.
//!
//! The last bit of what may come in is for the first class alone, a little more
//! for the first two. So a class is only shed once those after it have been, and
//! a limit needs no knowledge of who will come. Of a number in the server half is
//! for all; of a rate, what is kept beyond outlasts the chance by which those
//! before the last come together, or they were shed though all of them would have
//! been served. Who counts those in the server and saves up the rate is not here:
//! doors do, [`AdmissionController`](crate::Door) and the one in the kernel, each in its own way.
//! Source: trunk reservation, as telephone networks have it (Key, 1990).

/// What so many classes find of a limit; those after the last find what it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    classes: usize,
}

impl Share {
    /// Among `classes`.
    ///
    /// # Panics
    /// When `classes` is zero.
    #[must_use]
    pub fn new(classes: usize) -> Self {
        assert!(classes > 0, "everybody is of some class");
        Self { classes }
    }

    /// Below how many in the server, of whom there are `max` at most, one of the
    /// `class`, from 0, comes in.
    #[must_use]
    pub fn present(self, max: u64, class: usize) -> u64 {
        let reserved = u128::from(max) * self.step(class) as u128 / (2 * self.classes) as u128;
        max - reserved as u64
    }

    /// Requests that can be saved up of `per_s` a second while fewer come: what
    /// comes in a hundredth of a second for all, and in a twentieth for those
    /// before the last, a step for each.
    #[must_use]
    pub fn burst(self, per_s: f64) -> f64 {
        (per_s / 100.0).max(BURST_MIN) + self.reserved(per_s) * (self.classes - 1) as f64
    }

    /// Requests that must have been saved up of `per_s` a second for one of the
    /// `class`, from 0.
    #[must_use]
    pub fn required_tokens(self, per_s: f64, class: usize) -> f64 {
        1.0 + self.reserved(per_s) * self.step(class) as f64
    }

    /// Kept of a rate for each class from those after it.
    fn reserved(self, per_s: f64) -> f64 {
        let steps = self.classes.saturating_sub(1).max(1) as f64;
        (per_s / 20.0).max(RESERVED_MIN) / steps
    }

    fn step(self, class: usize) -> usize {
        class.min(self.classes - 1)
    }
}

/// The least that all may bring at once, however small the rate is.
const BURST_MIN: f64 = 4.0;
/// The least that is kept for those before the last.
const RESERVED_MIN: f64 = 8.0;

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
            prop_assert!(share.present(max, class + 1) <= present, "the next finds no more");
            prop_assert!(share.present(max + more, class) >= present, "and more of more");
        }

        #[test]
        fn of_a_rate_each_finds_one_when_all_is_saved_up(
            per_s in 0.1..1e7_f64, more in 1.0..10.0_f64, classes in 1..9_usize, class in 0..12_usize,
        ) {
            let share = Share::new(classes);
            prop_assert_eq!(share.required_tokens(per_s, 0), 1.0);
            let need = share.required_tokens(per_s, class);
            prop_assert!(need >= 1.0 && need <= share.burst(per_s), "{} of {}", need, share.burst(per_s));
            prop_assert!(share.required_tokens(per_s, class + 1) >= need, "the next needs no less");
            prop_assert!(share.required_tokens(per_s * more, class) >= need);
            prop_assert!(share.burst(per_s * more) >= share.burst(per_s));
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
            prop_assert!(!admission.try_admit(Time::ZERO, Class::new(class), below), "and no one more");

            // Evenly and a tenth more slowly than the rate, once enough was saved up.
            admission.set(Time::ZERO, Limit::Rate { per_s });
            let mut now = Time::ZERO + Span::from_secs(60);
            for _ in 0..200 {
                prop_assert!(admission.try_admit(now, Class::new(class), 0));
                now += Span::from_nanos((1.1e9 / per_s) as u64);
            }
        }
    }
}
