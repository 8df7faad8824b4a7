//! When the oldest goes first, whatever the order says.

use super::{PASSED_IN_A_ROW, StarvationBound};
use crate::{Span, Time};

/// Lets the oldest entry go first once it has waited for `age_max`, after
/// [`PASSED_IN_A_ROW`] pops in order.
#[derive(Clone, Debug)]
pub(super) struct Aging {
    /// How long an entry waits before it is old; `Span::MAX` for ever.
    age_max: Span,
    /// Pops in a row that did not go to the oldest for its age.
    in_order: u8,
}

impl Aging {
    /// An order in which nobody ages.
    pub const NEVER: Self = Self::new(Span::MAX);

    pub const fn new(age_max: Span) -> Self {
        Self { age_max, in_order: PASSED_IN_A_ROW }
    }

    /// Whether entries age at all.
    #[inline]
    pub fn ages(&self) -> bool {
        self.age_max < Span::MAX
    }

    /// Whether an entry that was pushed at `pushed` goes first, if it is the oldest.
    #[inline]
    pub fn is_due(&self, now: Time, pushed: Time) -> bool {
        self.in_order >= PASSED_IN_A_ROW && now.since(pushed) >= self.age_max
    }

    /// Takes note of a pop, which went to the oldest `for_age` or in order.
    #[inline]
    pub fn on_pop(&mut self, for_age: bool) {
        self.in_order = if for_age { 0 } else { self.in_order.saturating_add(1) };
    }

    /// In a queue of `capacity`: of those older than an old entry, at most
    /// `capacity - 1`, each may go first, and before each of them and before the
    /// entry those that pass over it.
    pub fn starvation(&self, capacity: usize) -> StarvationBound {
        let entries = (u64::from(PASSED_IN_A_ROW) + 1) * capacity as u64 - 1;
        StarvationBound::Aged { span: self.age_max, entries }
    }
}
