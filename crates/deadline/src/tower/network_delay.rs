//! C to every peer, learned from what they answer.
//!
//! An answer that carries a budget says how long the peer had the request:
//! what its stages grew by. The rest of the wait was network. PeerDelays that
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
pub(super) struct PeerDelays(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    delays: BTreeMap<String, NetworkDelay>,
    /// Calls for which C alone left nothing, since one was made all the same.
    exhausted: u32,
}

impl State {
    fn one_way(&self, authority: &str) -> Span {
        self.delays.get(authority).map_or(Span::ZERO, NetworkDelay::one_way)
    }
}

impl PeerDelays {
    /// C to `authority`; zero when nothing is state.
    pub(super) fn one_way(&self, authority: &str) -> Span {
        self.state().one_way(authority)
    }

    /// `budget` as it will arrive at `authority`.
    pub(super) fn delayed(&self, budget: Budget, authority: &str) -> Budget {
        let mut state = self.state();
        let delayed = budget.delayed(state.one_way(authority));
        if budget.remaining().is_missed() || !delayed.remaining().is_missed() {
            return delayed;
        }
        state.exhausted = (state.exhausted + 1) % PROBE_EVERY;
        if state.exhausted == 0 { budget } else { delayed }
    }

    /// `sent` came back from `authority` as `answered`, `waited` later.
    pub(super) fn record(&self, authority: &str, waited: Span, sent: &Budget, returned: &Budget) {
        let held = stage_time(returned) - stage_time(sent);
        let delays = &mut self.state().delays;
        if let Some(delay) = delays.get_mut(authority) {
            delay.record(waited, held);
        } else if delays.len() < PEERS_MAX {
            delays.insert(authority.to_owned(), NetworkDelay::default());
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Time that was not network.
fn stage_time(budget: &Budget) -> Span {
    budget.stages().iter().map(|Stage { queue, service, .. }| *queue + *service).sum()
}

/// Of calls for which C leaves nothing one in so many is made all the same.
const PROBE_EVERY: u32 = 64;

/// PeerDelays beyond this many are not learned.
const PEERS_MAX: usize = 1024;
