//! `greenwave run`: an unmodified server on our own TCP/IP.
//!
//! The stack and the device are this process's. The program is a child with
//! `libgreenwave.so` preloaded, and a socket that it binds to one of the
//! stack's addresses is ours ([`host::seam`]). So the program may fork,
//! reload, crash or be killed: its connections end as the kernel's would, and
//! nothing of the device was ever its. Until it and what it started have
//! ended, or ctrl-C. SIGHUP has it read its policy again.

use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, ExitStatus};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use host::Monotonic;
use host::sandbox::Duty;
use host::seam::VARIABLE;
use host::seam::preload::{Library, fit};
use host::seam::program::Programs;
use net::Device;
use net::device::merged::Merged;
use net::stack::Config as StackConfig;
use queueing::{Clock, Span};
use runtime::mode::Mode;
use runtime::streams::{self, Hatches, Streams};
use rustix::process::{Resource, Rlimit, Signal, getrlimit, setrlimit};
use sched::dispatch::{Params, Steering};

use crate::address::list;
use crate::configuration::Arguments;
use crate::control::{self, Control};
use crate::device::{AnyDevice, Open, Wrapped};
use crate::link::Link;
use crate::options::{self, made_up_mac, secret};
use crate::sandbox;
use crate::serve::reload::{Reads, Reload, Said};
use crate::serve::settle::settle;
use crate::{Error, door, panics, traces, ui};

mod seats;
mod watched;

use seats::Seats;
use watched::Watched;

/// Run an unmodified server on a network device through our own TCP/IP.
///
/// The program runs with libgreenwave.so preloaded; what it binds to the
/// addresses here, or to all addresses, and what it connects to where the
/// device leads, is on our stack, and everything else is the kernel's. Ends
/// with the program, or with ctrl-C.
#[derive(clap::Args)]
// What clap makes of it is longer than a line.
#[command(
    next_line_help = true,
    override_usage = "greenwave run [OPTIONS] --device KIND:NAME --addr ADDRESSES -- PROGRAM..."
)]
pub struct Args {
    #[command(flatten)]
    link: Link,
    /// How long the stack without work looks for more, then it sleeps.
    #[arg(long, value_name = "SPAN", default_value = "20us", value_parser = options::spin)]
    spin: Span,
    #[command(flatten)]
    guard: door::Args,
    /// The library [default: $GREENWAVE_LIB, or libgreenwave.so beside
    /// this program].
    #[arg(long, value_name = "FILE", verbatim_doc_comment)]
    lib: Option<PathBuf>,
    #[command(flatten)]
    sandbox: sandbox::Kept,
    #[command(flatten)]
    ui: ui::Flags,
    #[command(flatten)]
    control: control::Flags,
    #[command(flatten)]
    traces: traces::Flags,
    /// The program, in the foreground, and its arguments:
    /// -- lighttpd -D -f lighttpd.conf.
    #[arg(last = true, required = true, value_name = "PROGRAM", verbatim_doc_comment)]
    program: Vec<OsString>,
}

/// Runs the program to its end; with its exit status.
///
/// # Errors
/// Anything that keeps it from starting.
pub fn run(args: &Args, arguments: &Arguments) -> Result<ExitCode, Error> {
    // As for `serve`: a signal that comes before there is anybody to hear it is not lost.
    let _ = host::interrupt::hangup();
    let program = fit::find(&args.program[0])?;
    let lib = Library::find(args.lib.as_deref())?;
    let guard = args.guard.guard()?;
    let (kind, addresses) = args.link.plan()?;
    let (classifiers, observed) = args.link.classifiers()?.unwrap_or_default();
    args.link.check_capture()?;
    args.traces.check()?;
    let sandbox = args.sandbox.plan(Duty::Run, kind.kept());
    let ui = args.ui.open(watched::head(&program, &args.link.device), args.control.is_on())?;
    let reads = arguments.file().into_iter().chain(args.link.policy.clone()).collect();
    let mut control = args.control.open(ui.as_ref(), reads)?;
    let key = secret()?;
    let _taken = kind.take(&addresses)?;
    // What the doctor asks, too; that there is nothing to try it on is no reason not to start.
    lib.check()?;
    let Open { mut devices, mac, mtu, held, how, claimant, .. } = kind.open(&addresses, key)?;
    let stack = StackConfig { mtu, ..addresses.stack(mac.unwrap_or(made_up_mac()?), key) };
    let seats = Seats::open(secret()?)?;
    for device in &mut devices {
        device.watch(seats.readiness()?);
    }
    let policy = Mode::Adps.policy(classifiers, &Params::new(1, 1), Steering::all(1));
    let frames_max = held.map_or(FRAMES_MAX, |held| held.min(FRAMES_MAX));
    let variable = seats.variable();
    let device = args.link.wrap(devices)?;
    let mut streams = Streams::new(stack, policy, frames_max, seats);
    let slow = args.traces.kept(ui.is_some());
    streams.set_slow(slow);
    streams.set_guard(guard);
    streams.set_receive_percent(args.guard.receive_percent());
    let mut server = [(streams, device)];
    let interrupted = host::interrupt::flag();
    // Stdout is the program's.
    let Some(found) = settle(&mut server, &addresses, interrupted, true)? else {
        return Ok(ExitCode::SUCCESS);
    };
    if let (Some(claimant), true) = (&claimant, addresses.are_found()) {
        claimant.claim(&host::afxdp::Claims { addresses: found.every.clone(), ports: Vec::new() })?;
    }
    let [(streams, device)] = &mut server;
    let lease = streams.stack().lease().copied();
    streams.programs().set_place(addresses.place(&kind, found.every, lease.as_ref()));
    let how = how.map_or(String::new(), |how| format!(" ({how})"));
    eprintln!("{} on {}, {}{how}; ctrl-C ends", program.display(), list(&found.served), args.link.device);
    let mut command = Command::new(&program);
    lib.preload(&mut command).args(&args.program[1..]).env(VARIABLE, variable);
    let traces = args.traces.open("run")?;
    let mut programs = start(&mut command)?;
    sandbox.enter(ui.as_ref())?;
    let traces = traces.map(traces::Writer::start).transpose()?;
    let is_watched = ui.is_some() || traces.is_some();
    let mut watched = is_watched.then(|| Watched::new(ui, traces, args.link.device.clone(), slow));
    let reads = Reads { arguments, policy: args.link.policy.is_some(), read };
    let mut reload = Reload::new(reads, observed, 1);
    let watching = Watching { watched: watched.as_mut(), control: control.as_mut(), reload: &mut reload };
    let status = serve(streams, device, args.spin, interrupted, watching, &mut programs)?;
    summary(streams, args.guard.is_on());
    watched.into_iter().for_each(|watched| watched.end(Monotonic::new().now(), streams));
    reload.say();
    Ok(exit(status, interrupted.load(Ordering::Relaxed)))
}

/// What the files say now of the policy, where they say nothing else that is new.
fn read(arguments: &Arguments, _: usize) -> Result<Said, Error> {
    let args: Args = arguments.again(&["policy"])?;
    let (classifiers, observed) = args.link.classifiers()?.unwrap_or_default();
    Ok(Said { policy: args.link.policy, classifiers: vec![classifiers], observed })
}

/// Who looks at the stack while it runs, and who changes it.
struct Watching<'a, 'b> {
    watched: Option<&'a mut Watched>,
    control: Option<&'a mut Control>,
    reload: &'a mut Reload<'b>,
}

type AnyStreams = Streams<Wrapped<Merged<AnyDevice>>, Seats>;

/// Received frames that wait for TCP.
const FRAMES_MAX: usize = 16_384;
/// How often the program and the interrupt flag are looked at.
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// How long a program has to end after ctrl-C before it is killed.
const GRACE: Span = Span::from_secs(5);
/// How long what programs wrote before they ended may take to reach its peers.
const FLUSH: Span = Span::from_secs(2);

/// Starts the program. Whoever in it comes to us before there is a stack waits for it.
fn start(command: &mut Command) -> Result<Programs, Error> {
    let programs = Programs::start(command).map_err(|e| {
        Error::file(Path::new(command.get_program()), &e).advice("to start it without greenwave")
    })?;
    raise_limit();
    Ok(programs)
}

/// Serves until nobody of the program is left.
fn serve(
    streams: &mut AnyStreams,
    device: &mut Wrapped<Merged<AnyDevice>>,
    spin: Span,
    interrupted: &AtomicBool,
    Watching { mut watched, mut control, reload }: Watching<'_, '_>,
    programs: &mut Programs,
) -> Result<Option<ExitStatus>, Error> {
    let seen = watched.as_ref().map(|watched| watched.hatch());
    let classifiers = reload.hatches();
    let classifiers = classifiers.first().map(|hatch| &**hatch);
    let hatches = Hatches { seen: seen.as_deref(), classifiers };
    let (clock, stop) = (Monotonic::new(), AtomicBool::new(false));
    let status = std::thread::scope(|scope| {
        let server = scope.spawn(|| streams::serve(streams, device, &clock, &stop, spin, hatches));
        let status = wait(programs, &clock, interrupted, || {
            watched.iter_mut().for_each(|watched| watched.look(clock.now()));
            control.iter_mut().for_each(|control| control.look(clock.now()));
            if let Some(outcome) = reload.look(control.as_deref_mut()) {
                control::tell(control.as_deref_mut(), clock.now(), &outcome);
            }
            server.is_finished()
        });
        stop.store(true, Ordering::Relaxed);
        panics::join("the stack", server).map_err(Error::new).map(|()| status)
    })?;
    let end = clock.now() + FLUSH;
    while clock.now() < end && !streams.is_quiet() {
        if !streams.turn(clock.now(), device) {
            device.wait(Span::from_millis(1));
        }
    }
    Ok(status)
}

/// A descriptor for each connection: as many as we may have. The program has
/// been started and keeps its own limit. Where this is refused, connections
/// beyond the limit are not taken, and counted.
fn raise_limit() {
    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
}

/// Waits until all of the program have ended, or ends them at ctrl-C.
fn wait(
    programs: &mut Programs,
    clock: &Monotonic,
    interrupted: &AtomicBool,
    mut is_over: impl FnMut() -> bool,
) -> Option<ExitStatus> {
    let mut kill_at = None;
    while programs.run() {
        if is_over() {
            programs.signal(Signal::KILL);
        } else if interrupted.load(Ordering::Relaxed) {
            let now = clock.now();
            match kill_at {
                None => {
                    kill_at = Some(now + GRACE);
                    programs.signal(Signal::TERM);
                }
                Some(at) if now >= at => programs.signal(Signal::KILL),
                Some(_) => {}
            }
        }
        std::thread::park_timeout(LOOK_EVERY);
    }
    programs.status()
}

/// The program's exit status as a shell gives it; ctrl-C is how it is meant to end.
fn exit(status: Option<ExitStatus>, interrupted: bool) -> ExitCode {
    let code = match status {
        _ if interrupted => 0,
        Some(status) => status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(2),
        None => 2,
    };
    ExitCode::from(u8::try_from(code).unwrap_or(2))
}

/// What happened.
fn summary(streams: &mut AnyStreams, is_guarded: bool) {
    let c = *streams.counters();
    let [nobody, full, no_fd] = streams.programs().untaken;
    eprintln!(
        "{} connections, {} reset; {} bytes in, {} out; not taken: nobody listened {nobody}, backlog full {full}, no descriptor {no_fd}",
        c.offered, c.reset, c.bytes_in, c.bytes_out
    );
    if c.opened + c.unopened > 0 {
        eprintln!("{} connections opened, {} could not be", c.opened, c.unopened);
    }
    if c.datagrams_in + c.datagrams_out + c.datagrams_lost + c.datagrams_untaken + c.datagrams_unsent > 0 {
        let full = c.datagrams_lost + streams.stack().counters().udp_full;
        eprintln!(
            "{} datagrams in, {} out; dropped: program too slow {full}, nobody's {}, no way {}",
            c.datagrams_in, c.datagrams_out, c.datagrams_untaken, c.datagrams_unsent
        );
    }
    if is_guarded {
        eprintln!("{}", door::shed(&c.guard));
    }
    streams.programs().refused().for_each(|line| eprintln!("{line}"));
}
