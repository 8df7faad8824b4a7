//! Time that a response takes at light load, where waits end with the response.
//!
//! It is no queueing: a server that waits 30 ms for its database is not late after 30 ms. The estimate
//! is the recent minimum. It rises slowly while nothing is shed, since a service may become slower,
//! and is at most [`TARGETS`] targets, so that a guard that begins in an overload sees the queue.

/// Least recent time to a response.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ServiceTime {
    /// In seconds; `None` before the first response.
    least_s: Option<f64>,
}

impl ServiceTime {
    /// Learns from responses that take `response_s`, `interval_s` after the last call.
    pub fn learn(&mut self, response_s: f64, target_s: f64, interval_s: f64, may_rise: bool) {
        if response_s > 0.0 {
            let rise = if may_rise { (interval_s / MEMORY_S).exp() } else { 1.0 };
            let least_s = self.least_s.map_or(response_s, |least_s| (least_s * rise).min(response_s));
            self.least_s = Some(least_s.min(TARGETS * target_s));
        }
    }

    /// Part of a wait of `wait_s` seconds that is queueing.
    pub fn delay_s(&self, wait_s: f64) -> f64 {
        (wait_s - self.least_s.unwrap_or(0.0)).max(0.0)
    }
}

/// Time constant of the rise.
const MEMORY_S: f64 = 60.0;
/// Longest service time assumed, in targets.
const TARGETS: f64 = 10.0;
