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

use clap::error::ErrorKind;
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

use config_file::Arguments;
use error::Error;

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
mod table;
mod top;
mod traces;
mod ui;
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

#[derive(Subcommand)]
enum Command {
    /// Run a bursty mixed workload without and with priorities.
    Demo(demo::Args),
    /// Run a server on greenwave's TCP/IP stack.
    Serve(serve::Args),
    /// Run an unmodified server on greenwave's TCP/IP stack.
    Run(run::Args),
    /// Generate open-loop load over kernel sockets.
    Load(load::Args),
    /// Allocate cores between latency-critical and best-effort programs.
    Sched(sched::Args),
    /// Schedule short flows first at a network interface's egress.
    Egress(egress::Args),
    /// List and run the papers' experiments.
    Exp(exp::Args),
    /// Simulate switched networks and compute their thresholds.
    Sim(sim::Args),
    /// Protect a server's goodput under overload.
    Guard(guard::Args),
    /// Show a command that runs with --ui, live.
    Top(top::Args),
    /// Query or control a daemon that runs with --control.
    Control(control::client::Args),
    /// Measure the CPU cost of each step of the stack on this machine.
    Calibrate(calibrate::Args),
    /// Compare greenwave with other systems on this machine.
    Bench(bench::Args),
    /// Check which mechanisms work on this machine; suggest fixes.
    Doctor(doctor::Args),
    /// Render the results of a run as a page, or compare two runs.
    Report(report::Args),
    /// Validate a policy or configuration file and show its content.
    Check(check::Args),
    /// Explain a request's priority.
    Explain(explain::Args),
    /// Generate the man pages.
    Man(man_pages::ManArgs),
    /// Print a shell completion script.
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

    /// The doctor's area for the command, where it needs something of the machine.
    fn area(&self) -> Option<&'static str> {
        match self {
            Self::Serve(_) => Some("serve"),
            Self::Run(_) => Some("run"),
            Self::Sched(_) => Some("sched"),
            Self::Egress(_) => Some("egress"),
            Self::Guard(_) => Some("guard"),
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
        Err(e) => return refused(&e),
    };
    let command = match parse(arguments.words()) {
        Ok(Cli { command, .. }) => command,
        Err(e) => return usage(&e, arguments.location(&e)),
    };
    command.kind().prepare();
    let area = command.area();
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
        let code = refused(&e);
        if let Some(area) = area.filter(|_| e.is_machines()) {
            err!("{}", doctor::of_refused(area));
        }
        code
    })
}

fn refused(e: &Error) -> ExitCode {
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

/// All commands with their flags, and the flags' old spellings.
fn commands() -> clap::Command {
    renames::alias(Cli::command())
}

/// The command of `words`.
///
/// # Errors
/// Errors of the arguments.
fn parse<W: Into<OsString> + Clone>(words: impl IntoIterator<Item = W>) -> Result<Cli, clap::Error> {
    let matches = commands().try_get_matches_from(words)?;
    Cli::from_arg_matches(&matches).map_err(|e| e.format(&mut commands()))
}

/// Prints help as it is, and an error as one line with advice. `location` is the file and line of the
/// mistake.
fn usage(e: &clap::Error, location: Option<&str>) -> ExitCode {
    if matches!(e.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) {
        out!("{e}");
        return ExitCode::SUCCESS;
    }
    if e.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        err!("{e}");
        return ExitCode::from(2);
    }
    refused(&refusal(e, location))
}

/// Error with advice for clap's error `e`; `location` is the place of the invalid argument if it is
/// not on the command line.
fn refusal(e: &clap::Error, location: Option<&str>) -> Error {
    let text = e.to_string();
    let tip = text.lines().find_map(|line| line.trim().strip_prefix("tip: "));
    let prefix = location.map_or(String::new(), |at| format!("{at}: "));
    Error::new(prefix + &words(e)).advice(tip.map_or_else(help, str::to_owned))
}

/// Text of clap's error in one line.
fn words(e: &clap::Error) -> String {
    let text = e.to_string();
    let what: Vec<&str> = text.lines().map(str::trim).take_while(|line| !line.is_empty()).collect();
    // Rust's message for an unreadable number says little.
    let what = what.join(" ").replace("invalid digit found in string", "it is not a whole number");
    what.strip_prefix("error: ").unwrap_or(&what).to_owned()
}

/// The command that prints the help.
fn help() -> String {
    let commands = commands();
    let given = std::env::args().skip(1).find(|name| commands.find_subcommand(name).is_some());
    given.map_or("greenwave --help".to_owned(), |name| format!("greenwave {name} --help"))
}
