//! Who is dropped instead of served.
//!
//! Work on a request that nobody waits for any more is taken from those that
//! somebody waits for. *Infeasible* looks one step further than *expired*: a
//! request whose expected service no longer fits will be late even if it is
//! started now.

use std::fmt;
use std::str::FromStr;

use queueing::{Span, Time, UnknownName, named};

/// When a request is dropped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Shedding {
    /// Never.
    None,
    /// When nothing is left of its budget.
    Expired,
    /// When less is left than its service is expected to take.
    #[default]
    Infeasible,
}

/// Every shedding and its name.
pub const SHEDDINGS: [(&str, Shedding); 3] =
    [("none", Shedding::None), ("expired", Shedding::Expired), ("infeasible", Shedding::Infeasible)];

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

/// Why a request is answered without being served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Nothing is left of its budget.
    Expired,
    /// What is left is less than its service is expected to take.
    Infeasible,
    /// The queue is full of requests that can still make it.
    Full,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Expired => "its deadline has passed",
            Self::Infeasible => "what is left of its deadline is less than it takes",
            Self::Full => "too many requests wait",
        })
    }
}

impl Shedding {
    /// Why a request due at `due` that takes `service` is dropped at `now`.
    pub(super) fn drop_reason(self, now: Time, due: Option<Time>, service: Span) -> Option<Reason> {
        let due = due?;
        match self {
            Self::None => None,
            _ if due <= now => Some(Reason::Expired),
            Self::Infeasible if due < now + service => Some(Reason::Infeasible),
            Self::Expired | Self::Infeasible => None,
        }
    }
}
