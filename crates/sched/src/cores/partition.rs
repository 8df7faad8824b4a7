//! Static partition: cores divided once, in whole physical cores as far as possible.
//!
//! Every LC task keeps its guaranteed cores, busy or idle. BE tasks share the rest
//! equally, or in turn for a slice each if there are fewer cores than BE tasks.
//! Lanes of a physical core go to one task, the mildest pairing of a partition.
//! Source: the static allocation of Caladan (OSDI '20) §2.

use queueing::{Span, Time};

use super::{CoreAssignment, CoreState, Guarantees, Policy, Settings, Signals};

/// Reserves `shares` cores for each LC task, in order of their numbers, and divides
/// the rest among BE. `turn` rotates the BE tasks if there are too few cores.
pub(super) fn divide(now: Time, board: &mut CoreAssignment, shares: &[u16], turn: usize) {
    let best_effort: usize = board.tasks().iter().filter(|task| !task.is_critical()).count();
    let given: usize = shares.iter().map(|&share| usize::from(share)).sum();
    let rest = board.topology().cores().saturating_sub(given);
    let mut place = if rest < best_effort { turn } else { 0 };
    let topology = board.topology();
    let by_lane =
        (0..topology.physical_cores()).flat_map(|physical| topology.lanes(physical).iter().copied());
    let mut cores = by_lane.collect::<Vec<_>>().into_iter();
    for task in board.ids() {
        let share = if board.spec(task).is_critical() {
            shares[task.index()].into()
        } else {
            let share = part(rest, best_effort, place % best_effort);
            place += 1;
            share.min(board.spec(task).cores_max().into())
        };
        for core in cores.by_ref().take(share) {
            board.set(now, core, CoreState::Reserved(task));
        }
    }
    cores.for_each(|core| board.set(now, core, CoreState::Free));
}

/// Part of `whole` for the one at `place` of `among`.
fn part(whole: usize, among: usize, place: usize) -> usize {
    whole / among + usize::from(place < whole % among)
}

/// Policy of fixed partitions.
#[derive(Clone, Debug)]
pub struct Static {
    slice: Span,
    shares: Vec<u16>,
    turn: usize,
}

impl Static {
    /// Policy for the tasks of `board`.
    #[must_use]
    pub fn new(settings: &Settings, board: &CoreAssignment) -> Self {
        let shares = board.tasks().iter().map(|task| task.guaranteed).collect();
        Self { slice: settings.slice, shares, turn: 0 }
    }
}

impl Policy for Static {
    fn period(&self) -> Span {
        self.slice
    }

    fn round(&mut self, now: Time, _signals: &Signals, board: &mut CoreAssignment) {
        divide(now, board, &self.shares, self.turn);
        self.turn += 1;
    }

    /// LC without a guarantee has no core.
    fn promise(&self) -> Guarantees {
        Guarantees { guarantees: true, starvation: None }
    }
}
