//! What came of trials: a word for each, and why.

use super::program::Program;
use super::results::{Results, Verdict};

/// What came of a trial.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Came {
    /// It went as it should,
    Works,
    /// or so, and there is more to say,
    Noted(String),
    /// or but for this.
    Limited(String),
    Fails(String),
    /// What the program's own tests say on both stacks.
    Suite(Box<Results>),
    /// The program has no notion of it.
    Without(&'static str),
    /// Not tried: what was not there.
    Skipped(String),
}

impl Came {
    /// The result, without why.
    pub fn word(&self) -> &'static str {
        let verdict = match self {
            Self::Works | Self::Noted(_) => Verdict::Works,
            Self::Limited(_) => Verdict::Limited,
            Self::Fails(_) => Verdict::Fails,
            Self::Suite(results) => results.verdict,
            Self::Without(_) => return "not applicable",
            Self::Skipped(_) => return "skipped",
        };
        match verdict {
            Verdict::Works => "works",
            Verdict::Limited => "works, with limits",
            Verdict::Fails => "fails",
        }
    }

    /// Why it is not that it works, or what else there is to say.
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

    pub fn has_failed(&self) -> bool {
        match self {
            Self::Fails(_) => true,
            Self::Suite(results) => results.verdict == Verdict::Fails,
            _ => false,
        }
    }
}

/// A program, and what came of each feature.
pub struct Row {
    pub program: Program,
    pub version: String,
    pub came: Vec<Came>,
}

pub fn has_failed(rows: &[Row]) -> bool {
    rows.iter().flat_map(|row| &row.came).any(Came::has_failed)
}
