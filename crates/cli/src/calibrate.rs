//! `greenwave calibrate`: what each step of the stack costs on this machine.
//!
//! The real stack serves requests that take no time over a memory wire, in
//! one thread, and every step is timed. Of the times only the middle half
//! counts, because interrupts are the machine's and not the stack's; the
//! clock's own cost is taken off. A cost is that of a warm cache and a busy
//! stack.

use std::cell::Cell;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use ::load::{Class, Client, Plan, Synthetic};
use host::Monotonic;
use net::device::memory::{self, MemoryDevice};
use net::stack::{Config as StackConfig, ListenOptions};
use queueing::{Arrivals, Clock, Law, Span, Time};
use runtime::mode::{Classifiers, Mode};
use runtime::shard::{Config, Step};
use runtime::{App, Shard};
use sched::dispatch::{Params, Steering};
use sim::cost::CostModel;

use crate::table::Table;
use crate::{Error, classify, options};

/// Measure what the stack's steps cost on this machine.
#[derive(clap::Args)]
pub struct Args {
    /// Write the cost model here, such as crates/sim/cost-model.toml.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Requests to measure.
    #[arg(long, default_value_t = 200_000, value_parser = clap::value_parser!(u64).range(1000..))]
    requests: u64,
    /// Print JSON instead of the table.
    #[arg(long)]
    json: bool,
}

const SERVER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
const CLIENT: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const PORT: u16 = 7000;
const FRAMES: usize = 4096;
const CONNECTIONS: u32 = 100;

/// Measures, prints, writes.
///
/// # Errors
/// A measurement that was interrupted, or a file that cannot be written.
pub fn run(args: &Args) -> Result<ExitCode, Error> {
    let plain = measure(args.requests, Classifiers::default())?;
    let classified = measure(args.requests, classify::by_tag())?;
    let clock = Monotonic::new().cost();
    let cost_ns = |samples: &Samples| samples.middle_ns() - clock.as_nanos() as f64;
    // A float that is negative becomes 0.
    let cost = |samples: &Samples| cost_ns(samples).round() as u64;
    let model = CostModel {
        driver_ns: cost(&plain.driver),
        classify_ns: (cost_ns(&classified.driver) - cost_ns(&plain.driver)).round() as u64,
        tcp_rx_ns: cost(&plain.payload),
        tcp_ack_ns: cost(&plain.ack),
        tcp_tx_ns: cost(&plain.transmit),
        event_ns: cost(&plain.event),
        dispatch_ns: cost(&plain.dispatch),
    };
    let machine = host::Machine::this();
    if args.json {
        let json = serde_json::json!({ "world": "host", "machine": machine.to_string(), "cost": model });
        println!("{}", serde_json::to_string_pretty(&json).map_err(|e| Error::new(e.to_string()))?);
    } else {
        print!("{}", table(&model, &plain, &classified));
        println!("clock {clock} taken off each   ({machine})");
    }
    if let Some(path) = &args.out {
        let command = format!("greenwave calibrate --requests {} --out {}", args.requests, path.display());
        let text = model.to_toml(&machine.to_string(), &host::today(), &command);
        std::fs::write(path, text).map_err(|e| Error::file(path, &e))?;
        eprintln!("written to {}", path.display());
    }
    Ok(ExitCode::SUCCESS)
}

fn table(model: &CostModel, plain: &Measured, classified: &Measured) -> Table {
    let mut table = Table::new(2, &["step", "what", "ns", "samples"]);
    let mut row = |step: &str, what: &str, ns: u64, samples: &Samples| {
        table.row(vec![step.to_owned(), what.to_owned(), ns.to_string(), samples.0.len().to_string()]);
    };
    row("driver", "a frame from the device to the receive buffer", model.driver_ns, &plain.driver);
    row("classify", "the driver's classifier on it", model.classify_ns, &classified.driver);
    row("tcp rx", "a frame with payload through TCP/IP", model.tcp_rx_ns, &plain.payload);
    row("tcp ack", "a frame without payload through TCP/IP", model.tcp_ack_ns, &plain.ack);
    row("tcp tx", "building and sending a frame", model.tcp_tx_ns, &plain.transmit);
    row("event", "an event through the event queue", model.event_ns, &plain.event);
    row("dispatch", "taking a job and handing it back", model.dispatch_ns, &plain.dispatch);
    table
}

/// How long steps of one kind took, in nanoseconds.
#[derive(Default)]
struct Samples(Vec<u64>);

impl Samples {
    fn add(&mut self, span: Span) {
        self.0.push(span.as_nanos());
    }

    /// The mean of the middle half, in nanoseconds: as robust as the median,
    /// and finer than the clock's tick.
    fn middle_ns(&self) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_unstable();
        let quarter = sorted.len() / 4;
        let middle = &sorted[quarter..sorted.len() - quarter];
        middle.iter().sum::<u64>() as f64 / middle.len().max(1) as f64
    }
}

/// How long each kind of step took.
#[derive(Default)]
struct Measured {
    driver: Samples,
    payload: Samples,
    ack: Samples,
    transmit: Samples,
    event: Samples,
    dispatch: Samples,
}

/// A clock whose time is an argument, so that reading it costs next to
/// nothing while a job is timed.
struct Still(Cell<Time>);

impl Clock for Still {
    fn now(&self) -> Time {
        self.0.get()
    }

    fn compute(&self, span: Span) {
        self.0.set(self.0.get() + span);
    }
}

fn measure(requests: u64, classifiers: Classifiers) -> Result<Measured, Error> {
    let plan = plan(requests);
    let (mut client_end, mut server_end) = memory::pair(FRAMES, 1514);
    let stack = |last: u8, addr| {
        StackConfig::new([2, 0, 0, 0, 0, last], addr, 24, options::secret_of(1, last.into()))
    };
    let target = SocketAddrV4::new(SERVER, PORT);
    let mut client = Client::new(&plan, stack(1, CLIENT), target).map_err(|e| Error::new(e.to_string()))?;
    let app = Arc::new(Synthetic::default());
    let policy = Mode::Adps.policy(classifiers, &Params::new(1, FRAMES), Steering::all(1));
    let mut shard = Shard::new(Config::new(stack(2, SERVER), policy, 1), app.clone());
    let listening = shard.stack().listen(PORT, ListenOptions::default());
    listening.map_err(|e| Error::new(format!("port {PORT}: {e:?}")))?;

    let clock = Monotonic::new();
    let stop = host::interrupt::flag();
    let bar = crate::progress::bar(requests);
    bar.set_message("calibrate");
    let mut measured = Measured::default();
    while !client.is_done() {
        while client.step(clock.now(), &mut client_end) {}
        bar.set_position(client.progress().settled);
        // Handshakes are not what is measured.
        let counts = client.started().is_some();
        let mut unmeasured = Measured::default();
        let into = if counts { &mut measured } else { &mut unmeasured };
        serve(&mut shard, &mut server_end, &*app, clock, into);
        if stop.load(Ordering::Relaxed) {
            return Err(Error::new("interrupted; nothing was written"));
        }
    }
    bar.finish_and_clear();
    match client.error() {
        Some(e) => Err(Error::new(e.to_string())),
        None => Ok(measured),
    }
}

/// Bursts of requests that take no time.
fn plan(requests: u64) -> Plan {
    let class = Class {
        name: "all".to_owned(),
        share: 1.0,
        service: Law::Constant(Span::ZERO),
        length: 64,
        kind: 1,
        priority: 0,
    };
    let arrivals = Arrivals::Burst { size: 64, period: Span::from_micros(200), spacing: Span::ZERO };
    let mut plan = Plan::new(CONNECTIONS, arrivals, vec![class]);
    plan.requests = Some(requests);
    plan
}

/// Steps the server until it is idle and times each step.
fn serve<A: App>(
    shard: &mut Shard<MemoryDevice, A>,
    device: &mut MemoryDevice,
    app: &A,
    clock: Monotonic,
    measured: &mut Measured,
) {
    loop {
        let start = clock.now();
        let step = shard.step(start, device);
        let taken = clock.now().since(start);
        match step {
            Step::Drive { .. } => measured.driver.add(taken),
            Step::Transport { payload: true } => measured.payload.add(taken),
            Step::Transport { payload: false } => measured.ack.add(taken),
            Step::Transmit { frames } => measured.transmit.add(taken / frames.max(1) as u64),
            Step::Assign(mut job) => {
                measured.event.add(taken);
                let still = Still(Cell::new(start));
                let start = clock.now();
                job.serve(app, &still);
                shard.complete(start, job);
                measured.dispatch.add(clock.now().since(start));
            }
            Step::Partial(_) => {}
            Step::Idle => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outliers_do_not_count() {
        assert_eq!(Samples(vec![1, 40, 41, 9000]).middle_ns(), 40.5);
        assert_eq!(Samples::default().middle_ns(), 0.0);
    }
}
