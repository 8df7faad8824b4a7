//! Parameters of all policies, with the papers' defaults.
//!
//! Thresholds per task are in [`TaskSpec`](super::TaskSpec).

use queueing::Span;

/// Parameters of policies; each uses its own.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// `caladan`, `elfen`: time between rounds. 10 µs (Caladan §5.2).
    pub period: Span,
    /// `shenango`: time between rounds. 5 µs (Shenango, NSDI '19, §4).
    pub period_shenango: Span,
    /// `parties`: time between rounds. 500 ms (Caladan §7, of Parties).
    pub period_parties: Span,
    /// `caladan`: THRESH_BW, bytes per second and socket. 25 GB/s (Caladan §7).
    pub bandwidth_max: f64,
    /// Age up to which a task's use of a physical core counts in its favour. 100 µs
    /// (Caladan's code).
    pub recency: Span,
    /// Time after which a BE task may lose its core to one without. 2 ms (Caladan's
    /// code).
    pub slice: Span,
    /// Time without a core after which a task with work gets one for a `slice`, if
    /// some core exceeds its holder's guarantee. 100 ms (an addition: the paper lets
    /// it wait).
    pub starve_max: Span,
    /// `parties`: releases cores while the tail is below the target by more than this
    /// share of it, 0 to 1. 0.2 (an addition).
    pub slack: f64,
    /// `parties`: periods without a release after one that broke a target. 8 (an
    /// addition).
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
