//! Errors of a run over the kernel's sockets.

use std::io;
use std::net::SocketAddr;

use crate::plan::PlanError;
use crate::protocol::http::RequestError;

/// Error of a run.
#[derive(Debug)]
pub enum KernelError {
    /// Invalid plan.
    Plan(PlanError),
    /// Invalid request.
    Request(RequestError),
    /// Limit on open files too low.
    Files {
        /// Connections requested.
        connections: u32,
        /// Connections possible.
        max: u64,
    },
    /// Connections not open in time.
    Opening {
        /// Target.
        target: SocketAddr,
        /// Number of open connections.
        open: u32,
        /// Number of connections of the plan.
        connections: u32,
        /// Last failure.
        why: String,
    },
    /// Other I/O error.
    Io(io::Error),
}

impl std::fmt::Display for KernelError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Plan(error) => error.fmt(f),
            Self::Request(error) => error.fmt(f),
            Self::Files { connections, max } => write!(
                f,
                "connections {connections} is outside 1..={max}, the limit on open files; raise it with ulimit -n"
            ),
            Self::Opening { target, open, connections, why } => {
                write!(f, "only {open} of {connections} connections to {target} opened: {why}")
            }
            Self::Io(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for KernelError {}

impl From<io::Error> for KernelError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<RequestError> for KernelError {
    fn from(error: RequestError) -> Self {
        Self::Request(error)
    }
}

impl From<PlanError> for KernelError {
    fn from(error: PlanError) -> Self {
        Self::Plan(error)
    }
}
