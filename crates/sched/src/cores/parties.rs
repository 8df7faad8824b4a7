//! Parties: partitions adjusted by tail latency, one physical core per 500 ms.
//!
//! A task whose tail exceeds its target gets one physical core: from BE, else from
//! the LC task with the largest margin. If every tail is well below its target, the
//! task with the largest margin releases one to BE; if that breaks its target, it
//! gets the core back and keeps it for a while. One step per period, so that its
//! effect can be measured. Caches are not partitioned.
//! Source: Parties (ASPLOS '19) as Caladan (OSDI '20) §7 rebuilds it: hyperthreads
//! on, a task paired with itself. The margin for a release is an addition.

use queueing::{Span, Time};

use super::partition::divide;
use super::{CoreAssignment, Guarantees, Policy, Settings, Signals, TaskId};

/// Policy by tail latency.
#[derive(Clone, Debug)]
pub struct Parties {
    period: Span,
    slack: f64,
    backoff: u32,
    shares: Vec<u16>,
    /// Periods for which each task releases nothing.
    backoff_left: Vec<u32>,
    /// Task that released a core in the last period.
    released_by: Option<TaskId>,
    rounds: usize,
}

impl Parties {
    /// Policy for the tasks of `assignment`. Each LC task starts with the larger of its
    /// guarantee and an equal share in whole physical cores, if that fits.
    #[must_use]
    pub fn new(settings: &Settings, assignment: &CoreAssignment) -> Self {
        let (tasks, lanes) = (assignment.tasks(), assignment.topology().lanes(0).len() as u16);
        let equal = assignment.topology().cores() / tasks.len();
        let mut left = assignment.topology().cores()
            - tasks.iter().map(|task| usize::from(task.guaranteed)).sum::<usize>();
        let shares = tasks.iter().map(|task| {
            let more = equal.saturating_sub(task.guaranteed.into()).min(left).min(task.burstable.into());
            let full_cores = (task.guaranteed + more as u16) / lanes * lanes;
            let share = if task.is_critical() { full_cores.max(task.guaranteed) } else { task.guaranteed };
            left -= usize::from(share - task.guaranteed);
            share
        });
        Self {
            period: settings.period_parties,
            slack: settings.slack,
            backoff: settings.backoff,
            shares: shares.collect(),
            backoff_left: vec![0; tasks.len()],
            released_by: None,
            rounds: 0,
        }
    }

    /// Margin of `task`'s tail below its target, as a share of it; negative above.
    fn margin(signals: &Signals, assignment: &CoreAssignment, task: TaskId) -> f64 {
        let tail = signals.task(task).tail.unwrap_or(Span::ZERO);
        1.0 - tail.as_secs_f64() / assignment.spec(task).tail_target.as_secs_f64().max(1e-9)
    }

    /// One step, if one is needed.
    fn step(&mut self, signals: &Signals, assignment: &CoreAssignment) {
        let lanes = assignment.topology().lanes(0).len() as u16;
        let margin = |task: &TaskId| Self::margin(signals, assignment, *task);
        let by_margin = |a: &TaskId, b: &TaskId| margin(a).total_cmp(&margin(b));
        let critical = || assignment.ids().filter(|&task| assignment.spec(task).is_critical());
        let (Some(worst), released_by) = (critical().min_by(by_margin), self.released_by.take()) else {
            return;
        };
        if margin(&worst) < 0.0 {
            if released_by == Some(worst) {
                self.backoff_left[worst.index()] = self.backoff;
            }
            let step =
                lanes.min(assignment.spec(worst).cores_max().saturating_sub(self.shares[worst.index()]));
            let rest =
                assignment.topology().cores() - self.shares.iter().map(|&s| usize::from(s)).sum::<usize>();
            let spare =
                |task: &TaskId| self.shares[task.index()] >= assignment.spec(*task).guaranteed + lanes;
            let donor = critical().filter(|task| *task != worst && spare(task)).max_by(by_margin);
            if rest > 0 {
                self.shares[worst.index()] += step.min(rest as u16);
            } else if let Some(donor) = donor.filter(|task| margin(task) > self.slack) {
                self.shares[donor.index()] -= step;
                self.shares[worst.index()] += step;
            }
            return;
        }
        if margin(&worst) < self.slack {
            return;
        }
        let can_release = |task: &TaskId| {
            let floor = assignment.spec(*task).guaranteed.max(1);
            self.backoff_left[task.index()] == 0 && self.shares[task.index()] >= floor + lanes
        };
        if let Some(donor) = critical().filter(can_release).max_by(by_margin) {
            self.shares[donor.index()] -= lanes;
            self.released_by = Some(donor);
        }
    }
}

impl Policy for Parties {
    fn period(&self) -> Span {
        self.period
    }

    fn round(&mut self, now: Time, signals: &Signals, assignment: &mut CoreAssignment) {
        if self.rounds > 0 {
            self.step(signals, assignment);
        }
        self.backoff_left.iter_mut().for_each(|left| *left = left.saturating_sub(1));
        divide(now, assignment, &self.shares, self.rounds);
        self.rounds += 1;
    }

    /// BE may have no core while LC's tails need them all.
    fn promise(&self) -> Guarantees {
        Guarantees { guarantees: true, starvation: None }
    }
}
