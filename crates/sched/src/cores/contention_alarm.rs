//! Contention alarm: interference that core allocation cannot resolve (C8).
//!
//! Raised if an LC task waits too long and no core is left to take, or DRAM exceeds
//! its limit and BE runs nowhere, for a whole delay. For the cluster scheduler,
//! which can move tasks. Gaps of up to a quarter of the delay do not count. Cleared
//! after a whole delay without contention.
//! Source: Caladan (OSDI '20) §4.

use queueing::{Span, Time};

use super::{CoreAssignment, CoreState, Settings, Signals, TaskId};

/// Contention that cannot be resolved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contention {
    /// The task's queueing delay exceeds its THRESH_QD.
    Queue(TaskId),
    /// The socket's DRAM traffic exceeds THRESH_BW.
    Bandwidth(usize),
}

/// Change of an alarm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Contention lasted for the delay.
    Raised(Contention),
    /// Contention is over.
    Cleared(Contention),
}

/// Alarms for all LC tasks and sockets.
#[derive(Clone, Debug)]
pub struct ContentionAlarm {
    after: Span,
    bandwidth_max: f64,
    alarms: Vec<(Contention, State)>,
}

#[derive(Clone, Copy, Debug, Default)]
struct State {
    /// Start of the contention.
    since: Option<Time>,
    /// Last round with contention.
    last: Time,
    raised: bool,
}

impl ContentionAlarm {
    /// Alarms for the tasks and sockets of `assignment`, raised when contention lasts for `after`.
    #[must_use]
    pub fn new(after: Span, settings: &Settings, assignment: &CoreAssignment) -> Self {
        let tasks =
            assignment.ids().filter(|&task| assignment.spec(task).is_critical()).map(Contention::Queue);
        let sockets = (0..assignment.topology().sockets()).map(Contention::Bandwidth);
        let alarms = tasks.chain(sockets).map(|contention| (contention, State::default())).collect();
        Self { after, bandwidth_max: settings.bandwidth_max, alarms }
    }

    /// Sets the delay after which an alarm is raised.
    pub fn set_after(&mut self, after: Span) {
        self.after = after;
    }

    /// Appends the changes of this round to `changes`. Call once per round, after the policy.
    pub fn round(
        &mut self,
        now: Time,
        signals: &Signals,
        assignment: &CoreAssignment,
        changes: &mut Vec<Change>,
    ) {
        let (after, bandwidth_max) = (self.after, self.bandwidth_max);
        for (contention, state) in &mut self.alarms {
            let is_present = match *contention {
                Contention::Queue(task) => {
                    let seen = signals.task(task);
                    let is_left =
                        if seen.is_own_wait { !seen.is_overload } else { can_grow(assignment, task) };
                    seen.waits_long(assignment.spec(task)) && !is_left
                }
                Contention::Bandwidth(socket) => {
                    signals.bandwidth[socket].is_some_and(|used| used > bandwidth_max)
                        && !can_shrink(assignment, socket)
                }
            };
            if is_present {
                state.last = now;
                let since = *state.since.get_or_insert(now);
                if !state.raised && now.since(since) >= after {
                    state.raised = true;
                    changes.push(Change::Raised(*contention));
                }
                continue;
            }
            let absent = now.since(state.last);
            if state.raised && absent >= after {
                *state = State::default();
                changes.push(Change::Cleared(*contention));
            } else if !state.raised && absent > after / 4 {
                state.since = None;
            }
        }
    }

    /// Raised alarms.
    pub fn raised(&self) -> impl Iterator<Item = Contention> + '_ {
        self.alarms.iter().filter(|(_, state)| state.raised).map(|&(contention, _)| contention)
    }
}

/// True if a policy could still give `task` a core: a free one or BE's.
fn can_grow(assignment: &CoreAssignment, task: TaskId) -> bool {
    let is_left = |core| match assignment.state(core) {
        CoreState::Free => true,
        CoreState::Granted(holder) | CoreState::SiblingIdle(holder) => !assignment.spec(holder).is_critical(),
        CoreState::Reserved(_) | CoreState::Shared => false,
    };
    assignment.held(task) < assignment.spec(task).cores_max() && assignment.topology().all().any(is_left)
}

/// True if BE still runs on `socket` on a core that a policy could take.
fn can_shrink(assignment: &CoreAssignment, socket: usize) -> bool {
    let can_take = |&core| matches!(assignment.state(core), CoreState::Granted(holder) if !assignment.spec(holder).is_critical());
    assignment.topology().on_socket(socket).iter().any(can_take)
}
