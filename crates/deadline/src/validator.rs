//! Validation of budgets that peers send.
//!
//! An untrusted peer may shorten the budget of its request, never lengthen it. An unreadable
//! budget counts as missing. Every request gets a budget; rejected ones are counted by reason.

use queueing::Span;

use crate::Budget;
use crate::codec::{ParseError, envoy, field, grpc};

/// Limits on received budgets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Budget of requests without a valid one, and maximum for untrusted peers.
    pub default: Span,
    /// Maximum remaining and elapsed time; larger values are absurd.
    pub longest: Span,
    /// True if peers may request more than the default.
    pub trusted: bool,
}

/// Default 1 s, longest 1 h, untrusted.
impl Default for Limits {
    fn default() -> Self {
        Self { default: Span::from_secs(1), longest: Span::from_secs(3_600), trusted: false }
    }
}

/// Reason why a request got the default budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum InvalidBudget {
    /// No budget received.
    Missing,
    /// Unreadable.
    Garbled,
    /// Negative span.
    Negative,
    /// Remaining or elapsed time above [`Limits::longest`].
    Absurd,
}

impl InvalidBudget {
    /// Every reason.
    pub const ALL: [Self; 4] = [Self::Missing, Self::Garbled, Self::Negative, Self::Absurd];
}

/// Budget fields of one request, as received.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Received<'a> {
    /// [`field::HEADER`].
    pub budget: Option<&'a str>,
    /// [`grpc::HEADER`].
    pub grpc_timeout: Option<&'a str>,
    /// [`envoy::HEADER`].
    pub envoy_expected: Option<&'a str>,
}

/// Validator of received budgets, with counters.
#[derive(Clone, Debug, Default)]
pub struct BudgetValidator {
    limits: Limits,
    faults: [u64; InvalidBudget::ALL.len()],
    shortened: u64,
}

impl BudgetValidator {
    /// Validator with `limits`.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        Self { limits, ..Self::default() }
    }

    /// Number of requests that got the default for reason `fault`.
    #[must_use]
    pub fn faults(&self, fault: InvalidBudget) -> u64 {
        self.faults[fault as usize]
    }

    /// Number of requests of untrusted peers that got less than requested.
    #[must_use]
    pub fn shortened(&self) -> u64 {
        self.shortened
    }

    /// Budget of a request with the fields `received`.
    ///
    /// The shortest of several fields applies: each is a time after which a caller stops
    /// waiting. One unreadable field makes the request invalid, whatever the others hold.
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
        // An untrusted peer could claim a short service time to be served first.
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
