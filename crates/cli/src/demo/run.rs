//! One mode's run: client thread, server thread, in-memory link.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ::load::{Client, Plan, Report, RequestClass, Spread, Synthetic};
use host::Monotonic;
use net::device::memory::{self, MemoryDevice};
use net::stack::{Config as StackConfig, ListenOptions};
use queueing::{Arrivals, Clock, Distribution};
use runtime::shard::Config;
use runtime::threads::{self, ThreadSettings, WorkerThreads};
use runtime::{Mode, Shard};
use sched::dispatch::{Params, Steering};

use super::Settings;
use crate::{Error, classify, options};

/// Name of the latency-sensitive class.
pub(super) const LS: &str = "LS";

const SERVER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
const CLIENT: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const PORT: u16 = 7000;
/// Capacity of the link per direction, and of the receive buffer, in frames.
const FRAMES: usize = 16_384;
const TASKS: usize = 65_536;

/// Runs the workload under `mode`; calls `progress` with the elapsed milliseconds.
pub(super) fn run(
    mode: Mode,
    settings: &Settings,
    stop: &AtomicBool,
    mut progress: impl FnMut(u64),
) -> Result<Report, Error> {
    let plan = plan(settings);
    let (client_end, server_end) = memory::pair(FRAMES, 1514);
    let mac = |last: u8| [2, 0, 0, 0, 0, last];
    let stack =
        |last, addr, which| StackConfig::new(mac(last), addr, 24, options::secret_of(settings.seed, which));
    let target = SocketAddr::new(SERVER.into(), PORT);
    let mut client =
        Client::new(&plan, stack(1, CLIENT, 1), target).map_err(|e| Error::new(e.to_string()))?;
    let server = shard(mode, settings, stack(2, SERVER, 2))?;
    let workers = if settings.workers == 0 { WorkerThreads::Inline } else { WorkerThreads::Threads };
    let ended = Arc::new(AtomicBool::new(false));
    let served = std::thread::scope(|scope| {
        let server_stop = ended.clone();
        let shards = vec![(server, server_end)];
        scope.spawn(|| {
            threads::serve(shards, Arc::new(Monotonic::new()), server_stop, ThreadSettings::new(workers))
        });
        let driven = drive(&mut client, client_end, settings, stop, &mut progress);
        ended.store(true, Ordering::Relaxed);
        driven
    });
    served?;
    let mut report = client.report("host");
    report.machine = Some(settings.machine.to_string());
    Ok(report)
}

/// Few urgent requests among many others, in bursts; each kind has its own connections.
fn plan(settings: &Settings) -> Plan {
    let class = |name: &str, share: f64, kind: u8, priority: u8| RequestClass {
        name: name.to_owned(),
        share,
        service: Distribution::Constant(settings.service),
        length: 64,
        kind,
        priority,
    };
    let classes = vec![class(LS, settings.urgent, 1, 0), class("other", 1.0 - settings.urgent, 2, 7)];
    let arrivals = Arrivals::Burst {
        size: settings.burst.size,
        period: settings.burst.period,
        spacing: settings.spacing,
    };
    let mut plan = Plan::new(settings.connections, arrivals, classes);
    plan.spread = Spread::PerClass;
    let duration = settings.duration;
    plan.duration = Some(duration);
    plan.warmup = duration / 10;
    plan.seed = settings.seed;
    plan
}

fn shard(
    mode: Mode,
    settings: &Settings,
    stack: StackConfig,
) -> Result<Shard<MemoryDevice, Synthetic>, Error> {
    let workers = settings.workers.max(1);
    let mut params = Params::new(workers, TASKS);
    // Profiling ends within the warm-up.
    params.darc.samples = 5000;
    let policy = mode.policy(classify::by_tag(), &params, Steering::all(workers));
    let mut config = Config::new(stack, policy, workers);
    config.rx_frames_max = FRAMES;
    let mut shard = Shard::new(config, Arc::new(Synthetic::default()));
    let listening = shard.stack().listen(PORT, ListenOptions::default());
    listening.map_err(|e| Error::new(format!("port {PORT}: {e:?}")))?;
    Ok(shard)
}

/// Sends the plan's requests until all are settled or `stop` is set.
fn drive(
    client: &mut Client,
    mut device: MemoryDevice,
    settings: &Settings,
    stop: &AtomicBool,
    progress: &mut impl FnMut(u64),
) -> Result<(), Error> {
    let clock = Monotonic::new();
    let end_ms = settings.duration.as_nanos() / 1_000_000;
    let mut start = None;
    let mut told_ms = 0;
    while !client.is_done() {
        if stop.load(Ordering::Relaxed) {
            client.stop();
            break;
        }
        let now = clock.now();
        if !client.step(now, &mut device) {
            // Returns at once if the client has its own core; otherwise the server runs.
            std::thread::yield_now();
        }
        start = start.or(client.started());
        let ms = start.map_or(0, |start| now.since(start).as_nanos() / 1_000_000);
        if ms >= told_ms + 50 {
            told_ms = ms;
            progress(ms.min(end_ms));
        }
    }
    match client.error() {
        Some(e) => Err(Error::new(e.to_string())),
        None => Ok(()),
    }
}
