//! Reallocation log: which cores changed state in a round, and for which signal.
//!
//! For observers. Policies give no reasons, so the reason is the signal of that
//! round that explains the change. Decides nothing. O(cores) per round.

use queueing::{CoreId, Span, Time};

use super::{Allocator, CoreAssignment, CoreState, Signals, TaskId};

/// Change of a core's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Move {
    /// Time of the round.
    pub at: Time,
    /// The core.
    pub core: CoreId,
    /// State before.
    pub from: CoreState,
    /// State after.
    pub to: CoreState,
    /// Reason.
    pub why: ReallocationReason,
}

/// Signal that explains a reallocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReallocationReason {
    /// The task yielded the core.
    Yielded(TaskId),
    /// The task's queueing delay exceeded its limit.
    Waited {
        /// The task.
        task: TaskId,
        /// Queueing delay.
        delay: Span,
    },
    /// A request of the task was late.
    DeadlinePressure(TaskId),
    /// The LC task had work and less than its guarantee.
    BelowGuarantee(TaskId),
    /// The LC task had work for another core.
    Work(TaskId),
    /// A long request of the task runs on a sibling.
    Quiet(TaskId),
    /// The socket's DRAM traffic exceeded the limit.
    Bandwidth(usize),
    /// No LC task needed the core.
    Unclaimed,
    /// Initial assignment, or a core left to the kernel.
    Initial,
}

/// Detects changes of an assignment.
#[derive(Clone, Debug)]
pub struct ReallocationLog {
    states: Vec<CoreState>,
    bandwidth_max: f64,
}

impl ReallocationLog {
    /// Log that starts at the current state of `assignment`. `bandwidth_max` is the DRAM
    /// traffic of a socket above which BE loses cores, in bytes per second.
    #[must_use]
    pub fn new(assignment: &CoreAssignment, bandwidth_max: f64) -> Self {
        Self {
            states: assignment.topology().all().map(|core| assignment.state(core)).collect(),
            bandwidth_max,
        }
    }

    /// Appends the changes of this round to `moves`. Call once per round, after the policy.
    pub fn round(&mut self, at: Time, allocator: &Allocator, moves: &mut Vec<Move>) {
        let (assignment, signals) = (allocator.assignment(), allocator.signals());
        for (core, before) in assignment.topology().all().zip(&mut self.states) {
            let to = assignment.state(core);
            let from = std::mem::replace(before, to);
            if from != to {
                let why = reason(assignment, signals, self.bandwidth_max, core, (from, to));
                moves.push(Move { at, core, from, to, why });
            }
        }
    }
}

fn reason(
    assignment: &CoreAssignment,
    signals: &Signals,
    bandwidth_max: f64,
    core: CoreId,
    (from, to): (CoreState, CoreState),
) -> ReallocationReason {
    let socket = assignment.topology().socket(core);
    let is_over = || signals.bandwidth[socket].is_some_and(|used| used > bandwidth_max);
    let yielded = signals.cores[usize::from(core.0)].yielded.filter(|&task| from == CoreState::Granted(task));
    match (to, yielded) {
        (CoreState::SiblingIdle(task), _) => ReallocationReason::Quiet(task),
        (CoreState::Granted(task) | CoreState::Reserved(task), _) if assignment.spec(task).is_critical() => {
            let task_signals = signals.task(task);
            if task_signals.late {
                ReallocationReason::DeadlinePressure(task)
            } else if task_signals.delay > assignment.spec(task).delay_max {
                ReallocationReason::Waited { task, delay: task_signals.delay }
            } else if assignment.running(task) <= assignment.spec(task).guaranteed {
                ReallocationReason::BelowGuarantee(task)
            } else {
                ReallocationReason::Work(task)
            }
        }
        (_, Some(task)) => ReallocationReason::Yielded(task),
        (CoreState::Granted(_) | CoreState::Reserved(_), None) => ReallocationReason::Unclaimed,
        (CoreState::Free, None) if is_over() => ReallocationReason::Bandwidth(socket),
        (CoreState::Free | CoreState::Shared, None) => ReallocationReason::Initial,
    }
}

//~ views: core moves are shown with origin, destination and signals
#[cfg(test)]
mod tests {
    use super::super::{Action, Cores, Settings, TaskSpec, Topology, by_name};
    use super::*;

    /// Cores that report given signals.
    struct FixedSignals(Signals);

    impl Cores for FixedSignals {
        fn sense(&mut self, _: Time, signals: &mut Signals) {
            signals.clone_from(&self.0);
        }

        fn act(&mut self, _: Time, _: &[Action]) {}
    }

    #[test]
    fn a_preemption_logs_the_previous_task_and_the_delay_of_the_next() {
        let topology = Topology::regular(1, 2, 1).expect("two cores");
        let tasks = vec![TaskSpec::critical(1), TaskSpec::best_effort()];
        let assignment = CoreAssignment::new(topology, tasks).expect("a valid assignment");
        let policy = by_name("caladan", &Settings::default(), &assignment).expect("a policy");
        let mut log = ReallocationLog::new(&assignment, f64::MAX);
        let (mut allocator, mut moves) = (Allocator::new(policy, assignment.clone()), Vec::new());
        let mut cores = FixedSignals(Signals::of(&assignment));
        cores.0.tasks[1].runnable = 4;
        allocator.round(Time::ZERO, &mut cores);
        log.round(Time::ZERO, &allocator, &mut moves);
        let be = CoreState::Granted(TaskId(1));
        assert!(
            moves
                .iter()
                .all(|m| (m.from, m.to, m.why) == (CoreState::Free, be, ReallocationReason::Unclaimed)),
            "{moves:?}"
        );
        assert_eq!(moves.len(), 2);
        moves.clear();
        let (at, delay) = (Time::from_nanos(10_000), Span::from_micros(11));
        (cores.0.tasks[0].runnable, cores.0.tasks[0].delay) = (1, delay);
        allocator.round(at, &mut cores);
        log.round(at, &allocator, &mut moves);
        let [reallocation] = moves[..] else { panic!("one core moves: {moves:?}") };
        assert_eq!((reallocation.from, reallocation.to), (be, CoreState::Granted(TaskId(0))));
        assert_eq!(reallocation.why, ReallocationReason::Waited { task: TaskId(0), delay });
        moves.clear();
        log.round(at, &allocator, &mut moves);
        assert!(moves.is_empty(), "nothing has changed since");
        let later = Time::from_nanos(50_000);
        cores.0.tasks[0].late = true;
        allocator.round(later, &mut cores);
        log.round(later, &allocator, &mut moves);
        let [reallocation] = moves[..] else { panic!("one core moves: {moves:?}") };
        assert_eq!(
            (reallocation.from, reallocation.why),
            (be, ReallocationReason::DeadlinePressure(TaskId(0)))
        );
    }
}
