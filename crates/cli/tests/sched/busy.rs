//! A latency-critical program that never sleeps, beside a program outside the tasks on the same core.

use hostsched::real_time::{BUSY, REGULAR};

use super::*;

/// CPU time of the first thread of `program`, in ns.
fn ran_ns(program: &Program) -> u64 {
    proc::Ledger::open(program.0.id(), program.0.id()).unwrap().read().expect("it runs").ran_ns
}

//~ sched: busy latency-critical threads stay real-time behind those that sleep, and leave the kernel its share
#[test]
fn a_busy_program_keeps_its_core_beside_one_outside_the_tasks() {
    let test = "a_busy_program_keeps_its_core_beside_one_outside_the_tasks";
    if !proc::may_schedule() {
        return skipped(test, "no CAP_SYS_NICE");
    }
    // Both are in one session, so the kernel would divide the core equally between them.
    let (lc, outside) = (Program::spins(), Program::spins());
    let before = lc.scheduled();
    let core = *before.1.last().expect("a core");
    let cores = cpulist::set_of(std::iter::once(core));
    rustix::thread::sched_setaffinity(outside.pid(), &cores).unwrap();
    let config = format!(
        "sensor = \"none\"\nmechanism = \"affinity\"\ncores = \"{}\"\n[[tasks]]\nname = \"lc\"\nclass = \"LC\"\npid = {}\n",
        cpulist::text(&[core]),
        lc.0.id()
    );
    let config = Scratch::new("busy.toml", &config);
    let args = ["sched", "--config", config.path(), "--state-dir", &journals("busy")];
    let daemon = Command::new(GREENWAVE).args(args).stdout(Stdio::null()).stderr(Stdio::inherit()).spawn();
    let mut daemon = Program(daemon.expect("greenwave starts"));
    until("the program is on the managed core", || lc.scheduled().1 == [core]);
    // The class is set before the cores.
    if lc.scheduled().0 == before.0 && REGULAR.set(lc.pid()).is_err() {
        return skipped(test, "no real-time budget in this cgroup");
    }
    until("it is busy", || lc.scheduled().0 == BUSY);
    // Each period of the rule is passed several times.
    let (lc_begin, outside_begin) = (ran_ns(&lc), ran_ns(&outside));
    until("it ran for 3 s", || ran_ns(&lc) > lc_begin + 3_000_000_000);
    let shares = (ran_ns(&lc) - lc_begin, ran_ns(&outside) - outside_begin);
    assert!(shares.1 > 0, "the core is left to others now and then: {shares:?}");
    assert!(shares.1 < shares.0 / 4, "it is not divided equally: {shares:?}");
    kill_process(daemon.pid().unwrap(), Signal::INT).unwrap();
    assert_eq!(daemon.0.wait().unwrap().code(), Some(0));
    assert_eq!(lc.scheduled(), before);
}
