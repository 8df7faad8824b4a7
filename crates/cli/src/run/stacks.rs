//! Stacks with open devices, while a program runs on them.

use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, ExitStatus};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use classify::rules::Observed;
use drivers::afxdp::{Claimant, Claims};
use host::Monotonic;
use host::signals;
use hostbpf::guard::ReportCounter;
use net::Device;
use net::stack::Config as StackConfig;
use net::steer::{FlowSteering, ShardIndex};
use queueing::{Clock, CoreId, Span};
use runtime::mode::{Classifiers, Mode};
use runtime::shard::ShardGuard;
use runtime::socket_proxy::{self, Counters, SnapshotEndpoints, SocketProxy};
use runtime::steer::FrameMeter;
use rustix::process::{Pid, Resource, Rlimit, Signal, getrlimit, setrlimit};
use sched::dispatch::{self, Params};
use shim::VARIABLE;
use shim::preload::Library;
use shim::process_tree::ProcessTree;
use wire::Malformed;

use super::bypass::Bypass;
use super::live_view::LiveState;
use super::socket_adapter::SocketAdapter;
use super::{Args, read};
use crate::address::{Addresses, list};
use crate::config_file::Arguments;
use crate::control::{self, Control};
use crate::device::{DeviceKind, LinkMonitor};
use crate::sandbox::Sandbox;
use crate::serve::address_setup::settle;
use crate::serve::reload::{Reads, Reload};
use crate::ui::Ui;
use crate::{Error, guard_args, malformed_summary, panics, shard_args, traces};

/// State once the devices are open.
pub(super) struct Stacks<'a> {
    pub(super) args: &'a Args,
    /// The command line they were read from.
    pub(super) arguments: &'a Arguments,
    pub(super) program: PathBuf,
    pub(super) lib: Library,
    /// Finds sockets that bypass the stack.
    pub(super) bypass: Bypass,
    /// Privileges to drop once the program runs.
    pub(super) sandbox: Sandbox,
    pub(super) kind: DeviceKind,
    /// The device's interface.
    pub(super) interface: LinkMonitor,
    pub(super) addresses: Addresses,
    pub(super) stack: StackConfig,
    pub(super) classifiers: Classifiers,
    /// Observations of the classifiers.
    pub(super) observed: Arc<Observed>,
    /// One for each stack.
    pub(super) guards: Vec<Option<ShardGuard>>,
    /// Counts reports of the program's own queue.
    pub(super) reports: ReportCounter,
    /// Likewise.
    pub(super) adapters: Vec<SocketAdapter>,
    pub(super) steering: FlowSteering,
    /// Meters of the devices, where there are several.
    pub(super) meters: Vec<FrameMeter>,
    /// Received frames that may be held without starving the device.
    pub(super) held: Option<usize>,
    /// Open mode of the device, in brackets.
    pub(super) how: String,
    /// Claims frames for us, on an interface that is shared by frame.
    pub(super) claimant: Option<Claimant>,
    /// The live view, if any.
    pub(super) ui: Option<Ui>,
    /// The control socket, if any.
    pub(super) control: Option<Control>,
}

/// A stack and its device.
pub(super) type Server<D> = (SocketProxy<D, SocketAdapter>, D);

/// Maximum number of received frames queued for TCP.
const FRAMES_MAX: usize = 16_384;
/// Interval of checks of the program and the interrupt flag.
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// Maximum time for a program to end after ctrl-C before it is killed.
const GRACE: Span = Span::from_secs(5);
/// Maximum time for data of ended programs to reach their peers.
const FLUSH: Span = Span::from_secs(2);

impl Stacks<'_> {
    /// Runs the program over `devices`, one for each stack; returns its exit status.
    ///
    /// # Errors
    /// The program cannot start; a stack dies.
    pub(super) fn serve_on<D: Device + Send>(mut self, devices: Vec<D>) -> Result<ExitCode, Error>
    where
        D::Frame: Send,
    {
        let mut servers = self.servers(devices);
        let interrupted = host::signals::flag();
        // Stdout is the program's.
        let Some(found) = settle(&mut servers, &self.addresses, interrupted, true)? else {
            return Ok(ExitCode::SUCCESS);
        };
        if let (Some(claimant), true) = (&self.claimant, self.addresses.are_found()) {
            claimant.claim(&Claims { addresses: found.every.clone(), ports: Vec::new() })?;
            self.interface.renew();
        }
        let args = self.args;
        let first = &mut servers[0].0;
        let lease = first.stack().lease().copied();
        let routes = self.addresses.routes(&self.kind, found.every, lease.as_ref());
        self.bypass.set_routes(&routes);
        first.programs().set_routes(routes);
        let several = if args.shards > 1 { format!(", {} stacks", args.shards) } else { String::new() };
        let (program, served, device) = (self.program.display(), list(&found.served), &args.link.device);
        errln!("{program} on {served}, {device}{}{several}; ctrl-C ends", self.how);
        let mut command = Command::new(&self.program);
        let variable = first.programs().variable();
        self.lib.preload(&mut command).args(&args.program[1..]).env(VARIABLE, variable);
        let traces = args.traces.open("run")?;
        let mut programs = start(&mut command, self.bypass.process())?;
        self.sandbox.enter(self.ui.as_ref())?;
        let traces = traces.map(traces::Writer::start).transpose()?;
        let is_watched = self.ui.is_some() || traces.is_some();
        let slow = args.traces.limits(self.ui.is_some());
        let ui = self.ui.take();
        let mut watched = is_watched.then(|| LiveState::new(ui, traces, device.clone(), slow, servers.len()));
        let reads = Reads { arguments: self.arguments, policy: args.link.policy.is_some(), read };
        let mut reload = Reload::new(reads, self.observed.clone(), servers.len());
        let watching = Watching {
            watched: watched.as_mut(),
            control: self.control.as_mut(),
            reload: &mut reload,
            interface: &mut self.interface,
            bypass: &mut self.bypass,
        };
        let status = serve(&mut servers, args, interrupted, watching, &mut programs)?;
        self.bypass.report_new();
        let full = summary(&mut servers, &self.meters, args.guard.is_on());
        self.bypass.summary(full);
        if !args.queue_reports.is_empty() && self.reports.steps() == 0 {
            let files: Vec<_> = args.queue_reports.iter().map(|file| file.display().to_string()).collect();
            errln!(
                "note: no service reported its queue in {}; the guard used its own only",
                files.join(", ")
            );
        }
        watched
            .into_iter()
            .for_each(|watched| watched.end(Monotonic::new().now(), &mut servers, &self.bypass));
        reload.print();
        self.interface.end(device, "run")?;
        Ok(exit(status, interrupted.load(Ordering::Relaxed), self.bypass.is_any()))
    }

    /// The stacks, before their first step.
    fn servers<D: Device>(&mut self, devices: Vec<D>) -> Vec<Server<D>> {
        let frames_max = self.held.map_or(FRAMES_MAX, |held| held.min(FRAMES_MAX));
        let slow = self.args.traces.limits(self.ui.is_some());
        let adapters = std::mem::take(&mut self.adapters).into_iter();
        let each = adapters.zip(std::mem::take(&mut self.guards)).zip(devices);
        let server = |(shard, ((adapter, guard), device))| {
            let shard_index = (self.args.shards > 1).then_some(ShardIndex { steering: self.steering, shard });
            let stack = StackConfig { shard_index, ..self.stack.clone() };
            let all = dispatch::Steering::all(1);
            let policy = Mode::Learned.policy(self.classifiers.clone(), &Params::new(1, 1), all);
            let mut proxy = SocketProxy::new(stack, policy, frames_max, adapter);
            proxy.set_slow(slow);
            proxy.set_protocols(self.classifiers.spoken.clone());
            proxy.set_guard(guard, self.args.until.into());
            proxy.set_receive_percent(self.args.guard.rx_cpu_limit());
            (proxy, device)
        };
        (0..).zip(each).map(server).collect()
    }
}

/// Observers of the running stacks, and the reload.
struct Watching<'a, 'b> {
    watched: Option<&'a mut LiveState>,
    control: Option<&'a mut Control>,
    reload: &'a mut Reload<'b>,
    interface: &'a mut LinkMonitor,
    bypass: &'a mut Bypass,
}

/// The fate of a program.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    Runs,
    /// Ends; it is killed if it takes too long.
    Ends,
    Dies,
}

/// Starts the program. Its processes wait for the stack if they connect earlier.
fn start(command: &mut Command, other: Option<Pid>) -> Result<ProcessTree, Error> {
    let programs = ProcessTree::start(command, other).map_err(|e| {
        Error::file(Path::new(command.get_program()), &e).advice("start it without greenwave")
    })?;
    raise_limit();
    Ok(programs)
}

/// Serves until no process of the program is left; returns its exit status.
fn serve<D: Device + Send>(
    servers: &mut [Server<D>],
    args: &Args,
    interrupted: &AtomicBool,
    Watching { mut watched, mut control, reload, interface, bypass }: Watching<'_, '_>,
    programs: &mut ProcessTree,
) -> Result<Option<ExitStatus>, Error>
where
    D::Frame: Send,
{
    let seen = watched.as_ref().map_or(Vec::new(), |watched| watched.exchanges());
    let classifiers = reload.exchanges();
    let (clock, stop, mut is_lost) = (Monotonic::new(), AtomicBool::new(false), false);
    let status = std::thread::scope(|scope| {
        let mut threads = Vec::with_capacity(servers.len());
        for (number, (proxy, device)) in servers.iter_mut().enumerate() {
            let (seen, classifiers) = (seen.get(number), classifiers.get(number));
            let exchanges = SnapshotEndpoints {
                seen: seen.map(|hatch| &**hatch),
                classifiers: classifiers.map(|hatch| &**hatch),
            };
            let (clock, stop, spin) = (&clock, &stop, args.busy_poll);
            let core = args.pin.then_some(CoreId(number as u16));
            threads.push(scope.spawn(move || {
                core.into_iter().for_each(shard_args::pin);
                socket_proxy::serve(proxy, device, clock, stop, spin, exchanges)
            }));
        }
        let status = wait(programs, &clock, || {
            bypass.report_new();
            watched.iter_mut().for_each(|watched| watched.poll(clock.now(), bypass));
            control.iter_mut().for_each(|control| control.poll(clock.now()));
            if let Some(outcome) = reload.poll(control.as_deref_mut()) {
                control::report_reload(control.as_deref_mut(), clock.now(), &outcome);
            }
            is_lost = interface.is_lost(clock.now());
            match threads.iter().any(std::thread::ScopedJoinHandle::is_finished) {
                true => Fate::Dies,
                false if is_lost || interrupted.load(Ordering::Relaxed) => Fate::Ends,
                false => Fate::Runs,
            }
        });
        stop.store(true, Ordering::Relaxed);
        let ended: Vec<_> = threads.into_iter().map(|thread| panics::join("the stack", thread)).collect();
        ended.into_iter().collect::<Result<(), _>>().map_err(Error::new).map(|()| status)
    })?;
    let end = clock.now() + FLUSH;
    while !is_lost
        && clock.now() < end
        && !signals::is_urgent()
        && !servers.iter().all(|(proxy, _)| proxy.is_quiet())
    {
        let mut some = false;
        servers.iter_mut().for_each(|(proxy, device)| some |= proxy.step(clock.now(), device));
        if !some {
            servers[0].1.wait(Span::from_millis(1));
        }
    }
    Ok(status)
}

/// Raises the limit of descriptors to the maximum: each connection takes one. The program has been
/// started and keeps its own limit. On failure, connections beyond the limit are refused and
/// counted.
fn raise_limit() {
    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
}

/// Waits until all processes of the program have ended, or ends them as `fate` says, which is
/// called each time.
fn wait(programs: &mut ProcessTree, clock: &Monotonic, mut fate: impl FnMut() -> Fate) -> Option<ExitStatus> {
    let mut kill_at = None;
    while programs.run() {
        match (fate(), kill_at) {
            (Fate::Runs, _) => {}
            (Fate::Dies, _) => programs.signal(Signal::KILL),
            (Fate::Ends, Some(at)) if clock.now() >= at || signals::is_urgent() => {
                programs.signal(Signal::KILL)
            }
            (Fate::Ends, at) => {
                kill_at = at.or_else(|| Some(clock.now() + GRACE));
                programs.end();
            }
        }
        std::thread::park_timeout(LOOK_EVERY);
    }
    programs.status()
}

/// The program's exit status in the shell's convention; ctrl-C is its normal end. 0 becomes 1 if a
/// socket bypassed the stack.
fn exit(status: Option<ExitStatus>, interrupted: bool, is_bypassed: bool) -> ExitCode {
    let code = match status {
        _ if interrupted => 0,
        Some(status) => status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(2),
        None => 2,
    };
    let code = if code == 0 { i32::from(is_bypassed) } else { code };
    ExitCode::from(u8::try_from(code).unwrap_or(2))
}

/// Prints the summary of all stacks together, and of each if there are several; returns the number
/// of connections refused because the queue was full.
fn summary<D: Device>(servers: &mut [Server<D>], meters: &[FrameMeter], is_guarded: bool) -> u64 {
    let (mut c, mut untaken, mut udp_full, mut refused) =
        (Counters::default(), [0; 3], 0, [0; Malformed::ALL.len()]);
    for (proxy, _) in servers.iter_mut() {
        c.add(proxy.counters());
        let its = &proxy.programs().untaken;
        untaken.iter_mut().zip(its).for_each(|(sum, count)| *sum += count);
        let stack = proxy.stack().counters();
        udp_full += stack.udp_full;
        refused.iter_mut().zip(&stack.malformed).for_each(|(sum, count)| *sum += count);
    }
    let [no_listener, full, no_fd] = untaken;
    errln!(
        "{} connections, {} reset; {} bytes in, {} out; refused: {no_listener} no listener, {full} backlog full, {no_fd} out of descriptors",
        c.offered,
        c.reset,
        c.bytes_in,
        c.bytes_out
    );
    if c.opened + c.connects_failed > 0 {
        errln!("{} outgoing connections, {} failed", c.opened, c.connects_failed);
    }
    if c.datagrams_in + c.datagrams_out + c.datagrams_lost + c.datagrams_unmatched + c.datagrams_unsent > 0 {
        let full = c.datagrams_lost + udp_full;
        errln!(
            "{} datagrams in, {} out; dropped: {full} program too slow, {} no receiver, {} no route",
            c.datagrams_in,
            c.datagrams_out,
            c.datagrams_unmatched,
            c.datagrams_unsent
        );
    }
    malformed_summary::line(&refused).into_iter().for_each(|line| errln!("{line}"));
    if is_guarded {
        errln!("{}", guard_args::shed(&c.guard));
    }
    for (number, ((proxy, _), meter)) in servers.iter().zip(meters).enumerate() {
        let c = proxy.counters();
        errln!("stack {number}: {} connections, {}", c.offered + c.opened, meter.read());
    }
    // All stacks share one shim server.
    servers[0].0.programs().refused().for_each(|line| errln!("{line}"));
    full
}
