//! Children started after the takeover inherit our settings: their class and cores are restored all the
//! same.

//~ sched: best-effort threads leave the cores of latency-critical ones, and every setting is restored

use super::real_time::{BUSY, REGULAR};
use super::*;

/// Timeout of each step, many times its usual duration.
const LIMIT: Span = Span::from_secs(30);

impl Program {
    /// A shell that sleeps until it is signalled to start `command`.
    fn starts(command: &str) -> Self {
        let shell = format!("read told; {command} & wait");
        let started = Command::new("sh").args(["-c", shell.as_str()]).stdin(Stdio::piped()).spawn();
        Self(started.unwrap())
    }

    /// Signals it to start the command; the number of the new process.
    fn start_it(&mut self) -> u32 {
        drop(self.0.stdin.take());
        let clock = Monotonic::new();
        let end = clock.now() + LIMIT;
        loop {
            if let Some(&child) = proc::family(self.id()).get(1) {
                return child;
            }
            assert!(clock.now() < end, "no child was started");
            std::thread::yield_now();
        }
    }
}

/// Samples the two tasks until `done`; false after the limit.
fn sensed_until(manager: &mut Affinity, done: impl Fn(&Affinity) -> bool) -> bool {
    let topology = manager.taken.layout.topology().clone();
    let board =
        sched::cores::CoreAssignment::new(topology, vec![TaskSpec::critical(1), TaskSpec::best_effort()]);
    let (clock, mut signals) = (Monotonic::new(), Signals::of(&board.unwrap()));
    let end = clock.now() + LIMIT;
    while !done(manager) {
        if clock.now() >= end {
            return false;
        }
        manager.sense(clock.now(), &mut signals);
        std::thread::yield_now();
    }
    true
}

fn run(core: usize, task: u16) -> Action {
    Action::Run { core: CoreId(core as u16), task: TaskId(task), keep: false }
}

#[test]
fn what_be_starts_is_put_back_as_if_it_had_been_started_without_us() {
    if !proc::may_schedule() {
        println!("skipped: what_be_starts_is_put_back_as_if_it_had_been_started_without_us: no CAP_SYS_NICE");
        return;
    }
    let (lc, mut be) = (Program::start(), Program::starts("sleep 600"));
    let before = (be.class(), be.cores());
    let (_folder, mut manager, cores) = manager("be-starts", &lc, &be, false);
    let now = Monotonic::new().now();
    let all: Vec<Action> = (0..cores.len()).map(|core| run(core, 1)).collect();
    manager.act(now, &all);
    manager.act(now, &[run(0, 0)]);
    let given = be.cores();
    let child = be.start_it();
    assert_eq!((class_of(child), cores_of(child)), (SchedPolicy::IDLE, given), "it has inherited all");
    // Before it is found, its task moves once more.
    manager.act(now, &[run(0, 1)]);
    assert_eq!(be.cores(), cores);
    assert!(sensed_until(&mut manager, |manager| manager.figures(TaskId(1)).threads == 2));
    assert_eq!((class_of(child), cores_of(child)), (SchedPolicy::IDLE, cores));
    manager.act(now, &[run(0, 0)]);
    let restored = manager.put_back().unwrap();
    assert!(restored.threads >= 3 && restored.failed == 0, "{restored:?}");
    assert_eq!((class_of(child), cores_of(child)), before);
    assert_eq!((be.class(), be.cores()), before);
}

#[test]
fn what_be_starts_and_no_look_finds_is_put_back_as_well() {
    if !proc::may_schedule() {
        println!("skipped: what_be_starts_and_no_look_finds_is_put_back_as_well: no CAP_SYS_NICE");
        return;
    }
    let (lc, mut be) = (Program::start(), Program::starts("sleep 600"));
    let before = (be.class(), be.cores());
    let (_folder, mut manager, _) = manager("be-late", &lc, &be, false);
    let child = be.start_it();
    assert_eq!(class_of(child), SchedPolicy::IDLE, "it has inherited that");
    assert_eq!(manager.put_back().unwrap().failed, 0);
    assert_eq!((class_of(child), cores_of(child)), before);
}

#[test]
fn what_real_time_lc_starts_has_a_level_of_its_own_and_is_in_the_fair_class_again() {
    for (name, command, keeps_core) in
        [("sleeps", "sleep 600", true), ("spins", "while :; do :; done", false)]
    {
        let (mut lc, be) = (Program::starts(command), Program::start());
        let before = lc.class();
        let (_folder, mut manager, _) = manager(&format!("lc-starts-{name}"), &lc, &be, true);
        if manager.lacks_real_time(TaskId(0)) {
            println!("skipped: what_real_time_lc_starts_…: {name}: no real-time budget in this cgroup");
            continue;
        }
        assert_eq!(lc.class(), REGULAR);
        let child = lc.start_it();
        assert_eq!(class_of(child), REGULAR, "it has inherited that");
        assert!(sensed_until(&mut manager, |manager| manager.figures(TaskId(0)).threads == 2));
        if keeps_core {
            let end = Monotonic::new().now() + RESCAN * 3;
            assert!(sensed_until(&mut manager, |_| Monotonic::new().now() >= end));
            assert_eq!(class_of(child), REGULAR, "it sleeps");
        } else {
            assert!(sensed_until(&mut manager, |_| class_of(child) == BUSY), "it never sleeps");
        }
        assert_eq!(manager.put_back().unwrap().failed, 0);
        assert_eq!([lc.class(), class_of(child)], [before, before]);
    }
}
