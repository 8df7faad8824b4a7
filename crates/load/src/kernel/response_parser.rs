//! What has come of an answer that is not complete, by protocol.

use super::Protocol;
use crate::protocol::synthetic::{self, Response};
use crate::protocol::{http, memcached};
use crate::record::Stages;

/// A connection's answers.
pub(super) enum ResponseParser {
    Synthetic(Vec<u8>),
    Http(http::Framer),
    Memcached(memcached::Framer),
}

/// What some bytes were.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Read {
    /// Answers, or parts of them.
    Answers,
    /// The server's last ones.
    Last,
    /// Something else, or more than was matched for.
    Garbled,
}

impl ResponseParser {
    pub fn new(protocol: &Protocol) -> Self {
        match protocol {
            Protocol::Synthetic | Protocol::Texts { .. } => Self::Synthetic(Vec::new()),
            Protocol::Http { .. } => Self::Http(http::Framer::default()),
            Protocol::Memcached { .. } => Self::Memcached(memcached::Framer::default()),
        }
    }

    /// Takes `bytes`; `answered` is told of each answer that ends in them, with
    /// its request's id where it has one, and says whether it was matched for.
    pub fn push(&mut self, bytes: &[u8], mut answered: impl FnMut(Option<u64>, Stages) -> bool) -> Read {
        let (mut matched, mut last) = (true, false);
        let understood = match self {
            Self::Synthetic(partial) => {
                partial.extend_from_slice(bytes);
                let (taken, understood) = synthetic::responses(partial, |response| {
                    let Response { id, nic, tcp, event, service, .. } = response;
                    answered(Some(id), Stages { nic, tcp, event, service })
                });
                partial.drain(..taken);
                partial.shrink_to(synthetic::RESPONSE_LEN);
                understood
            }
            Self::Http(framer) => {
                let framed = framer.push(bytes, |response| {
                    matched &= answered(None, Stages::default());
                    last |= response.last;
                });
                framed.is_ok()
            }
            Self::Memcached(framer) => {
                framer.push(bytes, || matched &= answered(None, Stages::default())).is_ok()
            }
        };
        match (understood && matched, last) {
            (false, _) => Read::Garbled,
            (true, true) => Read::Last,
            (true, false) => Read::Answers,
        }
    }
}
