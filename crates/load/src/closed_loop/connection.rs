//! State of one connection: requests in flight, response framing.

use std::collections::VecDeque;

use net::ConnId;
use queueing::Time;

use super::spec::{ExpectedResponse, RequestStream};
use crate::protocol::http::Framer;

/// State of a connection.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    /// Handshake in progress.
    Opening,
    Open,
    /// Not open yet, or lost.
    Closed,
}

/// Placeholder; no stack uses this generation.
const NO_CONNECTION: ConnId = ConnId { index: u32::MAX, generation: u32::MAX };

/// Connection with its requests.
pub(super) struct ClientConnection {
    pub id: ConnId,
    pub kind: usize,
    pub state: State,
    /// Due times of requests in flight, oldest first; the last `unsent` of them are queued.
    pub due: VecDeque<Time>,
    pub unsent: u32,
    /// Number of bytes of the first unsent request sent so far.
    pub offset: usize,
    /// Number of bytes received of the current response.
    received: u64,
    framer: Framer,
}

impl ClientConnection {
    /// Connection for requests of `kind`, not open yet.
    pub fn new(kind: usize) -> Self {
        let (due, framer) = (VecDeque::new(), Framer::default());
        Self { id: NO_CONNECTION, kind, state: State::Closed, due, unsent: 0, offset: 0, received: 0, framer }
    }

    /// Number of responses that end in `bytes`, the next part of the stream; `None` if they do not
    /// match `kind`.
    pub fn answers(&mut self, kind: &RequestStream, bytes: &[u8]) -> Option<u64> {
        match kind.answer {
            ExpectedResponse::Echo => {
                let request_len = kind.request.len();
                let mut left = bytes;
                while !left.is_empty() {
                    let from = (self.received % request_len as u64) as usize;
                    let n = left.len().min(request_len - from);
                    if left[..n] != kind.request[from..from + n] {
                        return None;
                    }
                    self.received += n as u64;
                    left = &left[n..];
                }
                Some(self.take_complete(request_len as u64))
            }
            ExpectedResponse::Bytes(expected) => {
                self.received += bytes.len() as u64;
                Some(self.take_complete(expected))
            }
            ExpectedResponse::Http => {
                let (mut answers, mut fine) = (0, true);
                let framed = self.framer.push(bytes, |response| {
                    answers += 1;
                    fine &= response.status == 200 && !response.last;
                });
                (framed.is_ok() && fine).then_some(answers)
            }
            ExpectedResponse::Nothing => Some(0),
        }
    }

    /// Removes complete responses of `bytes` bytes from the received data; returns their number.
    fn take_complete(&mut self, bytes: u64) -> u64 {
        let answers = self.received / bytes;
        self.received %= bytes;
        answers
    }
}
