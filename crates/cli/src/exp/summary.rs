//! Summary of claims over many experiments: one row per claim.
//!
//! Rows come from written results, new or old; only the known reason of a failure is read from the
//! experiment's current file. The module deliberately runs nothing: a result states the verdicts on
//! its claims, and only those of earlier versions are judged again. A record beside the page keeps the rows of other experiments
//! when one experiment is run again.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::registry::{self, stem};
use super::spec;
use crate::bound::{Bound, margin_in_words};
use crate::error::Error;
use crate::renames;
use crate::report::{self, ParsedResult, Plot, ResultHeader};
use crate::table::{Table, number, number_or_dash};
use crate::verdict::{ClaimVerdict, VerdictCounts, more_runs_in_words, runs_to_decide};

/// Claims of several experiments, in the order in which they were added.
#[derive(Debug, Default)]
pub struct Overview {
    results: Vec<StoredResult>,
    /// Experiments that could not run, with the reason.
    missing: Vec<(String, String)>,
}

/// Part of a result's JSON that the summary reads and records; other keys are ignored.
#[derive(Debug, Deserialize, Serialize)]
struct StoredResult {
    experiment: String,
    world: String,
    /// Machine of a run on real services; absent from simulations, which do not depend on it.
    #[serde(skip_serializing_if = "Option::is_none")]
    machine: Option<String>,
    /// Header; absent from results that predate headers, and from records.
    #[serde(skip_serializing)]
    greenwave: Option<ResultHeader>,
    /// Date of a result without a header: an older one, or one from a record.
    date: Option<String>,
    /// Source in the paper.
    #[serde(default)]
    source: String,
    scale: String,
    seed: u64,
    runs: u64,
    claims: Vec<Claim>,
    /// Plots of its figures.
    #[serde(default)]
    titles: Vec<String>,
    /// True if the result comes from a record, whose figures are drawn already.
    #[serde(skip)]
    plots: Vec<Plot>,
}

#[derive(Debug, Deserialize, Serialize)]
struct Claim {
    id: String,
    paper: Option<f64>,
    /// None if it is not a number, such as a ratio to zero.
    #[serde(rename = "ours")]
    estimate: Option<f64>,
    interval: Option<f64>,
    bound: String,
    /// Non-inferiority margin that the file stated when it ran.
    #[serde(default)]
    margin: f64,
    holds: bool,
    /// Absent from results of earlier versions until they are added here.
    verdict: Option<ClaimVerdict>,
    /// Known reason of a failure.
    why: Option<String>,
}

impl StoredResult {
    /// Origin of the rows, for the foot of a table.
    fn origin(&self) -> String {
        let runs = if self.runs == 1 { "1 run".to_owned() } else { format!("{} runs", self.runs) };
        let mut text = format!("world {}, scale {}, seed {}, {runs}", self.world, self.scale, self.seed);
        for more in [self.date.as_ref(), self.machine.as_ref()].into_iter().flatten() {
            let _ = write!(text, ", {more}");
        }
        text
    }

    /// File name of figure `number`, from 0.
    fn figure(&self, number: usize) -> String {
        match number {
            0 => format!("{}.svg", stem(&self.experiment)),
            more => format!("{}-{}.svg", stem(&self.experiment), more + 1),
        }
    }

    /// Judges claims of earlier versions again: see [`ClaimVerdict::written`].
    fn judge(&mut self) {
        for claim in &mut self.claims {
            let Claim { verdict, holds, estimate, interval, ref bound, .. } = *claim;
            claim.verdict = ClaimVerdict::written(verdict, Some(holds), estimate, interval, bound);
            claim.holds = claim.verdict() == ClaimVerdict::Holds;
        }
    }

    /// Sets the claims' present ids, and the known reasons of failures from the experiment's current
    /// file.
    fn explain(&mut self) {
        for claim in &mut self.claims {
            claim.id = renames::claim(&self.experiment, &claim.id).to_owned();
        }
        for current in current_claims(&self.experiment) {
            if let Some(claim) = self.claims.iter_mut().find(|claim| claim.id == current.id) {
                claim.why = current.why.or(claim.why.take());
            }
        }
    }
}

impl Claim {
    fn verdict(&self) -> ClaimVerdict {
        self.verdict.unwrap_or(ClaimVerdict::Fails)
    }

    /// Further runs beyond `runs` that an undecided claim needs, in words.
    fn more_runs(&self, runs: u64) -> String {
        let bound = Bound::parse(&self.bound).ok();
        let known = self.estimate.zip(self.interval).zip(bound);
        let more = known
            .and_then(|((estimate, half), bound)| runs_to_decide(estimate, half, runs, bound, self.margin));
        more_runs_in_words(runs, if known.is_none() { Some(1) } else { more })
    }
}

impl Overview {
    /// Adds a result in the format of [`super::result::ExperimentResult::json`].
    ///
    /// # Errors
    /// One line: the missing key.
    pub fn add(&mut self, result: Value) -> Result<(), String> {
        let run = ParsedResult::read(&result).map_err(|e| e.to_string())?;
        let mut stored: StoredResult = serde_json::from_value(result).map_err(|e| e.to_string())?;
        stored.explain();
        stored.judge();
        let date = stored.greenwave.take().map(|header| header.date).or(stored.date);
        let titles = run.plots.iter().map(|plot| plot.title().to_owned()).collect();
        self.results.push(StoredResult { date, titles, plots: run.plots, ..stored });
        Ok(())
    }

    /// Adds an experiment that could not run.
    pub fn add_missing(&mut self, name: &str, why: &Error) {
        self.missing.push((name.to_owned(), why.to_string().replace('\n', ";")));
    }

    /// Reads every result in `folders`, by name; of duplicates the first folder's counts.
    ///
    /// # Errors
    /// A folder or file cannot be read, a JSON file is no result, or there is no result.
    pub fn from_folders(folders: &[PathBuf]) -> Result<Self, Error> {
        let mut files = BTreeMap::new();
        for folder in folders {
            let entries = std::fs::read_dir(folder).map_err(|e| Error::file(folder, &e))?;
            let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
            for path in paths.filter(|path| path.extension().is_some_and(|e| e == "json")) {
                files.entry(path.file_name().map(ToOwned::to_owned)).or_insert(path);
            }
        }
        let mut overview = Self::default();
        for path in files.into_values() {
            let text = std::fs::read_to_string(&path).map_err(|e| Error::file(&path, &e))?;
            let result = serde_json::from_str(&text).map_err(|e| e.to_string());
            result.and_then(|value| overview.add(value)).map_err(|e| {
                Error::new(format!("{} is not the result of an experiment: {e}", path.display()))
                    .advice("a folder that `exp run --out` wrote")
            })?;
        }
        if overview.results.is_empty() && !folders.is_empty() {
            let names: Vec<_> = folders.iter().map(|folder| folder.display().to_string()).collect();
            return Err(Error::new(format!("{} holds no results", names.join(", ")))
                .advice(format!("greenwave exp run all --out {}", names[0])));
        }
        Ok(overview)
    }

    /// Number of experiments, including those that could not run.
    #[must_use]
    pub fn len(&self) -> usize {
        self.results.len() + self.missing.len()
    }

    /// Number of claims by verdict, of the experiments that ran.
    #[must_use]
    pub fn counts(&self) -> VerdictCounts {
        self.claims().map(|(_, claim)| claim.verdict()).collect()
    }

    /// The table, reasons where a claim does not hold, and one closing line.
    #[must_use]
    pub fn text(&self) -> String {
        format!("{}{}\n{}\n", self.table(), self.reasons("  "), self.closing())
    }

    /// The summary as a Markdown page with the origin of each row, and with the plots in folder
    /// `figures` if given.
    #[must_use]
    pub fn markdown(&self, figures: Option<&str>) -> String {
        let mut text = format!("{HEAD}\n- {}\n{}{RULES}\n", self.closing(), self.quotes());
        let _ = write!(text, "{}\n{}\n", self.table().markdown(), self.reasons("* "));
        let mut origins = Table::new(3, &["experiment", "source in the paper", "ran"]);
        for stored in &self.results {
            origins.row(vec![stored.experiment.clone(), stored.source.clone(), stored.origin()]);
        }
        text += &origins.markdown();
        for stored in self.results.iter().filter(|stored| figures.is_some() && !stored.titles.is_empty()) {
            let _ = write!(text, "\n## {}\n", stored.experiment);
            for (number, title) in stored.titles.iter().enumerate() {
                let _ =
                    writeln!(text, "![{title}]({}/{})", figures.unwrap_or_default(), stored.figure(number));
            }
        }
        text
    }

    /// Writes the page as `results.md` into `folder`, and its figures as SVG and its record into
    /// `results/` below that; returns the number of files.
    ///
    /// Rows of an earlier record are kept for other experiments that are still shipped.
    ///
    /// # Errors
    /// A file cannot be written, and is then unchanged; the existing record is invalid; or there are
    /// no results.
    pub fn write(mut self, folder: &Path) -> Result<usize, Error> {
        let below = folder.join(FIGURES);
        std::fs::create_dir_all(&below).map_err(|e| Error::file(&below, &e))?;
        let record = below.join(RECORD);
        self.keep(&record)?;
        if self.results.is_empty() {
            return Err(Error::new(format!("{} has no record of results", folder.display()))
                .advice("greenwave exp table DIR --markdown --out, with a folder of results"));
        }
        let mut count = 2;
        for stored in &self.results {
            for (number, plot) in stored.plots.iter().enumerate() {
                report::whole(&below.join(stored.figure(number)), &plot.svg())?;
                count += 1;
            }
        }
        report::whole(&record, &self.record())?;
        report::whole(&folder.join("results.md"), &self.markdown(Some(FIGURES)))?;
        Ok(count)
    }

    /// Adds the rows of `record` for experiments without a result here.
    fn keep(&mut self, record: &Path) -> Result<(), Error> {
        let text = match std::fs::read_to_string(record) {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(()),
            read => read.map_err(|e| Error::file(record, &e))?,
        };
        let rows: Vec<StoredResult> = serde_json::from_str(&text).map_err(|e| {
            Error::new(format!("{} is not a record of results: {e}", record.display()))
                .advice("restore it with git checkout, or remove it and give all results")
        })?;
        let shipped = registry::all();
        for mut stored in rows {
            let is_present = self.results.iter().any(|result| result.experiment == stored.experiment);
            if !is_present && shipped.iter().any(|source| source.name == stored.experiment) {
                stored.explain();
                stored.judge();
                self.results.push(stored);
            }
        }
        // Same order as the files of results.
        self.results.sort_by_key(|stored| format!("{}.json", stem(&stored.experiment)));
        Ok(())
    }

    /// The record: one experiment per line.
    fn record(&self) -> String {
        let line = |stored: &StoredResult| serde_json::to_string(stored).expect("a result is JSON");
        format!("[\n{}\n]\n", self.results.iter().map(line).collect::<Vec<_>>().join(",\n"))
    }

    fn table(&self) -> Table {
        let header = ["experiment", "claim", "paper", "ours", "±", "ours/paper", "bound", "verdict"];
        let mut table = Table::new(2, &header);
        for (stored, claim) in self.claims() {
            table.row(vec![
                stored.experiment.clone(),
                claim.id.clone(),
                number_or_dash(claim.paper),
                number_or_dash(claim.estimate),
                number_or_dash(claim.interval),
                number_or_dash(claim.estimate.zip(claim.paper).map(|(estimate, paper)| estimate / paper)),
                margin_in_words(&claim.bound, claim.margin),
                claim.verdict().word().to_owned(),
            ]);
        }
        table
    }

    /// Claims of [`QUOTES`] that have results, one per line.
    fn quotes(&self) -> String {
        let mut text = String::new();
        for (experiment, id, meaning) in QUOTES {
            let mut claims = self.claims().filter(|(stored, _)| stored.experiment == experiment);
            let Some((stored, claim)) = claims.find(|(_, claim)| claim.id == id) else { continue };
            let figure = number_or_dash(claim.estimate);
            let interval =
                claim.interval.map_or(String::new(), |interval| format!(" ± {}", number(interval)));
            let command = format!("greenwave exp run {experiment} --scale {}", stored.scale);
            let _ = writeln!(text, "- {meaning}: **{figure}{interval}** (`{command}`)");
        }
        text
    }

    /// Reasons of failed claims, runs that would decide undecided ones, and experiments that could
    /// not run: one line each, after `before`.
    fn reasons(&self, before: &str) -> String {
        let open = self.claims().filter(|(_, claim)| claim.verdict() != ClaimVerdict::Holds);
        let open = open.map(|(stored, claim)| {
            let why = claim.why.as_deref();
            let reason = match claim.verdict() {
                ClaimVerdict::Undecided => {
                    let why = why.map_or(String::new(), |why| format!("; {why}"));
                    format!("undecided: {}{why}", claim.more_runs(stored.runs))
                }
                _ => why.unwrap_or("cause unknown").to_owned(),
            };
            (&stored.experiment, &claim.id, reason)
        });
        let open: Vec<_> = open.collect();
        let failed = open.chunk_by(|a, b| (a.0, &a.2) == (b.0, &b.2)).map(|claims| {
            let ids: Vec<&str> = claims.iter().map(|(_, id, _)| id.as_str()).collect();
            let (experiment, _, reason) = &claims[0];
            format!("{before}{experiment} {}: {reason}\n", ids.join(", "))
        });
        let missing = self.missing.iter().map(|(name, why)| format!("{before}{name} could not run: {why}\n"));
        failed.chain(missing).collect()
    }

    fn closing(&self) -> String {
        let missing = match self.missing.len() {
            0 => String::new(),
            n => format!("; {n} could not run"),
        };
        format!("{} in {} experiments{missing}", self.counts(), self.results.len())
    }

    fn claims(&self) -> impl Iterator<Item = (&StoredResult, &Claim)> {
        self.results.iter().flat_map(|stored| stored.claims.iter().map(move |claim| (stored, claim)))
    }
}

/// Claims in the current file of an experiment, if it ships with the program. The reason of a
/// failure may have become known after the result was written.
fn current_claims(experiment: &str) -> Vec<spec::Claim> {
    let source = registry::all().into_iter().find(|source| source.name == experiment);
    source.and_then(|source| source.parse().ok()).map_or(Vec::new(), |experiment| experiment.claim)
}

/// Folder of figures, beside the page.
const FIGURES: &str = "results";
/// File name of the page's record, in that folder.
const RECORD: &str = "record.json";

/// Claims at the head of the page: experiment, claim, and the meaning of its figure.
const QUOTES: [(&str, &str, &str); 9] = [
    ("adps/fig5", "adps-over-none", "p99 of urgent requests, with priorities ÷ without"),
    ("adps/e5", "near-p50", "p50 of near users of an unmodified lighttpd, with a policy ÷ without"),
    (
        "d2p/e2-tonic",
        "end-to-end-at-a-pace",
        "p95 of a search over 18 workers, by deadline ÷ in order of arrival",
    ),
    ("fish/fig6", "push-out-mean", "mean completion of small flows in bursts, FISH with push-out ÷ FISH"),
    ("fish/host", "fish-fifo", "p99 of small flows in bursts on Linux's egress, FISH ÷ one FIFO"),
    ("caladan/e2", "tail-during-gc", "worst p99.9 of any 100 ms, PARTIES ÷ Caladan"),
    (
        "overload/e1",
        "peak-kept",
        "goodput of nginx with the guard, at 4 and 10 times its capacity ÷ its peak",
    ),
    (
        "platform/green",
        "p999-off-over-on",
        "p99.9 of urgent requests on simulated hosts, all mechanisms off ÷ on",
    ),
    ("platform/host", "overload-goodput", "requests in time through three services in overload, %"),
];

/// Head of the page, in front of its quotable lines.
const HEAD: &str = "\
# Results
Measured by greenwave's own experiments; ± is half of a 95 % confidence interval, `A ÷ B` a quotient.
Each line names the command that repeats it.
";

/// Text between the quotable lines and the table.
const RULES: &str = "
`greenwave exp table --markdown` (`make results`) wrote this page from the files of `exp run --out`; it is
not edited by hand. `experiments/` explains the claims. The column *paper* has the number that the paper prints.

A claim holds if its whole 95 % interval keeps the bound, fails if no part of it does, and is
undecided if the interval contains the bound. The lines below the table estimate how many more runs
would decide it. Without an interval (`–` in column ±: a single run) the value alone decides. `among seeds`
is a claim about single seeds: the paper's value is one that some seeds give.
";

#[cfg(test)]
mod tests;
