//! Causes: the reasons for which a request gets no answer of its handler.
//!
//! One closed set, with the same names in a response field, gRPC metadata, counters and log events of
//! every plug-in, in Rust and Java. HTTP and gRPC statuses follow from the cause, but several causes share
//! one: they do not tell a request that never ran from one that was stopped. The field is one of ours,
//! since `Proxy-Status` is for intermediaries and these responses come from the server itself.
//!
//! The test vectors in `spec/deadline/causes.json` are shared with the Java implementation.
//! Source: RFC 9209 §2.3 (error types of `Proxy-Status`); gRPC status codes.

use std::fmt;

use crate::Reason;

/// Cause of a response other than the handler's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Cause {
    /// No time left before the handler began.
    Expired,
    /// Refused before the handler began: too little time left.
    Infeasible,
    /// Refused before the handler began: the queue was full.
    QueueFull,
    /// The handler was stopped at the deadline; its work may be done in part.
    Aborted,
    /// A called service did not answer in time.
    UpstreamTimeout,
    /// A called service failed, or was not reached.
    UpstreamFailed,
}

impl Cause {
    /// All causes.
    pub const ALL: [Self; 6] = [
        Self::Expired,
        Self::Infeasible,
        Self::QueueFull,
        Self::Aborted,
        Self::UpstreamTimeout,
        Self::UpstreamFailed,
    ];

    /// Name of the HTTP response field and of the gRPC metadata: a token of RFC 9651, the
    /// [name](Self::name).
    pub const HEADER: &'static str = "greenwave-cause";

    /// Name, as in the field, in counters and in logs.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Expired => "expired",
            Self::Infeasible => "infeasible",
            Self::QueueFull => "queue-full",
            Self::Aborted => "aborted",
            Self::UpstreamTimeout => "upstream-timeout",
            Self::UpstreamFailed => "upstream-failed",
        }
    }

    /// HTTP status: 503 for a full queue, 502 for a failed service, else 504.
    #[must_use]
    pub fn http_status(self) -> u16 {
        match self {
            Self::QueueFull => 503,
            Self::UpstreamFailed => 502,
            Self::Expired | Self::Infeasible | Self::Aborted | Self::UpstreamTimeout => GATEWAY_TIMEOUT,
        }
    }

    /// gRPC status code: RESOURCE_EXHAUSTED (8) for a full queue, UNAVAILABLE (14) for a failed service,
    /// else DEADLINE_EXCEEDED (4).
    #[must_use]
    pub fn grpc_code(self) -> u16 {
        match self {
            Self::QueueFull => 8,
            Self::UpstreamFailed => 14,
            Self::Expired | Self::Infeasible | Self::Aborted | Self::UpstreamTimeout => DEADLINE_EXCEEDED,
        }
    }

    /// True if the request was refused before its handler began, so that it has had no effect.
    #[must_use]
    pub fn is_refusal(self) -> bool {
        matches!(self, Self::Expired | Self::Infeasible | Self::QueueFull)
    }

    /// Cause in a field with the value `text`; parameters are ignored. `None` for other names.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let name = text.split(';').next().unwrap_or(text).trim_matches([' ', '\t']);
        Self::ALL.into_iter().find(|cause| cause.name() == name)
    }

    /// Cause of a response from a called service with this HTTP status and without the field: 504 is a
    /// timeout, another 5xx a failure; `None` below 500.
    #[must_use]
    pub fn of_http_status(status: u16) -> Option<Self> {
        match status {
            GATEWAY_TIMEOUT => Some(Self::UpstreamTimeout),
            500..=599 => Some(Self::UpstreamFailed),
            _ => None,
        }
    }

    /// The same of a gRPC status code: DEADLINE_EXCEEDED is a timeout; UNKNOWN, INTERNAL, UNAVAILABLE and
    /// DATA_LOSS are failures. The other codes are answers of the service.
    #[must_use]
    pub fn of_grpc_code(code: u16) -> Option<Self> {
        match code {
            DEADLINE_EXCEEDED => Some(Self::UpstreamTimeout),
            2 | 13 | 14 | 15 => Some(Self::UpstreamFailed),
            _ => None,
        }
    }

    /// Cause for a caller, if a called service answered with this one: a timeout, or a failure.
    #[must_use]
    pub fn seen_from_downstream(self) -> Self {
        match self {
            Self::UpstreamTimeout | Self::Aborted => Self::UpstreamTimeout,
            _ => Self::UpstreamFailed,
        }
    }
}

/// One line of text.
impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Expired => "its deadline has passed",
            Self::Infeasible => "its remaining budget is less than its expected service time",
            Self::QueueFull => "the request queue is full",
            Self::Aborted => "its handler was stopped at the deadline",
            Self::UpstreamTimeout => "a service that it called did not answer in time",
            Self::UpstreamFailed => "a service that it called failed",
        })
    }
}

impl From<Reason> for Cause {
    fn from(reason: Reason) -> Self {
        match reason {
            Reason::Expired => Self::Expired,
            Reason::Infeasible => Self::Infeasible,
            Reason::Full => Self::QueueFull,
        }
    }
}

/// HTTP's Gateway Timeout.
const GATEWAY_TIMEOUT: u16 = 504;
/// gRPC's DEADLINE_EXCEEDED.
const DEADLINE_EXCEEDED: u16 = 4;
