//! Round-trip time estimator and retransmission timeout (RTO).
//!
//! Samples come only from segments that were never retransmitted (Karn's rule), so no sample is
//! ambiguous.
//! Source: RFC 6298.

use queueing::Span;

/// Smoothed round-trip time and its variation, from which the RTO follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RttEstimator {
    // In units of 16 ns, so that a minute fits.
    srtt: u32,
    rttvar: u32,
    /// Number of RTO doublings since the last sample.
    backoff: u8,
}

impl RttEstimator {
    /// RTO before the first sample (RFC 6298 §2.1).
    const RTO_INITIAL_NS: u64 = 1_000_000_000;
    /// RTO of data after a SYN timeout (RFC 6298 §5.7).
    const RTO_AFTER_SYN_LOSS_NS: u64 = 3_000_000_000;
    /// Maximum RTO (RFC 6298 §2.5 allows 60 s or more).
    const RTO_MAX_NS: u64 = 60_000_000_000;

    const UNIT_BITS: u32 = 4;

    pub(crate) const fn new() -> Self {
        Self { srtt: 0, rttvar: 0, backoff: 0 }
    }

    /// Applies an unambiguous sample and ends the backoff.
    #[inline]
    pub(crate) fn on_sample(&mut self, rtt: Span) {
        let rtt = (rtt.as_nanos().min(Self::RTO_MAX_NS) >> Self::UNIT_BITS).max(1);
        if self.srtt == 0 {
            self.srtt = rtt as u32;
            self.rttvar = rtt as u32 / 2;
        } else {
            let (srtt, rttvar) = (u64::from(self.srtt), u64::from(self.rttvar));
            self.rttvar = ((3 * rttvar + srtt.abs_diff(rtt)) / 4) as u32;
            self.srtt = ((7 * srtt + rtt) / 8).max(1) as u32;
        }
        self.backoff = 0;
    }

    /// Doubles the RTO after a timeout (RFC 6298 §5.5).
    pub(crate) fn on_timeout(&mut self) {
        self.backoff = (self.backoff + 1).min(16);
    }

    /// New data was acknowledged: ends the backoff.
    #[inline]
    pub(crate) fn on_progress(&mut self) {
        self.backoff = 0;
    }

    /// The handshake is complete after a SYN timeout: without a sample, the round trip is unknown
    /// and longer than the RTO.
    pub(crate) fn on_syn_lost(&mut self) {
        if self.srtt == 0 {
            // The RTO is four times RTTVAR.
            (self.rttvar, self.backoff) = ((Self::RTO_AFTER_SYN_LOSS_NS >> Self::UNIT_BITS) as u32 / 4, 0);
        }
    }

    /// Retransmission timeout: SRTT + max(G, 4 × RTTVAR) (RFC 6298 §2.3), with `rto_min` for G.
    ///
    /// `rto_min` is no floor of the sum: on a steady path RTTVAR approaches 0, and a slightly
    /// longer round trip would count as a loss.
    #[inline]
    pub(crate) fn rto(&self, rto_min: Span) -> Span {
        let ns = |units: u32| u64::from(units) << Self::UNIT_BITS;
        let base_ns = match self.srtt {
            0 => Self::RTO_INITIAL_NS.max(rto_min.as_nanos()).max(4 * ns(self.rttvar)),
            srtt => ns(srtt) + (4 * ns(self.rttvar)).max(rto_min.as_nanos()).max(1),
        };
        let base_ns = base_ns.min(Self::RTO_MAX_NS);
        Span::from_nanos((base_ns << self.backoff).min(Self::RTO_MAX_NS))
    }

    /// Mean deviation of the round-trip time.
    pub(crate) fn rttvar(&self) -> Span {
        Span::from_nanos(u64::from(self.rttvar) << Self::UNIT_BITS)
    }

    /// Smoothed round-trip time; `None` before the first sample.
    pub(crate) fn srtt(&self) -> Option<Span> {
        (self.srtt != 0).then(|| Span::from_nanos(u64::from(self.srtt) << Self::UNIT_BITS))
    }
}

//~ recovery: RTO = SRTT + max(floor, 4 RTTVAR), doubled up to 60 s; the floor is 5 ms by default (RFC 6298)
#[cfg(test)]
mod tests {
    use super::*;

    const FLOOR: Span = Span::from_millis(5);

    #[test]
    fn first_sample_sets_srtt_and_half_of_it_as_variance() {
        let mut rtt = RttEstimator::new();
        assert_eq!(rtt.rto(FLOOR), Span::from_secs(1));
        rtt.on_sample(Span::from_millis(100));
        assert_eq!(rtt.srtt(), Some(Span::from_millis(100)));
        assert_eq!(rtt.rto(FLOOR), Span::from_millis(300));
    }

    #[test]
    fn steady_path_waits_the_floor_beyond_a_round_trip() {
        let mut rtt = RttEstimator::new();
        for _ in 0..100 {
            rtt.on_sample(Span::from_micros(50));
        }
        assert_eq!(rtt.srtt(), Some(Span::from_micros(50)));
        assert_eq!(rtt.rto(FLOOR), Span::from_micros(5050));
        assert!(rtt.rto(Span::from_micros(1)) < Span::from_micros(60));
        for _ in 0..100 {
            rtt.on_sample(Span::from_millis(100));
        }
        let rto = rtt.rto(FLOOR).as_nanos();
        assert!((104_900_000..=105_000_000).contains(&rto), "{rto}");
    }

    #[test]
    fn timeout_doubles_up_to_a_minute_and_a_sample_ends_it() {
        let mut rtt = RttEstimator::new();
        rtt.on_sample(Span::from_micros(50));
        let once = rtt.rto(FLOOR);
        rtt.on_timeout();
        assert_eq!(rtt.rto(FLOOR), once * 2);
        for _ in 0..300 {
            rtt.on_timeout();
        }
        assert_eq!(rtt.rto(FLOOR), Span::from_secs(60));
        rtt.on_sample(Span::from_micros(50));
        assert_eq!(rtt.rto(FLOOR), once);
    }
}
