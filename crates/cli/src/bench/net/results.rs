//! Results of a server in a case: medians over rounds.

use queueing::Span;

use super::cases::Case;
use super::setup::SystemResults;
use super::systems::System;
use crate::bench::comparison::{median, median_span};

/// One server in one case, over all rounds.
pub struct SystemRow {
    pub system: System,
    pub case: Case,
    rounds: Vec<SystemResults>,
    /// Error of a round without figures.
    failed: Option<String>,
}

/// Medians of a row.
#[derive(Clone, Copy, Debug)]
pub struct SystemFigures {
    pub answers_per_s: f64,
    pub bytes_per_s: f64,
    /// Cores that the server used.
    pub cores: f64,
    pub p50: Span,
    pub p99: Span,
    pub p999: Span,
    /// Connections closed before the end, over all rounds.
    pub broken: u64,
    /// Share of the client's segments that were retransmitted, 0..=1.
    pub resent: f64,
    /// Out-of-order segments received by the client, over all rounds.
    pub early: u64,
}

impl SystemFigures {
    /// Answers per second and core of the server.
    pub fn per_core(&self) -> f64 {
        self.answers_per_s / self.cores.max(1e-3)
    }

    /// Payload in Gbit/s.
    pub fn gigabits(&self) -> f64 {
        self.bytes_per_s * 8.0 / 1e9
    }
}

impl SystemRow {
    pub fn new(system: System, case: &Case) -> Self {
        Self { system, case: case.clone(), rounds: Vec::new(), failed: None }
    }

    pub fn add(&mut self, round: Result<SystemResults, String>) {
        match round {
            Ok(measured) => self.rounds.push(measured),
            Err(why) => self.failed = Some(why),
        }
    }

    /// Medians, unless no round has figures.
    pub fn figures(&self) -> Result<SystemFigures, &str> {
        match self.rounds.as_slice() {
            [] => Err(self.failed.as_deref().unwrap_or("no round was run")),
            rounds => Ok(medians(rounds)),
        }
    }

    /// Figures of each round.
    pub fn each(&self) -> Vec<SystemFigures> {
        self.rounds.iter().map(|round| medians(std::slice::from_ref(round))).collect()
    }
}

/// Medians of at least one round.
fn medians(rounds: &[SystemResults]) -> SystemFigures {
    let of = |figure: fn(&SystemResults) -> f64| median(rounds, figure);
    let quantile = |q: f64| median_span(rounds, |m| m.latency.quantile(q));
    SystemFigures {
        answers_per_s: of(|m| m.answers_per_s),
        bytes_per_s: of(|m| m.bytes_per_s),
        cores: of(|m| m.cores),
        p50: quantile(0.5),
        p99: quantile(0.99),
        p999: quantile(0.999),
        broken: rounds.iter().map(|m| m.broken).sum(),
        resent: of(|m| m.resent as f64 / (m.sent as f64).max(1.0)),
        early: rounds.iter().map(|m| m.early).sum(),
    }
}
