//! Validation of budgets that peers send.
//!
//! A budget is believed up to a maximum, and cut to it beyond. An unreadable line is counted and
//! ignored. A request without a readable one has no deadline, unless a default is set.

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
    /// True if peers are believed the service times of a request's parts, which order them, and how
    /// much of its budget a request has spent before, which raises its priority and parallelism and is sent on
    /// to the services that it calls; with levels, also true if their field `Priority` may raise a request.
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

/// Field of a request that holds a budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BudgetHeader {
    /// [`field::HEADER`].
    Greenwave,
    /// [`grpc::HEADER`].
    GrpcTimeout,
    /// [`envoy::HEADER`].
    EnvoyExpected,
}

impl BudgetHeader {
    /// Every field.
    pub const ALL: [Self; 3] = [Self::Greenwave, Self::GrpcTimeout, Self::EnvoyExpected];

    /// Name of the field.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Greenwave => field::HEADER,
            Self::GrpcTimeout => grpc::HEADER,
            Self::EnvoyExpected => envoy::HEADER,
        }
    }

    fn parse(self, text: &str) -> Result<Option<Budget>, ParseError> {
        match self {
            Self::Greenwave => field::parse(text).map(Some),
            Self::GrpcTimeout => grpc::parse(text).map(|left| Some(Budget::new(left))),
            // Envoy's 0 means no timeout.
            Self::EnvoyExpected => {
                envoy::parse(text).map(|left| Some(Budget::new(left)).filter(|_| left > Span::ZERO))
            }
        }
    }
}

/// Budget in the fields of one request, and the first fault in them.
///
/// The shortest of all readable lines of all fields applies: each is a time after which a caller
/// stops waiting. What is known of the way so far comes from `greenwave-budget`. An unreadable line
/// beside a readable one is counted, and changes nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReceivedBudget {
    budget: Option<Budget>,
    fault: Option<InvalidBudget>,
}

impl ReceivedBudget {
    /// Budget in a request whose `lines` are the values of each field, none if the field is absent.
    /// The one way from headers to a budget.
    #[must_use]
    pub fn read<'a, I: IntoIterator<Item = &'a [u8]>>(lines: impl Fn(BudgetHeader) -> I) -> Self {
        let mut read = Self::default();
        for header in BudgetHeader::ALL {
            for line in lines(header) {
                let text = str::from_utf8(line).map_err(|_| ParseError::Garbled);
                match text.and_then(|text| header.parse(text)) {
                    Ok(Some(budget)) => read.shorten(header, budget),
                    Ok(None) => {}
                    Err(error) => read.fault = read.fault.or(Some(invalid_budget(error))),
                }
            }
        }
        read
    }

    fn shorten(&mut self, header: BudgetHeader, other: Budget) {
        let left = other.remaining().left();
        self.budget = Some(match self.budget {
            None => other,
            Some(budget) if budget.remaining().left() <= left => budget,
            Some(_) if header == BudgetHeader::Greenwave => other,
            Some(budget) => budget.capped(left),
        });
    }

    /// Time left, by the default limits; `None` without a deadline.
    #[must_use]
    pub fn time_left(self) -> Option<Span> {
        let budget = BudgetValidator::default().validate(self);
        budget.is_limited().then(|| budget.remaining().left())
    }
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

    /// Number of requests with `fault`, the first one of a request. Without a readable line it got the default.
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
    pub fn validate(&mut self, received: ReceivedBudget) -> Budget {
        if let Some(fault) = received.fault {
            self.faults[fault as usize] += 1;
        }
        let Some(requested) = received.budget else {
            let is_missing = received.fault.is_none();
            self.faults[InvalidBudget::Missing as usize] += u64::from(is_missing);
            return Budget::new(self.limits.default);
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
        requested
    }
}

fn invalid_budget(error: ParseError) -> InvalidBudget {
    match error {
        ParseError::Garbled => InvalidBudget::Garbled,
        ParseError::Negative => InvalidBudget::Negative,
    }
}
