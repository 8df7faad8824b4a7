//! Rate limit by queueing delay.
//!
//! A limit in requests suits one server, a delay suits any. In overload the admitted rate is the
//! service rate, corrected so that the delay approaches its bound within [`HORIZON`] times that
//! bound. A queue is an integrator; proportional control of an integrator does not oscillate if
//! ticks are more frequent than that.
//!
//! Three rules keep it from shedding requests that an unguarded server would serve:
//! - A limit begins when requests keep coming faster than they are served ([`Onset`]). Time in which
//!   the server was stalled is no evidence: a stall ends by itself, and shedding does not shorten it.
//! - The service rate is learned while requests wait, so idle time does not look like slowness
//!   ([`ServiceRate`]).
//! - The bound on the delay rises while the server idles after shedding, so a burst that the server
//!   can serve before the next is admitted ([`DelayBound`]). It falls to the target while the queue
//!   does not drain.
//!
//! Where waits end with the response, the delay is taken from the responses ([`crate::ResponseWaits`]), less
//! the service ([`ServiceTime`]): long polls wait without a queue.
//!
//! After [`QUIET`] without shedding the limit is lifted.
//! Sources: Breakwater (OSDI '20) for delay as the signal; CoDel (RFC 8289) for the standing queue;
//! the control law is greenwave's. Decisions: `docs/adr/0081-never-idle-after-shedding.md`,
//! `docs/adr/0085-long-polls-are-no-queue.md`.

mod delay_bound;
mod onset;
mod service_rate;
mod service_time;

use queueing::{Span, Time};

use super::{Params, Policy};
use crate::{Limit, Responses, Signals};
use delay_bound::DelayBound;
use onset::Onset;
use service_rate::ServiceRate;
use service_time::ServiceTime;

/// Admits the service rate, corrected by the head-of-queue delay.
#[derive(Clone, Debug)]
pub struct QueueDelay {
    target: Span,
    last_tick: Option<Time>,
    service_rate: ServiceRate,
    service_time: ServiceTime,
    onset: Onset,
    bound: DelayBound,
    /// Last time that requests were shed or late; `None` while there is no limit.
    last_shed: Option<Time>,
}

/// Counts since the last tick and state at it; times in seconds.
#[derive(Clone, Copy, Debug)]
struct Tick {
    now: Time,
    interval_s: f64,
    offered: u64,
    shed: u64,
    served: u64,
    /// Requests that no longer wait: served, or found to be long polls.
    ended: u64,
    /// Requests in the queue, and all that are not served.
    waiting: u64,
    unserved: u64,
    delay_s: f64,
    /// True if waits end with the response.
    until_response: bool,
}

impl QueueDelay {
    /// Policy with the target of `params`.
    #[must_use]
    pub fn new(params: &Params) -> Self {
        Self {
            target: params.delay_target,
            last_tick: None,
            service_rate: ServiceRate::default(),
            service_time: ServiceTime::default(),
            onset: Onset::default(),
            bound: DelayBound::default(),
            last_shed: None,
        }
    }

    /// Queueing delay in seconds: age of the oldest request. With reordering that request may be old
    /// in a short queue, which is the purpose of the order and no reason to shed. Then the delay is
    /// the time to serve all waiting requests, if that is less. Where waits end with the response, it is
    /// at most the time to a response beyond that at light load.
    fn delay_s(&self, signals: &Signals) -> f64 {
        let oldest_s = signals.delay.as_secs_f64();
        let delay_s = match self.service_rate.per_s() {
            Some(per_s) if signals.reordered || signals.responses.is_some() => {
                oldest_s.min(signals.waiting as f64 / per_s.max(RATE_MIN_PER_S))
            }
            _ => oldest_s,
        };
        match signals.responses {
            None => delay_s,
            Some(Responses { time, .. }) => self.service_time.delay_s(delay_s.min(time.as_secs_f64())),
        }
    }

    /// Requests that wait for the server. Where waits end with the response, others wait as well; by
    /// Little's law as many are in the queue as are served during a delay of `delay_s`.
    fn waiting(&self, signals: &Signals, delay_s: f64, interval_s: f64) -> u64 {
        if signals.responses.is_none() || interval_s == 0.0 {
            return signals.waiting;
        }
        let per_s = self.service_rate.per_s().unwrap_or(0.0).max(signals.served as f64 / interval_s);
        signals.waiting.min((delay_s * per_s) as u64)
    }

    /// Target in seconds. With budgets shorter than it, requests miss their deadline below the
    /// target, and a queue that drops them never shows a delay above it. A budget near zero is
    /// infeasible anywhere, or false, so the target has a minimum.
    fn target_s(&self, budget: Option<Span>) -> f64 {
        let clamp = |budget: Span| (budget * 3 / 4).clamp(self.target / TARGET_PARTS, self.target);
        budget.map_or(self.target, clamp).as_secs_f64().max(1e-6)
    }

    /// True if a limit is in force after `tick`.
    fn is_limited(&mut self, tick: &Tick, per_s: f64, is_stalled: bool) -> bool {
        let Some(last_shed) = self.last_shed else {
            let delay_s = tick.delay_s - self.service_rate.stalled_s(tick.now, tick.delay_s);
            let is_overload = self.onset.is_overload(delay_s, tick, per_s);
            if is_stalled || delay_s <= self.bound.seconds() || !is_overload {
                return false;
            }
            self.bound.begin(delay_s);
            self.last_shed = Some(tick.now);
            return true;
        };
        if tick.shed > 0 || tick.delay_s > self.bound.seconds() {
            self.last_shed = Some(tick.now);
        } else if tick.now.since(last_shed) >= QUIET {
            self.last_shed = None;
            return false;
        }
        self.bound.lower_standing_queue(tick, per_s);
        true
    }
}

impl Policy for QueueDelay {
    fn tick(&mut self, now: Time, signals: &Signals) -> Limit {
        let interval = self.last_tick.map_or(Span::ZERO, |last| now.since(last));
        self.last_tick = Some(now);
        let interval_s = interval.as_secs_f64();
        if let Some(Responses { time, .. }) = signals.responses {
            let may_rise = self.last_shed.is_none();
            self.service_time.learn(time.as_secs_f64(), self.target.as_secs_f64(), interval_s, may_rise);
        }
        let delay_s = self.delay_s(signals);
        let ended = signals.responses.map_or(signals.served, |responses| responses.ended);
        let tick = Tick {
            now,
            interval_s,
            offered: signals.offered,
            shed: signals.offered.saturating_sub(signals.admitted),
            // A limit admits long polls too.
            served: if self.last_shed.is_some() { ended } else { signals.served },
            ended,
            waiting: self.waiting(signals, delay_s, interval_s),
            unserved: signals.waiting,
            delay_s,
            until_response: signals.responses.is_some(),
        };
        let is_stalled = self.service_rate.learn(&tick);
        let Some(per_s) = self.service_rate.per_s() else { return Limit::Open };
        self.bound.update(&tick, per_s, self.target_s(signals.budget));
        if tick.waiting == 0 && tick.shed > 0 {
            self.service_rate.raise(tick.interval_s);
        }
        self.onset.update(&tick, per_s);
        if !self.is_limited(&tick, per_s, is_stalled) {
            return Limit::Open;
        }
        let bound_s = self.bound.seconds();
        let share_min = if signals.reordered { REORDERED_SHARE_MIN } else { RATE_SHARE_MIN };
        let correction = match is_stalled {
            true => 0.0,
            false => (bound_s - tick.delay_s) / (HORIZON * bound_s),
        };
        let per_s = per_s.max(RATE_MIN_PER_S);
        Limit::Rate {
            per_s: per_s * (1.0 + correction).max(share_min),
            burst: (bound_s * per_s).max(BURST_MIN),
        }
    }

    fn on_target(&mut self, target: Span) {
        self.target = target;
    }
}

/// Minimum target, as a divisor of the configured one.
const TARGET_PARTS: u64 = 10;
/// Bounds of the delay within which the delay approaches its bound.
const HORIZON: f64 = 5.0;
/// Minimum rate, as a share of the service rate, while the queue drains.
const RATE_SHARE_MIN: f64 = 0.15;
/// The same where important requests overtake the queue: they need not wait for it to drain.
const REORDERED_SHARE_MIN: f64 = 0.8;
/// Time without shedding after which the limit is lifted.
const QUIET: Span = Span::from_millis(500);
/// Minimum service rate assumed: without requests a server cannot show that it has recovered.
const RATE_MIN_PER_S: f64 = 10.0;
/// Minimum burst, in requests.
const BURST_MIN: f64 = 4.0;
