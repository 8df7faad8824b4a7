//! Clients: one host with greenwave's stack on as many cores as the server has.
//!
//! Each core has its own device queue and connections, in a closed loop. A frame that arrives on
//! another core's queue is forwarded ([`runtime::steer`]), for every server. All clients begin
//! together once all connections are open, and send until the last has measured.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use drivers::afxdp::AfXdp;
use host::{Monotonic, affinity};
use load::closed_loop::{ClosedLoopClient, Exchange};
use net::steer::{FlowHash, FlowSteering, ShardIndex};
use netlab::Namespace;
use queueing::{Clock, CoreId, Histogram, Span, Time};
use runtime::steer::{LINK_FRAMES, Steered, over_queues};

use super::core_assignment::QueueCores;
use crate::bench::baselines::PORT;
use crate::programs::SERVER;
use crate::{load_client, panics};

/// Address of the clients.
const CLIENT: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 3);

/// Clients with open device queues.
pub struct Clients {
    devices: Vec<Steered<AfXdp>>,
    steering: FlowSteering,
    mac: [u8; 6],
    cores: Vec<CoreId>,
    are_shared: bool,
}

/// Results of one exchange.
#[derive(Clone, Debug)]
pub struct ClientResults {
    pub answers: u64,
    pub span: Span,
    /// Cores that the server used.
    pub cores: f64,
    pub latency: Histogram,
    /// Connections closed before the end.
    pub broken: u64,
    /// Share of time in which the busiest client had work, 0..=1.
    pub busiest: f64,
}

/// State shared by the clients.
struct Course {
    all: usize,
    /// True if clients share cores.
    yields: bool,
    limit: Span,
    open: AtomicUsize,
    done: AtomicUsize,
    failed: AtomicBool,
}

/// One client.
struct Part {
    exchanger: ClosedLoopClient,
    is_open: bool,
    /// CPU time of the server at the start and at the end of the measurement.
    used: [Option<(Time, Span)>; 2],
    busy: Span,
}

/// Returns the CPU time of the server so far.
type Used<'a> = &'a (dyn Fn() -> Span + Sync);

impl Clients {
    /// Opens each queue of `device` in `namespace`.
    ///
    /// # Errors
    /// The reason why it cannot be opened, in one line.
    pub fn open(namespace: &Namespace, device: &str, cores: &QueueCores) -> Result<Self, String> {
        let (queues, mac) = namespace.enter(|| load_client::xdp_queues(device, CLIENT))?;
        let steering = FlowSteering::new(queues.len() as u16, FlowHash::Toeplitz);
        let devices = over_queues(queues, steering, LINK_FRAMES);
        let (cores, are_shared) = (cores.clients.clone(), cores.are_shared);
        Ok(Self { devices, steering, mac, cores, are_shared })
    }

    /// Runs `exchange` on each client; `used` is the server's CPU time so far.
    ///
    /// # Errors
    /// The CPU time exceeds `limit`.
    pub fn exchange(
        &mut self,
        exchange: &Exchange,
        secret: [u8; 16],
        used: Used<'_>,
        limit: Span,
    ) -> Result<ClientResults, String> {
        let (all, yields) = (self.devices.len(), self.are_shared);
        let (open, done, failed) = Default::default();
        let course = &Course { all, yields, limit, open, done, failed };
        let (steering, mac) = (self.steering, self.mac);
        let parts = std::thread::scope(|scope| {
            let mut running = Vec::new();
            for (shard, (device, &core)) in (0..).zip(self.devices.iter_mut().zip(&self.cores)) {
                let mut config = load_client::stack(mac, CLIENT, secret);
                config.shard_index = Some(ShardIndex { steering, shard });
                let exchanger =
                    ClosedLoopClient::new(exchange.clone(), config, SocketAddr::from((SERVER, PORT)));
                let exchanger = exchanger.paused();
                let part = Part { exchanger, is_open: false, used: [None; 2], busy: Span::ZERO };
                // One client samples the server's CPU time.
                let used = (shard == 0).then_some(used);
                running.push(scope.spawn(move || part.carry_out(core, device, course, used)));
            }
            let parts = running.into_iter().map(|part| panics::join("a client", part)?);
            parts.collect::<Vec<Result<Part, String>>>()
        });
        let parts = parts.into_iter().collect::<Result<Vec<_>, _>>()?;
        let late = parts.iter().filter(|part| !part.exchanger.is_done());
        // A client that never began delayed the others.
        match late.min_by_key(|part| part.is_open) {
            Some(part) => Err(part.exchanger.connect_status()),
            None => Ok(measured(&parts, exchange.duration)),
        }
    }
}

impl Part {
    /// Sends requests on `core` until all clients are done or one fails; then closes.
    fn carry_out(
        mut self,
        core: CoreId,
        device: &mut Steered<AfXdp>,
        course: &Course,
        used: Option<Used<'_>>,
    ) -> Result<Self, String> {
        if let Err(e) = affinity::pin(core) {
            course.failed.store(true, Ordering::Relaxed);
            return Err(e.to_string());
        }
        let (clock, mut is_done) = (Monotonic::new(), false);
        let mut now = clock.now();
        let end = now + course.limit;
        while course.done.load(Ordering::Relaxed) < course.all && !course.failed.load(Ordering::Relaxed) {
            let busy = self.exchanger.step(now, device);
            if !self.is_open && self.exchanger.is_open() {
                self.is_open = true;
                course.open.fetch_add(1, Ordering::Relaxed);
            }
            if course.open.load(Ordering::Relaxed) == course.all {
                self.exchanger.begin();
            }
            let is_measuring = self.exchanger.is_measuring(now);
            if !is_done && self.exchanger.is_done() {
                is_done = true;
                course.done.fetch_add(1, Ordering::Relaxed);
            }
            if let Some(used) = used {
                let [before, after] = &mut self.used;
                if before.is_none() && is_measuring {
                    *before = Some((now, used()));
                } else if after.is_none() && is_done {
                    *after = Some((now, used()));
                }
            }
            if now > end {
                course.failed.store(true, Ordering::Relaxed);
            }
            match busy {
                true => {}
                false if course.yields => std::thread::yield_now(),
                false => std::hint::spin_loop(),
            }
            let last = std::mem::replace(&mut now, clock.now());
            if busy && is_measuring {
                self.busy += now.since(last);
            }
        }
        self.exchanger.reset_all(clock.now(), device);
        Ok(self)
    }
}

/// Sum over all clients, each of which measured for `span`.
fn measured(parts: &[Part], span: Span) -> ClientResults {
    let mut sum = ClientResults {
        answers: 0,
        span,
        cores: f64::NAN,
        latency: Histogram::new(),
        broken: 0,
        busiest: 0.0,
    };
    for part in parts {
        for tally in &part.exchanger.outcome().kinds {
            sum.answers += tally.answers;
            sum.latency.merge(&tally.latency);
            sum.broken += tally.broken;
        }
        sum.busiest = sum.busiest.max(part.busy.as_secs_f64() / span.as_secs_f64());
        if let [Some((from, before)), Some((to, after))] = part.used {
            let used = after.saturating_sub(before);
            sum.cores = used.as_secs_f64() / to.since(from).as_secs_f64().max(1e-9);
        }
    }
    sum
}
