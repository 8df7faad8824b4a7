//! `greenwave sched`: a machine shared by latency-critical and best-effort programs.
//!
//! Policies are `sched::cores`', what is done to programs is `host::cores`';
//! here a configuration becomes both, rounds follow each other, and what happens is
//! told. However this ends, everything that was changed is put back: by us, by a
//! guardian, or by the next start.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use host::cores::class::Class;
use host::cores::{Journal, Layout, Manager, Mechanism, Setup, TaskSetup, Who, list};
use host::{Monotonic, affinity, proc};
use queueing::{Clock, CoreId, Span};
use sched::cores::condition::{Change, Trouble, Watch};
use sched::cores::{Allocator, Settings, TaskId};
use serde_json::json;

use crate::configuration::Arguments;
use crate::control::{self, Control};
use crate::table::Table;
use crate::{Error, sandbox, ui};

mod config;
mod mechanism;
mod programs;
mod reload;
mod restore;
mod sensor;
mod shown;
mod status;

use config::Config;
use mechanism::Choice;
use programs::Programs;
use reload::Reload;
use sensor::sensor;
use shown::Shown;
use status::Status;

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

/// How often we look whether programs of ours have ended.
const REAP_EVERY: Span = Span::from_millis(25);

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

/// How it starts.
struct Start<'a> {
    cores: &'a [CoreId],
    period: Span,
    choice: &'a Choice,
    sensor_why: &'a str,
    /// Whether we run before those whom we manage.
    is_first: bool,
}

/// What was chosen, and why.
fn greet(config: &Config, args: &Args, manager: &dyn Manager, start: &Start<'_>) {
    let &Start { cores, period, choice, sensor_why, is_first } = start;
    let paper = Settings::default().period;
    let (mechanism, mechanism_why) = (manager.mechanism(), &choice.why);
    let mut limits = Vec::new();
    let ids = (0..config.tasks.len()).map(|number| TaskId(number as u16));
    for (task, id) in config.tasks.iter().zip(ids) {
        if !task.is_critical() && !manager.can_park(id) {
            limits.push(format!(
                "{} cannot be parked: without a core {}",
                task.name,
                if choice.mechanism == Mechanism::Scx {
                    "it gets one for a moment now and then"
                } else {
                    "it stays where it was, in the idle class"
                }
            ));
        }
        if config.real_time && manager.stays_fair(id) {
            limits.push(format!(
                "{} is not real-time, and the kernel's own threads can hold it up: no CAP_SYS_NICE, or its control \
                 group has no cpu.rt_runtime_us",
                task.name
            ));
        }
        if task.request_max.is_some() && !(task.pulse && choice.mechanism == Mechanism::Runtime) {
            limits
                .push(format!("{}: request_max has no effect, since requests are not seen here", task.name));
        }
    }
    if choice.mechanism == Mechanism::Runtime && !proc::may_look_into() {
        let strangers = config.tasks.iter().filter(|task| task.pulse && task.command.is_none());
        limits.extend(strangers.map(|task| {
            format!(
                "{}: a pulse of another user's program cannot be read, and its threads are looked at instead \
                 (CAP_SYS_PTRACE)",
                task.name
            )
        }));
    }
    choice.limits(config, &mut limits);
    if !is_first {
        limits.push("rounds may come late: we may not run before others (CAP_SYS_NICE)".to_owned());
    }
    if !proc::may_schedule() {
        limits.push("only programs of our own are ours to schedule (CAP_SYS_NICE)".to_owned());
    }
    let (policy, sensor) = (&config.policy, manager.sensor().name());
    if args.json {
        println!(
            "{}",
            json!({
                "event": "start", "policy": policy, "cores": list::text(cores), "period_ns": period.as_nanos(),
                "mechanism": mechanism, "mechanism_why": mechanism_why, "sensor": sensor, "sensor_why": sensor_why,
                "limits": limits, "machine": host::Machine::this().to_string(),
            })
        );
        return;
    }
    println!("policy {policy} on cores {}, a round every {period} (the paper's: {paper})", list::text(cores));
    println!("mechanism {mechanism}: {mechanism_why}");
    println!("sensor {sensor}: {sensor_why}");
    limits.iter().for_each(|limit| println!("limit: {limit}"));
}

/// One round after another.
struct Rounds<'a> {
    /// As it is now.
    config: Config,
    args: &'a Args,
    reload: Reload<'a>,
    clock: Monotonic,
    allocator: Allocator,
    watch: Watch,
    mechanism: Mechanism,
    period: Span,
    /// Where it shows itself, if anywhere.
    shown: Option<Shown>,
    /// Where it is asked, if anywhere.
    control: Option<Control>,
}

impl Rounds<'_> {
    /// Until ctrl-C, the end of all tasks, or of the time.
    fn run(
        &mut self,
        manager: &mut dyn Manager,
        programs: &mut Programs,
        interrupted: &AtomicBool,
    ) -> Status {
        let begin = self.clock.now();
        let mut status = Status::new(begin, self.config.tasks.len());
        let (mut told, mut reaped, mut changes) = (begin, begin, Vec::new());
        loop {
            let start = self.clock.now();
            if start.since(reaped) >= REAP_EVERY {
                reaped = start;
                programs.reap();
                self.control.iter_mut().for_each(|control| control.look(start));
                self.read_again(manager);
            }
            status.actions += self.allocator.round(start, manager) as u64;
            status.rounds += 1;
            self.watch.round(start, self.allocator.signals(), self.allocator.board(), &mut changes);
            changes.drain(..).for_each(|change| {
                status.raised += u64::from(matches!(change, Change::Raised(_)));
                self.report(change);
            });
            let end = self.clock.now();
            let cost = end.since(start);
            status.cost.record(cost);
            if let Some(shown) = &mut self.shown {
                shown.round(start, &self.allocator, cost);
                if shown.is_due(start) {
                    let conditions: Vec<Trouble> = self.watch.raised().collect();
                    let figures = status.figures(start, &self.config, manager, &self.allocator, &conditions);
                    shown.tell(start, &self.config, self.allocator.board(), figures);
                }
            }
            let is_over = (0..self.config.tasks.len()).all(|number| manager.is_over(TaskId(number as u16)));
            let is_late = self.args.lasts.is_some_and(|lasts| start.since(begin) >= lasts);
            status.lost = manager.lost();
            let ends = is_over || is_late || status.lost.is_some() || interrupted.load(Ordering::Relaxed);
            if ends || start.since(told) >= self.args.every {
                told = start;
                let conditions: Vec<Trouble> = self.watch.raised().collect();
                status.tell(start, &self.config, manager, &self.allocator, &conditions, self.args.json);
            }
            if ends {
                return status;
            }
            // Whatever a round takes, others have the core for as long.
            let next = (start + self.period).max(self.clock.now() + cost);
            std::thread::sleep(Duration::from(next.since(self.clock.now())));
        }
    }

    /// Takes over other thresholds, if that was asked for.
    fn read_again(&mut self, manager: &mut dyn Manager) {
        let Some(read) = self.reload.look(self.control.as_mut(), &self.config) else { return };
        let outcome = read.map(|config| self.take_over(manager, config));
        control::tell(self.control.as_mut(), self.clock.now(), &outcome);
    }

    /// Has other thresholds hold from now on; what to say of it.
    fn take_over(&mut self, manager: &mut dyn Manager, config: Config) -> String {
        for (number, task) in config.tasks.iter().enumerate() {
            let (id, spec) = (TaskId(number as u16), task.spec(self.mechanism));
            self.allocator.set_thresholds(id, &spec);
            manager.set_thresholds(id, &spec);
        }
        self.watch.set_after(config.condition_after);
        self.config = config;
        "read again: the thresholds are in force".to_owned()
    }

    /// To the log, and to the hook.
    fn report(&self, change: Change) {
        let (word, trouble) = match change {
            Change::Raised(trouble) => ("raised", trouble),
            Change::Cleared(trouble) => ("cleared", trouble),
        };
        let (what, place) = status::parts(trouble, &self.config);
        eprintln!("condition {word}: {what} {place} (after {})", self.config.condition_after);
        let Some((program, words)) = self.config.hook.split_first() else { return };
        let mut hook = Command::new(program);
        hook.args(words)
            .env("GREENWAVE_CONDITION", word)
            .env("GREENWAVE_TROUBLE", what)
            .env("GREENWAVE_WHERE", place);
        hook.stdin(std::process::Stdio::null()).stdout(std::io::stderr());
        match hook.spawn() {
            // It may take as long as it likes, and nobody waits for it.
            Ok(mut child) => drop(std::thread::spawn(move || child.wait())),
            Err(e) => eprintln!("hook {program}: {e}"),
        }
    }
}
