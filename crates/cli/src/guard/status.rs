//! `greenwave guard status`: a guard's counters and observations as a table, as JSON, or for
//! Prometheus.

use std::process::ExitCode;

use guard::app_queue::Requests;
use hostbpf::guard::{LimitInForce, ObservedSignals, PortStatus, Queue, Reason, Refusal, Status, WaitEnd};
use hostbpf::xdp::Mode;
use queueing::Span;
use serde_json::json;

use crate::Error;
use crate::table::Table;
use crate::ui::metrics::{self, OFFERED, PORT_HANDSHAKES, PORT_LIMITED, PORT_OFFERED, PORT_SHED, SHED};
use crate::ui::{Figure, Labels};

/// Show a guard's counters and queues.
#[derive(clap::Args)]
pub struct Args {
    /// Network interface.
    device: String,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    /// Print Prometheus' text format.
    #[arg(long, conflicts_with = "json")]
    metrics: bool,
}

/// Reads and prints the status.
///
/// # Errors
/// There is no guard.
pub fn run(args: &Args) -> Result<ExitCode, Error> {
    let status = hostbpf::guard::status(&args.device)?;
    match (args.json, args.metrics) {
        (true, _) => outln!("{}", as_json(&args.device, &status)),
        (_, true) => out!("{}", metrics::text(&figures(&args.device, &status), &[])),
        _ => out!("{}", as_text(&args.device, &status)),
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

/// The admitted connections as text, under the limit `held` and with the signals `seen`.
fn admission(status: &Status, held: LimitInForce, seen: &ObservedSignals) -> String {
    match held {
        _ if !status.is_alive() => "all connections, because the controller is stalled".to_owned(),
        LimitInForce::Open => "all connections".to_owned(),
        LimitInForce::Closed => "none".to_owned(),
        LimitInForce::Rate { cost_ns, .. } => {
            let syns = per_s(cost_ns);
            match seen.handshakes_ppm {
                ppm @ ..FLOOD_PPM => format!(
                    "{:.0} connections/s, with {syns:.0} SYNs/s of which {:.1} % complete the handshake",
                    syns * ppm as f64 / 1e6,
                    ppm as f64 / 1e4
                ),
                _ => format!("{syns:.0}/s"),
            }
        }
        LimitInForce::Concurrency(present) => {
            format!("a new connection while fewer than {} are in the server", present[0])
        }
    }
}

/// SYNs per second at `cost_ns` each.
fn per_s(cost_ns: u64) -> f64 {
    1e9 / cost_ns.max(1) as f64
}

/// Completed handshakes per million SYNs below which SYNs are told apart from connections.
const FLOOD_PPM: u64 = 900_000;

/// Conditions under which the guard does not do what its flags say.
pub(super) fn warnings(status: &Status) -> Vec<String> {
    let resets = status.may_lose_resets.then(|| {
        "in mode drv on a veth a reset reaches the client only if the interface at the other end has GRO or \
         an XDP program; --mode skb has no such condition"
            .to_owned()
    });
    let ports = status.ports.iter().filter(|port| port.lacks_handshakes());
    let ports = ports.map(|PortStatus { port, .. }| {
        format!(
            "few SYNs to port {port} complete the handshake: in a SYN flood, or where the packets are rewritten \
             behind XDP (DNAT, as by Docker and Kubernetes) and reach another listener; then guard that \
             listener's port in its network namespace"
        )
    });
    resets.into_iter().chain(ports).collect()
}

/// Limit and counts of each port, if there are several.
fn ports(status: &Status) -> Option<Table> {
    let mut table = Table::new(4, &["port", "seen", "shed", "accepted", "admits"]);
    for PortStatus { port, held: limit, seen, counts } in &status.ports {
        let figures = [u64::from(*port), counts.offered(), counts.shed(), seen.served];
        let row = figures.iter().map(u64::to_string).chain([admission(status, *limit, seen)]);
        table.row(row.collect());
    }
    (status.ports.len() > 1).then_some(table)
}

fn as_text(device: &str, status: &Status) -> String {
    let notes = &status.notes;
    let mut header = vec!["class", "clients", "seen", "shed"];
    header.extend(Reason::ALL.map(Reason::name));
    let mut table = Table::new(2, &header).groups(&[("", 4), ("shed, by reason", Reason::ALL.len())]);
    for (class, who) in notes.classes.iter().enumerate() {
        let (seen, shed) = (status.counts.seen[class], status.counts.shed[class]);
        let figures = [seen, shed.iter().sum()].into_iter().chain(shed);
        let row = [class.to_string(), who.clone()].into_iter().chain(figures.map(|n| n.to_string()));
        table.row(row.collect());
    }
    let seen = &status.seen;
    let dry = if notes.watching { "; dry run, nothing is shed" } else { "" };
    let alive = match status.is_alive() {
        true => format!("last ran {} ago", status.silent),
        false => format!("stalled for {}", status.silent),
    };
    let each: String = queues(status)
        .map(|Queue { port, waiting, room, delay, is_stuck }| {
            let stuck = match is_stuck {
                true => "; stuck: nothing is accepted from it while the others are served",
                false => "",
            };
            format!("  port {port}: {waiting} of {room} waiting, oldest {delay}{stuck}\n")
        })
        .collect();
    let warnings: String = warnings(status).iter().map(|warning| format!("warning: {warning}\n")).collect();
    let (ports, admits) = match ports(status) {
        Some(ports) => (ports.to_string(), "as above, each port by its own limit".to_owned()),
        None => (String::new(), admission(status, status.held, &status.seen)),
    };
    format!(
        "{device}: {}, target {}, mode {}, refusal {}{dry}\n\
         {table}{ports}controller: {alive}; admits: {admits}\n\
         accept queue: {} of {} waiting, oldest {}; accepted: {}\n\
         {each}{}{}dropped by the kernel since the attach, at all listeners of this network namespace: {}, of them {} at a \
         full accept queue (phantom connections)\n\
         admitted because the controller was stalled: {}\n{warnings}",
        notes.name(),
        notes.target,
        mode(status),
        refusal(status),
        seen.waiting,
        seen.room,
        seen.delay,
        seen.served,
        unanswered(status),
        requests(&seen.requests),
        seen.drops,
        seen.overflows,
        status.counts.silent,
    )
}

/// Connections without a first response byte, if they are observed.
fn unanswered(status: &Status) -> String {
    match status.notes.until {
        WaitEnd::Accept => String::new(),
        WaitEnd::Answer => format!(
            "without a first response byte: {} connections, oldest {}\n",
            status.seen.unanswered, status.seen.unanswered_delay
        ),
    }
}

/// The queue reports of services, if any are configured.
fn requests(requests: &Requests) -> String {
    let Requests { services, reporting, waiting, delay, budget } = *requests;
    let budget = budget.map_or(String::new(), |budget| format!("; median deadline budget left {budget}"));
    match (services, reporting) {
        (0, _) => String::new(),
        (_, 0) => format!("application queues: 0 of {services} services reporting\n"),
        _ => format!(
            "application queues: {waiting} requests waiting, oldest {delay}{budget}; {reporting} of {services} services reporting\n"
        ),
    }
}

fn limit(held: LimitInForce) -> serde_json::Value {
    let (kind, per_s) = match held {
        LimitInForce::Open => ("open", None),
        LimitInForce::Rate { cost_ns, .. } => ("rate", Some(per_s(cost_ns))),
        LimitInForce::Concurrency(_) => ("present", None),
        LimitInForce::Closed => ("closed", None),
    };
    json!({ "kind": kind, "per_s": per_s })
}

fn as_json(device: &str, status: &Status) -> serde_json::Value {
    let notes = &status.notes;
    let class = |(class, who): (usize, &String)| {
        let shed = Reason::ALL.iter().zip(status.counts.shed[class]);
        let shed: serde_json::Map<_, _> =
            shed.map(|(reason, n)| (reason.name().to_owned(), n.into())).collect();
        json!({ "who": who, "seen": status.counts.seen[class], "shed": shed })
    };
    let port = |PortStatus { port, held, seen, counts }: &PortStatus| {
        json!({
            "port": port, "limit": limit(*held), "seen": counts.offered(), "shed": counts.shed(),
            "passed_silent": counts.silent, "waiting": seen.waiting, "room": seen.room,
            "delay_ns": seen.delay.as_nanos(), "served": seen.served,
            "unanswered": seen.unanswered, "unanswered_delay_ns": seen.unanswered_delay.as_nanos(),
            "handshakes_ppm": seen.handshakes_ppm,
        })
    };
    let queues = queues(status).map(|queue| {
        json!({
            "port": queue.port, "waiting": queue.waiting, "room": queue.room, "delay_ns": queue.delay.as_nanos(),
            "stuck": queue.is_stuck,
        })
    });
    json!({
        "device": device, "policy": notes.policy, "target_ns": notes.target.as_nanos(), "mode": mode(status),
        "ports": notes.ports, "dry_run": notes.watching, "refusal": refusal(status), "process": notes.process,
        "alive": status.is_alive(), "silent_ns": status.silent.as_nanos(),
        "limit": limit(status.held), "by_port": status.ports.iter().map(port).collect::<Vec<_>>(),
        "seen": status.counts.offered(), "shed": status.counts.shed(), "passed_silent": status.counts.silent,
        "classes": notes.classes.iter().enumerate().map(class).collect::<Vec<_>>(),
        "queues": queues.collect::<Vec<_>>(), "waiting": status.seen.waiting, "room": status.seen.room, "delay_ns": status.seen.delay.as_nanos(),
        "until": match notes.until {
            WaitEnd::Accept => "accept",
            WaitEnd::Answer => "answer",
        },
        "unanswered": status.seen.unanswered, "unanswered_delay_ns": status.seen.unanswered_delay.as_nanos(),
        "requests": {
            "services": status.seen.requests.services, "telling": status.seen.requests.reporting,
            "waiting": status.seen.requests.waiting, "delay_ns": status.seen.requests.delay.as_nanos(),
            "budget_ns": status.seen.requests.budget.map(Span::as_nanos),
        },
        "served": status.seen.served, "listen_overflows": status.seen.overflows, "listen_drops": status.seen.drops,
        "warnings": warnings(status),
    })
}

/// Status figures for Prometheus and the live view.
pub(super) fn figures(device: &str, status: &Status) -> Vec<Figure> {
    let (counts, seen) = (&status.counts, &status.seen);
    let of_device = Labels::none().with("device", device);
    let of_class = |class: usize| of_device.clone().with("class", class);
    let classes = 0..status.notes.classes.len();
    let mut figures: Vec<Figure> = classes
        .clone()
        .map(|class| Figure::new(OFFERED, of_class(class), counts.seen[class] as f64))
        .collect();
    for class in classes {
        let shed = Reason::ALL.iter().zip(counts.shed[class]);
        figures.extend(shed.map(|(reason, count)| {
            Figure::new(SHED, of_class(class).with("reason", reason.name()), count as f64)
        }));
    }
    for PortStatus { port, held, seen, counts } in &status.ports {
        let labels = of_device.clone().with("port", port);
        let is_limited = status.is_alive() && *held != LimitInForce::Open;
        figures.push(Figure::new(PORT_OFFERED, labels.clone(), counts.offered() as f64));
        figures.push(Figure::new(PORT_SHED, labels.clone(), counts.shed() as f64));
        figures.push(Figure::new(PORT_LIMITED, labels.clone(), f64::from(u8::from(is_limited))));
        figures.push(Figure::new(PORT_HANDSHAKES, labels, seen.handshakes_ppm as f64 / 1e6));
    }
    let requests = &seen.requests;
    let rest = [
        ("greenwave_guard_failopen_total", counts.silent as f64),
        ("greenwave_guard_accept_queue_age_seconds", seen.delay.as_secs_f64()),
        ("greenwave_guard_accept_queue_length", seen.waiting as f64),
        ("greenwave_guard_accept_queue_limit", seen.room as f64),
        ("greenwave_guard_pending_response", seen.unanswered as f64),
        ("greenwave_guard_pending_response_age_seconds", seen.unanswered_delay.as_secs_f64()),
        ("greenwave_guard_reporters", requests.services as f64),
        ("greenwave_guard_reporters_alive", requests.reporting as f64),
        ("greenwave_guard_app_queue_length", requests.waiting as f64),
        ("greenwave_guard_app_queue_age_seconds", requests.delay.as_secs_f64()),
        ("greenwave_guard_accepted_total", seen.served as f64),
        ("greenwave_guard_listen_overflows_total", seen.overflows as f64),
        ("greenwave_guard_listen_drops_total", seen.drops as f64),
        ("greenwave_guard_controller_up", f64::from(u8::from(status.is_alive()))),
    ];
    figures.extend(rest.map(|(name, value)| Figure::new(name, of_device.clone(), value)));
    figures
}
