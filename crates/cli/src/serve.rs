//! `greenwave serve`: a server on our own TCP/IP, for ordinary clients.
//!
//! On a TAP device the clients are those of the kernel at its other end:
//! `curl` and `wrk` as they are. Until ctrl-C; then it says what happened.

use std::fs::File;
use std::io::BufWriter;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ::load::Synthetic;
use clap::ValueEnum;
use host::{Monotonic, Tap};
use net::Device;
use net::device::pcap::Tee;
use net::stack::{Config as StackConfig, ListenOptions};
use queueing::CoreId;
use runtime::app::{Echo, Http};
use runtime::mode::{Classifiers, Mode, Policy};
use runtime::shard::{Config, Stats};
use runtime::threads::{self, Workers};
use runtime::{App, Shard};
use sched::dispatch::{Params, Steering, by_name};

use crate::options::{Cidr, Steer, secret};
use crate::table::{Table, micros};
use crate::{Error, check, classify};

/// Serve on a network device through our own TCP/IP, until ctrl-C.
#[derive(clap::Args)]
pub struct Args {
    /// Where frames come from: tap:NAME makes a TAP device (needs root).
    #[arg(long, value_name = "tap:NAME")]
    device: String,
    /// The server's address and its subnet, such as 10.77.0.2/24.
    #[arg(long, value_name = "ADDRESS/PREFIX")]
    addr: Cidr,
    /// The kernel's end [default: the subnet's first other address].
    #[arg(long, value_name = "ADDRESS")]
    host_addr: Option<Ipv4Addr>,
    /// Next hop for other subnets [default: the kernel's end].
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
    /// Who serves these levels: high=0 or 4-7=1,2; may be repeated.
    #[arg(long, value_name = "LEVELS=WORKERS")]
    steer: Vec<Steer>,
    /// Keep the stack's thread and each worker on a core of its own.
    #[arg(long)]
    pin: bool,
    /// Write every frame to this file, for Wireshark.
    #[arg(long, value_name = "FILE")]
    pcap: Option<PathBuf>,
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
    let name = args.device.strip_prefix("tap:").ok_or_else(|| {
        Error::new(format!("device {:?} is not tap:NAME, the only kind there is", args.device))
            .advice("--device tap:gw0")
    })?;
    let host_addr = args.host_addr.unwrap_or_else(|| args.addr.first_other());
    if !args.addr.holds(host_addr) || host_addr == args.addr.addr {
        let what =
            format!("host-addr {host_addr} is not another host's address in the subnet of {}", args.addr);
        return Err(Error::new(what).advice(format!("--host-addr {}", args.addr.first_other())));
    }
    let gateway = args.gateway.unwrap_or(host_addr);
    if !args.addr.holds(gateway) || gateway == args.addr.addr {
        let what = format!("gateway {gateway} is not another host's address in the subnet of {}", args.addr);
        return Err(Error::new(what).advice(format!("--gateway {host_addr}")));
    }
    let classifiers = match &args.policy {
        Some(path) => check::load(path)?,
        None if matches!(args.app, Serves::Synthetic) => classify::by_tag(),
        None => Classifiers::default(),
    };
    let policy = policy(args, classifiers)?;
    let file =
        args.pcap.as_ref().map(|path| File::create(path).map_err(|e| Error::file(path, &e))).transpose()?;
    not_ours(args.addr.addr)?;
    not_ours(host_addr)?;
    let tap = Tap::create(name)?;
    tap.up(host_addr, args.addr.prefix)?;
    let place = Place { args, gateway, host_addr, policy };
    match file {
        None => place.serve_on(tap),
        Some(file) => {
            let tee = Tee::new(tap, BufWriter::new(file)).map_err(|e| Error::new(format!("pcap: {e}")))?;
            place.serve_on(tee)
        }
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
    let (workers, cores) = (usize::from(args.workers), host::Machine::this().cores);
    if workers < cores {
        return;
    }
    let pinned = if args.pin { "; pinned, some share one" } else { "" };
    eprintln!(
        "note: the stack and {workers} workers each want a core, and there are {cores}{pinned}; --workers 0 takes one"
    );
}

/// Keeps this thread on the core; it runs where it can when that is refused.
fn pin(core: CoreId) {
    if let Err(e) = host::affinity::pin_nth(core) {
        eprintln!("note: --pin: core {} is not for us: {e}", core.0);
    }
}

/// Refuses an address that this machine has already: the kernel would answer
/// for it, or send answers elsewhere.
fn not_ours(addr: Ipv4Addr) -> Result<(), Error> {
    if host::address::is_ours(addr) {
        let what = format!("address {addr} is in use: this machine has it already");
        return Err(Error::new(what).advice("--addr in another subnet, such as 10.78.0.2/24"));
    }
    Ok(())
}

/// A server that has its device.
struct Place<'a> {
    args: &'a Args,
    gateway: Ipv4Addr,
    host_addr: Ipv4Addr,
    policy: Policy,
}

impl Place<'_> {
    fn serve_on<D: Device + Send>(self, device: D) -> Result<ExitCode, Error>
    where
        D::Frame: Send,
    {
        match self.args.app {
            Serves::Http => self.serve(device, Http),
            Serves::Echo => self.serve(device, Echo),
            Serves::Synthetic => self.serve(device, Synthetic::default()),
        }
    }

    fn serve<D: Device + Send, A: App>(self, device: D, app: A) -> Result<ExitCode, Error>
    where
        D::Frame: Send,
    {
        let Self { args, gateway, host_addr, policy } = self;
        let secret = secret()?;
        // Locally administered, and another one each time: no stale ARP entry fits it.
        let mac = [2, secret[0] ^ secret[8], secret[1], secret[2], secret[3], secret[4]];
        let mut stack = StackConfig::new(mac, args.addr.addr, args.addr.prefix, self::secret()?);
        stack.gateway = Some(gateway);
        let workers = usize::from(args.workers.max(1));
        let mut shard = Shard::new(Config::new(stack, policy, workers), Arc::new(app));
        let listening = shard.stack().listen(args.port, ListenOptions::default());
        listening.map_err(|e| Error::new(format!("port {}: {e:?}", args.port)))?;
        let (addr, port, mode) = (args.addr, args.port, args.mode);
        let dispatch = args.dispatch.as_ref().map_or(String::new(), |name| format!(", dispatch {name}"));
        println!(
            "listening on {}:{port}, {}, mode {mode}{dispatch}; the kernel's end is {host_addr}",
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
            let server =
                scope.spawn(|| threads::serve(vec![(shard, device)], clock, stop_there, workers, pin));
            while !interrupted.load(Ordering::Relaxed) && !server.is_finished() {
                std::thread::park_timeout(LOOK_EVERY);
            }
            stop.store(true, Ordering::Relaxed);
            server.join()
        });
        let stats = stats.map_err(|_| Error::new("the server panicked; the message above says where"))?;
        stats.iter().for_each(summary);
        Ok(ExitCode::SUCCESS)
    }
}

/// How often the interrupt flag is looked at.
const LOOK_EVERY: std::time::Duration = std::time::Duration::from_millis(50);
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
