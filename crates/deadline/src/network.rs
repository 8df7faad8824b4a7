//! C, the network's share of a hop, from spans that need no common clock.
//!
//! The caller knows how long it waited for the answer, the callee how long
//! the request was with it; the difference is both ways' network. Half of it
//! is C: only clocks that agree could tell the ways apart. Smoothed as TCP
//! smooths round-trip times.
//! Source: D2P §2 (C); RFC 6298 §2 (the smoothing).

use queueing::Span;

/// The network delay to one peer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NetworkDelay {
    smoothed: Option<Span>,
    impossible: u64,
}

impl NetworkDelay {
    /// An exchange took `waited` from sending to the answer's arrival, of
    /// which the peer had the request for `held`.
    ///
    /// A peer that claims to have held it for longer than it was away is
    /// counted and not believed.
    pub fn record(&mut self, waited: Span, held: Span) {
        if held > waited {
            self.impossible += 1;
            return;
        }
        let one_way_ns = (waited - held).as_nanos() / 2;
        self.smoothed = Some(match self.smoothed {
            None => Span::from_nanos(one_way_ns),
            Some(before) => {
                let before_ns = before.as_nanos();
                Span::from_nanos(before_ns - before_ns / GAIN + one_way_ns / GAIN)
            }
        });
    }

    /// C, one way; zero before the first exchange.
    #[must_use]
    pub fn one_way(&self) -> Span {
        self.smoothed.unwrap_or(Span::ZERO)
    }

    /// Exchanges whose peer claimed the impossible.
    #[must_use]
    pub fn impossible(&self) -> u64 {
        self.impossible
    }
}

/// One over the weight of a new sample.
const GAIN: u64 = 8;
