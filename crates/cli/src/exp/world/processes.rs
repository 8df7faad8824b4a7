//! Worlds of real services that call services: the trace of world `services`, run by a runner
//! process that starts the services on loopback (`spec/testbed.md`).
//!
//! Settings and figures are those of world `services`. `hop` is the network delay drawn by the
//! simulator; here the machine's own network applies. `on = "sim"` runs a mode in the simulator
//! anyway, so that both can be compared request by request.

pub(super) mod runner;
pub(super) mod sidecar;
pub(super) mod tally;

use std::path::{Path, PathBuf};
use std::process::Command;

use sim::world::services::{Config, Expects, Trace};
use toml::{Table, Value};

use self::runner::RunnerInput;
use self::sidecar::Sidecar;
use self::tally::LineStats;
use super::{PreparedRun, RunResult, TimeKind, World, services};
use crate::error::Error;
use crate::source_dir;

/// tonic services under the layers of `deadline::tower`.
pub const TONIC: World =
    World { name: "tonic", kind: TimeKind::host(4), prepare: prepare_tonic, ..services::WORLD };

/// Dubbo services with the plug-in of `java/dubbo`.
pub const DUBBO: World =
    World { name: "dubbo", kind: TimeKind::host(1), prepare: prepare_dubbo, ..services::WORLD };

/// A search split over tonic workers with the same layers, and its aggregator.
pub const FANOUT: World =
    World { name: "fanout", kind: TimeKind::host(1), prepare: prepare_fanout, ..services::WORLD };

/// A topology on Storm with the wrappers of `java/storm`.
pub const STORM: World =
    World { name: "storm", kind: TimeKind::host(1), prepare: prepare_storm, ..services::WORLD };

/// Constructor of a runner's command, called at start.
type Runner = Box<dyn Fn(&Config) -> Result<RunnerCommand, Error> + Send + Sync>;

/// A runner, and the sidecar that serves it.
struct RunnerCommand {
    command: Command,
    sidecar: Option<Sidecar>,
}

impl From<Command> for RunnerCommand {
    fn from(command: Command) -> Self {
        Self { command, sidecar: None }
    }
}

fn prepare_tonic(_mode: &str, settings: Table) -> Result<PreparedRun, String> {
    prepare(Box::new(|_| Ok(testbed("series")?.into())), settings, false)
}

fn prepare_dubbo(_mode: &str, settings: Table) -> Result<PreparedRun, String> {
    prepare(Box::new(|_| Ok(java("testbed", "greenwave.testbed.Dubbo")?.into())), settings, false)
}

fn prepare_fanout(_mode: &str, mut settings: Table) -> Result<PreparedRun, String> {
    let corpus = Corpus::from_settings(&mut settings)?.unwrap_or(Corpus::Made);
    prepare(Box::new(move |_| Ok(corpus.with_paths(testbed("search")?)?.into())), settings, true)
}

/// Without `corpus`, workers wait for the recorded search times and do nothing else.
fn prepare_storm(_mode: &str, mut settings: Table) -> Result<PreparedRun, String> {
    let corpus = Corpus::from_settings(&mut settings)?;
    let create = move |config: &Config| {
        let mut runner = RunnerCommand::from(java("testbed-storm", "greenwave.testbed.Storm")?);
        if let Some(corpus) = corpus {
            let parts = config.stages.iter().map(|stage| stage.parts).max().unwrap_or(1);
            let mut partitions = testbed("partitions")?;
            partitions.arg(parts.to_string());
            // One line per server, which becomes an argument of the runner.
            let (sidecar, lines) = Sidecar::start(corpus.with_paths(partitions)?, 2)?;
            runner.command.args(lines);
            runner.sidecar = Some(sidecar);
        }
        Ok(runner)
    };
    prepare(Box::new(create), settings, true)
}

/// Searched corpus, setting `corpus`.
#[derive(Clone, Copy)]
enum Corpus {
    /// `"made"`: small and synthetic, from a seed.
    Made,
    /// `"fetched"`: the newspaper corpus that `experiments/d2p/corpus` fetches, searched for the
    /// recorded words.
    Fetched,
}

impl Corpus {
    fn from_settings(settings: &mut Table) -> Result<Option<Self>, String> {
        let Some(corpus) = settings.remove("corpus") else { return Ok(None) };
        match corpus.as_str() {
            Some("made") => Ok(Some(Self::Made)),
            Some("fetched") => Ok(Some(Self::Fetched)),
            _ => Err(format!("corpus {corpus} is not one of \"made\", \"fetched\"")),
        }
    }

    /// `command` with the corpus's path.
    fn with_paths(self, mut command: Command) -> Result<Command, Error> {
        if let Self::Made = self {
            return Ok(command);
        }
        let corpus = source_dir::path("target/corpora/text/tag");
        if !corpus.exists() {
            let message = format!("{}: the corpus is missing", corpus.display());
            return Err(Error::new(message).advice("run experiments/d2p/corpus in the project's folder"));
        }
        command.arg(corpus).arg(source_dir::path("experiments/d2p/search-times.csv"));
        Ok(command)
    }
}

/// `unit`: true if the runner's first stage may have parts; no other stage may.
fn prepare(runner: Runner, mut settings: Table, has_parts: bool) -> Result<PreparedRun, String> {
    let on = settings.remove("on").unwrap_or_else(|| Value::String("host".to_owned()));
    let config = services::parse(settings)?;
    match on.as_str() {
        Some("host") => {}
        Some("sim") => return Ok(services::simulated(config)),
        _ => return Err(format!("on {on} is not one of \"host\", \"sim\"")),
    }
    if config.expects != Expects::Rest {
        return Err(
            "expects \"own\" works only in the simulator; real services count their downstream services"
                .to_owned(),
        );
    }
    let mut services = config.stages.iter().skip(usize::from(has_parts));
    if let Some(stage) = services.find(|stage| stage.parts > 1) {
        return Err(format!("stage {}: parts {} is not 1", stage.name, stage.parts));
    }
    Ok(Box::new(move || run(runner(&config)?, &config)))
}

/// Sends the trace of `config` to a runner and aggregates its output.
fn run(runner: RunnerCommand, config: &Config) -> Result<RunResult, Error> {
    let trace: Vec<_> = Trace::new(config).collect();
    let mut tally = LineStats::new(config, &trace);
    let input = RunnerInput { setup: runner::setup(config), plan: runner::plan(&trace) };
    input.run(runner.command, runner::duration_max(&trace), &mut |line| tally.add(line))?;
    drop(runner.sidecar);
    let (outcome, noise, events) = tally.finish()?;
    Ok(RunResult { events, rows: services::rows(&outcome), noise: Some(noise) })
}

/// `testbed RUNNER`.
fn testbed(runner: &str) -> Result<Command, Error> {
    let mut command = Command::new(program()?);
    command.arg(runner);
    Ok(command)
}

/// Path of `testbed`, beside this program.
///
/// # Errors
/// The program was not built.
pub(super) fn program() -> Result<PathBuf, Error> {
    let this = std::env::current_exe().map_err(|e| Error::file(Path::new("greenwave"), &e))?;
    check_built(this.with_file_name("testbed"))
}

/// Runner `class` of `java/MODULE`, from the source tree of this build.
fn java(module: &str, class: &str) -> Result<Command, Error> {
    let classpath = check_built(source_dir::path("java").join(module).join("target/testbed.classpath"))?;
    let path = std::fs::read_to_string(&classpath).map_err(|e| Error::file(&classpath, &e))?;
    let mut command = Command::new("java");
    // Runs are short, and the optimizing compiler would compete with the services for cores.
    command.args(["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto"]);
    command.args(["-cp", path.trim(), class]);
    Ok(command)
}

fn check_built(path: PathBuf) -> Result<PathBuf, Error> {
    match path.exists() {
        true => Ok(path),
        false => {
            Err(Error::new(format!("{}: the runner is not built", path.display())).advice("make testbed"))
        }
    }
}
