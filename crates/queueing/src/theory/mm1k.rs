//! M/M/1/K: one server, exponential service, at most K requests present.
//! Source: Kleinrock I §3.6.

use super::load;
use crate::Span;

/// Loss probability; `k` (1 or more) includes the request in service. Always in
/// steady state.
#[must_use]
pub fn loss(k: u32, rate_per_s: f64, service_mean: Span) -> f64 {
    present(k, k, load(rate_per_s, service_mean))
}

/// Share of time with `n` of at most `k` requests present; proportional to ρⁿ.
fn present(n: u32, k: u32, rho: f64) -> f64 {
    // Divided by the largest term, so that no load overflows.
    let total: f64 = (0..=k).map(|i| rho.powf(f64::from(i) - f64::from(n))).sum();
    1.0 / total
}

/// Mean number of requests present, including the one in service.
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

/// Goodput over offered load: share of all requests that are served within
/// `timeout`. The server is first come first served and also serves requests
/// whose client has given up.
///
/// A request that finds n present needs n + 1 services: Erlang's distribution.
#[must_use]
pub fn within(k: u32, rate_per_s: f64, service_mean: Span, timeout: Span) -> f64 {
    let rho = load(rate_per_s, service_mean);
    let services = timeout.as_secs_f64() / service_mean.as_secs_f64();
    // In `services` mean service times a Poisson number of services ends: the
    // probabilities of exactly j, and of at most n.
    let (mut exactly, mut at_most) = ((-services).exp(), 0.0);
    let mut within = 0.0;
    for n in 0..k {
        at_most += exactly;
        exactly *= services / f64::from(n + 1);
        within += present(n, k, rho) * (1.0 - at_most).max(0.0);
    }
    within
}
