//! How long each of many kinds of work takes, smoothed.
//!
//! A number per kind, where [`History`](crate::History) keeps quantiles: for
//! kinds that are many and each of which takes about the same every time, as
//! a query does at one partition of an index. New kinds are expected to take
//! what all kinds take on average; kinds beyond the bound stay new.
//! Source: Jacobson 1988 §A (the smoothed mean of TCP's timer).

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
    /// Tells at most `kinds_max` kinds apart.
    #[must_use]
    pub fn new(kinds_max: usize) -> Self {
        Self { kinds: BTreeMap::new(), overall: None, kinds_max }
    }

    /// A piece of work of `kind` took `service`.
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

    /// What work of `kind` is expected to take; zero while nothing is known.
    #[must_use]
    pub fn expected(&self, kind: &K) -> Span {
        self.kinds.get(kind).copied().or(self.overall).unwrap_or(Span::ZERO)
    }
}

/// `before` moved one part in `gain` towards `sample`.
fn smooth(before: Span, sample: Span, gain: u64) -> Span {
    before - before / gain + sample / gain
}

/// One over the weight of a new sample of a kind…
const GAIN: u64 = 8;
/// … and among all kinds, which differ.
const GAIN_OVERALL: u64 = 256;
