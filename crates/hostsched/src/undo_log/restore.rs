//! Restore of the state recorded in an undo log.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};

use queueing::CoreId;
use rustix::thread::sched_setaffinity;
use sched::cores::worker_signals::SignalMemory;

use super::super::cgroups::Group;
use super::super::cpulist;
use super::super::real_time::{BUSY, REGULAR};
use super::programs::started;
use super::{Was, beside, boot, inherited, made, pid, process_of, sets, this_boot, threaded, was};
use host::files::Folder;
use host::proc;
use host::sched_policy::SchedPolicy;
use host::signal_page::SharedPage;

/// Counts of a restore.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Restored {
    /// Threads with their class and cores restored.
    pub threads: usize,
    /// Control groups removed or thawed.
    pub groups: usize,
    /// Programs whose workers are no longer asked to leave.
    pub signal_pages: usize,
    /// True if the log is of an earlier boot, of which nothing is left.
    pub is_of_earlier_boot: bool,
    /// Entries that could not be restored.
    pub failed: usize,
}

/// Restores the log at `path` and removes it, unless it names programs that the daemon started: those
/// keep running, and the log is left to [`end_programs`](super::end_programs).
///
/// # Errors
/// The log cannot be read or is not trusted ([`host::files`]).
pub fn restore(path: &Path) -> io::Result<Restored> {
    let (folder, name) = parts(path)?;
    put_back(&folder.read(&name)?, || remove(path))
}

/// As [`restore`], for a log that contains `text`; `remove` removes it.
///
/// # Errors
/// The errors of `remove`.
pub(super) fn put_back(text: &str, remove: impl FnOnce() -> io::Result<()>) -> io::Result<Restored> {
    if boot(text).is_some_and(|boot| Some(boot) != this_boot()) {
        remove()?;
        return Ok(Restored { is_of_earlier_boot: true, ..Restored::default() });
    }
    // A last line that was cut short precedes a change that never happened.
    let text = text.rsplit_once('\n').map_or("", |(complete, _)| complete);
    let mut restored = Restored::default();
    let count = |done: Option<bool>, restored: &mut Restored| match done {
        Some(true) => restored.threads += 1,
        Some(false) => restored.failed += 1,
        None => {}
    };
    for (process, began) in text.lines().filter_map(process_of) {
        let is_there = proc::began(process, process) == Some(began);
        if let Some(page) = is_there.then(|| SharedPage::of_process(process).ok()).flatten() {
            page.release();
            restored.signal_pages += 1;
        }
    }
    let threads: Vec<Was> = text.lines().filter_map(was).collect();
    // A thread's first line is its state before any change.
    let mut known: BTreeMap<(u32, u32), &Was> = BTreeMap::new();
    for was in threads.iter().filter(|was| was.is_there()) {
        known.entry((was.process, was.thread)).or_insert(was);
    }
    let mut firsts: BTreeMap<usize, &Was> = BTreeMap::new();
    for was in &threads {
        firsts.entry(was.task).or_insert(was);
    }
    // Before groups are dissolved: their members tell which processes are a task's.
    let inside = |task: usize| {
        let made = text.lines().filter_map(made).filter(move |made| made.0 == task);
        made.filter_map(|(_, path)| Group::at(&path).ok()).flat_map(|group| group.members())
    };
    for was in known.values() {
        count(back(was.thread, |_| was.class, &was.cores), &mut restored);
    }
    for (task, first) in firsts {
        let group = text.lines().filter_map(threaded).find(|threaded| threaded.0 == task);
        let only = group.map(|(_, path)| Group::at(&path).map(|group| group.threads()).unwrap_or_default());
        let mut families = BTreeSet::new();
        for was in &threads {
            let is_its = was.task == task && known.contains_key(&(was.process, was.thread));
            if is_its && families.insert(was.process) {
                families.extend(proc::family(was.process));
            }
        }
        let processes: BTreeSet<u32> = inside(task).chain(families).collect();
        for process in processes {
            let first_of = |process: u32| known.get(&(process, process)).copied();
            let parent = first_of(process).or_else(|| first_of(proc::parent(process)?)).unwrap_or(first);
            // Threads of the process outside a threaded group are not the task's.
            let is_its = |thread: u32| only.as_ref().is_none_or(|only| only.contains(&(process, thread)));
            let unknown = |thread: &u32| !known.contains_key(&(process, *thread)) && is_its(*thread);
            for thread in proc::threads(process).filter(unknown) {
                let done = back(thread, |ours| inherited(ours, parent.class), &parent.cores);
                count(done, &mut restored);
            }
        }
    }
    // Of several lines about one group, the last counts.
    let mut frozen: BTreeMap<&Path, bool> = BTreeMap::new();
    for line in text.lines() {
        match (line.strip_prefix("freezes "), line.strip_prefix("thaws ")) {
            (Some(path), _) => drop(frozen.insert(Path::new(path), true)),
            (_, Some(path)) => drop(frozen.insert(Path::new(path), false)),
            (None, None) => {}
        }
    }
    let frozen = frozen.into_iter().filter(|(_, is_ours)| *is_ours);
    let thawed = frozen.filter_map(|(path, _)| Group::at(path).ok()).map(|group| group.freeze(false));
    // Settings before groups: those of our groups end with them.
    let dissolved = text.lines().filter_map(made).filter_map(|(_, path)| Group::at(&path).ok());
    let settings = reset(text);
    for done in thawed.chain(settings).chain(dissolved.map(|group| group.dissolve())) {
        match done {
            Ok(()) => restored.groups += 1,
            Err(_) => restored.failed += 1,
        }
    }
    if !text.lines().any(|line| started(line).is_some()) {
        remove()?;
    }
    Ok(restored)
}

/// Restores the settings of control groups, the last first. A value that we did not write is an
/// operator's, and stays.
fn reset(text: &str) -> Vec<io::Result<()>> {
    let lines: Vec<(PathBuf, u64, u64)> = text.lines().filter_map(sets).collect();
    let mut done = Vec::new();
    for (index, (file, old, _)) in lines.iter().enumerate().rev() {
        // The first line of a file has the value before any change.
        if lines[..index].iter().any(|line| line.0 == *file) {
            continue;
        }
        let mut ours = lines.iter().filter(|line| line.0 == *file).map(|line| line.2);
        let value = |text: String| text.trim().parse::<u64>().ok();
        match std::fs::read_to_string(file).ok().and_then(value) {
            Some(now) if now != *old && ours.any(|new| new == now) => {
                done.push(std::fs::write(file, old.to_string()));
            }
            _ => {}
        }
    }
    done
}

/// Directory and name of the log at `path`.
pub(super) fn parts(path: &Path) -> io::Result<(Folder, String)> {
    let name = path.file_name().and_then(|name| name.to_str()).ok_or(io::ErrorKind::InvalidFilename)?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    Ok((Folder::open(&folder.map_or_else(|| PathBuf::from("."), Path::to_owned))?, name.to_owned()))
}

/// Removes the log at `path`, and an unfinished shorter one.
pub(super) fn remove(path: &Path) -> io::Result<()> {
    let (folder, name) = parts(path)?;
    remove_from(&folder, &name)
}

/// As [`remove`], for the log `name` in `folder`.
pub(super) fn remove_from(folder: &Folder, name: &str) -> io::Result<()> {
    let beside = beside(Path::new(name));
    let _ = folder.remove(&beside.to_string_lossy());
    match folder.remove(name) {
        // Another process removed it first.
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e),
        _ => Ok(()),
    }
}

/// Restores the `cores` of `thread`, and its class, computed from the current class that greenwave set;
/// `None` if the thread has ended.
fn back(thread: u32, class: impl FnOnce(SchedPolicy) -> SchedPolicy, cores: &[CoreId]) -> Option<bool> {
    let id = pid(thread)?;
    // A class that we did not set is the program's own.
    let class = match SchedPolicy::of(Some(id)).ok()? {
        ours @ (SchedPolicy::IDLE | SchedPolicy::EXT | REGULAR | BUSY) => class(ours).set(Some(id)),
        _ => Ok(()),
    };
    let cores = sched_setaffinity(Some(id), &cpulist::set_of(cores.iter().copied()));
    let is_gone = SchedPolicy::of(Some(id)).is_err();
    (!is_gone).then_some(class.is_ok() && cores.is_ok())
}
