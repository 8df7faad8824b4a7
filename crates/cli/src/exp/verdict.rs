//! Verdict: a claim checked against the measured value.

use crate::bound::Bound;
use crate::report::Plot;

/// A claim and its measured value.
pub struct Checked {
    /// Name.
    pub id: String,
    /// Claim in words.
    pub says: String,
    /// Value that the paper prints.
    pub paper: Option<f64>,
    /// Measured value.
    pub ours: f64,
    /// Value of each seed, in their order; NaN where a seed has none.
    pub seeds: Vec<f64>,
    /// Half the 95 % interval over the seeds, if there are several.
    pub interval: Option<f64>,
    /// True if it is enough that the bound lies within the interval.
    pub within_interval: bool,
    /// True if an interval must exist and both its ends must keep the bound.
    pub significant: bool,
    /// Bound on the value.
    pub bound: Bound,
    /// Unit of the value.
    pub unit: String,
    /// Points that were checked, if not all.
    pub at: String,
    /// Known reason of a failure.
    pub why: Option<String>,
}

impl Checked {
    /// True if the value satisfies the claim.
    #[must_use]
    pub fn holds(&self) -> bool {
        if self.bound == Bound::PaperWithinSeeds {
            let seeds = self.sorted();
            let ends = seeds.first().zip(seeds.last()).zip(self.paper);
            return ends.is_some_and(|((least, most), paper)| (least..=most).contains(&&paper));
        }
        if self.significant {
            let ends = |off: f64| [-off, off].into_iter().all(|off| self.bound.holds(self.ours + off));
            return self.interval.is_some_and(ends);
        }
        let tolerance = self.interval.filter(|_| self.within_interval).unwrap_or(0.0);
        self.bound.meets(self.ours - tolerance, self.ours + tolerance)
    }

    /// Values of the seeds that are numbers, in ascending order.
    #[must_use]
    pub fn sorted(&self) -> Vec<f64> {
        let mut seeds: Vec<f64> = self.seeds.iter().copied().filter(|value| !value.is_nan()).collect();
        seeds.sort_by(f64::total_cmp);
        seeds
    }
}

/// Distribution over the seeds of each claim about single seeds, with the paper's figure as a
/// vertical line; none without such claims.
#[must_use]
pub fn seed_plot<'a>(of_seeds: impl Iterator<Item = &'a Checked>) -> Option<Plot> {
    let mut series = Vec::new();
    for claim in of_seeds {
        let seeds = claim.sorted();
        let share = |n: usize| (n + 1) as f64 / seeds.len() as f64;
        let curve = seeds.iter().enumerate().map(|(n, &value)| (value, share(n)));
        series.push((claim.id.clone(), curve.collect()));
        let paper = claim.paper.unwrap_or(f64::NAN);
        series.push((format!("{}, paper", claim.id), vec![(paper, 0.0), (paper, 1.0)]));
    }
    let axes = ("value", "share of seeds up to it");
    (!series.is_empty()).then(|| Plot::line("Single seeds", axes, false, series))
}
