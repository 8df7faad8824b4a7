//! Opening an exchange's lines: so many at once, and again after a while where
//! one could not be opened, or was closed before all were. Who is in a hurry
//! sets the limit: the owner.

use net::stack::CloseReason;
use queueing::Time;

use super::connection::State;
use super::{ClosedLoopClient, Phase};
use crate::connect_error::{RETRY_AFTER, ended, not_begun};

/// Handshakes under way at once.
const OPENING_MAX: u32 = 128;

impl ClosedLoopClient {
    /// How many connections are open, and why others are not, in words.
    #[must_use]
    pub fn standing(&self) -> String {
        let (opened, all) = (self.opened, self.lines.len());
        match &self.why {
            _ if self.phase != Phase::Opening => {
                "all connections opened, and the time was not enough".to_owned()
            }
            Some(why) => format!("only {opened} of {all} connections opened: {why}"),
            None => format!("only {opened} of {all} connections opened: {} did not answer", self.target),
        }
    }

    /// When a line is to be opened, if there is one and it may be.
    pub(super) fn next_to_open(&self) -> Option<Time> {
        let (due, _) = self.to_open.front()?;
        (self.opening < OPENING_MAX).then_some(*due)
    }

    /// Starts handshakes; once the last is done, requests.
    pub(super) fn open_more(&mut self, now: Time) -> bool {
        if self.is_open() && !self.is_held {
            self.start(now);
            return true;
        }
        let mut any = false;
        while self.next_to_open().is_some_and(|due| due <= now)
            && let Some((_, nth)) = self.to_open.pop_front()
        {
            any |= self.open(nth, now);
        }
        any
    }

    /// Starts the handshake of the `nth` line; whether that could be.
    fn open(&mut self, nth: u32, now: Time) -> bool {
        let id = match self.stack.connect(now, self.target, None) {
            Ok(id) => id,
            Err(why) => {
                self.why = Some(not_begun(self.target, why));
                self.to_open.push_back((now + RETRY_AFTER, nth));
                return false;
            }
        };
        let slot = id.index as usize;
        if self.owners.len() <= slot {
            self.owners.resize(slot + 1, u32::MAX);
        }
        self.owners[slot] = nth;
        let line = &mut self.lines[nth as usize];
        (line.id, line.state) = (id, State::Opening);
        self.opening += 1;
        true
    }

    /// The connection of line `at` is gone. Another takes its place, unless
    /// requests are under way: then a line that ends is broken.
    pub(super) fn on_closed(&mut self, at: usize, now: Time, why: CloseReason) {
        let is_opening = self.phase == Phase::Opening;
        let line = &mut self.lines[at];
        match std::mem::replace(&mut line.state, State::Closed) {
            State::Closed => return,
            State::Opening => self.opening -= 1,
            State::Open if is_opening => self.opened -= 1,
            State::Open => self.outcome.kinds[line.kind].broken += 1,
        }
        if is_opening {
            self.why = Some(ended(self.target, why));
            self.to_open.push_back((now + RETRY_AFTER, at as u32));
        }
    }
}
