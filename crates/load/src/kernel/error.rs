//! Why a run over the kernel's sockets could not be carried out.

use std::io;
use std::net::SocketAddr;

use crate::plan::PlanError;

/// Why a run could not be carried out.
#[derive(Debug)]
pub enum KernelError {
    /// The plan is not valid.
    Plan(PlanError),
    /// The path cannot stand in a request line.
    Path(String),
    /// The process may not hold so many open files.
    Files {
        /// Connections asked for.
        connections: u32,
        /// Connections possible.
        max: u64,
    },
    /// The connections did not open in time.
    Opening {
        /// Where to.
        target: SocketAddr,
        /// How many did.
        open: u32,
        /// How many should.
        connections: u32,
        /// The last failure.
        why: String,
    },
    /// The kernel refused something else.
    Io(io::Error),
}

impl std::fmt::Display for KernelError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Plan(error) => error.fmt(f),
            Self::Path(path) => write!(f, "path {path:?} does not begin with / or has a space in it"),
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

impl From<PlanError> for KernelError {
    fn from(error: PlanError) -> Self {
        Self::Plan(error)
    }
}
