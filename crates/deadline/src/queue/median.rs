//! Median budget of recent requests.
//!
//! Delay and budget are both counted from arrival, so a policy can compare them. Keeps the
//! last [`BudgetMedian::WINDOW`] arrivals and does not scan the queue.

use queueing::Span;

/// Budgets of the most recent requests.
#[derive(Clone, Debug)]
pub struct BudgetMedian {
    /// `Span::MAX` means no budget.
    window: [Span; Self::WINDOW],
    recorded: usize,
}

impl Default for BudgetMedian {
    fn default() -> Self {
        Self { window: [Span::MAX; Self::WINDOW], recorded: 0 }
    }
}

impl BudgetMedian {
    /// Number of requests kept.
    pub const WINDOW: usize = 63;

    /// Records an arrival; `None` if the request has no budget.
    pub fn record(&mut self, budget: Option<Span>) {
        self.window[self.recorded % Self::WINDOW] = budget.unwrap_or(Span::MAX);
        self.recorded = self.recorded.wrapping_add(1);
    }

    /// Median; `None` before the first request, or if half of them have no budget.
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
    fn the_median_is_of_the_latest_and_a_request_without_a_budget_can_wait() {
        let mut median = BudgetMedian::default();
        assert_eq!(median.median(), None);
        let ms = Span::from_millis;
        [Some(ms(3)), None, Some(ms(9))].into_iter().for_each(|budget| median.record(budget));
        assert_eq!(median.median(), Some(ms(9)));
        median.record(None);
        assert_eq!(median.median(), None, "half have no budget");
        (0..BudgetMedian::WINDOW as u64).for_each(|n| median.record(Some(ms(n))));
        assert_eq!(median.median(), Some(ms(31)));
    }
}
