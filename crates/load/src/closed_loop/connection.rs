//! One connection: what is under way on it, and where answers end.

use std::collections::VecDeque;

use net::ConnId;
use queueing::Time;

use super::spec::{Answer, Kind};
use crate::protocol::http::Framer;

/// How a connection stands.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    /// Its handshake is under way.
    Opening,
    Open,
    /// It is not open yet, or no longer.
    Closed,
}

/// No connection: a stack has none of this generation.
const NO_CONNECTION: ConnId = ConnId { index: u32::MAX, generation: u32::MAX };

/// What one connection is doing.
pub(super) struct ClientConnection {
    pub id: ConnId,
    pub kind: usize,
    pub state: State,
    /// When each request under way was due, oldest first; the last `unsent` of
    /// them wait to be sent.
    pub due: VecDeque<Time>,
    pub unsent: u32,
    /// Bytes of the first unsent request that are sent.
    pub offset: usize,
    /// Bytes of the answer that comes now.
    received: u64,
    framer: Framer,
}

impl ClientConnection {
    /// One for requests of `kind`, to be opened.
    pub fn new(kind: usize) -> Self {
        let (due, framer) = (VecDeque::new(), Framer::default());
        Self { id: NO_CONNECTION, kind, state: State::Closed, due, unsent: 0, offset: 0, received: 0, framer }
    }

    /// Answers that end in `bytes`, the next that came; none where they are not
    /// what `kind` says.
    pub fn answers(&mut self, kind: &Kind, bytes: &[u8]) -> Option<u64> {
        match kind.answer {
            Answer::Echo => {
                let whole = kind.request.len();
                let mut left = bytes;
                while !left.is_empty() {
                    let from = (self.received % whole as u64) as usize;
                    let n = left.len().min(whole - from);
                    if left[..n] != kind.request[from..from + n] {
                        return None;
                    }
                    self.received += n as u64;
                    left = &left[n..];
                }
                Some(self.whole(whole as u64))
            }
            Answer::Bytes(whole) => {
                self.received += bytes.len() as u64;
                Some(self.whole(whole))
            }
            Answer::Http => {
                let (mut answers, mut fine) = (0, true);
                let framed = self.framer.push(bytes, |response| {
                    answers += 1;
                    fine &= response.status == 200 && !response.last;
                });
                (framed.is_ok() && fine).then_some(answers)
            }
            Answer::Nothing => Some(0),
        }
    }

    /// Takes whole answers of so many bytes from what was received.
    fn whole(&mut self, bytes: u64) -> u64 {
        let answers = self.received / bytes;
        self.received %= bytes;
        answers
    }
}
