//! Parser of response streams, by protocol.

use super::AppProtocol;
use crate::protocol::synthetic::{self, TimedResponse};
use crate::protocol::{http, memcached};
use crate::record::ServerStages;

/// Parser of a connection's responses, with the state of an incomplete one.
pub(super) enum ResponseParser {
    Synthetic(Vec<u8>),
    Http(http::Framer),
    Memcached(memcached::Framer),
}

/// Result of parsing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Read {
    /// Responses, complete or partial.
    Answers,
    /// A response after which the server closes the connection.
    Last,
    /// Malformed bytes, or a response without a request.
    Garbled,
}

impl ResponseParser {
    pub fn new(protocol: &AppProtocol) -> Self {
        match protocol {
            AppProtocol::Synthetic | AppProtocol::Texts { .. } => Self::Synthetic(Vec::new()),
            AppProtocol::Http(_) => Self::Http(http::Framer::default()),
            AppProtocol::Memcached { .. } => Self::Memcached(memcached::Framer::default()),
        }
    }

    /// Parses `bytes`. Calls `answered` for each response that ends in them, with its request's
    /// id if the protocol has one, and true for an error; `answered` returns `false` if no request
    /// matches.
    pub fn push(
        &mut self,
        bytes: &[u8],
        mut answered: impl FnMut(Option<u64>, ServerStages, bool) -> bool,
    ) -> Read {
        let (mut matched, mut last) = (true, false);
        let valid = match self {
            Self::Synthetic(partial) => {
                partial.extend_from_slice(bytes);
                let (consumed, valid) = synthetic::responses(partial, |response| {
                    let TimedResponse { id, nic, tcp, event, service, .. } = response;
                    answered(Some(id), ServerStages { nic, tcp, event, service }, false)
                });
                partial.drain(..consumed);
                partial.shrink_to(synthetic::RESPONSE_LEN);
                valid
            }
            Self::Http(framer) => {
                let framed = framer.push(bytes, |response| {
                    matched &= answered(None, ServerStages::default(), response.status >= 400);
                    last |= response.last;
                });
                framed.is_ok()
            }
            Self::Memcached(framer) => {
                framer.push(bytes, || matched &= answered(None, ServerStages::default(), false)).is_ok()
            }
        };
        match (valid && matched, last) {
            (false, _) => Read::Garbled,
            (true, true) => Read::Last,
            (true, false) => Read::Answers,
        }
    }
}
