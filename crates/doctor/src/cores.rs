//! Checks of core scheduling: each mechanism, tried on a child process.

use std::process::{Child, Command, Stdio};
use std::time::Duration;

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
        Ok(sleeper) => vec![mechanism(&sleeper), parking(&sleeper), sessions(&sleeper), groups()],
        Err(e) => vec![Finding::absent(AREA, "affinity", format!("cannot start a test process: {e}"), [])],
    };
    tried
        .into_iter()
        .chain([scheduler(scx::check()), signal_page(), probe()])
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
        return Finding::works(AREA, WHAT, "autogroup is off: the idle class works within a control group");
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

/// Rank between control groups: two of our own, with a busy process in each on one core.
fn groups() -> Finding {
    const WHAT: &str = "idle cgroups";
    let remedy =
        || "a kernel since 5.15, root, and the controller cpu: cgroup_disable must not name it".to_owned();
    let Some(tree) = Hierarchy::cpu() else {
        let seen = "no cgroup hierarchy has the controller cpu: best effort in another cgroup or session may \
                    get an equal share of a core";
        return Finding::absent(AREA, WHAT, seen, [remedy()]);
    };
    match shares(&tree) {
        Ok((by_class, by_group)) => rank(by_class, by_group),
        Err(e) => {
            let seen = format!(
                "two cgroups in {}: {e}; best effort in another cgroup gets a share by weight",
                tree.root().display()
            );
            Finding::limited(AREA, WHAT, seen, [remedy()])
        }
    }
}

/// Finding for best effort's share of a core beside a busy process in another group: in the idle class
/// alone, and with `cpu.idle` where the paths part.
fn rank(by_class: f64, by_group: f64) -> Finding {
    const WHAT: &str = "idle cgroups";
    let [by_class_percent, by_group_percent] = [by_class, by_group].map(|share| 100.0 * share);
    let seen = format!(
        "beside a busy program in another cgroup best effort gets {by_group_percent:.1} % of a core by cpu.idle, \
         {by_class_percent:.1} % by the idle class alone"
    );
    if by_group <= SHARE_MAX {
        Finding::works(AREA, WHAT, seen)
    } else {
        Finding::limited(AREA, WHAT, seen, ["sched_autogroup_enabled=0 and a kernel since 5.15".to_owned()])
    }
}

/// Share of a core above which best effort does not count as idle.
const SHARE_MAX: f64 = 0.05;
/// Time for which two processes compete.
const COMPETES: Duration = Duration::from_millis(200);

/// Groups of ours, removed on drop once their processes have ended.
struct TestGroups(Vec<Group>);

impl Drop for TestGroups {
    fn drop(&mut self) {
        self.0.drain(..).rev().for_each(|group| drop(group.dissolve()));
    }
}

/// Share of best effort without and with `cpu.idle`.
fn shares(tree: &Hierarchy) -> std::io::Result<(f64, f64)> {
    let outer = Group::make(tree.root(), &format!("greenwave-doctor-ranks-{}", std::process::id()))?;
    let mut groups = TestGroups(vec![outer.clone()]);
    // Version 2 gives a controller to the groups below on request only.
    let control = outer.path().join("cgroup.subtree_control");
    if control.exists() {
        std::fs::write(control, "+cpu")?;
    }
    for name in ["urgent", "batch"] {
        groups.0.push(Group::make(outer.path(), name)?);
    }
    let core = affinity::cores()?.into_iter().take(1);
    let core = cpulist::set_of(core);
    let spin = |group: &Group| -> std::io::Result<Sleeper> {
        let mut command = Command::new("sh");
        command.args(["-c", "while :; do :; done"]).stdin(Stdio::null()).stdout(Stdio::null());
        let spinner = Sleeper(command.spawn()?);
        sched_setaffinity(Some(Pid::from_child(&spinner.0)), &core)?;
        group.take(spinner.0.id()).map(|()| spinner)
    };
    let (urgent, batch) = (spin(&groups.0[1])?, spin(&groups.0[2])?);
    SchedPolicy::IDLE.set(Some(Pid::from_child(&batch.0)))?;
    let share = || -> std::io::Result<f64> {
        let ran = |child: &Sleeper| {
            let account = Ledger::open(child.0.id(), child.0.id())?.read();
            account.map(|account| account.ran_ns).ok_or(std::io::Error::from(std::io::ErrorKind::NotFound))
        };
        let before = (ran(&urgent)?, ran(&batch)?);
        std::thread::sleep(COMPETES);
        let (urgent, batch) = (ran(&urgent)? - before.0, ran(&batch)? - before.1);
        Ok(batch as f64 / ((urgent + batch) as f64).max(1.0))
    };
    let by_class = share()?;
    groups.0[2].idle()?;
    let by_group = share()?;
    drop((urgent, batch));
    drop(groups);
    Ok((by_class, by_group))
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
            "greenwave's sched_ext scheduler, on request only: other programs run before all tasks",
        ),
        Err(e) => Finding::absent(AREA, WHAT, e.to_string().trim_start_matches("scx: "), e.advice()),
    }
}

/// Signal page, shared between a program on greenwave's runtime and the core manager.
fn signal_page() -> Finding {
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
            "programs on greenwave's runtime report waits and release cores on request; used if a task has \
             signal_page = true and a core is left to greenwave",
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

    //~ sched: best effort ranks below latency-critical tasks in any other control group, or a limit is printed
    #[test]
    fn the_rank_between_two_groups_of_our_own_is_measured() {
        let Some(tree) = Hierarchy::cpu() else { return };
        let tried = shares(&tree);
        let left = std::fs::read_dir(tree.root()).unwrap().flatten().map(|entry| entry.file_name());
        let ours = format!("greenwave-doctor-ranks-{}", std::process::id());
        assert!(left.into_iter().all(|name| name.to_string_lossy() != ours), "{tried:?}");
        assert_eq!((rank(0.5, 0.01).health, rank(0.5, 0.5).health), (Health::Works, Health::Limited));
        if let Ok((by_class, by_group)) = tried {
            assert!((0.0..=1.0).contains(&by_class) && (0.0..=1.0).contains(&by_group));
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
