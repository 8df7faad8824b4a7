//! `greenwave sim fabric`: flows through a simulated network of switches.
//!
//! Every scheduler gets the same flows, seed by seed. Runs go in parallel on all cores. Figures are
//! means over the seeds and, where there are several, their 95 % intervals.

use std::process::ExitCode;

use sim::fabric::{self, Outcome};

use super::args::Args;
use super::flows::Flows;
use super::plan::{PlannedRun, SimPlan};
use super::render::Shown;
use super::workload::flows_expected;
use super::{flows, parquet};
use crate::error::Error;
use crate::{parallel, progress};

/// Runs all points and prints the results.
///
/// # Errors
/// Invalid settings, before anything runs; files that cannot be written.
pub fn run(args: &Args) -> Result<ExitCode, Error> {
    let plan = SimPlan::new(args)?;
    let files: Vec<_> = [&args.csv, &args.parquet, &args.out].into_iter().flatten().collect();
    for (index, path) in files.iter().enumerate() {
        if files[..index].contains(path) {
            let what = format!("{}: one file cannot hold two of --csv, --parquet and --out", path.display());
            return Err(Error::new(what).advice("a file for each"));
        }
        Error::unless_writable(path)?;
    }
    let outcomes = simulate(&plan, useful(args.threads.into(), parallel::cores()));
    let shown = Shown::new(args, &plan, &outcomes);
    if args.json {
        outln!("{}", shown.json());
    } else {
        out!("{}", shown.text());
    }
    let lines = plan.lines.as_deref();
    let runs = || plan.points.iter().zip(&outcomes).map(|(point, outcome)| flows_of(point, outcome, lines));
    let written = [
        args.csv.as_ref().map(|path| flows::write(path, runs())),
        args.parquet.as_ref().map(|path| parquet::write(path, runs())),
        args.out.as_ref().map(|path| crate::report::whole(path, &shown.page())),
    ];
    // One failed file does not prevent the others.
    let mut failed = written.into_iter().flatten().filter_map(Result::err);
    let first = failed.next();
    failed.for_each(|e| errln!("{e}"));
    first.map_or(Ok(ExitCode::SUCCESS), Err)
}

fn flows_of<'a>(point: &'a PlannedRun, outcome: &'a Outcome, lines: Option<&'a [u64]>) -> Flows<'a> {
    Flows { scheduler: &point.scheduler, seed: point.seed, flows: &outcome.flows, lines }
}

/// As many of `threads` as have cores: threads synchronize every few microseconds, and one without
/// a core blocks all others.
fn useful(threads: usize, cores: usize) -> usize {
    if threads > cores {
        errln!("note: --threads {threads} exceeds the {cores} cores; {cores} threads are used");
    }
    threads.min(cores)
}

/// The outcome of every point, with a progress bar of flows.
fn simulate(plan: &SimPlan, threads: usize) -> Vec<Outcome> {
    let expected = plan.points.iter().map(|point| flows_expected(&point.config)).sum();
    let bar = progress::bar(expected);
    bar.set_message(format!("sim fabric, {}", plan.flows));
    let side_by_side = (parallel::cores() / threads).max(1);
    let outcomes = parallel::map(&plan.points, side_by_side, |PlannedRun { config, .. }| {
        let mut shown = 0;
        let outcome = fabric::run_on(config, threads, &mut |done| {
            bar.inc(u64::from(done - shown));
            shown = done;
        });
        Ok::<_, std::convert::Infallible>(outcome)
    });
    bar.finish_and_clear();
    let Ok(outcomes) = outcomes;
    outcomes
}
