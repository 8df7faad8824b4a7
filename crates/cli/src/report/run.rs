//! A run as pages and comparisons see it, whichever command wrote it.
//!
//! What is common to all results is read by name: the header, claims and
//! goals, plots, settings. The rest is read by its shape alone ([`super::rows`]),
//! so that a command's new figures need nothing here. Source: `spec/results.md`.

use serde::Deserialize;
use serde_json::Value;

use super::header::{FORM, Finding, Header, KEY};
use super::plot::Plot;
use super::tables::{self, Rows};

/// A result that was read.
#[derive(Clone, Debug)]
pub struct Run {
    /// What it says about itself.
    pub header: Header,
    /// What it is compared by: an experiment's name, or the command's.
    pub name: String,
    /// One line for people.
    pub title: String,
    /// Where a paper shows it.
    pub source: Option<String>,
    /// What was claimed or aimed at.
    pub claims: Vec<Claim>,
    /// Claims that this run cannot say anything about.
    pub not_checked: Vec<String>,
    /// Figures, by table.
    pub tables: Vec<Rows>,
    /// What was said about rows in words.
    pub notes: Vec<(String, String)>,
    /// Plots.
    pub plots: Vec<Plot>,
    /// Single facts, such as how many runs.
    pub facts: Vec<(String, String)>,
    /// Settings by path; several values where points and modes differ.
    pub settings: Vec<(String, String)>,
}

/// A claim, as its run checked it.
#[derive(Clone, Debug, Deserialize)]
pub struct Claim {
    /// Its name.
    pub id: String,
    /// What is claimed, in words.
    #[serde(default)]
    pub says: String,
    /// What the paper prints.
    pub paper: Option<f64>,
    /// What was measured; none where it is no number.
    pub ours: Option<f64>,
    /// Half the 95 % interval over the seeds.
    pub interval: Option<f64>,
    /// What it must be.
    #[serde(default)]
    pub bound: String,
    /// Whether it is; none where it could not be measured.
    pub holds: Option<bool>,
    /// Why not, where that is known.
    pub why: Option<String>,
    /// Where it was checked, if not everywhere.
    #[serde(default)]
    pub at: String,
    /// What each seed gave, in their order.
    #[serde(default)]
    pub seeds: Vec<Option<f64>>,
}

/// Why a file is not shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unreadable {
    /// Not a result of greenwave: what is missing.
    Foreign(String),
    /// Of a later version: which form it has.
    Newer {
        /// Its version of greenwave.
        version: String,
        /// Its form.
        form: u64,
    },
}

impl std::fmt::Display for Unreadable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Foreign(why) => write!(f, "not a result of greenwave: {why}"),
            Self::Newer { version, form } => {
                let ours = env!("CARGO_PKG_VERSION");
                write!(f, "written by greenwave {version} in form {form}; {ours} reads forms up to {FORM}")
            }
        }
    }
}

impl Run {
    /// Reads a result.
    ///
    /// # Errors
    /// What keeps it from being one.
    pub fn read(result: &Value) -> Result<Self, Unreadable> {
        let mut header = header(result)?;
        let text = |key: &str| result[key].as_str().map(str::to_owned);
        let name = text("experiment").unwrap_or_else(|| header.kind.clone());
        let title = text("title").unwrap_or_else(|| format!("greenwave {}", header.kind.replace('-', " ")));
        let mut found = tables::read(result);
        if header.kind == "doctor" {
            header.doctor = Vec::deserialize(&result["findings"]).map_err(foreign)?;
            found = tables::Found::default();
        }
        let plots = Option::<Vec<Plot>>::deserialize(&result["plots"]).map_err(foreign)?;
        let not_checked = Option::<Vec<String>>::deserialize(&result["not_checked"]).map_err(foreign)?;
        Ok(Self {
            claims: claims(result).map_err(foreign)?,
            not_checked: not_checked.unwrap_or_default(),
            source: text("source"),
            tables: found.tables,
            notes: found.notes,
            facts: found.facts,
            settings: tables::settings(&result["settings"]),
            header,
            name,
            title,
            plots: plots.unwrap_or_default(),
        })
    }

    /// Claims that hold, and those that were checked.
    #[must_use]
    pub fn score(&self) -> (usize, usize) {
        let checked = self.claims.iter().filter_map(|claim| claim.holds);
        (checked.clone().filter(|holds| *holds).count(), checked.count())
    }
}

fn foreign(e: impl std::fmt::Display) -> Unreadable {
    Unreadable::Foreign(e.to_string())
}

/// The header, or what stands in for it in results from before there was one.
fn header(result: &Value) -> Result<Header, Unreadable> {
    let stated = &result[KEY];
    let text = |key: &str| stated[key].as_str().unwrap_or("a later version").to_owned();
    match stated["form"].as_u64() {
        Some(form) if form > FORM => Err(Unreadable::Newer { version: text("version"), form }),
        Some(_) => Header::deserialize(stated).map_err(foreign),
        None if result["experiment"].is_string() && result["claims"].is_array() => Ok(Header {
            form: 0,
            kind: "experiment".to_owned(),
            version: "unknown".to_owned(),
            command: experiment_again(result),
            date: result["date"].as_str().unwrap_or("unknown").to_owned(),
            world: result["world"].as_str().unwrap_or("unknown").to_owned(),
            seed: result["seed"].as_u64(),
            machine: result["machine"].as_str().map(str::to_owned),
            doctor: Vec::new(),
        }),
        None => Err(Unreadable::Foreign(format!("it has no {KEY:?} that says what it is"))),
    }
}

/// The arguments that run the experiment of `result` again.
#[must_use]
pub fn experiment_again(result: &Value) -> Vec<String> {
    let text = |key: &str| result[key].as_str().unwrap_or_default().to_owned();
    let seed = result["seed"].as_u64().unwrap_or(1).to_string();
    let words = ["exp", "run"].map(str::to_owned).into_iter();
    words
        .chain([text("experiment"), "--scale".to_owned(), text("scale"), "--seed".to_owned(), seed])
        .collect()
}

fn claims(result: &Value) -> Result<Vec<Claim>, String> {
    let stated = Option::<Vec<Claim>>::deserialize(&result["claims"]).map_err(|e| e.to_string())?;
    let goals = result["goals"].as_array().map(Vec::as_slice).unwrap_or_default();
    Ok(stated.unwrap_or_default().into_iter().chain(goals.iter().map(goal)).collect())
}

/// A benchmark's goal is a claim over its cases, of which the worst decides.
fn goal(goal: &Value) -> Claim {
    let is_limit = goal["at_most"].as_bool().unwrap_or(false);
    let each = goal["found"].as_object().into_iter().flatten().filter_map(|(_, ratio)| ratio.as_f64());
    let worst = each.reduce(if is_limit { f64::max } else { f64::min });
    let sign = if is_limit { "<=" } else { ">=" };
    Claim {
        id: goal["goal"].as_str().unwrap_or_default().to_owned(),
        says: String::new(),
        paper: None,
        ours: worst.or(goal["worst"][0].as_f64()),
        interval: None,
        bound: goal["target"].as_f64().map_or(String::new(), |target| format!("{sign} {target}")),
        holds: goal["holds"].as_bool(),
        why: None,
        at: goal["worst"][1].as_str().unwrap_or_default().to_owned(),
        seeds: Vec::new(),
    }
}

impl Finding {
    /// Whether the mechanism is all there.
    #[must_use]
    pub fn works(&self) -> bool {
        self.here == "works"
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
            assert!(matches!(Run::read(&other), Err(Unreadable::Foreign(_))), "{other}");
        }
    }

    #[test]
    fn a_result_of_a_later_version_says_of_which() {
        let later = json!({"greenwave": {"form": FORM + 1, "version": "9.0.0", "new": true}});
        let expected = Unreadable::Newer { version: "9.0.0".to_owned(), form: FORM + 1 };
        assert_eq!(Run::read(&later).unwrap_err(), expected);
    }

    #[test]
    fn a_goal_is_a_claim_whose_worst_case_counts() {
        let goals = json!([
            {"goal": "rate", "target": 3.0, "at_most": false, "worst": [2.5, "64 B"], "holds": false},
            {"goal": "p99", "target": 10.0, "found": {"nginx": 12.0, "redis": 9.0}, "holds": false},
        ]);
        let result = Header::of_host("bench-net", None).stamp(json!({ "goals": goals }));
        let run = Run::read(&result).unwrap();
        let said: Vec<_> = run.claims.iter().map(|c| (c.ours, c.bound.as_str(), c.at.as_str())).collect();
        assert_eq!(said, [(Some(2.5), ">= 3", "64 B"), (Some(9.0), ">= 10", "")]);
        assert_eq!(run.score(), (0, 2));
    }

    #[test]
    fn a_result_from_before_headers_is_still_read() {
        let old = json!({
            "experiment": "a/one", "title": "t", "world": "sim", "scale": "paper", "seed": 7, "claims": [],
            "date": "2026-11-21", "figures": [],
        });
        let run = Run::read(&old).unwrap();
        assert_eq!(run.header.repeat(), "greenwave exp run a/one --scale paper --seed 7");
        assert_eq!((run.header.form, run.header.date.as_str()), (0, "2026-11-21"));
    }
}
