//! As much as is served, and a little more or less by how long it waits.
//!
//! A limit in requests fits one server; a delay fits any. Once the longest
//! wait is above the target, the rate at which requests come in is that at
//! which they are served, corrected so that the wait approaches the target
//! clamp [`HORIZON`] targets; a queue is an integrator, and a proportional
//! correction of an integrator does not oscillate while looks are more frequent
//! than that. Where nobody waits and yet somebody is shed, the server has
//! become faster than is known, and the rate grows until somebody waits. When
//! nobody had to be shed for a while, everybody comes in again.
//! Sources: Breakwater (OSDI '20) for delay as the signal at the server's door;
//! CoDel (RFC 8289) for the wait instead of the length; the law is ours.

use queueing::{Span, Time};

use super::{Params, Policy};
use crate::{Limit, Signals};

/// What comes in is what is served, corrected by how long the first one waits.
#[derive(Clone, Debug)]
pub struct QueueDelay {
    target: Span,
    last_tick: Option<Time>,
    /// Served per second while somebody waits, smoothed; none was seen yet.
    served_per_s: Option<f64>,
    /// Since when nobody had to be shed; `None` while everybody comes in.
    last_shed: Option<Time>,
}

impl QueueDelay {
    /// Lets requests wait for the target of `params`.
    #[must_use]
    pub fn new(params: &Params) -> Self {
        Self { target: params.delay_target, last_tick: None, served_per_s: None, last_shed: None }
    }

    /// How long the queue is: the longest wait. Where others go before who came
    /// first, he waits although few do, which is what the order is for; nobody who
    /// goes before is to be shed for it. There it is what serving all that wait takes,
    /// if that is less.
    fn delay(&self, signals: &Signals) -> Span {
        match self.served_per_s {
            Some(per_s) if signals.reordered => {
                let drain_s = signals.waiting as f64 / per_s.max(RATE_MIN_PER_S);
                Span::from_secs_f64(drain_s).min(signals.delay)
            }
            _ => signals.delay,
        }
    }

    /// Learns what the server can do from what it did in the last `interval`.
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
            // Nobody waits though some are shed.
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
        // One who has less time than the target is late at the target, and a
        // queue that sheds whoever would be late never shows that it is. Who has
        // next to none is hopeless wherever it waits, or lies.
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

/// The least budget that counts, as a part of the target.
const TARGET_PARTS: u64 = 10;
/// Targets clamp which a wait approaches the target.
const HORIZON: f64 = 5.0;
/// The least part of what is served that comes in, however long waits are: a
/// server that is not asked cannot show that it works again.
const RATE_SHARE_MIN: f64 = 0.1;
/// How far back it is remembered what a server can do.
const MEMORY: Span = Span::from_millis(500);
/// Without anybody shed for so long, the limit ends.
const QUIET: Span = Span::from_millis(500);
/// Less is not let in.
const RATE_MIN_PER_S: f64 = 10.0;
