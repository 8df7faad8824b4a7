//! Top-level core allocator: a core for every task whose queueing delay grows (C3).
//!
//! An LC task needs a core, one per round, if its queueing delay exceeds THRESH_QD,
//! a request is late (an addition), or it has work and no core. BE takes free cores.
//! A task below its guarantee may take any core beyond another's guarantee.
//! Otherwise LC may take BE's cores, and any task those of a task of its class that has
//! at least two more cores beyond its guarantee. Preferred are cores with idle
//! siblings, then with siblings of another task, then those used last.
//!
//! **No starvation**: after a `slice` without a core, BE may take one that BE has
//! held as long. After `starve_max`, a task may take any core beyond a guarantee, and
//! keeps it for a `slice`. One task per round, in the order in which they lost their
//! last core.
//! Source: Caladan (OSDI '20) §5.2.1.

use std::cmp::Reverse;

use queueing::{CoreId, Span, Time};

use crate::cores::{CoreAssignment, CoreState, Settings, Signals, TaskId, TaskSignals};

/// Additional condition for a task to have a core, from other controllers.
pub type Rule<'a> = &'a dyn Fn(&CoreAssignment, CoreId, TaskId) -> bool;

/// The top-level core allocator.
#[derive(Clone, Debug)]
pub struct Top {
    period: Span,
    recency: Span,
    slice: Span,
    starve_max: Span,
    /// True if siblings affect the choice of a core.
    siblings: bool,
    /// Time of the last grant to each task.
    granted_at: Vec<Option<Time>>,
    /// Start of the time with work and no core, for each task.
    starving_since: Vec<Option<Time>>,
    order: Vec<TaskId>,
}

/// Reason for a core, weakest first. Determines which cores may be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Need {
    /// A free core only.
    Spare,
    /// A core that BE has held for a slice.
    TimeSlice,
    /// The queueing delay exceeds THRESH_QD, or a request is late.
    Queue,
    /// The queueing delay exceeds THRESH_QD, and the task is below its guarantee.
    Guarantee,
    /// The task has had work and no core for `starve_max`.
    Starving,
}

impl Top {
    /// Allocator for the tasks of `assignment`.
    pub fn new(settings: &Settings, assignment: &CoreAssignment) -> Self {
        let tasks = assignment.tasks().len();
        Self {
            period: settings.period,
            recency: settings.recency,
            slice: settings.slice,
            starve_max: settings.starve_max,
            siblings: true,
            granted_at: vec![None; tasks],
            starving_since: vec![None; tasks],
            order: Vec::with_capacity(tasks),
        }
    }

    /// Allocator with another `period` that ignores hyperthread siblings.
    pub fn blind(self, period: Span) -> Self {
        Self { period, siblings: false, ..self }
    }

    /// Longest time that a task with work can be without a core, while some core is not guaranteed
    /// to any task.
    pub fn starvation(&self) -> Span {
        // Each task before it may hold the last such core for a slice.
        let tasks = self.granted_at.len() as u64;
        self.starve_max + (self.slice + self.period) * (tasks + 1)
    }

    /// Runs one round.
    pub fn round(&mut self, now: Time, signals: &Signals, assignment: &mut CoreAssignment, rule: Rule<'_>) {
        self.update_starving(now, signals, assignment);
        if let Some(task) = self.most_starved(now, assignment) {
            self.give(now, assignment, rule, task, Need::Starving);
        }
        self.order_critical(now, signals, assignment);
        for index in 0..self.order.len() {
            let task = self.order[index];
            let below = assignment.running(task) < assignment.spec(task).guaranteed;
            let need = if below { Need::Guarantee } else { Need::Queue };
            self.give(now, assignment, rule, task, need);
        }
        self.share_rest(now, signals, assignment, rule);
    }

    /// Updates the times with work and no core.
    fn update_starving(&mut self, now: Time, signals: &Signals, assignment: &CoreAssignment) {
        for task in assignment.ids() {
            let starving = assignment.running(task) == 0 && signals.task(task).runnable > 0;
            let since = &mut self.starving_since[task.index()];
            *since = if starving { since.or(Some(now)) } else { None };
        }
    }

    /// Task that has starved longest, if for at least `starve_max`.
    fn most_starved(&self, now: Time, assignment: &CoreAssignment) -> Option<TaskId> {
        let since = |task: &TaskId| self.starving_since[task.index()];
        let longest = assignment.ids().filter(|task| since(task).is_some()).min_by_key(since)?;
        let waited = now.since(since(&longest).expect("the task is starving"));
        (waited >= self.starve_max).then_some(longest)
    }

    /// Orders the LC tasks that need a core: below the guarantee first, then fewest cores
    /// beyond it, then late requests, then the longest delay.
    fn order_critical(&mut self, now: Time, signals: &Signals, assignment: &CoreAssignment) {
        self.order.clear();
        let needs_core = |task: &TaskId| {
            let (spec, task_signals) = (assignment.spec(*task), signals.task(*task));
            // A core granted in the last period has had no effect yet.
            let waking =
                self.granted_at[task.index()].is_some_and(|granted| now.since(granted) <= self.period);
            let stuck = task_signals.runnable > 0 && assignment.running(*task) == 0;
            spec.is_critical()
                && assignment.running(*task) < spec.cores_max()
                && (stuck || task_signals.needs_core(spec) && !waking)
        };
        self.order.extend(assignment.ids().filter(needs_core));
        self.order.sort_unstable_by_key(|&task| {
            let below = assignment.running(task) < assignment.spec(task).guaranteed;
            let TaskSignals { late, delay, .. } = *signals.task(task);
            (!below, assignment.burst(task), !late, Reverse(delay), task)
        });
    }

    /// Gives free cores to BE with work, fewest cores first; then one time-sliced core to
    /// BE without any.
    fn share_rest(&mut self, now: Time, signals: &Signals, assignment: &mut CoreAssignment, rule: Rule<'_>) {
        let can_use = |assignment: &CoreAssignment, task: TaskId| {
            let (has, spec) = (assignment.running(task), assignment.spec(task));
            !spec.is_critical() && has < spec.cores_max() && signals.task(task).runnable > u32::from(has)
        };
        self.order.clear();
        self.order.extend(assignment.ids().filter(|&task| can_use(assignment, task)));
        while assignment.free_cores() > 0 {
            let fewest = |&index: &usize| {
                (assignment.running(self.order[index]), self.starving_since[self.order[index].index()])
            };
            let Some(index) = (0..self.order.len()).min_by_key(fewest) else { break };
            let task = self.order[index];
            let granted = self.give(now, assignment, rule, task, Need::Spare);
            if !granted || !can_use(assignment, task) {
                self.order.swap_remove(index);
            }
        }
        let waited = |task: &TaskId| {
            self.starving_since[task.index()].is_some_and(|since| now.since(since) >= self.slice)
        };
        let next = assignment
            .ids()
            .filter(|&task| assignment.running(task) == 0 && can_use(assignment, task))
            .filter(waited);
        if let Some(task) = next.min_by_key(|task| self.starving_since[task.index()]) {
            self.give(now, assignment, rule, task, Need::TimeSlice);
        }
    }

    /// Gives `task` the best core that `need` allows; `false` if there is none.
    fn give(
        &mut self,
        now: Time,
        assignment: &mut CoreAssignment,
        rule: Rule<'_>,
        task: TaskId,
        need: Need,
    ) -> bool {
        let is_allowed = |&core: &CoreId| {
            self.may_take(now, assignment, core, task, need)
                && (need == Need::Starving || rule(assignment, core, task))
        };
        let score = |core: &CoreId| self.score(now, assignment, *core, task);
        // The first of equals, so that lower numbers fill first.
        let best = assignment.topology().all().filter(is_allowed).rev_max_by_key(score);
        let Some(core) = best else { return false };
        match need {
            Need::Starving | Need::TimeSlice => assignment.grant_until(now, core, task, now + self.slice),
            Need::Spare | Need::Queue | Need::Guarantee => {
                assignment.set(now, core, CoreState::Granted(task))
            }
        }
        self.granted_at[task.index()] = Some(now);
        true
    }

    /// True if `task` may take `core` from its current task.
    fn may_take(
        &self,
        now: Time,
        assignment: &CoreAssignment,
        core: CoreId,
        task: TaskId,
        need: Need,
    ) -> bool {
        let full = assignment.held(task) >= assignment.spec(task).cores_max();
        let holder = match assignment.state(core) {
            CoreState::Free => return !full,
            CoreState::Shared => return false,
            CoreState::SiblingIdle(owner) if owner == task => {
                return need != Need::Spare && need != Need::TimeSlice;
            }
            CoreState::Granted(holder) | CoreState::Reserved(holder) | CoreState::SiblingIdle(holder) => {
                holder
            }
        };
        if holder == task || !assignment.is_beyond_guarantee(core) || full {
            return false;
        }
        if need == Need::Guarantee {
            return true;
        }
        if assignment.leased(now, core) {
            return false;
        }
        let (critical, holder_critical) =
            (assignment.spec(task).is_critical(), assignment.spec(holder).is_critical());
        match need {
            Need::Spare | Need::Guarantee => false,
            Need::Starving => true,
            Need::TimeSlice => !holder_critical && assignment.held_for(now, core) >= self.slice,
            Need::Queue if critical != holder_critical => critical,
            Need::Queue => assignment.burst(holder) > assignment.burst(task) + 1,
        }
    }

    /// Score of `core` for `task`; higher is better.
    fn score(&self, now: Time, assignment: &CoreAssignment, core: CoreId, task: TaskId) -> (u8, bool, u64) {
        let free = assignment.state(core) == CoreState::Free;
        let idled = matches!(assignment.state(core), CoreState::SiblingIdle(_));
        let mut siblings =
            assignment.topology().siblings(core).filter_map(|sibling| assignment.state(sibling).running());
        let class = match (idled, self.siblings, siblings.next()) {
            (true, ..) => 0,
            (false, false, _) => 1,
            (false, true, None) => 3,
            (false, true, Some(one)) => 1 + u8::from(one != task && siblings.all(|other| other != task)),
        };
        let ago = assignment.used_ago(now, task, core).unwrap_or(Span::MAX).min(self.recency);
        (class, free, (self.recency - ago).as_nanos())
    }
}

/// First of the largest, where [`Iterator::max_by_key`] gives the last.
trait RevMax: Iterator + Sized {
    fn rev_max_by_key<K: Ord>(self, key: impl Fn(&Self::Item) -> K) -> Option<Self::Item> {
        let keyed = self.map(|item| (key(&item), item));
        keyed.reduce(|best, next| if next.0 > best.0 { next } else { best }).map(|(_, item)| item)
    }
}

impl<I: Iterator> RevMax for I {}
