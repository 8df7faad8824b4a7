//! Results of a server in a case: medians over rounds.

use queueing::Span;

use crate::bench::comparison::{median, median_span};
use crate::programs::{Program, ProgramExchange, StackChoice};

/// Requests and rate of a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoadCase {
    /// Small requests in a closed loop.
    Closed,
    /// Small requests at half the capacity of the slower stack.
    Half,
    /// Small requests at nine tenths of that capacity.
    Most,
    /// Small requests at a twentieth of that capacity, beside bulk requests in a closed loop.
    MixedSmall,
    /// Bulk requests beside the small ones.
    MixedBulk,
}

impl LoadCase {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::Half => "at 50 %",
            Self::Most => "at 90 %",
            Self::MixedSmall => "mixed, small",
            Self::MixedBulk => "mixed, 32 KiB",
        }
    }
}

/// One case of one server on one stack.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CaseFigures {
    pub answers_per_s: f64,
    /// Cores that the server used; for both kinds of requests together where they are mixed.
    pub cores: f64,
    pub p50: Span,
    pub p99: Span,
    pub p999: Span,
    /// Connections closed before the end.
    pub broken: u64,
    /// Share of time in which the client had work.
    pub busy: f64,
}

impl CaseFigures {
    /// Figures of the `nth` kind of requests.
    pub fn of(measured: &ProgramExchange, nth: usize) -> Self {
        let tally = &measured.kinds[nth];
        let quantile = |q| tally.latency.quantile(q);
        Self {
            answers_per_s: tally.answers as f64 / measured.span.as_secs_f64(),
            cores: measured.cores,
            p50: quantile(0.5),
            p99: quantile(0.99),
            p999: quantile(0.999),
            broken: tally.broken,
            busy: measured.busy,
        }
    }

    /// Answers per second and core of the server.
    pub fn per_core(&self) -> f64 {
        self.answers_per_s / self.cores.max(1e-3)
    }
}

/// One line of the table.
pub struct ProgramRow {
    pub program: Program,
    pub stack: StackChoice,
    pub case: LoadCase,
    rounds: Vec<CaseFigures>,
}

impl ProgramRow {
    /// Medians, and the sum of closed connections.
    pub fn figures(&self) -> CaseFigures {
        let rounds = &self.rounds;
        CaseFigures {
            answers_per_s: median(rounds, |f| f.answers_per_s),
            cores: median(rounds, |f| f.cores),
            p50: median_span(rounds, |f| f.p50),
            p99: median_span(rounds, |f| f.p99),
            p999: median_span(rounds, |f| f.p999),
            broken: rounds.iter().map(|f| f.broken).sum(),
            busy: median(rounds, |f| f.busy),
        }
    }
}

/// All lines, and the reasons for missing ones.
#[derive(Default)]
pub struct ProgramResults {
    pub rows: Vec<ProgramRow>,
    pub missing: Vec<(Program, String)>,
}

impl ProgramResults {
    pub fn add(&mut self, program: Program, stack: StackChoice, case: LoadCase, figures: CaseFigures) {
        let is = |row: &&mut ProgramRow| (row.program, row.stack, row.case) == (program, stack, case);
        match self.rows.iter_mut().find(is) {
            Some(row) => row.rounds.push(figures),
            None => self.rows.push(ProgramRow { program, stack, case, rounds: vec![figures] }),
        }
    }

    pub fn fail(&mut self, program: Program, why: String) {
        if !self.missing.iter().any(|(other, _)| *other == program) {
            self.missing.push((program, why));
        }
    }

    /// True if `program` was to run: it has rows, or a reason for having none.
    pub fn is_chosen(&self, program: Program) -> bool {
        let is_missing = self.missing.iter().any(|(other, _)| *other == program);
        is_missing || self.rows.iter().any(|row| row.program == program)
    }

    pub fn get(&self, program: Program, stack: StackChoice, case: LoadCase) -> Option<CaseFigures> {
        let row = self.rows.iter().find(|row| (row.program, row.stack, row.case) == (program, stack, case));
        row.map(ProgramRow::figures)
    }
}
