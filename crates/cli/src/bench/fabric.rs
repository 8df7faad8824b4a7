//! `greenwave bench fabric`: how fast networks of switches are simulated, and
//! what a flow costs.
//!
//! A hop is one packet put on one line, of data or of an answer. Speed counts
//! this process's time on its core, so that other work on the machine does not
//! show. Memory is what the process grew by, at its peak, over the most flows
//! that were under way at once: switches' queues included.

use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use host::clock::ThreadTime;
use queueing::{Clock, Span};
use serde::Serialize;
use sim::fabric::{self, Config};

use crate::table::Table;
use crate::{Error, progress};

/// How fast networks of switches are simulated.
#[derive(clap::Args)]
pub struct Args {
    /// Order at ports: pias, fish, …
    #[arg(long, default_value = "fish")]
    scheduler: String,
    /// A twentieth of the flows, for a glance.
    #[arg(long)]
    quick: bool,
    /// 100,000 flows on 1,024 hosts, too: minutes.
    #[arg(long, conflicts_with = "quick")]
    large: bool,
    /// Replays the same flows.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// A network and its flows.
struct Case {
    name: &'static str,
    topology: &'static str,
    flows: u32,
    /// Flows per second of each sender.
    rate: u32,
    senders: &'static str,
}

const CASES: [Case; 3] = [
    Case {
        name: "one switch, 2 hosts",
        topology: r#"{ kind = "star", hosts = 2, host = { gbps = 10, delay = "20200ns" } }"#,
        flows: 1_000,
        rate: 600,
        senders: "first",
    },
    Case {
        name: "leaf-spine, 144 hosts",
        topology: r#"{ kind = "leaf-spine", leaves = 9, spines = 4, hosts_per_leaf = 16, host = { gbps = 10, delay = "2us" }, core = { gbps = 40, delay = "200ns" } }"#,
        flows: 3_000,
        rate: 450,
        senders: "all",
    },
    Case {
        name: "leaf-spine, 1024 hosts",
        topology: r#"{ kind = "leaf-spine", leaves = 32, spines = 16, hosts_per_leaf = 32, host = { gbps = 10, delay = "2us" }, core = { gbps = 40, delay = "200ns" } }"#,
        flows: 100_000,
        rate: 450,
        senders: "all",
    },
];

const TRANSPORTS: [&str; 2] = ["ns2", "modern"];

/// Hops a second on one core that are aimed at, with hosts that run our TCP.
const GOAL: f64 = 4e6;

/// What was found.
#[derive(Serialize)]
struct Row {
    case: &'static str,
    transport: &'static str,
    flows: usize,
    unfinished: usize,
    active_max: u32,
    hops: u64,
    events: u64,
    cpu_s: f64,
    hops_per_s: f64,
    bytes_per_active_flow: f64,
}

/// Simulates every case with both transports.
///
/// # Errors
/// A scheduler that does not exist.
pub fn run(args: &Args) -> Result<ExitCode, Error> {
    let cases = if args.large { &CASES[..] } else { &CASES[..2] };
    let bar = progress::bar((cases.len() * TRANSPORTS.len()) as u64);
    bar.set_message("bench fabric");
    let mut rows = Vec::new();
    for case in cases {
        for transport in TRANSPORTS {
            rows.push(measure(case, transport, args)?);
            bar.inc(1);
        }
    }
    bar.finish_and_clear();
    let slowest = rows.iter().filter(|row| row.transport == "modern").map(|row| row.hops_per_s);
    let slowest = slowest.fold(f64::INFINITY, f64::min);
    if args.json {
        println!("{}", serde_json::to_string_pretty(&rows).map_err(|e| Error::new(e.to_string()))?);
    } else {
        print(&rows, slowest, args);
    }
    Ok(if slowest >= GOAL { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn measure(case: &Case, transport: &'static str, args: &Args) -> Result<Row, Error> {
    let flows = if args.quick { case.flows / 20 } else { case.flows };
    let Case { name, topology, rate, senders, .. } = case;
    let text = format!(
        "topology = {topology}\nscheduler = {:?}\nways = \"flow\"\ntransport = {{ kind = {transport:?} }}\n\
         thresholds = [909, 1329, 1648, 1960, 2143, 2337, 2484]\nroom = 240\nmark = 65\n\
         flows = {flows}\nsizes = \"websearch\"\narrivals = \"poisson {rate}\"\nsenders = {senders:?}\nseed = {}",
        args.scheduler, args.seed
    );
    let config = Config::from_toml(&text).map_err(|error| Error::new(error.to_string()))?;
    let before = host::memory::resident();
    let over = AtomicBool::new(false);
    let (outcome, took, peak) = std::thread::scope(|scope| {
        let peak = scope.spawn(|| peak_until(&over));
        let start = ThreadTime.now();
        let outcome = fabric::run(&config);
        let took = ThreadTime.now().since(start);
        over.store(true, Ordering::Relaxed);
        (outcome, took, peak.join().unwrap_or(0))
    });
    let grown = peak.saturating_sub(before) as f64;
    Ok(Row {
        case: name,
        transport,
        flows: outcome.flows.len(),
        unfinished: outcome.flows.iter().filter(|flow| flow.took.is_none()).count(),
        active_max: outcome.active_max,
        hops: outcome.counters.hops,
        events: outcome.events,
        cpu_s: took.as_secs_f64(),
        hops_per_s: outcome.counters.hops as f64 / took.max(Span::from_nanos(1)).as_secs_f64(),
        bytes_per_active_flow: grown / f64::from(outcome.active_max.max(1)),
    })
}

/// The most memory that the process has until `over`.
fn peak_until(over: &AtomicBool) -> u64 {
    let mut peak = host::memory::resident();
    while !over.load(Ordering::Relaxed) {
        std::thread::sleep(Duration::from_millis(2));
        peak = peak.max(host::memory::resident());
    }
    peak
}

fn print(rows: &[Row], slowest: f64, args: &Args) {
    let header = ["case", "transport", "flows", "at once", "M hops", "CPU s", "M hops/s", "KiB/flow"];
    let mut table = Table::new(2, &header);
    for row in rows {
        table.row(vec![
            row.case.to_owned(),
            row.transport.to_owned(),
            row.flows.to_string(),
            row.active_max.to_string(),
            format!("{:.2}", row.hops as f64 / 1e6),
            format!("{:.2}", row.cpu_s),
            format!("{:.2}", row.hops_per_s / 1e6),
            format!("{:.1}", row.bytes_per_active_flow / 1024.0),
        ]);
    }
    print!("{table}");
    println!(
        "{}: M hops/s of one core with our TCP ≥ {}: {:.2} at worst   (scheduler {}, seed {}, {})",
        if slowest >= GOAL { "pass" } else { "FAIL" },
        GOAL / 1e6,
        slowest / 1e6,
        args.scheduler,
        args.seed,
        host::Machine::this()
    );
}
