//! Timed flows over the kernel's TCP.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

use hostbpf::egress::{Level, Status};
use queueing::{Rng, Span};

use super::network::BottleneckNetwork;
use super::{Group, Plan};
use crate::error::{Error, plain};

/// Completion of a flow.
#[derive(Clone, Copy, Debug)]
pub struct FlowCompletion {
    /// True for a large flow.
    pub large: bool,
    /// Time from its start until the receiver has all bytes and confirms.
    pub span: Span,
}

/// Results of a run.
pub struct FlowResults {
    /// Completed flows, unordered.
    pub completions: Vec<FlowCompletion>,
    /// Utilisation and drops in %, and levels that packets reached.
    pub link: [f64; 3],
}

/// Timeout of a flow.
const TIMEOUT: Duration = Duration::from_secs(60);
/// Time for the endless flows to fill the queue.
const WARMUP: Duration = Duration::from_millis(1_000);

/// Runs the flows of `plan` on `network`.
pub fn run(plan: &Plan, network: &BottleneckNetwork) -> Result<FlowResults, Error> {
    let stop = AtomicBool::new(false);
    let failed =
        |operation: &str, e: &io::Error| Error::new(format!("{operation}: {}", plain(&e.to_string())));
    std::thread::scope(|scope| {
        let receivers = scope.spawn(|| receive(&network.listener, &stop));
        let result = network.senders.enter(|| send(plan, network, &stop));
        stop.store(true, Ordering::Relaxed);
        // Wakes the receivers, which check the stop flag.
        let _ = network.senders.enter(|| TcpStream::connect_timeout(&network.target, TIMEOUT));
        let received = receivers.join().expect("receiving does not panic");
        let results = result?;
        received.map_err(|e| failed("receiving", &e))?;
        Ok(results)
    })
}

/// Accepts connections until stopped, and reads each to its end.
fn receive(listener: &TcpListener, stop: &AtomicBool) -> io::Result<()> {
    std::thread::scope(|scope| {
        loop {
            let (stream, _) = listener.accept()?;
            if stop.load(Ordering::Relaxed) {
                return Ok(());
            }
            scope.spawn(move || drain(stream));
        }
    })
}

/// Reads to the end; closing confirms it. Errors of a closed sender are ignored.
fn drain(mut stream: TcpStream) {
    let mut buffer = vec![0; 256 * 1024];
    while stream.read(&mut buffer).is_ok_and(|len| len > 0) {}
}

/// Starts flows as planned, on a thread in the senders' namespace.
fn send(plan: &Plan, network: &BottleneckNetwork, stop: &AtomicBool) -> Result<FlowResults, Error> {
    let config = &plan.config;
    let (sender, receiver) = channel();
    std::thread::scope(|scope| {
        // Ends the endless flows on every return path.
        let stop_on_drop = StopOnDrop(stop);
        for _ in 0..config.bulk {
            scope.spawn(|| run_endless_flow(plan, network, stop));
        }
        std::thread::sleep(WARMUP);
        let (before, start) = (network.status()?, Instant::now());
        let period = Duration::from(plan.period);
        let mut rng = Rng::seeded(config.seed);
        for burst in 0..config.bursts {
            std::thread::sleep((start + period * burst).saturating_duration_since(Instant::now()));
            for large in order(config.small, config.large, &mut rng) {
                let sender = sender.clone();
                scope.spawn(move || run_flow(plan, network, large, &sender));
            }
        }
        std::thread::sleep((start + period * config.bursts).saturating_duration_since(Instant::now()));
        let (after, window) = (network.status()?, start.elapsed());
        drop(sender);
        let mut completions = Vec::new();
        for flow in receiver.iter() {
            completions.push(flow.map_err(|e| Error::new(format!("a flow: {}", plain(&e.to_string()))))?);
        }
        drop(stop_on_drop);
        Ok(FlowResults { completions, link: link(plan, &before, &after, window) })
    })
}

/// Sets the flag when dropped.
struct StopOnDrop<'a>(&'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Start order of a burst's flows: true is a large one.
fn order(small: Group, large: Group, rng: &mut Rng) -> Vec<bool> {
    let mut remaining = [small.flows, large.flows];
    let mut order = Vec::new();
    while remaining.iter().sum::<u32>() > 0 {
        let is_large = rng.below(u64::from(remaining[0] + remaining[1])) >= u64::from(remaining[0]);
        remaining[usize::from(is_large)] -= 1;
        order.push(is_large);
    }
    order
}

fn connect(plan: &Plan, network: &BottleneckNetwork) -> io::Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&network.target, TIMEOUT)?;
    rustix::net::sockopt::set_tcp_congestion(&stream, &plan.config.congestion)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    Ok(stream)
}

/// A flow that ends when the flag is set.
fn run_endless_flow(plan: &Plan, network: &BottleneckNetwork, stop: &AtomicBool) {
    let Ok(mut stream) = connect(plan, network) else { return };
    let bytes = vec![0; 64 * 1024];
    while !stop.load(Ordering::Relaxed) && stream.write_all(&bytes).is_ok() {}
}

/// A flow of its group's size, and its completion time.
fn run_flow(
    plan: &Plan,
    network: &BottleneckNetwork,
    large: bool,
    sender: &Sender<io::Result<FlowCompletion>>,
) {
    let group = if large { plan.config.large } else { plan.config.small };
    let flow = || {
        let start = Instant::now();
        let mut stream = connect(plan, network)?;
        io::copy(&mut io::repeat(0).take(group.bytes), &mut stream)?;
        stream.shutdown(Shutdown::Write)?;
        stream.read_to_end(&mut Vec::new())?;
        Ok(FlowCompletion { large, span: Span::from_nanos(start.elapsed().as_nanos() as u64) })
    };
    // The receiver is gone when another flow failed.
    let _ = sender.send(flow());
}

fn link(plan: &Plan, before: &Status, after: &Status, window: Duration) -> [f64; 3] {
    let sum = |status: &Status, of: fn(&Level) -> u64| status.levels.iter().map(of).sum::<u64>();
    let more = |of: fn(&Level) -> u64| (sum(after, of) - sum(before, of)) as f64;
    let allowed = plan.rate.bits_per_sec() as f64 * window.as_secs_f64();
    let levels = after.levels.iter().filter(|level| level.arrived.packets > 0).count();
    [
        more(|level| level.sent.bytes) * 8.0 / allowed * 100.0,
        more(|level| level.dropped) / more(|level| level.arrived.packets) * 100.0,
        levels as f64,
    ]
}
