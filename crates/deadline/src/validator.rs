//! Validation of budgets that peers send.
//!
//! A budget is believed up to a maximum, and cut to it beyond. An unreadable one counts as
//! missing. A request without a budget has no deadline, unless a default is set. Rejected
//! budgets are counted by reason.

use queueing::Span;

use crate::Budget;
use crate::codec::{ParseError, envoy, field, grpc};

/// Limits on received budgets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Budget of requests without a valid one; `Span::MAX`: no deadline.
    pub default: Span,
    /// Maximum remaining time that a peer can request; longer ones are cut to it.
    pub longest: Span,
    /// True if peers are believed the service times of a request's parts, which order them.
    pub trusted: bool,
}

/// No deadline by default, longest 1 h, untrusted.
impl Default for Limits {
    fn default() -> Self {
        Self { default: Span::MAX, longest: Span::from_secs(3_600), trusted: false }
    }
}

/// Fault of a received budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum InvalidBudget {
    /// No budget received.
    Missing,
    /// Unreadable.
    Garbled,
    /// Negative span.
    Negative,
    /// Elapsed time above [`Limits::longest`]: the remaining time counts, the past does not.
    Absurd,
}

impl InvalidBudget {
    /// Every reason.
    pub const ALL: [Self; 4] = [Self::Missing, Self::Garbled, Self::Negative, Self::Absurd];
}

/// Budget fields of one request, as received.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReceivedBudget<'a> {
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

    /// Number of requests with `fault`; all but [`Absurd`](InvalidBudget::Absurd) got the default.
    #[must_use]
    pub fn faults(&self, fault: InvalidBudget) -> u64 {
        self.faults[fault as usize]
    }

    /// Number of requests that got less than requested.
    #[must_use]
    pub fn shortened(&self) -> u64 {
        self.shortened
    }

    /// Budget of a request with the fields `received`.
    ///
    /// The shortest of several fields applies: each is a time after which a caller stops
    /// waiting. One unreadable field makes the request invalid, whatever the others hold.
    pub fn validate(&mut self, received: ReceivedBudget<'_>) -> Budget {
        match self.read(received) {
            Ok(budget) => budget,
            Err(fault) => {
                self.faults[fault as usize] += 1;
                Budget::new(self.limits.default)
            }
        }
    }

    fn read(&mut self, received: ReceivedBudget<'_>) -> Result<Budget, InvalidBudget> {
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
        // An untrusted peer could claim a short service time to be served first.
        let mut requested = if self.limits.trusted { requested } else { requested.without_estimate() };
        let left = requested.remaining().left();
        if requested.elapsed() > self.limits.longest {
            self.faults[InvalidBudget::Absurd as usize] += 1;
            requested = Budget::new(left);
        }
        if left > self.limits.longest {
            self.shortened += 1;
            requested = requested.capped(self.limits.longest);
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
