//! HyStart++: leaves slow start when the bottleneck queue begins to fill, before it overflows.
//!
//! A round whose minimum RTT clearly exceeds that of the previous round indicates a queue. The
//! window then grows at a quarter of the rate (conservative slow start). Slow start ends if the
//! delay lasts for five rounds, and resumes if the delay was transient.
//! Source: RFC 9406.

use queueing::Span;

use super::Ack;

/// Result of one acknowledgement in slow start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Growth {
    /// Growth of the window, in bytes.
    By(u32),
    /// Last growth of the window, in bytes: slow start ends.
    Last(u32),
}

/// Slow-start state of one connection.
///
/// RTTs are kept small: in 32-bit nanoseconds, which saturate at 4.29 s.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct HyStart {
    /// End of the round, in bytes delivered (modulo 2³²).
    round_end: u32,
    rtt_last: u32,
    rtt_now: u32,
    /// Minimum RTT of conservative slow start; [`NONE`] outside of it.
    rtt_baseline: u32,
    samples: u8,
    rounds: u8,
}

/// Value that means no sample.
const NONE: u32 = u32::MAX;
/// Lower bound of the RTT threshold, in nanoseconds: a smaller rise is noise.
const MIN_RTT_THRESH: u32 = 4_000_000;
/// Upper bound of the RTT threshold, in nanoseconds: a larger rise always counts.
const MAX_RTT_THRESH: u32 = 16_000_000;
/// Divisor of the RTT that gives the threshold between the bounds.
const MIN_RTT_DIVISOR: u32 = 8;
/// Minimum number of RTT samples per round for a decision.
const N_RTT_SAMPLE: u8 = 8;
/// Divisor of the growth in conservative slow start.
const CSS_GROWTH_DIVISOR: u32 = 4;
/// Number of rounds of conservative slow start, including the one in which it began.
const CSS_ROUNDS: u8 = 5;
/// Maximum growth per acknowledgement, in segments.
const L: u32 = 8;

impl HyStart {
    pub(super) const fn new() -> Self {
        Self { round_end: 0, rtt_last: NONE, rtt_now: NONE, rtt_baseline: NONE, samples: 0, rounds: 0 }
    }

    /// Growth for `ack` with segments of up to `mss` bytes.
    #[inline]
    pub(super) fn on_ack(&mut self, ack: &Ack, mss: u16) -> Growth {
        if let Some(rtt) = ack.rtt {
            self.on_sample(rtt);
        }
        let growth = L * u32::from(mss);
        let grow = u32::try_from(ack.acked.get()).unwrap_or(growth).min(growth);
        let grow = if self.is_conservative() { grow / CSS_GROWTH_DIVISOR } else { grow };
        // A round end outside the data in flight is past. It may be far back, since acknowledgements
        // of a flight that the window did not limit do not arrive here.
        let ahead = self.round_end.wrapping_sub(ack.delivered as u32);
        let in_flight = ack.sent.saturating_sub(ack.delivered) as u32;
        if (ahead == 0 || ahead > in_flight) && self.end_round(ack.sent as u32) {
            return Growth::Last(grow);
        }
        Growth::By(grow)
    }

    fn is_conservative(&self) -> bool {
        self.rtt_baseline != NONE
    }

    fn on_sample(&mut self, rtt: Span) {
        let rtt = u32::try_from(rtt.as_nanos()).unwrap_or(NONE - 1).min(NONE - 1);
        self.rtt_now = self.rtt_now.min(rtt);
        self.samples = self.samples.saturating_add(1);
        if self.samples < N_RTT_SAMPLE {
            return;
        }
        if self.is_conservative() {
            if self.rtt_now < self.rtt_baseline {
                self.rtt_baseline = NONE;
            }
        } else if self.rtt_last != NONE {
            let threshold = (self.rtt_last / MIN_RTT_DIVISOR).clamp(MIN_RTT_THRESH, MAX_RTT_THRESH);
            if self.rtt_now >= self.rtt_last.saturating_add(threshold) {
                (self.rtt_baseline, self.rounds) = (self.rtt_now, 0);
            }
        }
    }

    /// Starts a round that ends when `sent` bytes are delivered; returns true if slow start ends.
    fn end_round(&mut self, sent: u32) -> bool {
        self.round_end = sent;
        (self.rtt_last, self.rtt_now, self.samples) = (self.rtt_now, NONE, 0);
        self.rounds = self.rounds.saturating_add(1);
        self.is_conservative() && self.rounds >= CSS_ROUNDS
    }
}

//~ recovery: HyStart++ leaves slow start before a deep buffer overflows (RFC 9406)
#[cfg(test)]
mod tests {
    use super::*;
    use queueing::Bytes;

    const MSS: u16 = 1000;

    /// State and delivered bytes of a slow start with `acks` segments in flight.
    fn begun(acks: u32) -> (HyStart, u64) {
        (HyStart { round_end: acks * 1000, ..HyStart::new() }, 0)
    }

    /// Runs one round of `acks` full segments with a constant RTT; returns the growth in bytes and
    /// true if slow start ended.
    fn round(hystart: &mut HyStart, delivered: &mut u64, acks: u64, rtt_ms: u64) -> (u64, bool) {
        let (mut grown, mut ended) = (0, false);
        for _ in 0..acks {
            *delivered += 1000;
            let sent = *delivered + acks * 1000;
            let rtt = Some(Span::from_millis(rtt_ms));
            let ack = Ack { acked: Bytes::new(1000), rtt, delivered: *delivered, sent, ..Ack::default() };
            match hystart.on_ack(&ack, MSS) {
                Growth::By(bytes) => grown += u64::from(bytes),
                Growth::Last(bytes) => (grown, ended) = (grown + u64::from(bytes), true),
            }
        }
        (grown, ended)
    }

    #[test]
    fn a_steady_path_doubles_each_round() {
        let (mut hystart, mut delivered) = begun(10);
        for acks in [10, 20, 40, 80] {
            assert_eq!(round(&mut hystart, &mut delivered, acks, 40), (acks * 1000, false));
        }
    }

    #[test]
    fn a_rise_by_an_eighth_slows_down_and_five_rounds_end_slow_start() {
        let (mut hystart, mut delivered) = begun(100);
        round(&mut hystart, &mut delivered, 100, 80);
        // The eighth sample of the round triggers; 93 acknowledgements count a quarter.
        let (grown, _) = round(&mut hystart, &mut delivered, 100, 90);
        assert_eq!(grown, 7 * 1000 + 93 * 250);
        let ends: Vec<_> = (0..4).map(|_| round(&mut hystart, &mut delivered, 100, 90)).collect();
        assert_eq!(ends.iter().map(|end| end.1).collect::<Vec<_>>(), [false, false, false, true], "{ends:?}");
    }

    #[test]
    fn a_passing_rise_resumes_slow_start() {
        let (mut hystart, mut delivered) = begun(100);
        round(&mut hystart, &mut delivered, 100, 80);
        round(&mut hystart, &mut delivered, 100, 95);
        assert!(hystart.is_conservative());
        round(&mut hystart, &mut delivered, 100, 80);
        assert!(!hystart.is_conservative());
        assert_eq!(round(&mut hystart, &mut delivered, 100, 80), (100_000, false));
    }

    #[test]
    fn the_threshold_lies_between_4_and_16_ms() {
        for (before, after, slows) in [
            (1, 4, false),
            (1, 5, true),
            (80, 89, false),
            (80, 90, true),
            (400, 415, false),
            (400, 416, true),
        ] {
            let (mut hystart, mut delivered) = begun(20);
            round(&mut hystart, &mut delivered, 20, before);
            round(&mut hystart, &mut delivered, 20, after);
            assert_eq!(hystart.is_conservative(), slows, "{before} ms → {after} ms");
        }
    }

    #[test]
    fn seven_samples_are_no_verdict() {
        let (mut hystart, mut delivered) = begun(7);
        round(&mut hystart, &mut delivered, 7, 10);
        round(&mut hystart, &mut delivered, 7, 100);
        assert!(!hystart.is_conservative());
    }

    #[test]
    fn one_acknowledgement_adds_eight_segments_at_most() {
        let ack = Ack { acked: Bytes::new(64_000), sent: 1 << 20, ..Ack::default() };
        assert_eq!(HyStart::new().on_ack(&ack, MSS), Growth::By(8000));
    }

    #[test]
    fn a_round_that_ended_gigabytes_ago_is_over() {
        let (mut hystart, mut delivered) = (HyStart::new(), 5 << 29);
        for _ in 0..2 {
            round(&mut hystart, &mut delivered, 100, 80);
        }
        assert_eq!(hystart.rtt_last, 80_000_000);
    }

    #[test]
    fn rounds_go_on_where_the_numbers_wrap() {
        let (mut hystart, mut delivered) = (HyStart::new(), u64::from(u32::MAX) - 150_000);
        hystart.round_end = (delivered + 100_000) as u32;
        for _ in 0..3 {
            round(&mut hystart, &mut delivered, 100, 80);
        }
        assert_eq!(hystart.rtt_last, 80_000_000);
        round(&mut hystart, &mut delivered, 100, 95);
        assert!(hystart.is_conservative());
    }
}
