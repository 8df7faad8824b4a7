//! MRG32k3a, ns-2's random number generator, to reproduce its flows.
//!
//! Source: L'Ecuyer, Operations Research 47 (1999), combined multiple
//! recursive generators.

const M1: u64 = 4_294_967_087;
const M2: u64 = 4_294_944_443;

/// Generator of numbers in 0..1.
#[derive(Clone, Debug)]
pub(super) struct Mrg32k3a {
    first: [u64; 3],
    second: [u64; 3],
}

impl Mrg32k3a {
    /// Sets all six words of the state to `seed`, which is not 0.
    pub fn seeded(seed: u32) -> Self {
        Self { first: [u64::from(seed) % M1; 3], second: [u64::from(seed) % M2; 3] }
    }

    /// Next number, strictly between 0 and 1.
    pub fn unit(&mut self) -> f64 {
        let [a0, a1, a2] = self.first;
        let [b0, b1, b2] = self.second;
        let a = (1_403_580 * a1 + M1 * 810_728 - 810_728 * a0) % M1;
        let b = (527_612 * b2 + M2 * 1_370_589 - 1_370_589 * b0) % M2;
        (self.first, self.second) = ([a1, a2, a], [b1, b2, b]);
        (if a > b { a - b } else { a + M1 - b }) as f64 / (M1 + 1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check sum published by the author: ten million numbers from the state of all 12345.
    #[test]
    fn the_published_check_sum_is_reproduced() {
        let mut generator = Mrg32k3a::seeded(12_345);
        let sum: f64 = (0..10_000_000).map(|_| generator.unit()).sum();
        assert!((sum - 5_001_090.95).abs() < 0.01, "{sum}");
    }
}
