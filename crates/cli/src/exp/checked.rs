//! A claim checked against the measured values of its points.

use super::spec::Claim;
use crate::bound::Bound;
use crate::confidence::interval;
use crate::report::Plot;
use crate::verdict::{self, ClaimVerdict, judge, runs_to_decide};

/// A claim and its measured value.
pub struct Checked {
    /// Name.
    pub id: String,
    /// Claim in words.
    pub says: String,
    /// Value that the paper prints.
    pub paper: Option<f64>,
    /// Measured value at the point that decides.
    pub measured: PointValue,
    /// Rules by which the value is judged.
    pub rules: Rules,
    /// Unit of the value.
    pub unit: String,
    /// Points that were checked, if not all.
    pub at: String,
    /// Known reason of a failure.
    pub why: Option<String>,
}

/// Value of a claim's metric at one point.
pub struct PointValue {
    /// Value from the means of all seeds.
    pub estimate: f64,
    /// Value of each seed, in their order; NaN where a seed has none.
    pub seeds: Vec<f64>,
}

/// Rules by which a claim is judged, all stated in its file.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// Bound on the value.
    pub bound: Bound,
    /// Non-inferiority margin, in the unit of the value.
    pub margin: f64,
    /// True if the claim needs an interval: without one it is undecided.
    pub significant: bool,
    /// True if one point that keeps the bound is enough.
    pub best: bool,
}

impl PointValue {
    /// Half the 95 % interval over the seeds, if there are several.
    #[must_use]
    pub fn interval(&self) -> Option<f64> {
        interval(&self.seeds)
    }

    /// Values of the seeds that are numbers, in ascending order.
    #[must_use]
    pub fn sorted(&self) -> Vec<f64> {
        let mut seeds: Vec<f64> = self.seeds.iter().copied().filter(|value| !value.is_nan()).collect();
        seeds.sort_by(f64::total_cmp);
        seeds
    }
}

impl Rules {
    /// Rules of `claim`.
    ///
    /// # Errors
    /// One line: the bound is invalid.
    pub fn of(claim: &Claim) -> Result<Self, String> {
        let Claim { margin, significant, best, .. } = *claim;
        Ok(Self { bound: Bound::parse(&claim.holds)?, margin, significant, best })
    }

    /// Verdict on the value of one point; `paper` is the value that the paper prints.
    #[must_use]
    pub fn judge(&self, value: &PointValue, paper: Option<f64>) -> ClaimVerdict {
        if self.bound == Bound::PaperWithinSeeds {
            let seeds = value.sorted();
            let ends = seeds.first().zip(seeds.last()).zip(paper);
            let is_among = ends.is_some_and(|((least, most), paper)| (least..=most).contains(&&paper));
            return if is_among { ClaimVerdict::Holds } else { ClaimVerdict::Fails };
        }
        match judge(value.estimate, value.interval(), self.bound, self.margin) {
            ClaimVerdict::Holds if self.significant && value.interval().is_none() => ClaimVerdict::Undecided,
            verdict => verdict,
        }
    }

    /// Index of the point that decides among `values`: that with the worst verdict, and of equals that
    /// farthest outside the bound; the reverse where one point is enough. `None` without values.
    #[must_use]
    pub fn deciding(&self, values: &[PointValue], paper: Option<f64>) -> Option<usize> {
        let rank = |index: &usize| {
            let value = &values[*index];
            (self.judge(value, paper), self.bound.excess(value.estimate))
        };
        let order = |a: &usize, b: &usize| {
            let (a, b) = (rank(a), rank(b));
            a.0.cmp(&b.0).then(a.1.total_cmp(&b.1))
        };
        if self.best { (0..values.len()).min_by(order) } else { (0..values.len()).max_by(order) }
    }
}

impl Checked {
    /// Verdict on the claim.
    #[must_use]
    pub fn verdict(&self) -> ClaimVerdict {
        self.rules.judge(&self.measured, self.paper)
    }

    /// Estimated number of further runs that would decide an undecided claim; `None` if it is
    /// decided, or no number would.
    #[must_use]
    pub fn more_runs(&self) -> Option<u64> {
        if self.verdict() != ClaimVerdict::Undecided {
            return None;
        }
        let runs = self.measured.sorted().len() as u64;
        let Rules { bound, margin, .. } = self.rules;
        match self.measured.interval() {
            Some(half) => runs_to_decide(self.measured.estimate, half, runs, bound, margin),
            // The fewest that have an interval.
            None => Some(2_u64.saturating_sub(runs).max(1)),
        }
    }

    /// Further runs that the claim needs, in words.
    #[must_use]
    pub fn more_runs_in_words(&self) -> String {
        verdict::more_runs_in_words(self.measured.sorted().len() as u64, self.more_runs())
    }
}

/// Distribution over the seeds of each claim about single seeds, with the paper's figure as a
/// vertical line; none without such claims.
#[must_use]
pub fn seed_plot<'a>(of_seeds: impl Iterator<Item = &'a Checked>) -> Option<Plot> {
    let mut series = Vec::new();
    for claim in of_seeds {
        let seeds = claim.measured.sorted();
        let share = |n: usize| (n + 1) as f64 / seeds.len() as f64;
        let curve = seeds.iter().enumerate().map(|(n, &value)| (value, share(n)));
        series.push((claim.id.clone(), curve.collect()));
        let paper = claim.paper.unwrap_or(f64::NAN);
        series.push((format!("{}, paper", claim.id), vec![(paper, 0.0), (paper, 1.0)]));
    }
    let axes = ("value", "share of seeds up to it");
    (!series.is_empty()).then(|| Plot::line("Single seeds", axes, false, series))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(estimate: f64, seeds: &[f64]) -> PointValue {
        PointValue { estimate, seeds: seeds.to_vec() }
    }

    fn rules(bound: &str, best: bool) -> Rules {
        Rules { bound: Bound::parse(bound).unwrap(), margin: 0.0, significant: false, best }
    }

    /// Single runs with these values: the one that decides.
    fn deciding(bound: &str, best: bool, values: &[f64]) -> f64 {
        let values: Vec<PointValue> = values.iter().map(|value| point(*value, &[*value])).collect();
        values[rules(bound, best).deciding(&values, None).unwrap()].estimate
    }

    #[test]
    fn the_worst_point_counts() {
        let values = [0.01, 0.03, 0.02];
        assert_eq!(deciding("<= 0.015", false, &values), 0.03);
        assert_eq!(deciding(">= 0.015", false, &values), 0.01);
        assert_eq!(deciding("0.015..0.025", false, &values), 0.01);
        assert!(deciding("<= 0.015", false, &[0.01, f64::NAN]).is_nan());
        assert_eq!(deciding(">= 0.015", true, &[0.01, 0.03, 0.02, f64::NAN]), 0.03);
        assert_eq!(rules("<= 1", false).deciding(&[], None), None);
    }

    //~ results: the point with the worst verdict decides a claim over several points, so that noise at one does not hide
    #[test]
    fn a_noisy_point_is_worse_than_one_nearer_to_the_bound() {
        let values = [point(0.9, &[0.9, 0.9, 0.9]), point(0.5, &[0.1, 0.2, 1.2])];
        let rules = rules("<= 1", false);
        assert_eq!(rules.deciding(&values, None), Some(1));
        assert_eq!(rules.judge(&values[1], None), ClaimVerdict::Undecided);
        assert_eq!(Rules { best: true, ..rules }.deciding(&values, None), Some(0));
    }

    #[test]
    fn a_claim_that_needs_an_interval_is_undecided_after_one_run() {
        let rules = Rules { significant: true, ..rules("<= 1", false) };
        assert_eq!(rules.judge(&point(0.5, &[0.5]), None), ClaimVerdict::Undecided);
        assert_eq!(rules.judge(&point(0.5, &[0.5, 0.5]), None), ClaimVerdict::Holds);
        assert_eq!(rules.judge(&point(1.5, &[1.5]), None), ClaimVerdict::Fails);
    }
}
