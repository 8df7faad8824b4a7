//! What a server makes of the budget a peer sent.
//!
//! Believes of it what cannot do harm: an untrusted peer may shorten the time
//! its request gets, never lengthen it, and what cannot be read counts as not
//! sent. Every request gets a budget, and every fault is counted by kind.

use queueing::Span;

use crate::Budget;
use crate::codec::{ParseError, envoy, field, grpc};

/// What a server grants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Granted to a request that brings no usable budget, and the most that
    /// one of an untrusted peer gets.
    pub default: Span,
    /// What remains to a request of a trusted peer is absurd above this.
    pub longest: Span,
    /// Whether peers may ask for more than the default.
    pub trusted: bool,
}

/// A second by default, absurd above an hour, peers not trusted.
impl Default for Limits {
    fn default() -> Self {
        Self { default: Span::from_secs(1), longest: Span::from_secs(3_600), trusted: false }
    }
}

/// Why a request got the default.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum InvalidBudget {
    /// It brought no budget.
    Missing,
    /// What it brought cannot be read.
    Garbled,
    /// It brought a negative span.
    Negative,
    /// It requested for more than [`Limits::longest`].
    Absurd,
}

impl InvalidBudget {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Missing, Self::Garbled, Self::Negative, Self::Absurd];
}

/// The budget fields of one request, as they came.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Received<'a> {
    /// [`field::HEADER`].
    pub budget: Option<&'a str>,
    /// [`grpc::HEADER`].
    pub grpc_timeout: Option<&'a str>,
    /// [`envoy::HEADER`].
    pub envoy_expected: Option<&'a str>,
}

/// Turns what peers send into budgets, and counts what was wrong with it.
#[derive(Clone, Debug, Default)]
pub struct BudgetValidator {
    limits: Limits,
    faults: [u64; InvalidBudget::ALL.len()],
    shortened: u64,
}

impl BudgetValidator {
    /// Grants within `limits`.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        Self { limits, ..Self::default() }
    }

    /// How many requests got the default for `fault`.
    #[must_use]
    pub fn faults(&self, fault: InvalidBudget) -> u64 {
        self.faults[fault as usize]
    }

    /// How many requests got less than they requested for, being of untrusted peers.
    #[must_use]
    pub fn shortened(&self) -> u64 {
        self.shortened
    }

    /// The budget of a request that brought `received`.
    ///
    /// Where several fields are there the shortest rules: each of them is a
    /// time after which somebody stops waiting. One that cannot be read is a
    /// fault even beside one that can.
    pub fn validate(&mut self, received: Received<'_>) -> Budget {
        match self.read(received) {
            Ok(budget) => budget,
            Err(fault) => {
                self.faults[fault as usize] += 1;
                Budget::new(self.limits.default)
            }
        }
    }

    fn read(&mut self, received: Received<'_>) -> Result<Budget, InvalidBudget> {
        let budget = received.budget.map(field::parse).transpose().map_err(invalid_budget)?;
        let timeouts = [received.grpc_timeout.map(grpc::parse), received.envoy_expected.map(envoy::parse)];
        let mut timeout = None;
        for span in timeouts.into_iter().flatten() {
            let span = span.map_err(invalid_budget)?;
            timeout = Some(timeout.map_or(span, |other: Span| other.min(span)));
        }
        let requested = match (budget, timeout) {
            (Some(budget), Some(timeout)) => budget.capped(timeout),
            (Some(budget), None) => budget,
            (None, Some(timeout)) => Budget::new(timeout),
            (None, None) => return Err(InvalidBudget::Missing),
        };
        let left = requested.remaining().left();
        if left > self.limits.longest || requested.elapsed() > self.limits.longest {
            return Err(InvalidBudget::Absurd);
        }
        // Whoever claims to be short would go first.
        let requested = if self.limits.trusted { requested } else { requested.without_estimate() };
        if !self.limits.trusted && left > self.limits.default {
            self.shortened += 1;
            return Ok(requested.capped(self.limits.default));
        }
        Ok(requested)
    }
}

fn invalid_budget(error: ParseError) -> InvalidBudget {
    match error {
        ParseError::Garbled => InvalidBudget::Garbled,
        ParseError::Negative => InvalidBudget::Negative,
    }
}
