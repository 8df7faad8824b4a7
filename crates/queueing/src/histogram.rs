//! Histograms of spans, single and per class and stage.
//!
//! Three (or two) significant digits from 1 ns to 60 s, in memory of fixed size.
//! Longer spans count as 60 s and are counted separately, for reports. Maximum
//! and mean are exact.
//! Source: HdrHistogram (Gil Tene); crate `hdrhistogram`.

use crate::Span;

/// Histogram of spans.
///
/// ```
/// use queueing::{Histogram, Span};
/// let mut waits = Histogram::new();
/// for us in 1..=100 {
///     waits.record(Span::from_micros(us));
/// }
/// assert_eq!(waits.max(), Span::from_micros(100));
/// assert_eq!(waits.quantile(0.5).to_string(), "50.0 µs");
/// ```
#[derive(Clone, Debug)]
pub struct Histogram {
    counts: hdrhistogram::Histogram<u64>,
    max: Span,
    sum_ns: u128,
    saturated: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self::new()
    }
}

impl Histogram {
    /// Longest span with its own bucket.
    pub const LONGEST: Span = Span::from_secs(60);

    /// Empty histogram of three digits; about 220 kB.
    #[must_use]
    pub fn new() -> Self {
        Self::with_digits(3)
    }

    /// Empty histogram with a precision of two digits; about 30 kB, for uses with many histograms.
    #[must_use]
    pub fn coarse() -> Self {
        Self::with_digits(2)
    }

    fn with_digits(digits: u8) -> Self {
        let counts = hdrhistogram::Histogram::new_with_bounds(1, Self::LONGEST.as_nanos(), digits)
            .expect("1 ns to 60 s at two or three digits is a valid range");
        Self { counts, max: Span::ZERO, sum_ns: 0, saturated: 0 }
    }

    /// Records `span`.
    #[inline]
    pub fn record(&mut self, span: Span) {
        self.saturated += u64::from(span > Self::LONGEST);
        self.max = self.max.max(span);
        self.sum_ns += u128::from(span.as_nanos());
        self.counts.saturating_record(span.min(Self::LONGEST).as_nanos());
    }

    /// Records `span` `times` times, such as from another histogram's
    /// [`counts`](Self::counts).
    pub fn record_n(&mut self, span: Span, times: u64) {
        if times == 0 {
            return;
        }
        self.saturated += if span > Self::LONGEST { times } else { 0 };
        self.max = self.max.max(span);
        self.sum_ns += u128::from(span.as_nanos()) * u128::from(times);
        self.counts.saturating_record_n(span.min(Self::LONGEST).as_nanos(), times);
    }

    /// Number of recorded spans.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.counts.len()
    }

    /// Number of recorded spans above [`LONGEST`](Self::LONGEST).
    #[must_use]
    pub const fn saturated(&self) -> u64 {
        self.saturated
    }

    /// Quantile `q` (0 to 1), to the histogram's digits; zero if empty.
    #[must_use]
    pub fn quantile(&self, q: f64) -> Span {
        Span::from_nanos(self.counts.value_at_quantile(q)).min(self.max)
    }

    /// Longest recorded span, exact.
    #[must_use]
    pub const fn max(&self) -> Span {
        self.max
    }

    /// Mean, exact; zero if empty.
    #[must_use]
    pub fn mean(&self) -> Span {
        let mean_ns = self.sum_ns.checked_div(self.count().into()).unwrap_or(0);
        Span::from_nanos(mean_ns as u64)
    }

    /// Adds the records of `other`.
    pub fn merge(&mut self, other: &Self) {
        if other.count() == 0 {
            return;
        }
        self.counts.add(&other.counts).expect("all histograms have the same range");
        self.max = self.max.max(other.max);
        self.sum_ns += other.sum_ns;
        self.saturated += other.saturated;
    }

    /// Removes all records.
    pub fn clear(&mut self) {
        if self.count() == 0 {
            return;
        }
        self.counts.reset();
        (self.max, self.sum_ns, self.saturated) = (Span::ZERO, 0, 0);
    }

    /// Each recorded value, to the histogram's digits, ascending, and its number of
    /// records.
    pub fn counts(&self) -> impl Iterator<Item = (Span, u64)> + '_ {
        self.counts.iter_recorded().map(|step| {
            let value = Span::from_nanos(step.value_iterated_to()).min(self.max);
            (value, step.count_since_last_iteration())
        })
    }

    /// Cumulative distribution: each recorded value, ascending, and the share of
    /// records not above it; the last share is 1.
    pub fn cdf(&self) -> impl Iterator<Item = (Span, f64)> + '_ {
        let mut cumulated = 0;
        self.counts().map(move |(value, times)| {
            cumulated += times;
            (value, cumulated as f64 / self.count() as f64)
        })
    }
}

/// Histogram per request class and stage of waiting.
#[derive(Clone, Debug)]
pub struct StageHistograms {
    classes: Vec<String>,
    stages: Vec<String>,
    /// Histograms in row-major order: class, then stage.
    table: Vec<Histogram>,
}

impl StageHistograms {
    /// Empty histograms of three digits. Classes and stages are then addressed by
    /// their index in these lists.
    #[must_use]
    pub fn new(classes: &[&str], stages: &[&str]) -> Self {
        Self::of(&Histogram::new(), classes, stages)
    }

    /// Empty histograms with a precision of two digits; see [`Histogram::coarse`].
    #[must_use]
    pub fn coarse(classes: &[&str], stages: &[&str]) -> Self {
        Self::of(&Histogram::coarse(), classes, stages)
    }

    fn of(empty: &Histogram, classes: &[&str], stages: &[&str]) -> Self {
        let owned = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
        let table = vec![empty.clone(); classes.len() * stages.len()];
        Self { classes: owned(classes), stages: owned(stages), table }
    }

    /// Names of the classes.
    #[must_use]
    pub fn classes(&self) -> &[String] {
        &self.classes
    }

    /// Names of the stages.
    #[must_use]
    pub fn stages(&self) -> &[String] {
        &self.stages
    }

    /// Records that a request of `class` waited `span` at `stage`.
    ///
    /// # Panics
    /// If either index is out of range.
    #[inline]
    pub fn record(&mut self, class: usize, stage: usize, span: Span) {
        let index = self.index(class, stage);
        self.table[index].record(span);
    }

    /// Histogram of one class at one stage.
    ///
    /// # Panics
    /// If either index is out of range.
    #[must_use]
    pub fn get(&self, class: usize, stage: usize) -> &Histogram {
        &self.table[self.index(class, stage)]
    }

    /// All histograms with their names: `(class, stage, histogram)`.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str, &Histogram)> {
        let pairs = self.classes.iter().flat_map(|class| self.stages.iter().map(move |stage| (class, stage)));
        pairs.zip(&self.table).map(|((class, stage), histogram)| (class.as_str(), stage.as_str(), histogram))
    }

    /// Adds the records of `other`.
    ///
    /// # Panics
    /// If its classes or stages differ.
    pub fn merge(&mut self, other: &Self) {
        assert_eq!(
            (&self.classes, &self.stages),
            (&other.classes, &other.stages),
            "classes or stages differ"
        );
        self.table.iter_mut().zip(&other.table).for_each(|(own, added)| own.merge(added));
    }

    /// Removes all records.
    pub fn clear(&mut self) {
        self.table.iter_mut().for_each(Histogram::clear);
    }

    fn index(&self, class: usize, stage: usize) -> usize {
        assert!(stage < self.stages.len(), "stage {stage} is outside 0..{}", self.stages.len());
        class * self.stages.len() + stage
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(spans_ns: impl IntoIterator<Item = u64>) -> Histogram {
        let mut histogram = Histogram::new();
        spans_ns.into_iter().for_each(|ns| histogram.record(Span::from_nanos(ns)));
        histogram
    }

    //~ queueing: histograms keep three digits, merge exactly, and count values out of range separately
    #[test]
    fn quantiles_are_right_to_three_digits() {
        let uniform = of((1..=100_000).map(|n| n * 37));
        for q in [0.01, 0.5, 0.99, 0.999, 1.0] {
            let (exact, shown) = (q * 3_700_000.0, uniform.quantile(q).as_nanos() as f64);
            assert!((shown - exact).abs() <= exact / 1000.0 + 37.0, "{q}: {shown} for {exact}");
        }
        assert_eq!(uniform.max(), Span::from_nanos(3_700_000));
        assert_eq!(uniform.mean(), Span::from_nanos(37 * 100_001 / 2));
    }

    #[test]
    fn an_empty_histogram_is_all_zeros() {
        let empty = Histogram::new();
        assert_eq!((empty.quantile(0.99), empty.mean(), empty.max()), (Span::ZERO, Span::ZERO, Span::ZERO));
        assert_eq!(empty.cdf().count(), 0);
    }

    //~ queueing: histograms keep three digits, merge exactly, and count values out of range separately
    #[test]
    fn spans_beyond_the_longest_are_counted_separately() {
        let long = of([0, 1, 61_000_000_000]);
        assert_eq!((long.count(), long.saturated()), (3, 1));
        assert_eq!(long.max(), Span::from_secs(61));
        assert!(long.quantile(1.0) >= Span::from_secs(60));
    }

    //~ queueing: histograms keep three digits, merge exactly, and count values out of range separately
    #[test]
    fn merging_equals_recording_everything_in_one() {
        let (odd, even) = ((0..9_000).map(|n| n * 2 + 1), (0..9_000).map(|n| n * 200));
        let mut merged = of(odd.clone());
        merged.merge(&of(even.clone()));
        let all = of(odd.chain(even));
        assert!(merged.cdf().eq(all.cdf()));
        assert_eq!((merged.max(), merged.mean(), merged.count()), (all.max(), all.mean(), all.count()));
    }

    #[test]
    fn recorded_counts_rebuild_the_histogram() {
        let all = of((1..5_000).map(|n| n * n));
        let mut again = Histogram::new();
        all.counts().for_each(|(span, times)| again.record_n(span, times));
        assert!(again.cdf().eq(all.cdf()));
        again.clear();
        assert_eq!((again.count(), again.counts().count()), (0, 0));
    }

    #[test]
    fn a_fine_histogram_merges_into_a_coarse_one() {
        let (mut coarse, fine) = (Histogram::coarse(), of((1..=10_000).map(|n| n * 100)));
        coarse.merge(&fine);
        assert_eq!((coarse.count(), coarse.max()), (10_000, Span::from_millis(1)));
        let p99 = coarse.quantile(0.99).as_nanos() as f64;
        assert!((p99 - 990_000.0).abs() < 9_900.0, "{p99}");
    }

    #[test]
    fn the_cdf_ascends_to_one() {
        let histogram = of((0..1_000).map(|n| n * n));
        let points: Vec<_> = histogram.cdf().collect();
        assert!(points.windows(2).all(|pair| pair[0].0 < pair[1].0 && pair[0].1 < pair[1].1));
        assert_eq!(points.last(), Some(&(Span::from_nanos(998_001), 1.0)));
    }

    //~ queueing: histograms keep three digits, merge exactly, and count values out of range separately
    #[test]
    fn a_table_keeps_classes_and_stages_apart() {
        let mut table = StageHistograms::new(&["urgent", "other"], &["nic", "tcp", "service"]);
        table.record(1, 2, Span::from_micros(3));
        let mut sum = table.clone();
        sum.merge(&table);
        let counts: Vec<_> = sum.iter().map(|(class, stage, h)| (class, stage, h.count())).collect();
        assert_eq!(counts[5], ("other", "service", 2));
        assert!(counts[..5].iter().all(|&(_, _, count)| count == 0));
    }
}
