//! Core assignment: the state of each core, so that no core has two tasks.
//!
//! Policies change it freely within a round; only the differences at the end of the
//! round become actions.

use queueing::{CoreId, Span, Time};

use super::{Action, CoresConfigError, TaskId, TaskSpec, Topology};

/// State of a core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CoreState {
    /// No task.
    Free,
    /// Granted to a task, until it yields or is preempted.
    Granted(TaskId),
    /// Reserved for a task, even without work: a partition.
    Reserved(TaskId),
    /// Idle because of the task's request on the same physical core (C5). Counts as the task's.
    SiblingIdle(TaskId),
    /// Shared by all tasks under the kernel's scheduler.
    Shared,
}

impl CoreState {
    /// Task that the core is assigned to.
    #[must_use]
    pub const fn task(self) -> Option<TaskId> {
        match self {
            Self::Granted(task) | Self::Reserved(task) | Self::SiblingIdle(task) => Some(task),
            Self::Free | Self::Shared => None,
        }
    }

    /// Task that runs on the core.
    #[must_use]
    pub const fn running(self) -> Option<TaskId> {
        match self {
            Self::Granted(task) | Self::Reserved(task) => Some(task),
            Self::Free | Self::SiblingIdle(_) | Self::Shared => None,
        }
    }
}

/// Cores, tasks, and the state of each core.
#[derive(Clone, Debug)]
pub struct CoreAssignment {
    topology: Topology,
    tasks: Vec<TaskSpec>,
    states: Vec<CoreState>,
    /// State of each core as of the last actions.
    acted: Vec<CoreState>,
    /// Time of each core's last change of state.
    since: Vec<Time>,
    /// End of each core's lease, before which only a guarantee may take it.
    lease: Vec<Time>,
    held: Vec<u16>,
    running: Vec<u16>,
    /// Number of cores by socket and task.
    running_on: Vec<u16>,
    free: usize,
    /// Last use by task and physical core.
    last: Vec<Option<Time>>,
    changed: Vec<CoreId>,
    samples: Vec<CoreId>,
}

impl CoreAssignment {
    /// Assignment with every core free.
    ///
    /// # Errors
    /// If guarantees exceed the cores, BE has one, or there is no task.
    pub fn new(topology: Topology, tasks: Vec<TaskSpec>) -> Result<Self, CoresConfigError> {
        let (cores, sockets) = (topology.cores(), topology.sockets());
        if tasks.is_empty() || tasks.len() > 1024 {
            return Err(CoresConfigError(format!("{} tasks are outside 1..=1024", tasks.len())));
        }
        if let Some((n, task)) = tasks.iter().enumerate().find(|(_, t)| !t.is_critical() && t.guaranteed > 0)
        {
            let given = task.guaranteed;
            return Err(CoresConfigError(format!(
                "task {n}: guaranteed cores of a BE task must be 0, not {given}"
            )));
        }
        let guaranteed: usize = tasks.iter().map(|task| usize::from(task.guaranteed)).sum();
        if guaranteed > cores {
            return Err(CoresConfigError(format!("{guaranteed} cores are guaranteed and {cores} are there")));
        }
        Ok(Self {
            states: vec![CoreState::Free; cores],
            acted: vec![CoreState::Free; cores],
            since: vec![Time::ZERO; cores],
            lease: vec![Time::ZERO; cores],
            held: vec![0; tasks.len()],
            running: vec![0; tasks.len()],
            running_on: vec![0; tasks.len() * sockets],
            free: cores,
            last: vec![None; tasks.len() * topology.physical_cores()],
            changed: Vec::with_capacity(cores),
            samples: Vec::with_capacity(cores),
            topology,
            tasks,
        })
    }

    /// Topology of the machine.
    #[must_use]
    pub const fn topology(&self) -> &Topology {
        &self.topology
    }

    /// Tasks, by number.
    #[must_use]
    pub fn tasks(&self) -> &[TaskSpec] {
        &self.tasks
    }

    /// Specification of `task`.
    #[must_use]
    pub fn spec(&self, task: TaskId) -> &TaskSpec {
        &self.tasks[task.index()]
    }

    /// Sets `task`'s thresholds to those of `spec`, from the next round on.
    pub fn set_thresholds(&mut self, task: TaskId, spec: &TaskSpec) {
        self.tasks[task.index()].set_thresholds(spec);
    }

    /// Numbers of all tasks.
    pub fn ids(&self) -> impl Iterator<Item = TaskId> + use<> {
        (0..self.tasks.len() as u16).map(TaskId)
    }

    /// State of `core`.
    #[must_use]
    pub fn state(&self, core: CoreId) -> CoreState {
        self.states[core.0 as usize]
    }

    /// Cores assigned to `task`, including siblings idled for it.
    #[must_use]
    pub fn held(&self, task: TaskId) -> u16 {
        self.held[task.index()]
    }

    /// Cores on which `task` runs.
    #[must_use]
    pub fn running(&self, task: TaskId) -> u16 {
        self.running[task.index()]
    }

    /// Cores of `socket` on which `task` runs.
    #[must_use]
    pub fn running_on(&self, socket: usize, task: TaskId) -> u16 {
        self.running_on[socket * self.tasks.len() + task.index()]
    }

    /// Cores assigned to `task` beyond its guarantee.
    #[must_use]
    pub fn burst(&self, task: TaskId) -> u16 {
        self.held(task).saturating_sub(self.spec(task).guaranteed)
    }

    /// True if the task of `core` keeps its guarantee without it, or there is none.
    #[must_use]
    pub fn is_beyond_guarantee(&self, core: CoreId) -> bool {
        match self.state(core) {
            CoreState::Free | CoreState::Shared => true,
            CoreState::SiblingIdle(owner) => self.burst(owner) > 0,
            CoreState::Granted(task) | CoreState::Reserved(task) => {
                self.running(task) > self.spec(task).guaranteed
            }
        }
    }

    /// Number of free cores.
    #[must_use]
    pub const fn free_cores(&self) -> usize {
        self.free
    }

    /// Time since the last change of `core`.
    #[must_use]
    pub fn held_for(&self, now: Time, core: CoreId) -> Span {
        now.since(self.since[core.0 as usize])
    }

    /// Time of the last change of `core`.
    #[must_use]
    pub fn held_since(&self, core: CoreId) -> Time {
        self.since[core.0 as usize]
    }

    /// True if only a guarantee may take `core` from its task.
    #[must_use]
    pub fn leased(&self, now: Time, core: CoreId) -> bool {
        now < self.lease[core.0 as usize]
    }

    /// Time since `task` last ran on the physical core of `core`; `None` for never.
    #[must_use]
    pub fn used_ago(&self, now: Time, task: TaskId, core: CoreId) -> Option<Span> {
        self.last[self.last_index(task, core)].map(|last| now.since(last))
    }

    /// Sets the state of `core`, whatever it was.
    pub fn set(&mut self, now: Time, core: CoreId, state: CoreState) {
        let index = core.0 as usize;
        let before = self.states[index];
        if before == state {
            return;
        }
        self.count(now, core, before, false);
        self.count(now, core, state, true);
        self.states[index] = state;
        self.since[index] = now;
        self.lease[index] = Time::ZERO;
        if !self.changed.contains(&core) {
            self.changed.push(core);
        }
    }

    /// Grants `core` to `task`, with a lease until `until`.
    pub fn grant_until(&mut self, now: Time, core: CoreId, task: TaskId, until: Time) {
        self.set(now, core, CoreState::Granted(task));
        self.lease[core.0 as usize] = until;
    }

    /// Records that `task` yielded `core`; ignored if the core is no longer its own.
    pub fn yielded(&mut self, now: Time, core: CoreId, task: TaskId) {
        if self.state(core) == CoreState::Granted(task) {
            self.set(now, core, CoreState::Free);
            self.acted[core.0 as usize] = CoreState::Free;
        }
    }

    /// Requests a reading of `core`'s cache-miss counter.
    pub fn sample(&mut self, core: CoreId) {
        self.samples.push(core);
    }

    /// Replaces `actions` with the changes since the last call.
    pub fn actions(&mut self, actions: &mut Vec<Action>) {
        actions.clear();
        for core in self.changed.drain(..) {
            let state = self.states[core.0 as usize];
            if std::mem::replace(&mut self.acted[core.0 as usize], state) == state {
                continue;
            }
            match state {
                CoreState::Free | CoreState::SiblingIdle(_) => actions.push(Action::Idle { core }),
                CoreState::Granted(task) => actions.push(Action::Run { core, task, keep: false }),
                CoreState::Reserved(task) => actions.push(Action::Run { core, task, keep: true }),
                CoreState::Shared => actions.push(Action::Share { core }),
            }
        }
        actions.extend(self.samples.drain(..).map(|core| Action::Sample { core }));
    }

    fn count(&mut self, now: Time, core: CoreId, state: CoreState, starts: bool) {
        let by = |count: &mut u16| *count = if starts { *count + 1 } else { *count - 1 };
        if state == CoreState::Free {
            self.free = if starts { self.free + 1 } else { self.free - 1 };
        }
        let Some(task) = state.task() else { return };
        by(&mut self.held[task.index()]);
        if state.running().is_some() {
            by(&mut self.running[task.index()]);
            let index = self.topology.socket(core) * self.tasks.len() + task.index();
            by(&mut self.running_on[index]);
            let index = self.last_index(task, core);
            self.last[index] = Some(now);
        }
    }

    fn last_index(&self, task: TaskId, core: CoreId) -> usize {
        task.index() * self.topology.physical_cores() + self.topology.physical(core)
    }
}
