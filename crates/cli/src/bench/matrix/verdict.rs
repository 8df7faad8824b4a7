//! Results of trials: a word for each, and the reason.

use super::program::TestedProgram;
use super::results::{Results, SuiteVerdict};

/// Result of a trial.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TrialResult {
    /// Works.
    Works,
    /// Works, with a note.
    Noted(String),
    /// Works, with this limitation.
    Limited(String),
    Fails(String),
    /// Results of the program's own tests on both stacks.
    Suite(Box<Results>),
    /// The program does not have the feature.
    Without(&'static str),
    /// Not run, with the missing requirement.
    Skipped(String),
}

impl TrialResult {
    /// Word for the result, without the reason.
    pub fn word(&self) -> &'static str {
        let verdict = match self {
            Self::Works | Self::Noted(_) => SuiteVerdict::Works,
            Self::Limited(_) => SuiteVerdict::Limited,
            Self::Fails(_) => SuiteVerdict::Fails,
            Self::Suite(results) => results.verdict,
            Self::Without(_) => return "not applicable",
            Self::Skipped(_) => return "skipped",
        };
        match verdict {
            SuiteVerdict::Works => "works",
            SuiteVerdict::Limited => "works, with limits",
            SuiteVerdict::Fails => "fails",
        }
    }

    /// Reason for a result other than success, or the note.
    pub fn why(&self) -> Option<&str> {
        match self {
            Self::Works => None,
            Self::Without(why) => Some(why),
            Self::Suite(results) => Some(&results.summary),
            Self::Noted(why) | Self::Limited(why) | Self::Fails(why) | Self::Skipped(why) => Some(why),
        }
    }

    pub fn results(&self) -> Option<&Results> {
        match self {
            Self::Suite(results) => Some(results),
            _ => None,
        }
    }

    pub fn is_failure(&self) -> bool {
        match self {
            Self::Fails(_) => true,
            Self::Suite(results) => results.verdict == SuiteVerdict::Fails,
            _ => false,
        }
    }
}

/// A program and its result for each feature.
pub struct Row {
    pub program: TestedProgram,
    pub version: String,
    pub results: Vec<TrialResult>,
}

pub fn is_failure(rows: &[Row]) -> bool {
    rows.iter().flat_map(|row| &row.results).any(TrialResult::is_failure)
}
