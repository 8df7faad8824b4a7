//! Overload measured by the queue itself: the share of requests that were lost recently.
//!
//! A request that expires is lost; one that is served is lost by the probability that it will be
//! late. The share is over the last one to two seconds. Without losses the floor is zero, and the
//! queue drops only expired requests.

use queueing::{Span, Time};

use crate::forecast::ONE;

/// Losses of the last seconds.
#[derive(Clone, Debug, Default)]
pub(super) struct LossMeter {
    opened: Time,
    previous: Losses,
    current: Losses,
}

#[derive(Clone, Copy, Debug, Default)]
struct Losses {
    /// In units of 2⁻¹⁶.
    lost: u64,
    requests: u64,
}

impl LossMeter {
    /// Records a request that leaves at `now`, in time with `probability`.
    pub(super) fn record(&mut self, now: Time, probability: u64) {
        let age = now.since(self.opened);
        if age >= WINDOW {
            let is_recent = age < WINDOW * 2;
            self.previous = if is_recent { self.current } else { Losses::default() };
            self.current = Losses::default();
            self.opened = now;
        }
        self.current.lost += ONE - probability;
        self.current.requests += 1;
    }

    /// Least probability with which a request is served before others: zero without losses,
    /// [`FLOOR_MAX`] when a tenth or more of all requests are lost.
    pub(super) fn floor(&self) -> u64 {
        let lost = self.previous.lost + self.current.lost;
        let requests = self.previous.requests + self.current.requests;
        (lost * LOSS_FACTOR / (requests + SAMPLES_PRIOR)).min(ONE) * FLOOR_MAX / ONE
    }
}

/// Duration of a window.
const WINDOW: Span = Span::from_secs(1);
/// Inverse of the share of losses at which the floor is highest.
const LOSS_FACTOR: u64 = 10;
/// Highest floor: 0.8 of the probability at enqueue.
const FLOOR_MAX: u64 = ONE * 4 / 5;
/// Requests without loss that are imagined before the first.
const SAMPLES_PRIOR: u64 = 8;
