//! Goals of a benchmark, checked against its results.
//!
//! A goal applies to every case in its scope; the worst decides, and the best is shown beside it. A
//! goal with a case that was not measured is not met. `report` reads it as a claim.

use std::fmt;

use serde_json::{Value, json};

/// A goal and its result.
pub struct Goal {
    what: &'static str,
    /// Bound.
    target: f64,
    /// True if the bound is an upper bound.
    is_limit: bool,
    /// The worst figure and its case, and the best.
    found: Option<[(f64, String); 2]>,
    /// Cases without a figure.
    not_measured: Vec<String>,
    /// True if the goal holds, false if a case misses it; none if no measured case misses it and one
    /// could not be measured.
    pub holds: Option<bool>,
}

impl Goal {
    /// `what` must be at least `target` in every case.
    pub fn at_least(what: &'static str, target: f64) -> Self {
        Self { what, target, is_limit: false, found: None, not_measured: Vec::new(), holds: None }
    }

    /// `what` must be at most `target` in every case.
    pub fn at_most(what: &'static str, target: f64) -> Self {
        Self { is_limit: true, ..Self::at_least(what, target) }
    }

    /// Checks the goal against one figure per case.
    ///
    /// NaN is a case that was not measured, and so is infinity for a lower bound, as a ratio to
    /// nothing; for an upper bound infinity misses the goal.
    pub fn over(mut self, cases: impl IntoIterator<Item = (f64, String)>) -> Self {
        let is_missing = |figure: f64| figure.is_nan() || (figure == f64::INFINITY && !self.is_limit);
        let (missing, mut found): (Vec<_>, Vec<_>) =
            cases.into_iter().partition(|(figure, _)| is_missing(*figure));
        self.not_measured = missing.into_iter().map(|(_, case)| case).collect();
        found.sort_by(|a, b| a.0.total_cmp(&b.0));
        if self.is_limit {
            found.reverse();
        }
        if let (Some(worst), Some(best)) = (found.first().cloned(), found.last().cloned()) {
            let met = if self.is_limit { worst.0 <= self.target } else { worst.0 >= self.target };
            self.holds = (!met || self.not_measured.is_empty()).then_some(met);
            self.found = Some([worst, best]);
        }
        self
    }

    /// The goal in the format of results.
    pub fn json(&self) -> Value {
        let [worst, best] = self.found.clone().map_or([None, None], |found| found.map(Some));
        json!({
            "goal": self.what,
            "target": self.target,
            "at_most": self.is_limit,
            "worst": worst,
            "best": best,
            "not_measured": self.not_measured,
            "holds": self.holds,
        })
    }
}

/// True if each of `goals` was measured and holds.
pub fn all_met(goals: &[Goal]) -> bool {
    goals.iter().all(|goal| goal.holds == Some(true))
}

impl fmt::Display for Goal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { what, target, is_limit, found, not_measured, holds } = self;
        let sign = if *is_limit { '≤' } else { '≥' };
        let verdict = match holds {
            Some(true) => "pass",
            Some(false) => "FAIL",
            None => "not measured",
        };
        write!(f, "{verdict}: {what} {sign} {target}")?;
        match found {
            Some([(only, at), (_, best)]) if at == best => write!(f, ": {only:.2} ({at})")?,
            Some([(worst, at_worst), (best, at_best)]) => {
                write!(f, ": worst {worst:.2} ({at_worst}), best {best:.2} ({at_best})")?;
            }
            None => {}
        }
        match not_measured.as_slice() {
            [] => Ok(()),
            cases => write!(f, "; without a figure: {}", cases.join(", ")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    //~ cli: a benchmark's goal that was not measured in every case is not met
    #[test]
    fn the_worst_case_decides_and_missing_measurements_are_reported() {
        let check = |goal: Goal, cases: &[(f64, &str)], holds: Option<bool>, says: &str| {
            let goal = goal.over(cases.iter().map(|(figure, case)| (*figure, (*case).to_owned())));
            assert_eq!((goal.holds, goal.to_string().as_str()), (holds, says));
        };
        let (most, least) = (|| Goal::at_most("ns", 50.0), || Goal::at_least("ratio", 3.0));
        check(
            most(),
            &[(40.0, "a"), (51.0, "b")],
            Some(false),
            "FAIL: ns ≤ 50: worst 51.00 (b), best 40.00 (a)",
        );
        check(
            least(),
            &[(3.0, "a"), (4.0, "b")],
            Some(true),
            "pass: ratio ≥ 3: worst 3.00 (a), best 4.00 (b)",
        );
        let shown = "not measured: ns ≤ 50: 0.50 (a); without a figure: b";
        check(most(), &[(0.5, "a"), (f64::NAN, "b")], None, shown);
        let shown = "FAIL: ns ≤ 50: 51.00 (a); without a figure: b";
        check(most(), &[(51.0, "a"), (f64::NAN, "b")], Some(false), shown);
        let shown = "FAIL: ns ≤ 50: worst inf (b), best 0.50 (a)";
        check(most(), &[(0.5, "a"), (f64::INFINITY, "b")], Some(false), shown);
        let shown = "not measured: ratio ≥ 3; without a figure: a";
        check(least(), &[(f64::INFINITY, "a")], None, shown);
        check(most(), &[], None, "not measured: ns ≤ 50");
    }

    //~ cli: a benchmark's goal that was not measured in every case is not met
    #[test]
    fn what_was_not_measured_is_not_met() {
        let goal = |figure: f64| Goal::at_least("ratio", 3.0).over([(figure, "a".to_owned())]);
        assert!(all_met(&[goal(3.0), goal(4.0)]));
        assert!(!all_met(&[goal(3.0), goal(2.0)]));
        assert!(!all_met(&[goal(3.0), goal(f64::NAN)]));
        assert!(!all_met(&[Goal::at_least("ratio", 3.0)]));
        assert_eq!(goal(f64::NAN).json()["not_measured"], json!(["a"]));
    }
}
