//! Goals of a benchmark, checked against its results.
//!
//! A goal applies to every case in its scope; the worst decides, and the best is shown beside it.
//! `report` reads it as a claim.

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
    /// True if the goal holds; none if it could not be measured.
    pub holds: Option<bool>,
}

impl Goal {
    /// `what` must be at least `target` in every case.
    pub fn at_least(what: &'static str, target: f64) -> Self {
        Self { what, target, is_limit: false, found: None, holds: None }
    }

    /// `what` must be at most `target` in every case.
    pub fn at_most(what: &'static str, target: f64) -> Self {
        Self { is_limit: true, ..Self::at_least(what, target) }
    }

    /// Checks the goal against one figure per case; figures that are not finite are skipped.
    pub fn over(mut self, cases: impl IntoIterator<Item = (f64, String)>) -> Self {
        let mut found: Vec<_> = cases.into_iter().filter(|(figure, _)| figure.is_finite()).collect();
        found.sort_by(|a, b| a.0.total_cmp(&b.0));
        if self.is_limit {
            found.reverse();
        }
        if let (Some(worst), Some(best)) = (found.first().cloned(), found.last().cloned()) {
            let met = if self.is_limit { worst.0 <= self.target } else { worst.0 >= self.target };
            self.holds = Some(met);
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
            "holds": self.holds,
        })
    }
}

/// True if none of `goals` was missed.
pub fn none_missed(goals: &[Goal]) -> bool {
    goals.iter().all(|goal| goal.holds != Some(false))
}

impl fmt::Display for Goal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { what, target, is_limit, found, holds } = self;
        let sign = if *is_limit { '≤' } else { '≥' };
        let verdict = match holds {
            Some(true) => "pass",
            Some(false) => "FAIL",
            None => "not measured",
        };
        write!(f, "{verdict}: {what} {sign} {target}")?;
        match found {
            Some([(only, at), (_, best)]) if at == best => write!(f, ": {only:.2} ({at})"),
            Some([(worst, at_worst), (best, at_best)]) => {
                write!(f, ": worst {worst:.2} ({at_worst}), best {best:.2} ({at_best})")
            }
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        check(most(), &[(0.5, "a"), (f64::NAN, "b")], Some(true), "pass: ns ≤ 50: 0.50 (a)");
        check(most(), &[], None, "not measured: ns ≤ 50");
    }
}
