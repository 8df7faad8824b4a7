//! What half of those who came lately could spare.
//!
//! The wait that a policy looks at is counted from when a request came, so its
//! budget is too. The last [`BudgetMedian::KEPT`] of them are remembered: a glance
//! at who comes, not at every entry of a queue.

use queueing::Span;

/// Budgets of the requests that came last.
#[derive(Clone, Debug)]
pub struct BudgetMedian {
    /// The longest span stands for none.
    last: [Span; Self::KEPT],
    came: usize,
}

impl Default for BudgetMedian {
    fn default() -> Self {
        Self { last: [Span::MAX; Self::KEPT], came: 0 }
    }
}

impl BudgetMedian {
    /// Requests that are remembered.
    pub const KEPT: usize = 63;

    /// One came that has `budget` left, if it says.
    pub fn came(&mut self, budget: Option<Span>) {
        self.last[self.came % Self::KEPT] = budget.unwrap_or(Span::MAX);
        self.came = self.came.wrapping_add(1);
    }

    /// The median; nothing where half of them did not say, or nobody came.
    #[must_use]
    pub fn median(&self) -> Option<Span> {
        let mut sorted = self.last;
        let sorted = &mut sorted[..self.came.min(Self::KEPT)];
        sorted.sort_unstable();
        sorted.get(sorted.len() / 2).copied().filter(|&budget| budget < Span::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_of_the_last_and_who_says_nothing_can_wait() {
        let mut budgets = BudgetMedian::default();
        assert_eq!(budgets.median(), None);
        let ms = Span::from_millis;
        [Some(ms(3)), None, Some(ms(9))].into_iter().for_each(|budget| budgets.came(budget));
        assert_eq!(budgets.median(), Some(ms(9)));
        budgets.came(None);
        assert_eq!(budgets.median(), None, "half of them said nothing");
        (0..BudgetMedian::KEPT as u64).for_each(|n| budgets.came(Some(ms(n))));
        assert_eq!(budgets.median(), Some(ms(31)));
    }
}
