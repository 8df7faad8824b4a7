//! Queueing theory: closed forms for expected waits, as oracles for tests.
//!
//! One file per queue, in Kendall's notation. Arrivals are Poisson at a rate per
//! second. A *wait* ends when service starts, a *sojourn* when service ends. A
//! queue with a load of 1 or more has no steady state: `None`.
//! Source: Kleinrock, Queueing Systems I (1975) and II (1976).

pub mod feedback;
pub mod livelock;
pub mod mg1;
pub mod mm1;
pub mod mm1k;
pub mod mmc;
pub mod reneging;

use crate::Span;

/// Offered load in Erlang: service time that arrives per second, in seconds.
#[must_use]
pub fn load(rate_per_s: f64, service_mean: Span) -> f64 {
    rate_per_s * service_mean.as_secs_f64()
}

#[cfg(test)]
mod tests;
