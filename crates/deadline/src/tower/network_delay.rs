//! Network delay C to each peer, estimated from responses.
//!
//! A response with a budget shows how long the peer held the request: by how much its stages
//! grew. The rest of the round-trip time is network delay. Peers that send no budget have no
//! estimate. The first call to a peer is not a sample, since it includes connection setup. An
//! estimate must not block a peer forever: of the calls for which C alone uses up the budget,
//! one in 64 and one a second ([`ProbeInterval`]) is sent without subtracting it.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use queueing::{Span, Time};

use super::probe::ProbeInterval;
use crate::{Budget, NetworkDelay, StageTime};

/// The network delay to each peer, by authority.
#[derive(Debug, Default)]
pub(super) struct PeerDelays(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    delays: BTreeMap<String, NetworkDelay>,
    /// Calls for which C alone used up the budget.
    exhausted: ProbeInterval,
    /// Time of the last call.
    now: Time,
}

impl State {
    fn one_way(&self, authority: &str) -> Span {
        self.delays.get(authority).map_or(Span::ZERO, |delay| delay.one_way(self.now))
    }
}

impl PeerDelays {
    /// C to `authority` at the last call; zero if unknown.
    pub(super) fn one_way(&self, authority: &str) -> Span {
        self.state().one_way(authority)
    }

    /// Budget on arrival at `authority` of a call sent at `now`.
    pub(super) fn delayed(&self, now: Time, budget: Budget, authority: &str) -> Budget {
        let mut state = self.state();
        state.now = now;
        let delayed = budget.delayed(state.one_way(authority));
        if budget.remaining().is_missed() || !delayed.remaining().is_missed() {
            return delayed;
        }
        if state.exhausted.is_due(now) { budget } else { delayed }
    }

    /// Records at `now` that `sent` returned from `authority` as `returned`, `waited` later.
    pub(super) fn record(&self, now: Time, authority: &str, waited: Span, sent: &Budget, returned: &Budget) {
        let held = stage_time(returned) - stage_time(sent);
        let mut state = self.state();
        state.now = now;
        let delays = &mut state.delays;
        if let Some(delay) = delays.get_mut(authority) {
            delay.record(now, waited, held);
        } else if delays.len() < PEERS_MAX {
            delays.insert(authority.to_owned(), NetworkDelay::default());
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Queueing and service time of all stages.
fn stage_time(budget: &Budget) -> Span {
    budget.stages().iter().map(|StageTime { queue, service, .. }| *queue + *service).sum()
}

/// Maximum number of peers with an estimate.
const PEERS_MAX: usize = 1024;
