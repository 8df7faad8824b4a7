//! Loss-rate estimator: segments sent, segments retransmitted, and the recent fraction of the
//! latter.
//!
//! The rate over a whole connection would not follow the path: after millions of segments, neither
//! the start nor the end of a bad minute would show. The rate therefore covers the latest
//! [`MEMORY`] segments at most, with more weight on later ones: at that number both counts are
//! halved.

/// Maximum number of segments in the rate; at least half as many after the first halving. A rate of
/// 1 % is then known to within a sixth.
const MEMORY: u16 = 8_192;

/// Counts of sent segments that occupy sequence numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LossRate {
    /// All segments, retransmissions included.
    pub sent: u32,
    /// Retransmissions.
    pub retransmitted: u32,
    lately: u16,
    again_lately: u16,
}

impl LossRate {
    #[inline]
    pub fn on_sent(&mut self, count: u16) {
        self.sent = self.sent.saturating_add(count.into());
        if self.lately >= MEMORY {
            (self.lately, self.again_lately) = (self.lately / 2, self.again_lately / 2);
        }
        self.lately += count.min(MEMORY);
    }

    /// Counts one of the segments reported to [`on_sent`](Self::on_sent) as a retransmission.
    #[inline]
    pub fn on_retransmission(&mut self) {
        self.retransmitted = self.retransmitted.saturating_add(1);
        self.again_lately += 1;
    }

    /// Recent fraction of retransmissions, 0.0..=1.0.
    pub fn loss(&self) -> f32 {
        f32::from(self.again_lately) / f32::from(self.lately.max(1))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use queueing::Rng;

    use super::*;

    impl LossRate {
        fn send(&mut self, count: u32, mut is_lost: impl FnMut() -> bool) {
            for _ in 0..count {
                self.on_sent(1);
                if is_lost() {
                    self.on_retransmission();
                }
            }
        }
    }

    #[test]
    fn a_share_is_exact_until_the_history_is_full() {
        let mut segments = LossRate::default();
        assert_eq!(segments.loss(), 0.0);
        let mut number = 0;
        segments.send(8_000, || {
            number += 1;
            number % 100 == 0
        });
        assert_eq!((segments.sent, segments.retransmitted, segments.loss()), (8_000, 80, 0.01));
    }

    proptest! {
        //~ mechanisms: M4: the loss rate is that of the latest segments
        /// Independent of the rate before.
        #[test]
        fn a_share_follows_the_current_path(
            before in 0..300_000u32,
            old in 0.0..0.5f64,
            new in 0.005..0.5f64,
            seed in any::<u64>(),
        ) {
            let mut dice = Rng::seeded(seed);
            let mut segments = LossRate::default();
            segments.send(before, || dice.chance(old));
            segments.send(4 * u32::from(MEMORY), || dice.chance(new));
            // Five standard deviations at half the maximum number of segments.
            let off = 5.0 * (new * (1.0 - new) / f64::from(MEMORY / 2)).sqrt() + 0.003;
            let loss = f64::from(segments.loss());
            prop_assert!((loss - new).abs() < off, "{loss} is not {new}");
        }

        #[test]
        fn a_share_is_at_most_one(runs in proptest::collection::vec((1..64u16, any::<bool>()), 0..2_000)) {
            let mut segments = LossRate::default();
            for (count, retransmitted) in runs {
                segments.on_sent(count);
                if retransmitted {
                    segments.on_retransmission();
                }
                prop_assert!((0.0..=1.0).contains(&segments.loss()));
            }
        }
    }
}
