//! Fake cores: act at once, with a decision to make in every round.
//!
//! For benchmarks of a round: eight tasks, four LC on half of the cores and four BE
//! on the rest; in every round one core is yielded and one queue has grown. Not a
//! model of a machine: `sim::cores` is.

use queueing::{CoreId, Span, Time};

use super::{
    Action, Allocator, CoreAssignment, Cores, PolicyEntry, Settings, Signals, TaskId, TaskSignals, TaskSpec,
    Topology,
};

/// Number of tasks.
pub const TASKS: usize = 8;

/// Cores with the task on each, and the round.
#[derive(Clone, Debug)]
pub struct FakeCores {
    held: Vec<Option<TaskId>>,
    round: usize,
}

impl FakeCores {
    /// Machine of `cores` (even, at least 2) with two lanes per physical core and 64
    /// cores per socket, and an allocator with `entry`'s policy.
    ///
    /// # Panics
    /// If `cores` is less than 2.
    #[must_use]
    pub fn new(cores: usize, entry: &PolicyEntry) -> (Self, Allocator) {
        let critical = TaskSpec {
            request_max: Some(Span::from_micros(40)),
            ..TaskSpec::critical((cores / TASKS / 2) as u16)
        };
        let tasks = [vec![critical; TASKS / 2], vec![TaskSpec::best_effort(); TASKS / 2]].concat();
        let sockets = cores.div_ceil(64);
        let topology = Topology::regular(sockets, cores / 2 / sockets, 2).expect("at least two cores");
        let assignment = CoreAssignment::new(topology, tasks).expect("a quarter of the cores is guaranteed");
        let fake = Self { held: vec![None; assignment.topology().cores()], round: 0 };
        let policy =
            (entry.new)(&Settings::default(), &assignment).expect("the policy supports any assignment");
        (fake, Allocator::new(policy, assignment))
    }
}

impl Cores for FakeCores {
    fn sense(&mut self, now: Time, signals: &mut Signals) {
        self.round += 1;
        for (n, task) in signals.tasks.iter_mut().enumerate() {
            let delay = Span::from_micros(if n == self.round % TASKS { 12 } else { 2 });
            *task =
                TaskSignals { delay, runnable: if n < TASKS / 2 { 2 } else { 64 }, ..TaskSignals::default() };
        }
        let yields = self.round * 7 % self.held.len();
        for (n, core) in signals.cores.iter_mut().enumerate() {
            core.yielded = if n == yields { self.held[n].take() } else { None };
            core.request_since = self.held[n].map(|_| now - Span::from_micros(n as u64 % 50));
        }
        signals.bandwidth.fill(Some(20e9));
    }

    fn act(&mut self, _now: Time, actions: &[Action]) {
        for action in actions {
            match *action {
                Action::Run { core: CoreId(core), task, .. } => self.held[core as usize] = Some(task),
                Action::Idle { core: CoreId(core) } | Action::Share { core: CoreId(core) } => {
                    self.held[core as usize] = None;
                }
                Action::Sample { .. } => {}
            }
        }
    }
}
