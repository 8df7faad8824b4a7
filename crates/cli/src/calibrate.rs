//! `greenwave calibrate`: cost of each step of the stack on this machine.
//!
//! The real stack serves requests of zero service time over an in-memory wire, in one thread, and
//! every step is timed. The stacks run in virtual time, so each slice does exactly the same steps.
//! Only the middle half of a slice's times counts, because interrupts belong to the machine and not
//! to the stack; the clock's own cost is subtracted. Other activity on the machine only adds to a
//! cost, for milliseconds or for minutes. The run is therefore cut into many short slices,
//! alternately with and without a classifier, and the fastest slice counts per step. A cost is that
//! of a warm cache and a busy stack.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use ::load::{Client, Plan, RequestClass, Synthetic};
use guard::{Limit, Policy, Signals};
use host::Monotonic;
use net::Device;
use net::device::memory::{self, MemoryDevice};
use net::stack::{Config as StackConfig, ListenOptions};
use queueing::{Arrivals, Clock, Distribution, Span, Time, VirtualClock};
use runtime::mode::{Classifiers, Mode};
use runtime::shard::{Config, Refusal, ShardGuard, Step};
use runtime::{App, Shard};
use sched::dispatch::{Params, Steering};
use sim::cost::CostModel;
use wire::ethernet::{self, EtherType};
use wire::tcp::{self, Flags, Options, Segment, Seq};
use wire::{ip, ipv4};

use crate::table::Table;
use crate::{Error, classify, options};

/// Measure the CPU cost of each step of the stack on this machine.
///
/// Measures many short slices; per step, the middle half of the fastest slice
/// counts, because other work on the machine only adds to a cost.
#[derive(clap::Args)]
pub struct Args {
    /// Write the cost model to this file.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Number of slices.
    #[arg(long, default_value_t = SLICES, value_parser = clap::value_parser!(u32).range(2..=10_000))]
    slices: u32,
    /// Requests per slice.
    #[arg(long, default_value_t = REQUESTS, value_parser = clap::value_parser!(u64).range(1000..=10_000_000))]
    requests: u64,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

const SERVER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
const CLIENT: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const PORT: u16 = 7000;
const FRAMES: usize = 4096;
const CONNECTIONS: u32 = 100;
const SLICES: u32 = 60;
const REQUESTS: u64 = 10_000;

/// Measures, prints and writes the costs.
///
/// # Errors
/// An interrupted measurement, or a file that cannot be written.
pub fn run(args: &Args) -> Result<ExitCode, Error> {
    if let Some(path) = &args.out {
        Error::unless_writable(path)?;
    }
    let bar = crate::progress::bar(args.slices.into());
    bar.set_message("calibrate");
    let (mut plain, mut classified) = (Costs::default(), Costs::default());
    for slice in 0..args.slices {
        // The first slice of each kind also warms caches and the allocator; it is never the
        // fastest.
        match slice % 2 {
            0 => plain.add(&measure(args.requests, Classifiers::default())?),
            _ => classified.add(&measure(args.requests, classify::by_tag())?),
        }
        bar.inc(1);
    }
    bar.finish_and_clear();
    let clock = Monotonic::new().cost();
    let model = model(&plain, &classified, clock);
    let machine = host::Machine::this();
    if args.json {
        let json = serde_json::json!({ "world": "host", "machine": machine.to_string(), "cost": model });
        outln!("{}", serde_json::to_string_pretty(&json).map_err(|e| Error::new(e.to_string()))?);
    } else {
        out!("{}", table(&model, &plain, &classified));
        outln!("fastest of {} slices, less {clock} for reading the clock   ({machine})", args.slices);
    }
    if let Some(path) = &args.out {
        let text = model.to_toml(&machine.to_string(), &host::today(), &args.command());
        crate::report::whole(path, &text)?;
        errln!("wrote {}", path.display());
    }
    Ok(ExitCode::SUCCESS)
}

impl Args {
    /// The command that reproduces the file, and the origin of its figures.
    fn command(&self) -> String {
        let mut command = "greenwave calibrate".to_owned();
        if self.slices != SLICES {
            command += &format!(" --slices {}", self.slices);
        }
        if self.requests != REQUESTS {
            command += &format!(" --requests {}", self.requests);
        }
        command + "\n#          (per step, the middle half of the fastest slice; noise only adds time)"
    }
}

fn model(plain: &Costs, classified: &Costs, clock: Span) -> CostModel {
    let clock_ns = clock.as_nanos() as f64;
    // A negative float becomes 0.
    let cost = |step: &Cost| if step.samples > 0 { (step.ns - clock_ns).round() as u64 } else { 0 };
    CostModel {
        driver_ns: cost(&plain.driver),
        shed_ns: cost(&plain.shed),
        classify_ns: (classified.driver.ns - plain.driver.ns).round() as u64,
        tcp_rx_ns: cost(&plain.payload),
        tcp_ack_ns: cost(&plain.ack),
        tcp_tx_ns: cost(&plain.transmit),
        event_ns: cost(&plain.event),
        dispatch_ns: cost(&plain.dispatch),
    }
}

fn table(model: &CostModel, plain: &Costs, classified: &Costs) -> Table {
    let mut table = Table::new(2, &["step", "what", "ns", "samples"]);
    let mut row = |step: &str, what: &str, ns: u64, cost: &Cost| {
        table.row(vec![step.to_owned(), what.to_owned(), ns.to_string(), cost.samples.to_string()]);
    };
    row("driver", "moves a frame from the device to the receive buffer", model.driver_ns, &plain.driver);
    row("classify", "classifies that frame", model.classify_ns, &classified.driver);
    row("shed", "drops a SYN that the guard sheds", model.shed_ns, &plain.shed);
    row("tcp rx", "passes a frame with payload through TCP/IP", model.tcp_rx_ns, &plain.payload);
    row("tcp ack", "passes a frame without payload through TCP/IP", model.tcp_ack_ns, &plain.ack);
    row("tcp tx", "builds and sends a frame", model.tcp_tx_ns, &plain.transmit);
    row("event", "passes an event through the event queue", model.event_ns, &plain.event);
    row("dispatch", "takes a job and returns it", model.dispatch_ns, &plain.dispatch);
    table
}

/// Durations of the steps of one kind, in nanoseconds.
#[derive(Default)]
struct Samples(Vec<u64>);

impl Samples {
    fn add(&mut self, span: Span) {
        self.0.push(span.as_nanos());
    }

    /// The mean of the middle half, in nanoseconds: as robust as the median, and finer than the
    /// clock's tick.
    fn middle_ns(&self) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_unstable();
        let quarter = sorted.len() / 4;
        let middle = &sorted[quarter..sorted.len() - quarter];
        middle.iter().sum::<u64>() as f64 / middle.len().max(1) as f64
    }
}

/// Cost of a step in the fastest slice so far, the clock's cost included.
struct Cost {
    ns: f64,
    /// Number of samples in all slices.
    samples: usize,
}

impl Default for Cost {
    fn default() -> Self {
        Self { ns: f64::INFINITY, samples: 0 }
    }
}

impl Cost {
    fn add(&mut self, slice: &Samples) {
        self.samples += slice.0.len();
        if !slice.0.is_empty() {
            self.ns = self.ns.min(slice.middle_ns());
        }
    }
}

/// Cost of each kind of step.
#[derive(Default)]
struct Costs {
    driver: Cost,
    shed: Cost,
    payload: Cost,
    ack: Cost,
    transmit: Cost,
    event: Cost,
    dispatch: Cost,
}

impl Costs {
    fn add(&mut self, slice: &Measured) {
        self.driver.add(&slice.driver);
        self.shed.add(&slice.shed);
        self.payload.add(&slice.payload);
        self.ack.add(&slice.ack);
        self.transmit.add(&slice.transmit);
        self.event.add(&slice.event);
        self.dispatch.add(&slice.dispatch);
    }
}

/// Durations of each kind of step in one slice.
#[derive(Default)]
struct Measured {
    driver: Samples,
    shed: Samples,
    payload: Samples,
    ack: Samples,
    transmit: Samples,
    event: Samples,
    dispatch: Samples,
}

fn measure(requests: u64, classifiers: Classifiers) -> Result<Measured, Error> {
    let plan = plan(requests);
    let (mut client_end, mut server_end) = memory::pair(FRAMES, 1514);
    let stack = |last: u8, addr| {
        StackConfig::new([2, 0, 0, 0, 0, last], addr, 24, options::secret_of(1, last.into()))
    };
    let target = SocketAddr::new(SERVER.into(), PORT);
    let mut client = Client::new(&plan, stack(1, CLIENT), target).map_err(|e| Error::new(e.to_string()))?;
    let app = Arc::new(Synthetic::default());
    let policy = Mode::Adps.policy(classifiers, &Params::new(1, FRAMES), Steering::all(1));
    let mut shard = Shard::new(Config::new(stack(2, SERVER), policy, 1), app.clone());
    let listening = shard.stack().listen(PORT, ListenOptions::default());
    listening.map_err(|e| Error::new(format!("port {PORT}: {e:?}")))?;

    let clock = Monotonic::new();
    let stop = host::signals::flag();
    let mut now = Time::ZERO;
    let mut measured = Measured::default();
    while !client.is_done() {
        while client.step(now, &mut client_end) {}
        // Handshakes are not measured.
        let counts = client.started().is_some();
        let mut unmeasured = Measured::default();
        let into = if counts { &mut measured } else { &mut unmeasured };
        serve(&mut shard, &mut server_end, &*app, now, clock, into);
        now += TURN;
        if stop.load(Ordering::Relaxed) {
            return Err(Error::interrupted("; nothing was written"));
        }
    }
    if let Some(e) = client.error() {
        return Err(Error::new(e.to_string()));
    }
    let policy = Mode::Adps.policy(Classifiers::default(), &Params::new(1, FRAMES), Steering::all(1));
    let mut config = Config::new(stack(2, SERVER), policy, 1);
    let guard =
        ShardGuard { policy: Box::new(ShedAll), period: TURN, refusal: Refusal::Drop, watches: false };
    config.guard = Some(guard);
    let mut shard = Shard::new(config, app.clone());
    let listening = shard.stack().listen(PORT, ListenOptions::default());
    listening.map_err(|e| Error::new(format!("port {PORT}: {e:?}")))?;
    for _ in 0..requests / SYNS {
        now += TURN;
        for port in 0..SYNS as u16 {
            let filled = client_end.transmit(now, SYN_LEN, &mut |frame| syn(&mut *frame, port));
            filled.map_err(|_| Error::new("the wire holds fewer frames than it should"))?;
        }
        serve(&mut shard, &mut server_end, &*app, now, clock, &mut measured);
    }
    Ok(measured)
}

/// A guard policy that admits no connection.
struct ShedAll;

impl Policy for ShedAll {
    fn tick(&mut self, _: Time, _: &Signals) -> Limit {
        Limit::Closed
    }
}

/// Number of SYNs queued at once.
const SYNS: u64 = 64;
const SYN_LEN: usize = ethernet::HEADER_LEN + ipv4::HEADER_LEN + tcp::HEADER_LEN;

/// Writes a SYN of the client's port `port` into `frame`, [`SYN_LEN`] bytes.
fn syn(frame: &mut [u8], port: u16) {
    ethernet::emit_header(frame, [2, 0, 0, 0, 0, 2], [2, 0, 0, 0, 0, 1], EtherType::Ipv4);
    let payload_len = tcp::HEADER_LEN;
    let (source, target) = (CLIENT.into(), SERVER.into());
    ip::Header { source, target, protocol: ip::Protocol::Tcp, dscp: 0, ecn: 0, hops: ip::HOPS, payload_len }
        .emit(&mut frame[ethernet::HEADER_LEN..]);
    let segment = Segment {
        source_port: 1024 + port,
        target_port: PORT,
        seq: Seq(0),
        ack: Seq(0),
        flags: Flags::SYN,
        window: u16::MAX,
        options: Options::NONE,
        payload: &[],
    };
    segment.emit(CLIENT, SERVER, &mut frame[ethernet::HEADER_LEN + ipv4::HEADER_LEN..]);
}

/// Virtual time between two iterations of client and server.
const TURN: Span = Span::from_micros(5);

/// Bursts of requests of zero service time.
fn plan(requests: u64) -> Plan {
    let class = RequestClass {
        name: "all".to_owned(),
        share: 1.0,
        service: Distribution::Constant(Span::ZERO),
        length: 64,
        kind: 1,
        priority: 0,
    };
    let arrivals = Arrivals::Burst { size: 64, period: Span::from_micros(200), spacing: Span::ZERO };
    let mut plan = Plan::new(CONNECTIONS, arrivals, vec![class]);
    plan.requests = Some(requests);
    plan
}

/// Steps the server until it is idle at `now` and times each step by `clock`.
fn serve<A: App>(
    shard: &mut Shard<MemoryDevice, A>,
    device: &mut MemoryDevice,
    app: &A,
    now: Time,
    clock: Monotonic,
    measured: &mut Measured,
) {
    loop {
        let start = clock.now();
        let step = shard.step(now, device);
        let taken = clock.now().since(start);
        match step {
            Step::Drive { shed: true, .. } => measured.shed.add(taken),
            Step::Drive { shed: false, .. } => measured.driver.add(taken),
            Step::Transport { payload: true } => measured.payload.add(taken),
            Step::Transport { payload: false } => measured.ack.add(taken),
            Step::Transmit { frames } => measured.transmit.add(taken / frames.max(1) as u64),
            Step::Assign(mut job) => {
                measured.event.add(taken);
                // Reading a stopped clock costs next to nothing while the job is timed.
                let still = VirtualClock::new(now);
                let start = clock.now();
                job.serve(app, &still);
                shard.complete(now, job);
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

    #[test]
    fn the_fastest_slice_counts() {
        let mut cost = Cost::default();
        for slice in [vec![90, 90], vec![], vec![40, 42], vec![60]] {
            cost.add(&Samples(slice));
        }
        assert_eq!((cost.ns, cost.samples), (41.0, 5));
    }
}
