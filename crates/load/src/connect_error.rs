//! Error texts for connections that could not be opened or were lost.

use std::net::SocketAddr;

use net::stack::{CloseReason, ConnectError};
use queueing::Span;

/// Delay before a failed connection is opened again.
pub(crate) const RETRY_AFTER: Span = Span::from_millis(10);

/// Text for a handshake that could not be started.
pub(crate) fn not_begun(target: SocketAddr, why: ConnectError) -> String {
    match why {
        ConnectError::NoPort => format!("no local port is left for {target}"),
        ConnectError::TooMany => "the client's stack holds no more connections".to_owned(),
        ConnectError::NoRoute => format!("{target} is outside the subnet and there is no gateway"),
    }
}

/// Text for a connection or handshake that ended.
pub(crate) fn ended(target: SocketAddr, why: CloseReason) -> String {
    match why {
        CloseReason::Finished => format!("{target} closed the connection"),
        CloseReason::Reset => format!("{target} refused or reset the connection"),
        CloseReason::TimedOut => format!("{target} did not answer"),
        CloseReason::Unreachable(_) => format!("{target} cannot be reached"),
        CloseReason::Aborted => format!("{target} sent a malformed response"),
    }
}
