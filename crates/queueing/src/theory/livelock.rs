//! Receive livelock: two stages on one core, the first of which preempts the second.
//!
//! Models a server whose kernel receives before its application serves. Arrivals
//! are Poisson, both services exponential. Beyond the capacity of the second
//! stage, each arrival costs it time, used or not, and throughput falls with
//! slope −µ2/µ1 to zero. Early shedding flattens that slope, at the cost of each
//! shed arrival.
//! Source: the overload paper's model, formulas (1) to (7). Shedding at a cost is
//! an addition.

use super::mm1k;
use crate::Span;

/// Server of two stages. Rates are per second, above zero; capacities include the
/// request in service.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TwoStages {
    /// µ1: capacity of the first stage, receiving.
    pub receive_per_s: f64,
    /// µ2: capacity of the second, protocol and application, with the core to itself.
    pub serve_per_s: f64,
    /// l1: maximum number of requests at the first stage.
    pub receive_room: u32,
    /// l2: maximum number of requests at the second stage.
    pub serve_room: u32,
}

/// Outcomes of arrivals, as shares of all arrivals.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LivelockOutcome {
    /// Share lost before the first stage: (2).
    pub lost_receiving: f64,
    /// Share received and then lost before the second: (3), (6).
    pub lost_serving: f64,
    /// Share served.
    pub served: f64,
}

impl TwoStages {
    /// Outcomes at `rate_per_s` arrivals: (2), (4) and (5).
    #[must_use]
    pub fn outcome(&self, rate_per_s: f64) -> LivelockOutcome {
        let lost_receiving =
            mm1k::loss(self.receive_room, rate_per_s, Span::from_secs_f64(1.0 / self.receive_per_s));
        self.after_receiving(rate_per_s, 1.0 - lost_receiving, 0.0)
    }

    /// Outcomes if only `admitted_per_s` are received, and the others are shed
    /// before, at a cost of `shed` each.
    #[must_use]
    pub fn outcome_shedding(&self, rate_per_s: f64, admitted_per_s: f64, shed: Span) -> LivelockOutcome {
        let admitted_per_s = admitted_per_s.min(rate_per_s);
        let shedding_share = (rate_per_s - admitted_per_s) * shed.as_secs_f64();
        let receiving =
            Span::from_secs_f64(1.0 / (self.receive_per_s * (1.0 - shedding_share).max(f64::MIN_POSITIVE)));
        let lost = mm1k::loss(self.receive_room, admitted_per_s, receiving);
        self.after_receiving(rate_per_s, admitted_per_s / rate_per_s * (1.0 - lost), shedding_share)
    }

    /// Largest admitted rate that takes no time from admitted requests: it just
    /// keeps the second stage busy. All of `rate_per_s` if shedding costs more than
    /// serving.
    #[must_use]
    pub fn admitted_best(&self, rate_per_s: f64, shed: Span) -> f64 {
        let (received, served) = (1.0 / self.receive_per_s, 1.0 / self.serve_per_s);
        let saved = received + served - shed.as_secs_f64();
        let rest = 1.0 - rate_per_s * shed.as_secs_f64();
        match saved > 0.0 {
            true if rest > 0.0 => rate_per_s.min(rest / saved),
            true => 0.0,
            false => rate_per_s,
        }
    }

    /// Served requests per second in lasting overload: (7).
    #[must_use]
    pub fn throughput_overloaded(&self, rate_per_s: f64) -> f64 {
        (self.serve_per_s * (1.0 - rate_per_s / self.receive_per_s)).max(0.0)
    }

    /// Outcomes if a share was `received`, after `shedding_share` of the core's time was spent
    /// on shedding.
    fn after_receiving(&self, rate_per_s: f64, received: f64, shedding_share: f64) -> LivelockOutcome {
        let received_per_s = rate_per_s * received;
        let left_share = 1.0 - shedding_share - received_per_s / self.receive_per_s;
        let serving = Span::from_secs_f64(1.0 / (self.serve_per_s * left_share));
        let lost = if left_share > 0.0 { mm1k::loss(self.serve_room, received_per_s, serving) } else { 1.0 };
        LivelockOutcome {
            lost_receiving: 1.0 - received,
            lost_serving: received * lost,
            served: received * (1.0 - lost),
        }
    }
}

#[cfg(test)]
mod tests;
