//! Results as a table and as JSON, and the goals.

use std::fmt;

use queueing::Span;
use serde_json::{Value, json};

use super::results::{LoadCase, ProgramResults};
use crate::programs::{Program, StackChoice};
use crate::report::ResultHeader;
use crate::table::{Table, micros};

/// A goal and its result; checked for every program, of which the worst decides.
pub struct ProgramGoal {
    what: &'static str,
    /// Smallest ratio that is accepted.
    target: f64,
    found: Vec<(Program, f64)>,
    /// Programs without a ratio.
    not_measured: Vec<Program>,
    /// True if each program meets it, false if one misses it; none if no measured program misses it
    /// and one was not measured.
    pub holds: Option<bool>,
}

/// All goals.
pub fn goals(rows: &ProgramResults) -> Vec<ProgramGoal> {
    let goal = |what, target, ratio: &dyn Fn(Program) -> Option<f64>| {
        let all = Program::ALL.into_iter().filter(|program| rows.is_chosen(*program));
        let all = all.map(|program| (program, ratio(program).unwrap_or(f64::NAN)));
        let (found, missing): (Vec<_>, Vec<_>) = all.partition(|(_, ratio)| ratio.is_finite());
        let not_measured: Vec<_> = missing.into_iter().map(|(program, _)| program).collect();
        let met = found.iter().all(|(_, ratio)| *ratio >= target);
        let is_whole = !found.is_empty() && not_measured.is_empty();
        ProgramGoal { what, target, found, not_measured, holds: (!met || is_whole).then_some(met) }
    };
    let get = |program, stack, case| rows.get(program, stack, case);
    vec![
        goal("requests per second and core, ÷ the kernel's", 1.0, &|program| {
            let [ours, kernel] =
                [StackChoice::None, StackChoice::Kernel].map(|stack| get(program, stack, LoadCase::Closed));
            Some(ours?.per_core() / kernel?.per_core())
        }),
        goal("p99 of small requests beside others: the kernel's ÷ that of adps", 10.0, &|program| {
            let p99 = |stack| Some(get(program, stack, LoadCase::MixedSmall)?.p99.as_nanos() as f64);
            Some(p99(StackChoice::Kernel)? / p99(StackChoice::Adps)?)
        }),
        goal("throughput of those others under adps, ÷ the kernel's", 1.0, &|program| {
            let rate = |stack| Some(get(program, stack, LoadCase::MixedBulk)?.answers_per_s);
            Some(rate(StackChoice::Adps)? / rate(StackChoice::Kernel)?)
        }),
    ]
}

impl fmt::Display for ProgramGoal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verdict = match self.holds {
            Some(true) => "pass",
            Some(false) => "FAIL",
            None => "not measured",
        };
        write!(f, "{verdict}: {} ≥ {}:", self.what, self.target)?;
        self.found.iter().try_for_each(|(program, ratio)| write!(f, " {} {ratio:.2}", program.name()))?;
        match self.not_measured.as_slice() {
            [] => Ok(()),
            programs => {
                let names: Vec<_> = programs.iter().map(|program| program.name()).collect();
                write!(f, "; without a figure: {}", names.join(", "))
            }
        }
    }
}

/// Prints a table, notes, and the goals as last lines.
pub fn print(rows: &ProgramResults, goals: &[ProgramGoal]) {
    let header = ["server", "case", "stack", "req/s", "per core", "cores", "p50", "p99", "p99.9", "client"];
    let groups = [("", 3), ("thousands", 2), ("", 1), ("latency, µs", 3), ("", 1)];
    let mut table = Table::new(3, &header).groups(&groups);
    for row in &rows.rows {
        let f = row.figures();
        let words = [row.program.name(), row.case.name(), row.stack.name()].map(str::to_owned);
        let rates = [f.answers_per_s, f.per_core()].map(|rate| format!("{:.1}", rate / 1e3));
        let latency = [f.p50, f.p99, f.p999].map(micros);
        let cores = [format!("{:.2}", f.cores)];
        table.row([&words[..], &rates, &cores, &latency, &[format!("{:.0} %", f.busy * 100.0)]].concat());
    }
    if !rows.rows.is_empty() {
        outln!("{table}");
    }
    outln!(
        "50 % and 90 %: load relative to the slower stack's closed-loop throughput; latency from the scheduled send time"
    );
    outln!("mixed: small requests at 5 % of that throughput, beside a closed loop of 32 KiB requests");
    outln!(
        "cores: CPU time of the server, greenwave's process and the softirq thread of their core, in cores"
    );
    outln!("client: CPU utilisation; near 100 %, the client adds latency on every stack");
    let broken: u64 = rows.rows.iter().map(|row| row.figures().broken).sum();
    if broken > 0 {
        outln!("{broken} connections broke before the end");
    }
    for (program, why) in &rows.missing {
        outln!("{}: not run: {why}", program.name());
    }
    goals.iter().for_each(|goal| outln!("{goal}"));
}

/// Results as JSON.
pub fn json(rows: &ProgramResults, goals: &[ProgramGoal], rounds: u32, time: Span) -> Value {
    let row = |row: &super::results::ProgramRow| {
        let f = row.figures();
        json!({
            "program": row.program.name(),
            "case": row.case.name(),
            "stack": row.stack.name(),
            "answers_per_s": f.answers_per_s,
            "answers_per_s_and_core": f.per_core(),
            "server_cores": f.cores,
            "p50_ns": f.p50.as_nanos(),
            "p99_ns": f.p99.as_nanos(),
            "p999_ns": f.p999.as_nanos(),
            "broken": f.broken,
            "client_busy": f.busy,
        })
    };
    let missing = |(program, why): &(Program, String)| json!({ "program": program.name(), "not_run": why });
    let goal = |goal: &ProgramGoal| {
        let found = goal.found.iter().map(|(program, ratio)| (program.name().to_owned(), json!(ratio)));
        json!({
            "goal": goal.what,
            "target": goal.target,
            "found": found.collect::<serde_json::Map<_, _>>(),
            "not_measured": goal.not_measured.iter().map(|program| program.name()).collect::<Vec<_>>(),
            "holds": goal.holds,
        })
    };
    ResultHeader::of_host("bench-programs", None).with_doctor(&["serve"]).stamp(json!({
        "machine": host::Machine::this().to_string(),
        "rounds": rounds,
        "time_ns": time.as_nanos(),
        "rows": rows.rows.iter().map(row).collect::<Vec<_>>(),
        "missing": rows.missing.iter().map(missing).collect::<Vec<_>>(),
        "goals": goals.iter().map(goal).collect::<Vec<_>>(),
    }))
}

#[cfg(test)]
mod tests {
    use super::super::results::CaseFigures;
    use super::*;

    #[test]
    fn json_conforms_to_the_schema() {
        let rows = ProgramResults::default();
        crate::report::schema::conforms(&json(&rows, &goals(&rows), 3, Span::from_millis(100)));
    }

    //~ cli: a benchmark's goal that was not measured in every case is not met
    #[test]
    fn a_program_without_figures_is_not_met() {
        let mut rows = ProgramResults::default();
        let program = Program::ALL[0];
        let figures = CaseFigures {
            answers_per_s: 1000.0,
            cores: 1.0,
            p50: Span::from_micros(10),
            p99: Span::from_micros(20),
            p999: Span::from_micros(30),
            broken: 0,
            busy: 0.5,
        };
        for stack in [StackChoice::None, StackChoice::Kernel] {
            rows.add(program, stack, LoadCase::Closed, figures);
        }
        let first = |rows: &ProgramResults| goals(rows).remove(0);
        assert_eq!(first(&rows).holds, Some(true), "of the chosen programs");
        rows.fail(Program::ALL[1], "not installed".to_owned());
        let goal = first(&rows);
        assert_eq!((goal.holds, goal.not_measured.as_slice()), (None, &Program::ALL[1..2]));
        assert!(
            goal.to_string().ends_with(&format!("without a figure: {}", Program::ALL[1].name())),
            "{goal}"
        );
        crate::report::schema::conforms(&json(&rows, &goals(&rows), 3, Span::from_millis(100)));
    }
}
