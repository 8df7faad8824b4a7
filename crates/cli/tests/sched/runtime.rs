//! `greenwave sched` and a program on our runtime: the reports of its workers are read, they leave
//! their cores on request, and after any kind of end no request remains.

//~ sched: a program on the runtime continues when its scheduler ends, hangs or is killed

use std::process::{Command, Stdio};

use host::signal_page::SharedPage;
use host::{Monotonic, proc};
use queueing::{Clock, Time};
use rustix::process::{Pid, Signal, kill_process};
use sched::cores::worker_signals::{SignalMemory, WorkerSlot};
use serde_json::Value;

use super::{GREENWAVE, Program, Scratch, greenwave, journals, skipped, until};

/// A program of two workers that never idle, as LC with one core; a busy loop as BE; and the
/// scheduler.
struct Shared {
    daemon: Program,
    be: Program,
    lc: Program,
    page: SharedPage,
    test: &'static str,
    log: Scratch,
    _config: Scratch,
}

impl Shared {
    fn begin(test: &'static str) -> Self {
        let lc = Command::new(GREENWAVE).args(["bench", "sched-part", "tasks"]).stdin(Stdio::null()).spawn();
        let (lc, be) = (Program(lc.expect("greenwave starts")), Program::spins());
        let mut page = None;
        until("the program's signal page", || {
            page = page.take().or_else(|| SharedPage::of_process(lc.0.id()).ok());
            page.as_ref()
                .is_some_and(|page| page.page().slots().iter().all(|lane| goes_on_after(lane, Time::ZERO)))
        });
        // Long rounds, for a machine that is busy with other tests.
        let config = format!(
            "mechanism = \"runtime\"\nperiod = \"500us\"\nsensor = \"none\"\n\
             [[tasks]]\nname = \"lc\"\nclass = \"LC\"\nguaranteed = 1\nburstable = 0\nsignal_page = true\npid = {}\n\
             [[tasks]]\nname = \"be\"\nclass = \"BE\"\npid = {}\n",
            lc.0.id(),
            be.0.id()
        );
        let (config, log) =
            (Scratch::new(&format!("{test}.toml"), &config), Scratch::new(&format!("{test}.log"), ""));
        let args = [
            "sched",
            "--config",
            config.path(),
            "--state-dir",
            &journals(test),
            "--json",
            "--interval",
            "20ms",
        ];
        let out = std::fs::File::create(log.path()).expect("a log");
        let daemon = Command::new(GREENWAVE).args(args).stdout(out).stderr(Stdio::inherit()).spawn();
        let daemon = Program(daemon.expect("greenwave starts"));
        Self { daemon, be, lc, page: page.expect("it was found"), test, log, _config: config }
    }

    fn lanes(&self) -> &[WorkerSlot] {
        self.page.page().slots()
    }

    /// Number of workers asked to leave their cores.
    fn asked(&self) -> usize {
        self.lanes().iter().filter(|lane| is_asked(lane)).count()
    }

    /// Waits until one of the two is parked.
    fn parks(&self) {
        let is_parked = |lane: &WorkerSlot| {
            let waits_for_a_core =
                lane.read().is_some_and(|signals| signals.request.is_none() && signals.runnable > 0);
            is_asked(lane) && lane.park.is_done() && waits_for_a_core
        };
        until("a worker that is parked, with work", || self.lanes().iter().any(is_parked));
    }

    /// Kills the scheduler, and also its guardian if `both`.
    fn kill(&mut self, both: bool) {
        let mut family = proc::family(self.daemon.0.id());
        family.retain(|&id| both || id == self.daemon.0.id());
        // The guardian before the daemon.
        family.reverse();
        for id in family {
            let _ = kill_process(Pid::from_raw(id as i32).unwrap(), Signal::KILL);
        }
        self.daemon.0.wait().unwrap();
    }

    /// Values of LC in all status lines so far.
    fn lc_samples(&self) -> Vec<Value> {
        let text = std::fs::read_to_string(self.log.path()).unwrap();
        // The last line may be incomplete.
        let lines = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        lines.filter(|line| line["event"] == "status").map(|line| line["tasks"][0].clone()).collect()
    }
}

fn is_asked(lane: &WorkerSlot) -> bool {
    lane.park.word().load(std::sync::atomic::Ordering::Acquire) & 1 == 1
}

/// True if the worker begins a run after `at`.
fn goes_on_after(lane: &WorkerSlot, at: Time) -> bool {
    lane.read().is_some_and(|signals| signals.request.is_some_and(|since| since > at))
}

#[test]
fn workers_are_observed_parked_and_released_at_the_end() {
    if !proc::may_schedule() {
        return skipped("workers_are_heard_parked_and_let_go_…", "no CAP_SYS_NICE");
    }
    let before = |shared: &Shared| (shared.lc.scheduled().1, shared.be.scheduled());
    let mut shared = Shared::begin("runtime");
    shared.parks();
    let has_parked_a_worker = |task: &Value| {
        let waited = task["longest_ns"].as_u64().is_some_and(|longest| longest > 10_000);
        task["workers"] == 2 && task["workers_parked"] == 1 && task["cores"] == 1 && waited
    };
    until("a status that says so", || shared.lc_samples().iter().any(has_parked_a_worker));
    kill_process(shared.daemon.pid().unwrap(), Signal::INT).unwrap();
    assert_eq!(shared.daemon.0.wait().unwrap().code(), Some(0));
    assert_eq!((shared.asked(), shared.page.page().is_leased(Monotonic::new().now())), (0, false));
    let ended = Monotonic::new().now();
    until("both go on", || shared.lanes().iter().all(|lane| goes_on_after(lane, ended)));
    let text = std::fs::read_to_string(shared.log.path()).unwrap();
    assert!(text.lines().next().unwrap().contains("\"mechanism\":\"runtime\""), "{text}");
    assert!(text.contains("resumed the workers of 1 program"), "{text}");
    let other = Program::spins();
    let normal = other.scheduled();
    assert_eq!(before(&shared), (normal.1.clone(), normal));
}

#[test]
fn workers_of_a_killed_scheduler_are_let_go_by_its_guardian() {
    if !proc::may_schedule() {
        return skipped("workers_of_a_killed_scheduler_are_let_go_…", "no CAP_SYS_NICE");
    }
    let mut shared = Shared::begin("runtime-killed");
    shared.parks();
    shared.kill(false);
    until("no request remains", || shared.asked() == 0);
    let ended = Monotonic::new().now();
    until("both go on", || shared.lanes().iter().all(|lane| goes_on_after(lane, ended)));
}

#[test]
fn workers_go_on_by_themselves_when_scheduler_and_guardian_are_killed() {
    if !proc::may_schedule() {
        return skipped("workers_go_on_by_themselves_…", "no CAP_SYS_NICE");
    }
    let mut shared = Shared::begin("runtime-both-killed");
    shared.parks();
    shared.kill(true);
    let ended = Monotonic::new().now();
    until("both go on", || shared.lanes().iter().all(|lane| goes_on_after(lane, ended)));
    let out = greenwave(&["sched", "restore", "--state-dir", &journals(shared.test)]);
    let stdout = String::from_utf8_lossy(&out.stdout);
    assert!(stdout.contains("resumed the workers of 1 program\n"), "{stdout}");
    assert_eq!(shared.asked(), 0);
}
