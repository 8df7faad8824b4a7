//! Detection of an overload, as opposed to a burst: requests keep coming faster than they are
//! served.
//!
//! A long wait alone is no overload. A server that takes 20 ms for a request, or gets fifty at once,
//! has waits far above any target and serves everyone. Overload is a wait of [`REQUESTS`] service
//! times in a queue that does not shrink, or, sooner, arrivals of twice the service rate in each of
//! four windows, or of eight times that rate in each of two; a burst fills only one window. A queue
//! that shrinks, as after a stall, will be served by itself.

use super::Tick;

/// Arrivals and services of the current window.
#[derive(Clone, Debug, Default)]
pub(super) struct Onset {
    seconds: f64,
    offered: u64,
    ended: u64,
    /// Evidence of the windows in a row in which the queue grew: 1 each, 2 if it grew fast.
    evidence: u32,
    /// Arrivals and services of the window before.
    before: (u64, u64),
}

impl Onset {
    /// Records `tick` of a server that serves `per_s`.
    pub fn update(&mut self, tick: &Tick, per_s: f64) {
        self.seconds += tick.interval_s;
        self.offered += tick.offered;
        self.ended += tick.ended;
        if self.seconds >= WINDOW_S.max(WINDOW_SERVICES / per_s) {
            let evidence = match self.offered.checked_div(self.ended) {
                None | Some(0 | 1) => 0,
                Some(2..8) => self.evidence + 1,
                Some(_) => self.evidence + 2,
            };
            *self = Self { evidence, before: (self.offered, self.ended), ..Self::default() };
        }
    }

    /// True if a wait of `delay_s` seconds at `tick`, at a server that serves `per_s`, is due to
    /// overload. The queue's length shows where `per_s` is of earlier, faster requests.
    pub fn is_overload(&self, delay_s: f64, tick: &Tick, per_s: f64) -> bool {
        let is_long = delay_s > REQUESTS / per_s && tick.waiting >= WAITING_MIN;
        let is_growing =
            self.evidence >= EVIDENCE && (!tick.until_response || delay_s > RESPONSE_REQUESTS / per_s);
        is_growing || (is_long && !self.shrinks())
    }

    /// True if more requests were served than came, in this window and the one before.
    fn shrinks(&self) -> bool {
        let (offered, ended) = self.before;
        offered + self.offered < ended + self.ended
    }
}

/// Wait that is overload, in mean services.
const REQUESTS: f64 = 64.0;
/// Wait that confirms growing numbers without a response: long polls may begin in a burst.
const RESPONSE_REQUESTS: f64 = 16.0;
/// Fewer requests than this wait at light load, too.
const WAITING_MIN: u64 = 32;
/// Evidence that is overload, and the length of a window: at least this long, and this many services.
const EVIDENCE: u32 = 4;
const WINDOW_S: f64 = 0.02;
const WINDOW_SERVICES: f64 = 4.0;
