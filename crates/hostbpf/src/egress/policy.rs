//! Egress policy: levels, queues, and pinned traffic.

use std::fmt;

use queueing::{Bytes, Priority, Rate, Span, Thresholds, ThresholdsError};

/// A policy for one egress.
///
/// [`Policy::check`] validates it; call it on a policy read from a file.
#[derive(Clone, Debug, PartialEq)]
pub struct Policy {
    /// Name, for status and messages.
    pub name: String,
    /// Bytes on the wire, headers included, after which a flow drops a level; at most 7, increasing.
    /// Empty: one level.
    pub thresholds: Vec<u64>,
    /// Queues per level, 1..=256, taken in turn by new flows. One makes the level a FIFO.
    pub buckets: u16,
    /// Capacity of each queue in packets, 1..=1,000,000.
    pub queue: u32,
    /// Idle time after which a flow starts at the top level again, 1 ms..=1 h.
    pub idle: Span,
    /// Flows remembered, 16..=4,194,304; the least recently active one is evicted.
    pub flows: u32,
    /// Share of the rate guaranteed to each level; together at most 0.5. The kernel's minimum is a few
    /// packets per second.
    pub guaranteed: f64,
    /// Levels of packets with this `skb->priority` (`SO_PRIORITY`).
    pub pin_priority: Vec<(u32, Priority)>,
    /// Levels of packets with this DSCP; `pin_priority` takes precedence.
    pub pin_dscp: Vec<(u8, Priority)>,
    /// DSCP on departure, one per level; empty: unchanged. Pinned packets keep theirs.
    pub dscp: Vec<u8>,
}

/// Error in a policy: the value, and the valid ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BadPolicy {
    /// Thresholds that do not increase, or too many.
    Thresholds(ThresholdsError),
    /// A threshold of 0 bytes.
    ZeroThreshold,
    /// A value outside its range.
    Outside {
        /// Name of the value.
        what: &'static str,
        /// The value.
        given: String,
        /// The valid range.
        valid: String,
    },
}

impl std::error::Error for BadPolicy {}

impl fmt::Display for BadPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Thresholds(e) => e.fmt(f),
            Self::ZeroThreshold => {
                f.write_str("threshold 0 is not above 0: no flow would be at the first level")
            }
            Self::Outside { what, given, valid } => write!(f, "{what} {given} is outside {valid}"),
        }
    }
}

/// Valid rates of the kernel's shaper: 1 Mbit/s to 1 Tbit/s.
const RATES: [u64; 2] = [1_000_000, 1_000_000_000_000];

impl Policy {
    /// Number of levels, 1..=8.
    #[must_use]
    pub fn levels(&self) -> usize {
        self.thresholds.len() + 1
    }

    /// Thresholds at which flows drop a level.
    ///
    /// # Errors
    /// Thresholds do not increase, or are more than seven.
    pub fn rule(&self) -> Result<Thresholds, ThresholdsError> {
        Thresholds::new(self.thresholds.iter().copied().map(Bytes::new).collect())
    }

    /// Validates the policy.
    ///
    /// # Errors
    /// The first invalid value, with the valid range.
    pub fn check(&self) -> Result<(), BadPolicy> {
        self.rule().map_err(BadPolicy::Thresholds)?;
        if self.thresholds.first() == Some(&0) {
            return Err(BadPolicy::ZeroThreshold);
        }
        within("buckets", u64::from(self.buckets), [1, 256])?;
        within("queue", u64::from(self.queue), [1, 1_000_000])?;
        within("flows", u64::from(self.flows), [16, 1 << 22])?;
        if !(Span::from_millis(1)..=Span::from_secs(3_600)).contains(&self.idle) {
            return Err(outside("idle", self.idle, "1ms..=3600s"));
        }
        let most = 0.5 / self.levels() as f64;
        if !(0.0..=most).contains(&self.guaranteed) {
            return Err(outside("guaranteed", self.guaranteed, format!("0..={most} a level")));
        }
        let levels = self.levels();
        let pins = self.pin_priority.iter().map(|(key, level)| (u64::from(*key), *level));
        for (key, level) in pins.chain(self.pin_dscp.iter().map(|(key, level)| (u64::from(*key), *level))) {
            if level.index() >= levels {
                let given = format!("{level}, to which {key} is pinned,");
                return Err(outside("level", given, format!("0..={}", levels - 1)));
            }
        }
        self.pin_dscp.iter().try_for_each(|(dscp, _)| within("pin.dscp", (*dscp).into(), [0, 63]))?;
        if !self.dscp.is_empty() && self.dscp.len() != levels {
            let given = self.dscp.len().to_string();
            return Err(outside(
                "number of dscp values",
                given,
                format!("{levels}..={levels}, one for each level"),
            ));
        }
        self.dscp.iter().try_for_each(|dscp| within("dscp", (*dscp).into(), [0, 63]))
    }

    /// Validates the rate of an egress.
    ///
    /// # Errors
    /// The rate is below 1 Mbit/s or above 1 Tbit/s.
    pub fn check_rate(rate: Rate) -> Result<(), BadPolicy> {
        match (RATES[0]..=RATES[1]).contains(&rate.bits_per_sec()) {
            true => Ok(()),
            false => Err(outside("rate", rate, "1mbit..=1tbit")),
        }
    }
}

fn within(what: &'static str, given: u64, [least, most]: [u64; 2]) -> Result<(), BadPolicy> {
    match (least..=most).contains(&given) {
        true => Ok(()),
        false => Err(outside(what, given, format!("{least}..={most}"))),
    }
}

fn outside(what: &'static str, given: impl fmt::Display, valid: impl Into<String>) -> BadPolicy {
    BadPolicy::Outside { what, given: given.to_string(), valid: valid.into() }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Four levels of four queues.
    pub(crate) fn policy() -> Policy {
        Policy {
            name: "test".to_owned(),
            thresholds: vec![1_000, 5_000, 20_000],
            buckets: 4,
            queue: 100,
            idle: Span::from_secs(3_600),
            flows: 4_096,
            guaranteed: 0.01,
            pin_priority: Vec::new(),
            pin_dscp: Vec::new(),
            dscp: Vec::new(),
        }
    }

    #[test]
    fn what_cannot_be_carried_out_is_said_with_what_could() {
        let check = |change: fn(&mut Policy), says: &str| {
            let mut changed = policy();
            change(&mut changed);
            let error = changed.check().expect_err(says).to_string();
            assert!(error.contains(says), "{says:?} is not in {error:?}");
        };
        assert_eq!(policy().check(), Ok(()));
        check(|p| p.thresholds = vec![5, 5], "threshold 5 is not above");
        check(|p| p.thresholds = vec![0, 5], "threshold 0 is not above 0");
        check(|p| p.thresholds = (1..9).collect(), "8 thresholds");
        check(|p| p.buckets = 0, "buckets 0 is outside 1..=256");
        check(|p| p.queue = 0, "queue 0 is outside");
        check(|p| p.flows = 1, "flows 1 is outside 16..=4194304");
        check(|p| p.idle = Span::ZERO, "idle 0 ns is outside 1ms");
        check(|p| p.guaranteed = 0.2, "guaranteed 0.2 is outside 0..=0.125");
        check(|p| p.guaranteed = f64::NAN, "guaranteed NaN is outside");
        check(
            |p| p.pin_priority = vec![(6, Priority::LOWEST)],
            "level 7, to which 6 is pinned, is outside 0..=3",
        );
        check(|p| p.pin_dscp = vec![(64, Priority::HIGHEST)], "pin.dscp 64 is outside 0..=63");
        check(|p| p.dscp = vec![46], "number of dscp values 1 is outside 4..=4, one for each level");
        check(|p| p.dscp = vec![46, 0, 0, 99], "dscp 99 is outside 0..=63");
    }

    #[test]
    fn a_rate_that_no_shaper_keeps_is_refused() {
        for bits in [1, 999_999, 1_000_000_000_001] {
            let error = Policy::check_rate(Rate::from_bits_per_sec(bits)).unwrap_err().to_string();
            assert!(error.contains("is outside 1mbit..=1tbit"), "{error}");
        }
        assert_eq!(Policy::check_rate(Rate::from_gbps(10)), Ok(()));
    }
}
