//! `greenwave guard model`: model of a two-stage server under overload.
//!
//! Closed forms, nothing measured: `queueing::theory::livelock`.

use std::path::PathBuf;
use std::process::ExitCode;
use std::str::FromStr;

use queueing::Span;
use queueing::theory::livelock::TwoStages;

use crate::Error;
use crate::options::Count;
use crate::report::{self, Section};
use crate::table::Table;

/// Predict throughput by offered load, with and without shedding.
///
/// Model: one core receives requests (at most mu1 per second) and serves them
/// (at most mu2 per second without receive work); receiving has priority.
/// Shedding admits the requests that can be served and drops the others before
/// receive processing.
#[derive(clap::Args)]
pub struct Args {
    /// Receive capacity of the core, in requests per second: µ1.
    #[arg(long, value_name = "RATE")]
    mu1: Count,
    /// Service capacity without receive work, in requests per second: µ2.
    #[arg(long, value_name = "RATE")]
    mu2: Count,
    /// Offered load, in requests per second [default: a tenth of the smaller
    /// rate, to mu1].
    #[arg(long, value_name = "FROM..TO")]
    lambda: Option<Rates>,
    /// Receive queue capacity, in requests: l1.
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=CAPACITY_MAX))]
    capacity1: u32,
    /// Service queue capacity, in requests: l2.
    #[arg(long, default_value_t = 128, value_parser = clap::value_parser!(u32).range(1..=CAPACITY_MAX))]
    capacity2: u32,
    /// CPU time to shed a request.
    #[arg(long, value_name = "TIME", default_value = "300ns")]
    shed: Span,
    /// Write an HTML page with the plot to this file.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Largest modelled queue capacity.
const CAPACITY_MAX: i64 = 65_536;
/// Number of evaluated loads.
const POINTS: u32 = 12;

/// A range of rates: `1k..40k`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Rates {
    from: u64,
    to: u64,
}

impl Rates {
    /// The default range: from low use of both rates to the maximum receive rate.
    fn usual(mu1: u64, mu2: u64) -> Self {
        let from = (mu1.min(mu2) / 10).max(1);
        Self { from, to: mu1.max(from + 1) }
    }
}

impl FromStr for Rates {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bad = || format!("{text:?} is not FROM..TO with FROM below TO, such as 1k..40k");
        let (from, to) = text.split_once("..").ok_or_else(bad)?;
        let rate = |text: &str| text.parse().map(|Count(rate)| rate).map_err(|_| bad());
        let (from, to) = (rate(from)?, rate(to)?);
        if from < to { Ok(Self { from, to }) } else { Err(bad()) }
    }
}

/// Results at one load.
#[derive(serde::Serialize)]
struct Point {
    /// Requests per second, as for the served and admitted rates.
    offered: f64,
    served: f64,
    /// A share of the offered load, 0.0..=1.0.
    lost_receiving: f64,
    lost_serving: f64,
    admitted: f64,
    served_shedding: f64,
}

/// Computes and prints the model, and draws it on request.
///
/// # Errors
/// A page that cannot be written.
pub fn run(args: &Args) -> Result<ExitCode, Error> {
    if let Some(path) = &args.out {
        Error::unless_writable(path)?;
    }
    let server = TwoStages {
        receive_per_s: args.mu1.0 as f64,
        serve_per_s: args.mu2.0 as f64,
        receive_room: args.capacity1,
        serve_room: args.capacity2,
    };
    let rates = args.lambda.unwrap_or_else(|| Rates::usual(args.mu1.0, args.mu2.0));
    let points: Vec<Point> = offered(rates).map(|offered| point(&server, offered, args.shed)).collect();
    if args.json {
        outln!("{}", serde_json::to_string_pretty(&points).expect("numbers are JSON"));
    } else {
        out!("{}", table(&points));
        outln!("requests per second; computed from a model, not measured");
        outln!("{}", verdict(&points));
    }
    if let Some(path) = &args.out {
        report::whole(path, &page(args, &points))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn offered(Rates { from, to }: Rates) -> impl Iterator<Item = f64> {
    let step = (to - from) as f64 / f64::from(POINTS - 1);
    (0..POINTS).map(move |n| from as f64 + step * f64::from(n))
}

fn point(server: &TwoStages, offered: f64, shed: Span) -> Point {
    let fate = server.outcome(offered);
    let admitted = server.admitted_best(offered, shed);
    Point {
        offered,
        served: fate.served * offered,
        lost_receiving: fate.lost_receiving,
        lost_serving: fate.lost_serving,
        admitted,
        served_shedding: server.outcome_shedding(offered, admitted, shed).served * offered,
    }
}

fn table(points: &[Point]) -> Table {
    let header = ["offered", "served", "lost recv %", "lost serve %", "admitted", "served"];
    let mut table = Table::new(0, &header).groups(&[("", 1), ("without shedding", 3), ("shedding", 2)]);
    for point in points {
        let rate = |rate: f64| format!("{rate:.0}");
        let percent = |share: f64| format!("{:.2}", share.max(0.0) * 100.0);
        table.row(vec![
            rate(point.offered),
            rate(point.served),
            percent(point.lost_receiving),
            percent(point.lost_serving),
            rate(point.admitted),
            rate(point.served_shedding),
        ]);
    }
    table
}

/// Gain of shedding at the highest load.
fn verdict(points: &[Point]) -> String {
    let most = points.last().expect("there are points");
    let more = match most.served {
        served if served >= 1.0 => format!("{:.1}× the rate without shedding", most.served_shedding / served),
        _ => "without shedding, nothing is served".to_owned(),
    };
    format!("at {:.0}/s shedding serves {:.0}/s: {more}", most.offered, most.served_shedding)
}

fn page(args: &Args, points: &[Point]) -> String {
    let line = |name: &str, of: fn(&Point) -> f64| {
        (name.to_owned(), points.iter().map(|point| (point.offered, of(point))).collect())
    };
    let lines =
        [line("without shedding", |point| point.served), line("shedding", |point| point.served_shedding)];
    let plot = report::line_plot("Throughput", "offered, 1/s", "served, 1/s", false, &lines);
    let settings = [
        ("receive capacity", format!("{} /s", args.mu1.0)),
        ("service capacity", format!("{} /s", args.mu2.0)),
        ("queue capacities", format!("{} and {}", args.capacity1, args.capacity2)),
        ("time to shed a request", args.shed.to_string()),
    ];
    let sections = [
        Section::new("", plot),
        Section::new("Figures", table(points).html()),
        Section::pairs("Model", &settings),
        Section::text("", "Closed forms of two stages on one core; computed, not measured."),
    ];
    report::page("A server under overload", &sections)
}

//~ guard: `guard model` plots throughput over load with and without shedding
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_read_as_they_are_written() {
        assert_eq!("1k..40k".parse(), Ok(Rates { from: 1_000, to: 40_000 }));
        for text in ["1k", "5..5", "9..1", "0..4", "..", "a..b"] {
            assert!(text.parse::<Rates>().unwrap_err().contains("1k..40k"), "{text:?}");
        }
    }

    #[test]
    fn usual_loads_grow_whichever_rate_is_larger() {
        for (mu1, mu2, from, to) in
            [(40, 20, 2, 40), (1_000, 20_000, 100, 1_000), (1, 1, 1, 2), (7, 70, 1, 7)]
        {
            assert_eq!(Rates::usual(mu1, mu2), Rates { from, to }, "{mu1}, {mu2}");
        }
    }

    #[test]
    fn loads_begin_and_end_where_they_should() {
        let loads: Vec<f64> = offered(Rates { from: 100, to: 1_200 }).collect();
        assert_eq!((loads[0], loads[1], *loads.last().unwrap()), (100.0, 200.0, 1_200.0));
    }
}
