//! Why a connection to a server is not open, in words.

use std::net::SocketAddr;

use net::stack::{CloseReason, ConnectError};
use queueing::Span;

/// How long a connection that could not be opened is left alone.
pub(crate) const RETRY_AFTER: Span = Span::from_millis(10);

/// It could not be begun.
pub(crate) fn not_begun(target: SocketAddr, why: ConnectError) -> String {
    match why {
        ConnectError::NoPort => format!("no local port is left for {target}"),
        ConnectError::TooMany => "the client's stack holds no more connections".to_owned(),
        ConnectError::NoRoute => format!("{target} is outside the subnet and there is no gateway"),
    }
}

/// It has ended, or its handshake has.
pub(crate) fn ended(target: SocketAddr, why: CloseReason) -> String {
    match why {
        CloseReason::Finished => format!("{target} closed the connection"),
        CloseReason::Reset => format!("{target} refused or reset the connection"),
        CloseReason::TimedOut => format!("{target} did not answer"),
        CloseReason::Unreachable => format!("{target} cannot be reached"),
        CloseReason::Aborted => format!("{target} sent what is no response"),
    }
}
