//! Verdict on a claim: holds, fails or undecided.
//!
//! Decides from a value, half of its 95 % interval, a bound and a margin; it measures nothing. A
//! claim holds if its whole interval keeps the bound, and fails if no part of it does. An interval
//! that contains the bound decides nothing, so that noise never helps a claim.
//!
//! A margin makes a claim one of non-inferiority: the value is not worse than the bound by more than
//! the margin. It is stated in the experiment's file before the run and moves the bound outwards.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::bound::Bound;
use crate::confidence::t_975;

/// Verdict on a claim, from best to worst for a claim that is to hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ClaimVerdict {
    /// Every value of the interval keeps the bound.
    Holds,
    /// The interval contains the bound.
    Undecided,
    /// No value of the interval keeps the bound, or there is no value.
    Fails,
}

/// Verdict on `value`, in the unit of `bound`.
///
/// `half` is half the 95 % interval of the value, in the same unit; without one, as after a single
/// run, the value alone decides. `margin` is at least 0, in the same unit. NaN as value fails; NaN as
/// half is an interval without limits.
#[must_use]
pub fn judge(value: f64, half: Option<f64>, bound: Bound, margin: f64) -> ClaimVerdict {
    let bound = bound.relaxed(margin);
    let half = half.unwrap_or(0.0);
    let (low, high) = (value - half, value + half);
    if value.is_nan() {
        ClaimVerdict::Fails
    } else if low.is_nan() || high.is_nan() {
        ClaimVerdict::Undecided
    } else if bound.holds(low) && bound.holds(high) {
        ClaimVerdict::Holds
    } else if bound.meets(low, high) {
        ClaimVerdict::Undecided
    } else {
        ClaimVerdict::Fails
    }
}

/// Estimated number of runs beyond the present `runs` after which the interval no longer contains
/// the bound, if value and spread stay; at least 1.
///
/// Half of an interval of n runs is proportional to t(n - 1) / √n, where t is Student's t at 0.975.
/// `value`, `half`, `bound` and `margin` are those of [`judge`]. `None` if no number up to
/// [`RUNS_MAX`] is enough, as for a value on its bound.
#[must_use]
pub fn runs_to_decide(value: f64, half: f64, runs: u64, bound: Bound, margin: f64) -> Option<u64> {
    let distance = bound.relaxed(margin).distance(value);
    let scale = |runs: u64| t_975(runs.saturating_sub(1) as f64) / (runs as f64).sqrt();
    let is_decided = |all: u64| half / scale(runs) * scale(all) < distance;
    if runs == 0 || !is_decided(RUNS_MAX) {
        return None;
    }
    // The scale falls with the number of runs: bisect between one that is too small and one that is enough.
    let (mut few, mut enough) = (runs, RUNS_MAX);
    while enough - few > 1 {
        let middle = few + (enough - few) / 2;
        if is_decided(middle) { enough = middle } else { few = middle }
    }
    Some(enough - runs)
}

/// Largest number of runs that is suggested.
const RUNS_MAX: u64 = 1_000_000;

impl ClaimVerdict {
    /// Verdict from a written result; `None` if nothing was measured.
    ///
    /// A result without `verdict` is from an earlier version, where an interval that contained the
    /// bound could hold: its value `ours`, half `interval` and `bound` are judged again, without a
    /// margin. Its `holds` decides if it has no interval or no bound on the value; a failed claim never
    /// holds.
    #[must_use]
    pub fn written(
        verdict: Option<Self>,
        holds: Option<bool>,
        ours: Option<f64>,
        interval: Option<f64>,
        bound: &str,
    ) -> Option<Self> {
        if verdict.is_some() {
            return verdict;
        }
        let by_value = if holds? { Self::Holds } else { Self::Fails };
        let bound = Bound::parse(bound).ok().filter(|bound| *bound != Bound::PaperWithinSeeds);
        Some(match (ours, interval, bound) {
            (Some(ours), Some(half), Some(bound)) => match judge(ours, Some(half), bound, 0.0) {
                Self::Holds => by_value,
                verdict => verdict,
            },
            _ => by_value,
        })
    }

    /// Word in tables.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Holds => "holds",
            Self::Undecided => "undecided",
            Self::Fails => "FAILS",
        }
    }
}

/// Estimate for an undecided claim, in words; `runs` were made and `more` are needed.
#[must_use]
pub fn more_runs_in_words(runs: u64, more: Option<u64>) -> String {
    match more {
        Some(1) => format!("about 1 more run than the {runs} would decide"),
        Some(more) => format!("about {more} more runs than the {runs} would decide"),
        None => "the value is too close to its bound for any number of runs".to_owned(),
    }
}

/// Number of claims by verdict.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VerdictCounts {
    /// Claims that hold.
    pub holds: usize,
    /// Claims that fail.
    pub fails: usize,
    /// Claims that are undecided.
    pub undecided: usize,
}

impl VerdictCounts {
    /// Number of all claims.
    #[must_use]
    pub fn all(self) -> usize {
        self.holds + self.fails + self.undecided
    }

    /// Exit status: 0 if all hold, 1 if one fails, 3 if none fails and some are undecided.
    #[must_use]
    pub fn exit_status(self) -> u8 {
        match self {
            Self { fails: 1.., .. } => 1,
            Self { undecided: 1.., .. } => UNDECIDED,
            _ => 0,
        }
    }
}

/// Exit status if no claim fails and some are undecided.
pub const UNDECIDED: u8 = 3;

impl FromIterator<ClaimVerdict> for VerdictCounts {
    fn from_iter<T: IntoIterator<Item = ClaimVerdict>>(verdicts: T) -> Self {
        let mut counts = Self::default();
        for verdict in verdicts {
            match verdict {
                ClaimVerdict::Holds => counts.holds += 1,
                ClaimVerdict::Fails => counts.fails += 1,
                ClaimVerdict::Undecided => counts.undecided += 1,
            }
        }
        counts
    }
}

impl fmt::Display for VerdictCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} claims hold", self.holds, self.all())?;
        match self.fails {
            0 => {}
            1 => write!(f, ", 1 fails")?,
            fails => write!(f, ", {fails} fail")?,
        }
        match self.undecided {
            0 => Ok(()),
            1 => write!(f, ", 1 is undecided"),
            undecided => write!(f, ", {undecided} are undecided"),
        }
    }
}

#[cfg(test)]
mod tests;
