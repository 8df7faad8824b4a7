//! Results as a table and as JSON, and the goals.

use queueing::Span;
use serde_json::{Value, json};

use super::results::{ScalingFigures, ScalingRow, speed_up};
use super::servers::ServerStack;
use crate::bench::target::Goal;
use crate::report::ResultHeader;
use crate::table::{Table, micros};

/// All goals.
pub fn goals(rows: &[ScalingRow]) -> Vec<Goal> {
    let ours = || rows.iter().filter(|row| row.stack == ServerStack::Greenwave);
    // A case of ours that failed has the worst ratio, one without its baseline none.
    let over = |row: &ScalingRow, ratio: Option<f64>| match row.figures() {
        Ok(_) => (ratio.unwrap_or(f64::NAN), row.case()),
        Err(_) => (0.0, row.case()),
    };
    let grown = ours().filter(|row| row.cores.count() > 1).map(|row| {
        let times = speed_up(rows, row);
        over(row, times.map(|times| times / row.cores.count() as f64))
    });
    let beside = ours().map(|row| {
        let is_kernels =
            |other: &&ScalingRow| other.stack == ServerStack::Kernel && other.case() == row.case();
        let kernels = rows.iter().find(is_kernels).and_then(|row| row.figures().ok());
        let ratio = row.figures().ok().zip(kernels);
        over(row, ratio.map(|(ours, kernels)| ours.answers_per_s / kernels.answers_per_s))
    });
    vec![
        Goal::at_least("requests per second on N cores, ÷ N × those on one", 0.8).over(grown),
        Goal::at_least("requests per second, ÷ the kernel's on the same cores", 1.0).over(beside),
    ]
}

/// Prints a table, notes, and the goals as last lines.
pub fn print(rows: &[ScalingRow], goals: &[Goal]) {
    let header = ["server", "stack", "cores", "req/s", "per core", "used", "÷ one", "p50", "p99", "busiest"];
    let groups = [("", 3), ("thousands", 2), ("", 2), ("latency, µs", 2), ("client", 1)];
    let mut table = Table::new(2, &header).groups(&groups);
    let (mut any, mut broken) = (false, 0);
    for row in rows {
        let Ok(f) = row.figures() else { continue };
        (any, broken) = (true, broken + f.broken);
        let words = [row.server.name(), row.stack.name()].map(str::to_owned);
        let rates = [f.answers_per_s, f.per_core()].map(|rate| format!("{:.1}", rate / 1e3));
        let times = speed_up(rows, row).map_or("–".to_owned(), |times| format!("{times:.2}"));
        let cores = [row.cores.count().to_string()];
        let used = [format!("{:.2}", f.used), times];
        let latency = [f.p50, f.p99].map(micros);
        let busiest = [format!("{:.0} %", f.busiest * 100.0)];
        table.row([&words[..], &cores, &rates, &used, &latency, &busiest].concat());
    }
    if any {
        outln!("{table}");
    }
    outln!("used: CPU time of the server, its stack and softirq threads, in cores");
    outln!("busiest client: CPU utilisation; near 100 %, the clients are the bottleneck");
    if broken > 0 {
        outln!("{broken} connections broke before the end");
    }
    for row in rows {
        if let Err(why) = row.figures() {
            outln!("{}: not run: {why}", row.name());
        }
    }
    goals.iter().for_each(|goal| outln!("{goal}"));
}

/// Results as JSON.
pub fn json(rows: &[ScalingRow], goals: &[Goal], connections: u32, rounds: u32, time: Span) -> Value {
    let row = |row: &ScalingRow| {
        let mut all = serde_json::Map::new();
        let mut put = |name: &str, value: Value| drop(all.insert(name.to_owned(), value));
        put("server", row.server.name().into());
        put("stack", row.stack.name().into());
        put("cores", row.cores.count().into());
        put("placed", row.cores.to_string().into());
        match row.figures() {
            Ok(figures) => each(&figures, |name, value| put(name, value.into())),
            Err(why) => put("not_run", why.into()),
        }
        put("speed_up", speed_up(rows, row).into());
        let mut rounds = serde_json::Map::new();
        for figures in row.each() {
            each(figures, |name, value| {
                if let Value::Array(values) = rounds.entry(name).or_insert_with(|| json!([])) {
                    values.push(value.into());
                }
            });
        }
        put("rounds", rounds.into());
        Value::Object(all)
    };
    ResultHeader::of_host("bench-cores", None).with_doctor(&["serve"]).stamp(json!({
        "machine": host::Machine::this().to_string(),
        "connections_per_core": connections,
        "rounds": rounds,
        "time_ns": time.as_nanos(),
        "rows": rows.iter().map(row).collect::<Vec<_>>(),
        "goals": goals.iter().map(Goal::json).collect::<Vec<_>>(),
    }))
}

/// Calls `take` for each of `figures`, with its name.
fn each(figures: &ScalingFigures, mut take: impl FnMut(&str, f64)) {
    let ScalingFigures { answers_per_s, used, p50, p99, broken, busiest } = *figures;
    take("answers_per_s", answers_per_s);
    take("answers_per_s_and_core", figures.per_core());
    take("server_cores", used);
    take("p50_ns", p50.as_nanos() as f64);
    take("p99_ns", p99.as_nanos() as f64);
    take("broken", broken as f64);
    take("client_busiest", busiest);
}
