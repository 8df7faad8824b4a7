//! Tasks in real control groups, made by the test and removed after it: who may be inside, who joins
//! later, who freezes, and how the groups of two tasks rank.

use std::fs;
use std::path::{Path, PathBuf};

use super::*;
use crate::soon::soon;
use crate::{Group, Hierarchy, Protected, check_all};

/// A directory of a hierarchy, removed with the groups below.
struct Tree(PathBuf);

impl Tree {
    /// Directory `name` beneath the group of this process in `tree`; `None` without permission.
    fn make(tree: Option<Hierarchy>, name: &str) -> Option<Self> {
        let home = tree?.folder_of(std::process::id())?;
        let path = home.join(format!("greenwave-{name}-{}", std::process::id()));
        fs::create_dir(&path).ok()?;
        Some(Self(path))
    }

    /// The group `name` below, with those above it.
    fn group(&self, name: &str) -> Group {
        let path = self.0.join(name);
        fs::create_dir_all(&path).unwrap();
        Group::at(&path).unwrap()
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        fn remove(path: &Path) {
            let below = fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path());
            below.filter(|path| path.is_dir()).for_each(|path| remove(&path));
            // Killed processes leave within moments.
            soon(|| fs::remove_dir(path).is_ok() || !path.exists());
        }
        remove(&self.0);
    }
}

fn sleeper() -> Program {
    Program(Command::new("sleep").arg("600").spawn().unwrap())
}

fn setup(folder: &TempDir, tasks: Vec<(&str, TaskSpec, TaskSelector)>) -> Setup {
    let cores = affinity::cores().unwrap();
    let task = |(name, spec, selector): (&str, TaskSpec, TaskSelector)| {
        (
            name.to_owned(),
            TaskSetup { spec, selector, tail: None, queue_reports: Vec::new(), has_signal_page: false },
        )
    };
    Setup {
        layout: Layout::new(&cores).unwrap(),
        tasks: tasks.into_iter().map(task).collect(),
        real_time: false,
        calm: Span::from_millis(20),
        period: Span::from_millis(2),
        sensor: Box::new(NullSensor),
        journal: Journal::begin(folder.path(), &cores).unwrap(),
    }
}

fn idle(cores: usize) -> Vec<Action> {
    (0..cores as u16).map(|core| Action::Idle { core: CoreId(core) }).collect()
}

fn all_to(task: u16, cores: usize) -> Vec<Action> {
    (0..cores as u16)
        .map(|core| Action::Run { core: CoreId(core), task: TaskId(task), keep: false })
        .collect()
}

//~ sched: no task contains greenwave, its guardian, its ancestors, the first process or a kernel thread
#[test]
fn every_way_to_name_a_task_refuses_every_protected_process() {
    let test = "every_way_to_name_a_task_refuses_every_protected_process";
    let Some(tree) = Tree::make(Hierarchy::freezer(), "protected") else {
        return println!("skipped: {test}: no cgroup can be made");
    };
    let guardian = sleeper();
    let protected = Protected::current(Some(guardian.id()));
    let refused = |selector: TaskSelector, says: &str| {
        let error = check_all([("web", &sched_free()), ("batch", &selector)], &protected).unwrap_err();
        assert!(error.to_string().starts_with("task batch: ") && error.to_string().contains(says), "{error}");
        assert!(error.advice().is_some());
    };
    // By number.
    let this = std::process::id();
    // In a PID namespace of its own, what started the test may be the first process.
    let parent = proc::parent(this).unwrap();
    let above = if parent == 1 { "the first process" } else { "an ancestor of greenwave" };
    for (id, says) in [
        (this, "is greenwave itself"),
        (parent, above),
        (guardian.id(), "greenwave's guardian"),
        (1, "the first process"),
    ] {
        refused(TaskSelector::Process(id), says);
    }
    if proc::sees_kernel_threads() {
        refused(TaskSelector::Process(2), "process 2 (kthreadd) is a kernel thread");
        let error = TaskSelector::Process(2).check(false).unwrap_err();
        assert_eq!(error.to_string(), "process 2 (kthreadd) is a kernel thread");
    }
    // By group, in every spelling; the process is in a group below.
    let (group, inner) = (tree.group("a"), tree.group("a/b"));
    inner.take(guardian.id()).unwrap();
    let path = group.path().display().to_string();
    let link = std::env::temp_dir().join(format!("greenwave-link-{this}"));
    std::os::unix::fs::symlink(group.path(), &link).unwrap();
    for spelling in [path.clone(), format!("{path}/"), format!("{path}/b/.."), link.display().to_string()] {
        refused(TaskSelector::Group(spelling.into()), "sleep), greenwave's guardian");
    }
    fs::remove_file(&link).unwrap();
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    let roots =
        mounts.lines().filter(|line| line.contains(" cgroup")).filter_map(|line| line.split(' ').nth(1));
    for root in roots.filter(|root| Group::at(Path::new(root)).is_ok()) {
        refused(TaskSelector::Group(root.into()), "is the root cgroup");
    }
}

/// A task that nothing is wrong with.
fn sched_free() -> TaskSelector {
    TaskSelector::Process(u32::MAX >> 1)
}

//~ sched: overlapping tasks are refused, whatever path, link or mount names them
#[test]
fn overlapping_tasks_are_refused_in_every_spelling() {
    let test = "overlapping_tasks_are_refused_in_every_spelling";
    let Some(tree) = Tree::make(Hierarchy::freezer(), "overlap") else {
        return println!("skipped: {test}: no cgroup can be made");
    };
    let (web, other) = (sleeper(), sleeper());
    let (outer, inner, beside) = (tree.group("slice"), tree.group("slice/web"), tree.group("slice-2"));
    inner.take(web.id()).unwrap();
    beside.take(other.id()).unwrap();
    let protected = Protected::current(None);
    let check = |one: &TaskSelector, two: &TaskSelector| {
        for pair in [[("web", one), ("batch", two)], [("web", two), ("batch", one)]] {
            let error = check_all(pair, &protected).unwrap_err();
            assert!(error.to_string().starts_with("tasks web and batch overlap: "), "{error}");
            assert!(error.advice().is_some());
        }
    };
    let at = |path: &str| TaskSelector::Group(path.into());
    let (path, id) = (outer.path().display().to_string(), TaskSelector::Process(web.id()));
    let spellings = [
        path.clone(),
        format!("{path}//"),
        format!("{path}/web/.."),
        format!("{path}/web"),
        format!("{path}/web/"),
    ];
    for one in &spellings {
        check(&at(one), &id);
        spellings.iter().for_each(|two| check(&at(one), &at(two)));
    }
    check(&id, &id);
    // The same service in two hierarchies, even while it is empty.
    let both = [Hierarchy::freezer(), Hierarchy::idle()].map(|tree| Tree::make(tree, "views"));
    if let [Some(one), Some(two)] = &both
        && one.0 != two.0
    {
        check(&TaskSelector::Group(one.0.clone()), &TaskSelector::Group(two.0.clone()));
    }
    let free =
        [("web", &at(&format!("{path}/web"))), ("batch", &TaskSelector::Group(beside.path().to_owned()))];
    assert_eq!(check_all(free, &protected), Ok(()));
    drop((web, other));
}

//~ sched: a process that joins a task's group is left alone if it is protected or of another task
#[test]
fn a_group_with_a_stranger_inside_is_not_parked() {
    let test = "a_group_with_a_stranger_inside_is_not_parked";
    let tree = Tree::make(Hierarchy::freezer(), "joins").filter(|_| proc::may_schedule());
    let Some(tree) = tree.filter(|tree| tree.group("be").can_freeze()) else {
        return println!("skipped: {test}: no freezer, or no CAP_SYS_NICE");
    };
    let (lc, be, guardian) = (sleeper(), Program::start(), sleeper());
    let group = tree.group("be");
    group.take(be.id()).unwrap();
    let folder = TempDir::new("cores-joins").unwrap();
    let tasks = vec![
        ("web", TaskSpec::critical(1), TaskSelector::Child(lc.id())),
        ("batch", TaskSpec::best_effort(), TaskSelector::Group(group.path().to_owned())),
    ];
    let mut setup = setup(&folder, tasks);
    setup.journal.set_guardian(guardian.id());
    let mut now = Monotonic::new().now();
    let mut manager = Affinity::new(setup, now).unwrap();
    let cores = affinity::cores().unwrap().len();
    let mut signals = signals(&manager);
    for (joins, says) in [(&guardian, "is greenwave's guardian: "), (&lc, "is part of task web: ")] {
        let before = (joins.class(), joins.cores());
        group.take(joins.id()).unwrap();
        // At once, without a scan …
        if says.contains("guardian") {
            manager.act(now, &idle(cores));
            assert!(!group.is_frozen());
            manager.act(now, &all_to(1, cores));
        }
        // … and after two, which report it once.
        let mut refusals = Vec::new();
        for _ in 0..4 {
            now += RESCAN;
            manager.sense(now, &mut signals);
            refusals.extend(manager.taken.take_refusals());
        }
        assert_eq!(refusals.len(), 1, "{refusals:?}");
        assert!(
            refusals[0].starts_with("task batch: process ") && refusals[0].contains(says),
            "{refusals:?}"
        );
        assert_eq!(manager.figures(TaskId(1)).unmanaged, 1);
        assert!(!manager.can_park(TaskId(1)));
        manager.act(now, &idle(cores));
        assert!(!group.is_frozen());
        manager.act(now, &all_to(1, cores));
        assert_eq!((joins.class(), joins.cores()), before, "it is not managed");
        // Out again: the group can be parked; in while it is frozen: it is thawed.
        fs::write(tree.0.join("cgroup.procs"), joins.id().to_string()).unwrap();
        now += RESCAN;
        manager.sense(now, &mut signals);
        assert!(manager.can_park(TaskId(1)));
        // A task that computes is parked, one that sleeps is not; the time above is not the kernel's.
        let (clock, begin) = (Monotonic::new(), Monotonic::new().now());
        while signals.tasks[1].runnable == 0 {
            assert!(clock.now() < begin + Span::from_secs(30), "it never ran");
            manager.sense(now, &mut signals);
            std::thread::yield_now();
        }
        manager.act(now, &idle(cores));
        assert!(group.is_frozen());
        group.take(joins.id()).unwrap();
        now += RESCAN;
        manager.sense(now, &mut signals);
        assert!(!group.is_frozen());
        fs::write(tree.0.join("cgroup.procs"), joins.id().to_string()).unwrap();
        now += RESCAN;
        manager.sense(now, &mut signals);
        manager.act(now, &all_to(1, cores));
    }
    assert_eq!(manager.put_back().unwrap().failed, 0);
    drop((lc, be, guardian));
}

fn signals(manager: &Affinity) -> Signals {
    let specs = manager.taken.specs.clone();
    Signals::of(&sched::cores::CoreAssignment::new(manager.taken.layout.topology().clone(), specs).unwrap())
}

//~ sched: threads of a threaded group are a task of their own and are resumed
#[test]
fn a_threaded_group_is_managed_thread_by_thread() {
    let test = "a_threaded_group_is_managed_thread_by_thread";
    let tree = Tree::make(Hierarchy::freezer(), "threaded").filter(|_| proc::may_schedule());
    let tree = tree.filter(|tree| {
        let inner = tree.group("be");
        fs::write(inner.path().join("cgroup.type"), "threaded").is_ok()
    });
    let script =
        "import threading\nfor _ in range(2): threading.Thread(target=threading.Event().wait).start()";
    let program = Command::new("python3").args(["-c", script]).stdin(Stdio::null()).spawn();
    let (Some(tree), Ok(program)) = (tree, program) else {
        return println!("skipped: {test}: no threaded cgroup, no python3, or no CAP_SYS_NICE");
    };
    let program = Program(program);
    soon(|| proc::threads(program.id()).count() == 3);
    let group = tree.group("be");
    Group::at(&tree.0).unwrap().take(program.id()).unwrap();
    let mut threads: Vec<u32> = proc::threads(program.id()).collect();
    threads.sort_unstable();
    fs::write(group.path().join("cgroup.threads"), threads[1].to_string()).unwrap();
    assert_eq!(group.threads(), [(program.id(), threads[1])]);
    assert_eq!(group.members(), [program.id()]);
    let folder = TempDir::new("cores-threaded").unwrap();
    let selector = TaskSelector::Group(group.path().to_owned());
    let now = Monotonic::new().now();
    let mut manager =
        Affinity::new(setup(&folder, vec![("batch", TaskSpec::best_effort(), selector)]), now).unwrap();
    let (cores, mut signals) = (affinity::cores().unwrap().len(), signals(&manager));
    assert_eq!(manager.figures(TaskId(0)).threads, 1);
    let classes = |threads: &[u32]| threads.iter().map(|&thread| class_of(thread)).collect::<Vec<_>>();
    let (other, ours) = (SchedPolicy::OTHER, SchedPolicy::IDLE);
    assert_eq!(classes(&threads), [other, ours, other]);
    manager.act(now, &idle(cores));
    assert!(group.is_frozen());
    // A frozen task asks for a core, so it does not stay frozen.
    manager.sense(now + RESCAN, &mut signals);
    assert!(signals.tasks[0].runnable > 0);
    manager.act(now, &all_to(0, cores));
    assert!(!group.is_frozen());
    manager.act(now, &idle(cores));
    // A thread outside the group keeps the cores that it has chosen.
    rustix::thread::sched_setaffinity(pid(threads[2]), &cpulist::set_of([CoreId(0)])).unwrap();
    assert_eq!(manager.put_back().unwrap().failed, 0);
    assert!(!group.is_frozen());
    assert_eq!(classes(&threads), [other, other, other]);
    assert_eq!(cores_of(threads[2]), [CoreId(0)]);
    drop(program);
}

//~ sched: a cgroup frozen by an operator stays frozen
#[test]
fn a_group_that_an_operator_freezes_later_stays_frozen() {
    let test = "a_group_that_an_operator_freezes_later_stays_frozen";
    let tree = Tree::make(Hierarchy::freezer(), "operator").filter(|_| proc::may_schedule());
    let Some(tree) = tree.filter(|tree| tree.group("be").can_freeze()) else {
        return println!("skipped: {test}: no freezer, or no CAP_SYS_NICE");
    };
    // While it runs, while it is parked; and an end in order, by the log alone.
    for (is_parked, is_killed) in [(false, false), (true, false), (false, true), (true, true)] {
        let be = Program::start();
        let group = tree.group("be");
        group.take(be.id()).unwrap();
        let folder = TempDir::new("cores-operator").unwrap();
        let selector = TaskSelector::Group(group.path().to_owned());
        let now = Monotonic::new().now();
        let mut manager =
            Affinity::new(setup(&folder, vec![("batch", TaskSpec::best_effort(), selector)]), now).unwrap();
        let (cores, mut signals) = (affinity::cores().unwrap().len(), signals(&manager));
        manager.act(now, &idle(cores));
        assert!(group.is_frozen());
        if !is_parked {
            manager.act(now, &all_to(0, cores));
            assert!(!group.is_frozen());
        }
        group.freeze(true).unwrap();
        manager.sense(now + RESCAN, &mut signals);
        for actions in [all_to(0, cores), idle(cores), all_to(0, cores)] {
            manager.act(now, &actions);
            assert!(group.is_frozen(), "parked: {is_parked}");
            assert!(!manager.can_park(TaskId(0)) && !manager.is_parked(TaskId(0)));
        }
        let put_back = |manager: &mut Affinity| match is_killed {
            true => crate::undo_log::restore(manager.taken.journal.path()).unwrap(),
            false => manager.put_back().unwrap(),
        };
        assert_eq!(put_back(&mut manager).failed, 0);
        assert!(group.is_frozen(), "parked: {is_parked}, killed: {is_killed}");
        // Thawed by the operator, it can be parked again.
        group.freeze(false).unwrap();
        manager.sense(now + RESCAN * 2, &mut signals);
        assert!(manager.can_park(TaskId(0)));
        drop(be);
    }
}

//~ sched: best effort ranks below latency-critical tasks in any other control group, or a limit is printed
#[test]
fn groups_of_best_effort_are_idle_where_they_part_and_are_reset() {
    let test = "groups_of_best_effort_are_idle_where_they_part_and_are_reset";
    let tree = Tree::make(Hierarchy::cpu(), "ranks").filter(|_| proc::may_schedule());
    let Some(tree) = tree.filter(|tree| tree.group("x").path().join("cpu.shares").exists()) else {
        return println!("skipped: {test}: no cgroup of the controller cpu can be made here");
    };
    // Layouts of systemd and of the kubelet: LC's group, BE's, and where they part.
    for (lc_group, be_group, parts_at) in [
        ("system.slice/web.service", "system.slice/batch.service", "system.slice/batch.service"),
        ("system.slice/web.service", "user.slice/user-1.slice/session-2.scope", "user.slice"),
        ("kubepods/pod1/main", "kubepods/besteffort/pod2/main", "kubepods/besteffort"),
        ("kubepods/burstable/pod1/main", "kubepods/burstable/pod1/side", "kubepods/burstable/pod1/side"),
    ] {
        for is_killed in [false, true] {
            let (lc, be, bystander) = (Program::start(), Program::start(), sleeper());
            tree.group(lc_group).take(lc.id()).unwrap();
            tree.group(be_group).take(be.id()).unwrap();
            let at = tree.group(parts_at);
            let read = |file: &str| fs::read_to_string(at.path().join(file)).unwrap().trim().to_owned();
            fs::write(at.path().join("cpu.shares"), "512").unwrap();
            let state = || (read("cpu.idle"), read("cpu.shares"));
            let before = state();
            let folder = TempDir::new("cores-ranks").unwrap();
            let tasks = vec![
                ("web", TaskSpec::critical(1), TaskSelector::Child(lc.id())),
                ("batch", TaskSpec::best_effort(), TaskSelector::Child(be.id())),
            ];
            let now = Monotonic::new().now();
            let mut manager = Affinity::new(setup(&folder, tasks), now).unwrap();
            let mut signals = signals(&manager);
            assert_eq!(read("cpu.idle"), "1", "{parts_at}");
            assert_eq!(manager.taken.rank_limits(), Vec::<String>::new());
            // Another process comes: it keeps its share, and LC's side gets more.
            at.take(bystander.id()).unwrap();
            manager.sense(now + Span::from_secs(5), &mut signals);
            assert_eq!(state(), before, "{parts_at}");
            let limits = manager.taken.rank_limits();
            assert!(
                limits.len() == 1 && limits[0].contains("1 process that belongs to no task"),
                "{limits:?}"
            );
            fs::write(tree.0.join("cgroup.procs"), bystander.id().to_string()).unwrap();
            manager.sense(now + Span::from_secs(10), &mut signals);
            assert_eq!(read("cpu.idle"), "1", "{parts_at}");
            let restored = match is_killed {
                true => crate::undo_log::restore(manager.taken.journal.path()).unwrap(),
                false => manager.put_back().unwrap(),
            };
            assert_eq!((restored.failed, state()), (0, before), "{parts_at}");
            assert!(
                files_of(&tree.0, "cpu.shares").iter().all(|shares| ["1024", "512"].contains(&&**shares))
            );
            // The next case begins without it.
            fs::write(at.path().join("cpu.shares"), "1024").unwrap();
            drop((lc, be, bystander));
        }
    }
}

/// Contents of `file` in all groups below `path`.
fn files_of(path: &Path, file: &str) -> Vec<String> {
    let below = fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path());
    let below = below.filter(|path| path.is_dir()).flat_map(|path| {
        let own = fs::read_to_string(path.join(file)).unwrap().trim().to_owned();
        std::iter::once(own).chain(files_of(&path, file))
    });
    below.collect()
}

//~ sched: every thread that is not managed or not watched is counted
#[test]
fn threads_beyond_the_watched_ones_are_managed_and_counted() {
    let script = "import threading, sys\nthreading.stack_size(65536)\n\
                  for _ in range(4200): threading.Thread(target=threading.Event().wait).start()\nprint('x', flush=True)";
    let program = Command::new("python3").args(["-c", script]).stdout(Stdio::piped()).spawn();
    let Ok(mut program) = program else { return println!("skipped: no python3") };
    let mut byte = [0; 1];
    let out = program.stdout.as_mut().unwrap();
    let is_ready = std::io::Read::read_exact(out, &mut byte).is_ok();
    let program = Program(program);
    if !is_ready || !proc::may_schedule() {
        return println!("skipped: threads_beyond_the_watched_ones_…: no 4,200 threads, or no CAP_SYS_NICE");
    }
    let folder = TempDir::new("cores-many").unwrap();
    let selector = TaskSelector::Child(program.id());
    let now = Monotonic::new().now();
    let mut manager =
        Affinity::new(setup(&folder, vec![("batch", TaskSpec::best_effort(), selector)]), now).unwrap();
    let figures = *manager.figures(TaskId(0));
    assert_eq!(figures.threads, 4201);
    assert!(figures.unwatched >= 4201 - 4096 && figures.unwatched < 4201, "{figures:?}");
    assert_eq!((figures.unmanaged, figures.refused), (0, 0));
    assert!(proc::threads(program.id()).all(|thread| class_of(thread) == SchedPolicy::IDLE));
    // A round reads the threads that run, and some of those that sleep.
    let mut signals = signals(&manager);
    for round in 0..60 {
        manager.sense(now + Span::from_millis(2 * round), &mut signals);
    }
    assert_eq!(signals.tasks[0].runnable, 0, "all of them sleep");
    let restored = manager.put_back().unwrap();
    assert_eq!((restored.failed, restored.threads >= 4201), (0, true));
    drop(program);
}
