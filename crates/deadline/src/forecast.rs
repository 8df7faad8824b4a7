//! Forecast: distribution of the service time of one kind of work.
//!
//! A snapshot of a [`History`](crate::History): counts in buckets of an eighth of an octave, and
//! their cumulative sums. Integers only, so the Java implementation gives the same numbers
//! (`spec/deadline/shedding.json`). One imaginary sample of zero is added: no probability is
//! zero, and work of which nothing is known is expected to be in time.

use std::cmp::Ordering;
use std::sync::Arc;

use queueing::Span;

/// Probability in units of 2⁻¹⁶.
pub(crate) const ONE: u64 = 1 << 16;

/// Number of buckets; the last one ends above [`Span::MAX`].
pub(crate) const BUCKETS: usize = 496;

/// Distribution of a service time, or nothing known.
#[derive(Clone, Debug, Default)]
pub struct Forecast(Kind);

#[derive(Clone, Debug, Default)]
enum Kind {
    #[default]
    Unknown,
    Constant(Span),
    Sampled(Arc<Snapshot>),
}

#[derive(Debug)]
struct Snapshot {
    /// Samples below each bucket, and at the end all of them.
    cumulative: Box<[u32]>,
    mean: Span,
    longest: Span,
}

impl Forecast {
    /// Snapshot of `counts`, one per bucket, of samples that sum to `sum_ns` and of which the
    /// longest is `longest`.
    pub(crate) fn new(counts: impl Iterator<Item = u32>, sum_ns: u128, longest: Span) -> Self {
        let mut below = 0;
        let mut cumulative: Vec<u32> = Vec::with_capacity(BUCKETS + 1);
        for count in counts {
            cumulative.push(below);
            below += count;
        }
        cumulative.push(below);
        if below == 0 {
            return Self::default();
        }
        let mean = Span::from_nanos(u64::try_from(sum_ns / u128::from(below)).unwrap_or(u64::MAX));
        Self(Kind::Sampled(Arc::new(Snapshot { cumulative: cumulative.into(), mean, longest })))
    }

    /// Forecast from `samples` of service times.
    #[must_use]
    pub fn from_samples(samples: &[Span]) -> Self {
        let mut counts = [0; BUCKETS];
        samples.iter().for_each(|&sample| counts[bucket(sample)] += 1);
        let sum_ns = samples.iter().map(|sample| u128::from(sample.as_nanos())).sum();
        Self::new(counts.into_iter(), sum_ns, samples.iter().copied().max().unwrap_or_default())
    }

    /// Forecast of work that takes `service`; unknown if that is zero.
    #[must_use]
    pub fn constant(service: Span) -> Self {
        Self(if service == Span::ZERO { Kind::Unknown } else { Kind::Constant(service) })
    }

    /// Mean; zero if nothing is known.
    #[must_use]
    pub fn mean(&self) -> Span {
        match &self.0 {
            Kind::Unknown => Span::ZERO,
            Kind::Constant(service) => *service,
            Kind::Sampled(snapshot) => snapshot.mean,
        }
    }

    /// Number of samples.
    #[must_use]
    pub fn samples(&self) -> u64 {
        match &self.0 {
            Kind::Sampled(snapshot) => u64::from(snapshot.cumulative[BUCKETS]),
            Kind::Unknown | Kind::Constant(_) => 0,
        }
    }

    /// Upper end of the bucket that holds the quantile of `percent`, at most the longest
    /// sample; the mean without samples.
    #[must_use]
    pub fn quantile(&self, percent: u64) -> Span {
        let Kind::Sampled(snapshot) = &self.0 else { return self.mean() };
        let (start_ns, width_log2) = bounds(snapshot.quantile_bucket(percent));
        Span::from_nanos(start_ns.saturating_add((1 << width_log2) - 1)).min(snapshot.longest)
    }

    /// Time within which the work is done with a probability of one.
    pub(crate) fn longest(&self) -> Span {
        match &self.0 {
            Kind::Unknown => Span::ZERO,
            Kind::Constant(service) => *service,
            // Above the end of its bucket.
            Kind::Sampled(snapshot) => snapshot.longest + snapshot.longest / 8 + Span::from_nanos(1),
        }
    }

    /// Order of `service` against the central 90 %: less, equal if inside, or greater.
    pub(crate) fn compare(&self, service: Span) -> Ordering {
        let Kind::Sampled(snapshot) = &self.0 else { return Ordering::Equal };
        let at = bucket(service);
        match (at < snapshot.quantile_bucket(5), at > snapshot.quantile_bucket(95)) {
            (true, _) => Ordering::Less,
            (_, true) => Ordering::Greater,
            _ => Ordering::Equal,
        }
    }

    /// Probability that work started now is done within `left`, in units of 2⁻¹⁶; zero if
    /// `left` is zero.
    #[must_use]
    pub fn probability_within(&self, left: Span) -> u64 {
        let left_ns = left.as_nanos();
        if left_ns == 0 {
            return 0;
        }
        let snapshot = match &self.0 {
            Kind::Unknown => return ONE,
            Kind::Constant(service) => return if left < *service { PROBABILITY_MIN } else { ONE },
            Kind::Sampled(snapshot) => snapshot,
        };
        let at = bucket(left);
        let (start_ns, width_log2) = bounds(at);
        let into_ns = left_ns - start_ns;
        let into = if width_log2 >= 16 { into_ns >> (width_log2 - 16) } else { into_ns << (16 - width_log2) };
        let below = u64::from(snapshot.cumulative[at]);
        let within = u64::from(snapshot.cumulative[at + 1]) - below;
        (below * ONE + within * into + ONE) / (u64::from(snapshot.cumulative[BUCKETS]) + 1)
    }
}

impl Snapshot {
    /// Bucket that holds the quantile of `percent`.
    fn quantile_bucket(&self, percent: u64) -> usize {
        let wanted = (u64::from(self.cumulative[BUCKETS]) * percent).div_ceil(100).max(1);
        self.cumulative.partition_point(|&below| u64::from(below) < wanted) - 1
    }
}

/// Bucket of `span`.
pub(crate) fn bucket(span: Span) -> usize {
    let ns = span.as_nanos();
    if ns < 8 {
        return ns as usize;
    }
    let octave = 63 - ns.leading_zeros();
    ((octave - 2) * 8 + ((ns >> (octave - 3)) & 7) as u32) as usize
}

/// Start of bucket `at` in ns, and the logarithm of its width.
fn bounds(at: usize) -> (u64, u32) {
    if at < 8 {
        return (at as u64, 0);
    }
    let width_log2 = (at / 8) as u32 - 1;
    ((8 + (at % 8) as u64) << width_log2, width_log2)
}

/// Probability that work takes less than its constant forecast.
const PROBABILITY_MIN: u64 = ONE >> 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_adjacent_and_an_eighth_wide() {
        let mut end_ns = 0;
        for at in 0..BUCKETS {
            let (start_ns, width_log2) = bounds(at);
            assert_eq!(start_ns, end_ns, "bucket {at}");
            assert_eq!(bucket(Span::from_nanos(start_ns)), at);
            assert!(at < 8 || start_ns / 8 >= 1 << width_log2);
            end_ns = start_ns.wrapping_add(1 << width_log2);
        }
        assert_eq!(end_ns, 0, "the last bucket ends above the longest span");
    }

    #[test]
    fn probabilities_rise_from_zero_to_one() {
        let forecast = Forecast::from_samples(&[Span::from_millis(10); 1_000]);
        let within = |us: u64| forecast.probability_within(Span::from_micros(us));
        assert_eq!(forecast.mean(), Span::from_millis(10));
        assert_eq!(within(0), 0);
        assert!(within(9_000) < ONE / 500 && within(12_000) == ONE);
        assert!((0..30_000).step_by(100).map(within).is_sorted());
        let unknown = Forecast::default();
        assert_eq!((unknown.probability_within(Span::from_nanos(1)), unknown.mean()), (ONE, Span::ZERO));
    }
}
