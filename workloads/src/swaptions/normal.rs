//! Cumulative distribution function of the normal distribution.

use std::f64::consts::TAU;

/// The probability that a standard normal variable is below `x`, to 15 digits. Source: Marsaglia
/// (J. Statistical Software 2004).
pub(super) fn below(x: f64) -> f64 {
    if x.abs() > 8.0 {
        return if x > 0.0 { 1.0 } else { 0.0 };
    }
    let (mut term, mut sum, mut n) = (x, x, 1.0);
    loop {
        n += 2.0;
        term *= x * x / n;
        let next = sum + term;
        if next == sum {
            return 0.5 + sum * (-x * x / 2.0).exp() / TAU.sqrt();
        }
        sum = next;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_match_the_published_tables() {
        for (x, share) in
            [(0.0, 0.5), (1.0, 0.841_344_746_068_543), (-1.96, 0.024_997_895_148_220), (9.0, 1.0)]
        {
            assert!((below(x) - share).abs() < 1e-14, "{x}: {} for {share}", below(x));
        }
    }
}
