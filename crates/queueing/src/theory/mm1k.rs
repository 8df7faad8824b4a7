//! M/M/1/K: as M/M/1, but who finds K requests present is lost.
//! Source: Kleinrock I §3.6.

use super::load;
use crate::Span;

/// The share of requests that are lost; `k` (1 or more) counts the one in
/// service. Always in steady state.
#[must_use]
pub fn loss(k: u32, rate_per_s: f64, service_mean: Span) -> f64 {
    present(k, k, load(rate_per_s, service_mean))
}

/// The share of time during which `n` of at most `k` are present:
/// proportional to ρⁿ.
fn present(n: u32, k: u32, rho: f64) -> f64 {
    // Divided by the largest term, so that no load overflows.
    let total: f64 = (0..=k).map(|i| rho.powf(f64::from(i) - f64::from(n))).sum();
    1.0 / total
}

/// Mean number of requests present, in service included.
#[must_use]
pub fn present_mean(k: u32, rate_per_s: f64, service_mean: Span) -> f64 {
    let rho = load(rate_per_s, service_mean);
    (0..=k).map(|n| f64::from(n) * present(n, k, rho)).sum()
}

/// Mean sojourn of the requests that are not lost, by Little's law.
#[must_use]
pub fn sojourn_mean(k: u32, rate_per_s: f64, service_mean: Span) -> Span {
    let admitted_per_s = rate_per_s * (1.0 - loss(k, rate_per_s, service_mean));
    Span::from_secs_f64(present_mean(k, rate_per_s, service_mean) / admitted_per_s)
}
