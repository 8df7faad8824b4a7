//! Static partition: cores divided once, in whole physical cores as far as possible.
//!
//! Every LC task keeps its guaranteed cores, busy or idle. BE tasks share the rest
//! equally, or in turn for a slice each if there are fewer cores than BE tasks.
//! Lanes of a physical core go to one task, the mildest pairing of a partition.
//! Source: the static allocation of Caladan (OSDI '20) §2.

use queueing::{Span, Time};

use super::{CoreAssignment, CoreState, Guarantees, Policy, Settings, Signals};

/// Reserves `shares` cores for each LC task, in order of their numbers, and divides
/// the rest among BE. `rotation` rotates the BE tasks if there are too few cores.
pub(super) fn divide(now: Time, assignment: &mut CoreAssignment, shares: &[u16], rotation: usize) {
    let best_effort: usize = assignment.tasks().iter().filter(|task| !task.is_critical()).count();
    let reserved: usize = shares.iter().map(|&share| usize::from(share)).sum();
    let rest = assignment.topology().cores().saturating_sub(reserved);
    let mut index = if rest < best_effort { rotation } else { 0 };
    let topology = assignment.topology();
    let by_lane =
        (0..topology.physical_cores()).flat_map(|physical| topology.lanes(physical).iter().copied());
    let mut cores = by_lane.collect::<Vec<_>>().into_iter();
    for task in assignment.ids() {
        let share = if assignment.spec(task).is_critical() {
            shares[task.index()].into()
        } else {
            let share = part(rest, best_effort, index % best_effort);
            index += 1;
            share.min(assignment.spec(task).cores_max().into())
        };
        for core in cores.by_ref().take(share) {
            assignment.set(now, core, CoreState::Reserved(task));
        }
    }
    cores.for_each(|core| assignment.set(now, core, CoreState::Free));
}

/// Part of `total` for the one at `index` of `among`.
fn part(total: usize, among: usize, index: usize) -> usize {
    total / among + usize::from(index < total % among)
}

/// Policy of fixed partitions.
#[derive(Clone, Debug)]
pub struct Static {
    slice: Span,
    shares: Vec<u16>,
    rotation: usize,
}

impl Static {
    /// Policy for the tasks of `assignment`.
    #[must_use]
    pub fn new(settings: &Settings, assignment: &CoreAssignment) -> Self {
        let shares = assignment.tasks().iter().map(|task| task.guaranteed).collect();
        Self { slice: settings.slice, shares, rotation: 0 }
    }
}

impl Policy for Static {
    fn period(&self) -> Span {
        self.slice
    }

    fn round(&mut self, now: Time, _signals: &Signals, assignment: &mut CoreAssignment) {
        divide(now, assignment, &self.shares, self.rotation);
        self.rotation += 1;
    }

    /// LC without a guarantee has no core.
    fn promise(&self) -> Guarantees {
        Guarantees { guarantees: true, starvation: None }
    }
}
