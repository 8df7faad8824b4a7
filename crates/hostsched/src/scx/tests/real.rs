//! The scheduler in this kernel, where sched_ext is available; `make test-vm` provides such a kernel.

use std::io::Write;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::process::{Pid, Signal, kill_process_group};

use super::*;
use host::affinity;
use host::proc::Ledger;

const SPINS: &str = "while :; do :; done";
/// Timeout of each step, many times its usual duration, in a virtual machine too.
const LIMIT: Span = Span::from_secs(60);
/// Number of repetitions of each operation.
const TURNS: usize = 100;

/// Only one scheduler can be loaded at a time.
static TURN: Mutex<()> = Mutex::new(());

/// A shell with its children, killed on drop.
struct Shell(Child);

impl Shell {
    fn start(text: &str) -> Self {
        let mut command = Command::new("sh");
        command.args(["-c", text]).stdin(Stdio::piped()).process_group(0);
        Self(command.spawn().unwrap())
    }

    fn id(&self) -> u32 {
        self.0.id()
    }

    fn tell(&mut self) {
        self.0.stdin.as_mut().unwrap().write_all(b"now\n").unwrap();
    }

    fn ran(&self) -> u64 {
        Ledger::open(self.id(), self.id()).unwrap().read().unwrap().ran_ns
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        let _ = kill_process_group(Pid::from_child(&self.0), Signal::KILL);
        let _ = self.0.wait();
    }
}

/// LC and BE on two cores of this machine; the test itself uses the first of its cores.
struct Rig {
    scx: Scx,
    signals: Signals,
    shells: [Shell; 2],
    cores: Vec<CoreId>,
    _turn: MutexGuard<'static, ()>,
}

impl Rig {
    /// `None`, with a message, where sched_ext is not available.
    fn new(test: &str, lc: &str) -> Option<Self> {
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let ours = affinity::cores().unwrap();
        let why = match check() {
            Err(e) => Some(e.to_string()),
            Ok(()) if ours.len() < 3 => Some(format!("{} cores are less than 3", ours.len())),
            Ok(()) => None,
        };
        if let Some(why) = why {
            let _ = std::io::stderr().write_all(format!("skipped: {test}: {why}\n").as_bytes());
            return None;
        }
        affinity::pin(ours[0]).unwrap();
        let cores = ours[1..3].to_vec();
        let shells = [Shell::start(lc), Shell::start(SPINS)];
        let folder = std::env::temp_dir().join(format!("greenwave-scx-{test}-{}", std::process::id()));
        let journal = Journal::begin(&folder, &cores).unwrap();
        let specs = [TaskSpec::critical(1), TaskSpec::best_effort()];
        let setup = |n: usize| TaskSetup {
            spec: specs[n].clone(),
            selector: TaskSelector::Child(shells[n].id()),
            tail: None,
            queue_reports: Vec::new(),
            has_signal_page: false,
        };
        let tasks = vec![("lc".to_owned(), setup(0)), ("be".to_owned(), setup(1))];
        let layout = Layout::new(&cores).unwrap();
        let board = CoreAssignment::new(layout.topology().clone(), specs.to_vec()).unwrap();
        let now = Monotonic::new().now();
        let setup = Setup {
            real_time: false,
            layout,
            tasks,
            calm: Span::from_secs(3600),
            period: Span::from_millis(2),
            sensor: Box::new(NullSensor),
            journal,
        };
        let scx = Scx::new(setup, now).unwrap();
        Some(Self { scx, signals: Signals::of(&board), shells, cores, _turn: turn })
    }

    fn act(&mut self, actions: &[Action]) {
        self.scx.act(Monotonic::new().now(), actions);
    }

    /// Task that runs on `core`.
    fn on(&self, core: usize) -> Option<TaskId> {
        self.scx.kernel.as_ref().unwrap().cores()[self.cores[core].0 as usize].runs()
    }

    fn load(&self, task: TaskId) -> threads::Load {
        self.scx.threads.load(task)
    }

    #[track_caller]
    fn until(&mut self, what: &str, mut done: impl FnMut(&Self) -> bool) {
        let (clock, mut signals) = (Monotonic::new(), std::mem::take(&mut self.signals));
        let end = clock.now() + LIMIT;
        loop {
            self.scx.sense(clock.now(), &mut signals);
            if done(self) {
                break;
            }
            let lost = self.scx.lost();
            assert!(clock.now() < end && lost.is_none(), "in vain: {what} ({lost:?})");
            std::thread::yield_now();
        }
        self.signals = signals;
    }

    /// Gives `core` to the other task and then to `task`: `task` runs, and the other one stands still.
    #[track_caller]
    fn runs_alone(&mut self, core: u16, task: TaskId) {
        let (its, other) = (task.index(), 1 - task.index());
        for task in [TaskId(other as u16), task] {
            self.act(&[run(core, task), idle(1 - core)]);
            self.until("it has the core", |rig| {
                rig.on(core.into()) == Some(task) && rig.load(task).running == 1
            });
        }
        let (begin, others) = (self.shells[its].ran(), self.shells[other].ran());
        self.until("it goes on", |rig| rig.shells[its].ran() > begin + 20_000_000);
        assert_eq!(self.shells[other].ran(), others, "a task without a core runs");
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        let folder = self.scx.taken.journal.path().parent().map(Path::to_path_buf);
        let _ = self.scx.put_back();
        let _ = folder.map(std::fs::remove_dir_all);
    }
}

fn idle(core: u16) -> Action {
    Action::Idle { core: CoreId(core) }
}

#[test]
fn a_core_runs_only_the_task_that_it_was_given_to() {
    let Some(mut rig) = Rig::new("a_core_runs_the_task_that_it_was_given_to_…", SPINS) else { return };
    rig.until("no task has a core", |rig| rig.load(LC).waiting == 1 && rig.load(BE).waiting == 1);
    // Preempt.
    for turn in 0..TURNS {
        let task = [LC, BE][turn % 2];
        rig.act(&[run(0, task)]);
        rig.until("who has the core has it from the other", |rig| rig.on(0) == Some(task));
    }
    rig.runs_alone(0, BE);
    // Migrate.
    for turn in 0..TURNS as u16 {
        let (to, from) = (1 - turn % 2, turn % 2);
        rig.act(&[run(to, BE), idle(from)]);
        rig.until("it moves", |rig| rig.on(to as usize) == Some(BE) && rig.on(from as usize).is_none());
    }
    rig.runs_alone(0, BE);
    // Idle, and wake.
    for _ in 0..TURNS {
        rig.act(&[idle(0), idle(1)]);
        rig.until("both idle", |rig| rig.on(0).is_none() && rig.on(1).is_none());
        rig.act(&[run(1, LC)]);
        rig.until("it wakes", |rig| rig.on(1) == Some(LC));
    }
    rig.runs_alone(1, LC);
    println!("looked again by themselves: {}", rig.scx.stale());
    let before = [SchedPolicy::EXT; 2];
    let class = |rig: &Rig| [0, 1].map(|n| SchedPolicy::of(pid(rig.shells[n].id())).unwrap());
    assert_eq!(class(&rig), before);
    rig.scx.put_back().unwrap();
    assert_eq!(class(&rig), [SchedPolicy::OTHER; 2]);
    let state = std::fs::read_to_string(Path::new(SYS).join("state")).unwrap();
    assert_eq!(state.trim(), "disabled");
    let ran = rig.shells[1].ran();
    rig.until("both run as before", |rig| rig.shells[1].ran() > ran);
}

#[test]
fn a_sleeping_thread_is_seen_and_waits_are_measured_from_their_begin() {
    let test = "who_sleeps_is_seen_to_…";
    let Some(mut rig) = Rig::new(test, "while read -r line; do :; done") else { return };
    let id = rig.shells[0].id();
    rig.until("it sleeps", |rig| rig.load(LC).waiting + rig.load(LC).running == 0);
    let begin = Monotonic::new().now();
    rig.shells[0].tell();
    rig.until("it wakes and waits", |rig| rig.load(LC).waiting == 1);
    let longest = Span::from_micros(500);
    rig.until("it grows older", |rig| rig.load(LC).delay > longest);
    rig.act(&[run(0, LC)]);
    rig.until("it sleeps again", |rig| rig.scx.slept(id).is_some_and(|at| at > begin));
    rig.until("its wait was counted", |rig| rig.scx.figures(LC).waited_ns > longest.as_nanos());
    // Now it has a core when it wakes.
    for _ in 0..TURNS {
        let begin = Monotonic::new().now();
        rig.shells[0].tell();
        rig.until("it sleeps again", |rig| rig.scx.slept(id).is_some_and(|at| at > begin));
    }
}

#[test]
fn what_a_task_starts_is_the_tasks_from_its_first_moment() {
    let test = "what_a_task_starts_is_the_tasks_…";
    let Some(mut rig) = Rig::new(test, "while read -r line; do (while :; do :; done) & done") else { return };
    rig.act(&[run(0, LC)]);
    for count in 1..=3 {
        rig.shells[0].tell();
        let both = |rig: &Rig| rig.load(LC).waiting + rig.load(LC).running == count;
        rig.until("one more has work", both);
    }
    // They take turns on the only core of their task.
    let turns = rig.scx.figures(LC).turns;
    rig.until("turns are taken", |rig| rig.scx.figures(LC).turns > turns + 9);
    rig.until("they have no other", |rig| rig.on(1).is_none());
    rig.act(&[run(1, LC)]);
    rig.until("two run", |rig| rig.load(LC).running == 2);
}
