//! What was changed, written down before it is changed.
//!
//! A line a thread (its class and cores as they were), a line a folder, a line a
//! program whose workers are asked to leave their cores; each line is one write,
//! which outlives us in the kernel however we end. Whoever reads it, a guardian that notices our end or the next start, puts
//! everything back. A thread is known by when it began, so a number that was
//! given again is left alone. Doing it twice does no harm.
//!
//! What a thread starts has inherited what we did to that. So of who is found later and has what its task was
//! given, there stands what it would have without us: what its process's first thread had, its parent's, or
//! the task's. What began after the last line was written gets the same.
//!
//! Who has ended needs no line. Once there are many of those, all that is needed is written to a file beside,
//! which then takes the journal's name: at any moment that is one which puts everything back.
//!
//! A program that the daemon started has a line as well, and ends with it. The daemon holds a lock on
//! its journal, which the kernel releases when it ends: neither a zombie nor another process of its
//! number is taken for it. The journal names the boot that it is of, since after another nothing of
//! it is there. It lies in a folder that no other user can change ([`crate::files`]).

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use queueing::CoreId;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_getaffinity};

use super::cpulist;
use super::sched_policy::SchedPolicy;
use crate::files::Folder;
use crate::proc;

#[cfg(any(test, fuzzing))]
pub(crate) mod fuzz;
mod programs;
mod restore;

pub use programs::{GRACE, end_programs};
pub use restore::{Restored, restore};

/// Lines that a journal has beyond twice those that were needed when it was shortened last.
const SPARE: usize = 1000;

/// The journal of a daemon that runs.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    folder: Folder,
    /// Locked as long as this process runs.
    file: File,
    /// Its first lines, which say who writes it, and in which boot.
    head: String,
    /// Lines of folders, and of programs that were started.
    folders: Vec<String>,
    /// Programs whose workers may have been asked, and when they began.
    pulses: BTreeMap<u32, u64>,
    /// The first thread of each task.
    firsts: BTreeMap<usize, Was>,
    /// By task, process and number: threads that have a line, with those that ended since it was shortened.
    threads: BTreeMap<(usize, u32, u32), Was>,
    /// Lines that it has, and with how many it is not to be shortened yet.
    lines: usize,
    lines_max: usize,
    /// The last line was cut short.
    is_cut: bool,
}

/// What the members of a task have from us: who has the same later, has inherited it.
#[derive(Clone, Copy, Debug, Default)]
pub struct InheritedMarks<'a> {
    /// The class that they were put into.
    pub class: Option<SchedPolicy>,
    /// On which cores they were let of late.
    pub cores: &'a [CpuSet],
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
    /// The boot that it ran in, if it says so.
    boot: Option<String>,
    /// True if its lock is held.
    is_locked: bool,
}

impl Author {
    /// True if it still runs. Versions that held no lock named no boot: they are known by when they began.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        let is_there =
            || proc::began(self.process, self.process) == Some(self.began) && !proc::is_zombie(self.process);
        self.is_locked || (self.boot.is_none() && is_there())
    }
}

/// Where journals lie: of root for all to see, otherwise the user's.
#[must_use]
pub fn folder() -> PathBuf {
    let user = rustix::process::geteuid();
    if user.is_root() {
        return PathBuf::from("/run/greenwave");
    }
    // Who has no session's environment, as under cron or sudo, may have its folder all the same.
    let sessions = PathBuf::from(format!("/run/user/{}", user.as_raw()));
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").filter(|folder| !folder.is_empty()).map(PathBuf::from);
    match runtime.or_else(|| sessions.is_dir().then_some(sessions)) {
        Some(folder) => folder.join("greenwave"),
        None => std::env::temp_dir().join(format!("greenwave-{}", user.as_raw())),
    }
}

/// The journals in `folder`, and who wrote each; none where there is no such folder.
///
/// # Errors
/// The folder or a file in it is not to be trusted ([`crate::files`]), or cannot be read.
pub fn all(folder: &Path) -> io::Result<Vec<(PathBuf, Author)>> {
    let opened = match Folder::open(folder) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        opened => opened?,
    };
    let mut found = Vec::new();
    for name in opened.names()?.into_iter().filter(|name| name.ends_with(".journal")) {
        let of_file = |e: io::Error| crate::files::of_name(&name, e);
        let read = opened.open_file(&name).and_then(|mut file| {
            let mut text = String::new();
            file.read_to_string(&mut text)?;
            Ok((text, is_locked(&file)))
        });
        match read {
            Ok((text, is_locked)) => {
                found.extend(author(&text, is_locked).map(|author| (folder.join(&name), author)));
            }
            // It was put back meanwhile.
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            Err(e) => return Err(of_file(e)),
        }
    }
    Ok(found)
}

/// True if a daemon holds the lock of its journal.
fn is_locked(file: &File) -> bool {
    flock(file, FlockOperation::NonBlockingLockShared) == Err(Errno::WOULDBLOCK)
}

fn author(text: &str, is_locked: bool) -> Option<Author> {
    let words: Vec<&str> = text.lines().next()?.split(' ').collect();
    let ["greenwave", "sched", "1", process, began, cores] = words[..] else { return None };
    let (process, began) = (process.parse().ok()?, began.parse().ok()?);
    Some(Author { process, began, cores: cpulist::parse(cores).ok()?, boot: boot(text), is_locked })
}

/// The boot that a journal is of.
fn boot(text: &str) -> Option<String> {
    text.lines().nth(1)?.strip_prefix("boot ").map(str::to_owned)
}

/// The boot that this is; nothing where `/proc` does not tell.
fn this_boot() -> Option<String> {
    let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    Some(id.trim().to_owned())
}

impl Journal {
    /// Begins one in `folder` for this process, which manages `cores`.
    ///
    /// # Errors
    /// What the kernel says of the file.
    pub fn begin(folder: &Path, cores: &[CoreId]) -> io::Result<Self> {
        let opened = Folder::create(folder)?;
        let id = std::process::id();
        let name = format!("sched-{id}.journal");
        let file = opened.create_file(&name).map_err(|e| crate::files::of_name(&name, e))?;
        flock(&file, FlockOperation::NonBlockingLockExclusive)?;
        let began = proc::began(id, id).unwrap_or_default();
        let boot = this_boot().unwrap_or_default();
        let head = format!("greenwave sched 1 {id} {began} {}\nboot {boot}", cpulist::text(cores));
        let mut journal = Self {
            path: folder.join(name),
            folder: opened,
            file,
            head,
            folders: Vec::new(),
            pulses: BTreeMap::new(),
            firsts: BTreeMap::new(),
            threads: BTreeMap::new(),
            lines: 1,
            lines_max: SPARE,
            is_cut: false,
        };
        let head = journal.head.clone();
        journal.write(&head)?;
        Ok(journal)
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Puts back all that it says, as [`restore`], though its folder may have been removed meanwhile.
    ///
    /// # Errors
    /// It cannot be read, or not be removed.
    pub fn put_back(&self) -> io::Result<Restored> {
        let mut text = vec![0; usize::try_from(self.file.metadata()?.len()).unwrap_or(usize::MAX)];
        self.file.read_exact_at(&mut text, 0)?;
        let name = self.path.file_name().unwrap_or_default().to_string_lossy();
        restore::put_back(&String::from_utf8_lossy(&text), || restore::remove_from(&self.folder, &name))
    }

    /// Notes how `thread` of `process`, which belongs to `task`, is scheduled
    /// now, if that can be read; of what it has inherited as one of `ours`, what it would have
    /// without us. Who was noted before is as he was then. Its class, as it is noted.
    ///
    /// # Errors
    /// It has ended, or the file cannot be written.
    pub fn thread(
        &mut self,
        task: usize,
        process: u32,
        thread: u32,
        ours: &InheritedMarks<'_>,
    ) -> io::Result<SchedPolicy> {
        let id = pid(thread).ok_or(io::ErrorKind::NotFound)?;
        let began = proc::began(process, thread).ok_or(io::ErrorKind::NotFound)?;
        let key = (task, process, thread);
        if let Some(was) = self.threads.get(&key).filter(|was| was.began == began) {
            return Ok(was.class);
        }
        let (mut class, set) = (SchedPolicy::of(Some(id))?, sched_getaffinity(Some(id))?);
        let mut cores = cpulist::of_set(&set);
        let (has_class, has_cores) = (ours.class == Some(class), ours.cores.contains(&set));
        if (has_class || has_cores)
            && let Some(parent) = self.parent(task, process, thread)
        {
            if has_class {
                class = inherited(class, parent.class);
            }
            if has_cores {
                cores.clone_from(&parent.cores);
            }
        }
        let was = Was { task, process, thread, began, class, cores };
        self.write(&was.line())?;
        self.firsts.entry(task).or_insert_with(|| was.clone());
        self.threads.insert(key, was);
        Ok(class)
    }

    /// From whom `thread` has inherited: its process's first thread, that of its parent, or the task's.
    fn parent(&self, task: usize, process: u32, thread: u32) -> Option<&Was> {
        let first_of = |id: u32| self.threads.get(&(task, id, id)).filter(|was| was.is_there());
        let own = if thread == process { None } else { first_of(process) };
        own.or_else(|| first_of(proc::parent(process)?)).or_else(|| self.firsts.get(&task))
    }

    /// Notes that `group` was made for `task`.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn made(&mut self, task: usize, group: &Path) -> io::Result<()> {
        self.folder(format!("made {task} {}", group.display()))
    }

    /// Notes that `group`, which others made, will be frozen now and then.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn freezes(&mut self, group: &Path) -> io::Result<()> {
        self.folder(format!("freezes {}", group.display()))
    }

    /// Notes that `process`, the first of a process group of its own, was started for `task` and ends with us.
    ///
    /// # Errors
    /// It has ended already, or the file cannot be written.
    pub fn started(&mut self, task: usize, process: u32) -> io::Result<()> {
        let began = proc::began(process, process).ok_or(io::ErrorKind::NotFound)?;
        self.folder(format!("started {task} {process} {began}"))
    }

    fn folder(&mut self, line: String) -> io::Result<()> {
        self.write(&line)?;
        self.folders.push(line);
        Ok(())
    }

    /// Notes that workers of `process`, which began at `began`, will be asked to leave their cores.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn asks(&mut self, process: u32, began: u64) -> io::Result<()> {
        if self.pulses.get(&process) != Some(&began) {
            self.write(&pulse_line(process, began))?;
            self.pulses.insert(process, began);
        }
        Ok(())
    }

    /// Leaves out who has ended, if there may be many; of threads that `is_watched`, given a task, a process
    /// and their number, it is known that they have not.
    ///
    /// # Errors
    /// The shorter one cannot be written; this one goes on, and it is tried again when it has grown as much.
    pub fn shorten(&mut self, is_watched: impl Fn(usize, (u32, u32)) -> bool) -> io::Result<()> {
        if self.lines <= self.lines_max {
            return Ok(());
        }
        // Who is not watched any more may be there: what its parent left behind is found by its line alone.
        self.threads
            .retain(|&(task, process, thread), was| is_watched(task, (process, thread)) || was.is_there());
        self.pulses.retain(|&process, began| proc::began(process, process) == Some(*began));
        let done = self.write_anew();
        self.lines_max = 2 * self.lines + SPARE;
        done
    }

    /// Writes all that is needed to a file beside this one, and gives it the name of this one.
    fn write_anew(&mut self) -> io::Result<()> {
        let mut lines = vec![self.head.clone()];
        lines.extend(self.folders.iter().cloned());
        lines.extend(self.pulses.iter().map(|(&process, &began)| pulse_line(process, began)));
        lines.extend(self.firsts.values().map(Was::line));
        let others = self.threads.values().filter(|was| self.firsts.get(&was.task) != Some(*was));
        lines.extend(others.map(Was::line));
        let name = |path: &Path| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let (new, old) = (name(&beside(&self.path)), name(&self.path));
        // One that was not finished.
        let _ = self.folder.remove(&new);
        let mut file = self.folder.create_file(&new)?;
        let text = lines.join("\n") + "\n";
        // It is locked before it has the name: at any moment who looks finds a lock.
        let done = flock(&file, FlockOperation::NonBlockingLockExclusive)
            .map_err(io::Error::from)
            .and_then(|()| file.write_all(text.as_bytes()))
            .and_then(|()| self.folder.rename(&new, &old));
        if done.is_err() {
            let _ = self.folder.remove(&new);
            return done;
        }
        (self.file, self.lines, self.is_cut) = (file, text.lines().count(), false);
        Ok(())
    }

    /// Adds `line`. What stands before it makes one that was cut short none.
    fn write(&mut self, line: &str) -> io::Result<()> {
        let end = if self.is_cut { CUT } else { "" };
        let done = self.file.write_all(format!("{end}{line}\n").as_bytes());
        (self.is_cut, self.lines) = (done.is_err(), self.lines + 1);
        done
    }
}

/// Ends a line that was cut short, so that it is none.
const CUT: &str = "?\n";

/// Where a shorter journal is written that takes the place of the one at `path`; by its name it is none.
fn beside(path: &Path) -> PathBuf {
    path.with_extension("journal.new")
}

/// What `line` says of a process's pulse: its number, and when it began.
fn pulse(line: &str) -> Option<(u32, u64)> {
    let (process, began) = line.strip_prefix("pulse ")?.split_once(' ')?;
    Some((process.parse().ok()?, began.parse().ok()?))
}

fn pulse_line(process: u32, began: u64) -> String {
    format!("pulse {process} {began}")
}

/// A thread as it was.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Was {
    task: usize,
    process: u32,
    thread: u32,
    began: u64,
    class: SchedPolicy,
    cores: Vec<CoreId>,
}

impl Was {
    /// As [`was`] reads it.
    fn line(&self) -> String {
        let Self { task, process, thread, began, class: SchedPolicy { policy, priority }, cores } = self;
        format!("thread {task} {process} {thread} {began} {policy} {priority} {}", cpulist::text(cores))
    }

    fn is_there(&self) -> bool {
        proc::began(self.process, self.thread) == Some(self.began)
    }
}

/// The class that who has inherited `ours` would be in without us, if its parent was in `parent`.
fn inherited(ours: SchedPolicy, parent: SchedPolicy) -> SchedPolicy {
    match parent.child() {
        // Who is real-time by us was in the fair class, other than by itself.
        class if ours == SchedPolicy::URGENT && class != ours => SchedPolicy::OTHER,
        class => class,
    }
}

fn was(line: &str) -> Option<Was> {
    let words: Vec<&str> = line.split(' ').collect();
    let ["thread", task, process, thread, began, policy, priority, cores] = words[..] else { return None };
    Some(Was {
        task: task.parse().ok()?,
        process: process.parse().ok()?,
        thread: thread.parse().ok()?,
        began: began.parse().ok()?,
        class: SchedPolicy { policy: policy.parse().ok()?, priority: priority.parse().ok()? },
        cores: cpulist::parse(cores).ok()?,
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
mod tests;
