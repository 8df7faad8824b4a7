//! What half of those who came lately could spare.
//!
//! The wait that a policy looks at is counted from when a request came, so its
//! budget is too. The last [`BudgetMedian::WINDOW`] of them are remembered: a glance
//! at who comes, not at every entry of a queue.

use queueing::Span;

/// Budgets of the requests that came last.
#[derive(Clone, Debug)]
pub struct BudgetMedian {
    /// The longest span stands for none.
    window: [Span; Self::WINDOW],
    recorded: usize,
}

impl Default for BudgetMedian {
    fn default() -> Self {
        Self { window: [Span::MAX; Self::WINDOW], recorded: 0 }
    }
}

impl BudgetMedian {
    /// Requests that are remembered.
    pub const WINDOW: usize = 63;

    /// One came that has `budget` left, if it says.
    pub fn record(&mut self, budget: Option<Span>) {
        self.window[self.recorded % Self::WINDOW] = budget.unwrap_or(Span::MAX);
        self.recorded = self.recorded.wrapping_add(1);
    }

    /// The median; nothing where half of them did not say, or nobody came.
    #[must_use]
    pub fn median(&self) -> Option<Span> {
        let mut sorted = self.window;
        let sorted = &mut sorted[..self.recorded.min(Self::WINDOW)];
        sorted.sort_unstable();
        sorted.get(sorted.len() / 2).copied().filter(|&budget| budget < Span::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_of_the_last_and_who_says_nothing_can_wait() {
        let mut median = BudgetMedian::default();
        assert_eq!(median.median(), None);
        let ms = Span::from_millis;
        [Some(ms(3)), None, Some(ms(9))].into_iter().for_each(|budget| median.record(budget));
        assert_eq!(median.median(), Some(ms(9)));
        median.record(None);
        assert_eq!(median.median(), None, "half of them said nothing");
        (0..BudgetMedian::WINDOW as u64).for_each(|n| median.record(Some(ms(n))));
        assert_eq!(median.median(), Some(ms(31)));
    }
}
