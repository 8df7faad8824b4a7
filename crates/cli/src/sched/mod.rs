//! `greenwave sched`: a machine shared by latency-critical and best-effort programs.
//!
//! Policies are `sched::cores`', what is done to programs is `host::cores`';
//! here a configuration becomes both, [rounds](rounds::Rounds) follow each other, and what
//! happens is told. However this ends, everything that was changed is put back: by us, by a
//! guardian, or by the next start.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use host::cores::class::Class;
use host::cores::{Journal, Layout, Mechanism, Setup, TaskSetup, Who, list};
use host::{Monotonic, affinity};
use queueing::{Clock, CoreId, Span};
use sched::cores::Allocator;
use sched::cores::condition::Watch;
use serde_json::json;

use crate::configuration::Arguments;
use crate::control;
use crate::table::Table;
use crate::{Error, sandbox, ui};

mod config;
mod greeting;
mod mechanism;
mod programs;
mod reload;
mod restore;
mod rounds;
mod sensor;
mod shown;
mod status;

use config::Config;
use greeting::{Start, greet};
use programs::Programs;
use reload::Reload;
use rounds::Rounds;
use sensor::sensor;
use shown::Shown;

/// Share a machine between latency-critical and best-effort programs.
///
/// Runs until ctrl-C, or until no task is left. Commands of the configuration
/// end with it; other programs go on as they were before.
#[derive(clap::Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct Args {
    #[command(subcommand)]
    command: Option<Sub>,
    /// What shares the machine, and how (see `greenwave sched example`).
    #[arg(long, value_name = "FILE", required = true)]
    config: Option<PathBuf>,
    /// auto, affinity, scx, runtime [default: as the file says].
    #[arg(long, value_name = "NAME", value_parser = config::MECHANISMS, hide_possible_values = true)]
    mechanism: Option<String>,
    /// From one status line to the next.
    #[arg(long, value_name = "SPAN", default_value = "1s")]
    every: Span,
    /// End after so long.
    #[arg(long = "for", value_name = "SPAN")]
    lasts: Option<Span>,
    /// Print a line of JSON for each status.
    #[arg(long)]
    json: bool,
    /// Where journals lie [default: /run/greenwave, or the user's own].
    #[arg(long, value_name = "FOLDER")]
    journals: Option<PathBuf>,
    #[command(flatten)]
    ui: ui::Flags,
    #[command(flatten)]
    control: control::Flags,
    #[command(flatten)]
    sandbox: sandbox::Kept,
}

#[derive(clap::Subcommand)]
enum Sub {
    /// Print a configuration with every setting and its default.
    Example,
    /// Put back what a scheduler left behind that was killed.
    Restore(restore::Args),
}

/// Does what was asked.
///
/// # Errors
/// A configuration that cannot be, and what to try.
pub fn run(args: &Args, arguments: &Arguments) -> Result<ExitCode, Error> {
    match (&args.command, &args.config) {
        (Some(Sub::Example), _) => print!("{}", config::EXAMPLE),
        (Some(Sub::Restore(args)), _) => return restore::run(args),
        (None, Some(path)) => {
            if args.every < Span::from_millis(10) {
                return Err(
                    Error::new(format!("every {} is less than 10 ms", args.every)).advice("--every 1s")
                );
            }
            let reads = arguments.file().into_iter().chain([path.clone()]).collect();
            let reload = Reload::new(arguments);
            share(&Config::load(path, args.mechanism.as_deref())?, args, reload, reads)?;
        }
        (None, None) => {
            return Err(Error::new("no configuration").advice("greenwave sched example >tasks.toml"));
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints what the configuration in `path` says, if it is one.
///
/// # Errors
/// A file that cannot be read, or what is wrong in it and what would be valid.
pub fn describe(path: &Path, as_json: bool) -> Result<(), Error> {
    let config = Config::load(path, None)?;
    let row = |task: &config::Task| {
        let what = match (&task.command, task.pid, &task.cgroup) {
            (Some(command), ..) => command.join(" "),
            (_, Some(pid), _) => format!("process {pid}"),
            (.., group) => group.clone().unwrap_or_default(),
        };
        (task.name.clone(), format!("{:?}", task.class), task.guaranteed, what)
    };
    let rows = config.tasks.iter().map(row);
    if as_json {
        let tasks = rows.map(|(name, class, guaranteed, what)| {
            json!({ "task": name, "class": class, "guaranteed": guaranteed, "what": what })
        });
        println!("{:#}", json!({ "policy": config.policy, "tasks": tasks.collect::<Vec<_>>() }));
        return Ok(());
    }
    let mut table = Table::new(3, &["task", "class", "what", "guaranteed"]);
    rows.for_each(|(name, class, guaranteed, what)| {
        table.row(vec![name, class, what, guaranteed.to_string()])
    });
    print!("{table}");
    println!("shared by policy {}", config.policy);
    Ok(())
}

/// Takes the tasks over, manages them, and puts them back.
fn share(config: &Config, args: &Args, reload: Reload<'_>, reads: Vec<PathBuf>) -> Result<(), Error> {
    let ours = affinity::cores().map_err(|e| Error::new(format!("which cores are ours: {e}")))?;
    let cores = config.managed(&ours)?;
    let folder = args.journals.clone().unwrap_or_else(host::cores::journal::folder);
    restore::leftovers(&folder)?.iter().for_each(|line| eprintln!("{line}"));
    restore::unless_managed(&folder, &cores)?;
    let layout = Layout::new(&cores).map_err(|e| Error::new(e.to_string()))?;
    let choice = mechanism::choose(config, &ours, &cores)?;
    let (period, calm) = config.tempo(choice.mechanism);
    let (board, policy) = config.arrange(layout.topology().clone(), choice.mechanism, period)?;
    let settings = config.settings(period);
    let period = policy.period().max(period);
    // All that can be refused is, before anything is started or changed.
    for task in &config.tasks {
        let checked = task.who().map_or(Ok(()), |who| who.check(task.is_critical()));
        checked.map_err(|e| Error::from(e.of_task(&task.name)))?;
    }
    let (sensor, why) = sensor(config, &cores)?;
    let ui = args.ui.open(shown::head(config, &cores), args.control.is_on())?;
    ui.as_ref().map_or(Ok(()), |ui| args.sandbox.confine_view(ui))?;
    let control = args.control.open(ui.as_ref(), reads)?;
    let interrupted = host::interrupt::flag();
    let journal = Journal::begin(&folder, &cores).map_err(|e| Error::file(&folder, &e))?;
    let mut guardian = restore::guardian(journal.path())?;
    let mut programs = Programs::default();
    let clock = Monotonic::new();
    let watch = Watch::new(config.condition_after, &settings, &board);
    let tasks = start(config, choice.mechanism, &mut programs);
    // After programs, which are to be where they like; before LC, which may go before us.
    let is_first = stand_back(&ours, &cores);
    let manager = tasks.and_then(|tasks| {
        let real_time = config.real_time;
        let setup = Setup { layout, tasks, real_time, calm, period, sensor, journal };
        setup.take(choice.mechanism, clock.now()).map_err(Error::from)
    });
    let done = manager.map(|mut manager| {
        let start = Start { cores: &cores, period, choice: &choice, sensor_why: &why, is_first };
        greet(config, args, &*manager, &start);
        let shown = ui.map(|ui| Shown::new(ui, &board, config));
        let allocator = Allocator::new(policy, board);
        let mut rounds = Rounds {
            config: config.clone(),
            args,
            reload,
            clock,
            allocator,
            watch,
            mechanism: choice.mechanism,
            period,
            shown,
            control,
        };
        let status = rounds.run(&mut *manager, &mut programs, interrupted);
        // Everybody goes on before anybody is asked to end.
        let restored = manager.put_back();
        let text = restored.as_ref().map_or_else(ToString::to_string, restore::text);
        status.end(clock.now(), config, &*manager, &text, args.json);
        restored.map_err(|e| {
            Error::new(format!("what was changed is not put back: {e}")).advice("greenwave sched restore")
        })?;
        status.lost.map_or(Ok(()), |why| {
            let what = format!("the kernel took the scheduler off, and all run as before: {why}");
            Err(Error::new(what).advice("mechanism = \"affinity\""))
        })
    });
    drop(programs);
    drop(guardian.stdin.take());
    let _ = guardian.wait();
    done.and_then(|done| done)
}

/// Starts commands, and says who every task is.
fn start(
    config: &Config,
    mechanism: Mechanism,
    programs: &mut Programs,
) -> Result<Vec<(String, TaskSetup)>, Error> {
    let setup = |task: &config::Task| {
        let who = match (task.who(), &task.command) {
            (Some(who), _) => who,
            (None, command) => Who::Child(programs.start(task, command.as_deref().unwrap_or_default())?),
        };
        Ok((
            task.name.clone(),
            TaskSetup {
                spec: task.spec(mechanism),
                who,
                tail: task.tail.clone(),
                joined: task.joined.clone(),
                pulse: task.pulse,
            },
        ))
    };
    config.tasks.iter().map(setup).collect()
}

/// Off the managed cores, where others are, and before all whom we manage; whether that was allowed.
fn stand_back(ours: &[CoreId], managed: &[CoreId]) -> bool {
    let rest = ours.iter().copied().filter(|core| !managed.contains(core));
    let rest = list::set_of(rest);
    if rest.count() > 0 {
        // On managed cores we only take more time from others.
        let _ = rustix::thread::sched_setaffinity(None, &rest);
    }
    Class::FIRST.set(None).is_ok()
}
