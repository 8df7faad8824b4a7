//! `greenwave`: the single binary, one file per subcommand. Results go to stdout, progress to
//! stderr.
//!
//! Exit 0: done; 1: a claim failed; 2: could not run, or a file is incomplete; 3: no claim failed and
//! some are undecided; 130: a measurement was interrupted.
#![forbid(unsafe_code)]
// Text goes through `output`, which survives a closed or full stream.
#![deny(clippy::print_stdout, clippy::print_stderr)]

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

use config_file::Arguments;
use error::Error;
use usage::{help, refusal};

/// Prints on stdout, by [`output`].
macro_rules! out {
    ($($text:tt)*) => { $crate::output::print(format_args!($($text)*)) };
}

/// Prints a line on stdout, by [`output`].
macro_rules! outln {
    () => { $crate::output::line(format_args!("")) };
    ($($text:tt)*) => { $crate::output::line(format_args!($($text)*)) };
}

/// Prints on stderr, by [`output`].
macro_rules! err {
    ($($text:tt)*) => { $crate::output::print_error(format_args!($($text)*)) };
}

/// Prints a line on stderr, by [`output`].
macro_rules! errln {
    ($($text:tt)*) => { $crate::output::print_error(format_args!("{}\n", format_args!($($text)*))) };
}

mod address;
mod bench;
mod bound;
mod calibrate;
mod check;
mod classify;
mod confidence;
mod config_file;
mod control;
mod demo;
mod device;
mod doctor;
mod dry_run;
mod egress;
mod error;
mod exp;
mod explain;
mod failure;
#[cfg(test)]
mod fuzz;
mod guard;
mod guard_args;
mod include;
mod load;
mod load_client;
mod load_row;
mod malformed_summary;
mod man_pages;
mod manual;
mod network_args;
mod options;
mod output;
mod panics;
mod parallel;
mod programs;
mod progress;
mod renames;
mod report;
mod run;
mod sandbox;
mod sched;
mod serve;
mod settings;
mod shard_args;
mod sim;
mod snapshot_poller;
mod source_dir;
mod suggestion;
mod table;
mod toml_error;
mod top;
mod traces;
mod ui;
mod usage;
mod verdict;

/// Large simulations make many small allocations, accessed in any order: a tenth to a fifth faster
/// than with glibc's (ADR 0056).
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Application-defined request priorities, from the NIC to the worker.
#[derive(Parser)]
#[command(name = "greenwave", version, max_term_width = 80)]
struct Cli {
    /// TOML file with a section for each command and a key for each flag.
    /// Flags on the command line override it (see `greenwave check`).
    // Inserted into the command line before parsing.
    #[arg(long, value_name = "FILE")]
    config: Option<std::path::PathBuf>,
    #[command(subcommand)]
    command: Command,
}

// Each command's text is that of its arguments.
#[derive(Subcommand)]
enum Command {
    Demo(demo::Args),
    Serve(serve::Args),
    Run(run::Args),
    Load(load::Args),
    Sched(sched::Args),
    Egress(egress::Args),
    Exp(exp::Args),
    Sim(sim::Args),
    Guard(guard::Args),
    Top(top::Args),
    Control(control::client::Args),
    Calibrate(calibrate::Args),
    Bench(bench::Args),
    Doctor(doctor::Args),
    Report(report::Args),
    Check(check::Args),
    Explain(explain::Args),
    Man(man_pages::ManArgs),
    Completions(man_pages::CompletionsArgs),
}

impl Command {
    /// Checks the arguments before the first action; `has` is true for a given flag's name.
    ///
    /// # Errors
    /// The errors of the command.
    fn check(&self, has: &dyn Fn(&str) -> bool) -> Result<(), Error> {
        match self {
            Self::Serve(args) => args.check(has),
            Self::Run(args) => args.check(has),
            Self::Load(args) => args.check(),
            Self::Sched(args) => args.check(),
            Self::Egress(args) => args.check(),
            Self::Guard(args) => args.check(),
            Self::Demo(args) => args.check(),
            // The others are checked by their flags alone, or run interactively.
            Self::Exp(_)
            | Self::Sim(_)
            | Self::Top(_)
            | Self::Control(_)
            | Self::Calibrate(_)
            | Self::Bench(_)
            | Self::Doctor(_)
            | Self::Report(_)
            | Self::Check(_)
            | Self::Explain(_)
            | Self::Man(_)
            | Self::Completions(_) => Ok(()),
        }
    }

    /// The command's treatment of signals and of an unwritable stdout.
    fn kind(&self) -> Kind {
        match self {
            Self::Serve(_) | Self::Run(_) => Kind::Daemon,
            Self::Sched(args) if args.is_daemon() => Kind::Daemon,
            Self::Guard(args) if args.is_daemon() => Kind::Daemon,
            Self::Bench(args) if args.is_part() => Kind::Prompt,
            Self::Demo(_)
            | Self::Load(_)
            | Self::Exp(_)
            | Self::Sim(_)
            | Self::Calibrate(_)
            | Self::Bench(_)
            | Self::Doctor(_)
            | Self::Report(_) => Kind::Measurement,
            Self::Egress(_) | Self::Sched(_) | Self::Guard(_) => Kind::Change,
            Self::Top(_)
            | Self::Control(_)
            | Self::Check(_)
            | Self::Explain(_)
            | Self::Man(_)
            | Self::Completions(_) => Kind::Prompt,
        }
    }

    /// The doctor's area for the command, where it needs something of the machine, and the kind of the
    /// command's device.
    fn area(&self) -> Option<(&'static str, Option<String>)> {
        match self {
            Self::Serve(args) => Some(("serve", Some(args.device_kind().to_owned()))),
            Self::Run(_) => Some(("run", None)),
            Self::Sched(_) => Some(("sched", None)),
            Self::Egress(_) => Some(("egress", None)),
            Self::Guard(_) => Some(("guard", None)),
            _ => None,
        }
    }

    /// Prints what the command would do, if that is asked; `None` if it is not.
    ///
    /// # Errors
    /// The errors of the command before its first action.
    fn dry_run(&self) -> Option<Result<(), Error>> {
        match self {
            Self::Serve(args) => args.dry_run(),
            Self::Run(args) => args.dry_run(),
            Self::Sched(args) => args.dry_run(),
            Self::Egress(args) => args.dry_run(),
            _ => None,
        }
    }
}

/// Kinds of command, by how they end.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Runs until ended, regardless of its output.
    Daemon,
    /// Runs for a result; an interruption leaves nothing behind.
    Measurement,
    /// Changes the machine in one short step that no signal interrupts.
    Change,
    /// Done at once, or part of another command.
    Prompt,
}

impl Kind {
    /// Sets up signals and print failures for this kind.
    fn prepare(self) {
        match self {
            Self::Daemon => output::survive_failures(),
            Self::Measurement => {
                // On failure, signals end it as they end other programs.
                let _ = host::signals::watch(|| {
                    errln!("{}", Error::interrupted(" before its results were complete"));
                    output::end(error::INTERRUPTED)
                });
            }
            Self::Change => {
                let _ = host::signals::flag();
            }
            Self::Prompt => {}
        }
    }
}

fn main() -> ExitCode {
    let code = start();
    output::flush();
    if code == ExitCode::SUCCESS { failure::or(code) } else { code }
}

fn start() -> ExitCode {
    host::signals::fail_on_full_file();
    host::sandbox::restrict_umask();
    panics::install_hook();
    table::detect_terminal();
    let arguments = match Arguments::new(std::env::args_os().collect()) {
        Ok(arguments) => arguments,
        Err(e) => return refused(e),
    };
    let command = match parse(arguments.words()) {
        Ok(Cli { command, .. }) => command,
        Err(e) => return usage::end(&e, arguments.location(&e)),
    };
    let area = command.area();
    if let Some(done) = command.dry_run() {
        return done.map_or_else(refused, |()| ExitCode::SUCCESS);
    }
    command.kind().prepare();
    let done = match command {
        Command::Demo(args) => demo::run(&args),
        Command::Serve(args) => serve::run(&args, &arguments),
        Command::Run(args) => run::run(&args, &arguments),
        Command::Load(args) => load::run(&args),
        Command::Sched(args) => sched::run(&args, &arguments),
        Command::Egress(args) => egress::run(&args),
        Command::Exp(args) => exp::run(args),
        Command::Sim(args) => sim::run(&args),
        Command::Guard(args) => guard::run(&args, &arguments),
        Command::Top(args) => top::run(&args),
        Command::Control(args) => control::client::run(&args),
        Command::Calibrate(args) => calibrate::run(&args),
        Command::Bench(args) => bench::run(&args),
        Command::Doctor(args) => doctor::run(&args),
        Command::Report(args) => report::run(&args),
        Command::Check(args) => check::run(&args),
        Command::Explain(args) => explain::run(&args),
        Command::Man(args) => man_pages::man(&args, commands()),
        Command::Completions(args) => man_pages::completions(&args, commands()),
    };
    done.map(failure::or).unwrap_or_else(|e| {
        let area = area.filter(|_| e.is_machines());
        let code = refused(e);
        if let Some((area, device)) = area {
            err!("{}", doctor::of_refused(area, device.as_deref()));
        }
        code
    })
}

/// Prints the error; one without advice gets the command's help as its advice.
fn refused(e: Error) -> ExitCode {
    let e = e.or_advice(help);
    errln!("{e}");
    e.code()
}

/// Checks the command of `words` before its first action; `has` as of [`Command::check`].
///
/// # Errors
/// Errors of the arguments, then those of the command.
fn check_words(words: &[String], has: &dyn Fn(&str) -> bool) -> Result<Result<(), Error>, clap::Error> {
    parse(words).map(|Cli { command, .. }| command.check(has))
}

/// All commands with their flags, the flags' old spellings, and examples.
fn commands() -> clap::Command {
    manual::with_examples(renames::alias(Cli::command()), "")
}

/// The command of `words`.
///
/// # Errors
/// Errors of the arguments.
fn parse<W: Into<OsString> + Clone>(words: impl IntoIterator<Item = W>) -> Result<Cli, clap::Error> {
    let matches = commands().try_get_matches_from(words)?;
    Cli::from_arg_matches(&matches).map_err(|e| e.format(&mut commands()))
}
