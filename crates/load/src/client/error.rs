//! Errors of a run on greenwave's stack.

use super::PORTS_PER_TARGET;
use crate::plan::PlanError;

/// Reason why a run could not start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientError {
    /// Invalid plan.
    Plan(PlanError),
    /// Too few target ports.
    Ports {
        /// Connections requested.
        connections: u32,
        /// Connections possible.
        max: u32,
    },
    /// Connections not open in time.
    Opening {
        /// Number of open connections.
        open: u32,
        /// Number of connections of the plan.
        connections: u32,
        /// Last failure.
        why: String,
    },
}

impl std::fmt::Display for ClientError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Plan(error) => error.fmt(f),
            Self::Ports { connections, max } => {
                let targets = connections.div_ceil(PORTS_PER_TARGET);
                write!(f, "connections {connections} is outside 1..={max}; give {targets} target ports")
            }
            Self::Opening { open, connections, why } => {
                write!(f, "only {open} of {connections} connections opened: {why}")
            }
        }
    }
}

impl std::error::Error for ClientError {}

impl From<PlanError> for ClientError {
    fn from(error: PlanError) -> Self {
        Self::Plan(error)
    }
}
