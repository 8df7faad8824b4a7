//! A run as pages and comparisons read it, independent of the command that wrote it.
//!
//! Keys common to all results are read by name: the header, claims and goals, plots, settings.
//! Other keys are read by their shape ([`super::tables`]), so that a command's new figures need no
//! change here. Source: `spec/results.md`.

use serde::Deserialize;
use serde_json::Value;

use super::header::{FORM, KEY, MechanismState, ResultHeader};
use super::plot::Plot;
use super::tables::{self, ResultTable};
use crate::renames;
use crate::verdict::ClaimVerdict;

/// Parsed result.
#[derive(Clone, Debug)]
pub struct ParsedResult {
    /// Header.
    pub header: ResultHeader,
    /// Name for pairing in comparisons: the experiment's, or the command's.
    pub name: String,
    /// One-line title.
    pub title: String,
    /// Source in a paper.
    pub source: Option<String>,
    /// Claims and goals.
    pub claims: Vec<CheckedClaim>,
    /// Claims that this run cannot check.
    pub not_checked: Vec<String>,
    /// Figures by table.
    pub tables: Vec<ResultTable>,
    /// Notes on rows.
    pub notes: Vec<(String, String)>,
    /// Plots.
    pub plots: Vec<Plot>,
    /// Single facts, such as the number of runs.
    pub facts: Vec<(String, String)>,
    /// Settings by path; several values where points and modes differ.
    pub settings: Vec<(String, String)>,
}

/// A claim, as its run checked it.
#[derive(Clone, Debug, Deserialize)]
pub struct CheckedClaim {
    /// Name of the claim.
    pub id: String,
    /// Claim in words.
    #[serde(default)]
    pub says: String,
    /// Value that the paper prints.
    pub paper: Option<f64>,
    /// Measured value; none if it is not a number.
    #[serde(rename = "ours")]
    pub estimate: Option<f64>,
    /// Half the 95 % interval over the seeds.
    pub interval: Option<f64>,
    /// Bound on the value.
    #[serde(default)]
    pub bound: String,
    /// Non-inferiority margin of the bound.
    #[serde(default)]
    pub margin: f64,
    /// True if the claim holds; none if it was not measured.
    holds: Option<bool>,
    /// Verdict; none if it was not measured.
    pub verdict: Option<ClaimVerdict>,
    /// Estimated further runs that would decide an undecided claim.
    pub more_runs: Option<u64>,
    /// Known reason of a failure.
    pub why: Option<String>,
    /// Points that were checked, if not all.
    #[serde(default)]
    pub at: String,
    /// Value of each seed, in their order.
    #[serde(default)]
    pub seeds: Vec<Option<f64>>,
}

/// Reason why a file is not shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unreadable {
    /// Not a result of greenwave; names the missing key.
    Foreign(String),
    /// Result of a later version.
    Newer {
        /// Version of greenwave.
        version: String,
        /// Format version.
        form: u64,
    },
}

impl std::fmt::Display for Unreadable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Foreign(why) => write!(f, "not a result of greenwave: {why}"),
            Self::Newer { version, form } => {
                let program_version = env!("CARGO_PKG_VERSION");
                write!(
                    f,
                    "written by greenwave {version} in form {form}; greenwave {program_version} reads forms up to {FORM}"
                )
            }
        }
    }
}

impl ParsedResult {
    /// Parses a result.
    ///
    /// # Errors
    /// The reason why it is not one.
    pub fn read(result: &Value) -> Result<Self, Unreadable> {
        let mut header = header(result)?;
        let text = |key: &str| result[key].as_str().map(str::to_owned);
        let name = text("experiment").unwrap_or_else(|| header.kind.clone());
        let result = &*renames::modes(&name, result);
        let title = text("title").unwrap_or_else(|| format!("greenwave {}", header.kind.replace('-', " ")));
        let mut contents = tables::read(result);
        if header.kind == "doctor" {
            header.doctor = Vec::deserialize(&result["findings"]).map_err(foreign)?;
            contents = tables::ResultContents::default();
        }
        let plots = Option::<Vec<Plot>>::deserialize(&result["plots"]).map_err(foreign)?;
        let not_checked = Option::<Vec<String>>::deserialize(&result["not_checked"]).map_err(foreign)?;
        Ok(Self {
            claims: claims(&name, result).map_err(foreign)?,
            not_checked: not_checked.unwrap_or_default(),
            source: text("source"),
            tables: contents.tables,
            notes: contents.notes,
            facts: contents.facts,
            settings: tables::settings(&result["settings"]),
            header,
            name,
            title,
            plots: plots.unwrap_or_default(),
        })
    }

    /// Verdicts of the claims that were measured.
    pub fn verdicts(&self) -> impl Iterator<Item = ClaimVerdict> {
        self.claims.iter().filter_map(|claim| claim.verdict)
    }
}

fn foreign(e: impl std::fmt::Display) -> Unreadable {
    Unreadable::Foreign(e.to_string())
}

/// The header, or a substitute for results that predate headers.
fn header(result: &Value) -> Result<ResultHeader, Unreadable> {
    let stated = &result[KEY];
    let text = |key: &str| stated[key].as_str().unwrap_or("a later version").to_owned();
    match stated["form"].as_u64() {
        Some(form) if form > FORM => Err(Unreadable::Newer { version: text("version"), form }),
        Some(_) => ResultHeader::deserialize(stated).map_err(foreign),
        None if result["experiment"].is_string() && result["claims"].is_array() => Ok(ResultHeader {
            form: 0,
            kind: "experiment".to_owned(),
            version: "unknown".to_owned(),
            command: repeat_arguments(result),
            date: result["date"].as_str().unwrap_or("unknown").to_owned(),
            world: result["world"].as_str().unwrap_or("unknown").to_owned(),
            seed: result["seed"].as_u64(),
            machine: result["machine"].as_str().map(str::to_owned),
            doctor: Vec::new(),
        }),
        None => Err(Unreadable::Foreign(format!("no key {KEY:?} with its kind"))),
    }
}

/// Arguments that repeat the experiment of `result`.
#[must_use]
pub fn repeat_arguments(result: &Value) -> Vec<String> {
    let text = |key: &str| result[key].as_str().unwrap_or_default().to_owned();
    let seed = result["seed"].as_u64().unwrap_or(1).to_string();
    let words = ["exp", "run"].map(str::to_owned).into_iter();
    words
        .chain([text("experiment"), "--scale".to_owned(), text("scale"), "--seed".to_owned(), seed])
        .collect()
}

/// Claims and goals in `result` of `experiment`, with their present ids.
fn claims(experiment: &str, result: &Value) -> Result<Vec<CheckedClaim>, String> {
    let mut stated =
        Option::<Vec<CheckedClaim>>::deserialize(&result["claims"]).map_err(|e| e.to_string())?;
    for claim in stated.iter_mut().flatten() {
        claim.id = renames::claim(experiment, &claim.id).to_owned();
        let CheckedClaim { verdict, holds, estimate, interval, ref bound, .. } = *claim;
        claim.verdict = ClaimVerdict::written(verdict, holds, estimate, interval, bound);
    }
    let goals = result["goals"].as_array().map(Vec::as_slice).unwrap_or_default();
    Ok(stated.unwrap_or_default().into_iter().chain(goals.iter().map(goal)).collect())
}

/// A benchmark's goal as a claim over its cases, of which the worst decides.
fn goal(goal: &Value) -> CheckedClaim {
    let is_limit = goal["at_most"].as_bool().unwrap_or(false);
    let each = goal["found"].as_object().into_iter().flatten().filter_map(|(_, ratio)| ratio.as_f64());
    let worst = each.reduce(if is_limit { f64::max } else { f64::min });
    let sign = if is_limit { "<=" } else { ">=" };
    let holds = goal["holds"].as_bool();
    CheckedClaim {
        id: goal["goal"].as_str().unwrap_or_default().to_owned(),
        says: String::new(),
        paper: None,
        estimate: worst.or(goal["worst"][0].as_f64()),
        interval: None,
        bound: goal["target"].as_f64().map_or(String::new(), |target| format!("{sign} {target}")),
        margin: 0.0,
        holds,
        verdict: holds.map(|holds| if holds { ClaimVerdict::Holds } else { ClaimVerdict::Fails }),
        more_runs: None,
        why: None,
        at: goal["worst"][1].as_str().unwrap_or_default().to_owned(),
        seeds: Vec::new(),
    }
}

impl MechanismState {
    /// True if the mechanism is fully available.
    #[must_use]
    pub fn works(&self) -> bool {
        self.health == "works"
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_file_that_is_not_ours_is_no_result() {
        for other in [json!({"name": "x"}), json!([1, 2]), json!(null), json!({"greenwave": {"form": "one"}})]
        {
            assert!(matches!(ParsedResult::read(&other), Err(Unreadable::Foreign(_))), "{other}");
        }
    }

    #[test]
    fn a_result_of_a_later_version_names_that_version() {
        let later = json!({"greenwave": {"form": FORM + 1, "version": "9.0.0", "new": true}});
        let expected = Unreadable::Newer { version: "9.0.0".to_owned(), form: FORM + 1 };
        assert_eq!(ParsedResult::read(&later).unwrap_err(), expected);
    }

    #[test]
    fn a_goal_is_a_claim_whose_worst_case_counts() {
        let goals = json!([
            {"goal": "rate", "target": 3.0, "at_most": false, "worst": [2.5, "64 B"], "holds": false},
            {"goal": "p99", "target": 10.0, "found": {"nginx": 12.0, "redis": 9.0}, "holds": false},
        ]);
        let result = ResultHeader::of_host("bench-net", None).stamp(json!({ "goals": goals }));
        let run = ParsedResult::read(&result).unwrap();
        let values: Vec<_> =
            run.claims.iter().map(|c| (c.estimate, c.bound.as_str(), c.at.as_str())).collect();
        assert_eq!(values, [(Some(2.5), ">= 3", "64 B"), (Some(9.0), ">= 10", "")]);
        assert_eq!(run.verdicts().collect::<Vec<_>>(), [ClaimVerdict::Fails; 2]);
    }

    #[test]
    fn a_result_from_before_headers_is_still_read() {
        let old = json!({
            "experiment": "a/one", "title": "t", "world": "sim", "scale": "paper", "seed": 7, "claims": [],
            "date": "2026-11-21", "figures": [],
        });
        let run = ParsedResult::read(&old).unwrap();
        assert_eq!(run.header.repeat(), "greenwave exp run a/one --scale paper --seed 7");
        assert_eq!((run.header.form, run.header.date.as_str()), (0, "2026-11-21"));
    }
}
