//! Every paper at once: one row per claim, over many experiments.
//!
//! Rows come from results in the form in which they are written, whether they
//! were run just now or lie in a folder since last month; so no row can show
//! what no run gave; only why a claim fails is as its file has it today. It
//! deliberately runs nothing and knows no bound: a result says itself whether its
//! claims hold.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::Value;

use super::catalogue::{self, stem};
use super::spec;
use crate::error::Error;
use crate::report::{self, Header, Plot, Run};
use crate::table::{Table, number};

/// The claims of several experiments, in the order in which they came.
#[derive(Debug, Default)]
pub struct Overview {
    results: Vec<Stored>,
    /// Experiments that could not run, and why.
    missing: Vec<(String, String)>,
}

/// What an overview needs of a result's JSON; the rest is passed over.
#[derive(Debug, Deserialize)]
struct Stored {
    experiment: String,
    world: String,
    /// Of real services; simulations do not depend on it.
    machine: Option<String>,
    /// What it says about itself; absent from results from before they did.
    greenwave: Option<Header>,
    /// When it ran, of those.
    date: Option<String>,
    /// Where the paper shows it.
    #[serde(default)]
    source: String,
    scale: String,
    seed: u64,
    runs: u64,
    claims: Vec<Claim>,
    #[serde(skip)]
    plots: Vec<Plot>,
}

#[derive(Debug, Deserialize)]
struct Claim {
    id: String,
    paper: Option<f64>,
    /// None where it is no number, as a ratio to nothing.
    ours: Option<f64>,
    interval: Option<f64>,
    bound: String,
    holds: bool,
    /// Why it fails, where that is known.
    why: Option<String>,
}

impl Stored {
    /// What stands at the foot of a table about where its rows come from.
    fn origin(&self) -> String {
        let runs = if self.runs == 1 { "1 run".to_owned() } else { format!("{} runs", self.runs) };
        let mut text = format!("world {}, scale {}, seed {}, {runs}", self.world, self.scale, self.seed);
        let date = self.greenwave.as_ref().map(|header| &header.date).or(self.date.as_ref());
        for more in [date, self.machine.as_ref()].into_iter().flatten() {
            let _ = write!(text, ", {more}");
        }
        text
    }

    /// Its plots with the names of their files.
    fn figures(&self) -> impl Iterator<Item = (String, &Plot)> {
        let name = |number: usize| match number {
            0 => format!("{}.svg", stem(&self.experiment)),
            more => format!("{}-{}.svg", stem(&self.experiment), more + 1),
        };
        self.plots.iter().enumerate().map(move |(number, plot)| (name(number), plot))
    }
}

impl Overview {
    /// Adds a result, as [`super::result::ExperimentResult::json`] gives it.
    ///
    /// # Errors
    /// One line: what is missing in it.
    pub fn add(&mut self, result: Value) -> Result<(), String> {
        let run = Run::read(&result).map_err(|e| e.to_string())?;
        let mut stored: Stored = serde_json::from_value(result).map_err(|e| e.to_string())?;
        for known in known(&stored.experiment) {
            if let Some(claim) = stored.claims.iter_mut().find(|claim| claim.id == known.id) {
                claim.why = known.why.or(claim.why.take());
            }
        }
        self.results.push(Stored { plots: run.plots, ..stored });
        Ok(())
    }

    /// Adds an experiment that could not run.
    pub fn add_missing(&mut self, name: &str, why: &Error) {
        self.missing.push((name.to_owned(), why.to_string().replace('\n', ";")));
    }

    /// Reads every result in `folders`, by name; one that lies in several, from the first of them.
    ///
    /// # Errors
    /// When one cannot be read, a JSON file in it is no result, or there is none at all.
    pub fn from_folders(folders: &[PathBuf]) -> Result<Self, Error> {
        let mut found = BTreeMap::new();
        for folder in folders {
            let entries = std::fs::read_dir(folder).map_err(|e| Error::file(folder, &e))?;
            let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
            for path in paths.filter(|path| path.extension().is_some_and(|e| e == "json")) {
                found.entry(path.file_name().map(ToOwned::to_owned)).or_insert(path);
            }
        }
        let mut overview = Self::default();
        for path in found.into_values() {
            let text = std::fs::read_to_string(&path).map_err(|e| Error::file(&path, &e))?;
            let result = serde_json::from_str(&text).map_err(|e| e.to_string());
            result.and_then(|value| overview.add(value)).map_err(|e| {
                Error::new(format!("{} is no experiment's result: {e}", path.display()))
                    .advice("a folder that `exp run --out` wrote")
            })?;
        }
        if overview.results.is_empty() {
            let names: Vec<_> = folders.iter().map(|folder| folder.display().to_string()).collect();
            return Err(Error::new(format!("{} holds no results", names.join(", ")))
                .advice(format!("greenwave exp run all --out {}", names[0])));
        }
        Ok(overview)
    }

    /// How many experiments stand in it, those that could not run among them.
    #[must_use]
    pub fn len(&self) -> usize {
        self.results.len() + self.missing.len()
    }

    /// Whether every claim holds, of the experiments that ran.
    #[must_use]
    pub fn all_hold(&self) -> bool {
        self.claims().all(|(_, claim)| claim.holds)
    }

    /// The table, reasons where a claim does not hold, and one closing line.
    #[must_use]
    pub fn text(&self) -> String {
        format!("{}{}\n{}\n", self.table(), self.reasons("  "), self.closing())
    }

    /// The same as a page of Markdown, with where each row comes from; with
    /// the figures that lie in folder `figures`, where that is given.
    #[must_use]
    pub fn markdown(&self, figures: Option<&str>) -> String {
        let mut text = format!("{HEAD}\n{}", self.table().markdown());
        let _ = write!(text, "\n{}\n{}\n", self.closing(), self.reasons("* "));
        let mut origins = Table::new(3, &["experiment", "the paper's", "ran"]);
        for stored in &self.results {
            origins.row(vec![stored.experiment.clone(), stored.source.clone(), stored.origin()]);
        }
        text += &origins.markdown();
        for stored in self.results.iter().filter(|stored| figures.is_some() && !stored.plots.is_empty()) {
            let _ = write!(text, "\n## {}\n", stored.experiment);
            for (name, plot) in stored.figures() {
                let _ = writeln!(text, "![{}]({}/{name})", plot.title(), figures.unwrap_or_default());
            }
        }
        text
    }

    /// Writes the page as `results.md` into `folder`, and its figures as SVG
    /// into `results/` below it; returns how many files.
    ///
    /// # Errors
    /// When one cannot be written; it is then as it was.
    pub fn write(&self, folder: &Path) -> Result<usize, Error> {
        let below = folder.join(FIGURES);
        std::fs::create_dir_all(&below).map_err(|e| Error::file(&below, &e))?;
        let mut count = 1;
        for (name, plot) in self.results.iter().flat_map(Stored::figures) {
            report::whole(&below.join(name), &plot.svg())?;
            count += 1;
        }
        report::whole(&folder.join("results.md"), &self.markdown(Some(FIGURES)))?;
        Ok(count)
    }

    fn table(&self) -> Table {
        let header = ["experiment", "claim", "paper", "ours", "±", "ours/paper", "must be", "holds"];
        let mut table = Table::new(2, &header);
        for (stored, claim) in self.claims() {
            let figure = |value: Option<f64>| value.map_or("–".to_owned(), number);
            table.row(vec![
                stored.experiment.clone(),
                claim.id.clone(),
                figure(claim.paper),
                figure(claim.ours),
                figure(claim.interval),
                figure(claim.ours.zip(claim.paper).map(|(ours, paper)| ours / paper)),
                claim.bound.clone(),
                if claim.holds { "yes" } else { "NO" }.to_owned(),
            ]);
        }
        table
    }

    fn reasons(&self, before: &str) -> String {
        let failed: Vec<_> = self.claims().filter(|(_, claim)| !claim.holds).collect();
        let same = |a: &(&Stored, &Claim), b: &(&Stored, &Claim)| {
            (&a.0.experiment, &a.1.why) == (&b.0.experiment, &b.1.why)
        };
        let failed = failed.chunk_by(same).map(|claims| {
            let ids: Vec<&str> = claims.iter().map(|(_, claim)| claim.id.as_str()).collect();
            let (stored, claim) = claims[0];
            let why = claim.why.as_deref().unwrap_or("cause not known");
            format!("{before}{} {}: {why}\n", stored.experiment, ids.join(", "))
        });
        let missing = self.missing.iter().map(|(name, why)| format!("{before}{name} could not run: {why}\n"));
        failed.chain(missing).collect()
    }

    fn closing(&self) -> String {
        let hold = self.claims().filter(|(_, claim)| claim.holds).count();
        let missing = match self.missing.len() {
            0 => String::new(),
            n => format!("; {n} could not run"),
        };
        format!(
            "{hold} of {} claims hold in {} experiments{missing}",
            self.claims().count(),
            self.results.len()
        )
    }

    fn claims(&self) -> impl Iterator<Item = (&Stored, &Claim)> {
        self.results.iter().flat_map(|stored| stored.claims.iter().map(move |claim| (stored, claim)))
    }
}

/// The claims of an experiment as its file has them today, if it ships with the program: why
/// one fails may have become known since a result was written.
fn known(experiment: &str) -> Vec<spec::Claim> {
    let source = catalogue::all().into_iter().find(|source| source.name == experiment);
    source.and_then(|source| source.parse().ok()).map_or(Vec::new(), |experiment| experiment.claim)
}

/// The folder of figures, beside the page.
const FIGURES: &str = "results";

const HEAD: &str = "\
# Results
Every claim of every experiment that was run, written by `greenwave exp table --markdown`
(`make results`) from what `exp run --out` left; nothing here is edited by hand. What the claims
say stands in `experiments/`; where a paper prints a number, it stands beside ours.
";

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn result(name: &str, holds: bool) -> Value {
        json!({
            "experiment": name, "source": "Fig. 1", "world": "sim", "machine": null, "scale": "paper", "seed": 7, "runs": 3,
            "claims": [{
                "id": "p99", "paper": 2.0, "ours": 3.0, "interval": 0.1, "bound": "<= 4", "holds": holds,
                "why": if holds { Value::Null } else { json!("the link is slower") },
            }],
        })
    }

    #[test]
    fn each_claim_is_a_row_and_a_failed_one_says_why() {
        let mut overview = Overview::default();
        overview.add(result("a/one", true)).unwrap();
        let mut two = result("b/two", false);
        let mut other = two["claims"][0].clone();
        other["id"] = json!("p999");
        two["claims"].as_array_mut().unwrap().push(other);
        overview.add(two).unwrap();
        overview.add_missing("b/three", &Error::new("no nginx").advice("apt-get install nginx-light"));
        let expected = "\
experiment  claim  paper  ours      ±  ours/paper  must be  holds
a/one       p99     2.00  3.00  0.100        1.50     <= 4    yes
b/two       p99     2.00  3.00  0.100        1.50     <= 4     NO
b/two       p999    2.00  3.00  0.100        1.50     <= 4     NO
  b/two p99, p999: the link is slower
  b/three could not run: error: no nginx;  try: apt-get install nginx-light

1 of 3 claims hold in 2 experiments; 1 could not run
";
        assert_eq!(overview.text(), expected);
    }

    #[test]
    fn why_is_what_the_experiment_s_file_says_today() {
        let mut overview = Overview::default();
        let mut old = result("platform/green", false);
        old["claims"][0]["id"] = json!("tail-idle");
        overview.add(old).unwrap();
        let text = overview.text();
        assert!(
            text.contains("platform/green tail-idle: a kernel that takes cores from BE at once"),
            "{text}"
        );
    }

    #[test]
    fn a_page_says_where_each_row_comes_from() {
        let mut overview = Overview::default();
        let mut dated = result("a/one", true);
        dated["date"] = json!("2026-11-21");
        dated["machine"] = json!("2 cores");
        overview.add(dated).unwrap();
        let page = overview.markdown(None);
        assert!(page.contains("| a/one | p99 | 2.00 | 3.00 | 0.100 | 1.50 | <= 4 | yes |"), "{page}");
        let origin = "| a/one | Fig. 1 | world sim, scale paper, seed 7, 3 runs, 2026-11-21, 2 cores |";
        assert!(page.contains(origin), "{page}");
    }

    #[test]
    fn a_page_shows_the_figures_that_are_written_beside_it() {
        let mut overview = Overview::default();
        let mut drawn = result("a/one", true);
        drawn["plots"] = json!([
            {"plot": "bars", "title": "p99 of LS", "unit": "µs", "bars": [{"name": "adps", "parts": [["p99", 3.0]]}]},
            {"plot": "cdf", "title": "Latency", "series": [{"name": "adps", "points": [[3.0, 1.0]]}]},
        ]);
        overview.add(drawn).unwrap();
        overview.add(result("b/none", true)).unwrap();
        let folder = std::env::temp_dir().join(format!("greenwave-results-{}", std::process::id()));
        assert_eq!(overview.write(&folder), Ok(3));
        let page = std::fs::read_to_string(folder.join("results.md")).unwrap();
        let svg = |name: &str| std::fs::read_to_string(folder.join("results").join(name)).unwrap();
        assert!(svg("a-one.svg").starts_with("<svg") && svg("a-one-2.svg").contains("Latency"));
        std::fs::remove_dir_all(&folder).unwrap();
        let figures = "\n## a/one\n![p99 of LS](results/a-one.svg)\n![Latency](results/a-one-2.svg)\n";
        assert!(page.ends_with(figures), "{page}");
    }

    #[test]
    fn what_is_no_result_is_refused() {
        assert!(Overview::default().add(json!({"experiment": "a/one"})).is_err());
    }
}
