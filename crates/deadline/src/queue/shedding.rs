//! Load shedding by deadline.
//!
//! A request that has missed its deadline takes service time from requests that can still meet
//! theirs. *Expired* drops it after the deadline. *Infeasible* drops it as soon as the time left is
//! less than its expected service time, overloaded or not: for experiments, since it refuses work
//! that an idle server would finish in time. *Overload*, the default, drops expired requests; of
//! the others, it postpones those that would make most other requests late (see
//! [`DeadlineQueue`](super::DeadlineQueue)).

use std::fmt;
use std::str::FromStr;

use queueing::{Span, Time, UnknownName, named};

use crate::Cause;

/// Rule for dropping requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Shedding {
    /// Drop nothing.
    None,
    /// Drop requests with no time left.
    Expired,
    /// Drop requests with less time left than their expected service time.
    Infeasible,
    /// Drop requests with no time left; under overload serve those first that are likely to be
    /// in time and cost few others their deadlines.
    #[default]
    Overload,
}

/// Rules by name.
pub const SHEDDINGS: [(&str, Shedding); 4] = [
    ("none", Shedding::None),
    ("expired", Shedding::Expired),
    ("infeasible", Shedding::Infeasible),
    ("overload", Shedding::Overload),
];

impl FromStr for Shedding {
    type Err = UnknownName;

    fn from_str(name: &str) -> Result<Self, UnknownName> {
        named(&SHEDDINGS, "shedding", name)
    }
}

impl fmt::Display for Shedding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = SHEDDINGS.iter().find(|(_, shedding)| shedding == self).map(|&(name, _)| name);
        f.write_str(name.expect("every shedding has a name"))
    }
}

/// Reason for rejecting a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// No time left.
    Expired,
    /// Less time left than the expected service time, or unlikely to be in time when the
    /// queue was full.
    Infeasible,
    /// Queue full of feasible requests.
    Full,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Cause::from(*self).fmt(f)
    }
}

impl Shedding {
    /// Reason to drop at `now` a request that is due at `due` and takes `service`, if any.
    pub(crate) fn drop_reason(self, now: Time, due: Option<Time>, service: Span) -> Option<Reason> {
        let due = due?;
        match self {
            Self::None => None,
            _ if due <= now => Some(Reason::Expired),
            Self::Infeasible if due < now + service => Some(Reason::Infeasible),
            Self::Expired | Self::Infeasible | Self::Overload => None,
        }
    }
}
