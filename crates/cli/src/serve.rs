//! `greenwave serve`: a server on our own TCP/IP, for ordinary clients.
//!
//! On a TAP device the clients are those of the kernel at its other end:
//! `curl` and `wrk` as they are. On an interface they are the network's, and
//! the kernel keeps its own address there. Until ctrl-C; then it says what
//! happened.

use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ::load::Synthetic;
use clap::ValueEnum;
use host::Monotonic;
use net::Device;
use net::device::fault::Rates;
use net::device::merged::Merged;
use net::stack::{Config as StackConfig, ListenOptions};
use net::steer;
use queueing::CoreId;
use runtime::app::{Echo, Http};
use runtime::mode::{Classifiers, Mode, Policy};
use runtime::shard::{Config, Stats};
use runtime::steer::{Counts, Steered, over_one, over_queues};
use runtime::threads::{self, Workers};
use runtime::{App, Shard};
use sched::dispatch::{Params, Steering, by_name};

use crate::device::{self, Kind, Open};
use crate::options::{Cidr, Steer, secret};
use crate::table::{Table, micros};
use crate::{Error, check, classify};

/// Serve on a network device through our own TCP/IP, until ctrl-C.
#[derive(clap::Args)]
pub struct Args {
    /// Where frames come from (needs root, but for captures):
    /// tap:NAME[,queues=N], a new TAP device;
    /// xdp:INTERFACE[,mode=native|skb][,zerocopy][,queues=N][,busy-poll]
    /// [,hugepages], shared with the kernel by AF_XDP;
    /// packet:INTERFACE[,queues=N][,fanout=flow|queue], by packet sockets;
    /// pcap:FILE[,fast], a capture played back.
    #[arg(long, value_name = "KIND:NAME", verbatim_doc_comment)]
    device: String,
    /// The server's address and its subnet, such as 10.77.0.2/24.
    #[arg(long, value_name = "ADDRESS/PREFIX")]
    addr: Cidr,
    /// The kernel's end of a TAP device [default: the subnet's first other].
    #[arg(long, value_name = "ADDRESS")]
    host_addr: Option<Ipv4Addr>,
    /// Next hop for other subnets [default: the kernel's end, or none].
    #[arg(long, value_name = "ADDRESS")]
    gateway: Option<Ipv4Addr>,
    /// Where to listen.
    #[arg(long, default_value_t = 80, value_parser = clap::value_parser!(u16).range(1..))]
    port: u16,
    /// What to serve.
    #[arg(long, value_enum, default_value = "http")]
    app: Serves,
    /// Who goes next: none, lns, darc, adps or ideal.
    #[arg(long, default_value = "adps")]
    mode: Mode,
    /// Who is urgent: a policy file (see `greenwave check`).
    #[arg(long, value_name = "FILE")]
    policy: Option<PathBuf>,
    /// In the mode's place: fcfs, strict, edf, weighted or darc.
    #[arg(long, value_name = "POLICY")]
    dispatch: Option<String>,
    /// Worker threads; 0: the stack's own thread serves.
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u16).range(0..=256))]
    workers: u16,
    /// Stacks, each with a thread and the flows that hash to it.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=128))]
    shards: u16,
    /// Who serves these levels: high=0 or 4-7=1,2; may be repeated.
    #[arg(long, value_name = "LEVELS=WORKERS")]
    steer: Vec<Steer>,
    /// Keep the stack's thread and each worker on a core of its own.
    #[arg(long)]
    pin: bool,
    /// Write every frame to this file, for Wireshark.
    #[arg(long, value_name = "FILE")]
    pcap: Option<PathBuf>,
    /// Put a bad path before the device, such as loss=1%,delay=5ms.
    #[arg(long, value_name = "FAULTS")]
    fault: Option<Rates>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Serves {
    /// GET / and /bytes/N, POST sends its body back.
    Http,
    /// Sends back what comes.
    Echo,
    /// Holds a core as long as the request asks.
    Synthetic,
}

/// Serves until interrupted.
///
/// # Errors
/// Anything that keeps the server from starting.
pub fn run(args: &Args) -> Result<ExitCode, Error> {
    let kind: Kind = args.device.parse()?;
    let (host_addr, gateway) = neighbors(args, &kind)?;
    let classifiers = match &args.policy {
        Some(path) => check::load(path)?,
        None if matches!(args.app, Serves::Synthetic) => classify::by_tag(),
        None => Classifiers::default(),
    };
    let policies =
        (0..args.shards).map(|_| policy(args, classifiers.clone())).collect::<Result<Vec<_>, _>>()?;
    if let Some(path) = &args.pcap {
        Error::unless_writable(path)?;
    }
    let Open { devices, mac, mtu, held, over, how } = kind.open(args.addr, host_addr)?;
    let secret = secret()?;
    // Locally administered, and another one each time: no stale ARP entry fits it.
    let made_up = [2, secret[0] ^ secret[8], secret[1], secret[2], secret[3], secret[4]];
    let mut stack =
        StackConfig::new(mac.unwrap_or(made_up), args.addr.addr, args.addr.prefix, self::secret()?);
    stack.gateway = gateway;
    stack.mtu = mtu;
    let how = how.map_or(String::new(), |how| format!(" ({how})"));
    let end = match kind.has_kernel_end() {
        true => format!("the kernel's end is {host_addr}"),
        false => "other addresses are the kernel's".to_owned(),
    };
    let place = Place { args, stack, policies, held, over, how, end };
    // One file takes what passes one place.
    let queues = match args.pcap {
        None if devices.len() == usize::from(args.shards) => devices.into_iter().map(|d| vec![d]).collect(),
        _ => vec![devices],
    };
    let wrap = |queues| device::wrap(Merged::new(queues), args.fault, args.pcap.as_deref());
    place.serve_on(queues.into_iter().map(wrap).collect::<Result<_, _>>()?)
}

/// The kernel's end and the next hop, as asked or by default.
fn neighbors(args: &Args, kind: &Kind) -> Result<(Ipv4Addr, Option<Ipv4Addr>), Error> {
    if args.host_addr.is_some() && !kind.has_kernel_end() {
        let what = format!("--host-addr is the kernel's end of a TAP device, and {kind} has none");
        return Err(Error::new(what).advice("without --host-addr"));
    }
    let is_neighbor = |addr| args.addr.holds(addr) && addr != args.addr.addr;
    let stranger =
        |name, addr| format!("{name} {addr} is not another host's address in the subnet of {}", args.addr);
    let host_addr = args.host_addr.unwrap_or_else(|| args.addr.first_other());
    if !is_neighbor(host_addr) {
        let advice = format!("--host-addr {}", args.addr.first_other());
        return Err(Error::new(stranger("host-addr", host_addr)).advice(advice));
    }
    let gateway = args.gateway.or(kind.has_kernel_end().then_some(host_addr));
    match gateway {
        Some(gateway) if !is_neighbor(gateway) => {
            Err(Error::new(stranger("gateway", gateway)).advice(format!("--gateway {host_addr}")))
        }
        gateway => Ok((host_addr, gateway)),
    }
}

/// What the mode makes of the classifiers, and what was asked for instead.
fn policy(args: &Args, classifiers: Classifiers) -> Result<Policy, Error> {
    let workers = usize::from(args.workers.max(1));
    let params = Params::new(workers, TASKS);
    let asked = [classifiers.driver.is_some(), classifiers.transport.is_some()];
    let mut policy = args.mode.policy(classifiers, &params, steering(args, workers)?);
    let asks = [policy.driver.is_some(), policy.transport.is_some()];
    if args.policy.is_some()
        && let Some(layer) = (0..2).find(|&layer| asked[layer] && !asks[layer])
    {
        let what = format!("mode {} never asks the {}'s rules", args.mode, ["driver", "transport"][layer]);
        return Err(
            Error::new(format!("{what}, so --policy would mean less than it says")).advice("--mode adps")
        );
    }
    if let Some(name) = &args.dispatch {
        policy.dispatch = by_name(name, &params).map_err(|e| Error::new(format!("dispatch {e}")))?;
    }
    Ok(policy)
}

fn steering(args: &Args, workers: usize) -> Result<Steering, Error> {
    if args.steer.is_empty() {
        return Ok(Steering::all(workers));
    }
    if args.workers == 0 {
        return Err(
            Error::new("--steer needs workers to choose from, and --workers is 0").advice("--workers 2")
        );
    }
    if !args.mode.steers() {
        let what = format!("mode {} lets every worker serve everything, so --steer means nothing", args.mode);
        return Err(Error::new(what).advice("--mode adps"));
    }
    let lists = args.steer.iter().map(|steer| (steer.levels.as_str(), steer.workers.as_slice()));
    Steering::from_lists(workers, lists).map_err(|e| Error::new(e.to_string()))
}

/// Says where threads must share a core.
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
    let pinned = if args.pin { "; pinned, some share one" } else { "" };
    eprintln!(
        "note: {threads} each want a core, and there are {cores}{pinned}; --shards 1 --workers 0 takes one"
    );
}

/// Keeps this thread on the core; it runs where it can when that is refused.
fn pin(core: CoreId) {
    if let Err(e) = host::affinity::pin_nth(core) {
        eprintln!("note: --pin: core {} is not for us: {e}", core.0);
    }
}

/// A server that has its device.
struct Place<'a> {
    args: &'a Args,
    stack: StackConfig,
    /// Received frames that the device can do without.
    held: Option<usize>,
    /// One for each shard.
    policies: Vec<Policy>,
    /// Nothing more will come.
    over: Arc<AtomicBool>,
    /// How the device was opened, in brackets, and who else is there.
    how: String,
    end: String,
}

impl Place<'_> {
    /// Over one device, or one for each shard.
    fn serve_on<D: Device + Send>(self, devices: Vec<D>) -> Result<ExitCode, Error>
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
            self.until_interrupted(vec![(shard, device)])?.iter().for_each(summary);
            return Ok(ExitCode::SUCCESS);
        }
        let steering = steer::Steering::new(shards, steer::FlowHash::Keyed(secret()?));
        let devices = match devices.len() {
            1 => over_one(devices.remove(0), steering, LINK_FRAMES),
            _ => over_queues(devices, steering, LINK_FRAMES),
        };
        let meters: Vec<_> = devices.iter().map(Steered::meter).collect();
        let mut served = Vec::new();
        for (shard, device) in (0..shards).zip(devices) {
            let place = steer::Place { steering, shard };
            let policy = self.policies.remove(0);
            served.push((self.shard(policy, Some(place), &app)?, device));
        }
        let stats = self.until_interrupted(served)?;
        for (number, (stats, meter)) in stats.iter().zip(meters).enumerate() {
            println!("\nshard {number}: {}", frames(meter.read()));
            summary(stats);
        }
        Ok(ExitCode::SUCCESS)
    }

    /// A shard that listens.
    fn shard<D: Device, A: App>(
        &self,
        policy: Policy,
        place: Option<steer::Place>,
        app: &Arc<A>,
    ) -> Result<Shard<D, A>, Error> {
        let workers = usize::from(self.args.workers.max(1));
        let stack = StackConfig { place, ..self.stack.clone() };
        let mut config = Config::new(stack, policy, workers);
        config.rx_frames_max = self.held.map_or(config.rx_frames_max, |held| held.min(config.rx_frames_max));
        let mut shard = Shard::new(config, app.clone());
        let listening = shard.stack().listen(self.args.port, ListenOptions::default());
        listening.map_err(|e| Error::new(format!("port {}: {e:?}", self.args.port)))?;
        Ok(shard)
    }

    /// Serves until ctrl-C, or until nothing more will come.
    fn until_interrupted<D: Device + Send, A: App>(
        &self,
        shards: Vec<(Shard<D, A>, D)>,
    ) -> Result<Vec<Stats>, Error>
    where
        D::Frame: Send,
    {
        let Self { args, over, how, end, .. } = self;
        let (addr, port, mode) = (args.addr, args.port, args.mode);
        let dispatch = args.dispatch.as_ref().map_or(String::new(), |name| format!(", dispatch {name}"));
        let several = if args.shards > 1 { format!(", {} shards", args.shards) } else { String::new() };
        println!(
            "listening on {}:{port}, {}{how}, mode {mode}{dispatch}{several}; {end}",
            addr.addr, args.device
        );
        eprintln!("ctrl-C ends");
        note_cores(args);
        let workers = if args.workers == 0 { Workers::Inline } else { Workers::Threads };
        let pin = args.pin.then_some(pin as fn(CoreId));
        let stop = Arc::new(AtomicBool::new(false));
        let interrupted = host::interrupt::flag();
        let stats = std::thread::scope(|scope| {
            let (stop_there, clock) = (stop.clone(), Arc::new(Monotonic::new()));
            let server = scope.spawn(|| threads::serve(shards, clock, stop_there, workers, pin));
            let done = || interrupted.load(Ordering::Relaxed) || over.load(Ordering::Relaxed);
            while !done() && !server.is_finished() {
                std::thread::park_timeout(LOOK_EVERY);
            }
            stop.store(true, Ordering::Relaxed);
            server.join()
        });
        stats.map_err(|_| Error::new("the server panicked; the message above says where"))
    }
}

/// What a shard's device counted, in words.
fn frames(counts: Counts) -> String {
    let Counts { own, handed, dropped, taken, forwarded } = counts;
    format!("frames: {own} own, {taken} taken, {handed} handed on ({dropped} dropped), {forwarded} forwarded")
}

/// How often the interrupt flag is looked at.
const LOOK_EVERY: std::time::Duration = std::time::Duration::from_millis(50);
/// Frames that may be under way from one shard to another.
const LINK_FRAMES: usize = 1024;
/// Tasks that the event queue holds.
const TASKS: usize = 65_536;

/// What happened, and where requests waited.
fn summary(stats: &Stats) {
    let c = &stats.counters;
    println!(
        "\n{} connections, {} requests, {} responses, {} resets",
        c.accepted, c.requests, c.responses, c.aborted
    );
    let mut table = Table::new(2, &["priority", "stage", "count", "p50", "p99", "p99.9"])
        .groups(&[("", 3), ("waited, µs", 3)]);
    for (class, stage, histogram) in stats.stages.iter().filter(|(.., histogram)| histogram.count() > 0) {
        let spans = [0.5, 0.99, 0.999].map(|q| micros(histogram.quantile(q)));
        let words = [class.to_owned(), stage.to_owned(), histogram.count().to_string()];
        table.row([words, spans].concat());
    }
    if c.requests > 0 {
        println!("{table}");
    }
}
