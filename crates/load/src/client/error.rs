//! Why a run could not start, each with the way out.

use super::PORTS_PER_TARGET;
use crate::plan::PlanError;

/// Why a run could not start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientError {
    /// The plan is not valid.
    Plan(PlanError),
    /// Too few target ports for so many connections.
    Ports {
        /// Connections asked for.
        connections: u32,
        /// Connections possible.
        max: u32,
    },
    /// The connections did not open in time.
    Opening {
        /// How many did.
        open: u32,
        /// How many should.
        connections: u32,
        /// What the last failure was.
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
