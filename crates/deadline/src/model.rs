//! Formulas of the D2P paper, under its names.
//!
//! Stage-service model: services in series, delays add. Parallel-unit model: an aggregator
//! waits for the slowest of its workers. [`Budget`](crate::Budget) and
//! [`StageTimer`](crate::StageTimer) apply these rules to live requests; this module is for
//! reports and serves as the oracle of tests.
//! Source: D2P §2, (1)–(5).

use queueing::Span;

use crate::Remaining;

/// `(T_max − T_min) / T_avg × 100 %`, in percent (1); zero if the mean is zero.
#[must_use]
pub fn variability_range(longest: Span, shortest: Span, mean: Span) -> f64 {
    let spread_ns = (longest - shortest).as_nanos() as f64;
    if mean == Span::ZERO { 0.0 } else { spread_ns / mean.as_nanos() as f64 * 100.0 }
}

/// The stage-service model (SSM).
pub mod ssm {
    use super::{Remaining, Span};

    /// `elapsed_time(S_i) = elapsed_time(S_{i-1}) + C(S_{i-1}) + L(S_i)` (2).
    ///
    /// `c` is the network delay into the stage, `l` the time at the stage, queueing
    /// included.
    #[must_use]
    pub fn elapsed_time(before: Span, c: Span, l: Span) -> Span {
        before + c + l
    }

    /// `deadline(S_i) = expected_deadline − elapsed_time(S_i)` (3).
    #[must_use]
    pub fn deadline(expected: Span, elapsed: Span) -> Remaining {
        Remaining::of(expected, elapsed)
    }
}

/// The parallel-unit model (PUM): aggregator A, workers W_j; phases
/// partition (PP), computation (CP), aggregate (AP).
pub mod pum {
    use super::{Remaining, Span};

    /// `elapsed_time(A, AP) = max_j(elapsed_time(W_j, CP) + C(W_j) + L(A, AP))` (4).
    ///
    /// `workers` yields for each worker its elapsed time and the network delay back from
    /// it; `l` is the duration of the aggregate phase. Without workers the result is `l`.
    #[must_use]
    pub fn elapsed_time(workers: impl IntoIterator<Item = (Span, Span)>, l: Span) -> Span {
        let slowest = workers.into_iter().map(|(elapsed, c)| elapsed + c).max();
        slowest.unwrap_or(Span::ZERO) + l
    }

    /// `deadline(l, p) = expected_deadline − elapsed_time(l, p)` for
    /// (A, PP), (W_j, CP) and (A, AP) (5).
    #[must_use]
    pub fn deadline(expected: Span, elapsed: Span) -> Remaining {
        Remaining::of(expected, elapsed)
    }
}
