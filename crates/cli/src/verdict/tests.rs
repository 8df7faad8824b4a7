//! Noise never helps a claim; estimates and counts follow from the verdicts.

use proptest::prelude::*;

use super::ClaimVerdict::{Fails, Holds, Undecided};
use super::*;

fn check(value: f64, half: Option<f64>, bound: &str, margin: f64, expected: ClaimVerdict) {
    let bound = Bound::parse(bound).unwrap();
    assert_eq!(judge(value, half, bound, margin), expected, "{value} ± {half:?}, {bound}, margin {margin}");
}

//~ results: a claim whose interval contains its bound is undecided; a margin stated in its file moves the bound outwards
#[test]
fn an_interval_that_contains_the_bound_decides_nothing() {
    check(0.9, Some(0.05), "<= 1", 0.0, Holds);
    check(0.9, Some(0.2), "<= 1", 0.0, Undecided);
    check(1.1, Some(0.2), "<= 1", 0.0, Undecided);
    check(1.3, Some(0.2), "<= 1", 0.0, Fails);
    check(1.1, Some(0.2), ">= 1", 0.0, Undecided);
    check(1.0, Some(0.05), "0.9..1.1", 0.0, Holds);
    check(1.0, Some(0.2), "0.9..1.1", 0.0, Undecided);
    check(1.3, Some(0.1), "0.9..1.1", 0.0, Fails);
    // The bound itself keeps it.
    check(0.0, Some(0.0), "<= 0", 0.0, Holds);
    // Without an interval the value decides.
    check(0.9, None, "<= 1", 0.0, Holds);
    check(1.1, None, "<= 1", 0.0, Fails);
}

//~ results: a claim whose interval contains its bound is undecided; a margin stated in its file moves the bound outwards
#[test]
fn a_margin_is_what_the_value_may_be_worse() {
    check(1.0, Some(0.04), "<= 1", 0.05, Holds);
    check(1.0, Some(0.06), "<= 1", 0.05, Undecided);
    check(1.2, Some(0.06), "<= 1", 0.05, Fails);
    check(1.0, Some(0.04), ">= 1", 0.05, Holds);
    check(0.88, Some(0.01), "0.9..1.1", 0.05, Holds);
}

#[test]
fn what_is_not_a_number_does_not_hold() {
    check(f64::NAN, None, "<= 1", 0.0, Fails);
    check(f64::NAN, Some(0.1), "<= 1", 9.0, Fails);
    check(0.5, Some(f64::NAN), "<= 1", 0.0, Undecided);
    check(0.5, Some(f64::INFINITY), "<= 1", 0.0, Undecided);
    check(f64::INFINITY, Some(f64::NAN), ">= 1", 0.0, Undecided);
}

fn bounds() -> impl Strategy<Value = Bound> {
    let edge = -10.0..10.0;
    prop_oneof![
        edge.clone().prop_map(Bound::AtMost),
        edge.clone().prop_map(Bound::AtLeast),
        (edge, 0.0..5.0).prop_map(|(low, width)| Bound::Within(low, low + width)),
    ]
}

proptest! {
    //~ results: a wider interval never makes a claim hold
    #[test]
    fn a_wider_interval_never_decides(
        value in -10.0..10.0, half in 0.0..10.0, more in 0.0..10.0, bound in bounds(), margin in 0.0..2.0,
    ) {
        let narrow = judge(value, Some(half), bound, margin);
        let wide = judge(value, Some(half + more), bound, margin);
        prop_assert!(wide == narrow || wide == Undecided, "{narrow:?} becomes {wide:?}");
    }

    //~ results: an undecided claim names the number of further runs that would decide it
    #[test]
    fn the_estimated_runs_decide_and_one_less_does_not(
        value in -10.0..10.0, half in 0.0..10.0, runs in 2_u64..60, bound in bounds(), margin in 0.0..2.0,
    ) {
        prop_assume!(judge(value, Some(half), bound, margin) == Undecided);
        let half_of = |all: u64| {
            let scale = |runs: u64| t_975((runs - 1) as f64) / (runs as f64).sqrt();
            half * scale(all) / scale(runs)
        };
        let verdict = |all| judge(value, Some(half_of(all)), bound, margin);
        match runs_to_decide(value, half, runs, bound, margin) {
            Some(more) => {
                prop_assert!(more >= 1);
                prop_assert_ne!(verdict(runs + more), Undecided);
                // Rounding at the edge.
                prop_assert!(more < 3 || verdict(runs + more - 2) == Undecided);
            }
            None => prop_assert_eq!(verdict(RUNS_MAX), Undecided),
        }
    }
}

#[test]
fn a_value_on_its_bound_is_never_decided() {
    assert_eq!(runs_to_decide(1.0, 0.1, 5, Bound::AtMost(1.0), 0.0), None);
    // t(4) / √5 is 1.24, t(11) / √12 is 0.64: half of it takes seven more runs.
    assert_eq!(runs_to_decide(0.9, 0.19, 5, Bound::AtMost(1.0), 0.0), Some(7));
    assert_eq!(more_runs_in_words(5, Some(7)), "about 7 more runs than the 5 would decide");
}

//~ results: results of earlier versions are judged again by their value, interval and bound
#[test]
fn an_old_result_is_judged_by_its_interval() {
    let of = |holds, ours, interval, bound| ClaimVerdict::written(None, holds, ours, interval, bound);
    assert_eq!(of(Some(true), Some(0.9), Some(0.2), "<= 1"), Some(Undecided));
    assert_eq!(of(Some(false), Some(1.1), Some(0.2), "<= 1"), Some(Undecided));
    assert_eq!(of(Some(false), Some(0.9), Some(0.05), "<= 1"), Some(Fails));
    assert_eq!(of(Some(true), Some(0.9), None, "<= 1"), Some(Holds));
    assert_eq!(of(Some(true), Some(0.9), Some(0.2), "among seeds"), Some(Holds));
    assert_eq!(of(Some(false), None, Some(0.2), "<= 1"), Some(Fails));
    assert_eq!(of(None, Some(0.9), Some(0.2), "<= 1"), None);
    let stated = ClaimVerdict::written(Some(Holds), Some(true), Some(1.0), Some(0.2), "<= 1");
    assert_eq!(stated, Some(Holds), "its margin is not known here");
}

//~ cli: `exp run` exits 0 if all claims hold, 1 if one fails, 2 if it could not run, 3 if none fails and some are undecided
#[test]
fn counts_give_the_exit_status_and_one_line() {
    let check = |verdicts: &[ClaimVerdict], status, line: &str| {
        let counts: VerdictCounts = verdicts.iter().copied().collect();
        assert_eq!((counts.exit_status(), counts.to_string().as_str()), (status, line));
    };
    check(&[], 0, "0 of 0 claims hold");
    check(&[Holds, Holds], 0, "2 of 2 claims hold");
    check(&[Holds, Undecided], 3, "1 of 2 claims hold, 1 is undecided");
    check(&[Fails, Undecided, Undecided], 1, "0 of 3 claims hold, 1 fails, 2 are undecided");
}
