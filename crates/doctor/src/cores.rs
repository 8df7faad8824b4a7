//! Checks of core scheduling: each mechanism, tried on a child process.

use std::process::{Child, Command, Stdio};

use queueing::CoreId;
use rustix::process::Pid;
use rustix::thread::sched_setaffinity;
use sched::cores::worker_signals::SignalMemory;

use super::Finding;
use host::affinity;
use host::proc::{self, Ledger};
use host::sched_policy::SchedPolicy;
use host::signal_page::SharedPage;
use hostsched::{CoresError, Counters, Group, Hierarchy, cpulist, scx};

const AREA: &str = "sched";

/// A sleeping child, killed on drop.
struct Sleeper(Child);

impl Drop for Sleeper {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub(super) fn examine() -> Vec<Finding> {
    let sleeper = Command::new("sleep").arg("600").stdin(Stdio::null()).stdout(Stdio::null()).spawn();
    let tried = match sleeper.map(Sleeper) {
        Ok(sleeper) => vec![mechanism(&sleeper), parking(&sleeper), sessions(&sleeper)],
        Err(e) => vec![Finding::absent(AREA, "affinity", format!("cannot start a test process: {e}"), [])],
    };
    tried
        .into_iter()
        .chain([scheduler(scx::check()), pulses(), probe()])
        .chain(counters(Counters::tried(CoreId(0))))
        .collect()
}

/// Class, affinity and schedstat of a process.
fn mechanism(sleeper: &Sleeper) -> Finding {
    const WHAT: &str = "affinity";
    let id = sleeper.0.id();
    let pid = Some(Pid::from_child(&sleeper.0));
    let tried = (|| {
        let cores = affinity::cores()?;
        sched_setaffinity(pid, &cpulist::set_of(cores.into_iter().take(1)))?;
        SchedPolicy::IDLE.set(pid)?;
        Ledger::open(id, id)
    })();
    match tried {
        Err(e) => {
            let kernel = "a kernel with CONFIG_SCHED_INFO, and /proc mounted".to_owned();
            Finding::absent(AREA, WHAT, e.to_string(), [kernel])
        }
        Ok(_) if !proc::may_schedule() => {
            let seen =
                "only for programs that greenwave starts; the class of other programs could not be restored";
            Finding::limited(AREA, WHAT, seen, ["run as root (CAP_SYS_NICE)".to_owned()])
        }
        Ok(_) => Finding::works(
            AREA,
            WHAT,
            "any program: CPU affinity, idle class, waits from schedstat; used if scx is not available",
        ),
    }
}

/// Freezing of tasks without a core.
fn parking(sleeper: &Sleeper) -> Finding {
    const WHAT: &str = "parking";
    let id = sleeper.0.id();
    let Some(tree) = Hierarchy::freezer() else {
        let remedy = "mount -t cgroup2 none /sys/fs/cgroup".to_owned();
        return Finding::absent(
            AREA,
            WHAT,
            "no cgroup freezer is mounted: BE tasks without a core cannot be frozen, they run in the idle class",
            [remedy],
        );
    };
    match folder(&tree, id, |group| group.freeze(true).and_then(|()| group.freeze(false))) {
        Ok(()) => Finding::works(AREA, WHAT, "by the cgroup freezer"),
        Err(e) => {
            let seen = format!(
                "the cgroup freezer: {e}; BE tasks without a core cannot be frozen, they run in the idle class"
            );
            Finding::absent(AREA, WHAT, seen, ["run as root".to_owned()])
        }
    }
}

/// Idle class across login sessions.
fn sessions(sleeper: &Sleeper) -> Finding {
    const WHAT: &str = "idle class";
    let grouped = std::fs::read_to_string("/proc/sys/kernel/sched_autogroup_enabled").unwrap_or_default();
    if grouped.trim() != "1" {
        return Finding::works(AREA, WHAT, "autogroup is off: the idle class works between all programs");
    }
    let tried = Hierarchy::idle().map(|tree| folder(&tree, sleeper.0.id(), Group::idle));
    match tried {
        Some(Ok(())) => Finding::works(AREA, WHAT, "works across login sessions, by cpu.idle of a cgroup"),
        _ => Finding::limited(
            AREA,
            WHAT,
            "autogroup is on: the idle class does not work across login sessions",
            ["sysctl -w kernel.sched_autogroup_enabled=0 before programs start".to_owned()],
        ),
    }
}

/// Applies `what` to a cgroup with process `id` in it, which is removed afterwards.
fn folder(
    tree: &Hierarchy,
    id: u32,
    what: impl FnOnce(&Group) -> std::io::Result<()>,
) -> std::io::Result<()> {
    let home = tree.folder_of(id).ok_or(std::io::ErrorKind::NotFound)?;
    let group = Group::make(&home, &format!("greenwave-doctor-{}", std::process::id()))?;
    let done = group.take(id).and_then(|()| what(&group));
    group.dissolve()?;
    done
}

/// The sched_ext scheduler: verified, but not started.
fn scheduler(tried: Result<(), CoresError>) -> Finding {
    const WHAT: &str = "scx";
    match tried {
        Ok(()) => Finding::works(
            AREA,
            WHAT,
            "greenwave's sched_ext scheduler; the default if one core is left to greenwave",
        ),
        Err(e) => Finding::absent(AREA, WHAT, e.to_string().trim_start_matches("scx: "), e.advice()),
    }
}

/// Signal page, shared between a program on greenwave's runtime and the core manager.
fn pulses() -> Finding {
    const WHAT: &str = "runtime";
    const NAME: &str = "greenwave-doctor";
    let tried = SharedPage::named(NAME, 1).and_then(|page| {
        let found = SharedPage::find(std::process::id(), NAME)?;
        page.request_park(0, true);
        // The reply of a worker that is asked to leave its core.
        Ok(found.page().slots()[0].park.acknowledge().is_some())
    });
    let memfd = "a kernel with CONFIG_MEMFD_CREATE, and /proc mounted".to_owned();
    match tried {
        Ok(true) => Finding::works(
            AREA,
            WHAT,
            "programs on greenwave's runtime report waits and release cores on request; used if a task has a \
             pulse and a core is left to greenwave",
        ),
        Ok(false) => Finding::absent(AREA, WHAT, "a write to shared memory does not arrive", [memfd]),
        Err(e) => Finding::absent(AREA, WHAT, e.to_string(), [memfd]),
    }
}

/// The sensor without requirements.
fn probe() -> Finding {
    Finding::limited(
        AREA,
        "latency probe",
        "DRAM load on greenwave's socket, not per task; used if there are no hardware counters",
        [],
    )
}

/// Hardware counters, each tried.
fn counters(tried: Vec<(&'static str, Result<(), String>)>) -> Vec<Finding> {
    let finding = |(what, tried): (&'static str, Result<(), String>)| {
        let (seen, remedy) = match what {
            "cache misses" => ("last-level cache misses per core", None),
            "resctrl MBM" => {
                ("memory traffic per last-level cache", Some("mount -t resctrl resctrl /sys/fs/resctrl"))
            }
            _ => ("memory traffic per socket", None),
        };
        match tried {
            Ok(()) => Finding::works(AREA, what, format!("{seen}; used instead of the latency probe")),
            Err(why) => {
                let remedy = remedy.unwrap_or("bare metal: most VMs have no such counters");
                Finding::absent(AREA, what, format!("{why}: {seen} cannot be measured"), [remedy.to_owned()])
            }
        }
    };
    tried.into_iter().map(finding).collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::Health;
    use super::*;

    #[test]
    fn the_child_that_is_tried_on_is_gone_afterwards() {
        let findings = examine();
        let mechanism = findings.iter().find(|finding| finding.what == "affinity").unwrap();
        assert_ne!(mechanism.health, Health::Absent, "{mechanism:?}");
        assert!(findings.iter().all(|finding| finding.area == AREA && !finding.seen.is_empty()));
        for tree in [Hierarchy::freezer(), Hierarchy::idle()].into_iter().flatten() {
            let home = tree.folder_of(std::process::id()).unwrap();
            let mut left = std::fs::read_dir(home).unwrap().flatten().map(|entry| entry.file_name());
            let ours = format!("greenwave-doctor-{}", std::process::id());
            assert!(left.all(|name| name.to_string_lossy() != ours));
        }
    }

    #[test]
    fn what_a_machine_has_and_we_do_not_use_is_said() {
        let none = scheduler(scx::allowed(Path::new("/no/such")));
        assert_eq!((none.health, &*none.seen), (Health::Absent, "this kernel has no sched_ext"));
        assert!(none.remedies[0].contains("6.12"));
        assert_eq!(scheduler(Ok(())).health, Health::Works);
        let found = counters(vec![("AMD UMC", Ok(())), ("resctrl MBM", Err("there is none".to_owned()))]);
        assert_eq!(found[0].health, Health::Works);
        assert_eq!((found[1].health, found[1].remedies.len()), (Health::Absent, 1));
    }
}
