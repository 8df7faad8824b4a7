//! CSV output of every flow of every run, one per line.

use std::io::{BufWriter, Write};
use std::path::Path;

use queueing::{Span, Time};
use sim::fabric::FlowOutcome;

use crate::error::Error;
use crate::report;

const HEADER: &str = "scheduler,seed,id,src,dst,bytes,start_s,fct_s,slowdown,retransmitted,timeouts";

/// A run's flows, in the order of their starts.
pub struct Flows<'a> {
    /// The discipline at every port.
    pub scheduler: &'a str,
    /// Seed of the run.
    pub seed: u64,
    /// An unfinished flow has neither time nor slowdown.
    pub flows: &'a [FlowOutcome],
}

/// Writes `runs` to `path` as CSV, complete or not at all.
///
/// # Errors
/// The kernel's.
pub fn write<'a>(path: &Path, mut runs: impl Iterator<Item = Flows<'a>>) -> Result<(), Error> {
    report::whole_by(path, |file| {
        let mut file = BufWriter::new(file);
        writeln!(file, "{HEADER}")?;
        runs.try_for_each(|Flows { scheduler, seed, flows }| {
            let mut flows = flows.iter().enumerate();
            flows.try_for_each(|(id, flow)| writeln!(file, "{scheduler},{seed},{id},{}", line(flow)))
        })?;
        file.flush()
    })
}

fn line(flow: &FlowOutcome) -> String {
    let seconds = |span: Span| format!("{:.9}", span.as_secs_f64());
    format!(
        "{},{},{},{},{},{},{},{}",
        flow.from,
        flow.to,
        flow.bytes(),
        seconds(flow.began.since(Time::ZERO)),
        flow.took.map(seconds).unwrap_or_default(),
        flow.slowdown().map(|slowdown| format!("{slowdown:.6}")).unwrap_or_default(),
        flow.retransmitted,
        flow.timeouts,
    )
}
