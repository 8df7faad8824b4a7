//! What was changed, written down before it is changed.
//!
//! A line a thread (its class and cores as they were), a line a folder, a line a
//! program whose workers are asked to leave their cores; each line is one write,
//! which outlives us in the kernel however we end. Whoever reads it, a guardian that notices our end or the next start, puts
//! everything back. A thread is known by when it began, so a number that was
//! given again is left alone. Doing it twice does no harm.
//!
//! What began after the last line was written has inherited what we did to its
//! task: it gets what the task's first thread had.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use queueing::CoreId;
use rustix::process::Pid;
use rustix::thread::{sched_getaffinity, sched_setaffinity};
use sched::cores::pulse::Board;

use super::class::Class;
use super::groups::Group;
use super::list;
use crate::proc;
use crate::pulse::SharedPage;

/// The journal of a daemon that runs.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    file: File,
}

/// Who wrote a journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Author {
    /// Its process.
    pub process: u32,
    /// When that began.
    began: u64,
    /// The cores that it manages.
    pub cores: Vec<CoreId>,
}

/// What was put back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Restored {
    /// Threads that have their class and cores again.
    pub threads: usize,
    /// Folders that are gone, or whose processes go on.
    pub groups: usize,
    /// Programs whose workers are asked nothing any more.
    pub pulses: usize,
    /// What could not be put back.
    pub failed: usize,
}

impl Author {
    /// Whether it still runs.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        proc::began(self.process, self.process) == Some(self.began)
    }
}

/// Where journals lie: of root for all to see, otherwise the user's.
#[must_use]
pub fn folder() -> PathBuf {
    if rustix::process::geteuid().is_root() {
        return PathBuf::from("/run/greenwave");
    }
    let own = || format!("greenwave-{}", rustix::process::geteuid().as_raw());
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(|folder| PathBuf::from(folder).join("greenwave"));
    runtime.unwrap_or_else(|| std::env::temp_dir().join(own()))
}

/// The journals in `folder`, and who wrote each.
#[must_use]
pub fn all(folder: &Path) -> Vec<(PathBuf, Author)> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let journals =
        entries.map(|entry| entry.path()).filter(|path| path.extension().is_some_and(|is| is == "journal"));
    journals
        .filter_map(|path| Some((author(&fs::read_to_string(&path).ok()?)?, path)))
        .map(|(a, p)| (p, a))
        .collect()
}

fn author(text: &str) -> Option<Author> {
    let words: Vec<&str> = text.lines().next()?.split(' ').collect();
    let ["greenwave", "sched", "1", process, began, cores] = words[..] else { return None };
    let (process, began) = (process.parse().ok()?, began.parse().ok()?);
    Some(Author { process, began, cores: list::parse(cores).ok()? })
}

impl Journal {
    /// Begins one in `folder` for this process, which manages `cores`.
    ///
    /// # Errors
    /// What the kernel says of the file.
    pub fn begin(folder: &Path, cores: &[CoreId]) -> io::Result<Self> {
        fs::create_dir_all(folder)?;
        let id = std::process::id();
        let path = folder.join(format!("sched-{id}.journal"));
        let mut file = File::create(&path)?;
        let began = proc::began(id, id).unwrap_or_default();
        file.write_all(format!("greenwave sched 1 {id} {began} {}\n", list::text(cores)).as_bytes())?;
        Ok(Self { path, file })
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Notes how `thread` of `process`, which belongs to `task`, is scheduled
    /// now, if that can be read.
    ///
    /// # Errors
    /// It has ended, or the file cannot be written.
    pub fn thread(&mut self, task: usize, process: u32, thread: u32) -> io::Result<Class> {
        let id = pid(thread).ok_or(io::ErrorKind::NotFound)?;
        let began = proc::began(process, thread).ok_or(io::ErrorKind::NotFound)?;
        let class = Class::of(Some(id))?;
        let cores = list::text(&list::of_set(&sched_getaffinity(Some(id))?));
        let Class { policy, priority } = class;
        let line = format!("thread {task} {process} {thread} {began} {policy} {priority} {cores}\n");
        self.file.write_all(line.as_bytes()).map(|()| class)
    }

    /// Notes that `group` was made for `task`.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn made(&mut self, task: usize, group: &Path) -> io::Result<()> {
        self.file.write_all(format!("made {task} {}\n", group.display()).as_bytes())
    }

    /// Notes that workers of `process`, which began at `began`, will be asked to leave their cores.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn asks(&mut self, process: u32, began: u64) -> io::Result<()> {
        self.file.write_all(format!("pulse {process} {began}\n").as_bytes())
    }

    /// Notes that `group`, which others made, will be frozen now and then.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn freezes(&mut self, group: &Path) -> io::Result<()> {
        self.file.write_all(format!("freezes {}\n", group.display()).as_bytes())
    }
}

/// What `line` says of a process's pulse: its number, and when it began.
fn pulse(line: &str) -> Option<(u32, u64)> {
    let (process, began) = line.strip_prefix("pulse ")?.split_once(' ')?;
    Some((process.parse().ok()?, began.parse().ok()?))
}

/// A thread as it was.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Was {
    task: usize,
    process: u32,
    thread: u32,
    began: u64,
    class: Class,
    cores: Vec<CoreId>,
}

/// Puts back what the journal at `path` says, and removes it.
///
/// # Errors
/// It cannot be read.
pub fn restore(path: &Path) -> io::Result<Restored> {
    let text = fs::read_to_string(path)?;
    let mut restored = Restored::default();
    let count = |done: Option<bool>, restored: &mut Restored| match done {
        Some(true) => restored.threads += 1,
        Some(false) => restored.failed += 1,
        None => {}
    };
    for (process, began) in text.lines().filter_map(pulse) {
        let is_there = proc::began(process, process) == Some(began);
        if let Some(page) = is_there.then(|| SharedPage::of_process(process).ok()).flatten() {
            page.release();
            restored.pulses += 1;
        }
    }
    let threads: Vec<Was> = text.lines().filter_map(was).collect();
    let mut known = BTreeSet::new();
    for was in &threads {
        if proc::began(was.process, was.thread) == Some(was.began) {
            known.insert((was.process, was.thread));
        }
    }
    // Before folders are dissolved: who is inside tells what is a task's.
    let inside = |task: usize| {
        let made = text.lines().filter_map(made).filter(move |made| made.0 == task);
        made.filter_map(|(_, path)| Group::at(&path).ok()).flat_map(|group| group.members())
    };
    let mut firsts: Vec<&Was> = Vec::new();
    for was in &threads {
        if firsts.iter().all(|first| first.task != was.task) {
            firsts.push(was);
        }
    }
    for was in &threads {
        if known.contains(&(was.process, was.thread)) {
            count(back(was.thread, was), &mut restored);
        }
    }
    for first in firsts {
        let of_task = |&&(process, _): &&(u32, u32)| {
            threads.iter().any(|w| w.task == first.task && w.process == process)
        };
        let mut processes: BTreeSet<u32> = inside(first.task).collect();
        processes.extend(known.iter().filter(of_task).flat_map(|&(process, _)| proc::family(process)));
        for process in processes {
            let before = threads.iter().find(|was| was.process == process).unwrap_or(first);
            for thread in proc::threads(process).filter(|&thread| !known.contains(&(process, thread))) {
                count(back(thread, before), &mut restored);
            }
        }
    }
    for line in text.lines() {
        let done = match (made(line), line.strip_prefix("freezes ")) {
            (Some((_, path)), _) => Group::at(&path).ok().map(|group| group.dissolve()),
            (None, Some(path)) => Group::at(Path::new(path)).ok().map(|group| group.freeze(false)),
            (None, None) => None,
        };
        match done {
            Some(Ok(())) => restored.groups += 1,
            Some(Err(_)) => restored.failed += 1,
            None => {}
        }
    }
    match fs::remove_file(path) {
        // Another one was as quick.
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e),
        _ => Ok(restored),
    }
}

/// Gives `thread` the class and the cores of `was`; nothing when it has ended.
fn back(thread: u32, was: &Was) -> Option<bool> {
    let id = pid(thread)?;
    // A class that is not the one we set is the program's own doing.
    let class = match Class::of(Some(id)).ok()? {
        Class::IDLE | Class::EXT | Class::URGENT => was.class.set(Some(id)),
        _ => Ok(()),
    };
    let cores = sched_setaffinity(Some(id), &list::set_of(was.cores.iter().copied()));
    let is_gone = Class::of(Some(id)).is_err();
    (!is_gone).then_some(class.is_ok() && cores.is_ok())
}

fn was(line: &str) -> Option<Was> {
    let words: Vec<&str> = line.split(' ').collect();
    let ["thread", task, process, thread, began, policy, priority, cores] = words[..] else { return None };
    Some(Was {
        task: task.parse().ok()?,
        process: process.parse().ok()?,
        thread: thread.parse().ok()?,
        began: began.parse().ok()?,
        class: Class { policy: policy.parse().ok()?, priority: priority.parse().ok()? },
        cores: list::parse(cores).ok()?,
    })
}

fn made(line: &str) -> Option<(usize, PathBuf)> {
    let (task, path) = line.strip_prefix("made ")?.split_once(' ')?;
    Some((task.parse().ok()?, PathBuf::from(path)))
}

/// As the kernel's calls take it.
pub(super) fn pid(id: u32) -> Option<Pid> {
    Pid::from_raw(i32::try_from(id).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scratch(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("greenwave-journal-{name}-{}", std::process::id()))
    }

    fn affinity(id: u32) -> Vec<CoreId> {
        list::of_set(&sched_getaffinity(pid(id)).unwrap())
    }

    #[test]
    fn what_was_noted_is_put_back_and_done_once() {
        let folder = scratch("back");
        let mut child = std::process::Command::new("sleep").arg("600").spawn().unwrap();
        let id = child.id();
        let before = (Class::of(pid(id)).unwrap(), affinity(id));
        let mut journal = Journal::begin(&folder, &[CoreId(0)]).unwrap();
        journal.thread(0, id, id).unwrap();
        let [(path, author)] = &all(&folder)[..] else { panic!("one journal") };
        assert!(author.is_alive() && author.cores == [CoreId(0)] && path == journal.path());
        sched_setaffinity(pid(id), &list::set_of([before.1[0]])).unwrap();
        let mut expected = Restored { threads: 1, ..Restored::default() };
        if proc::may_schedule() {
            Class::IDLE.set(pid(id)).unwrap();
        }
        assert_eq!(restore(path).unwrap(), expected);
        assert_eq!((Class::of(pid(id)).unwrap(), affinity(id)), before);
        assert!(!path.exists() && restore(path).is_err());
        // Who has ended needs nothing.
        let mut journal = Journal::begin(&folder, &[CoreId(0)]).unwrap();
        journal.thread(0, id, id).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        expected.threads = 0;
        assert_eq!(restore(path).unwrap(), expected);
        fs::remove_dir(&folder).unwrap();
    }

    #[test]
    fn a_line_that_was_cut_short_is_no_line() {
        let line = "thread 1 70 71 4242 0 0 0-1";
        let is = was(line).unwrap();
        assert_eq!((is.task, is.process, is.thread, is.began), (1, 70, 71, 4242));
        assert_eq!((is.class, is.cores), (Class::OTHER, vec![CoreId(0), CoreId(1)]));
        for len in 0..line.len() - 3 {
            assert_eq!(was(&line[..len]), None, "{:?}", &line[..len]);
        }
        assert_eq!((pulse("pulse 70 4242"), pulse("pulse 70")), (Some((70, 4242)), None));
        assert_eq!(made("made 3 /sys/fs/cgroup/a b"), Some((3, "/sys/fs/cgroup/a b".into())));
        assert_eq!((author("greenwave sched 2 1 1 0"), author("")), (None, None));
    }
}
