//! C to every peer, learned from what they answer.
//!
//! An answer that carries a budget says how long the peer had the request:
//! what its stages grew by. The rest of the wait was network. Peers that
//! answer without one are not learned, and take nothing off; nor is the first
//! exchange with a peer, which set up more than a message. An estimate must not
//! lock a peer out for good: where C alone leaves nothing, one call of so many
//! goes with nothing taken off.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use queueing::Span;

use crate::{Budget, NetworkDelay, Stage};

/// The network delay to each peer, by authority.
#[derive(Debug, Default)]
pub(super) struct Peers(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    peers: BTreeMap<String, NetworkDelay>,
    /// Calls for which C alone left nothing, since one was made all the same.
    hopeless: u32,
}

impl Known {
    fn one_way(&self, authority: &str) -> Span {
        self.peers.get(authority).map_or(Span::ZERO, NetworkDelay::one_way)
    }
}

impl Peers {
    /// C to `authority`; zero when nothing is known.
    pub(super) fn one_way(&self, authority: &str) -> Span {
        self.known().one_way(authority)
    }

    /// `budget` as it will arrive at `authority`.
    pub(super) fn delayed(&self, budget: Budget, authority: &str) -> Budget {
        let mut known = self.known();
        let delayed = budget.delayed(known.one_way(authority));
        if budget.remaining().is_missed() || !delayed.remaining().is_missed() {
            return delayed;
        }
        known.hopeless = (known.hopeless + 1) % TRY_EVERY;
        if known.hopeless == 0 { budget } else { delayed }
    }

    /// `sent` came back from `authority` as `answered`, `waited` later.
    pub(super) fn record(&self, authority: &str, waited: Span, sent: &Budget, answered: &Budget) {
        let held = in_stages(answered) - in_stages(sent);
        let peers = &mut self.known().peers;
        if let Some(delay) = peers.get_mut(authority) {
            delay.record(waited, held);
        } else if peers.len() < PEERS_MAX {
            peers.insert(authority.to_owned(), NetworkDelay::default());
        }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Time that was not network.
fn in_stages(budget: &Budget) -> Span {
    budget.stages().iter().map(|Stage { queue, service, .. }| *queue + *service).sum()
}

/// Of calls for which C leaves nothing one in so many is made all the same.
const TRY_EVERY: u32 = 64;

/// Peers beyond this many are not learned.
const PEERS_MAX: usize = 1024;
