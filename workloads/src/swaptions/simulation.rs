//! Paths of a curve of forward rates.
//!
//! Each path is a matrix of its own that is filled step by step and dropped, as in PARSEC: memory
//! for a garbage collector to reclaim. The last paths may be kept, as live memory for it to scan.

use std::collections::VecDeque;

use queueing::Rng;

use super::Swaption;

/// Averages a swaption's payoff over paths.
#[derive(Debug)]
pub struct Simulation {
    swaption: Swaption,
    coupons: Vec<(usize, f64)>,
    rng: Rng,
    estimate: MeanEstimate,
    pub(super) kept: VecDeque<Vec<f64>>,
    keep: usize,
}

/// A mean, and its precision.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct MeanEstimate {
    /// Number of draws.
    pub count: u64,
    /// The mean.
    pub mean: f64,
    /// Sum of squared deviations from the mean.
    squares: f64,
}

/// Accepted standard errors between mean and truth: 6 in 100,000 correct means are further away.
const ERRORS: f64 = 4.0;

impl MeanEstimate {
    /// Adds a draw. Source: Welford (Technometrics 1962).
    pub fn add(&mut self, value: f64) {
        self.count += 1;
        let away = value - self.mean;
        self.mean += away / self.count as f64;
        self.squares += away * (value - self.mean);
    }

    /// The accepted distance between truth and mean.
    #[must_use]
    pub fn interval(&self) -> f64 {
        let count = self.count as f64;
        ERRORS * (self.squares / (count * (count - 1.0)).max(1.0)).sqrt()
    }

    /// True if `truth` is compatible with the draws.
    #[must_use]
    pub fn holds(&self, truth: f64) -> bool {
        (self.mean - truth).abs() <= self.interval()
    }
}

impl Simulation {
    /// Paths for `swaption`, the same for the same `seed`.
    #[must_use]
    pub fn new(swaption: Swaption, seed: u64) -> Self {
        let (estimate, kept) = (MeanEstimate::default(), VecDeque::new());
        Self {
            coupons: swaption.coupons().collect(),
            swaption,
            rng: Rng::seeded(seed),
            estimate,
            kept,
            keep: 0,
        }
    }

    /// Keeps the last paths that fit into `bytes`.
    #[must_use]
    pub fn keeping(mut self, bytes: usize) -> Self {
        self.keep = bytes / (self.len() * size_of::<f64>());
        self
    }

    /// Adds `count` paths.
    pub fn add(&mut self, count: u64) {
        for _ in 0..count {
            let (path, pays) = self.path();
            self.estimate.add(pays);
            if self.keep > 0 {
                self.kept.truncate(self.keep - 1);
                self.kept.push_front(path);
            }
        }
    }

    /// The price so far.
    #[must_use]
    pub const fn estimate(&self) -> MeanEstimate {
        self.estimate
    }

    /// Numbers in a path.
    const fn len(&self) -> usize {
        (self.swaption.expiry + 1) * self.swaption.steps()
    }

    /// A path, a row of forward rates for each step until expiry; and the swaption's payoff,
    /// discounted to today.
    fn path(&mut self) -> (Vec<f64>, f64) {
        let Swaption { step, expiry, volatility, .. } = self.swaption;
        let steps = self.swaption.steps();
        let mut path = vec![0.0; self.len()];
        for (k, rate) in path[..steps].iter_mut().enumerate() {
            *rate = self.swaption.forward(k);
        }
        // The expected value of discounted bonds is the same tomorrow as today.
        let drift = volatility * volatility * step * step / 2.0;
        let mut spot = 0.0;
        for (i, two) in (0..expiry).map(|i| (i, i * steps)) {
            let (before, after) = path[two..two + 2 * steps].split_at_mut(steps);
            spot += before[i];
            let shock = volatility * step.sqrt() * self.rng.normal();
            for (j, rate) in after.iter_mut().enumerate().skip(i + 1) {
                *rate = before[j] + drift * (2 * (j - i) - 1) as f64 + shock;
            }
        }
        let last = &path[expiry * steps..];
        let mut sum = 0.0;
        let mut swap = 1.0;
        let mut from = expiry;
        for &(at, pays) in &self.coupons {
            sum += last[from..at].iter().sum::<f64>();
            swap -= pays * (-step * sum).exp();
            from = at;
        }
        let pays = swap.max(0.0) * (-step * spot).exp();
        (path, pays)
    }
}
