//! Rank of best effort between control groups.
//!
//! The kernel divides a core among the members of a group first, and each member that is a group divides
//! its part again. The idle class of a thread therefore counts against threads of its own group only:
//! beside another group, a group of idle threads gets the share of its weight. The setting that decides
//! between two tasks is that of the two groups beneath their deepest common one, where their paths part:
//! best effort's gets `cpu.idle` there, or the least weight where the kernel has no `cpu.idle`.
//!
//! A group that holds other processes as well keeps its settings, since they would lose their share too.
//! The weight of the group on the side of the latency-critical task is raised instead, if only such tasks
//! are inside; otherwise the pair is reported.
//!
//! Source: Linux, Documentation/admin-guide/cgroup-v2.rst (`cpu.idle`, `cpu.weight`),
//! scheduler/sched-design-CFS.rst; kernel/sched/fair.c, `sched_group_set_idle`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use queueing::{Span, Time};

use super::cgroups::{Group, Hierarchy};
use super::undo_log::Journal;

/// Shortest interval between updates. It grows with processes and pairs of groups, so that updates
/// take at most a hundredth of the time.
const EVERY: Span = Span::from_secs(1);
const PER_PROCESS: Span = Span::from_millis(2);
const PER_PAIR: Span = Span::from_micros(200);

/// Settings that rank the groups of tasks.
#[derive(Debug, Default)]
pub struct CpuRanks {
    next: Option<Time>,
    /// Groups that we have set, each with its setting and earlier weight.
    applied: BTreeMap<PathBuf, (Setting, u64)>,
    conflicts: Vec<Conflict>,
    /// Groups whose setting could not be written, with the error.
    failed: BTreeMap<PathBuf, String>,
}

/// Setting of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Setting {
    /// Below all other groups beside it.
    Idle,
    /// The largest weight.
    Heaviest,
}

/// A pair of tasks that no setting of best effort's group ranks.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Conflict {
    lc: usize,
    be: usize,
    /// Group of best effort below the last group that both paths have in common.
    group: PathBuf,
    /// Number of processes in the group that belong to no task; 0 if an LC task is inside, or if it
    /// is a login session.
    strangers: usize,
    /// Group whose weight was raised instead.
    raised: Option<PathBuf>,
}

/// Group of a task.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct TaskCgroup {
    task: usize,
    critical: bool,
    group: PathBuf,
}

impl CpuRanks {
    /// True if an update is due.
    pub fn is_due(&self, now: Time) -> bool {
        self.next.is_none_or(|next| now >= next)
    }

    /// Sets the groups of `tasks`, each with its class (true for LC) and processes, and resets those
    /// that need no setting any more.
    pub fn update(&mut self, now: Time, tasks: &[(bool, BTreeSet<u32>)], journal: &mut Journal) {
        let Some(tree) = Hierarchy::cpu() else {
            self.next = Some(now + EVERY);
            return;
        };
        let mut cgroups = BTreeSet::new();
        for (task, (critical, processes)) in tasks.iter().enumerate() {
            let groups = processes.iter().filter_map(|&process| dividing(&tree, process));
            cgroups.extend(groups.map(|group| TaskCgroup { task, critical: *critical, group }));
        }
        let critical = cgroups.iter().filter(|member| member.critical).count();
        let pairs = critical * (cgroups.len() - critical);
        let processes: usize = tasks.iter().map(|(_, processes)| processes.len()).sum();
        self.next = Some(now + EVERY.max(PER_PROCESS * processes as u64).max(PER_PAIR * pairs as u64));
        let strangers = |group: &Path| {
            let members = Group::at(group).map(|group| group.members()).ok()?;
            let is_managed = |id: &u32| tasks.iter().any(|(_, processes)| processes.contains(id));
            Some(members.iter().filter(|id| !is_managed(id)).count())
        };
        let (settings, conflicts) = plan(&cgroups, strangers);
        self.conflicts = conflicts;
        self.apply(&settings, journal);
    }

    /// Applies `settings`, and resets the other groups.
    fn apply(&mut self, settings: &BTreeMap<PathBuf, Setting>, journal: &mut Journal) {
        self.failed.clear();
        self.applied.retain(|group, (setting, weight)| {
            if settings.get(group) == Some(setting) {
                return true;
            }
            // A group that has ended needs no reset; the log repeats one that failed.
            let _ = unset(group, *setting, *weight);
            false
        });
        for (group, &setting) in settings {
            if self.applied.contains_key(group) {
                continue;
            }
            match set(group, setting, journal) {
                Ok(Some(weight)) => drop(self.applied.insert(group.clone(), (setting, weight))),
                Ok(None) => {}
                Err(e) => drop(self.failed.insert(group.clone(), e.to_string())),
            }
        }
    }

    /// Pairs of tasks that are not ranked, and groups that could not be set, as text.
    pub fn limits(&self, names: &[String]) -> Vec<String> {
        let conflict = |Conflict { lc, be, group, strangers, raised }: &Conflict| {
            let why = match strangers {
                0 => "it contains a latency-critical task or is a login session".to_owned(),
                1 => "it contains 1 process that belongs to no task".to_owned(),
                n => format!("it contains {n} processes that belong to no task"),
            };
            let instead = match raised {
                Some(group) => format!("; the weight of {} is raised instead", group.display()),
                None => format!("; a cgroup of its own for {} removes the limit", names[*be]),
            };
            format!(
                "{} takes a share of the core from threads of {} that are not real-time: their cgroups diverge at {}, \
                 which cannot be idle because {why}{instead}",
                names[*be],
                names[*lc],
                group.display()
            )
        };
        let failed = self.failed.iter().map(|(group, why)| {
            format!("{}: its rank between cgroups cannot be set: {why}", group.display())
        });
        self.conflicts.iter().map(conflict).chain(failed).collect()
    }

    /// Groups that were set, as text.
    pub fn changes(&self) -> Vec<String> {
        let change = |(group, (setting, _)): (&PathBuf, &(Setting, u64))| {
            let what = match setting {
                Setting::Idle => "idle below the cgroups beside it",
                Setting::Heaviest => "the largest weight",
            };
            format!("cgroup {}: {what}", group.display())
        };
        self.applied.iter().map(change).collect()
    }
}

/// Settings that rank the tasks in `cgroups`, and the pairs of tasks that no setting ranks.
/// `strangers` returns the number of processes in and below a group that belong to no task; `None`
/// if the path is not a group.
fn plan(
    cgroups: &BTreeSet<TaskCgroup>,
    strangers: impl Fn(&Path) -> Option<usize>,
) -> (BTreeMap<PathBuf, Setting>, Vec<Conflict>) {
    let (mut settings, mut conflicts) = (BTreeMap::new(), BTreeSet::new());
    let is_inside = |critical: bool, group: &Path| {
        cgroups.iter().any(|member| member.critical == critical && member.group.starts_with(group))
    };
    for be in cgroups.iter().filter(|member| !member.critical) {
        for lc in cgroups.iter().filter(|member| member.critical) {
            // In LC's own group, or one above it, the class of its threads ranks it.
            let Some(group) = beneath_common(&be.group, &lc.group) else { continue };
            let count = strangers(&group);
            if count == Some(0) && !is_inside(true, &group) {
                settings.insert(group, Setting::Idle);
                continue;
            }
            let other = beneath_common(&lc.group, &be.group);
            let raised = other.filter(|other| strangers(other) == Some(0) && !is_inside(false, other));
            settings.extend(raised.clone().map(|raised| (raised, Setting::Heaviest)));
            let strangers = count.unwrap_or(0);
            conflicts.insert(Conflict { lc: lc.task, be: be.task, group, strangers, raised });
        }
    }
    (settings, conflicts.into_iter().collect())
}

/// Group beneath the deepest common one of `path` and `other`, on the way to `path`; `None` if `path` is
/// the common one.
fn beneath_common(path: &Path, other: &Path) -> Option<PathBuf> {
    let mut group = PathBuf::new();
    for part in path.components() {
        group.push(part);
        if !other.starts_with(&group) {
            return Some(group);
        }
    }
    None
}

/// Group in `tree` in which the kernel divides a core among the threads of `process`.
fn dividing(tree: &Hierarchy, process: u32) -> Option<PathBuf> {
    let mut group = tree.folder_of(process)?;
    // A group without the controller leaves that to the one above.
    while group != tree.root() && weight_file(&group).is_none() {
        group.pop();
    }
    if group == tree.root() && has_sessions() {
        // The kernel groups these by session.
        let session = fs::read_to_string(format!("/proc/{process}/autogroup")).ok()?;
        group.push(session.trim_start_matches('/').split(' ').next()?);
    }
    Some(group)
}

/// True if the kernel groups threads outside all control groups by session.
fn has_sessions() -> bool {
    fs::read_to_string("/proc/sys/kernel/sched_autogroup_enabled").is_ok_and(|text| text.trim() == "1")
}

/// Weight file of a group: its name, and the least, default and largest weight.
fn weight_file(group: &Path) -> Option<(PathBuf, [u64; 3])> {
    let files = [("cpu.weight", [1, 100, 10_000]), ("cpu.shares", [2, 1024, 262_144])];
    files.into_iter().map(|(name, range)| (group.join(name), range)).find(|(file, _)| file.exists())
}

fn number(file: &Path) -> io::Result<u64> {
    fs::read_to_string(file)?.trim().parse().map_err(|_| io::ErrorKind::InvalidData.into())
}

/// Applies `setting` to `group`; the weight before, or `None` if it had the setting already.
fn set(group: &Path, setting: Setting, journal: &mut Journal) -> io::Result<Option<u64>> {
    let (file, [least, default, most]) = weight_file(group).ok_or(io::ErrorKind::NotFound)?;
    let idle = group.join("cpu.idle");
    if number(&idle).is_ok_and(|idle| idle == 1) {
        return match setting {
            Setting::Idle => Ok(None),
            Setting::Heaviest => Err(io::Error::other("it is idle")),
        };
    }
    let weight = number(&file)?;
    let new = match setting {
        Setting::Idle if idle.exists() => {
            // The kernel gives a group that is no longer idle the default weight.
            journal.sets(&file, weight, default)?;
            journal.sets(&idle, 0, 1)?;
            return fs::write(&idle, "1").map(|()| Some(weight));
        }
        Setting::Idle => least,
        Setting::Heaviest => most,
    };
    if weight == new {
        return Ok(None);
    }
    journal.sets(&file, weight, new)?;
    fs::write(&file, new.to_string()).map(|()| Some(weight))
}

/// Undoes [`set`].
fn unset(group: &Path, setting: Setting, weight: u64) -> io::Result<()> {
    let idle = group.join("cpu.idle");
    if setting == Setting::Idle && number(&idle).is_ok_and(|idle| idle == 1) {
        fs::write(&idle, "0")?;
    }
    let (file, _) = weight_file(group).ok_or(io::ErrorKind::NotFound)?;
    fs::write(file, weight.to_string())
}

#[cfg(test)]
mod tests;
