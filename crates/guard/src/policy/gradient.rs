//! Concurrency limit by latency gradient.
//!
//! For places that see latencies only. Multiplies the limit by long-run latency over current
//! latency, within 0.5 and 1, and adds its square root, the allowed queue. A server that is
//! overloaded from the start is taken for a slow one, and lasting overload becomes the baseline:
//! the known weakness of this kind of policy.
//! Source: documentation of Gradient2 of concurrency-limits (Netflix).

use queueing::Time;

use super::{Params, Policy};
use crate::{Limit, Signals};

/// Concurrency limit, adapted by current and long-run latency.
#[derive(Clone, Debug)]
pub struct Gradient {
    limit_min: f64,
    limit_max: f64,
    limit: f64,
    /// Long-run latency, in seconds.
    baseline_s: Option<f64>,
}

impl Gradient {
    /// Starts at the geometric mean of the bounds in `params`.
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
            // A drop of latency becomes the baseline at once: it is never overload.
            self.baseline_s = Some(baseline_s.min(now_s * TOLERANCE));
            let gradient = (TOLERANCE * baseline_s / now_s.max(1e-9)).clamp(0.5, 1.0);
            // The limit grows only if it is used.
            if signals.present as f64 > self.limit / 2.0 {
                let next = self.limit * gradient + self.limit.sqrt();
                self.limit =
                    (self.limit + SMOOTHING * (next - self.limit)).clamp(self.limit_min, self.limit_max);
            }
        }
        Limit::Concurrency { max: self.limit as u64 }
    }
}

/// Latency over baseline that is not yet overload.
const TOLERANCE: f64 = 1.5;
/// Ticks over which the baseline is smoothed.
const BASELINE_TICKS: f64 = 600.0;
/// Share of each step that is applied.
const SMOOTHING: f64 = 0.2;
