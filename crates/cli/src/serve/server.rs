//! A server with an open device: it listens, serves, and prints a summary.

use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ::load::Synthetic;
use classify::rules::Observed;
use drivers::afxdp::{Claimant, Claims};
use host::Monotonic;
use net::Device;
use net::stack::{Config as StackConfig, ListenOptions, UdpOptions};
use net::steer;
use queueing::{Clock, CoreId};
use runtime::app::{Echo, Http};
use runtime::mode::ModeSettings;
use runtime::shard::{Config, Stats};
use runtime::steer::{LINK_FRAMES, Steered, over_one, over_queues};
use runtime::threads::{self, ThreadSettings, WorkerThreads};
use runtime::{App, Shard};

use super::address_setup::settle;
use super::live_view::LiveState;
use super::reload::{Reads, Reload};
use super::{Args, Proto, Serves, summary};
use crate::address::{Addresses, list};
use crate::config_file::Arguments;
use crate::control::{self, Control};
use crate::device::LinkMonitor;
use crate::report::ResultHeader;
use crate::sandbox::Sandbox;
use crate::ui::Ui;
use crate::{Error, panics, shard_args, traces};

/// Notes that threads must share a core.
fn note_cores(args: &Args) {
    let (shards, cores) = (usize::from(args.shards), host::Machine::this().cores);
    let workers = shards * usize::from(args.workers);
    if shards + workers <= cores {
        return;
    }
    let threads = match shards {
        1 => format!("the stack and {workers} workers"),
        _ => format!("{shards} shards and {workers} workers"),
    };
    let pinned = if args.pin { " permanently (--pin)" } else { "" };
    errln!(
        "note: {threads} on {cores} cores: some share a core{pinned}; --shards 1 --workers 0 needs one core"
    );
}

/// A server with an open device.
pub(super) struct Server<'a> {
    pub(super) args: &'a Args,
    /// The command line they were read from.
    pub(super) arguments: &'a Arguments,
    /// Privileges to drop once it listens.
    pub(super) sandbox: Sandbox,
    /// Header of the final JSON; the doctor could examine nothing by then.
    pub(super) header: Option<ResultHeader>,
    pub(super) addresses: Addresses,
    /// Claims frames for us, on an interface that is shared by frame.
    pub(super) claimant: Option<Claimant>,
    /// The device's interface.
    pub(super) interface: LinkMonitor,
    pub(super) stack: StackConfig,
    /// Received frames that may be held without starving the device.
    pub(super) held: Option<usize>,
    /// One for each shard.
    pub(super) policies: Vec<ModeSettings>,
    /// Observations of the classifiers.
    pub(super) observed: Arc<Observed>,
    /// True when no more frames will come.
    pub(super) over: Arc<AtomicBool>,
    /// Mode in which the device is open, and its other users; shown in brackets.
    pub(super) how: String,
    pub(super) end: String,
    /// The live view, if any.
    pub(super) ui: Option<Ui>,
    /// The control socket, if any.
    pub(super) control: Option<Control>,
}

impl Server<'_> {
    /// Serves over one device, or one for each shard.
    pub(super) fn serve_on<D: Device + Send>(self, devices: Vec<D>) -> Result<ExitCode, Error>
    where
        D::Frame: Send,
    {
        match self.args.app {
            Serves::Http => self.serve(devices, Http),
            Serves::Echo => self.serve(devices, Echo),
            Serves::Synthetic => self.serve(devices, Synthetic::default()),
        }
    }

    fn serve<D: Device + Send, A: App>(mut self, mut devices: Vec<D>, app: A) -> Result<ExitCode, Error>
    where
        D::Frame: Send,
    {
        let app = Arc::new(app);
        let shards = self.args.shards;
        if shards == 1 {
            let (device, policy) = (devices.remove(0), self.policies.remove(0));
            let shard = self.shard(policy, None, &app)?;
            let stats = self.until_interrupted(vec![(shard, device)])?;
            self.end(&stats, |_| {});
            return Ok(ExitCode::SUCCESS);
        }
        let steering = self.args.flow_hash.steering(shards)?;
        let devices = match devices.len() {
            1 => over_one(devices.remove(0), steering, LINK_FRAMES),
            _ => over_queues(devices, steering, LINK_FRAMES),
        };
        let meters: Vec<_> = devices.iter().map(Steered::meter).collect();
        let mut served = Vec::new();
        for (shard, device) in (0..shards).zip(devices) {
            let shard_index = steer::ShardIndex { steering, shard };
            let policy = self.policies.remove(0);
            served.push((self.shard(policy, Some(shard_index), &app)?, device));
        }
        let stats = self.until_interrupted(served)?;
        self.end(&stats, |number| outln!("\nshard {number}: {}", meters[number].read()));
        Ok(ExitCode::SUCCESS)
    }

    /// Prints the summary; `begin` goes before that of shard `number`.
    fn end(&self, stats: &[Stats], begin: impl Fn(usize)) {
        if let Some(header) = &self.header {
            return outln!("{:#}", summary::json(header, stats));
        }
        for (number, stats) in stats.iter().enumerate() {
            begin(number);
            summary::print(stats, self.args.proto, self.args.guard.is_on());
        }
    }

    /// A shard that does not listen yet.
    fn shard<D: Device, A: App>(
        &self,
        policy: ModeSettings,
        shard_index: Option<steer::ShardIndex>,
        app: &Arc<A>,
    ) -> Result<Shard<D, A>, Error> {
        let workers = usize::from(self.args.workers.max(1));
        let stack = StackConfig { shard_index, ..self.stack.clone() };
        let mut config = Config::new(stack, policy, workers);
        config.guard = self.args.guard.guard()?;
        config.slow = self.args.traces.limits(self.ui.is_some());
        config.budget.receive_percent = self.args.guard.rx_cpu_limit();
        config.rx_frames_max = self.held.map_or(config.rx_frames_max, |held| held.min(config.rx_frames_max));
        Ok(Shard::new(config, app.clone()))
    }

    /// Lets the shards complete their addresses, and listen; returns where. `None` when
    /// interrupted.
    fn listen<D: Device, A: App>(
        &self,
        shards: &mut [(Shard<D, A>, D)],
        interrupted: &AtomicBool,
    ) -> Result<Option<Vec<SocketAddr>>, Error> {
        let Some(found) = settle(shards, &self.addresses, interrupted, self.args.json)? else {
            return Ok(None);
        };
        if let (Some(claimant), true) = (&self.claimant, self.addresses.are_found()) {
            claimant.claim(&Claims { addresses: found.every, ports: Vec::new() })?;
        }
        let port = self.args.port;
        for (shard, _) in shards {
            let listening = match self.args.proto {
                Proto::Tcp => shard.stack().listen(port, ListenOptions::default()).map(drop),
                Proto::Udp => shard.stack().bind_udp(port, UdpOptions::default()).map(drop),
            };
            listening.map_err(|e| Error::new(format!("port {port}: {e:?}")))?;
        }
        Ok(Some(found.served.into_iter().map(|addr| SocketAddr::new(addr, port)).collect()))
    }

    /// Serves until ctrl-C, or until no more frames will come.
    ///
    /// # Errors
    /// The server cannot listen; a thread dies, or the interface is removed: then the whole server ends.
    fn until_interrupted<D: Device + Send, A: App>(
        &mut self,
        mut shards: Vec<(Shard<D, A>, D)>,
    ) -> Result<Vec<Stats>, Error>
    where
        D::Frame: Send,
    {
        let mut control = self.control.take();
        let mut interface = std::mem::take(&mut self.interface);
        let Self { args, over, how, end, ui, .. } = &*self;
        let interrupted = host::signals::flag();
        let Some(places) = self.listen(&mut shards, interrupted)? else { return Ok(Vec::new()) };
        interface.renew();
        let traces = args.traces.open("serve")?;
        self.sandbox.enter(ui.as_ref())?;
        let traces = traces.map(traces::Writer::start).transpose()?;
        let mode = args.mode;
        let by = if args.proto == Proto::Udp { ", datagrams" } else { "" };
        let dispatch = args.dispatch.as_ref().map_or(String::new(), |name| format!(", dispatch {name}"));
        let several = if args.shards > 1 { format!(", {} shards", args.shards) } else { String::new() };
        let device = &args.link.device;
        let listening = format!(
            "listening on {}, {device}{how}{by}, mode {mode}{dispatch}{several}; {end}",
            list(&places)
        );
        if args.json {
            errln!("{listening}")
        } else {
            outln!("{listening}")
        }
        errln!("ctrl-C ends");
        note_cores(args);
        let workers = if args.workers == 0 { WorkerThreads::Inline } else { WorkerThreads::Threads };
        let pin = args.pin.then_some(shard_args::pin as fn(CoreId));
        let slow = args.traces.limits(ui.is_some());
        let is_watched = ui.is_some() || traces.is_some();
        let mut live = is_watched.then(|| LiveState::new(ui.as_ref(), traces, device, slow, shards.len()));
        let snapshots = live.as_ref().map_or(Vec::new(), LiveState::exchanges);
        let reads =
            Reads { arguments: self.arguments, policy: args.link.policy.is_some(), read: super::read };
        let mut reload = Reload::new(reads, self.observed.clone(), shards.len());
        let classifiers = reload.exchanges();
        let threads = ThreadSettings {
            workers,
            pin,
            spin: args.busy_poll,
            hold: args.tx_coalesce,
            snapshots,
            classifiers,
        };
        let (stop, clock_here) = (Arc::new(AtomicBool::new(false)), Monotonic::new());
        let stats = std::thread::scope(|scope| {
            let (stop_there, clock) = (stop.clone(), Arc::new(Monotonic::new()));
            let server = scope.spawn(|| threads::serve(shards, clock, stop_there, threads));
            let done = || interrupted.load(Ordering::Relaxed) || over.load(Ordering::Relaxed);
            while !done() && !server.is_finished() && !interface.is_lost(clock_here.now()) {
                std::thread::park_timeout(LOOK_EVERY);
                live.iter_mut().for_each(|live| live.poll(clock_here.now()));
                control.iter_mut().for_each(|control| control.poll(clock_here.now()));
                if let Some(outcome) = reload.poll(control.as_mut()) {
                    control::report_reload(control.as_mut(), clock_here.now(), &outcome);
                }
            }
            stop.store(true, Ordering::Relaxed);
            panics::join("the server", server)
        });
        let mut stats = stats.map_err(Error::new)?;
        live.into_iter().for_each(|live| live.give_back(clock_here.now(), &mut stats));
        reload.print();
        interface.end(device, "serve").map(|()| stats)
    }
}

/// Interval of checks of the signal flags.
const LOOK_EVERY: std::time::Duration = std::time::Duration::from_millis(50);

#[cfg(test)]
mod tests;
