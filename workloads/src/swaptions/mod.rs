//! Price of a swaption, by simulation and by formula.
//!
//! The simulation moves a whole curve of forward rates through time, path by path (Heath, Jarrow,
//! Morton), and averages the option's payoff. One factor moves all rates alike, so that the price
//! has a closed form: an option on a coupon bond is a sum of options on its payments (Jamshidian),
//! each priced by Black's formula. The steps' drift excludes arbitrage *between steps*, so the two
//! agree for any step length. Source: Heath, Jarrow, Morton (Econometrica 1992); Jamshidian (J.
//! Finance 1989); Black (J. Financial Economics 1976). The workload: PARSEC's.

mod normal;
mod simulation;

pub use simulation::{MeanEstimate, Simulation};

use normal::below;

/// The right to enter a swap that pays `strike` and receives the rates at that time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Swaption {
    /// Length of a step, in years.
    pub step: f64,
    /// Steps until expiry, 1 or more.
    pub expiry: usize,
    /// Number of payments of the swap, 1 or more.
    pub payments: usize,
    /// Steps from one payment to the next, 1 or more.
    pub period: usize,
    /// The rate paid, per year.
    pub strike: f64,
    /// Forward rate of the first step, per year.
    pub rate: f64,
    /// Increase of forward rates from each step to the next.
    pub slope: f64,
    /// Standard deviation of every forward rate after a year.
    pub volatility: f64,
}

impl Default for Swaption {
    /// Five years into five, approximately at the money.
    fn default() -> Self {
        Self {
            step: 0.25,
            expiry: 20,
            payments: 10,
            period: 2,
            strike: 0.045,
            rate: 0.04,
            slope: 0.000_25,
            volatility: 0.012,
        }
    }
}

impl Swaption {
    /// Steps of the whole curve.
    #[must_use]
    pub const fn steps(&self) -> usize {
        self.expiry + self.payments * self.period
    }

    /// Today's forward rate of step `k`.
    #[must_use]
    pub fn forward(&self, k: usize) -> f64 {
        self.rate + self.slope * k as f64
    }

    /// Steps and amounts of the swap's payments: the rate, and 1 at the end.
    pub fn coupons(&self) -> impl Iterator<Item = (usize, f64)> + '_ {
        let rate = self.strike * self.period as f64 * self.step;
        (1..=self.payments).map(move |i| {
            let principal = if i == self.payments { 1.0 } else { 0.0 };
            (self.expiry + i * self.period, rate + principal)
        })
    }

    /// Value at step `from` of 1 paid at step `to`, by today's rates.
    fn bond(&self, from: usize, to: usize) -> f64 {
        (-self.step * (from..to).map(|k| self.forward(k)).sum::<f64>()).exp()
    }

    /// Today's price by formula.
    #[must_use]
    pub fn price(&self) -> f64 {
        // At expiry a payment at step p is worth forward · exp(−v²/2 − v·x), x normal; all of them
        // fall with x.
        let spread = |at: usize| {
            let years = (at - self.expiry) as f64 * self.step;
            self.volatility * years * (self.expiry as f64 * self.step).sqrt()
        };
        let payments: Vec<_> =
            self.coupons().map(|(at, pays)| (pays * self.bond(self.expiry, at), spread(at))).collect();
        let swap =
            |x: f64| payments.iter().map(|(worth, v)| worth * (-v * v / 2.0 - v * x).exp()).sum::<f64>();
        // The swap has a value beyond this x: bisection of −50..50.
        let (mut low, mut high) = (-50.0, 50.0);
        for _ in 0..100 {
            let middle = (low + high) / 2.0;
            if swap(middle) > 1.0 { low = middle } else { high = middle }
        }
        let pays: f64 = payments.iter().map(|(worth, v)| worth * below(-low - v)).sum();
        self.bond(0, self.expiry) * (below(-low) - pays)
    }
}

#[cfg(test)]
mod tests;
