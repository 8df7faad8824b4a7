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
    holding: Vec<u32>,
    /// Task that released a core in the last period.
    gave: Option<TaskId>,
    rounds: usize,
}

impl Parties {
    /// Policy for the tasks of `board`. Each LC task starts with the larger of its
    /// guarantee and an equal share in whole physical cores, if that fits.
    #[must_use]
    pub fn new(settings: &Settings, board: &CoreAssignment) -> Self {
        let (tasks, lanes) = (board.tasks(), board.topology().lanes(0).len() as u16);
        let equal = board.topology().cores() / tasks.len();
        let mut left =
            board.topology().cores() - tasks.iter().map(|task| usize::from(task.guaranteed)).sum::<usize>();
        let shares = tasks.iter().map(|task| {
            let more = equal.saturating_sub(task.guaranteed.into()).min(left).min(task.burstable.into());
            let whole = (task.guaranteed + more as u16) / lanes * lanes;
            let share = if task.is_critical() { whole.max(task.guaranteed) } else { task.guaranteed };
            left -= usize::from(share - task.guaranteed);
            share
        });
        Self {
            period: settings.period_parties,
            slack: settings.slack,
            backoff: settings.backoff,
            shares: shares.collect(),
            holding: vec![0; tasks.len()],
            gave: None,
            rounds: 0,
        }
    }

    /// Margin of `task`'s tail below its target, as a share of it; negative above.
    fn room(signals: &Signals, board: &CoreAssignment, task: TaskId) -> f64 {
        let tail = signals.task(task).tail.unwrap_or(Span::ZERO);
        1.0 - tail.as_secs_f64() / board.spec(task).tail_target.as_secs_f64().max(1e-9)
    }

    /// One step, if one is needed.
    fn step(&mut self, signals: &Signals, board: &CoreAssignment) {
        let lanes = board.topology().lanes(0).len() as u16;
        let room = |task: &TaskId| Self::room(signals, board, *task);
        let by_room = |a: &TaskId, b: &TaskId| room(a).total_cmp(&room(b));
        let critical = || board.ids().filter(|&task| board.spec(task).is_critical());
        let (Some(worst), gave) = (critical().min_by(by_room), self.gave.take()) else { return };
        if room(&worst) < 0.0 {
            if gave == Some(worst) {
                self.holding[worst.index()] = self.backoff;
            }
            let wants = lanes.min(board.spec(worst).cores_max().saturating_sub(self.shares[worst.index()]));
            let rest = board.topology().cores() - self.shares.iter().map(|&s| usize::from(s)).sum::<usize>();
            let spare = |task: &TaskId| self.shares[task.index()] >= board.spec(*task).guaranteed + lanes;
            let richest = critical().filter(|task| *task != worst && spare(task)).max_by(by_room);
            if rest > 0 {
                self.shares[worst.index()] += wants.min(rest as u16);
            } else if let Some(richest) = richest.filter(|task| room(task) > self.slack) {
                self.shares[richest.index()] -= wants;
                self.shares[worst.index()] += wants;
            }
            return;
        }
        if room(&worst) < self.slack {
            return;
        }
        let can_give = |task: &TaskId| {
            let floor = board.spec(*task).guaranteed.max(1);
            self.holding[task.index()] == 0 && self.shares[task.index()] >= floor + lanes
        };
        if let Some(giver) = critical().filter(can_give).max_by(by_room) {
            self.shares[giver.index()] -= lanes;
            self.gave = Some(giver);
        }
    }
}

impl Policy for Parties {
    fn period(&self) -> Span {
        self.period
    }

    fn round(&mut self, now: Time, signals: &Signals, board: &mut CoreAssignment) {
        if self.rounds > 0 {
            self.step(signals, board);
        }
        self.holding.iter_mut().for_each(|left| *left = left.saturating_sub(1));
        divide(now, board, &self.shares, self.rounds);
        self.rounds += 1;
    }

    /// BE may have no core while LC's tails need them all.
    fn promise(&self) -> Guarantees {
        Guarantees { guarantees: true, starvation: None }
    }
}
