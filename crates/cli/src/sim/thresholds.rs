//! `greenwave sim thresholds`: sizes at which flows drop a level.
//!
//! Nothing is simulated: the mean is that of M/G/1 with levels (see
//! [`queueing::theory::feedback`]), with one link as the only queue. The thresholds minimize it.

use std::process::ExitCode;

use queueing::theory::feedback::{self, SizeDistribution};
use queueing::{Bytes, Priority, Rate};
use serde_json::json;
use sim::fabric::SEGMENT_BYTES;

use super::workload::{Workload, load};
use crate::error::Error;
use crate::table::{Table, in_unit, number};

/// Compute the thresholds between levels that minimize the mean completion time.
///
/// Model: M/G/1 with preemptive priority levels, FCFS within a level, on one
/// link; no transport, no loss. Times are in µs.
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment, next_line_help = true)]
pub struct Args {
    /// Flow sizes: websearch, datamining, or "list BYTES*TIMES …".
    #[arg(long, value_name = "NAME", default_value = "websearch")]
    workload: Workload,
    /// Load of the link, above 0 and below 1.
    #[arg(long, value_name = "SHARE", value_parser = load, default_value = "0.8")]
    load: f64,
    /// Maximum number of levels, one more than thresholds.
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u8).range(2..=Priority::LEVELS as i64))]
    levels: u8,
    /// Link rate, in Gbit/s.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    gbps: u64,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

/// Thresholds in segments used in PIAS's simulations (NSDI '15): workload, load and origin.
const PUBLISHED: [(&str, f64, [u64; 7]); 6] = [
    ("websearch", 0.5, [1059, 1412, 1643, 1869, 2008, 2115, 2184]),
    ("websearch", 0.6, [956, 1381, 1718, 2028, 2297, 2551, 2660]),
    ("websearch", 0.7, [999, 1305, 1564, 1763, 1956, 2149, 2309]),
    ("websearch", 0.8, [909, 1329, 1648, 1960, 2143, 2337, 2484]),
    ("websearch", 0.9, [759, 1132, 1456, 1737, 2010, 2199, 2325]),
    ("datamining", 0.8, [745, 1083, 1391, 13689, 14936, 21149, 27245]),
];

/// Computes the thresholds and prints them.
///
/// # Errors
/// A load of 1 or more.
pub fn run(args: &Args) -> Result<ExitCode, Error> {
    let sizes: sim::fabric::Sizes = args.workload.sizes.parse().expect("sizes were validated");
    let demand = sizes.demand();
    let best = feedback::thresholds_best(&demand, args.load, args.levels.into()).ok_or_else(|| {
        Error::new(format!("load {} is not below 1: mean completion times are infinite", args.load))
            .advice("--load 0.8")
    })?;
    let published = PUBLISHED
        .iter()
        .find(|(workload, load, _)| *workload == args.workload.sizes && *load == args.load)
        .map(|(_, _, thresholds)| thresholds.to_vec());
    let mut rows = vec![("these".to_owned(), best.clone())];
    rows.extend(published.map(|thresholds| ("published".to_owned(), thresholds)));
    rows.push(("one level".to_owned(), Vec::new()));
    let segment_us = Rate::from_gbps(args.gbps).time_for(Bytes::new(SEGMENT_BYTES.into())).as_micros_f64();
    let means: Vec<f64> =
        rows.iter().map(|(_, thresholds)| mean(&demand, args.load, thresholds) * segment_us).collect();
    // As `egress` counts them: headers included, the frame's excluded.
    let bytes = |thresholds: &[u64]| {
        thresholds.iter().map(|segments| segments * u64::from(SEGMENT_BYTES)).collect::<Vec<_>>()
    };
    if args.json {
        let rows = rows.iter().zip(&means).map(|((name, thresholds), mean)| {
            json!({
                "thresholds": name, "segments": thresholds, "bytes": bytes(thresholds), "mean_us": mean,
            })
        });
        let rows: Vec<_> = rows.collect();
        outln!("{}", json!({"workload": args.workload.text, "load": args.load, "sets": rows}));
        return Ok(ExitCode::SUCCESS);
    }
    if best.is_empty() {
        outln!(
            "one level: thresholds do not reduce the mean completion time of these flows   ({} at load {})",
            args.workload.text,
            number(args.load)
        );
        return Ok(ExitCode::SUCCESS);
    }
    out!("{}", table(&rows, bytes));
    let mut summary = Table::new(1, &["thresholds", "mean, µs", "of these"]);
    for ((name, _), mean) in rows.iter().zip(&means) {
        summary.row(vec![name.clone(), in_unit("µs", *mean), number(mean / means[0])]);
    }
    out!("\n{summary}\n--thresholds {}\negress policy: thresholds = {:?}\n", words(&best), bytes(&best));
    let closing = rows.iter().zip(&means).skip(1);
    let closing = closing
        .map(|((name, _), mean)| {
            let than = if name == "published" { "the published thresholds" } else { name };
            format!("{:.1} % lower than with {than}", (1.0 - means[0] / mean) * 100.0)
        })
        .collect::<Vec<_>>();
    outln!(
        "mean completion time: {}   ({} at load {}, {} Gbit/s, predicted)",
        closing.join(", "),
        args.workload.text,
        number(args.load),
        args.gbps,
    );
    Ok(ExitCode::SUCCESS)
}

fn mean(demand: &SizeDistribution, load: f64, thresholds: &[u64]) -> f64 {
    let thresholds: Vec<f64> = thresholds.iter().map(|&segments| segments as f64).collect();
    feedback::sojourn_mean(demand, load, &thresholds).expect("a load below 1, and thresholds that increase")
}

/// A row per level, a column per set.
fn table(rows: &[(String, Vec<u64>)], bytes: impl Fn(&[u64]) -> Vec<u64>) -> Table {
    let sets: Vec<_> = rows.iter().filter(|(_, thresholds)| !thresholds.is_empty()).collect();
    let mut header = vec!["level"];
    header.extend(sets.iter().flat_map(|_| ["bytes", "segments"]));
    let groups: Vec<(&str, usize)> =
        std::iter::once(("", 1)).chain(sets.iter().map(|(name, _)| (name.as_str(), 2))).collect();
    let mut table = Table::new(1, &header).groups(&groups);
    let levels = sets.iter().map(|(_, thresholds)| thresholds.len()).max().unwrap_or_default();
    for level in 0..levels {
        let cell = |value: Option<&u64>| value.map_or("–".to_owned(), u64::to_string);
        let of = |thresholds: &[u64]| [cell(bytes(thresholds).get(level)), cell(thresholds.get(level))];
        let mut cells = vec![format!("{level} up to")];
        cells.extend(sets.iter().flat_map(|(_, thresholds)| of(thresholds)));
        table.row(cells);
    }
    table
}

fn words(thresholds: &[u64]) -> String {
    thresholds.iter().map(u64::to_string).collect::<Vec<_>>().join(",")
}
