//! `greenwave run`: an unmodified server on greenwave's TCP/IP.
//!
//! This process owns the stack and the device. The program is a child with `libgreenwave.so`
//! preloaded, and a socket that it binds to one of the stack's addresses is on the stack
//! ([`shim`]). The program may fork, reload, crash or be killed: its connections end as the
//! kernel's would, and it never holds the device. Runs until the program and its children have
//! ended, or ctrl-C. SIGHUP reloads the policy.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use host::sandbox::Duty;
use hostbpf::guard::ReportCounter;
use net::stack::Config as StackConfig;
use queueing::Span;
use runtime::steer::{LINK_FRAMES, Steered, over_queues};
use shim::preload::{Library, elf_check};

use crate::config_file::Arguments;
use crate::device::{AnyDevice, LinkMonitor, Open};
use crate::network_args::NetworkArgs;
use crate::options::{self, random_mac, secret};
use crate::serve::reload::PolicyFiles;
use crate::shard_args::FlowHashArg;
use crate::{Error, control, dry_run, guard_args, sandbox, traces, ui};

mod bypass;
mod live_view;
mod socket_adapter;
mod stacks;

use bypass::Bypass;
use socket_adapter::SocketAdapter;
use stacks::Stacks;

/// Run an unmodified server on greenwave's TCP/IP stack.
///
/// The program runs with libgreenwave.so preloaded. Sockets bound to the
/// --addr addresses or to all addresses, and connections to hosts behind the
/// device, use greenwave's stack; all other sockets use the kernel's. Ends
/// with the program, or with ctrl-C.
#[derive(clap::Args)]
// Clap's version is longer than a line.
#[command(
    next_line_help = true,
    override_usage = "greenwave run [OPTIONS] --device KIND:NAME --addr ADDRESSES -- PROGRAM..."
)]
pub struct Args {
    #[command(flatten)]
    link: NetworkArgs,
    /// Number of stacks, each with a thread, a device queue, and the flows
    /// that hash to it.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=128), verbatim_doc_comment)]
    shards: u16,
    /// Assignment of flows to stacks.
    #[arg(long, value_enum, default_value = "keyed")]
    flow_hash: FlowHashArg,
    /// Pin each stack's thread to its own core, in the order of the allowed
    /// cores.
    #[arg(long, verbatim_doc_comment)]
    pin: bool,
    /// Busy-polling time of an idle stack before it sleeps.
    #[arg(long, value_name = "SPAN", default_value = "20us", value_parser = options::busy_poll)]
    busy_poll: Span,
    #[command(flatten)]
    guard: guard_args::Args,
    /// File in which the program reports its internal queue; added to the
    /// guard's delay; repeatable.
    #[arg(long = "queue-report", value_name = "FILE", requires = "guard", verbatim_doc_comment)]
    queue_reports: Vec<PathBuf>,
    /// End of a connection's wait, for the guard: the program's first read
    /// (default), or the first response byte, for thread-per-connection
    /// servers.
    #[arg(
        long = "measure",
        value_enum,
        value_name = "accept|first-byte",
        requires = "guard",
        default_value = "accept",
        hide_default_value = true,
        hide_possible_values = true,
        verbatim_doc_comment
    )]
    until: guard_args::Until,
    /// Library to preload [default: $GREENWAVE_LIB, or libgreenwave.so
    /// beside the greenwave program].
    #[arg(long, value_name = "FILE", verbatim_doc_comment)]
    lib: Option<PathBuf>,
    #[command(flatten)]
    sandbox: sandbox::NoSandbox,
    #[command(flatten)]
    ui: ui::Flags,
    #[command(flatten)]
    control: control::Flags,
    #[command(flatten)]
    traces: traces::Flags,
    #[command(flatten)]
    dry_run: dry_run::Flag,
    /// Program and arguments; the program must stay in the foreground:
    /// -- lighttpd -D -f lighttpd.conf.
    #[arg(last = true, required = true, value_name = "PROGRAM", verbatim_doc_comment)]
    program: Vec<OsString>,
}

impl Args {
    /// Checks the arguments before it opens anything; `has` is true for a given flag's name.
    ///
    /// # Errors
    /// The errors of [`run`].
    pub fn check(&self, has: &dyn Fn(&str) -> bool) -> Result<(), Error> {
        self.lib.iter().try_for_each(|lib| Library::find(Some(lib)).map(drop))?;
        self.guard.guard_with_reports(&self.queue_reports, &ReportCounter::default())?;
        self.link.check(has)?;
        self.link.classifiers()?;
        self.ui.check()?;
        self.check_files()
    }

    /// Prints the plan if `--dry-run` asks for it.
    ///
    /// # Errors
    /// The errors of [`run`] before it opens anything.
    pub fn dry_run(&self) -> Option<Result<(), Error>> {
        self.dry_run.print("run", || {
            let program = elf_check::find(&self.program[0])?;
            let lib = Library::find(self.lib.as_deref())?;
            self.check(&|_| true)?;
            let mut rows = self.link.rows()?;
            rows.push(("program", program.display().to_string()));
            rows.push(("library", lib.path().display().to_string()));
            rows.push(("threads", format!("{} stacks", self.shards)));
            rows.push(("guard", if self.guard.is_on() { "on" } else { "off" }.to_owned()));
            rows.push(("--ui", dry_run::list(self.ui.ui.map(|address| address.to_string()))));
            Ok(rows)
        })
    }

    /// Checks that the output files can be written.
    fn check_files(&self) -> Result<(), Error> {
        self.link.check_capture()?;
        if let (Some(file), 2..) = (&self.link.pcap, self.shards) {
            let what = format!("--pcap {}: the file holds the frames of one stack", file.display());
            return Err(Error::new(format!("{what}, and --shards is {}", self.shards)).advice("--shards 1"));
        }
        self.traces.check()
    }
}

/// Runs the program to its end. Returns its exit status, or 1 where that is 0 and some of its
/// sockets bypassed the stack.
///
/// # Errors
/// The reason it cannot start.
pub fn run(args: &Args, arguments: &Arguments) -> Result<ExitCode, Error> {
    // As for `serve`: a signal before the handler's first check is not lost.
    let _ = host::signals::hangup();
    let program = elf_check::find(&args.program[0])?;
    let lib = Library::find(args.lib.as_deref())?;
    let reports = ReportCounter::default();
    let guard = || args.guard.guard_with_reports(&args.queue_reports, &reports);
    let guards = (0..args.shards).map(|_| guard()).collect::<Result<_, _>>()?;
    let (kind, addresses) = args.link.plan()?;
    let (classifiers, observed) = args.link.classifiers()?.unwrap_or_default();
    args.check_files()?;
    let sandbox = args.sandbox.plan(Duty::Run { reads_reports: !args.queue_reports.is_empty() }, kind.kept());
    // While this process has one thread.
    let bypass = Bypass::watch(lib.path(), args.sandbox.is_on());
    let ui = args.ui.open(live_view::head(&program, &args.link.device), args.control.is_on())?;
    let reads = arguments.file().into_iter().chain(args.link.policy.clone()).collect();
    let control = args.control.open(ui.as_ref(), reads)?;
    let key = secret()?;
    let _taken = kind.take(&addresses)?;
    // The doctor's check as well; a missing test program does not prevent a start.
    lib.check()?;
    let Open { mut devices, mac, mtu, held, how, claimant, .. } = kind.open(&addresses, key)?;
    check_queues(args, &devices)?;
    let stack = StackConfig { mtu, ..addresses.stack(mac.unwrap_or(random_mac()?), key) };
    let steering = args.flow_hash.steering(args.shards)?;
    let adapters = SocketAdapter::open(secret()?, steering)?;
    for (queue, device) in devices.iter_mut().enumerate() {
        device.watch(adapters[queue % adapters.len()].readiness()?);
    }
    let interface = LinkMonitor::of(&kind);
    let mut stacks = Stacks {
        args,
        arguments,
        program,
        lib,
        bypass,
        sandbox,
        kind,
        interface,
        addresses,
        stack,
        classifiers,
        observed,
        guards,
        reports,
        adapters,
        steering,
        meters: Vec::new(),
        held,
        how: how.map_or(String::new(), |how| format!(" ({how})")),
        claimant,
        ui,
        control,
    };
    if args.shards == 1 {
        return stacks.serve_on(vec![args.link.wrap(devices)?]);
    }
    let queues = devices.into_iter().map(|queue| args.link.wrap(vec![queue])).collect::<Result<_, _>>()?;
    let devices = over_queues(queues, steering, LINK_FRAMES);
    stacks.meters = devices.iter().map(Steered::meter).collect();
    stacks.serve_on(devices)
}

/// Checks that each stack has a queue: programs could not wake one without.
fn check_queues(args: &Args, devices: &[AnyDevice]) -> Result<(), Error> {
    let (shards, queues) = (usize::from(args.shards), devices.len());
    if shards == 1 || shards == queues {
        return Ok(());
    }
    let device = &args.link.device;
    let what = format!("--shards {shards} needs {shards} device queues, and {device} has {queues}");
    let (name, rest) = device.split_once(',').map_or((&**device, String::new()), |(name, options)| {
        let others = options.split(',').filter(|option| !option.starts_with("queues="));
        (name, others.map(|option| format!(",{option}")).collect())
    });
    Err(Error::new(what).advice(format!("--device {name},queues={shards}{rest}")))
}

/// The policy of `shards` stacks in the files now, if nothing else in them has changed.
fn read(arguments: &Arguments, shards: usize) -> Result<PolicyFiles, Error> {
    let args: Args = arguments.again(&["policy"])?;
    let (classifiers, observed) = args.link.classifiers()?.unwrap_or_default();
    Ok(PolicyFiles { policy: args.link.policy, classifiers: vec![classifiers; shards], observed })
}
