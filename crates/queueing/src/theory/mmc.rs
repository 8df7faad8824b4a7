//! M/M/c: c servers, one queue.
//! Source: Erlang 1917; Kleinrock I §3.5.

use super::load;
use crate::Span;

/// Erlang's C formula: probability of waiting, with `servers` (1 or more).
#[must_use]
pub fn wait_share(servers: u32, rate_per_s: f64, service_mean: Span) -> Option<f64> {
    let offered = load(rate_per_s, service_mean);
    let rho = offered / f64::from(servers);
    if servers == 0 || rho >= 1.0 {
        return None;
    }
    // Erlang's B by recursion over the servers, which cannot overflow.
    let loss = (1..=servers).fold(1.0, |loss, n| offered * loss / (f64::from(n) + offered * loss));
    Some(loss / (1.0 - rho * (1.0 - loss)))
}

/// Mean wait.
#[must_use]
pub fn wait_mean(servers: u32, rate_per_s: f64, service_mean: Span) -> Option<Span> {
    let share = wait_share(servers, rate_per_s, service_mean)?;
    Some(Span::from_secs_f64(share / spare_per_s(servers, rate_per_s, service_mean)))
}

/// Quantile `q` (0 to 1) of the wait. The wait of a request that waits is
/// exponential.
#[must_use]
pub fn wait_quantile(servers: u32, rate_per_s: f64, service_mean: Span, q: f64) -> Option<Span> {
    let share = wait_share(servers, rate_per_s, service_mean)?;
    let waits_s = (share / (1.0 - q)).ln() / spare_per_s(servers, rate_per_s, service_mean);
    Some(Span::from_secs_f64(waits_s.max(0.0)))
}

/// Mean sojourn.
#[must_use]
pub fn sojourn_mean(servers: u32, rate_per_s: f64, service_mean: Span) -> Option<Span> {
    Some(wait_mean(servers, rate_per_s, service_mean)? + service_mean)
}

/// Unused capacity in requests per second.
fn spare_per_s(servers: u32, rate_per_s: f64, service_mean: Span) -> f64 {
    f64::from(servers) / service_mean.as_secs_f64() - rate_per_s
}
