//! Rate limit by queueing delay.
//!
//! A limit in requests suits one server, a delay suits any. While the delay is above the target,
//! the admitted rate is the service rate, corrected so that the delay approaches the target
//! within [`HORIZON`] targets. A queue is an integrator; proportional control of an integrator does
//! not oscillate if ticks are more frequent than that. If requests are shed while none waits, the
//! server has become faster, and the rate grows until requests wait. After [`QUIET`] without
//! shedding the limit is lifted.
//! Sources: Breakwater (OSDI '20) for delay as the signal; CoDel (RFC 8289) for delay instead of
//! queue length; the control law is greenwave's.

use queueing::{Span, Time};

use super::{Params, Policy};
use crate::{Limit, Signals};

/// Admits the service rate, corrected by the head-of-queue delay.
#[derive(Clone, Debug)]
pub struct QueueDelay {
    target: Span,
    last_tick: Option<Time>,
    /// Smoothed service rate while requests wait; `None` before the first sample.
    served_per_s: Option<f64>,
    /// Last time that requests were shed or late; `None` while there is no limit.
    last_shed: Option<Time>,
}

impl QueueDelay {
    /// Policy with the target of `params`.
    #[must_use]
    pub fn new(params: &Params) -> Self {
        Self { target: params.delay_target, last_tick: None, served_per_s: None, last_shed: None }
    }

    /// Queueing delay: age of the oldest request. With reordering that request may be old in a
    /// short queue, which is the purpose of the order and no reason to shed. Then the delay is
    /// the time to serve all waiting requests, if that is less.
    fn delay(&self, signals: &Signals) -> Span {
        match self.served_per_s {
            Some(per_s) if signals.reordered => {
                let drain_s = signals.waiting as f64 / per_s.max(RATE_MIN_PER_S);
                Span::from_secs_f64(drain_s).min(signals.delay)
            }
            _ => signals.delay,
        }
    }

    /// Updates the service rate from the last `interval`.
    fn learn(&mut self, interval: Span, signals: &Signals) {
        let seconds = interval.as_secs_f64();
        if seconds <= 0.0 {
            return;
        }
        let now_per_s = signals.served as f64 / seconds;
        let weight = 1.0 - (-seconds / MEMORY.as_secs_f64()).exp();
        self.served_per_s = match self.served_per_s {
            _ if signals.waiting == 0 && self.last_shed.is_none() => self.served_per_s,
            None => Some(now_per_s),
            // Nothing waits although requests are shed: the server has become faster.
            Some(known) if signals.waiting == 0 && signals.admitted < signals.offered => {
                Some(now_per_s.max(known * (1.0 + weight)))
            }
            Some(known) if signals.waiting == 0 => Some(known),
            Some(known) => Some(known + weight * (now_per_s - known)),
        };
    }
}

impl Policy for QueueDelay {
    fn tick(&mut self, now: Time, signals: &Signals) -> Limit {
        let interval = self.last_tick.map_or(Span::ZERO, |last| now.since(last));
        self.last_tick = Some(now);
        self.learn(interval, signals);
        // With budgets shorter than the target, requests miss their deadline below the target, and a
        // queue that drops them never shows a delay above it. A budget near zero is infeasible
        // anywhere, or false, so the target has a minimum.
        let target_min = self.target / TARGET_PARTS;
        let clamp = |budget: Span| (budget * 3 / 4).clamp(target_min, self.target);
        let target = signals.budget.map_or(self.target, clamp);
        let delay = self.delay(signals);
        let late = delay > target;
        if late || self.last_shed.is_some() && signals.admitted < signals.offered {
            self.last_shed = Some(now);
        }
        let Some(last_shed) = self.last_shed else { return Limit::Open };
        if now.since(last_shed) >= QUIET {
            self.last_shed = None;
            return Limit::Open;
        }
        let served_per_s = self.served_per_s.unwrap_or(0.0).max(RATE_MIN_PER_S);
        let target_s = target.as_secs_f64().max(1e-6);
        let correction = (target_s - delay.as_secs_f64()) / (HORIZON * target_s);
        Limit::Rate { per_s: served_per_s * (1.0 + correction).max(RATE_SHARE_MIN) }
    }

    fn on_target(&mut self, target: Span) {
        self.target = target;
    }
}

/// Minimum target, as a divisor of the configured one.
const TARGET_PARTS: u64 = 10;
/// Targets within which the delay approaches the target.
const HORIZON: f64 = 5.0;
/// Minimum rate, as a share of the service rate: without requests a server cannot show that
/// it has recovered.
const RATE_SHARE_MIN: f64 = 0.1;
/// Time constant of the service rate.
const MEMORY: Span = Span::from_millis(500);
/// Time without shedding after which the limit is lifted.
const QUIET: Span = Span::from_millis(500);
/// Minimum service rate assumed.
const RATE_MIN_PER_S: f64 = 10.0;
