//! Seeded random numbers.

use rand::{Rng as _, RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

/// Seeded generator of random numbers (ChaCha8): one seed gives the same
/// numbers on every machine and in every release.
///
/// ```
/// use queueing::Rng;
/// let (mut arrivals, mut services) = (Rng::seeded(7).fork(0), Rng::seeded(7).fork(1));
/// assert_ne!(arrivals.next_u64(), services.next_u64());
/// ```
#[derive(Clone, Debug)]
pub struct Rng(ChaCha8Rng);

impl Rng {
    /// Generator for `seed`.
    #[must_use]
    pub fn seeded(seed: u64) -> Self {
        Self(ChaCha8Rng::seed_from_u64(seed))
    }

    /// Independent generator for another component, so that its draws do not
    /// disturb these. Depends on the seed and `stream`, not on the draws so far.
    #[must_use]
    pub fn fork(&self, stream: u64) -> Self {
        let mut origin = self.0.clone();
        // The generator itself draws from stream 0.
        origin.set_stream(stream.wrapping_add(1));
        origin.set_word_pos(0);
        Self(ChaCha8Rng::from_rng(&mut origin))
    }

    /// Uniform number over the whole range.
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Uniform number in 0..1.
    #[inline]
    pub fn unit(&mut self) -> f64 {
        self.0.random()
    }

    /// Uniform number in 0..`n`.
    ///
    /// # Panics
    /// If `n` is zero.
    #[inline]
    pub fn below(&mut self, n: u64) -> u64 {
        self.0.random_range(0..n)
    }

    /// True with probability `p` (0 to 1).
    #[inline]
    pub fn chance(&mut self, p: f64) -> bool {
        self.unit() < p
    }

    /// Exponentially distributed number with mean 1.
    #[inline]
    pub fn exponential(&mut self) -> f64 {
        -(1.0 - self.unit()).ln()
    }

    /// Normally distributed number with mean 0 and standard deviation 1.
    /// Source: Box and Muller, 1958.
    #[inline]
    pub fn normal(&mut self) -> f64 {
        (2.0 * self.exponential()).sqrt() * (std::f64::consts::TAU * self.unit()).cos()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn first(mut rng: Rng) -> [u64; 4] {
        std::array::from_fn(|_| rng.next_u64())
    }

    //~ queueing: seeded Poisson, uniform and burst arrivals have the rate and variance of their distribution and replay
    #[test]
    fn a_seed_replays() {
        assert_eq!(first(Rng::seeded(1)), first(Rng::seeded(1)));
        assert_ne!(first(Rng::seeded(1)), first(Rng::seeded(2)));
    }

    #[test]
    fn forks_differ_and_do_not_depend_on_what_was_drawn() {
        let mut rng = Rng::seeded(1);
        let before = first(rng.fork(3));
        rng.next_u64();
        assert_eq!(first(rng.fork(3)), before);
        assert_ne!(first(rng.fork(4)), before);
        assert_ne!(first(rng.fork(3).fork(4)), first(rng.fork(4).fork(3)));
        assert_ne!(first(Rng::seeded(2).fork(3)), before);
    }
}
