//! Estimate of the network delay C per hop, without synchronized clocks.
//!
//! Round-trip time measured by the caller, less the time that the callee held the request,
//! is the network delay of both directions. C is half of it: the two directions cannot be
//! told apart without synchronized clocks. Retries, reconnects and buffers lengthen single
//! samples, so C is the minimum over the last [`WINDOW`] to twice that. Without a sample in
//! that time it is unknown: an old estimate blocks no peer.
//! Source: D2P §2 (C); BBR, RFC draft-ietf-ccwg-bbr §4.3 (windowed minimum of the round trip).

use queueing::{Span, Time};

/// Network delay to one peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NetworkDelay {
    opened: Time,
    /// Round-trip minimum of the window before this one; `Span::MAX` without samples.
    previous: Span,
    current: Span,
    impossible: u64,
}

impl Default for NetworkDelay {
    fn default() -> Self {
        Self { opened: Time::ZERO, previous: Span::MAX, current: Span::MAX, impossible: 0 }
    }
}

impl NetworkDelay {
    /// Records a call that ended at `now` and took `waited` from request to response, of which
    /// the peer held the request for `held`.
    ///
    /// A sample with `held` above `waited` is counted as impossible and discarded.
    pub fn record(&mut self, now: Time, waited: Span, held: Span) {
        if held > waited {
            self.impossible += 1;
            return;
        }
        let age = now.since(self.opened);
        if age >= WINDOW {
            self.previous = if age < WINDOW * 2 { self.current } else { Span::MAX };
            self.current = Span::MAX;
            self.opened = now;
        }
        self.current = self.current.min(waited - held);
    }

    /// C, one direction, as known at `now`; zero if unknown.
    #[must_use]
    pub fn one_way(&self, now: Time) -> Span {
        let round_trip = match now.since(self.opened) {
            age if age < WINDOW => self.previous.min(self.current),
            age if age < WINDOW * 2 => self.current,
            _ => Span::MAX,
        };
        if round_trip == Span::MAX { Span::ZERO } else { round_trip / 2 }
    }

    /// Samples discarded because the peer reported more time than the call took.
    #[must_use]
    pub fn impossible(&self) -> u64 {
        self.impossible
    }
}

/// Duration of a window.
const WINDOW: Span = Span::from_secs(30);
