//! As many in the server as answer as fast as ever.
//!
//! Where only latencies are seen. The limit is multiplied by what answers take
//! in the long run over what they take now, at limit_max 1 and at limit_min a half, and
//! grows by its square root, which is the queue that is allowed. A server that
//! is overloaded from its first answer on is taken for one that is that slow,
//! and so it is when it is overloaded for long: the known weakness of all
//! policies of this kind.
//! Source: concurrency-limits' Gradient2 (Netflix), as its documentation has it.

use queueing::Time;

use super::{Params, Policy};
use crate::{Limit, Signals};

/// A number in the server, moved by what answers take now and took in the long run.
#[derive(Clone, Debug)]
pub struct Gradient {
    limit_min: f64,
    limit_max: f64,
    limit: f64,
    /// What answers took over the long run, in seconds.
    baseline_s: Option<f64>,
}

impl Gradient {
    /// Between the bounds of `params`, at a geometric middle first.
    #[must_use]
    pub fn new(params: &Params) -> Self {
        let (limit_min, limit_max) = (params.present.0.max(1) as f64, params.present.1.max(1) as f64);
        Self { limit_min, limit_max, limit: (limit_min * limit_max).sqrt(), baseline_s: None }
    }
}

impl Policy for Gradient {
    fn tick(&mut self, _now: Time, signals: &Signals) -> Limit {
        if let Some(latency) = signals.latency {
            let now_s = latency.as_secs_f64();
            let baseline_s =
                self.baseline_s.map_or(now_s, |baseline| baseline + (now_s - baseline) / BASELINE_TICKS);
            // What became fast is usual at once: a drop is never overload.
            self.baseline_s = Some(baseline_s.min(now_s * TOLERANCE));
            let gradient = (TOLERANCE * baseline_s / now_s.max(1e-9)).clamp(0.5, 1.0);
            // A limit that nobody comes near is not known to be good.
            if signals.present as f64 > self.limit / 2.0 {
                let next = self.limit * gradient + self.limit.sqrt();
                self.limit =
                    (self.limit + SMOOTHING * (next - self.limit)).clamp(self.limit_min, self.limit_max);
            }
        }
        Limit::Concurrency { max: self.limit as u64 }
    }
}

/// How many times slower than usual is no sign of overload.
const TOLERANCE: f64 = 1.5;
/// Looks over which usual is smoothed.
const BASELINE_TICKS: f64 = 600.0;
/// The part of a step that is taken.
const SMOOTHING: f64 = 0.2;
