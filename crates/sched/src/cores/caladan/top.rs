//! A core for every task whose queue has grown old (C3).
//!
//! LC asks when its queueing delay exceeds THRESH_QD, when somebody there is behind
//! his budget (ours), or when it has work and no core; one core a round. BE takes
//! what is free. A guarantee may take any core beyond
//! another's guarantee; otherwise LC may take BE's, and a task one of its own
//! class that has two more beyond its guarantee. The best core is one whose
//! siblings are idle, then one whose siblings run another task, then the one
//! used last.
//!
//! **Nobody starves**: without a core for `slice`, BE may take one that BE has
//! held as long; without one for `starve_max`, a task may take any beyond a
//! guarantee, and keeps it for a `slice`. Tasks are helped in the order in which
//! they lost their last core, one a round.
//! Source: Caladan (OSDI '20) §5.2.1.

use std::cmp::Reverse;

use queueing::{CoreId, Span, Time};

use crate::cores::{CoreAssignment, CoreState, Settings, Signals, TaskId, TaskSignals};

/// Whether a task may have a core as far as others than [`Top`] have a say.
pub type Rule<'a> = &'a dyn Fn(&CoreAssignment, CoreId, TaskId) -> bool;

/// The top-level core allocator.
#[derive(Clone, Debug)]
pub struct Top {
    period: Span,
    recency: Span,
    slice: Span,
    starve_max: Span,
    /// Whether siblings matter for the choice of a core.
    siblings: bool,
    /// Per task, when it was last given a core.
    given: Vec<Option<Time>>,
    /// Per task, since when it has had work and no core.
    hungry: Vec<Option<Time>>,
    order: Vec<TaskId>,
}

/// Why a task wants a core, least first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Need {
    /// What is free will do.
    Spare,
    /// One of its own class that is held for long, if nothing is free.
    Turn,
    /// Its queue has grown.
    Queue,
    /// The same, and it is below its guarantee.
    Guarantee,
    /// It has waited for `starve_max`.
    Starving,
}

impl Top {
    /// For the tasks of `board`.
    pub fn new(settings: &Settings, board: &CoreAssignment) -> Self {
        let tasks = board.tasks().len();
        Self {
            period: settings.period,
            recency: settings.recency,
            slice: settings.slice,
            starve_max: settings.starve_max,
            siblings: true,
            given: vec![None; tasks],
            hungry: vec![None; tasks],
            order: Vec::with_capacity(tasks),
        }
    }

    /// The same, every `period` and blind to siblings.
    pub fn blind(self, period: Span) -> Self {
        Self { period, siblings: false, ..self }
    }

    /// How long a task with work can be without a core, while one is beyond all guarantees.
    pub fn starvation(&self) -> Span {
        // Each of those before it may hold the last such core for a slice.
        let turns = self.given.len() as u64;
        self.starve_max + (self.slice + self.period) * (turns + 1)
    }

    /// One round.
    pub fn round(&mut self, now: Time, signals: &Signals, board: &mut CoreAssignment, rule: Rule<'_>) {
        self.note(now, signals, board);
        if let Some(task) = self.starving(now, board) {
            self.give(now, board, rule, task, Need::Starving);
        }
        self.critical(now, signals, board);
        for place in 0..self.order.len() {
            let task = self.order[place];
            let below = board.running(task) < board.spec(task).guaranteed;
            let need = if below { Need::Guarantee } else { Need::Queue };
            self.give(now, board, rule, task, need);
        }
        self.share_rest(now, signals, board, rule);
    }

    /// Who has had work and no core since when.
    fn note(&mut self, now: Time, signals: &Signals, board: &CoreAssignment) {
        for task in board.ids() {
            let hungry = board.running(task) == 0 && signals.task(task).runnable > 0;
            let since = &mut self.hungry[task.index()];
            *since = if hungry { since.or(Some(now)) } else { None };
        }
    }

    /// The task that has waited longest, if it is too long.
    fn starving(&self, now: Time, board: &CoreAssignment) -> Option<TaskId> {
        let since = |task: &TaskId| self.hungry[task.index()];
        let longest = board.ids().filter(|task| since(task).is_some()).min_by_key(since)?;
        let waited = now.since(since(&longest).expect("it is hungry"));
        (waited >= self.starve_max).then_some(longest)
    }

    /// Puts LC that asks into order: below the guarantee, then few cores beyond it, then who is behind, then
    /// who waits longest.
    fn critical(&mut self, now: Time, signals: &Signals, board: &CoreAssignment) {
        self.order.clear();
        let asks = |task: &TaskId| {
            let (spec, seen) = (board.spec(*task), signals.task(*task));
            // A core that was just given has not done anything yet.
            let waking = self.given[task.index()].is_some_and(|given| now.since(given) <= self.period);
            let stuck = seen.runnable > 0 && board.running(*task) == 0;
            spec.is_critical()
                && board.running(*task) < spec.cores_max()
                && (stuck || seen.asks(spec) && !waking)
        };
        self.order.extend(board.ids().filter(asks));
        self.order.sort_unstable_by_key(|&task| {
            let below = board.running(task) < board.spec(task).guaranteed;
            let TaskSignals { behind, delay, .. } = *signals.task(task);
            (!below, board.burst(task), !behind, Reverse(delay), task)
        });
    }

    /// Gives free cores to who can use them, fewest cores first; then BE without any takes turns.
    fn share_rest(&mut self, now: Time, signals: &Signals, board: &mut CoreAssignment, rule: Rule<'_>) {
        let wants = |board: &CoreAssignment, task: TaskId| {
            let (has, spec) = (board.running(task), board.spec(task));
            !spec.is_critical() && has < spec.cores_max() && signals.task(task).runnable > u32::from(has)
        };
        self.order.clear();
        self.order.extend(board.ids().filter(|&task| wants(board, task)));
        while board.free_cores() > 0 {
            let fewest =
                |&place: &usize| (board.running(self.order[place]), self.hungry[self.order[place].index()]);
            let Some(place) = (0..self.order.len()).min_by_key(fewest) else { break };
            let task = self.order[place];
            let given = self.give(now, board, rule, task, Need::Spare);
            if !given || !wants(board, task) {
                self.order.swap_remove(place);
            }
        }
        let waited =
            |task: &TaskId| self.hungry[task.index()].is_some_and(|since| now.since(since) >= self.slice);
        let next = board.ids().filter(|&task| board.running(task) == 0 && wants(board, task)).filter(waited);
        if let Some(task) = next.min_by_key(|task| self.hungry[task.index()]) {
            self.give(now, board, rule, task, Need::Turn);
        }
    }

    /// Gives `task` the best core that it may have for that `need`; whether there was one.
    fn give(
        &mut self,
        now: Time,
        board: &mut CoreAssignment,
        rule: Rule<'_>,
        task: TaskId,
        need: Need,
    ) -> bool {
        let may = |&core: &CoreId| {
            self.may_take(now, board, core, task, need) && (need == Need::Starving || rule(board, core, task))
        };
        let score = |core: &CoreId| self.score(now, board, *core, task);
        // The first of equals, so that lower numbers fill first.
        let best = board.topology().all().filter(may).rev_max_by_key(score);
        let Some(core) = best else { return false };
        match need {
            Need::Starving | Need::Turn => board.lend(now, core, task, now + self.slice),
            Need::Spare | Need::Queue | Need::Guarantee => board.set(now, core, CoreState::Granted(task)),
        }
        self.given[task.index()] = Some(now);
        true
    }

    /// Whether `task` may have `core` from whoever has it.
    fn may_take(&self, now: Time, board: &CoreAssignment, core: CoreId, task: TaskId, need: Need) -> bool {
        let full = board.held(task) >= board.spec(task).cores_max();
        let holder = match board.hold(core) {
            CoreState::Free => return !full,
            CoreState::Shared => return false,
            CoreState::SiblingIdle(owner) if owner == task => {
                return need != Need::Spare && need != Need::Turn;
            }
            CoreState::Granted(holder) | CoreState::Reserved(holder) | CoreState::SiblingIdle(holder) => {
                holder
            }
        };
        if holder == task || !board.spared(core) || full {
            return false;
        }
        if need == Need::Guarantee {
            return true;
        }
        if board.leased(now, core) {
            return false;
        }
        let (mine, theirs) = (board.spec(task).is_critical(), board.spec(holder).is_critical());
        match need {
            Need::Spare | Need::Guarantee => false,
            Need::Starving => true,
            Need::Turn => !theirs && board.held_for(now, core) >= self.slice,
            Need::Queue if mine != theirs => mine,
            Need::Queue => board.burst(holder) > board.burst(task) + 1,
        }
    }

    /// How good `core` would be for `task`; more is better.
    fn score(&self, now: Time, board: &CoreAssignment, core: CoreId, task: TaskId) -> (u8, bool, u64) {
        let free = board.hold(core) == CoreState::Free;
        let quiet = matches!(board.hold(core), CoreState::SiblingIdle(_));
        let mut siblings =
            board.topology().siblings(core).filter_map(|sibling| board.hold(sibling).running());
        let class = match (quiet, self.siblings, siblings.next()) {
            (true, ..) => 0,
            (false, false, _) => 1,
            (false, true, None) => 3,
            (false, true, Some(one)) => 1 + u8::from(one != task && siblings.all(|other| other != task)),
        };
        let ago = board.used_ago(now, task, core).unwrap_or(Span::MAX).min(self.recency);
        (class, free, (self.recency - ago).as_nanos())
    }
}

/// The first of the largest, where [`Iterator::max_by_key`] gives the last.
trait RevMax: Iterator + Sized {
    fn rev_max_by_key<K: Ord>(self, key: impl Fn(&Self::Item) -> K) -> Option<Self::Item> {
        let keyed = self.map(|item| (key(&item), item));
        keyed.reduce(|best, next| if next.0 > best.0 { next } else { best }).map(|(_, item)| item)
    }
}

impl<I: Iterator> RevMax for I {}
