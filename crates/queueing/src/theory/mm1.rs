//! M/M/1: one server, exponential service, first come first served.
//! Source: Kleinrock I §3.2 and §5.12.

use super::load;
use crate::Span;

/// Mean wait: ρ / (1 − ρ) services.
///
/// ```
/// use queueing::{Span, theory::mm1};
/// // At half load a request waits for one service on average.
/// assert_eq!(mm1::wait_mean(50_000.0, Span::from_micros(10)), Some(Span::from_micros(10)));
/// ```
#[must_use]
pub fn wait_mean(rate_per_s: f64, service_mean: Span) -> Option<Span> {
    let rho = load(rate_per_s, service_mean);
    (rho < 1.0).then(|| Span::from_secs_f64(service_mean.as_secs_f64() * rho / (1.0 - rho)))
}

/// Mean sojourn: 1 / (1 − ρ) services.
#[must_use]
pub fn sojourn_mean(rate_per_s: f64, service_mean: Span) -> Option<Span> {
    let rho = load(rate_per_s, service_mean);
    (rho < 1.0).then(|| Span::from_secs_f64(service_mean.as_secs_f64() / (1.0 - rho)))
}

/// Quantile `q` (0 to 1) of the sojourn, which is exponential.
#[must_use]
pub fn sojourn_quantile(rate_per_s: f64, service_mean: Span, q: f64) -> Option<Span> {
    let mean = sojourn_mean(rate_per_s, service_mean)?;
    Some(Span::from_secs_f64(-(1.0 - q).ln() * mean.as_secs_f64()))
}

/// Quantile `q` (0 to 1) of the wait; a share 1 - ρ of requests does not wait.
#[must_use]
pub fn wait_quantile(rate_per_s: f64, service_mean: Span, q: f64) -> Option<Span> {
    super::mmc::wait_quantile(1, rate_per_s, service_mean, q)
}
