//! Two stages on one core, of which the first interrupts the second: a server
//! whose kernel receives before its application serves.
//!
//! Arrivals are Poisson, both services exponential. While load grows past
//! what the second stage can serve, each arrival takes time from it, used or
//! not, and throughput falls on a line of slope −µ2/µ1 to nothing: receive
//! livelock. Shedding early moves that line's slope, at the price of what a
//! shed arrival costs.
//! Source: the overload paper's model, formulas (1) to (7); shedding at a cost
//! is ours.

use super::mm1k;
use crate::Span;

/// A server of two stages. Rates are per second, more than zero; rooms count
/// the one in service.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TwoStages {
    /// µ1: what the first stage, receiving, could do.
    pub receive_per_s: f64,
    /// µ2: what the second, protocol and application, could do alone on the core.
    pub serve_per_s: f64,
    /// l1: how many are at the first at most.
    pub receive_room: u32,
    /// l2: how many are at the second at most.
    pub serve_room: u32,
}

/// What becomes of arrivals, as shares of all that arrive.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LivelockOutcome {
    /// Lost before the first stage: (2).
    pub lost_receiving: f64,
    /// Received and then lost before the second: (3), (6).
    pub lost_serving: f64,
    /// Served.
    pub served: f64,
}

impl TwoStages {
    /// What becomes of `rate_per_s` arrivals: (2), (4) and (5).
    #[must_use]
    pub fn fate(&self, rate_per_s: f64) -> LivelockOutcome {
        let lost_receiving =
            mm1k::loss(self.receive_room, rate_per_s, Span::from_secs_f64(1.0 / self.receive_per_s));
        self.after_receiving(rate_per_s, 1.0 - lost_receiving, 0.0)
    }

    /// The same when of these arrivals only `admitted_per_s` are received and
    /// the others are shed first, at the cost of `shed` each.
    #[must_use]
    pub fn fate_shedding(&self, rate_per_s: f64, admitted_per_s: f64, shed: Span) -> LivelockOutcome {
        let admitted_per_s = admitted_per_s.min(rate_per_s);
        let taken = (rate_per_s - admitted_per_s) * shed.as_secs_f64();
        let receiving =
            Span::from_secs_f64(1.0 / (self.receive_per_s * (1.0 - taken).max(f64::MIN_POSITIVE)));
        let lost = mm1k::loss(self.receive_room, admitted_per_s, receiving);
        self.after_receiving(rate_per_s, admitted_per_s / rate_per_s * (1.0 - lost), taken)
    }

    /// The most that may be admitted of `rate_per_s` without taking time from
    /// what was admitted before: admitting that much keeps the second stage
    /// busy and no busier. All, where shedding costs more than serving.
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

    /// What is served per second in lasting overload: (7).
    #[must_use]
    pub fn throughput_overloaded(&self, rate_per_s: f64) -> f64 {
        (self.serve_per_s * (1.0 - rate_per_s / self.receive_per_s)).max(0.0)
    }

    /// Of the arrivals a share was received and `taken` of the core's time
    /// spent before that.
    fn after_receiving(&self, rate_per_s: f64, received: f64, taken: f64) -> LivelockOutcome {
        let received_per_s = rate_per_s * received;
        let left_share = 1.0 - taken - received_per_s / self.receive_per_s;
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
