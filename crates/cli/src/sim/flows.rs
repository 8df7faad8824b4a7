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
    /// Line numbers of the list that the flows came from.
    pub lines: Option<&'a [u64]>,
}

impl Flows<'_> {
    /// Id of each flow: the number of its line in a list, from 1, or its place in the order of starts,
    /// from 0.
    pub fn ids(&self) -> impl Iterator<Item = u64> + '_ {
        let id =
            |index: usize| self.lines.and_then(|lines| lines.get(index)).copied().unwrap_or(index as u64);
        (0..self.flows.len()).map(id)
    }
}

/// Writes `runs` to `path` as CSV, complete or not at all.
///
/// # Errors
/// The kernel's error.
pub fn write<'a>(path: &Path, mut runs: impl Iterator<Item = Flows<'a>>) -> Result<(), Error> {
    report::whole_by(path, |file| {
        let mut file = BufWriter::new(file);
        writeln!(file, "{HEADER}")?;
        runs.try_for_each(|run| {
            let Flows { scheduler, seed, flows, .. } = run;
            let mut flows = run.ids().zip(flows);
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
