//! Confidence interval of a mean over several seeds: Student's t, 95 %.

/// Half the width of the 95 % confidence interval of the mean of the finite `values`; `None` for
/// fewer than two.
#[must_use]
pub fn interval(values: &[f64]) -> Option<f64> {
    let values: Vec<f64> = values.iter().copied().filter(|value| !value.is_nan()).collect();
    let n = values.len();
    if n < 2 {
        return None;
    }
    let mean = values.iter().sum::<f64>() / n as f64;
    let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (n - 1) as f64;
    Some(t_975((n - 1) as f64) * (variance / n as f64).sqrt())
}

/// Student's t at 0.975 for `freedom` degrees of freedom, at least 1; fractions are rounded down.
#[must_use]
pub fn t_975(freedom: f64) -> f64 {
    let floor = freedom.max(1.0).floor();
    T_975.get(floor as usize - 1).copied().unwrap_or(1.96 + 2.4 / floor)
}

/// Student's t at 0.975 for 1, 2, … degrees of freedom.
const T_975: [f64; 20] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
    2.120, 2.110, 2.101, 2.093, 2.086,
];

#[cfg(test)]
mod tests {
    use queueing::Rng;

    use super::interval;

    #[test]
    fn nineteen_of_twenty_intervals_hold_the_mean() {
        let mut rng = Rng::seeded(11);
        for n in [2, 5, 10, 21, 40] {
            let holds = |rng: &mut Rng| {
                let values: Vec<f64> = (0..n).map(|_| 3.0 + rng.normal()).collect();
                let mean = values.iter().sum::<f64>() / n as f64;
                (mean - 3.0).abs() <= interval(&values).expect("several values")
            };
            let share = (0..4_000).filter(|_| holds(&mut rng)).count() as f64 / 4_000.0;
            assert!((share - 0.95).abs() < 0.015, "{n} values: {share}");
        }
        assert_eq!(interval(&[1.0, f64::NAN]), None);
    }
}
