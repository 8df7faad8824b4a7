//! `greenwave exp hunt`: search for workloads on which a default loses against doing nothing.
//!
//! Cases are drawn and compared in virtual time by [`sim::hunt`]; this command runs them in parallel
//! for a time, shrinks what it finds, and writes files that replay it.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use clap::Args as ClapArgs;
use host::signals;
use queueing::Span;
use serde_json::{Value, json};
use sim::hunt::{CaseResult, HuntFigure, HuntTarget, MECHANISMS};

use crate::error::Error;
use crate::parallel;
use crate::report;
use crate::table::Table;

#[derive(Debug, ClapArgs)]
pub struct Args {
    /// Mechanism whose default is tried: deadline, guard or egress.
    #[arg(value_name = "MECHANISM", value_parser = mechanism)]
    mechanism: &'static HuntTarget,
    /// Maximum duration of the search.
    #[arg(long, value_name = "SPAN", default_value = "60s")]
    duration: Span,
    /// Maximum number of cases.
    #[arg(long, value_name = "N", default_value_t = u64::MAX, hide_default_value = true)]
    cases: u64,
    /// Seed from which all cases are drawn [default: 1].
    #[arg(long)]
    seed: Option<u64>,
    /// Number of the first case [default: 0].
    #[arg(long, value_name = "N")]
    first_case: Option<u64>,
    /// Folder for hunt-MECHANISM.json and a file for each of the worst cases.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Continue the search recorded in --out.
    #[arg(long, requires = "out", conflicts_with_all = ["seed", "first_case"])]
    resume: bool,
    /// Run only this case, a file written by --out; may be repeated.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["out", "seed", "first_case", "cases"])]
    replay: Vec<PathBuf>,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

fn mechanism(name: &str) -> Result<&'static HuntTarget, String> {
    let names = MECHANISMS.map(|mechanism| mechanism.name).join(", ");
    HuntTarget::find(name).ok_or_else(|| format!("{name:?} is not one of {names}"))
}

/// Runs the command; exit status 1 if a case loses more than a price.
///
/// # Errors
/// A file cannot be read or written, a case is invalid, or ctrl-C.
pub fn run(args: &Args) -> Result<ExitCode, Error> {
    if !args.replay.is_empty() {
        return replay(args);
    }
    let mut hunt = match &args.out {
        Some(folder) if args.resume => Hunt::resume(args.mechanism, folder)?,
        _ => Hunt::new(args.mechanism, args.seed.unwrap_or(1), args.first_case.unwrap_or(0)),
    };
    if let Some(folder) = &args.out {
        std::fs::create_dir_all(folder).map_err(|e| Error::file(folder, &e))?;
        Error::unless_writable(&hunt.path(folder))?;
    }
    let interrupted = hunt.search(args)?;
    // Shrinking takes seconds; ctrl-C ends it at once, as it does every simulation.
    if !interrupted && !signals::restore_default_signals() {
        hunt.shrink();
    }
    if let Some(folder) = &args.out {
        hunt.write(folder, interrupted)?;
    }
    if args.json {
        outln!("{}", hunt.json(interrupted, args.out.is_some()));
    } else {
        out!("{}", hunt.text());
    }
    if interrupted {
        return Err(Error::interrupted(&format!(" after {} cases", hunt.cases)));
    }
    Ok(ExitCode::from(u8::from(hunt.findings > 0)))
}

/// Progress of a search.
struct Hunt {
    mechanism: &'static HuntTarget,
    seed: u64,
    first_case: u64,
    /// Cases run.
    cases: u64,
    /// Cases above a price.
    findings: u64,
    /// Sums of goodput: the default's, and that of doing nothing.
    sums: [f64; 2],
    /// The worst cases, the worst first.
    worst: Vec<CaseResult>,
    /// Simplest form of findings, by case.
    shrunk: BTreeMap<u64, String>,
}

impl Hunt {
    fn new(mechanism: &'static HuntTarget, seed: u64, first_case: u64) -> Self {
        let sums = [0.0; 2];
        let (worst, shrunk) = (Vec::new(), BTreeMap::new());
        Self { mechanism, seed, first_case, cases: 0, findings: 0, sums, worst, shrunk }
    }

    fn path(&self, folder: &Path) -> PathBuf {
        folder.join(format!("hunt-{}.json", self.mechanism.name))
    }

    fn case_path(&self, folder: &Path, case: u64) -> PathBuf {
        folder.join(format!("{}-{}-{case}.toml", self.mechanism.name, self.seed))
    }

    /// The search recorded in `folder`.
    fn resume(mechanism: &'static HuntTarget, folder: &Path) -> Result<Self, Error> {
        let mut hunt = Self::new(mechanism, 0, 0);
        let path = hunt.path(folder);
        let text = std::fs::read_to_string(&path).map_err(|e| Error::file(&path, &e))?;
        let bad = || Error::new(format!("{} is not the record of a hunt", path.display()));
        let record: Value = serde_json::from_str(&text).map_err(|_| bad())?;
        if record["greenwave"] != env!("CARGO_PKG_VERSION") {
            let version = &record["greenwave"];
            return Err(bad()
                .and(&format!("it is of version {version}, this is {}", env!("CARGO_PKG_VERSION")))
                .advice("another --out, or no --resume"));
        }
        let number = |key: &str| record[key].as_u64().ok_or_else(bad);
        (hunt.seed, hunt.first_case) = (number("seed")?, number("first_case")?);
        (hunt.cases, hunt.findings) = (number("cases")?, number("findings")?);
        for (sum, key) in hunt.sums.iter_mut().zip(["default", "nothing"]) {
            *sum = record["mean_goodput"][key].as_f64().ok_or_else(bad)? * hunt.cases as f64;
        }
        for row in record["worst"].as_array().ok_or_else(bad)? {
            let result = CaseResult {
                case: row["case"].as_u64().ok_or_else(bad)?,
                figures: vec![figure(row).ok_or_else(bad)?],
                text: String::new(),
            };
            let path = hunt.case_path(folder, result.case);
            let text = std::fs::read_to_string(&path).map_err(|e| Error::file(&path, &e))?;
            // The first line is ours.
            let text = text.split_once('\n').map(|(_, case)| case.to_owned()).ok_or_else(bad)?;
            if result.worst().is_finding() {
                hunt.shrunk.insert(result.case, text.clone());
            }
            hunt.worst.push(CaseResult { text, ..result });
        }
        Ok(hunt)
    }

    /// Runs cases until the time or their number is reached; true if ctrl-C ended it.
    fn search(&mut self, args: &Args) -> Result<bool, Error> {
        let (threads, flag) = (parallel::cores(), signals::flag());
        let interrupted = || flag.load(std::sync::atomic::Ordering::Relaxed);
        let end = Instant::now() + args.duration.into();
        let mut remaining = args.cases;
        // The number of cases that were run is the same for a number of cases, not for a time.
        while remaining > 0 && Instant::now() < end && !interrupted() {
            let first = self.first_case + self.cases;
            let batch: Vec<u64> = (first..first + remaining.min(4 * threads as u64)).collect();
            let run = |&case: &u64| {
                let bad = |e| Error::new(format!("case {case} of seed {}: {e}", self.seed));
                self.mechanism.run(self.seed, case).map_err(bad)
            };
            let results = parallel::map(&batch, threads, run)?;
            remaining -= results.len() as u64;
            results.into_iter().for_each(|result| self.add(result));
        }
        Ok(interrupted())
    }

    fn add(&mut self, result: CaseResult) {
        self.cases += 1;
        self.sums[0] += result.figures[0].default;
        self.sums[1] += result.figures[0].nothing;
        self.findings += u64::from(result.worst().is_finding());
        if result.worst().regret() <= 0.0 {
            return;
        }
        let worse = |other: &CaseResult| other.worst().excess() >= result.worst().excess();
        let index = self.worst.partition_point(worse);
        self.worst.insert(index, result);
        self.worst.truncate(WORST);
    }

    fn shrink(&mut self) {
        for result in &self.worst {
            if result.worst().is_finding() && !self.shrunk.contains_key(&result.case) {
                errln!("shrinking case {} of seed {}", result.case, self.seed);
                self.shrunk.insert(result.case, self.mechanism.shrink(result));
            }
        }
    }

    fn means(&self) -> [f64; 2] {
        self.sums.map(|sum| sum / self.cases.max(1) as f64)
    }

    /// Command that continues the search.
    fn next(&self) -> String {
        let (name, next) = (self.mechanism.name, self.first_case + self.cases);
        format!("greenwave exp hunt {name} --seed {} --first-case {next}", self.seed)
    }

    fn text(&self) -> String {
        let HuntTarget { name, default, nothing, .. } = self.mechanism;
        let mut text = format!("hunt {name}: {default} (default), against {nothing}\n");
        let [mean, mean_nothing] = self.means();
        let mut table = Table::new(2, &["case", "figure", "default", "nothing", "regret", "price"]);
        let mean = HuntFigure::goodput("goodput", [mean, mean_nothing]);
        table.row(row(&format!("mean of {}", self.cases), &mean));
        for result in self.worst.iter().take(SHOWN) {
            table.row(row(&result.case.to_string(), result.worst()));
        }
        let _ = write!(text, "{table}");
        for (case, shrunk) in &self.shrunk {
            let _ = write!(text, "\n# case {case}, shrunk\n{shrunk}");
        }
        let (findings, cases) = (self.findings, self.cases);
        let _ = writeln!(text, "{findings} of {cases} cases lose more than the price");
        if !self.mechanism.known.is_empty() {
            let _ = writeln!(text, "known to do so: {}", self.mechanism.known.join(", "));
        }
        let _ = writeln!(text, "continue: {}", self.next());
        text
    }

    /// The result; the cases themselves are left out where they have files.
    fn json(&self, interrupted: bool, has_files: bool) -> Value {
        let HuntTarget { name, default, nothing, .. } = self.mechanism;
        let [mean, mean_nothing] = self.means();
        let worst = self.worst.iter().map(|result| {
            let text = self.shrunk.get(&result.case).unwrap_or(&result.text);
            let mut row = record(result.worst());
            row["case"] = result.case.into();
            row["toml"] = (!has_files).then_some(text.as_str()).into();
            row
        });
        json!({
            "greenwave": env!("CARGO_PKG_VERSION"),
            "mechanism": name,
            "default": default,
            "nothing": nothing,
            "seed": self.seed,
            "first_case": self.first_case,
            "cases": self.cases,
            "findings": self.findings,
            "interrupted": interrupted,
            "mean_goodput": { "default": mean, "nothing": mean_nothing },
            "worst": worst.collect::<Vec<_>>(),
        })
    }

    /// Writes the record, and the worst cases as files for `--replay`.
    fn write(&self, folder: &Path, interrupted: bool) -> Result<(), Error> {
        let name = self.mechanism.name;
        for result in &self.worst {
            let path = self.case_path(folder, result.case);
            let text = self.shrunk.get(&result.case).unwrap_or(&result.text);
            let HuntFigure { name: figure, default, nothing, .. } = result.worst();
            let head = format!(
                "# Hunt {name}, seed {}, case {}: {figure} {default:.4} by default, {nothing:.4} by {}.\n",
                self.seed, result.case, self.mechanism.nothing
            );
            report::whole(&path, &(head + text))?;
        }
        let path = self.path(folder);
        report::whole(&path, &format!("{:#}\n", self.json(interrupted, true)))?;
        errln!("wrote {} and {} cases", path.display(), self.worst.len());
        Ok(())
    }
}

/// Runs the cases of files.
fn replay(args: &Args) -> Result<ExitCode, Error> {
    let mechanism = args.mechanism;
    let mut table = Table::new(2, &["case", "figure", "default", "nothing", "regret", "price"]);
    let (mut rows, mut findings) = (Vec::new(), 0);
    for path in &args.replay {
        let text = std::fs::read_to_string(path).map_err(|e| Error::file(path, &e))?;
        let bad = |e| Error::new(format!("{}: {e}", path.display()));
        let figures = mechanism.replay(&text).map_err(bad)?;
        let worst = HuntFigure::worst(&figures);
        findings += u32::from(worst.is_finding());
        table.row(row(&path.display().to_string(), worst));
        let mut record = record(worst);
        record["file"] = path.display().to_string().into();
        rows.push(record);
    }
    if args.json {
        outln!("{}", json!({ "mechanism": mechanism.name, "cases": rows }));
    } else {
        out!("{table}");
    }
    Ok(ExitCode::from(u8::from(findings > 0)))
}

/// Row of a table.
fn row(case: &str, figure: &HuntFigure) -> Vec<String> {
    let HuntFigure { name, default, nothing, price, .. } = figure;
    let numbers = [*default, *nothing, figure.regret(), *price].map(|number| format!("{number:.4}"));
    [vec![case.to_owned(), name.clone()], numbers.to_vec()].concat()
}

/// A figure in a record.
fn record(figure: &HuntFigure) -> Value {
    let HuntFigure { name, default, nothing, price, is_cost } = figure;
    json!({
        "figure": name, "default": default, "nothing": nothing, "regret": figure.regret(), "price": price,
        "is_cost": is_cost,
    })
}

/// The figure of a [`record`].
fn figure(record: &Value) -> Option<HuntFigure> {
    let number = |key: &str| record[key].as_f64();
    let (default, nothing, price) = (number("default")?, number("nothing")?, number("price")?);
    let (name, is_cost) = (record["figure"].as_str()?.to_owned(), record["is_cost"].as_bool()?);
    Some(HuntFigure { name, default, nothing, price, is_cost })
}

/// Cases that are kept.
const WORST: usize = 20;
/// Number of cases that are printed.
const SHOWN: usize = 5;

#[cfg(test)]
mod tests;
