//! Results of a server on a number of cores: medians over rounds.

use queueing::Span;

use super::clients::ClientResults;
use super::core_assignment::QueueCores;
use super::servers::{ScalingServer, ServerStack};
use crate::bench::comparison::{median, median_span};

/// One server on one stack and number of cores, over all rounds.
pub struct ScalingRow {
    pub server: ScalingServer,
    pub stack: ServerStack,
    pub cores: QueueCores,
    rounds: Vec<ScalingFigures>,
    /// Error of a round without figures.
    failed: Option<String>,
}

/// Medians of a row, or one round.
#[derive(Clone, Copy, Debug)]
pub struct ScalingFigures {
    pub answers_per_s: f64,
    /// Cores that the server used.
    pub used: f64,
    pub p50: Span,
    pub p99: Span,
    /// Connections closed before the end, over all rounds.
    pub broken: u64,
    /// Share of time in which the busiest client had work.
    pub busiest: f64,
}

impl ScalingFigures {
    /// Answers per second and used core.
    pub fn per_core(&self) -> f64 {
        self.answers_per_s / self.used.max(1e-3)
    }

    fn of(measured: &ClientResults) -> Self {
        Self {
            answers_per_s: measured.answers as f64 / measured.span.as_secs_f64(),
            used: measured.cores,
            p50: measured.latency.quantile(0.5),
            p99: measured.latency.quantile(0.99),
            broken: measured.broken,
            busiest: measured.busiest,
        }
    }
}

impl ScalingRow {
    pub fn new(server: ScalingServer, stack: ServerStack, cores: &QueueCores) -> Self {
        Self { server, stack, cores: cores.clone(), rounds: Vec::new(), failed: None }
    }

    /// Name such as `nginx 4 greenwave`.
    pub fn name(&self) -> String {
        format!("{} {}", self.case(), self.stack.name())
    }

    /// Name of the compared case, such as `nginx 4`.
    pub fn case(&self) -> String {
        format!("{} {}", self.server.name(), self.cores.count())
    }

    pub fn add(&mut self, round: Result<ClientResults, String>) {
        match round {
            Ok(measured) => self.rounds.push(ScalingFigures::of(&measured)),
            Err(why) => self.failed = Some(why),
        }
    }

    /// Medians, unless no round has figures.
    pub fn figures(&self) -> Result<ScalingFigures, &str> {
        if self.rounds.is_empty() {
            return Err(self.failed.as_deref().unwrap_or("no round was run"));
        }
        let rounds = &self.rounds;
        Ok(ScalingFigures {
            answers_per_s: median(rounds, |f| f.answers_per_s),
            used: median(rounds, |f| f.used),
            p50: median_span(rounds, |f| f.p50),
            p99: median_span(rounds, |f| f.p99),
            broken: rounds.iter().map(|f| f.broken).sum(),
            busiest: median(rounds, |f| f.busiest),
        })
    }

    /// Figures of each round.
    pub fn each(&self) -> &[ScalingFigures] {
        &self.rounds
    }
}

/// Speed-up: answers per second of `row`, divided by those of the same server and stack on one
/// core.
pub fn speed_up(rows: &[ScalingRow], row: &ScalingRow) -> Option<f64> {
    let is_one = |one: &&ScalingRow| (one.server, one.stack, one.cores.count()) == (row.server, row.stack, 1);
    let one = rows.iter().find(is_one)?.figures().ok()?;
    Some(row.figures().ok()?.answers_per_s / one.answers_per_s)
}
