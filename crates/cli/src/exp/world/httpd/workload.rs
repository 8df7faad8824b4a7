//! Workload of a run, and the samples taken during it.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::Ordering;
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use drivers::packet;
use host::{Monotonic, affinity, signals};
use load::short_connections::{ClientPopulation, ShortConnectionResults, ShortConnections};
use net::stack::Config;
use netlab::TestGroup;
use queueing::{Clock, Span};

use super::super::background_load::BackgroundLoad;
use super::server::PORT;
use super::setup::{CLIENT_CORE, CLIENT_DEVICE, HttpdSetup, PREFIX, SERVER, VISITORS};
use crate::error::Error;
use crate::load_client::{FRAMES, RTO_MIN};
use crate::options::secret_of;
use crate::panics;

/// Results of a run.
pub struct HttpdResults {
    pub outcome: ShortConnectionResults,
    /// Cores used by the server and by the kernel on its behalf.
    pub server_cpu: f64,
    /// Cores used by the guard's process.
    pub guard_cpu: f64,
    /// Accept queue overflows per second.
    pub overflows: f64,
    /// CPU time of other processes, in % of a core.
    pub other: f64,
}

/// Number of client addresses: each has 28,232 ports, so none repeats within seconds.
const ADDRESSES: u32 = 64;
/// Buffer sizes of a client: for one request, and for a few segments of a response.
const SEND_BUFFER: usize = 4096;
const RECEIVE_BUFFER: usize = 64 * 1024;
/// Time that a client's closed connection stays in FIN_WAIT or TIME_WAIT.
const LINGER: Span = Span::from_millis(500);

impl HttpdSetup {
    /// Runs `visits`.
    pub fn drive(&self, visits: ShortConnections) -> Result<HttpdResults, Error> {
        let options = packet::Options { frames: FRAMES, ..packet::Options::default() };
        let (interface, mut devices) = self.client.enter(|| packet::open(CLIENT_DEVICE, &options))?;
        let mut device = devices.pop().ok_or_else(|| Error::new("there is no AF_PACKET socket"))?;
        let stacks = (0..ADDRESSES).map(|n| stack(interface.mac, n, &visits)).collect();
        let (warmup, duration) = (Duration::from(visits.warmup), Duration::from(visits.duration));
        let mut visitors = ClientPopulation::new(visits, stacks, SocketAddr::from((SERVER, PORT)));
        let stop = signals::flag();
        let group = TestGroup::preferred("visitors")?;
        let group = &group;
        thread::scope(|scope| {
            let (start_sender, start_receiver) = channel();
            let work = scope.spawn(move || {
                affinity::pin(CLIENT_CORE).map_err(|e| Error::new(format!("core {}: {e}", CLIENT_CORE.0)))?;
                group.join().map_err(|e| Error::new(e.to_string()))?;
                let clock = Monotonic::new();
                // The receiver is gone only if sampling failed.
                let _ = start_sender.send(Instant::now());
                while !visitors.is_done() {
                    if stop.load(Ordering::Relaxed) {
                        return Err(Error::interrupted(""));
                    }
                    if !visitors.step(clock.now(), &mut device) {
                        std::hint::spin_loop();
                    }
                }
                Ok(visitors.outcome().clone())
            });
            let samples = start_receiver.recv().ok().map(|start| {
                signals::sleep_until(start + warmup);
                let (from, before) = (Instant::now(), self.sample());
                signals::sleep_until(start + warmup + duration);
                (from.elapsed().as_secs_f64(), before, self.sample())
            });
            let outcome = panics::join("the visitors", work).map_err(Error::new)??;
            let (seconds, before, after) = samples.ok_or_else(|| Error::new("the visitors did not start"))?;
            let cores =
                |of: fn(&Sample) -> Span| of(&after).saturating_sub(of(&before)).as_secs_f64() / seconds;
            Ok(HttpdResults {
                outcome,
                server_cpu: cores(|sample| sample.server),
                guard_cpu: cores(|sample| sample.guard),
                overflows: (after.overflows - before.overflows) as f64 / seconds,
                other: after.background.since(before.background) / seconds * 100.0,
            })
        })
    }

    fn sample(&self) -> Sample {
        Sample {
            server: self.cpu_time(),
            guard: self.guard_cpu_time(),
            overflows: self.overflows(),
            background: BackgroundLoad::now(),
        }
    }
}

/// Counters at one instant.
struct Sample {
    server: Span,
    guard: Span,
    overflows: u64,
    background: BackgroundLoad,
}

/// Stack of client address `n`.
fn stack(mac: [u8; 6], n: u32, visits: &ShortConnections) -> Config {
    let addr = Ipv4Addr::from(u32::from(VISITORS) + n);
    let mut config = Config::new(mac, addr, PREFIX, secret_of(visits.seed, n.into()));
    (config.send_buffer, config.send_buffer_max) = (SEND_BUFFER, SEND_BUFFER);
    (config.recv_buffer, config.recv_buffer_max) = (RECEIVE_BUFFER, RECEIVE_BUFFER);
    config.rto_min = RTO_MIN;
    // At least the visit's timeout: with less, a lost SYN would not be retransmitted.
    let user_timeout = LINGER.max(visits.timeout);
    (config.time_wait, config.fin_wait, config.user_timeout) = (LINGER, LINGER, Some(user_timeout));
    config
}
