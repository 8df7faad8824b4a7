//! M/M/1/K whose requests do not wait for ever: each leaves when its patience
//! ends before its turn has come.
//!
//! Patience is exponential. Who leaves is gone at once; a server that goes on
//! to serve who has left is [`mm1k::within`](super::mm1k::within)'s.
//! Source: Ancker and Gafarian, Operations Research 11 (1963), reneging.

use crate::Span;

/// How requests end, as shares of all that arrive.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RenegingOutcome {
    /// Served.
    pub served: f64,
    /// Found no room.
    pub lost: f64,
    /// Lost patience.
    pub reneged: f64,
}

/// How the requests end of whom at most `k` (1 or more) are present, the one
/// in service included.
#[must_use]
pub fn ends(k: u32, rate_per_s: f64, service_mean: Span, patience_mean: Span) -> RenegingOutcome {
    let (serve_per_s, renege_per_s) = (1.0 / service_mean.as_secs_f64(), 1.0 / patience_mean.as_secs_f64());
    // How likely n are present, over how likely nobody is.
    let mut present = vec![1.0];
    for n in 1..=k {
        let leave_per_s = serve_per_s + f64::from(n - 1) * renege_per_s;
        present.push(present.last().expect("one is there") * rate_per_s / leave_per_s);
        // Kept from overflowing: only proportions matter.
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
