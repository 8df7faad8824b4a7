//! The figures: medians over rounds, a table, the same as JSON.

use queueing::Span;
use serde_json::{Value, json};

use super::cases::Case;
use super::goals::Goal;
use super::place::Measured;
use super::systems::System;
use crate::table::{Table, micros};

/// One server in one case, over all rounds.
pub struct Row {
    pub system: System,
    pub case: Case,
    rounds: Vec<Measured>,
    /// Why a round has no figures.
    failed: Option<String>,
}

/// A row's medians.
#[derive(Clone, Copy, Debug)]
pub struct Figures {
    pub answers_per_s: f64,
    pub bytes_per_s: f64,
    /// Cores that the server used.
    pub cores: f64,
    pub p50: Span,
    pub p99: Span,
    pub p999: Span,
    /// Connections that did not live to the end, over all rounds.
    pub broken: u64,
    /// Share of the client's segments that were sent again, 0..=1.
    pub resent: f64,
    /// Segments that came to the client out of order, over all rounds.
    pub early: u64,
}

impl Figures {
    /// Answers that one core of the server gives in a second.
    pub fn per_core(&self) -> f64 {
        self.answers_per_s / self.cores.max(1e-3)
    }
}

impl Row {
    pub fn new(system: System, case: &Case) -> Self {
        Self { system, case: case.clone(), rounds: Vec::new(), failed: None }
    }

    pub fn add(&mut self, round: Result<Measured, String>) {
        match round {
            Ok(measured) => self.rounds.push(measured),
            Err(why) => self.failed = Some(why),
        }
    }

    /// The medians, unless no round has figures.
    pub fn figures(&self) -> Result<Figures, &str> {
        if self.rounds.is_empty() {
            return Err(self.failed.as_deref().unwrap_or("no round was run"));
        }
        let of = |figure: &dyn Fn(&Measured) -> f64| {
            let mut values: Vec<f64> = self.rounds.iter().map(figure).collect();
            values.sort_by(f64::total_cmp);
            values[values.len() / 2]
        };
        let quantile = |q: f64| Span::from_nanos(of(&|m| m.latency.quantile(q).as_nanos() as f64) as u64);
        Ok(Figures {
            answers_per_s: of(&|m| m.answers_per_s),
            bytes_per_s: of(&|m| m.bytes_per_s),
            cores: of(&|m| m.cores),
            p50: quantile(0.5),
            p99: quantile(0.99),
            p999: quantile(0.999),
            broken: self.rounds.iter().map(|m| m.broken).sum(),
            resent: of(&|m| m.resent as f64 / (m.sent as f64).max(1.0)),
            early: self.rounds.iter().map(|m| m.early).sum(),
        })
    }
}

/// Tables, notes, and the goals as last lines.
pub fn print(rows: &[Row], goals: &[Goal]) {
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
                let words = [case, name, format!("{:.2}", gigabits(&f)), format!("{:.2}", f.cores)];
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
        println!("{exchanges}");
    }
    if any_stream {
        println!("{streams}");
    }
    let mut seen = Vec::new();
    for system in rows.iter().map(|row| &row.system) {
        if !seen.contains(&system.name()) {
            println!("{}: {}", system.name(), system.note);
            seen.push(system.name());
        }
    }
    println!(
        "cores: the run time of the server's threads, the softirqs that interrupt them and the \
         softirq thread of their core"
    );
    if any_broken {
        println!("broken: connections that did not live to the end, over all rounds");
    }
    for row in rows {
        if let Ok(Figures { resent, .. }) = row.figures()
            && resent >= RESENT_MIN
        {
            let (name, case, percent) = (row.system.name(), &row.case.name, resent * 100.0);
            println!("{name} {case}: {percent:.1} % of the client's segments were sent again");
        }
    }
    for (name, why) in missing {
        println!("{name}: not run: {why}");
    }
    for goal in goals {
        println!("{goal}");
    }
}

/// With fewer segments sent again the client's figures are the server's.
const RESENT_MIN: f64 = 0.01;

/// Payload in 10⁹ bits per second.
pub fn gigabits(figures: &Figures) -> f64 {
    figures.bytes_per_s * 8.0 / 1e9
}

/// The same figures for programs.
pub fn json(rows: &[Row], goals: &[Goal], rounds: u32, time: Span) -> Value {
    let row = |row: &Row| {
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
        Value::Object(head)
    };
    json!({
        "machine": host::Machine::this().to_string(),
        "rounds": rounds,
        "time_ns": time.as_nanos(),
        "rows": rows.iter().map(row).collect::<Vec<_>>(),
        "goals": goals.iter().map(Goal::json).collect::<Vec<_>>(),
    })
}
