//! `greenwave sched` with a sched_ext scheduler; `make test-vm` provides a kernel for it.

use std::io::{Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

use host::sched_policy::SchedPolicy;
use hostsched::{cpulist, scx};
use rustix::process::{Signal, kill_process};

use super::{GREENWAVE, Program, SPINS, Scratch, goes_on, greenwave, journals, shared, skipped, until};

/// The kernel allows one scheduler.
static TURN: Mutex<()> = Mutex::new(());

/// A managed core other than our first one; `None` where the mechanism does not work.
fn core(test: &str) -> Option<(String, MutexGuard<'static, ()>)> {
    let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Err(e) = scx::check() {
        skipped(test, &e.to_string());
        return None;
    }
    match host::affinity::cores().unwrap()[..] {
        [_, second, ..] => Some((cpulist::text(&[second]), turn)),
        _ => {
            skipped(test, "one core leaves none to share out");
            None
        }
    }
}

fn state() -> String {
    let text = std::fs::read_to_string("/sys/kernel/sched_ext/state").unwrap_or_default();
    text.trim().to_owned()
}

/// A running scheduler for `text`'s tasks on `core`.
fn daemon(test: &str, core: &str, text: &str) -> (Program, Scratch) {
    let config = format!("mechanism = \"scx\"\ncores = \"{core}\"\nsensor = \"none\"\n{text}");
    let file = Scratch::new(&format!("{test}.toml"), &config);
    let args = ["sched", "--config", file.path(), "--state-dir", &journals(test)];
    let daemon = Command::new(GREENWAVE).args(args).stdout(Stdio::null()).stderr(Stdio::piped()).spawn();
    let daemon = Program(daemon.expect("greenwave starts"));
    until("our scheduler", || state() == "enabled");
    (daemon, file)
}

#[test]
fn scx_without_kernel_support_is_refused_with_advice() {
    let Err(e) = scx::check() else { return };
    let task = format!("[[tasks]]\nname = \"a\"\nclass = \"LC\"\npid = {}\n", std::process::id());
    let file = Scratch::new("scx-refused.toml", &task);
    let journals = journals("scx-refused");
    let out = greenwave(&["sched", "--config", file.path(), "--state-dir", &journals, "--mechanism", "scx"]);
    let stderr = String::from_utf8_lossy(&out.stderr);
    assert_eq!(out.status.code(), Some(2), "{stderr}");
    assert!(stderr.starts_with(&format!("error: {e}\n  try: ")), "{stderr}");
    assert!(!Path::new(&journals).exists(), "nothing was begun");
}

#[test]
fn tasks_share_a_core_under_scx_and_the_mechanism_is_printed() {
    let Some((core, _turn)) = core("tasks_share_a_core_by_a_scheduler_in_the_kernel_…") else { return };
    let config = format!(
        "mechanism = \"scx\"\ncores = \"{core}\"\nsensor = \"none\"\n\
         [[tasks]]\nname = \"lc\"\nclass = \"LC\"\nguaranteed = 1\n\
         command = [\"sh\", \"-c\", \"while :; do sleep 0.02; done\"]\n\
         [[tasks]]\nname = \"be\"\nclass = \"BE\"\ncommand = [\"sh\", \"-c\", \"{SPINS}\"]\n"
    );
    let lines = shared("scx-share", &config, "10s");
    let (first, last) = (&lines[0], lines.last().unwrap());
    assert_eq!(first["mechanism"], "scx", "{first}");
    assert!(
        first["limits"].to_string().contains("programs outside the tasks run before all tasks"),
        "{first}"
    );
    let (lc, be) = (&last["tasks"][0], &last["tasks"][1]);
    assert!(lc["cpu"].as_f64() > Some(0.0) && be["cpu"].as_f64() > Some(0.05), "{last}");
    assert!(lc["wait_ns"].as_u64() > Some(0) && last["actions"].as_u64() > Some(10), "{last}");
    assert!(last["restored"].as_str().unwrap().contains("restored "), "{last}");
    assert_eq!(state(), "disabled");
}

#[test]
fn a_scheduler_in_the_kernel_ends_with_its_manager_and_nothing_is_left_changed() {
    let Some((core, _turn)) = core("a_scheduler_in_the_kernel_ends_with_its_manager_…") else { return };
    let program = Program::spins();
    let before = program.scheduled();
    let task = format!("[[tasks]]\nname = \"be\"\nclass = \"BE\"\npid = {}\n", program.0.id());
    let (mut daemon, _file) = daemon("scx-killed", &core, &task);
    until("its class", || program.scheduled().0 == SchedPolicy::EXT);
    goes_on(&program);
    daemon.0.kill().unwrap();
    daemon.0.wait().unwrap();
    until("the kernel schedules by itself", || state() == "disabled");
    goes_on(&program);
    until("its guardian puts everything back", || program.scheduled() == before);
}

#[test]
fn a_stalled_manager_loses_its_scheduler_and_reports_it() {
    let Some((core, _turn)) = core("a_manager_that_hangs_loses_its_scheduler_…") else { return };
    let mut command = Command::new("sh");
    command.args(["-c", &format!("read -r line; {SPINS}")]).stdin(Stdio::piped());
    let mut program = Program(command.spawn().expect("sh starts"));
    let before = program.scheduled();
    let task = format!("[[tasks]]\nname = \"be\"\nclass = \"BE\"\npid = {}\n", program.0.id());
    let (mut daemon, _file) = daemon("scx-hung", &core, &task);
    until("its class", || program.scheduled().0 == SchedPolicy::EXT);
    kill_process(daemon.pid().unwrap(), Signal::STOP).unwrap();
    // Now it has work, and no core is given to it.
    program.0.stdin.take().unwrap().write_all(b"now\n").unwrap();
    until("the kernel gives up on us", || state() == "disabled");
    goes_on(&program);
    kill_process(daemon.pid().unwrap(), Signal::CONT).unwrap();
    assert_eq!(daemon.0.wait().unwrap().code(), Some(2));
    let mut stderr = String::new();
    daemon.0.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
    assert!(
        stderr.contains(
            "error: the kernel detached the scheduler; all tasks run under the default scheduler: "
        ),
        "{stderr}"
    );
    assert_eq!(program.scheduled(), before);
}
