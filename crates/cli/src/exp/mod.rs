//! `greenwave exp`: reproduction of the papers' figures, checked against claims.
//!
//! An experiment is a file (see [`spec`]). This command runs its grid of points, modes and seeds in
//! the simulator or on real services, prints the figures and checks every claim. Plots come from
//! the measured data only.

mod checked;
mod checkpoint;
mod claim;
mod embedded;
mod fingerprint;
mod grid;
mod hunt;
pub mod metrics;
mod plots;
mod registry;
mod result;
mod resume;
pub mod spec;
mod summary;
mod until_decided;
pub mod world;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::{Args as ClapArgs, Subcommand, ValueEnum};
use host::signals;
use queueing::Span;

use crate::error::Error;
use crate::verdict::ClaimVerdict;
use checkpoint::Checkpoint;
use grid::GridResults;
use registry::Source;
use result::ExperimentResult;
pub use spec::set_path;
use summary::Overview;
use until_decided::RunCost;

/// List or run the papers' experiments.
#[derive(Debug, ClapArgs)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List the experiments with their titles.
    List {
        /// Print one JSON object.
        #[arg(long)]
        json: bool,
    },
    /// Run experiments and check their claims.
    ///
    /// A claim holds if its whole 95 % interval keeps the bound, fails if no part
    /// does, and is undecided if the interval contains the bound. Exit status 0:
    /// all claims hold; 1: one fails; 2: an experiment could not run; 3: none
    /// fails and some are undecided.
    Run(RunArgs),
    /// Search for workloads on which a default loses against doing nothing.
    ///
    /// Exit status 1: a workload was found on which it loses more than the promised price.
    Hunt(hunt::Args),
    /// Print one table of all claims of results in folders.
    Table {
        /// Folders written by `exp run --out`; of duplicate results the first counts.
        #[arg(value_name = "DIR", required_unless_present = "out")]
        folders: Vec<PathBuf>,
        /// Print Markdown, with the origin of each row.
        #[arg(long)]
        markdown: bool,
        /// Write DIR/results.md and figures in DIR/results/; records of experiments
        /// without a result in the folders are kept and judged again.
        #[arg(long, value_name = "DIR", requires = "markdown")]
        out: Option<PathBuf>,
    },
}

#[derive(Debug, ClapArgs)]
struct RunArgs {
    /// Experiments: names (adps/fig5), a paper's name for all of its experiments,
    /// `all`, or a .toml file.
    #[arg(required = true)]
    names: Vec<String>,
    /// Run only simulated (sim) or only real-machine (host) experiments.
    #[arg(long, value_enum)]
    world: Option<WorldName>,
    /// Size of the experiment.
    #[arg(long, value_enum, default_value_t = ScaleName::Smoke)]
    scale: ScaleName,
    /// First seed; further runs use the following numbers.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Seeds to run [default: those of the scale].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    runs: Option<u64>,
    /// Run further seeds until every claim is decided, for at most this time per
    /// experiment [without a value: 600s].
    #[arg(long, value_name = "BUDGET", num_args = 0..=1, default_missing_value = "600s")]
    until_decided: Option<Span>,
    /// Print one JSON object per experiment.
    #[arg(long)]
    json: bool,
    /// Folder for PAPER-NAME.json and .html; an interrupted simulation resumes
    /// from its files there.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Keep results of the same program, scale and seed in --out; run the rest.
    #[arg(long, requires = "out")]
    resume: bool,
}

/// The two sizes every experiment has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ScaleName {
    /// Seconds: shapes hold, tails are imprecise.
    Smoke,
    /// Minutes: the paper's size with several seeds.
    Paper,
}

/// The kinds of worlds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum WorldName {
    /// Virtual time.
    Sim,
    /// Real services on this machine.
    Host,
}

impl WorldName {
    fn name(self) -> &'static str {
        match self {
            Self::Sim => "sim",
            Self::Host => "host",
        }
    }

    fn contains(self, source: &Source) -> Result<bool, Error> {
        let world = source.parse()?.world().map_err(Error::new)?;
        Ok(self.name() == world.kind.name())
    }
}

impl RunArgs {
    /// Result of `source` that `--resume` reuses.
    fn stored_result(&self, source: &Source) -> Result<Option<serde_json::Value>, Error> {
        let stored = match &self.out {
            Some(folder) if self.resume => resume::result(folder, source, self.scale.name(), self.seed)?,
            _ => None,
        };
        Ok(stored.filter(|stored| self.is_enough(stored)))
    }

    /// True if `stored` has the requested seeds, or decided claims where these are requested.
    fn is_enough(&self, stored: &serde_json::Value) -> bool {
        let undecided = serde_json::json!(ClaimVerdict::Undecided);
        let has_undecided = stored["claims"]
            .as_array()
            .is_some_and(|claims| claims.iter().any(|claim| claim["verdict"] == undecided));
        let has_seeds = self.runs.is_none_or(|runs| stored["runs"].as_u64() == Some(runs));
        has_seeds && !(self.until_decided.is_some() && has_undecided)
    }
}

impl ScaleName {
    fn name(self) -> &'static str {
        match self {
            Self::Smoke => "smoke",
            Self::Paper => "paper",
        }
    }
}

/// Runs the command.
///
/// # Errors
/// An experiment does not exist or cannot run; a failed claim is exit status 1 and an undecided one 3,
/// not an error.
pub fn run(args: Args) -> Result<ExitCode, Error> {
    match args.command {
        Command::List { json } => list(json),
        Command::Run(args) => run_all(&args),
        Command::Hunt(args) => hunt::run(&args),
        Command::Table { folders, markdown, out } => {
            let overview = Overview::from_folders(&folders)?;
            match out {
                Some(out) => outln!("{} files in {}", overview.write(&out)?, out.display()),
                None if markdown => out!("{}", overview.markdown(None)),
                None => out!("{}", overview.text()),
            }
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// Checks the experiment in `file` before any measurement.
///
/// # Errors
/// The errors of `exp run`.
#[cfg(test)]
pub fn check_file(file: &std::path::Path) -> Result<(), Error> {
    for source in registry::find(&file.display().to_string())? {
        source.parse()?.world().map_err(Error::new)?;
    }
    Ok(())
}

/// Names of the shipped experiments, and `all`.
pub fn names() -> Vec<String> {
    registry::all().into_iter().map(|source| source.name).chain(["all".to_owned()]).collect()
}

/// Prints the experiment in `file`, if it is valid.
///
/// # Errors
/// The errors of `exp run` before its first run.
pub fn describe(file: &std::path::Path, as_json: bool) -> Result<(), Error> {
    let experiment = registry::from_file(file)?.parse()?;
    let (title, world) = (&experiment.title, experiment.world().map_err(Error::new)?.name);
    let (points, modes, claims) = (experiment.points().len(), experiment.modes.len(), experiment.claim.len());
    if as_json {
        let all = serde_json::json!({
            "title": title, "world": world, "points": points, "modes": modes, "claims": claims,
        });
        outln!("{all:#}");
    } else {
        outln!("{title}: world {world}; {points} points, {modes} modes, {claims} claims");
        outln!("run it: greenwave exp run {}", file.display());
    }
    Ok(())
}

/// Modes of each shipped experiment of `world`, their settings at the paper's scale, and the world.
#[cfg(test)]
pub fn settings(world: &str) -> Vec<(String, toml::Table, &'static world::World)> {
    let experiments = registry::all().into_iter().map(|source| source.parse().expect("it is valid"));
    let of_world = experiments.filter(|e: &spec::Experiment| e.world().expect("it is valid").name == world);
    let modes = |e: spec::Experiment| {
        let (point, scale) = (&e.points()[0], &e.scale["paper"]);
        let settings = |mode: &String| {
            let settings = e.settings_for(scale, point, mode).expect("its paths exist");
            (mode.clone(), settings, e.world().expect("it is valid"))
        };
        e.modes.iter().map(settings).collect::<Vec<_>>()
    };
    of_world.flat_map(modes).collect()
}

/// Ids of the claims of the shipped experiment `name`, and its modes.
#[cfg(test)]
pub fn claims_and_modes(name: &str) -> (Vec<String>, Vec<String>) {
    let source = registry::find(name).expect("a shipped experiment").remove(0);
    let spec::Experiment { claim, modes, .. } = source.parse().expect("it is valid");
    (claim.into_iter().map(|claim| claim.id).collect(), modes)
}

fn list(json: bool) -> Result<ExitCode, Error> {
    let sources = registry::all();
    if json {
        let rows = sources.iter().map(|s| {
            let experiment = s.parse()?;
            let world = experiment.world().map_err(Error::new)?.kind.name();
            Ok(serde_json::json!({"name": s.name, "title": experiment.title, "world": world}))
        });
        let rows: Vec<_> = rows.collect::<Result<_, Error>>()?;
        outln!("{}", serde_json::json!({ "experiments": rows }));
        return Ok(ExitCode::SUCCESS);
    }
    let mut table = crate::table::Table::new(3, &["experiment", "world", "title"]);
    for source in &sources {
        let experiment = source.parse()?;
        let world = experiment.world().map_err(Error::new)?.kind.name();
        table.row(vec![source.name.clone(), world.to_owned(), experiment.title]);
    }
    out!("{table}");
    outln!("run one: greenwave exp run {}", sources.first().map_or("NAME", |s| &s.name));
    Ok(ExitCode::SUCCESS)
}

fn run_all(args: &RunArgs) -> Result<ExitCode, Error> {
    let mut sources: Vec<Source> = Vec::new();
    for name in &args.names {
        for source in registry::find(name)? {
            let is_new = sources.iter().all(|other| other.name != source.name);
            if is_new && args.world.map_or(Ok(true), |world| world.contains(&source))? {
                sources.push(source);
            }
        }
    }
    if let (true, Some(world)) = (sources.is_empty(), args.world) {
        let message = format!("no experiment of {} runs in world {}", args.names.join(", "), world.name());
        return Err(Error::new(message).advice("greenwave exp list, for the world of each experiment"));
    }
    if let Some(folder) = &args.out {
        std::fs::create_dir_all(folder).map_err(|e| Error::file(folder, &e))?;
        // Two runs may begin at once.
        Error::unless_writable(&folder.join(format!(".greenwave-{}", std::process::id())))?;
    }
    let mut overview = Overview::default();
    let mut is_any_missing = false;
    for source in &sources {
        if let Some(stored) = args.stored_result(source)? {
            let date = stored["greenwave"]["date"].as_str().unwrap_or("an unknown date");
            errln!("note: {}: kept the result of {date}", source.name);
            if args.json {
                outln!("{stored}");
            }
            overview.add(stored).map_err(Error::new)?;
            continue;
        }
        let (result, checkpoint) = match run_one(source, args) {
            Ok(result) => result,
            // An experiment that cannot run here does not stop the others; ctrl-C does.
            Err(e) if sources.len() > 1 && !signals::is_set() => {
                errln!("{e}");
                overview.add_missing(&source.name, &e);
                is_any_missing = true;
                continue;
            }
            Err(e) => return Err(e),
        };
        if args.json {
            outln!("{}", result.json());
        } else {
            out!("{}", result.text());
        }
        if let Some(folder) = &args.out {
            let path = result.write(folder)?;
            errln!("wrote {} and .html", path.display());
        }
        checkpoint.into_iter().for_each(Checkpoint::end);
        overview.add(result.json()).map_err(Error::new)?;
    }
    if overview.len() > 1 && !args.json {
        out!("{}", overview.text());
    }
    Ok(ExitCode::from(if is_any_missing { 2 } else { overview.counts().exit_status() }))
}

/// The result, and the checkpoint to remove once it is written.
fn run_one(source: &Source, args: &RunArgs) -> Result<(ExperimentResult, Option<Checkpoint>), Error> {
    let experiment = source.parse()?;
    let world = experiment.world().map_err(Error::new)?;
    // A simulation has its checkpoint and no machine state to restore.
    if world.kind == world::TimeKind::Sim && signals::restore_default_signals() {
        return Err(Error::interrupted(""));
    }
    // Checked before minutes of measuring.
    let paper_ids = experiment.claim.iter().filter_map(|claim| claim.paper.as_deref());
    paper_ids.map(|id| source.paper_number(id)).collect::<Result<Vec<_>, _>>()?;
    // Measurements on the machine are not checkpointed.
    let folder = args.out.as_ref().filter(|_| world.kind == world::TimeKind::Sim);
    let path = folder.map(|folder| folder.join(format!("{}.part", registry::stem(&source.name))));
    let checkpoint = path.map(Checkpoint::open).transpose()?;
    let scale = &experiment.scale[args.scale.name()];
    let runs = args.runs.unwrap_or(scale.runs);
    let start = Instant::now();
    let mut measured = GridResults::new(world);
    let end = args.seed.checked_add(runs).ok_or_else(|| {
        Error::new(format!("seed {} is too large for {runs} runs with consecutive seeds", args.seed))
            .advice("a smaller --seed")
    })?;
    let seeds = args.seed..end;
    let runs_made =
        grid::extend(&mut measured, &source.name, &experiment, scale, seeds, checkpoint.as_ref())?;
    let cost = RunCost { duration: start.elapsed(), runs: runs_made, runs_per_seed: measured.runs.len() };
    let mut result = ExperimentResult::new(source, experiment, args.scale.name(), args.seed, measured)?;
    if let Some(budget) = args.until_decided {
        let budget = Duration::from_nanos(budget.as_nanos());
        until_decided::run(&mut result, source, budget, cost, checkpoint.as_ref())?;
    }
    Ok((result, checkpoint))
}

#[cfg(test)]
mod tests;
