//! `greenwave bench idle`: a million connections in one process, nearly all idle.
//!
//! One server shard and as many client stacks as the ports require share an in-memory link and one
//! thread, so the figures include both ends on one core. The active connections open first and are
//! measured alone; then the idle ones open, and the same load is measured among them. A request's
//! latency counts from its due time, not from its sending.

use std::process::ExitCode;

use queueing::{Clock, Histogram, Span};
use serde::Serialize;

use self::harness::World;
use crate::options::Count;
use crate::report::ResultHeader;
use crate::table::{Table, micros};
use crate::{Error, progress};

mod harness;

/// Measure the cost of idle and active connections.
#[derive(clap::Args)]
pub struct Args {
    /// Number of connections: 10k, 1M.
    #[arg(long, default_value = "1M")]
    connections: Count,
    /// Share of active connections, 0 to 1.
    #[arg(long, default_value_t = 0.01)]
    active: f64,
    /// Total request rate per second.
    #[arg(long, default_value_t = 20_000.0)]
    rate: f64,
    /// Duration of each measurement.
    #[arg(long, default_value = "2s")]
    duration: Span,
    /// Count CPU time instead of wall-clock time, for busy machines.
    #[arg(long)]
    cpu_time: bool,
    /// Seed of the arrivals; the same seed replays the same arrivals.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Memory of one connection, in bytes.
#[derive(Serialize)]
struct Bytes {
    /// Resident memory of the process, both ends.
    resident: f64,
    /// The server's TCP, as counted by greenwave.
    server_tcp: f64,
    /// The server's shard beyond TCP, as counted by greenwave.
    server_shard: f64,
    /// The client's TCP, as counted by greenwave.
    client_tcp: f64,
}

/// Latency of the active connections.
#[derive(Serialize)]
struct Latency {
    requests: u64,
    p50_ns: u64,
    p99_ns: u64,
    p999_ns: u64,
}

impl From<&Histogram> for Latency {
    fn from(latencies: &Histogram) -> Self {
        let at = |q| latencies.quantile(q).as_nanos();
        Self { requests: latencies.count(), p50_ns: at(0.5), p99_ns: at(0.99), p999_ns: at(0.999) }
    }
}

/// Results.
#[derive(Serialize)]
struct Report {
    connections: u64,
    active: u64,
    clients: usize,
    bytes: Bytes,
    open_s: f64,
    opened_per_s: f64,
    alone: Latency,
    among_idle: Latency,
    machine: String,
}

/// Opens connections, measures and prints.
///
/// # Errors
/// Arguments are out of range, or connections do not open.
pub fn run(args: &Args) -> Result<ExitCode, Error> {
    let connections = args.connections.0;
    if !(1..=CONNECTIONS_MAX).contains(&connections) {
        let what = format!("connections {connections} is outside 1..={CONNECTIONS_MAX}");
        return Err(Error::new(what).advice("--connections 1M"));
    }
    if !(0.0..=1.0).contains(&args.active) {
        return Err(Error::new(format!("active {} is outside 0..=1", args.active)));
    }
    if !(args.rate.is_finite() && args.rate > 0.0) {
        return Err(Error::new(format!("rate {} is not a number above 0", args.rate)).advice("--rate 20000"));
    }
    let active = ((connections as f64 * args.active) as u64).max(1);
    let bar = progress::bar(connections);
    bar.set_message("bench idle");
    let before = drivers::rss::resident();
    let clock: Box<dyn Clock> = match args.cpu_time {
        true => Box::new(host::clock::ThreadTime),
        false => Box::new(host::Monotonic::new()),
    };
    let mut world = World::new(connections, clock, args.seed);
    let mut opening = world.open(active, true, &bar)?;
    let alone = world.measure(args.rate, args.duration);
    opening += world.open(connections - active, false, &bar)?;
    let resident = drivers::rss::resident().saturating_sub(before);
    let among_idle = world.measure(args.rate, args.duration);
    bar.finish_and_clear();
    let each = |bytes: u64| bytes as f64 / connections as f64;
    let (server_tcp, server_shard, client_tcp) = world.bytes();
    let report = Report {
        connections: world.established(),
        active,
        clients: world.clients(),
        bytes: Bytes {
            resident: each(resident),
            server_tcp: each(server_tcp),
            server_shard: each(server_shard),
            client_tcp: each(client_tcp),
        },
        open_s: opening.as_secs_f64(),
        opened_per_s: connections as f64 / opening.as_secs_f64(),
        alone: Latency::from(&alone),
        among_idle: Latency::from(&among_idle),
        machine: host::Machine::this().to_string(),
    };
    if args.json {
        let body = serde_json::to_value(&report).map_err(|e| Error::new(e.to_string()))?;
        outln!("{:#}", ResultHeader::of_host("bench-idle", Some(args.seed)).stamp(body));
    } else {
        print(&report, args);
    }
    let complete = report.connections == connections;
    Ok(if complete { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn print(report: &Report, args: &Args) {
    let Report { connections, active, clients, bytes, .. } = report;
    let time = if args.cpu_time { ", in the thread's CPU time" } else { "" };
    outln!("{connections} connections established from {clients} client addresses by one thread{time}");
    outln!("opened in {:.2} s, {:.0}/s", report.open_s, report.opened_per_s);
    let mut memory = Table::new(1, &["bytes per connection", ""]);
    for (name, bytes) in [
        ("both ends, resident", bytes.resident),
        ("server, TCP", bytes.server_tcp),
        ("server, shard", bytes.server_shard),
        ("client, TCP", bytes.client_tcp),
    ] {
        memory.row(vec![name.to_owned(), format!("{bytes:.0}")]);
    }
    out!("{memory}");
    let mut table = Table::new(1, &["active connections", "requests", "p50", "p99", "p99.9"])
        .groups(&[("", 2), ("latency, µs", 3)]);
    let idle = connections - active;
    for (name, latency) in [
        (format!("{active}, no idle ones"), &report.alone),
        (format!("{active}, with {idle} idle"), &report.among_idle),
    ] {
        let spans = [latency.p50_ns, latency.p99_ns, latency.p999_ns].map(|ns| micros(Span::from_nanos(ns)));
        table.row([vec![name, latency.requests.to_string()], spans.to_vec()].concat());
    }
    out!("{table}");
    let ratio = report.among_idle.p99_ns as f64 / report.alone.p99_ns.max(1) as f64;
    outln!(
        "p99 with idle connections: {ratio:.1}× the p99 without them   (seed {}, {:.0} requests/s, {})",
        args.seed,
        args.rate,
        report.machine
    );
}

/// Maximum number of connections, limited by the number of client addresses.
const CONNECTIONS_MAX: u64 = 4_000_000;
