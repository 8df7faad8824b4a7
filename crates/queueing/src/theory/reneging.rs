//! M/M/1/K with reneging: requests leave the queue after an exponential patience.
//!
//! A request that leaves is gone at once. For a server that still serves it, see
//! [`mm1k::within`](super::mm1k::within).
//! Source: Ancker and Gafarian, Operations Research 11 (1963), reneging.

use crate::Span;

/// Outcomes of requests, as shares of all arrivals.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RenegingOutcome {
    /// Share served.
    pub served: f64,
    /// Share lost: the queue was full.
    pub lost: f64,
    /// Share that left the queue.
    pub reneged: f64,
}

/// Outcomes with at most `k` (1 or more) requests present, including the one in
/// service.
#[must_use]
pub fn outcome(k: u32, rate_per_s: f64, service_mean: Span, patience_mean: Span) -> RenegingOutcome {
    let (serve_per_s, renege_per_s) = (1.0 / service_mean.as_secs_f64(), 1.0 / patience_mean.as_secs_f64());
    // Probability of n present over that of none.
    let mut present = vec![1.0];
    for n in 1..=k {
        let leave_per_s = serve_per_s + f64::from(n - 1) * renege_per_s;
        present.push(present.last().expect("one is there") * rate_per_s / leave_per_s);
        // Against overflow; only ratios matter.
        let most = present.iter().copied().fold(0.0, f64::max);
        if most > 1e200 {
            present.iter_mut().for_each(|share| *share /= most);
        }
    }
    let total: f64 = present.iter().sum();
    let waiting: f64 = present.iter().enumerate().map(|(n, share)| n.saturating_sub(1) as f64 * share).sum();
    RenegingOutcome {
        served: serve_per_s * (1.0 - present[0] / total) / rate_per_s,
        lost: present[k as usize] / total,
        reneged: renege_per_s * waiting / total / rate_per_s,
    }
}
