//! `greenwave sched`: sharing of a machine between latency-critical and best-effort programs.
//!
//! `sched::cores` holds the policies, `hostsched` the mechanisms. This module builds both from a
//! configuration, runs the [control loop](control_loop::ControlLoop) and reports changes. All
//! changes are undone however the command ends: by itself, by a guardian process, or by the next
//! start.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use host::Monotonic;
use hostsched::{Journal, Mechanism, Setup, TaskSelector, TaskSetup, cpulist, real_time, undo_log};
use queueing::{Clock, CoreId, Span};
use sched::cores::Allocator;
use sched::cores::contention_alarm::ContentionAlarm;
use serde_json::json;

use crate::config_file::Arguments;
use crate::control;
use crate::table::Table;
use crate::{Error, dry_run, sandbox, ui};

mod banner;
mod config;
mod control_loop;
mod live_view;
mod mechanism;
mod plan;
mod programs;
mod reload;
mod restore;
mod sensor;
mod status;

use banner::{Start, greet};
pub use config::Config;
use control_loop::ControlLoop;
use live_view::Shown;
use plan::Plan;
use programs::Programs;
use reload::Reload;

/// Allocate cores between latency-critical and best-effort programs.
///
/// Runs until ctrl-C, or until all tasks have ended. Programs started by the
/// configuration end with it; other programs get their previous affinity and
/// scheduling class back.
#[derive(clap::Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct Args {
    #[command(subcommand)]
    command: Option<Sub>,
    /// Configuration file: tasks and policy (see `greenwave sched example`).
    #[arg(long, value_name = "FILE", required = true)]
    config: Option<PathBuf>,
    /// Mechanism: auto, affinity, scx, runtime [default: from the file].
    #[arg(long, value_name = "NAME", value_parser = config::MECHANISMS, hide_possible_values = true)]
    mechanism: Option<String>,
    /// Interval between status lines.
    #[arg(long, value_name = "SPAN", default_value = "1s")]
    interval: Span,
    /// Run time.
    #[arg(long, value_name = "SPAN")]
    duration: Option<Span>,
    /// Print each status as a line of JSON.
    #[arg(long)]
    json: bool,
    /// Folder for undo logs [default: /run/greenwave, or the user's runtime folder].
    #[arg(long, value_name = "DIR")]
    state_dir: Option<PathBuf>,
    #[command(flatten)]
    ui: ui::Flags,
    #[command(flatten)]
    control: control::Flags,
    #[command(flatten)]
    sandbox: sandbox::NoSandbox,
    #[command(flatten)]
    dry_run: dry_run::Flag,
}

#[derive(clap::Subcommand)]
enum Sub {
    /// Print a configuration with every setting and its default.
    Example,
    /// Undo the changes of a scheduler that was killed.
    Restore(restore::Args),
}

/// Runs the subcommand.
///
/// # Errors
/// An invalid configuration, with advice.
pub fn run(args: &Args, arguments: &Arguments) -> Result<ExitCode, Error> {
    match (&args.command, &args.config) {
        (Some(Sub::Example), _) => out!("{}", config::EXAMPLE),
        (Some(Sub::Restore(args)), _) => return restore::run(args),
        (None, Some(path)) => {
            args.check()?;
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

impl Args {
    /// True unless a subcommand is given.
    pub fn is_daemon(&self) -> bool {
        self.command.is_none()
    }

    /// Prints the plan if `--dry-run` asks for it.
    ///
    /// # Errors
    /// The errors of [`run`] before it takes over a task.
    pub fn dry_run(&self) -> Option<Result<(), Error>> {
        let path = self.config.as_ref()?;
        self.dry_run.print("sched", || {
            self.check()?;
            let config = Config::load(path, self.mechanism.as_deref())?;
            let Plan { cores, choice, period, sensor, sensor_why, .. } = Plan::new(&config)?;
            let tasks = config.tasks.iter().map(|task| format!("{} ({:?})", task.name, task.class));
            Ok(vec![
                ("policy", config.policy.clone()),
                ("mechanism", format!("{:?}: {}", choice.mechanism, choice.why).to_lowercase()),
                ("sensor", format!("{}: {sensor_why}", sensor.name())),
                ("period", period.to_string()),
                ("cores", cpulist::text(&cores)),
                ("tasks", dry_run::list(tasks)),
                ("--ui", dry_run::list(self.ui.ui.map(|address| address.to_string()))),
            ])
        })
    }

    /// Checks the arguments before the first action.
    ///
    /// # Errors
    /// The errors of [`run`].
    pub fn check(&self) -> Result<(), Error> {
        if self.interval < Span::from_millis(10) {
            return Err(
                Error::new(format!("interval {} is less than 10 ms", self.interval)).advice("--interval 1s")
            );
        }
        let Some(path) = &self.config else { return Ok(()) };
        Plan::new(&Config::load(path, self.mechanism.as_deref())?).map(drop)
    }
}

/// Prints the configuration in `path`, if it can start on this machine.
///
/// # Errors
/// A file that cannot be read, an invalid value in it with the valid ones, or an error of [`run`].
pub fn describe(path: &Path, as_json: bool) -> Result<(), Error> {
    let config = Config::load(path, None)?;
    Plan::new(&config)?;
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
        outln!("{:#}", json!({ "policy": config.policy, "tasks": tasks.collect::<Vec<_>>() }));
        return Ok(());
    }
    let mut table = Table::new(3, &["task", "class", "what", "guaranteed"]);
    rows.for_each(|(name, class, guaranteed, what)| {
        table.row(vec![name, class, what, guaranteed.to_string()])
    });
    out!("{table}");
    outln!("policy {} allocates the cores", config.policy);
    Ok(())
}

/// Takes over the tasks, manages them, and restores them.
fn share(config: &Config, args: &Args, reload: Reload<'_>, reads: Vec<PathBuf>) -> Result<(), Error> {
    let folder = args.state_dir.clone().unwrap_or_else(undo_log::folder);
    restore::leftovers(&folder)?.iter().for_each(|line| errln!("{line}"));
    let plan = Plan::new(config)?;
    let Plan { ours, cores, layout, choice, settings, board, policy, period, calm, sensor, sensor_why } =
        plan;
    restore::unless_managed(&folder, &undo_log::folder(), &cores)?;
    for task in &config.tasks {
        let free = task.selector().map_or(Ok(()), |selector| selector.check_free());
        free.map_err(|e| Error::from(e.of_task(&task.name)))?;
    }
    // Before anything answers: a reader of the view may end the daemon.
    let interrupted = host::signals::flag();
    let ui = args.ui.open(live_view::head(config, &cores), args.control.is_on())?;
    ui.as_ref().map_or(Ok(()), |ui| args.sandbox.confine_view(ui))?;
    let control = args.control.open(ui.as_ref(), reads)?;
    let mut journal = Journal::begin(&folder, &cores).map_err(|e| Error::file(&folder, &e))?;
    let path = journal.path().to_owned();
    let mut guardian = restore::guardian(&path)?;
    journal.set_guardian(guardian.id());
    let mut programs = Programs::default();
    let clock = Monotonic::new();
    let watch = ContentionAlarm::new(config.condition_after, &settings, &board);
    let tasks = start(config, choice.mechanism, &mut programs, &mut journal);
    // After the programs, which choose their own cores; before LC tasks, which may precede us.
    let is_first = stand_back(&ours, &cores);
    let manager = tasks.and_then(|tasks| {
        let real_time = config.real_time;
        let setup = Setup { layout, tasks, real_time, calm, period, sensor, journal };
        setup.take(choice.mechanism, clock.now()).map_err(Error::from)
    });
    let done = manager.map(|mut manager| {
        let start = Start { cores: &cores, period, choice: &choice, sensor_why: &sensor_why, is_first };
        greet(config, args, &*manager, &start);
        let shown = ui.map(|ui| Shown::new(ui, &board, config));
        let allocator = Allocator::new(policy, board);
        let mut rounds = ControlLoop {
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
        // All tasks are resumed before any is asked to end.
        let restored = manager.put_back();
        let text = restored.as_ref().map_or_else(ToString::to_string, restore::text);
        status.end(clock.now(), config, &*manager, &text, args.json);
        restored.map_err(|e| {
            Error::new(format!("changes to tasks could not be undone: {e}")).advice("greenwave sched restore")
        })?;
        status.lost.map_or(Ok(()), |why| {
            let what = format!(
                "the kernel detached the scheduler; all tasks run under the default scheduler: {why}"
            );
            Err(Error::new(what).advice("mechanism = \"affinity\""))
        })
    });
    drop(programs);
    // Its programs have ended, so the log has nothing left to undo.
    let _ = undo_log::end_programs(&path);
    drop(guardian.stdin.take());
    let _ = guardian.wait();
    done.and_then(|done| done)
}

/// Starts the commands, and resolves each task to its processes.
fn start(
    config: &Config,
    mechanism: Mechanism,
    programs: &mut Programs,
    journal: &mut Journal,
) -> Result<Vec<(String, TaskSetup)>, Error> {
    let setup = |(number, task): (usize, &config::Task)| {
        let selector = match (task.selector(), &task.command) {
            (Some(selector), _) => selector,
            (None, command) => {
                let id = programs.start(task, command.as_deref().unwrap_or_default())?;
                journal.started(number, id).map_err(|e| Error::file(journal.path(), &e))?;
                TaskSelector::Child(id)
            }
        };
        Ok((
            task.name.clone(),
            TaskSetup {
                spec: task.spec(mechanism),
                selector,
                tail: task.tail.clone(),
                queue_reports: task.queue_reports.clone(),
                has_signal_page: task.signal_page,
            },
        ))
    };
    config.tasks.iter().enumerate().map(setup).collect()
}

/// Moves this process off the managed cores, if there are others, and gives it priority over the
/// managed tasks; true if that was allowed.
fn stand_back(ours: &[CoreId], managed: &[CoreId]) -> bool {
    let rest = ours.iter().copied().filter(|core| !managed.contains(core));
    let rest = cpulist::set_of(rest);
    if rest.count() > 0 {
        // A failure only costs the managed tasks more of their cores' time.
        let _ = rustix::thread::sched_setaffinity(None, &rest);
    }
    real_time::MANAGER.set(None).is_ok()
}
