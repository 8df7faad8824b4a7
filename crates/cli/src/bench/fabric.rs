//! `greenwave bench fabric`: speed of network simulations, and the cost of a flow.
//!
//! A hop is one packet, data or ACK, sent on one link. Speed on one thread is measured in CPU time,
//! so that other load on the machine does not count; speed on several threads in wall-clock time,
//! since threads that wait for each other are busy too, and needs a quiet machine. Memory is the
//! peak growth of the process divided by the largest number of concurrent flows, with switch queues
//! and the records of all flows.
//!
//! The large network runs once, and the goal is its wall-clock time in minutes: some 8,700 hops per
//! flow follow from web search's flow sizes, and its state exceeds every CPU cache.

use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use host::clock::{Monotonic, ThreadTime};
use indicatif::ProgressBar;
use queueing::{Clock, Span};
use serde::Serialize;
use serde_json::json;
use sim::fabric::{self, Config, Outcome};

use crate::report::ResultHeader;
use crate::table::Table;
use crate::{Error, progress};

/// Measure the speed and memory of the network simulator.
#[derive(clap::Args)]
pub struct Args {
    /// Scheduler of the ports: pias, fish, …
    #[arg(long, default_value = "fish")]
    scheduler: String,
    /// Simulate a twentieth of the flows.
    #[arg(long)]
    quick: bool,
    /// Simulate only 1,024 hosts and 100,000 flows; takes minutes.
    #[arg(long, conflicts_with = "quick")]
    large: bool,
    /// Number of flows, at the same rate.
    #[arg(long, value_name = "N", conflicts_with = "quick", value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    count: Option<u32>,
    /// Threads for an additional run of each case with greenwave's TCP;
    /// with --large, for the only run.
    #[arg(verbatim_doc_comment, long, value_name = "N", value_parser = clap::value_parser!(u16).range(2..=256))]
    threads: Option<u16>,
    /// Seed of the flows; the same seed replays the same flows.
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
    /// Flows per second and sender.
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

/// Goal for hops per second on one core, with hosts that run greenwave's TCP.
const GOAL: f64 = 4e6;
/// Goal for the wall-clock time of the large network.
const GOAL_LARGE_S: f64 = 600.0;

/// Results of one run.
#[derive(Serialize)]
struct Row {
    case: &'static str,
    transport: &'static str,
    threads: usize,
    flows: usize,
    unfinished: usize,
    active_max: u32,
    hops: u64,
    events: u64,
    cpu_s: f64,
    wall_s: f64,
    hops_per_s: f64,
    /// Ratio of wall-clock times, over one thread.
    speedup: Option<f64>,
    /// Peak memory of the process.
    peak_bytes: u64,
    bytes_per_active_flow: f64,
}

/// Simulates every case with both transports, or the large one once.
///
/// # Errors
/// The scheduler does not exist.
pub fn run(args: &Args) -> Result<ExitCode, Error> {
    let [small @ .., large] = &CASES;
    let Found { rows, alike } = if args.large { once(large, args)? } else { compared(small, args)? };
    let verdicts = if args.large { vec![ended(&rows, args)] } else { fast(&rows, alike, args) };
    if args.json {
        outln!("{:#}", as_json(&rows, &verdicts, args.seed));
    } else {
        print(&rows);
        for (holds, text) in &verdicts {
            outln!("{}: {text}", if *holds { "pass" } else { "FAIL" });
        }
    }
    Ok(if verdicts.iter().all(|(holds, _)| *holds) { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn as_json(rows: &[Row], verdicts: &[(bool, String)], seed: u64) -> serde_json::Value {
    // The measured value follows the colon.
    let name = |text: &str| text.split(": ").next().unwrap_or_default().to_owned();
    let goal = |(holds, text): &(bool, String)| json!({ "goal": name(text), "holds": holds });
    let goals: Vec<_> = verdicts.iter().map(goal).collect();
    let body = json!({ "machine": host::Machine::this().to_string(), "rows": rows, "goals": goals });
    ResultHeader::of_host("bench-fabric", Some(seed)).stamp(body)
}

/// All rows, and whether outcomes on one and on several threads were equal.
struct Found {
    rows: Vec<Row>,
    alike: bool,
}

/// One run with greenwave's TCP.
fn once(case: &Case, args: &Args) -> Result<Found, Error> {
    let bar = progress::bar(case.flows(args).into());
    bar.set_message(case.name);
    let config = config(case, "modern", args)?;
    let (row, _) = measure(case, "modern", &config, args.threads.unwrap_or(1).into(), &bar);
    bar.finish_and_clear();
    Ok(Found { rows: vec![row], alike: true })
}

/// Every case with every transport, and with greenwave's TCP on several threads.
fn compared(cases: &[Case], args: &Args) -> Result<Found, Error> {
    let each = TRANSPORTS.len() as u64 + u64::from(args.threads.is_some());
    let bar = progress::bar(cases.iter().map(|case| u64::from(case.flows(args)) * each).sum());
    let mut found = Found { rows: Vec::new(), alike: true };
    for case in cases {
        for transport in TRANSPORTS {
            bar.set_message(format!("{}, {transport}", case.name));
            let config = config(case, transport, args)?;
            let (row, outcome) = measure(case, transport, &config, 1, &bar);
            let alone_s = row.wall_s;
            found.rows.push(row);
            if let Some(threads) = args.threads.filter(|_| transport == "modern") {
                let (mut row, several) = measure(case, transport, &config, threads.into(), &bar);
                row.speedup = Some(alone_s / row.wall_s);
                found.alike &= several == outcome;
                found.rows.push(row);
            }
        }
    }
    bar.finish_and_clear();
    Ok(found)
}

/// Goals: speed of one core, and equal outcomes on several threads.
fn fast(rows: &[Row], alike: bool, args: &Args) -> Vec<(bool, String)> {
    let ours = rows.iter().filter(|row| row.transport == "modern" && row.threads == 1);
    let slowest = ours.map(|row| row.hops_per_s).fold(f64::INFINITY, f64::min);
    let of_one = format!(
        "M hops/s on one core with greenwave's TCP ≥ {}: worst {:.2}   ({})",
        GOAL / 1e6,
        slowest / 1e6,
        how(args)
    );
    let of_several = || (alike, "results on one thread and on several threads are equal".to_owned());
    [(slowest >= GOAL, of_one)].into_iter().chain(args.threads.map(|_| of_several())).collect()
}

/// Goal: the large network ends in time.
fn ended(rows: &[Row], args: &Args) -> (bool, String) {
    let wall_s: f64 = rows.iter().map(|row| row.wall_s).sum();
    let left: usize = rows.iter().map(|row| row.unfinished).sum();
    let text = format!(
        "wall-clock time ≤ {GOAL_LARGE_S} s and 0 unfinished flows: {wall_s:.0} s, {left}   ({})",
        how(args)
    );
    (wall_s <= GOAL_LARGE_S && left == 0, text)
}

/// Settings that replay the run, and the machine.
fn how(args: &Args) -> String {
    format!("scheduler {}, seed {}, {}", args.scheduler, args.seed, host::Machine::this())
}

impl Case {
    /// Number of flows for `args`.
    fn flows(&self, args: &Args) -> u32 {
        args.count.unwrap_or(if args.quick { self.flows / 20 } else { self.flows })
    }
}

fn config(case: &Case, transport: &str, args: &Args) -> Result<Config, Error> {
    let Case { topology, rate, senders, .. } = case;
    let text = format!(
        "topology = {topology}\nscheduler = {:?}\nways = \"flow\"\ntransport = {{ kind = {transport:?} }}\n\
         thresholds = [909, 1329, 1648, 1960, 2143, 2337, 2484]\nroom = 240\nmark = 65\n\
         flows = {}\nsizes = \"websearch\"\narrivals = \"poisson {rate}\"\nsenders = {senders:?}\nseed = {}",
        args.scheduler,
        case.flows(args),
        args.seed
    );
    Config::from_toml(&text).map_err(|error| Error::new(error.to_string()))
}

fn measure(
    case: &Case,
    transport: &'static str,
    config: &Config,
    threads: usize,
    bar: &ProgressBar,
) -> (Row, Outcome) {
    let before = drivers::rss::resident();
    let over = AtomicBool::new(false);
    let (outcome, [cpu, wall], peak) = std::thread::scope(|scope| {
        let peak = scope.spawn(|| peak_until(&over));
        let start = [ThreadTime.now(), Monotonic.now()];
        let mut shown = 0;
        let outcome = fabric::run_on(config, threads, &mut |done| {
            bar.inc(u64::from(done - shown));
            shown = done;
        });
        let took = [ThreadTime.now().since(start[0]), Monotonic.now().since(start[1])];
        over.store(true, Ordering::Relaxed);
        (outcome, took, peak.join().unwrap_or(0))
    });
    let took = if threads == 1 { cpu } else { wall };
    let row = Row {
        case: case.name,
        transport,
        threads,
        flows: outcome.flows.len(),
        unfinished: outcome.flows.iter().filter(|flow| flow.took.is_none()).count(),
        active_max: outcome.active_max,
        hops: outcome.counters.hops,
        events: outcome.events,
        cpu_s: cpu.as_secs_f64(),
        wall_s: wall.as_secs_f64(),
        hops_per_s: outcome.counters.hops as f64 / took.max(Span::from_nanos(1)).as_secs_f64(),
        speedup: None,
        peak_bytes: peak,
        bytes_per_active_flow: peak.saturating_sub(before) as f64 / f64::from(outcome.active_max.max(1)),
    };
    (row, outcome)
}

/// Peak memory of the process until `over`.
fn peak_until(over: &AtomicBool) -> u64 {
    let mut peak = drivers::rss::resident();
    while !over.load(Ordering::Relaxed) {
        std::thread::sleep(Duration::from_millis(10));
        peak = peak.max(drivers::rss::resident());
    }
    peak
}

fn print(rows: &[Row]) {
    let header = [
        "case",
        "transport",
        "threads",
        "flows",
        "active max",
        "M hops",
        "CPU s",
        "wall s",
        "M hops/s",
        "speed-up",
        "MiB",
        "KiB/flow",
    ];
    let mut table = Table::new(2, &header);
    for row in rows {
        table.row(vec![
            row.case.to_owned(),
            row.transport.to_owned(),
            row.threads.to_string(),
            row.flows.to_string(),
            row.active_max.to_string(),
            format!("{:.2}", row.hops as f64 / 1e6),
            format!("{:.2}", row.cpu_s),
            format!("{:.2}", row.wall_s),
            format!("{:.2}", row.hops_per_s / 1e6),
            row.speedup.map(|speedup| format!("{speedup:.2}")).unwrap_or_default(),
            format!("{:.1}", row.peak_bytes as f64 / f64::from(1 << 20)),
            format!("{:.1}", row.bytes_per_active_flow / 1024.0),
        ]);
    }
    out!("{table}");
}
