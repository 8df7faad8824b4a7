//! Results of a server on a number of cores: medians over rounds.

use queueing::Span;

use super::clients::Measured;
use super::core_assignment::Cores;
use super::servers::{Server, Stack};
use crate::bench::comparison::{median, median_span};

/// One server on one stack and number of cores, over all rounds.
pub struct Row {
    pub server: Server,
    pub stack: Stack,
    pub cores: Cores,
    rounds: Vec<Figures>,
    /// Error of a round without figures.
    failed: Option<String>,
}

/// Medians of a row, or one round.
#[derive(Clone, Copy, Debug)]
pub struct Figures {
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

impl Figures {
    /// Answers per second and used core.
    pub fn per_core(&self) -> f64 {
        self.answers_per_s / self.used.max(1e-3)
    }

    fn of(measured: &Measured) -> Self {
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

impl Row {
    pub fn new(server: Server, stack: Stack, cores: &Cores) -> Self {
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

    pub fn add(&mut self, round: Result<Measured, String>) {
        match round {
            Ok(measured) => self.rounds.push(Figures::of(&measured)),
            Err(why) => self.failed = Some(why),
        }
    }

    /// Medians, unless no round has figures.
    pub fn figures(&self) -> Result<Figures, &str> {
        if self.rounds.is_empty() {
            return Err(self.failed.as_deref().unwrap_or("no round was run"));
        }
        let rounds = &self.rounds;
        Ok(Figures {
            answers_per_s: median(rounds, |f| f.answers_per_s),
            used: median(rounds, |f| f.used),
            p50: median_span(rounds, |f| f.p50),
            p99: median_span(rounds, |f| f.p99),
            broken: rounds.iter().map(|f| f.broken).sum(),
            busiest: median(rounds, |f| f.busiest),
        })
    }

    /// Figures of each round.
    pub fn each(&self) -> &[Figures] {
        &self.rounds
    }
}

/// Speed-up: answers per second of `row`, divided by those of the same server and stack on one
/// core.
pub fn speed_up(rows: &[Row], row: &Row) -> Option<f64> {
    let is_one = |one: &&Row| (one.server, one.stack, one.cores.count()) == (row.server, row.stack, 1);
    let one = rows.iter().find(is_one)?.figures().ok()?;
    Some(row.figures().ok()?.answers_per_s / one.answers_per_s)
}
