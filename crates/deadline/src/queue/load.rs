//! Overload measured by the queue itself: the share of requests that were lost recently.
//!
//! A request that expires is lost; one that is served is lost by the probability that it will be
//! late. Shares are over the last one to two seconds. Without losses the floor is zero, and the
//! queue drops only expired requests.
//!
//! Losses are also counted by [`BudgetClass`]. A sender chooses its budget, and a shorter one is
//! served earlier: a class that loses less than others of its size is *favoured*, and waits for them.

use std::collections::BTreeMap;

use queueing::{Span, Time};

use crate::forecast::ONE;

/// Losses of the last seconds.
#[derive(Clone, Debug, Default)]
pub(super) struct LossMeter {
    opened: Time,
    previous: Window,
    current: Window,
}

/// Requests whose expected service times are in one octave, and whose budgets are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct BudgetClass {
    size: u8,
    /// Octave of the time left at enqueue; [`ALL`] for all of the size.
    budget: u8,
}

impl BudgetClass {
    /// Class of a request that is expected to take `mean` and has `left` until its deadline.
    pub(super) fn of(mean: Span, left: Span) -> Self {
        Self { size: octave(mean), budget: octave(left) }
    }

    /// True if requests of this class have a longer budget than those of `other`, for the same size.
    pub(super) fn is_longer_than(self, other: Self) -> bool {
        self.size == other.size && self.budget > other.budget
    }

    fn all_of_its_size(self) -> Self {
        Self { budget: ALL, ..self }
    }
}

#[derive(Clone, Debug, Default)]
struct Window {
    all: Losses,
    classes: BTreeMap<BudgetClass, Losses>,
}

/// Sums of probabilities, in units of 2⁻¹⁶.
#[derive(Clone, Copy, Debug, Default)]
struct Losses {
    lost: u64,
    of: u64,
}

impl Losses {
    fn record(&mut self, lost: u64, of: u64) {
        self.lost += lost;
        self.of += of;
    }

    fn plus(self, other: Self) -> Self {
        Self { lost: self.lost + other.lost, of: self.of + other.of }
    }

    /// Share lost, in units of 2⁻¹⁶.
    fn share(self) -> u64 {
        (self.lost * ONE).checked_div(self.of).unwrap_or(0)
    }
}

impl LossMeter {
    /// Records a request that leaves at `now`, in time with `probability`.
    pub(super) fn record(&mut self, now: Time, probability: u64) {
        let age = now.since(self.opened);
        if age >= WINDOW {
            let current = std::mem::take(&mut self.current);
            self.previous = if age < WINDOW * 2 { current } else { Window::default() };
            self.opened = now;
        }
        self.current.all.record(ONE - probability, ONE);
    }

    /// Records the class of a request that leaves, in time with `probability`; at enqueue it would
    /// have been with `at_enqueue`.
    pub(super) fn record_class(&mut self, class: BudgetClass, at_enqueue: u64, probability: u64) {
        for class in [class, class.all_of_its_size()] {
            let losses = self.current.classes.entry(class).or_default();
            losses.record(at_enqueue.saturating_sub(probability), at_enqueue);
        }
    }

    /// Least probability with which a request is served before others: zero without losses,
    /// [`FLOOR_MAX`] when a tenth or more of all requests are lost.
    pub(super) fn floor(&self) -> u64 {
        let Losses { lost, of } = self.previous.all.plus(self.current.all);
        (lost * LOSS_FACTOR / (of / ONE + SAMPLES_PRIOR)).min(ONE) * FLOOR_MAX / ONE
    }

    /// True if requests of `class`, one more of which is served now that would have been in time with
    /// `at_enqueue`, lose less than all of their size, which lose more than one in fifty.
    pub(super) fn is_favoured(&self, class: BudgetClass, at_enqueue: u64) -> bool {
        let all = self.losses(class.all_of_its_size()).share();
        all > ONE / LOSS_IGNORED && self.losses(class).plus(Losses { lost: 0, of: at_enqueue }).share() < all
    }

    fn losses(&self, class: BudgetClass) -> Losses {
        let of = |window: &Window| window.classes.get(&class).copied().unwrap_or_default();
        of(&self.previous).plus(of(&self.current))
    }
}

/// Number of binary digits of `span` in ns.
fn octave(span: Span) -> u8 {
    (u64::BITS - span.as_nanos().leading_zeros()) as u8
}

/// In place of an octave, which is at least 1 for requests with time left.
const ALL: u8 = 0;
/// Duration of a window.
const WINDOW: Span = Span::from_secs(1);
/// Inverse of the share of losses at which the floor is highest.
const LOSS_FACTOR: u64 = 10;
/// Inverse of the share of losses up to which no class is favoured.
const LOSS_IGNORED: u64 = 50;
/// Highest floor: 0.8 of the probability at enqueue.
const FLOOR_MAX: u64 = ONE * 4 / 5;
/// Requests without loss that are imagined before the first.
const SAMPLES_PRIOR: u64 = 8;
