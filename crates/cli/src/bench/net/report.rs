//! Results as tables and as JSON.

use queueing::Span;
use serde_json::{Value, json};

use super::results::{SystemFigures, SystemRow};
use crate::bench::target::Goal;
use crate::report::ResultHeader;
use crate::table::{Table, micros};

/// Prints tables, notes, and the goals as last lines.
pub fn print(rows: &[SystemRow], goals: &[Goal]) {
    let mut header = vec!["case", "server", "req/s", "per core", "cores", "p50", "p99", "p99.9"];
    let mut groups = vec![("", 2), ("thousands", 2), ("", 1), ("latency, µs", 3)];
    let any_broken = rows.iter().any(|row| row.figures().is_ok_and(|f| f.broken > 0));
    if any_broken {
        header.push("broken");
        groups.push(("", 1));
    }
    let mut exchanges = Table::new(2, &header).groups(&groups);
    let mut streams = Table::new(2, &["case", "server", "Gbit/s", "cores"]);
    let (mut any, mut any_stream) = (false, false);
    let mut missing: Vec<(String, &str)> = Vec::new();
    for row in rows {
        let (name, case) = (row.system.name(), row.case.name.clone());
        match row.figures() {
            Ok(f) if row.case.is_stream() => {
                any_stream = true;
                let words = [case, name, format!("{:.2}", f.gigabits()), format!("{:.2}", f.cores)];
                streams.row(words.to_vec());
            }
            Ok(f) => {
                any = true;
                let rates = [f.answers_per_s, f.per_core()].map(|rate| format!("{:.1}", rate / 1e3));
                let latency = [f.p50, f.p99, f.p999].map(micros);
                let mut row = [&[case, name][..], &rates, &[format!("{:.2}", f.cores)], &latency].concat();
                if any_broken {
                    row.push(f.broken.to_string());
                }
                exchanges.row(row);
            }
            Err(why) => {
                if !missing.iter().any(|(other, reason)| *other == name && *reason == why) {
                    missing.push((name, why));
                }
            }
        }
    }
    if any {
        outln!("{exchanges}");
    }
    if any_stream {
        outln!("{streams}");
    }
    let mut seen = Vec::new();
    for system in rows.iter().map(|row| &row.system) {
        if !seen.contains(&system.name()) {
            outln!("{}: {}", system.name(), system.note);
            seen.push(system.name());
        }
    }
    outln!("cores: CPU time of the server's threads and of the softirqs on their core, in cores");
    if any_broken {
        outln!("broken: connections that broke before the end, over all rounds");
    }
    for row in rows {
        if let Ok(SystemFigures { resent, .. }) = row.figures()
            && resent >= RESENT_MIN
        {
            let (name, case, percent) = (row.system.name(), &row.case.name, resent * 100.0);
            outln!("{name} {case}: the client retransmitted {percent:.1} % of its segments");
        }
    }
    for (name, why) in missing {
        outln!("{name}: not run: {why}");
    }
    for goal in goals {
        outln!("{goal}");
    }
}

/// Share of retransmitted segments above which the client's figures may differ from the server's.
const RESENT_MIN: f64 = 0.01;

/// Results as JSON.
pub fn json(rows: &[SystemRow], goals: &[Goal], rounds: u32, time: Span) -> Value {
    let row = |row: &SystemRow| {
        let head = json!({
            "stack": row.system.stack.name(),
            "device": row.system.device.name(),
            "note": row.system.note,
            "case": row.case.name,
            "connections": row.case.connections,
        });
        let figures = match row.figures() {
            Ok(f) => json!({
                "answers_per_s": f.answers_per_s,
                "answers_per_s_and_core": f.per_core(),
                "bytes_per_s": f.bytes_per_s,
                "server_cores": f.cores,
                "p50_ns": f.p50.as_nanos(),
                "p99_ns": f.p99.as_nanos(),
                "p999_ns": f.p999.as_nanos(),
                "broken": f.broken,
                "client_resent": f.resent,
                "client_out_of_order": f.early,
            }),
            Err(why) => json!({ "not_run": why }),
        };
        let (Value::Object(mut head), Value::Object(figures)) = (head, figures) else { return Value::Null };
        head.extend(figures);
        let rounds = row.each();
        if !rounds.is_empty() {
            let each = |of: &dyn Fn(&SystemFigures) -> f64| rounds.iter().map(of).collect::<Vec<_>>();
            let ns = |of: fn(&SystemFigures) -> Span| each(&|f| of(f).as_nanos() as f64);
            let rounds = json!({
                "answers_per_s": each(&|f| f.answers_per_s),
                "answers_per_s_and_core": each(&|f| f.per_core()),
                "bytes_per_s": each(&|f| f.bytes_per_s),
                "server_cores": each(&|f| f.cores),
                "p50_ns": ns(|f| f.p50),
                "p99_ns": ns(|f| f.p99),
                "p999_ns": ns(|f| f.p999),
            });
            head.insert("rounds".to_owned(), rounds);
        }
        Value::Object(head)
    };
    ResultHeader::of_host("bench-net", None).with_doctor(&["serve"]).stamp(json!({
        "machine": host::Machine::this().to_string(),
        "rounds": rounds,
        "time_ns": time.as_nanos(),
        "rows": rows.iter().map(row).collect::<Vec<_>>(),
        "goals": goals.iter().map(Goal::json).collect::<Vec<_>>(),
    }))
}
