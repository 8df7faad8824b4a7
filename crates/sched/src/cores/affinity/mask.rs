//! The cores on which each task may run, from the owner of each core.
//!
//! No BE task and no other LC task runs on a core that an LC task *holds*. An LC task that holds none
//! may run on every core that no other LC task holds. BE tasks on those are in the idle class, so the
//! kernel gives LC the core within one wake-up. LC is therefore never parked, and its burstable cores
//! bound it. BE runs on the cores it holds. A BE task that holds none is parked where a core is left
//! idle on purpose, for DRAM or a long request. Where LC holds every core, it runs beneath LC instead:
//! parking it would shorten no wait.

use queueing::CoreId;

use super::CoreSet;
use crate::cores::{Action, TaskId, TaskSpec};

/// Owner of a core.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CoreOwner {
    /// No owner: LC may wake up there.
    #[default]
    Open,
    /// A task, until it no longer needs the core.
    Run(TaskId),
    /// A task, permanently.
    Keep(TaskId),
    /// The kernel.
    Shared,
}

impl CoreOwner {
    /// The core of `action` and its owner from then on; `None` for a sample of its counter.
    #[must_use]
    pub const fn of(action: Action) -> (CoreId, Option<Self>) {
        match action {
            Action::Run { core, task, keep: false } => (core, Some(Self::Run(task))),
            Action::Run { core, task, keep: true } => (core, Some(Self::Keep(task))),
            Action::Idle { core } => (core, Some(Self::Open)),
            Action::Share { core } => (core, Some(Self::Shared)),
            Action::Sample { core } => (core, None),
        }
    }
}

/// True if LC holds every core, none permanently: a task without a core then runs beneath LC.
#[must_use]
pub fn are_all_critical(specs: &[TaskSpec], given: &[CoreOwner]) -> bool {
    given.iter().all(|given| matches!(given, CoreOwner::Run(runner) if specs[runner.index()].is_critical()))
}

/// Cores for `task`; `None` if the task is to be parked. LC stays off the cores that other LC holds if
/// `is_exclusive`.
#[must_use]
pub fn mask(specs: &[TaskSpec], given: &[CoreOwner], task: TaskId, is_exclusive: bool) -> Option<CoreSet> {
    let spec = &specs[task.index()];
    let own =
        |given: &CoreOwner| matches!(given, CoreOwner::Run(owner) | CoreOwner::Keep(owner) if *owner == task);
    let held = (0..given.len()).filter(|&core| own(&given[core]));
    if !spec.is_critical() {
        let shared = (0..given.len()).filter(|&core| given[core] == CoreOwner::Shared);
        let beneath = (0..given.len()).filter(|_| are_all_critical(specs, given));
        return set(held.chain(shared).chain(beneath));
    }
    let is_partition = given.contains(&CoreOwner::Keep(task));
    let is_open = |core: &usize| match given[*core] {
        CoreOwner::Open | CoreOwner::Shared => true,
        CoreOwner::Run(runner) => !is_exclusive || !specs[runner.index()].is_critical(),
        CoreOwner::Keep(_) => false,
    };
    // Tasks start at different cores, so that those with few burstable cores do not collide.
    let home: usize = specs[..task.index()].iter().map(|spec| usize::from(spec.guaranteed)).sum();
    let around = (0..given.len()).map(|core| (core + home) % given.len());
    let open = around.filter(|core| !is_partition && is_open(core));
    let most = usize::from(spec.cores_max().max(1));
    // No core is left: LC is never parked, so it gets all.
    set(held.chain(open).take(most)).or_else(|| Some(CoreSet::all(given.len())))
}

fn set(cores: impl Iterator<Item = usize>) -> Option<CoreSet> {
    Some(cores.collect::<CoreSet>()).filter(|set| !set.is_empty())
}

//~ sched: best-effort threads leave the cores of latency-critical ones, and every setting is restored
#[cfg(test)]
mod tests {
    use super::*;

    /// Masks as lists of cores, for two LC tasks with a core each, then two BE tasks. One letter per
    /// core: `a` to `d` run there, `A` to `D` keep it, `*` is shared.
    #[track_caller]
    fn check(held: &str, expected: [Option<&str>; 4]) {
        let specs = [
            TaskSpec::critical(1),
            TaskSpec { burstable: 1, ..TaskSpec::critical(1) },
            TaskSpec::best_effort(),
            TaskSpec::best_effort(),
        ];
        let given: Vec<CoreOwner> = held
            .bytes()
            .map(|letter| match letter {
                b'a'..=b'd' => CoreOwner::Run(TaskId((letter - b'a').into())),
                b'A'..=b'D' => CoreOwner::Keep(TaskId((letter - b'A').into())),
                b'*' => CoreOwner::Shared,
                _ => CoreOwner::Open,
            })
            .collect();
        let found = [0, 1, 2, 3].map(|task| mask(&specs, &given, TaskId(task), true));
        let list = |set: CoreSet| set.iter().map(|core| core.0.to_string()).collect::<String>();
        let found = found.map(|set| set.map(list));
        assert_eq!(found.each_ref().map(Option::as_deref), expected, "{held}");
    }

    #[test]
    fn lc_wakes_up_over_be_and_be_runs_where_it_was_let() {
        check("ccdd", [Some("0123"), Some("12"), Some("01"), Some("23")]);
        check("....", [Some("0123"), Some("12"), None, None]);
        check("****", [Some("0123"), Some("12"), Some("0123"), Some("0123")]);
    }

    #[test]
    fn be_without_a_core_runs_beneath_lc_unless_one_is_idle_on_purpose() {
        check("aaaa", [Some("0123"), Some("0123"), Some("0123"), Some("0123")]);
        check("aaab", [Some("012"), Some("3"), Some("0123"), Some("0123")]);
        check("aaa.", [Some("0123"), Some("3"), None, None]);
        check("aaac", [Some("0123"), Some("3"), Some("3"), None]);
        check("aaaA", [Some("0123"), Some("0123"), None, None]);
    }

    #[test]
    fn what_lc_holds_is_its_alone() {
        check("acdd", [Some("0123"), Some("12"), Some("1"), Some("23")]);
        check("abcd", [Some("023"), Some("12"), Some("2"), Some("3")]);
        check("bbcc", [Some("23"), Some("01"), Some("23"), None]);
    }

    #[test]
    fn a_partition_is_kept_to_and_lc_is_never_parked() {
        check("ABCD", [Some("0"), Some("1"), Some("2"), Some("3")]);
        check("AACD", [Some("01"), Some("0123"), Some("2"), Some("3")]);
    }
}
