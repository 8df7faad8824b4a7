//! The manager over a simulated kernel, everywhere, and over the real one where that has sched_ext.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::atomic::Ordering::Relaxed;

use queueing::{Clock, CoreId};
use sched::cores::{CoreAssignment, TaskSpec, Topology};

use super::super::tests::Program;
use super::super::{Journal, Layout, NullSensor, TaskSelector, TaskSetup};
use super::*;
use host::Monotonic;

mod real;

/// Simulated kernel half, on two cores.
struct Made {
    cores: Vec<Core>,
    tasks: Vec<Task>,
    threads: Vec<Thread>,
    state: State,
    members: RefCell<BTreeMap<u32, usize>>,
    /// Cores kicked, per call.
    kicks: RefCell<Vec<Vec<u32>>>,
    /// True if cores ignore kicks.
    deaf: Cell<bool>,
}

impl Kernel for Rc<Made> {
    fn cores(&self) -> &[Core] {
        &self.cores
    }

    fn tasks(&self) -> &[Task] {
        &self.tasks
    }

    fn threads(&self) -> &[Thread] {
        &self.threads
    }

    fn state(&self) -> &State {
        &self.state
    }

    fn kick(&self, kick: &Kick) -> io::Result<()> {
        self.kicks.borrow_mut().push(kick.cores().collect());
        if !self.deaf.get() {
            for core in kick.cores().map(|core| &self.cores[core as usize]) {
                core.seen.store(core.wanted().0, Relaxed);
            }
        }
        Ok(())
    }

    fn is_member(&self, thread: u32) -> io::Result<bool> {
        Ok(self.members.borrow().contains_key(&thread))
    }

    fn join(&self, thread: u32, _task: TaskId, slot: Option<usize>) -> io::Result<()> {
        self.members.borrow_mut().insert(thread, slot.expect("there is a free slot"));
        Ok(())
    }
}

/// LC and BE, with two cores for them.
struct World {
    kernel: Rc<Made>,
    scx: Scx,
    signals: Signals,
    programs: [Program; 2],
    begin: Time,
}

const LC: TaskId = TaskId(0);
const BE: TaskId = TaskId(1);
const CALM: Span = Span::from_micros(100);

fn run(core: u16, task: TaskId) -> Action {
    Action::Run { core: CoreId(core), task, keep: false }
}

impl World {
    fn new(test: &str) -> Self {
        let programs = [Program::start(), Program::start()];
        let kernel = Rc::new(Made {
            cores: (0..CORES).map(|_| Core::default()).collect(),
            tasks: (0..TASKS).map(|_| Task::default()).collect(),
            threads: (0..shared_layout::THREADS).map(|_| Thread::default()).collect(),
            state: State::default(),
            members: RefCell::default(),
            kicks: RefCell::default(),
            deaf: Cell::new(false),
        });
        let cores = [CoreId(0), CoreId(1)];
        let folder = std::env::temp_dir().join(format!("greenwave-scx-{test}-{}", std::process::id()));
        let journal = Journal::begin(&folder, &cores).unwrap();
        let specs = [TaskSpec::critical(1), TaskSpec::best_effort()];
        let setup = |n: usize| TaskSetup {
            spec: specs[n].clone(),
            selector: TaskSelector::Child(programs[n].id()),
            tail: None,
            queue_reports: Vec::new(),
            has_signal_page: false,
        };
        let tasks = vec![("lc".to_owned(), setup(0)), ("be".to_owned(), setup(1))];
        let begin = Monotonic::new().now();
        let layout = Layout::new(&cores).unwrap();
        let setup = Setup {
            real_time: false,
            layout,
            tasks,
            calm: CALM,
            period: Span::from_millis(2),
            sensor: Box::new(NullSensor),
            journal,
        };
        let scx = Scx::with(Box::new(kernel.clone()), setup, begin);
        let board = CoreAssignment::new(Topology::regular(1, 2, 1).unwrap(), specs.to_vec()).unwrap();
        Self { kernel, scx: scx.unwrap(), signals: Signals::of(&board), programs, begin }
    }

    fn at(&self, us: u64) -> Time {
        self.begin + Span::from_micros(us)
    }

    /// Words of the only thread of `task`.
    fn thread(&self, task: TaskId) -> &Thread {
        let slot = self.kernel.members.borrow()[&self.programs[task.index()].id()];
        &self.kernel.threads[slot]
    }

    /// That thread has been waiting since `us`.
    fn waits(&self, task: TaskId, us: u64) {
        self.thread(task).waits_ns.store(self.at(us).as_nanos(), Relaxed);
    }

    /// It has been running on `core` since `us`.
    fn runs(&self, task: TaskId, core: usize, us: u64) {
        self.thread(task).waits_ns.store(0, Relaxed);
        self.thread(task).runs_ns.store(self.at(us).as_nanos(), Relaxed);
        self.kernel.cores[core].runs.store(u64::from(task.0) + 1, Relaxed);
        self.kernel.cores[core].since_ns.store(self.at(us).as_nanos(), Relaxed);
    }

    /// It sleeps, and `core` idles.
    fn sleeps(&self, task: TaskId, core: usize, us: u64) {
        self.thread(task).waits_ns.store(0, Relaxed);
        self.thread(task).runs_ns.store(0, Relaxed);
        self.kernel.cores[core].runs.store(0, Relaxed);
        self.kernel.cores[core].since_ns.store(self.at(us).as_nanos(), Relaxed);
    }

    fn sense(&mut self, us: u64) {
        let now = self.at(us);
        self.scx.sense(now, &mut self.signals);
    }

    fn act(&mut self, us: u64, actions: &[Action]) {
        let now = self.at(us);
        self.scx.act(now, actions);
    }

    fn kicks(&self) -> Vec<Vec<u32>> {
        std::mem::take(&mut self.kernel.kicks.borrow_mut())
    }
}

impl Drop for World {
    fn drop(&mut self) {
        let _ = self.scx.put_back();
        let _ = self.scx.taken.journal.path().parent().map(std::fs::remove_dir_all);
    }
}

#[test]
fn decisions_are_words_and_one_kick_of_the_cores_that_they_change() {
    let mut world = World::new("words");
    assert_eq!(world.kernel.members.borrow().len(), 2);
    world.act(0, &[run(0, LC), run(1, BE)]);
    assert_eq!(world.kicks(), [[0, 1]]);
    let wanted = |world: &World| [0, 1].map(|core| world.kernel.cores[core].wanted().task());
    assert_eq!(wanted(&world), [Some(LC), Some(BE)]);
    assert_eq!([0, 1].map(|task| world.kernel.tasks[task].get()), [[0], [1]]);
    world.act(10, &[run(0, BE)]);
    assert_eq!((wanted(&world), world.kicks()), ([Some(BE), Some(BE)], vec![vec![0]]));
    assert_eq!([0, 1].map(|task| world.kernel.tasks[task].get()), [vec![], vec![0, 1]]);
    world.act(20, &[Action::Idle { core: CoreId(1) }]);
    assert_eq!((wanted(&world), world.kicks()), ([Some(BE), None], vec![vec![1]]));
    world.act(30, &[]);
    assert_eq!(world.kicks(), Vec::<Vec<u32>>::new(), "nothing changes, no core is kicked");
}

#[test]
fn a_waiting_thread_is_seen_with_its_age_and_an_idle_core_is_kicked() {
    let mut world = World::new("waits");
    world.act(0, &[run(0, LC)]);
    world.kicks();
    world.waits(LC, 10);
    world.sense(30);
    let signals = world.signals.tasks[0];
    assert_eq!((signals.delay, signals.runnable), (Span::from_micros(20), 1));
    assert_eq!(world.kicks(), Vec::<Vec<u32>>::new(), "it may be about to run");
    world.sense(70);
    assert_eq!(world.kicks(), [[0]]);
    world.runs(LC, 0, 75);
    world.sense(200);
    let signals = world.signals.tasks[0];
    assert_eq!((signals.delay, signals.runnable), (Span::ZERO, 1));
    assert_eq!(world.kicks(), Vec::<Vec<u32>>::new());
}

#[test]
fn a_core_that_does_not_look_is_kicked_again_less_and_less_often() {
    let mut world = World::new("deaf");
    world.kernel.deaf.set(true);
    world.act(0, &[run(0, LC)]);
    (1..=1000).for_each(|n| world.sense(n * 10));
    let kicks = world.kicks();
    assert!(kicks.iter().all(|kick| *kick == [0]) && (5..12).contains(&kicks.len()), "{kicks:?}");
    world.kernel.deaf.set(false);
    world.sense(100_000);
    world.kicks();
    world.sense(200_000);
    assert_eq!(world.kicks(), Vec::<Vec<u32>>::new());
}

#[test]
fn a_core_is_kicked_if_its_former_task_still_runs_there() {
    let mut world = World::new("lost");
    world.act(0, &[run(0, LC)]);
    world.kicks();
    world.runs(BE, 0, 10);
    world.sense(60);
    assert_eq!(world.kicks(), [[0]]);
}

#[test]
fn a_core_without_work_is_given_back_once_it_was_calm() {
    let mut world = World::new("calm");
    world.act(0, &[run(0, LC), Action::Run { core: CoreId(1), task: BE, keep: true }]);
    world.runs(LC, 0, 5);
    world.sense(1000);
    assert_eq!(world.signals.cores[0].yielded, None);
    world.sleeps(LC, 0, 1050);
    world.sense(1100);
    assert_eq!(world.signals.cores[0].yielded, None, "not yet for long");
    world.sense(1150);
    assert_eq!((world.signals.cores[0].yielded, world.signals.cores[1].yielded), (Some(LC), None));
    assert_eq!(world.kernel.cores[0].wanted().task(), None);
    world.sense(1200);
    assert_eq!(world.signals.cores[0].yielded, None, "it was reported once");
}

#[test]
fn a_thread_that_waits_for_long_without_a_core_is_stopped_on_one() {
    let mut world = World::new("park");
    world.act(0, &[run(0, LC), run(1, LC)]);
    world.waits(BE, 10);
    world.sense(900_000);
    assert!(!world.scx.is_parked(BE));
    let late = 1_100_000;
    world.sense(late);
    assert_eq!(world.scx.is_parked(BE), world.scx.can_park(BE));
    let lent = |world: &World| (0..2).find(|core| world.kernel.cores[*core].wanted().task() == Some(BE));
    let core = lent(&world).expect("a core to be frozen on");
    world.runs(BE, core, late + 10);
    world.sleeps(BE, core, late + 20);
    world.sense(late + 30);
    assert_eq!(lent(&world), None, "it stands still and needs none");
    // A frozen task still has work, and runs again with its first core.
    assert_eq!(world.signals.tasks[1].runnable > 0, world.scx.can_park(BE));
    world.act(late + 40, &[run(1, BE)]);
    assert!(!world.scx.is_parked(BE));
}

#[test]
fn what_threads_did_is_added_up_and_outlives_them() {
    let mut world = World::new("sums");
    let did = |world: &World, ran: u64, waited: u64, turns: u64| {
        let words = world.thread(BE);
        words.ran_ns.store(ran, Relaxed);
        words.waited_ns.store(waited, Relaxed);
        words.turns.store(turns, Relaxed);
    };
    did(&world, 1000, 100, 1);
    world.sense(10);
    did(&world, 5000, 2100, 3);
    world.sense(20);
    assert_eq!(world.signals.tasks[1].delay, Span::from_micros(1), "two waits of 2 µs together");
    did(&world, 7000, 2100, 3);
    world.thread(BE).free();
    world.sense(30);
    world.sense(40);
    let figures = *world.scx.figures(BE);
    assert_eq!((figures.ran_ns, figures.waited_ns, figures.turns), (7000, 2100, 3));
    assert_eq!(world.scx.take_longest(BE), Span::from_micros(1));
}

#[test]
fn a_scheduler_that_the_kernel_took_off_says_why() {
    let world = World::new("off");
    assert_eq!(world.scx.lost(), None);
    world.kernel.state.kind.store(1026, Relaxed);
    world.kernel.state.reason[0].store(b'x', Relaxed);
    assert_eq!(world.scx.lost().as_deref(), Some("x"));
}

#[test]
fn a_kernel_without_sched_ext_is_refused_with_what_would_have_it() {
    let error = allowed(Path::new("/no/such")).unwrap_err();
    assert_eq!(error.to_string(), "scx: this kernel has no sched_ext");
    assert!(error.advice().unwrap().contains("CONFIG_SCHED_CLASS_EXT"));
    let folder = std::env::temp_dir().join(format!("greenwave-scx-sys-{}", std::process::id()));
    std::fs::create_dir_all(folder.join("root")).unwrap();
    std::fs::write(folder.join("state"), "disabled\n").unwrap();
    assert_eq!(allowed(&folder), Ok(()));
    std::fs::write(folder.join("state"), "enabled\n").unwrap();
    std::fs::write(folder.join("root/ops"), "rusty_1.0\n").unwrap();
    let error = allowed(&folder).unwrap_err().to_string();
    assert!(error.contains("rusty_1.0 is already loaded (enabled)"), "{error}");
    std::fs::remove_dir_all(folder).unwrap();
}
