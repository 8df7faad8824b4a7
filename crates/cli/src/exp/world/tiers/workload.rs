//! Workload of a run, and the samples taken during it.

use std::time::Instant;

use host::cpu_time;
use hostbpf::egress::Status;
use netlab::TestGroup;
use queueing::Span;
use serde::Deserialize;
use sim::world::services::{Outcome, Trace};

use super::super::Noise;
use super::super::background_load::BackgroundLoad;
use super::super::processes::runner::{self, RunnerInput};
use super::super::processes::tally::LineStats;
use super::Plan;
use super::setup::{AuxProcesses, CLIENT_CORE, TiersSetup, load_generator, on_core};
use crate::error::Error;

/// Results of a run.
pub struct TiersResults {
    pub outcome: Outcome,
    pub noise: Noise,
    pub events: u64,
    /// Reports of the services, the front first.
    pub services: Vec<(String, ServiceCounts)>,
    /// BE's work rate, in its own unit.
    pub be_per_s: f64,
    /// Cores that BE used.
    pub be_cores: f64,
    pub bulk_bits_per_s: f64,
    /// Packets per second at the workers' egress whose level came from their label.
    pub labelled_per_s: f64,
    /// CPU time of other processes, in % of a core.
    pub other: f64,
}

/// Report of a service at its end.
#[derive(Clone, Copy, Debug, Deserialize)]
pub struct ServiceCounts {
    /// Processed requests, in any order.
    pub worked: u64,
    /// Requests received at the first level, and at the last.
    pub first: u64,
    pub last: u64,
    /// Requests without a readable budget.
    pub unbudgeted: u64,
    pub refused: u64,
    pub shed: u64,
    pub queue_p50_ns: u64,
    pub queue_p99_ns: u64,
    /// Mean excess of work over the plan.
    pub beyond_ns: u64,
}

/// Counters at one instant.
struct Sample {
    at: Instant,
    be: Span,
    bulk: u64,
    egress: Vec<Status>,
    background: BackgroundLoad,
}

impl TiersSetup {
    /// Runs the users of `plan`. Auxiliary processes are sampled from the first answer to the last.
    ///
    /// # Errors
    /// A part fails, or the run was interrupted.
    pub fn drive(self, plan: &Plan) -> Result<TiersResults, Error> {
        let config = &plan.config;
        let trace: Vec<_> = Trace::new(config).collect();
        let mut tally = LineStats::new(config, &trace);
        let mut command = load_generator(&self.users)?;
        command.arg(self.target.to_string()).args(classes(plan));
        let group = TestGroup::preferred("users")?;
        let (mut first, mut last, aux) = (None, None, &self.aux);
        on_core(CLIENT_CORE, || {
            // Child processes of this thread are in its group.
            group.join()?;
            let input = RunnerInput { setup: runner::setup(config), plan: runner::plan(&trace) };
            input.run(command, runner::duration_max(&trace), &mut |line| {
                if first.is_none() {
                    first = Some(aux.sample()?);
                }
                if line.starts_with("late,") {
                    last = Some(aux.sample()?);
                }
                tally.add(line)
            })
        })?;
        self.check_running()?;
        let (outcome, mut noise, events) = tally.finish()?;
        let (Some(first), Some(last)) = (first, last) else {
            return Err(Error::new("the clients reported nothing"));
        };
        let be_per_s = self.aux.be.progress.per_s(first.at, last.at);
        let services = parse_reports(plan, self.end())?;
        noise.excess =
            services.iter().map(|(_, counts)| Span::from_nanos(counts.beyond_ns)).max().unwrap_or(Span::ZERO);
        let seconds = (last.at - first.at).as_secs_f64();
        let labelled =
            |sample: &Sample| sample.egress.iter().map(|status| status.pinned.packets).sum::<u64>();
        Ok(TiersResults {
            outcome,
            noise,
            events,
            services,
            be_per_s,
            be_cores: last.be.saturating_sub(first.be).as_secs_f64() / seconds,
            bulk_bits_per_s: (last.bulk - first.bulk) as f64 * 8.0 / seconds,
            labelled_per_s: (labelled(&last) - labelled(&first)) as f64 / seconds,
            other: last.background.since(first.background) / seconds * 100.0,
        })
    }
}

/// Classes of users, in the load generator's format.
fn classes(plan: &Plan) -> impl Iterator<Item = String> {
    let open = plan.host.dscp.len() - plan.host.newcomers;
    let class =
        move |(n, dscp): (usize, &u8)| if n < open { dscp.to_string() } else { format!("new:{dscp}") };
    plan.host.dscp.iter().enumerate().map(class)
}

impl AuxProcesses {
    fn sample(&self) -> Result<Sample, String> {
        Ok(Sample {
            at: Instant::now(),
            be: cpu_time::process(self.be.child.id()).unwrap_or(Span::ZERO),
            bulk: self.bulk(),
            egress: self.egress().map_err(|e| e.to_string())?,
            background: BackgroundLoad::now(),
        })
    }
}

/// Final reports of the services, by name.
fn parse_reports(plan: &Plan, lines: Vec<Option<String>>) -> Result<Vec<(String, ServiceCounts)>, Error> {
    let [front, workers] = &plan.config.stages[..] else { unreachable!("a plan has a front and workers") };
    let names = std::iter::once(front.name.clone())
        .chain((1..=workers.parts).map(|n| format!("{}-{n}", workers.name)));
    names
        .zip(lines)
        .map(|(name, line)| {
            let counts = line.as_deref().and_then(|line| serde_json::from_str(line).ok());
            let counts = counts.ok_or_else(|| Error::new(format!("service {name} reported no counts")))?;
            Ok((name, counts))
        })
        .collect()
}
