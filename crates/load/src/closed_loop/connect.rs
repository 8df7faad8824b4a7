//! Opens the connections of an exchange: a bounded number at once, with retries until all are
//! open. The caller sets the time limit.

use net::stack::CloseReason;
use queueing::Time;

use super::connection::State;
use super::{ClosedLoopClient, Phase};
use crate::connect_error::{RETRY_AFTER, ended, not_begun};

/// Maximum number of concurrent handshakes.
const OPENING_MAX: u32 = 128;

impl ClosedLoopClient {
    /// Text: number of open connections, and why the others are not open.
    #[must_use]
    pub fn connect_status(&self) -> String {
        let (opened, all) = (self.opened, self.connections.len());
        match &self.last_error {
            _ if self.phase != Phase::Opening => {
                "all connections opened, but the exchange did not end in time".to_owned()
            }
            Some(why) => format!("only {opened} of {all} connections opened: {why}"),
            None => format!("only {opened} of {all} connections opened: {} did not answer", self.target),
        }
    }

    /// Earliest time of the next handshake, if one may start.
    pub(super) fn next_connect(&self) -> Option<Time> {
        let (due, _) = self.connect_queue.front()?;
        (self.opening < OPENING_MAX).then_some(*due)
    }

    /// Starts handshakes; starts requests once all connections are open.
    pub(super) fn open_more(&mut self, now: Time) -> bool {
        if self.is_open() && !self.is_paused {
            self.start(now);
            return true;
        }
        let mut any = false;
        while self.next_connect().is_some_and(|due| due <= now)
            && let Some((_, nth)) = self.connect_queue.pop_front()
        {
            any |= self.open(nth, now);
        }
        any
    }

    /// Starts the handshake of connection `nth`; `false` if it failed.
    fn open(&mut self, nth: u32, now: Time) -> bool {
        let id = match self.stack.connect(now, self.target, None) {
            Ok(id) => id,
            Err(why) => {
                self.last_error = Some(not_begun(self.target, why));
                self.connect_queue.push_back((now + RETRY_AFTER, nth));
                return false;
            }
        };
        let slot = id.index as usize;
        if self.owners.len() <= slot {
            self.owners.resize(slot + 1, u32::MAX);
        }
        self.owners[slot] = nth;
        let connection = &mut self.connections[nth as usize];
        (connection.id, connection.state) = (id, State::Opening);
        self.opening += 1;
        true
    }

    /// Handles the loss of connection `at`: opened again before the first request, counted as
    /// broken after it.
    pub(super) fn on_closed(&mut self, at: usize, now: Time, why: CloseReason) {
        let is_opening = self.phase == Phase::Opening;
        let connection = &mut self.connections[at];
        match std::mem::replace(&mut connection.state, State::Closed) {
            State::Closed => return,
            State::Opening => self.opening -= 1,
            State::Open if is_opening => self.opened -= 1,
            State::Open => self.outcome.kinds[connection.kind].broken += 1,
        }
        if is_opening {
            self.last_error = Some(ended(self.target, why));
            self.connect_queue.push_back((now + RETRY_AFTER, at as u32));
        }
    }
}
