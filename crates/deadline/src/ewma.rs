//! Smoothed service time per kind of work.
//!
//! One number per kind; [`History`](crate::History) keeps quantiles. Suits many kinds whose
//! service times vary little, such as one query at one partition of an index. A new kind gets
//! the average of all kinds, and so do kinds beyond the bound.
//! Source: Jacobson 1988 §A (smoothed mean of TCP's timer).

use std::collections::BTreeMap;

use queueing::Span;

/// Smoothed service times of kinds `K`.
#[derive(Clone, Debug)]
pub struct ServiceTimeEwma<K> {
    kinds: BTreeMap<K, Span>,
    overall: Option<Span>,
    kinds_max: usize,
}

impl<K: Ord> ServiceTimeEwma<K> {
    /// Estimator for at most `kinds_max` kinds.
    #[must_use]
    pub fn new(kinds_max: usize) -> Self {
        Self { kinds: BTreeMap::new(), overall: None, kinds_max }
    }

    /// Records that work of `kind` took `service`.
    pub fn record(&mut self, kind: K, service: Span) {
        self.overall = Some(self.overall.map_or(service, |overall| smooth(overall, service, GAIN_OVERALL)));
        let has_capacity = self.kinds.len() < self.kinds_max;
        match self.kinds.entry(kind) {
            std::collections::btree_map::Entry::Occupied(mut known) => {
                let size = smooth(*known.get(), service, GAIN);
                known.insert(size);
            }
            std::collections::btree_map::Entry::Vacant(new) if has_capacity => {
                new.insert(service);
            }
            std::collections::btree_map::Entry::Vacant(_) => {}
        }
    }

    /// Expected service time of `kind`; zero before the first sample.
    #[must_use]
    pub fn expected(&self, kind: &K) -> Span {
        self.kinds.get(kind).copied().or(self.overall).unwrap_or(Span::ZERO)
    }
}

/// `before` moved by one part in `gain` towards `sample`.
fn smooth(before: Span, sample: Span, gain: u64) -> Span {
    before - before / gain + sample / gain
}

/// Inverse of the weight of a new sample of one kind.
const GAIN: u64 = 8;
/// Inverse of the weight of a new sample in the average of all kinds, which differ.
const GAIN_OVERALL: u64 = 256;
