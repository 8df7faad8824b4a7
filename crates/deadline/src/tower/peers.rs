//! C to every peer, learned from what they answer.
//!
//! An answer that carries a budget says how long the peer had the request:
//! what its stages grew by. The rest of the wait was network. Peers that
//! answer without one are not learned, and take nothing off.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use queueing::Span;

use crate::{Budget, NetworkDelay, Stage};

/// The network delay to each peer, by authority.
#[derive(Debug, Default)]
pub(super) struct Peers(Mutex<BTreeMap<String, NetworkDelay>>);

impl Peers {
    /// C to `authority`; zero when nothing is known.
    pub(super) fn one_way(&self, authority: &str) -> Span {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(authority).map_or(Span::ZERO, NetworkDelay::one_way)
    }

    /// `sent` came back from `authority` as `answered`, `waited` later.
    pub(super) fn record(&self, authority: &str, waited: Span, sent: &Budget, answered: &Budget) {
        let held = in_stages(answered) - in_stages(sent);
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(delay) = known.get_mut(authority) {
            delay.record(waited, held);
        } else if known.len() < PEERS_MAX {
            known.entry(authority.to_owned()).or_default().record(waited, held);
        }
    }
}

/// Time that was not network.
fn in_stages(budget: &Budget) -> Span {
    budget.stages().iter().map(|Stage { queue, service, .. }| *queue + *service).sum()
}

/// Peers beyond this many are not learned.
const PEERS_MAX: usize = 1024;
