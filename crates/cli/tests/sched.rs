//! `greenwave sched` and real programs: they share cores, and after any kind of end they are
//! scheduled as before.

#[path = "sched/busy.rs"]
mod busy;
#[path = "sched/runtime.rs"]
mod by_workers;
mod common;
#[path = "sched/ends.rs"]
mod ends;
#[path = "sched/handoff.rs"]
mod handoff;
#[path = "sched/scx.rs"]
mod in_kernel;
#[path = "sched/queue_reports.rs"]
mod queue_reports;
#[path = "sched/refused.rs"]
mod refused;
#[path = "sched/reload.rs"]
mod reload;
#[path = "sched/sandbox.rs"]
mod sandbox;
#[path = "common/schema.rs"]
mod schema;
#[path = "common/scratch.rs"]
mod scratch;
#[path = "common/threads.rs"]
mod threads;

use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use common::greenwave;
use host::sched_policy::SchedPolicy;
use host::{affinity, proc};
use hostsched::{Hierarchy, cpulist};
use queueing::CoreId;
use rustix::process::{Pid, Resource, Signal, getrlimit, kill_process};
use scratch::Scratch;
use serde_json::Value;

const GREENWAVE: &str = env!("CARGO_BIN_EXE_greenwave");
const SPINS: &str = "while :; do :; done";
/// Timeout of each step, many times its usual duration.
const LIMIT: Duration = Duration::from_secs(60);

/// Reports a skipped test, bypassing the test harness, which hides the output of passing tests.
fn skipped(test: &str, why: &str) {
    let _ = std::io::stderr().write_all(format!("skipped: {test}: {why}\n").as_bytes());
}

/// Waits until `program`'s CPU time has grown.
#[track_caller]
fn goes_on(program: &Program) {
    let ran =
        || proc::Ledger::open(program.0.id(), program.0.id()).ok()?.read().map(|account| account.ran_ns);
    let begin = ran().expect("it runs");
    until("it goes on", || ran().expect("it runs") > begin + 1_000_000);
}

/// A folder of undo logs of the test.
fn journals(test: &str) -> String {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("journals-{test}")).display().to_string()
}

/// A process that is killed on drop.
struct Program(Child);

impl Program {
    fn spins() -> Self {
        Self(Command::new("sh").args(["-c", SPINS]).stdin(Stdio::null()).spawn().expect("sh starts"))
    }

    fn pid(&self) -> Option<Pid> {
        Some(Pid::from_child(&self.0))
    }

    /// All settings that a scheduler may change: class, cores, folders.
    fn scheduled(&self) -> (SchedPolicy, Vec<CoreId>, Vec<Option<PathBuf>>) {
        let cores = rustix::thread::sched_getaffinity(self.pid()).expect("it runs");
        let folders = [Hierarchy::freezer(), Hierarchy::idle()];
        let folders = folders.map(|tree| tree.and_then(|tree| tree.folder_of(self.0.id())));
        (SchedPolicy::of(self.pid()).expect("it runs"), cpulist::of_set(&cores), folders.to_vec())
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Waits until `done`; a failure names `what`.
#[track_caller]
fn until(what: &str, mut done: impl FnMut() -> bool) {
    let end = Instant::now() + LIMIT;
    while !done() {
        assert!(Instant::now() < end, "in vain: {what}");
        std::thread::park_timeout(Duration::from_millis(2));
    }
}

/// A configuration with `program` as a BE task, by process id.
fn best_effort(test: &str, program: &Program) -> Scratch {
    let id = program.0.id();
    let text = format!("sensor = \"none\"\n[[tasks]]\nname = \"be\"\nclass = \"BE\"\npid = {id}\n");
    Scratch::new(&format!("{test}.toml"), &text)
}

/// A scheduler that manages `program`.
fn daemon(test: &str, program: &Program) -> (Program, Scratch) {
    let config = best_effort(test, program);
    let args = ["sched", "--config", config.path(), "--state-dir", &journals(test)];
    let daemon = Command::new(GREENWAVE).args(args).stdout(Stdio::null()).stderr(Stdio::inherit()).spawn();
    let daemon = Program(daemon.expect("greenwave starts"));
    until("BE in the idle class", || program.scheduled().0 == SchedPolicy::IDLE);
    (daemon, config)
}

//~ sched: a killed scheduler leaves nothing changed
//~ faults: a killed scheduler, also without its guardian, leaves nothing changed
#[test]
fn a_scheduler_that_is_killed_leaves_nothing_changed() {
    if !proc::may_schedule() {
        return skipped("a_scheduler_that_is_killed_leaves_nothing_changed", "no CAP_SYS_NICE");
    }
    let program = Program::spins();
    let before = program.scheduled();
    let (mut daemon, _config) = daemon("killed", &program);
    daemon.0.kill().unwrap();
    daemon.0.wait().unwrap();
    until("its guardian puts everything back", || program.scheduled() == before);
    let no_journal = || std::fs::read_dir(journals("killed")).is_ok_and(|folder| folder.count() == 0);
    until("no journal is left", no_journal);
}

//~ sched: a killed scheduler leaves nothing changed
//~ faults: a killed scheduler, also without its guardian, leaves nothing changed
#[test]
fn the_next_start_restores_after_a_killed_scheduler_and_guardian() {
    if !proc::may_schedule() {
        return skipped("a_scheduler_that_is_killed_with_its_guardian_…", "no CAP_SYS_NICE");
    }
    let program = Program::spins();
    let before = program.scheduled();
    let (mut daemon, _config) = daemon("both-killed", &program);
    let mut family = proc::family(daemon.0.id());
    // The guardian before the daemon.
    family.reverse();
    assert_eq!(family.len(), 2, "a daemon and its guardian");
    for id in family {
        let _ = kill_process(Pid::from_raw(id as i32).unwrap(), Signal::KILL);
    }
    daemon.0.wait().unwrap();
    assert_ne!(program.scheduled(), before);
    let out = greenwave(&["sched", "restore", "--state-dir", &journals("both-killed")]);
    let stdout = String::from_utf8_lossy(&out.stdout);
    assert!(stdout.contains(" has ended: ") && stdout.contains(": restored "), "{stdout}");
    assert_eq!(program.scheduled(), before);
    let out = greenwave(&["sched", "restore", "--state-dir", &journals("both-killed")]);
    assert_eq!(String::from_utf8_lossy(&out.stdout), "nothing to restore\n");
}

//~ sched: a killed scheduler leaves nothing changed
//~ faults: a second guard, scheduler, egress attachment or view is refused and changes nothing
#[test]
fn ctrl_c_ends_commands_and_puts_others_back_and_cores_are_managed_once() {
    if !proc::may_schedule() {
        return skipped("ctrl_c_ends_commands_and_puts_others_back_…", "no CAP_SYS_NICE");
    }
    let program = Program::spins();
    let before = program.scheduled();
    let (mut daemon, config) = daemon("ctrl-c", &program);
    let out = greenwave(&["sched", "--config", config.path(), "--state-dir", &journals("ctrl-c")]);
    let stderr = String::from_utf8_lossy(&out.stderr);
    assert_eq!(out.status.code(), Some(2), "{stderr}");
    assert!(
        stderr.contains(&format!("are already managed by greenwave {}\n  try: ", daemon.0.id())),
        "{stderr}"
    );
    kill_process(daemon.pid().unwrap(), Signal::INT).unwrap();
    assert_eq!(daemon.0.wait().unwrap().code(), Some(0));
    assert_eq!(program.scheduled(), before);
}

/// Runs a configuration of commands for `lasts`; returns the printed lines of JSON.
fn shared(test: &str, config: &str, lasts: &str) -> Vec<Value> {
    let file = Scratch::new(&format!("{test}.toml"), config);
    let args = [
        "sched",
        "--config",
        file.path(),
        "--state-dir",
        &journals(test),
        "--json",
        "--interval",
        "50ms",
        "--duration",
        lasts,
    ];
    let out = greenwave(&args);
    assert_eq!(out.status.code(), Some(0), "{}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8_lossy(&out.stdout)
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect()
}

//~ sched: `greenwave sched` manages commands, processes and cgroups and reports its mechanism and limits
#[test]
fn commands_share_cores_and_the_choices_are_printed() {
    let config = format!(
        "[[tasks]]\nname = \"lc\"\nclass = \"LC\"\nguaranteed = 1\ncommand = [\"sh\", \"-c\", \"{SPINS}\"]\n\
         [[tasks]]\nname = \"be\"\nclass = \"BE\"\ncommand = [\"sh\", \"-c\", \"{SPINS}\"]\n"
    );
    let lines = shared("commands", &config, "400ms");
    let (first, last) = (&lines[0], lines.last().unwrap());
    assert_eq!((&first["event"], &first["mechanism"]), (&"start".into(), &"affinity".into()));
    assert!(["mechanism_why", "sensor", "sensor_why"].iter().all(|key| first[key].is_string()), "{first}");
    assert_eq!(last["event"], "end");
    // BE has the remaining cores, perhaps none.
    let lc = &last["tasks"][0];
    assert!(lc["name"] == "lc" && lc["cpu"].as_f64().unwrap() > 0.0, "{last}");
    let statuses = lines.iter().filter(|line| line["event"] == "status");
    assert!(statuses.filter(|line| line["tasks"][1]["threads"] == 1).count() > 1, "{lines:?}");
    assert!(last["restored"].as_str().unwrap().contains("restored "), "{last}");
}

//~ sched: `greenwave sched` manages commands, processes and cgroups and reports its mechanism and limits
#[test]
fn a_scheduler_ends_when_no_task_is_left() {
    let config = "[[tasks]]\nname = \"lc\"\nclass = \"LC\"\ncommand = [\"true\"]\n\
                  [[tasks]]\nname = \"be\"\nclass = \"BE\"\ncommand = [\"true\"]\n";
    let lines = shared("over", config, "50s");
    let last = lines.last().unwrap();
    assert!(last["event"] == "end" && last["at_s"].as_f64().unwrap() < 40.0, "{last}");
}

//~ sched: C8: interference that lasts raises a condition for log, metric and hook
#[test]
fn lc_that_waits_with_no_core_left_raises_a_condition_for_log_metric_and_hook() {
    let (hook_output, metrics) = (Scratch::new("hook.txt", ""), Scratch::new("metrics.prom", ""));
    // LC that overloads one core interferes with itself, and no task is given to stop for it.
    let one = cpulist::text(&host::affinity::cores().unwrap()[..1]);
    let config = format!(
        "cores = \"{one}\"\nsensor = \"none\"\ncondition_after = \"60ms\"\nmetrics = \"{}\"\n\
         hook = [\"sh\", \"-c\", \"echo $GREENWAVE_CONDITION $GREENWAVE_TROUBLE $GREENWAVE_WHERE >> {}\"]\n\
         [[tasks]]\nname = \"lc\"\nclass = \"LC\"\nguaranteed = 1\ncommand = [\"sh\", \"-c\", \"{SPINS} & {SPINS} & {SPINS}\"]\n",
        metrics.path(),
        hook_output.path(),
    );
    let file = Scratch::new("condition.toml", &config);
    let args =
        ["sched", "--config", file.path(), "--state-dir", &journals("condition"), "--interval", "20ms"];
    let daemon = Command::new(GREENWAVE).args(args).stdout(Stdio::null()).stderr(Stdio::piped()).spawn();
    let mut daemon = Program(daemon.expect("greenwave starts"));
    let mut lines = BufReader::new(daemon.0.stderr.take().unwrap()).lines();
    let raised = lines
        .find(|line| line.as_ref().is_ok_and(|line| line.starts_with("interference alarm raised: queue lc")));
    assert!(raised.is_some());
    until("the hook", || {
        std::fs::read_to_string(hook_output.path()).unwrap().starts_with("raised queue lc\n")
    });
    let says = "greenwave_sched_alarm{trouble=\"queue\",where=\"lc\"} 1\n";
    until("the metric", || std::fs::read_to_string(metrics.path()).unwrap().contains(says));
    kill_process(daemon.pid().unwrap(), Signal::TERM).unwrap();
    assert_eq!(daemon.0.wait().unwrap().code(), Some(0));
}

/// The first lines of `greenwave sched` under `text` without a capability, which it drops if we
/// have it; or the reason it cannot.
fn limits_without(capability: &str, has_it: bool, name: &str, text: &str) -> Result<String, String> {
    let config = Scratch::new(&format!("{name}.toml"), text);
    let mut command = Command::new(if has_it { "setpriv" } else { GREENWAVE });
    if has_it {
        let without = ["--bounding-set", "--inh-caps"].map(|set| format!("{set}=-{capability}"));
        command.args(without).arg(GREENWAVE);
    }
    let journals = journals(name);
    command.args(["sched", "--config", config.path(), "--state-dir", &journals, "--duration", "300ms"]);
    let out = command.output().map_err(|_| "setpriv is not there".to_owned())?;
    let [stderr, stdout] = [out.stderr, out.stdout].map(|text| String::from_utf8_lossy(&text).into_owned());
    if let Some(why) = stderr.lines().next().filter(|line| line.starts_with("setpriv: ")) {
        // BusyBox's version drops nothing.
        return Err(why.to_owned());
    }
    assert_eq!(out.status.code(), Some(0), "{stderr}");
    Ok(stdout)
}

#[track_caller]
fn is_limited(stdout: &str, limit: &str) {
    assert!(stdout.contains(&format!("\nlimit: {limit}")), "{limit:?} is not in {stdout}");
}

//~ sched: latency-critical threads are real-time; missing capabilities are reported
#[test]
fn without_the_capability_to_schedule_the_limits_are_printed() {
    let test = "without_the_capability_to_schedule_the_limits_are_printed";
    if getrlimit(Resource::Rtprio).current != Some(0) {
        return skipped(test, "anybody may be real-time here (ulimit -r)");
    }
    let config = "sensor = \"none\"\n[[tasks]]\nname = \"lc\"\nclass = \"LC\"\ncommand = [\"true\"]\n";
    match limits_without("sys_nice", proc::may_schedule(), "no-capability", config) {
        Err(why) => skipped(test, &why),
        Ok(stdout) => [
            "lc is not real-time, so ",
            "scheduling rounds may be late: ",
            "only programs of greenwave's user can be scheduled ",
        ]
        .into_iter()
        .for_each(|limit| is_limited(&stdout, limit)),
    }
}

//~ sched: latency-critical threads are real-time; missing capabilities are reported
#[test]
fn without_ptrace_capability_unread_worker_signals_are_reported() {
    let test = "without_ptrace_capability_unread_worker_signals_are_reported";
    let cores = affinity::cores().unwrap_or_default();
    let [_, one, ..] = cores[..] else {
        return skipped(test, "no core is left to greenwave beside its tasks'");
    };
    if !proc::may_schedule() {
        return skipped(test, "no CAP_SYS_NICE");
    }
    let mut other = Command::new("sleep").arg("60").spawn().unwrap();
    let config = format!(
        "sensor = \"none\"\nmechanism = \"runtime\"\ncores = \"{}\"\n[[tasks]]\nname = \"other\"\nclass = \"LC\"\n\
         signal_page = true\npid = {}\n",
        one.0,
        other.id()
    );
    let limits = limits_without("sys_ptrace", proc::may_inspect(), "no-look", &config);
    let _ = other.kill().and_then(|()| other.wait());
    match limits {
        Err(why) => skipped(test, &why),
        Ok(stdout) => {
            is_limited(&stdout, "other: no permission to read the signal page of another user's program, ")
        }
    }
}

//~ sched: an invalid configuration is refused before any task starts
#[test]
fn what_cannot_be_is_refused_before_anything_is_started() {
    let check = |name: &str, text: &str, says: &str| {
        let file = Scratch::new(name, text);
        let out = greenwave(&["sched", "--config", file.path(), "--state-dir", &journals(name)]);
        let stderr = String::from_utf8_lossy(&out.stderr);
        assert_eq!(out.status.code(), Some(2), "{stderr}");
        assert!(stderr.starts_with("error: ") && stderr.contains(says), "{says:?} is not in {stderr:?}");
        assert!(stderr.contains("\n  try: ") && stderr.lines().count() == 2, "{stderr}");
    };
    let task = "[[tasks]]\nname = \"a\"\nclass = \"LC\"\n";
    let started = journals("started");
    let first = format!("[[tasks]]\nname = \"b\"\nclass = \"BE\"\ncommand = [\"touch\", \"{started}\"]\n");
    check("pid.toml", &format!("{first}{task}pid = 2147483647"), "task a: no process 2147483647");
    assert!(!PathBuf::from(started).exists());
    check("group.toml", &format!("{task}cgroup = \"/no/such\""), "/no/such");
    check(
        "guarantees.toml",
        &format!("{task}pid = {}\nguaranteed = 5000", std::process::id()),
        "5000 cores are guaranteed and ",
    );
    check("cores.toml", &format!("cores = \"0-1023\"\n{task}pid = 1"), "is not among the allowed cores ");
    check("program.toml", &format!("{task}command = [\"no-such-program\"]"), "task a: no-such-program: ");
    check("none.toml", "policy = 5", ":1: ");
}
