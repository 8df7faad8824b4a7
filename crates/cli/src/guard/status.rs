//! `greenwave guard status`: what a guard sheds and sees, as a table, as JSON,
//! or as Prometheus reads it.

use std::process::ExitCode;

use guard::joined::Requests;
use host::guard::{Held, Queue, Reason, Refusal, Status};
use host::xdp::Mode;
use queueing::Span;
use serde_json::json;

use crate::Error;
use crate::table::Table;

/// Show what a guard sheds and sees.
#[derive(clap::Args)]
pub struct Args {
    /// The interface.
    device: String,
    /// The same figures as JSON.
    #[arg(long)]
    json: bool,
    /// The same figures in Prometheus' text format.
    #[arg(long, conflicts_with = "json")]
    metrics: bool,
}

/// Asks and prints.
///
/// # Errors
/// There is no guard.
pub fn run(args: &Args) -> Result<ExitCode, Error> {
    let status = host::guard::status(&args.device)?;
    match (args.json, args.metrics) {
        (true, _) => println!("{}", as_json(&args.device, &status)),
        (_, true) => print!("{}", as_metrics(&args.device, &status)),
        _ => print!("{}", as_text(&args.device, &status)),
    }
    Ok(ExitCode::SUCCESS)
}

fn mode(status: &Status) -> &'static str {
    match status.notes.mode {
        Mode::Native => "drv",
        Mode::Generic => "skb",
    }
}

/// The accept queues, if there are several.
fn queues(status: &Status) -> impl Iterator<Item = &Queue> {
    let queues = &status.seen.queues;
    let are_several = queues[1].port > 0;
    queues.iter().take_while(move |queue| are_several && queue.port > 0)
}

fn refusal(status: &Status) -> &'static str {
    match status.notes.refusal {
        Refusal::Silence => "silence",
        Refusal::Reset => "reset",
    }
}

/// What may come in, in words.
fn held(status: &Status) -> String {
    match status.held {
        _ if !status.is_alive() => "everybody, as the controller is silent".to_owned(),
        Held::Open => "everybody".to_owned(),
        Held::Closed => "nobody".to_owned(),
        Held::Rate { cost_ns, .. } => format!("{:.0} a second", 1e9 / cost_ns.max(1) as f64),
        Held::Present(present) => format!("below {} in the server", present[0]),
    }
}

fn as_text(device: &str, status: &Status) -> String {
    let notes = &status.notes;
    let mut header = vec!["class", "who", "came", "shed"];
    header.extend(Reason::ALL.map(Reason::name));
    let mut table = Table::new(2, &header).groups(&[("", 4), ("shed by", Reason::ALL.len())]);
    for (class, who) in notes.classes.iter().enumerate() {
        let (seen, shed) = (status.counts.seen[class], status.counts.shed[class]);
        let figures = [seen, shed.iter().sum()].into_iter().chain(shed);
        let row = [class.to_string(), who.clone()].into_iter().chain(figures.map(|n| n.to_string()));
        table.row(row.collect());
    }
    let seen = &status.seen;
    let dry = if notes.watching { "; a dry run, nobody is shed" } else { "" };
    let alive = match status.is_alive() {
        true => format!("looked {} ago", status.silent),
        false => format!("silent for {}", status.silent),
    };
    let each: String = queues(status)
        .map(|Queue { port, waiting, room, delay }| {
            format!("  port {port}: {waiting} of {room}, the first waits for {delay}\n")
        })
        .collect();
    format!(
        "{device}: {}, target {}, mode {}, refusal {}{dry}\n\
         {table}controller: {alive}; lets in: {}\n\
         accept queue: {} of {}, the first waits for {}; taken off: {}\n\
         {each}{}dropped by the kernel: {} at full queues (phantom connections), {} at listeners in all\n\
         let in while the controller was silent: {}\n",
        notes.name(),
        notes.target,
        mode(status),
        refusal(status),
        held(status),
        seen.waiting,
        seen.room,
        seen.delay,
        seen.served,
        requests(&seen.requests),
        seen.overflows,
        seen.drops,
        status.counts.silent,
    )
}

/// What services tell of their requests, if any are to.
fn requests(requests: &Requests) -> String {
    let Requests { services, telling, waiting, delay, budget } = *requests;
    let budget = budget.map_or(String::new(), |budget| format!("; half can spare {budget} at most"));
    match (services, telling) {
        (0, _) => String::new(),
        (_, 0) => format!("requests: of {services} services none tells\n"),
        _ => format!(
            "requests: {waiting} wait, the first for {delay}{budget}; {telling} of {services} services tell\n"
        ),
    }
}

fn as_json(device: &str, status: &Status) -> serde_json::Value {
    let notes = &status.notes;
    let class = |(class, who): (usize, &String)| {
        let shed = Reason::ALL.iter().zip(status.counts.shed[class]);
        let shed: serde_json::Map<_, _> =
            shed.map(|(reason, n)| (reason.name().to_owned(), n.into())).collect();
        json!({ "who": who, "seen": status.counts.seen[class], "shed": shed })
    };
    let (kind, per_s) = match status.held {
        Held::Open => ("open", None),
        Held::Rate { cost_ns, .. } => ("rate", Some(1e9 / cost_ns.max(1) as f64)),
        Held::Present(_) => ("present", None),
        Held::Closed => ("closed", None),
    };
    let queues = queues(status).map(|queue| {
        json!({
            "port": queue.port, "waiting": queue.waiting, "room": queue.room, "delay_ns": queue.delay.as_nanos(),
        })
    });
    json!({
        "device": device, "policy": notes.policy, "target_ns": notes.target.as_nanos(), "mode": mode(status),
        "ports": notes.ports, "dry_run": notes.watching, "refusal": refusal(status), "process": notes.process,
        "alive": status.is_alive(), "silent_ns": status.silent.as_nanos(),
        "limit": { "kind": kind, "per_s": per_s },
        "seen": status.counts.offered(), "shed": status.counts.shed(), "passed_silent": status.counts.silent,
        "classes": notes.classes.iter().enumerate().map(class).collect::<Vec<_>>(),
        "queues": queues.collect::<Vec<_>>(), "waiting": status.seen.waiting, "room": status.seen.room, "delay_ns": status.seen.delay.as_nanos(),
        "requests": {
            "services": status.seen.requests.services, "telling": status.seen.requests.telling,
            "waiting": status.seen.requests.waiting, "delay_ns": status.seen.requests.delay.as_nanos(),
            "budget_ns": status.seen.requests.budget.map(Span::as_nanos),
        },
        "served": status.seen.served, "listen_overflows": status.seen.overflows, "listen_drops": status.seen.drops,
    })
}

fn as_metrics(device: &str, status: &Status) -> String {
    let mut text = String::new();
    let mut metric = |name: &str, kind: &str, help: &str, samples: &[(String, f64)]| {
        text += &format!("# HELP greenwave_guard_{name} {help}\n# TYPE greenwave_guard_{name} {kind}\n");
        for (labels, value) in samples {
            text += &format!("greenwave_guard_{name}{{device=\"{device}\"{labels}}} {value}\n");
        }
    };
    let classes = 0..status.notes.classes.len();
    let seen = classes.clone().map(|class| (format!(",class=\"{class}\""), status.counts.seen[class] as f64));
    metric("seen_total", "counter", "Connections that came.", &seen.collect::<Vec<_>>());
    let shed = classes.flat_map(|class| {
        let labels = move |reason: &Reason| format!(",class=\"{class}\",reason=\"{}\"", reason.name());
        Reason::ALL.iter().map(labels).zip(status.counts.shed[class].map(|n| n as f64))
    });
    metric("shed_total", "counter", "Connections that were shed.", &shed.collect::<Vec<_>>());
    let mut one = |name, kind, help, value: f64| metric(name, kind, help, &[(String::new(), value)]);
    one(
        "passed_silent_total",
        "counter",
        "Let in as the controller was silent.",
        status.counts.silent as f64,
    );
    one(
        "delay_seconds",
        "gauge",
        "How long the first in the accept queue has waited.",
        status.seen.delay.as_secs_f64(),
    );
    one("waiting", "gauge", "Connections in the accept queues.", status.seen.waiting as f64);
    one("room", "gauge", "Connections that fit there.", status.seen.room as f64);
    let requests = &status.seen.requests;
    one("services", "gauge", "Services that are to tell of their requests.", requests.services as f64);
    one("services_telling", "gauge", "Services that do.", requests.telling as f64);
    one("requests_waiting", "gauge", "Requests that wait there.", requests.waiting as f64);
    one(
        "requests_delay_seconds",
        "gauge",
        "How long the first of these has waited.",
        requests.delay.as_secs_f64(),
    );
    one("served_total", "counter", "Connections that the server accepted.", status.seen.served as f64);
    one(
        "phantoms_total",
        "counter",
        "Dropped by the kernel at full accept queues.",
        status.seen.overflows as f64,
    );
    one("listen_drops_total", "counter", "Dropped by the kernel at listeners.", status.seen.drops as f64);
    one("alive", "gauge", "Whether the controller looks.", f64::from(u8::from(status.is_alive())));
    text
}
