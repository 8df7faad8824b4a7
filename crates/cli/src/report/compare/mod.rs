//! `greenwave report --compare A B`: changes of claims, and figures that differ significantly.
//!
//! Runs are paired by name. A claim's verdict is that of its own bound in each run; the
//! significance of a change of its value is shown beside it and decides nothing. The comparison
//! does not know which of two figures is better; it gives their ratio.

use std::collections::{BTreeMap, BTreeSet};

mod render;
mod stats;

pub use render::{page, text};
pub use stats::{Difference, Method};

use super::plot::Plot;
use super::run::{CheckedClaim, ParsedResult};
use super::tables::{ResultFigure, ResultRow, ResultTable};
use crate::error::Error;
use crate::verdict::ClaimVerdict;

/// Comparison of two runs.
#[derive(Debug)]
pub struct Comparison {
    /// Run A.
    pub a: ParsedResult,
    /// Run B.
    pub b: ParsedResult,
    /// All claims of either.
    pub claims: Vec<ClaimComparison>,
    /// All figures that both have.
    pub figures: Vec<Measure>,
    /// Settings that differ: path, in A, in B.
    pub settings: Vec<(String, String, String)>,
}

/// A claim in both runs.
#[derive(Debug)]
pub struct ClaimComparison {
    /// Name of the claim.
    pub id: String,
    /// Bound, from B if B has the claim.
    pub bound: String,
    /// Values in A and in B.
    pub values: [Option<f64>; 2],
    /// Change of the verdict.
    pub verdict: ClaimChange,
    /// Difference of the values, if both are numbers.
    pub difference: Option<Difference>,
}

/// Change of a claim from A to B.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClaimChange {
    /// The same verdict in A and in B.
    Both(ClaimVerdict),
    /// Another verdict in B than in A.
    Now {
        /// Verdict in B.
        verdict: ClaimVerdict,
        /// Verdict in A.
        was: ClaimVerdict,
    },
    /// Absent from B, or not measured there.
    OnlyInA,
    /// Absent from A, or not measured there.
    OnlyInB,
    /// Not measured in A or B.
    NotMeasured,
}

/// A metric that both runs have.
#[derive(Debug)]
pub struct Measure {
    /// Row of the figure.
    pub row: String,
    /// Name and unit.
    pub column: (String, String),
    /// Values in A and in B.
    pub values: [f64; 2],
    /// Difference of the values.
    pub difference: Difference,
}

impl ClaimChange {
    fn of(a: Option<ClaimVerdict>, b: Option<ClaimVerdict>) -> Self {
        match (a, b) {
            (Some(was), Some(verdict)) if was == verdict => Self::Both(verdict),
            (Some(was), Some(verdict)) => Self::Now { verdict, was },
            (Some(_), None) => Self::OnlyInA,
            (None, Some(_)) => Self::OnlyInB,
            (None, None) => Self::NotMeasured,
        }
    }

    /// Text of the change.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::Both(ClaimVerdict::Holds) => "holds in both",
            Self::Both(ClaimVerdict::Undecided) => "undecided in both",
            Self::Both(ClaimVerdict::Fails) => "fails in both",
            Self::Now { verdict: ClaimVerdict::Holds, .. } => "now holds",
            Self::Now { verdict: ClaimVerdict::Undecided, .. } => "now undecided",
            Self::Now { verdict: ClaimVerdict::Fails, .. } => "now FAILS",
            Self::OnlyInA => "only in A",
            Self::OnlyInB => "only in B",
            Self::NotMeasured => "not measured",
        }
    }

    /// Verdict on the change: fails if the claim fails in B and did not in A, undecided if it is
    /// undecided in B and held in A.
    fn verdict(self) -> ClaimVerdict {
        match self {
            Self::Now { verdict, was } if verdict > was => verdict,
            _ => ClaimVerdict::Holds,
        }
    }
}

impl Comparison {
    /// Compares `b` with `a`.
    #[must_use]
    pub fn of(a: ParsedResult, b: ParsedResult) -> Self {
        let is_paired = have_same_seeds(&a, &b);
        Self {
            claims: claims(&a, &b, is_paired),
            figures: figures(&a.tables, &b.tables, is_paired),
            settings: settings(&a, &b),
            a,
            b,
        }
    }

    /// Claims by the change of their verdict: see [`ClaimChange`]. None fails if B is as good as A.
    pub fn verdicts(&self) -> impl Iterator<Item = ClaimVerdict> {
        self.claims.iter().map(|claim| claim.verdict.verdict())
    }

    /// Plots of the same title, combined.
    #[must_use]
    pub fn plots(&self) -> Vec<Plot> {
        let same = |a: &Plot| self.b.plots.iter().find_map(|b| Plot::overlay(a, b));
        self.a.plots.iter().filter_map(same).collect()
    }
}

/// True if the n-th repetitions of both used the same seed. Results without a header have their
/// seeds' values in another order.
fn have_same_seeds(a: &ParsedResult, b: &ParsedResult) -> bool {
    let [a, b] = [&a.header, &b.header];
    a.form.min(b.form) > 0 && a.seed.is_some() && a.seed == b.seed
}

/// Pairs the runs of `a` with those of `b` by name, in the order of `a`; also returns the names in
/// one of them only.
///
/// # Errors
/// No name is in both.
pub fn pairs(a: Vec<ParsedResult>, b: Vec<ParsedResult>) -> Result<(Vec<Comparison>, Vec<String>), Error> {
    let names = |runs: &[ParsedResult]| runs.iter().map(|run| run.name.clone()).collect::<Vec<_>>();
    let (in_a, in_b) = (names(&a), names(&b));
    let mut rest: Vec<Option<ParsedResult>> = b.into_iter().map(Some).collect();
    let (mut compared, mut unpaired) = (Vec::new(), Vec::new());
    for run in a {
        let other = rest.iter_mut().find(|other| matches!(other, Some(other) if other.name == run.name));
        match other.and_then(Option::take) {
            Some(other) => compared.push(Comparison::of(run, other)),
            None => unpaired.push(format!("{} is only in A", run.name)),
        }
    }
    unpaired.extend(rest.into_iter().flatten().map(|run| format!("{} is only in B", run.name)));
    if compared.is_empty() {
        let message = format!("A has {}, B has {}: nothing to compare", in_a.join(", "), in_b.join(", "));
        return Err(Error::new(message).advice("two results of the same command, or of the same experiment"));
    }
    Ok((compared, unpaired))
}

fn claims(a: &ParsedResult, b: &ParsedResult, is_paired: bool) -> Vec<ClaimComparison> {
    let compared = |of_a: Option<&CheckedClaim>, of_b: Option<&CheckedClaim>| {
        let [estimate_a, estimate_b] = [of_a, of_b].map(|claim| claim?.estimate);
        let [seeds_a, seeds_b] = [of_a, of_b].map(|claim| claim.map_or(&[][..], |claim| &claim.seeds));
        let both = estimate_a.zip(estimate_b);
        let difference = both.map(|(a, b)| stats::difference((a, seeds_a), (b, seeds_b), is_paired));
        let stated = of_b.or(of_a);
        ClaimComparison {
            id: stated.map_or(String::new(), |claim| claim.id.clone()),
            bound: stated.map_or(String::new(), |claim| claim.bound.clone()),
            values: [estimate_a, estimate_b],
            verdict: ClaimChange::of(
                of_a.and_then(|claim| claim.verdict),
                of_b.and_then(|claim| claim.verdict),
            ),
            difference,
        }
    };
    let in_b = |id: &str| b.claims.iter().find(|claim| claim.id == id);
    let in_a = a.claims.iter().map(|of_a| compared(Some(of_a), in_b(&of_a.id)));
    let only_b = b.claims.iter().filter(|of_b| a.claims.iter().all(|of_a| of_a.id != of_b.id));
    in_a.chain(only_b.map(|of_b| compared(None, Some(of_b)))).collect()
}

fn figures(a: &[ResultTable], b: &[ResultTable], is_paired: bool) -> Vec<Measure> {
    let mut measures = Vec::new();
    for of_a in a {
        let same = |of_b: &&ResultTable| of_b.name == of_a.name && of_b.labels == of_a.labels;
        let Some(of_b) = b.iter().find(same) else { continue };
        for (number, row) in of_a.rows.iter().enumerate() {
            // Rows with equal labels are paired in their order.
            let same = |other: &&ResultRow| other.labels == row.labels;
            let before = of_a.rows[..number].iter().filter(same).count();
            let Some(other) = of_b.rows.iter().filter(same).nth(before) else { continue };
            for (column, figure) in of_a.columns.iter().zip(&row.figures) {
                let place = of_b.columns.iter().position(|known| known == column);
                let other = place.and_then(|place| other.figures[place].as_ref());
                let Some(both) = figure.as_ref().zip(other) else { continue };
                let (sample_a, sample_b) = (sample(both.0), sample(both.1));
                measures.push(Measure {
                    row: row.label(),
                    column: column.clone(),
                    values: [sample_a.0, sample_b.0],
                    difference: stats::difference(sample_a, sample_b, is_paired),
                });
            }
        }
    }
    measures
}

fn sample(figure: &ResultFigure) -> stats::RunSample<'_> {
    (figure.value, &figure.repeats)
}

/// Settings that differ, and requested facts that differ.
fn settings(a: &ParsedResult, b: &ParsedResult) -> Vec<(String, String, String)> {
    let of = |run: &ParsedResult| {
        let facts = run.facts.iter().filter(|(name, _)| !["date", "page"].contains(&name.as_str()));
        facts.chain(&run.settings).cloned().collect::<BTreeMap<String, String>>()
    };
    let (in_a, in_b) = (of(a), of(b));
    let get = |all: &BTreeMap<String, String>, path: &str| all.get(path).cloned().unwrap_or("–".to_owned());
    let paths: BTreeSet<&String> = in_a.keys().chain(in_b.keys()).collect();
    let both = paths.into_iter().map(|path| (path.clone(), get(&in_a, path), get(&in_b, path)));
    both.filter(|(_, a, b)| a != b).collect()
}

#[cfg(test)]
mod tests;
