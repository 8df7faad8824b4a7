//! Two programs that only compute, with cores assigned by hand.

use std::process::{Child, Command, Stdio};

use queueing::Clock;
use rustix::thread::sched_getaffinity;
use sched::cores::TaskSignals;

use super::real_time::{BUSY, REGULAR};
use super::task::RESCAN;
use super::undo_log::pid;
use super::*;
use host::sched_policy::SchedPolicy;
use host::{Monotonic, affinity, proc};
use netlab::TempDir;

mod groups;
mod starts;

/// A program that computes until it is killed, with its descendants.
pub(super) struct Program(Child);

impl Program {
    pub(super) fn start() -> Self {
        let shell = Command::new("sh").args(["-c", "while :; do :; done"]).stdin(Stdio::null()).spawn();
        Self(shell.unwrap())
    }

    pub(super) fn id(&self) -> u32 {
        self.0.id()
    }

    fn cores(&self) -> Vec<CoreId> {
        cores_of(self.id())
    }

    fn class(&self) -> SchedPolicy {
        class_of(self.id())
    }
}

fn cores_of(id: u32) -> Vec<CoreId> {
    cpulist::of_set(&sched_getaffinity(pid(id)).unwrap())
}

fn class_of(id: u32) -> SchedPolicy {
    SchedPolicy::of(pid(id)).unwrap()
}

impl Drop for Program {
    fn drop(&mut self) {
        // The number of a reaped process may have been reused.
        let runs = self.0.try_wait().is_ok_and(|ended| ended.is_none());
        let family = if runs { proc::family(self.id()) } else { Vec::new() };
        for member in family {
            let _ = rustix::process::kill_process(pid(member).unwrap(), rustix::process::Signal::KILL);
        }
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Manager, with the directory of its undo log, which must outlive it.
fn manager(test: &str, lc: &Program, be: &Program, real_time: bool) -> (TempDir, Affinity, Vec<CoreId>) {
    let cores = affinity::cores().unwrap();
    let layout = Layout::new(&cores).unwrap();
    let folder = TempDir::new(&format!("cores-{test}")).unwrap();
    let journal = Journal::begin(folder.path(), &cores).unwrap();
    let task = |spec, id| TaskSetup {
        spec,
        selector: TaskSelector::Child(id),
        tail: None,
        queue_reports: Vec::new(),
        has_signal_page: false,
    };
    let tasks = vec![
        ("lc".to_owned(), task(TaskSpec::critical(1), lc.id())),
        ("be".to_owned(), task(TaskSpec::best_effort(), be.id())),
    ];
    let now = Monotonic::new().now();
    let setup = Setup {
        layout,
        tasks,
        real_time,
        calm: Span::from_millis(20),
        period: Span::from_millis(2),
        sensor: Box::new(NullSensor),
        journal,
    };
    (folder, Affinity::new(setup, now).unwrap(), cores)
}

//~ sched: best-effort threads leave the cores of latency-critical ones, and every setting is restored
#[test]
fn be_leaves_the_core_that_lc_holds_and_everything_is_put_back() {
    let (lc, be) = (Program::start(), Program::start());
    let before = [(lc.class(), lc.cores()), (be.class(), be.cores())];
    let (_folder, mut manager, cores) = manager("back", &lc, &be, false);
    assert_eq!(be.class(), SchedPolicy::IDLE, "BE gives way to all others at once");
    assert_eq!(lc.class(), before[0].0);
    let clock = Monotonic::new();
    let now = clock.now();
    let run = |core: usize, task| Action::Run { core: CoreId(core as u16), task: TaskId(task), keep: false };
    let all: Vec<Action> = (0..cores.len()).map(|core| run(core, 1)).collect();
    manager.act(now, &all);
    assert_eq!((lc.cores(), be.cores()), (cores.clone(), cores.clone()), "LC runs over BE anywhere");
    manager.act(now, &[run(0, 0)]);
    if cores.len() > 1 {
        assert_eq!(be.cores(), cores[1..]);
        assert_eq!(lc.cores(), cores, "beside its own core it runs over BE");
    }
    // Without a core, where one is left idle, it is parked if a freezer is available, and runs again
    // afterwards.
    let first = usize::from(cores.len() > 1);
    let idle: Vec<Action> =
        (first..cores.len()).map(|core| Action::Idle { core: CoreId(core as u16) }).collect();
    manager.act(now, &idle);
    assert_eq!(manager.is_parked(TaskId(1)), manager.can_park(TaskId(1)));
    manager.act(now, &[run(0, 1)]);
    assert!(!manager.is_parked(TaskId(1)));
    manager.act(now, &idle);
    let restored = manager.put_back().unwrap();
    assert!(restored.threads >= 2 && restored.failed == 0, "{restored:?}");
    assert_eq!([(lc.class(), lc.cores()), (be.class(), be.cores())], before);
}

//~ sched: latency-critical threads are real-time; missing capabilities are reported
//~ sched: busy latency-critical threads stay real-time behind those that sleep, and leave the kernel its share
#[test]
fn lc_has_the_class_of_its_level_and_its_own_again_at_the_end() {
    let test = "lc_has_the_class_of_its_level_and_its_own_again_at_the_end";
    let sleeps = Program(Command::new("sleep").arg("60").spawn().unwrap());
    let spins = Program::start();
    for (name, lc, sleeps) in [("sleeps", &sleeps, true), ("spins", &spins, false)] {
        let be = Program::start();
        let before = lc.class();
        let (_folder, mut manager, _) = manager(&format!("urgent-{name}"), lc, &be, true);
        if manager.lacks_real_time(TaskId(0)) {
            assert_eq!(lc.class(), before);
            println!("skipped: {test}: {name}: this control group has no real-time budget");
            continue;
        }
        assert_eq!(lc.class(), REGULAR);
        if !sleeps {
            for (is_behind, class) in [(true, BUSY), (false, REGULAR)] {
                manager.taken.tasks[0].set_behind(is_behind);
                assert_eq!(lc.class(), class);
            }
        }
        let mut signals = Signals::of(
            &sched::cores::CoreAssignment::new(
                manager.taken.layout.topology().clone(),
                vec![TaskSpec::critical(1), TaskSpec::best_effort()],
            )
            .unwrap(),
        );
        let clock = Monotonic::new();
        // Those of a thread that never sleeps, in this order.
        let classes = if sleeps { vec![] } else { vec![BUSY, before, BUSY] };
        let end = clock.now() + if sleeps { RESCAN * 3 } else { Span::from_secs(30) };
        let mut missing = classes.into_iter().peekable();
        while clock.now() < end && (sleeps || missing.peek().is_some()) {
            manager.sense(clock.now(), &mut signals);
            let class = lc.class();
            missing.next_if_eq(&class);
            assert!(!sleeps || class == REGULAR, "{class:?}");
            std::thread::yield_now();
        }
        assert_eq!(missing.next(), None, "{name}");
        if !sleeps {
            let signal = |signal| rustix::process::kill_process(pid(lc.id()).unwrap(), signal).unwrap();
            signal(rustix::process::Signal::STOP);
            while clock.now() < end && lc.class() != REGULAR {
                manager.sense(clock.now(), &mut signals);
                std::thread::yield_now();
            }
            signal(rustix::process::Signal::CONT);
            assert_eq!(lc.class(), REGULAR, "it rests");
        }
        assert_eq!(manager.put_back().unwrap().failed, 0);
        assert_eq!(lc.class(), before);
    }
}

//~ sched: forked processes belong to their task, and ended ones are noticed
#[test]
fn a_task_s_time_is_counted_its_end_is_noticed_and_its_forks_belong_to_it() {
    let lc = Program::start();
    let shell = "while :; do :; done & while :; do :; done";
    let mut be = Program(Command::new("sh").args(["-c", shell]).spawn().unwrap());
    let clock = Monotonic::new();
    let (_folder, mut manager, _) = manager("time", &lc, &be, false);
    let board = sched::cores::CoreAssignment::new(
        manager.taken.layout.topology().clone(),
        vec![TaskSpec::critical(1), TaskSpec::best_effort()],
    );
    let mut signals = Signals::of(&board.unwrap());
    let until = |done: &mut dyn FnMut(&mut Affinity, &Signals) -> bool,
                 manager: &mut Affinity,
                 signals: &mut Signals| {
        let end = clock.now() + Span::from_secs(30);
        loop {
            manager.sense(clock.now(), signals);
            if done(manager, signals) {
                return true;
            }
            if clock.now() >= end {
                return false;
            }
            std::thread::yield_now();
        }
    };
    // The shell's child as well, forked before or after.
    let both = &mut |manager: &mut Affinity, signals: &Signals| {
        let figures = manager.figures(TaskId(1));
        figures.threads == 2 && figures.ran_ns > 0 && signals.tasks[1].runnable == 2
    };
    assert!(until(both, &mut manager, &mut signals));
    for member in proc::family(be.id()) {
        let _ = rustix::process::kill_process(pid(member).unwrap(), rustix::process::Signal::KILL);
    }
    be.0.wait().unwrap();
    let gone = &mut |manager: &mut Affinity, signals: &Signals| {
        manager.is_over(TaskId(1)) && signals.tasks[1] == TaskSignals::default()
    };
    assert!(until(gone, &mut manager, &mut signals));
    assert!(!manager.is_over(TaskId(0)));
    manager.put_back().unwrap();
}

#[test]
fn a_missing_task_is_refused_with_what_would_be_valid() {
    let none = TaskSelector::Process(u32::MAX >> 1).check(true).unwrap_err();
    assert_eq!(none.to_string(), "no process 2147483647");
    assert!(none.advice().is_some());
    assert!(TaskSelector::Group("/no/such/cgroup".into()).check(true).is_err());
    assert_eq!(TaskSelector::Process(std::process::id()).check(true), Ok(()), "only check_all refuses it");
}

//~ sched: a sleeping best-effort task is not woken to be parked
#[test]
fn a_task_without_a_core_is_parked_once_it_wakes_up() {
    let lc = Program::start();
    let command = "trap 'while :; do :; done' USR1; while :; do sleep 600 & wait; done";
    let be = Program(Command::new("sh").args(["-c", command]).spawn().unwrap());
    let (_folder, mut manager, cores) = manager("sleeping", &lc, &be, false);
    let board = sched::cores::CoreAssignment::new(
        manager.taken.layout.topology().clone(),
        vec![TaskSpec::critical(1), TaskSpec::best_effort()],
    );
    let (clock, mut signals) = (Monotonic::new(), Signals::of(&board.unwrap()));
    let begin = clock.now();
    let mut later = begin;
    let mut sensed_until = |manager: &mut Affinity, is_active: bool| {
        loop {
            later += Span::from_millis(200);
            manager.sense(later, &mut signals);
            if (signals.tasks[1].runnable > 0) == is_active {
                return true;
            }
            if clock.now() >= begin + Span::from_secs(30) {
                return false;
            }
            std::thread::yield_now();
        }
    };
    let idle: Vec<Action> = (0..cores.len()).map(|core| Action::Idle { core: CoreId(core as u16) }).collect();
    assert!(sensed_until(&mut manager, false), "it sleeps");
    manager.act(clock.now(), &idle);
    assert!(!manager.is_parked(TaskId(1)), "it has nothing to run");
    rustix::process::kill_process(pid(be.id()).unwrap(), rustix::process::Signal::USR1).unwrap();
    assert!(sensed_until(&mut manager, true), "it computes");
    manager.act(clock.now(), &idle);
    assert_eq!(manager.is_parked(TaskId(1)), manager.can_park(TaskId(1)));
    assert_eq!(manager.put_back().unwrap().failed, 0);
}

//~ sched: a cgroup frozen by an operator stays frozen
#[test]
fn a_group_that_an_operator_has_frozen_is_neither_thawed_nor_parked() {
    let test = "a_group_that_an_operator_has_frozen_is_neither_thawed_nor_parked";
    let home = Hierarchy::freezer().and_then(|tree| tree.folder_of(std::process::id()));
    let name = format!("greenwave-frozen-{}", std::process::id());
    let group = home.and_then(|home| Group::make(&home, &name).ok());
    let (Some(group), true) = (group.filter(Group::can_freeze), proc::may_schedule()) else {
        return println!("skipped: {test}: no freezer, or no CAP_SYS_NICE");
    };
    let (lc, be) = (Program::start(), Program::start());
    group.take(be.id()).unwrap();
    for frozen in [true, false] {
        group.freeze(frozen).unwrap();
        let cores = affinity::cores().unwrap();
        let folder = TempDir::new("cores-frozen").unwrap();
        let task = |spec, selector| TaskSetup {
            spec,
            selector,
            tail: None,
            queue_reports: Vec::new(),
            has_signal_page: false,
        };
        let setup = Setup {
            layout: Layout::new(&cores).unwrap(),
            tasks: vec![
                ("lc".to_owned(), task(TaskSpec::critical(1), TaskSelector::Child(lc.id()))),
                (
                    "be".to_owned(),
                    task(TaskSpec::best_effort(), TaskSelector::Group(group.path().to_owned())),
                ),
            ],
            real_time: false,
            calm: Span::from_millis(20),
            period: Span::from_millis(2),
            sensor: Box::new(NullSensor),
            journal: Journal::begin(folder.path(), &cores).unwrap(),
        };
        let clock = Monotonic::new();
        let mut manager = Affinity::new(setup, clock.now()).unwrap();
        let idle: Vec<Action> =
            (0..cores.len() as u16).map(|core| Action::Idle { core: CoreId(core) }).collect();
        manager.act(clock.now(), &idle);
        assert!(group.is_frozen(), "parked by us, or unchanged");
        assert_eq!(manager.can_park(TaskId(1)), !frozen);
        let all: Vec<Action> = (0..cores.len() as u16)
            .map(|core| Action::Run { core: CoreId(core), task: TaskId(1), keep: false })
            .collect();
        manager.act(clock.now(), &all);
        assert_eq!(group.is_frozen(), frozen);
        manager.act(clock.now(), &idle);
        assert_eq!(manager.put_back().unwrap().failed, 0);
        assert_eq!(group.is_frozen(), frozen, "as it was before");
    }
    drop(be);
    std::fs::remove_dir(group.path()).unwrap();
}
