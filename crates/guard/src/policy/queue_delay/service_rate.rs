//! Requests that the server serves per second while requests wait.
//!
//! Ticks that begin or end with an empty queue say little: the server may have idled. Ticks in which
//! a server that used to be faster serves nothing are a stall, such as a garbage collection, and say
//! nothing about its rate either.

use queueing::{Span, Time};

use super::Tick;

/// Decaying service rate.
#[derive(Clone, Debug, Default)]
pub(super) struct ServiceRate {
    served: f64,
    seconds: f64,
    /// Time in which nothing was served, which counts unless it becomes a stall.
    silent_s: f64,
    /// Requests that waited at the last tick.
    waited: u64,
    /// Last time that a request was served, or that none waited.
    last_progress: Option<Time>,
    /// Begin and end of the latest stall.
    stall: Option<(Time, Time)>,
}

impl ServiceRate {
    /// Requests per second; `None` before the first sample.
    pub fn per_s(&self) -> Option<f64> {
        (self.seconds > 0.0 && self.served > 0.0).then(|| self.served / self.seconds)
    }

    /// Learns from `tick`; true if the server is stalled: it has served none of the waiting requests
    /// for longer than several services take.
    pub fn learn(&mut self, tick: &Tick) -> bool {
        let waited = std::mem::replace(&mut self.waited, tick.waiting);
        if tick.served > 0 || tick.unserved == 0 {
            self.last_progress = Some(tick.now);
        }
        let services_s = self.per_s().map_or(0.0, |per_s| STALL_SERVICES / per_s);
        let silent = self.last_progress.map_or(Span::ZERO, |last| tick.now.since(last));
        let is_stalled = tick.unserved > 0 && silent > STALL_MIN.max(Span::from_secs_f64(services_s));
        if is_stalled && let Some(begin) = self.last_progress {
            self.stall = Some((begin, tick.now));
        }
        if is_stalled || waited == 0 || tick.waiting == 0 {
            self.silent_s = 0.0;
        } else if tick.served == 0 {
            self.silent_s += tick.interval_s;
        } else {
            let interval_s = tick.interval_s + std::mem::take(&mut self.silent_s);
            let memory_s = MEMORY_S.max(self.per_s().map_or(0.0, |per_s| MEMORY_REQUESTS / per_s));
            let keep = (-interval_s / memory_s).exp();
            self.served = self.served * keep + tick.served as f64;
            self.seconds = self.seconds * keep + interval_s;
        }
        is_stalled
    }

    /// Part of the `delay_s` before `now` that belongs to the latest stall, in seconds.
    pub fn stalled_s(&self, now: Time, delay_s: f64) -> f64 {
        let Some((begin, end)) = self.stall else { return 0.0 };
        (delay_s - now.since(end).as_secs_f64()).clamp(0.0, end.since(begin).as_secs_f64())
    }

    /// Raises the rate after `interval_s` in which requests were shed and none waits: the server is
    /// faster than was known.
    pub fn raise(&mut self, interval_s: f64) {
        self.served *= 1.0 + interval_s / MEMORY_S;
    }
}

/// Time constant of the service rate, and the requests that it covers at least.
const MEMORY_S: f64 = 0.5;
const MEMORY_REQUESTS: f64 = 64.0;
/// Time without a served request that is a stall: at least this long, and this many mean services.
const STALL_MIN: Span = Span::from_millis(20);
const STALL_SERVICES: f64 = 10.0;
