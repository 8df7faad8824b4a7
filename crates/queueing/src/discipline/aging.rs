//! Aging: service of the oldest entry out of order.

use super::{PASSED_IN_A_ROW, StarvationBound};
use crate::{Span, Time};

/// Serves the oldest entry once it has waited for `age_max`, after
/// [`PASSED_IN_A_ROW`] pops in order.
#[derive(Clone, Debug)]
pub(super) struct Aging {
    /// Wait after which an entry is old; `Span::MAX` for never.
    age_max: Span,
    /// Consecutive pops in order.
    in_order: u8,
}

impl Aging {
    /// No aging.
    pub const NEVER: Self = Self::new(Span::MAX);

    pub const fn new(age_max: Span) -> Self {
        Self { age_max, in_order: PASSED_IN_A_ROW }
    }

    /// True if entries age.
    #[inline]
    pub fn ages(&self) -> bool {
        self.age_max < Span::MAX
    }

    /// True if the oldest entry, pushed at `pushed`, is to be served now.
    #[inline]
    pub fn is_due(&self, now: Time, pushed: Time) -> bool {
        self.in_order >= PASSED_IN_A_ROW && now.since(pushed) >= self.age_max
    }

    /// Records a pop. `for_age`: true if it served the oldest entry out of order.
    #[inline]
    pub fn on_pop(&mut self, for_age: bool) {
        self.in_order = if for_age { 0 } else { self.in_order.saturating_add(1) };
    }

    /// Bound in a queue of `capacity`. At most `capacity - 1` entries are older than
    /// an old one; each of these and the entry itself may be bypassed
    /// [`PASSED_IN_A_ROW`] times.
    pub fn starvation(&self, capacity: usize) -> StarvationBound {
        let entries = (u64::from(PASSED_IN_A_ROW) + 1) * capacity as u64 - 1;
        StarvationBound::Aged { span: self.age_max, entries }
    }
}
