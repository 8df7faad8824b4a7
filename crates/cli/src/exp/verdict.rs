//! A claim held to what was measured.

use super::claim::Bound;
use crate::report::Plot;

/// A claim and what was found.
pub struct Checked {
    /// Its name.
    pub id: String,
    /// What is claimed, in words.
    pub says: String,
    /// What the paper prints.
    pub paper: Option<f64>,
    /// What was measured.
    pub ours: f64,
    /// What each seed gave, in their order; NaN where one gave no number.
    pub seeds: Vec<f64>,
    /// Half the 95 % interval over the seeds, where there are several.
    pub interval: Option<f64>,
    /// Whether it is enough that the bound lies within the interval.
    pub within_interval: bool,
    /// Both ends of the interval must keep the bound; there must be one.
    pub significant: bool,
    /// What it must be.
    pub bound: Bound,
    /// Of the figure.
    pub unit: String,
    /// Where it was checked, if not everywhere.
    pub at: String,
    /// Why it fails, where that is known.
    pub why: Option<String>,
}

impl Checked {
    /// Whether the figure is what it must be.
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

    /// What the seeds gave that are numbers, in ascending order.
    #[must_use]
    pub fn sorted(&self) -> Vec<f64> {
        let mut seeds: Vec<f64> = self.seeds.iter().copied().filter(|value| !value.is_nan()).collect();
        seeds.sort_by(f64::total_cmp);
        seeds
    }
}

/// Per claim about single seeds, the share of them up to each value; the
/// paper's figure is an upright line; none without such claims.
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
