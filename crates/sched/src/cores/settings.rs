//! Every threshold that policies have, with the paper's default.
//!
//! Those that each task has of its own are in [`TaskSpec`](super::TaskSpec).

use queueing::Span;

/// What policies may be told; each takes what concerns it.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// `caladan`, `elfen`: from round to round. 10 µs (Caladan §5.2).
    pub period: Span,
    /// `shenango`: the same. 5 µs (Shenango, NSDI '19, §4).
    pub period_shenango: Span,
    /// `parties`: the same. 500 ms (Caladan §7, of Parties).
    pub period_parties: Span,
    /// `caladan`: THRESH_BW, bytes per second and socket. 25 GB/s (Caladan §7).
    pub bandwidth_max: f64,
    /// Who has used a physical core so recently prefers it. 100 µs (Caladan's code).
    pub recency: Span,
    /// A task of the same class that has no core may take one that was held so
    /// long. 2 ms (Caladan's code).
    pub slice: Span,
    /// A task that has work and no core for so long gets one for a `slice`, if a
    /// core is beyond its holder's guarantee. 100 ms (ours: the paper lets it wait).
    pub starve_max: Span,
    /// `parties`: gives up cores while the tail is below the target by more than
    /// this part of it, 0 to 1. 0.2 (ours).
    pub slack: f64,
    /// `parties`: periods to wait before it gives up cores again after that
    /// has broken a target. 8 (ours).
    pub backoff: u32,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            period: Span::from_micros(10),
            period_shenango: Span::from_micros(5),
            period_parties: Span::from_millis(500),
            bandwidth_max: 25e9,
            recency: Span::from_micros(100),
            slice: Span::from_millis(2),
            starve_max: Span::from_millis(100),
            slack: 0.2,
            backoff: 8,
        }
    }
}
