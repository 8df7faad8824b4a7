//! Significance test of the difference between two figures.
//!
//! If both runs used the same seeds: the 95 % interval of the mean difference of pairs. Otherwise
//! Welch's test, which allows unequal variances. It gives no result for single values. Source:
//! Welch, *Biometrika* 34 (1947); Student's t.

use crate::confidence::{interval, t_975};

/// Method of judging a difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Method {
    /// Paired differences of the same seed.
    Seed,
    /// Welch's test on both samples.
    Welch,
    /// None: a run has fewer than two repetitions.
    Nothing,
}

/// B compared with A.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Difference {
    /// B/A; none if A is 0.
    pub ratio: Option<f64>,
    /// Half the 95 % interval of B - A, over A.
    pub half: Option<f64>,
    /// Method.
    pub method: Method,
    /// True if the interval of B - A excludes 0; none without an interval.
    pub differs: Option<bool>,
}

/// A metric of one run: the value shown, and the values of its repetitions.
pub type RunSample<'a> = (f64, &'a [Option<f64>]);

/// Compares `b` with `a`; `is_paired` if the n-th repetitions used the same seed.
#[must_use]
pub fn difference((a, of_a): RunSample<'_>, (b, of_b): RunSample<'_>, is_paired: bool) -> Difference {
    let result = match is_paired && of_a.len() == of_b.len() {
        true => paired_interval(of_a, of_b).map(|result| (Method::Seed, result)),
        false => welch(of_a, of_b).map(|result| (Method::Welch, result)),
    };
    let over_a = |value: f64| (a != 0.0).then(|| value / a);
    let (method, half, differs) = match result {
        Some((method, (mean, half))) => (method, over_a(half).map(f64::abs), Some(mean.abs() > half)),
        None => (Method::Nothing, None, None),
    };
    Difference { ratio: over_a(b), half, method, differs }
}

/// Mean and half interval of the differences of pairs with two values.
fn paired_interval(a: &[Option<f64>], b: &[Option<f64>]) -> Option<(f64, f64)> {
    let pairs: Vec<f64> = a.iter().zip(b).filter_map(|(a, b)| Some((*b)? - (*a)?)).collect();
    let half = interval(&pairs)?;
    Some((mean(&pairs), half))
}

/// Difference of the means and its half interval, by Welch.
fn welch(a: &[Option<f64>], b: &[Option<f64>]) -> Option<(f64, f64)> {
    let [a, b] = [a, b].map(|all| all.iter().copied().flatten().collect::<Vec<f64>>());
    if a.len().min(b.len()) < 2 {
        return None;
    }
    // Squared standard error of each mean.
    let [of_a, of_b] = [&a, &b].map(|all| variance(all) / all.len() as f64);
    let freedom = |error: f64, all: &[f64]| error.powi(2) / (all.len() - 1) as f64;
    let denominator = freedom(of_a, &a) + freedom(of_b, &b);
    let half = match denominator > 0.0 {
        true => t_975((of_a + of_b).powi(2) / denominator) * (of_a + of_b).sqrt(),
        false => 0.0,
    };
    Some((mean(&b) - mean(&a), half))
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

fn variance(values: &[f64]) -> f64 {
    let mean = mean(values);
    values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (values.len() - 1) as f64
}

#[cfg(test)]
mod tests {
    use queueing::Rng;

    use super::*;

    fn some(values: &[f64]) -> Vec<Option<f64>> {
        values.iter().copied().map(Some).collect()
    }

    /// Share of false positives in 4,000 tries with a true difference of 0.
    fn false_alarms(is_paired: bool, spread_b: f64, n: [usize; 2]) -> f64 {
        let mut rng = Rng::seeded(5);
        let alarm = |rng: &mut Rng| {
            let common: Vec<f64> = (0..n[0].max(n[1])).map(|_| 10.0 * rng.normal()).collect();
            let common = |i: usize| if is_paired { common[i] } else { 0.0 };
            let a: Vec<_> = (0..n[0]).map(|i| Some(5.0 + common(i) + rng.normal())).collect();
            let b: Vec<_> = (0..n[1]).map(|i| Some(5.0 + common(i) + spread_b * rng.normal())).collect();
            difference((5.0, &a[..]), (5.0, &b[..]), is_paired).differs == Some(true)
        };
        (0..4_000).filter(|_| alarm(&mut rng)).count() as f64 / 4_000.0
    }

    #[test]
    fn one_difference_in_twenty_is_chance() {
        for (is_paired, spread_b, n) in
            [(true, 1.0, [5, 5]), (true, 3.0, [30, 30]), (false, 1.0, [5, 5]), (false, 4.0, [5, 20])]
        {
            let share = false_alarms(is_paired, spread_b, n);
            assert!((0.03..=0.062).contains(&share), "{is_paired} {spread_b} {n:?}: {share}");
        }
    }

    #[test]
    fn pairing_by_seed_finds_differences_that_the_spread_hides() {
        let a = some(&[1.0, 100.0, 30.0, 7.0]);
        let b = some(&[4.0, 103.1, 32.9, 10.0]);
        let [by_seed, by_welch] =
            [true, false].map(|is_paired| difference((34.5, &a[..]), (37.5, &b[..]), is_paired));
        assert_eq!((by_seed.method, by_seed.differs), (Method::Seed, Some(true)));
        assert_eq!((by_welch.method, by_welch.differs), (Method::Welch, Some(false)));
        assert_eq!(by_seed.ratio, Some(37.5 / 34.5));
    }

    #[test]
    fn equal_runs_do_not_differ_and_single_ones_say_nothing() {
        let [twos, threes] = [2.0, 3.0].map(|value| some(&[value; 3]));
        let (twos, threes) = ((2.0, &twos[..]), (3.0, &threes[..]));
        assert_eq!(difference(twos, twos, true).differs, Some(false));
        assert_eq!(difference(twos, twos, false).differs, Some(false));
        assert_eq!(difference(twos, threes, false).differs, Some(true));
        let single = difference((0.0, &[Some(0.0)]), (3.0, &[Some(3.0)]), true);
        assert_eq!(single, Difference { ratio: None, half: None, method: Method::Nothing, differs: None });
    }
}
