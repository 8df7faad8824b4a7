//! Estimate of the network delay C per hop, without synchronized clocks.
//!
//! Round-trip time measured by the caller, less the time that the callee held the request,
//! is the network delay of both directions. C is half of it: the two directions cannot be
//! told apart without synchronized clocks. Smoothed like TCP's round-trip time.
//! Source: D2P §2 (C); RFC 6298 §2 (smoothing).

use queueing::Span;

/// Network delay to one peer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NetworkDelay {
    smoothed: Option<Span>,
    impossible: u64,
}

impl NetworkDelay {
    /// Records a call that took `waited` from request to response, of which the peer held
    /// the request for `held`.
    ///
    /// A sample with `held` above `waited` is counted as impossible and discarded.
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

    /// C, one direction; zero before the first sample.
    #[must_use]
    pub fn one_way(&self) -> Span {
        self.smoothed.unwrap_or(Span::ZERO)
    }

    /// Samples discarded because the peer reported more time than the call took.
    #[must_use]
    pub fn impossible(&self) -> u64 {
        self.impossible
    }
}

/// Inverse of the weight of a new sample.
const GAIN: u64 = 8;
