//! Undo log: the original state, written to a file before each change.
//!
//! One line per thread (its class and cores), per control group that is made, frozen or thawed, per setting
//! of a control group, and per program whose workers are asked to leave their cores. Each line is one
//! write, which the kernel keeps even if this process is killed. A reader, the guardian that notices the
//! end or the next start, restores everything. A thread is identified by its start time, so a reused ID is
//! left alone. Restoring twice does no harm.
//!
//! A child inherits the changes made to its parent. A thread that is found later with the task's
//! settings is therefore recorded with the state it would have without us: that of its process's first
//! thread, of its parent, or of the task. Threads started after the last line was written get the same.
//!
//! Ended threads need no line. Once there are many, all lines still needed are written to a second
//! file, which is then renamed over the log: at any moment the log restores everything.
//!
//! A program that the daemon started has a line as well, and ends with the daemon. The daemon holds a lock
//! on its log, which the kernel releases when it ends: neither a zombie nor a process that reuses its ID
//! counts as the daemon. The log names its boot, since nothing of it survives another. It is in a directory
//! that no other user can change ([`host::files`]).

use std::collections::{BTreeMap, BTreeSet};
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
use super::real_time::{BUSY, REGULAR};
use host::files::Folder;
use host::proc;
use host::sched_policy::SchedPolicy;

#[cfg(any(test, fuzzing))]
pub(crate) mod fuzz;
mod programs;
mod restore;

pub use programs::{GRACE, end_programs};
pub use restore::{Restored, restore};

/// The log is compacted when it has this many lines more than twice those that the last compaction
/// kept.
const SPARE: usize = 1000;

/// Undo log of a running daemon.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    folder: Folder,
    /// Locked for the life of this process.
    file: File,
    /// First lines: writer and boot.
    head: String,
    /// Lines of control groups and started programs.
    folders: Vec<String>,
    /// Groups of others that are frozen by us.
    frozen: BTreeSet<PathBuf>,
    /// Process that restores this log when this one has ended.
    guardian: Option<u32>,
    /// Programs whose workers may have been asked to leave cores, with their start times.
    signal_pages: BTreeMap<u32, u64>,
    /// First thread of each task.
    firsts: BTreeMap<usize, Was>,
    /// Threads with a line, by task, process and number; ended ones stay until the next compaction.
    threads: BTreeMap<(usize, u32, u32), Was>,
    /// Lines written, and the number below which it is not compacted.
    lines: usize,
    lines_max: usize,
    /// True if the last line was cut short.
    is_cut: bool,
}

/// Marks that members of a task have from us; a new thread with the same has inherited them.
#[derive(Clone, Copy, Debug, Default)]
pub struct InheritedMarks<'a> {
    /// Class set by us.
    pub class: Option<SchedPolicy>,
    /// Core masks set recently.
    pub cores: &'a [CpuSet],
}

/// Writer of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Author {
    /// Process.
    pub process: u32,
    /// Start time of that process.
    began: u64,
    /// Managed cores.
    pub cores: Vec<CoreId>,
    /// Boot in which it ran, if recorded.
    boot: Option<String>,
    /// True if the lock of the log is held.
    is_locked: bool,
}

impl Author {
    /// True if the process still runs. Versions without a lock recorded no boot; they are
    /// identified by start time.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        let is_there =
            || proc::began(self.process, self.process) == Some(self.began) && !proc::is_zombie(self.process);
        self.is_locked || (self.boot.is_none() && is_there())
    }
}

/// Directory of logs: a system one for root, otherwise the user's own.
#[must_use]
pub fn folder() -> PathBuf {
    let user = rustix::process::geteuid();
    if user.is_root() {
        return PathBuf::from("/run/greenwave");
    }
    // A process without a session's environment, as under cron or sudo, may have a session directory
    // all the same.
    let sessions = PathBuf::from(format!("/run/user/{}", user.as_raw()));
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").filter(|folder| !folder.is_empty()).map(PathBuf::from);
    match runtime.or_else(|| sessions.is_dir().then_some(sessions)) {
        Some(folder) => folder.join("greenwave"),
        None => std::env::temp_dir().join(format!("greenwave-{}", user.as_raw())),
    }
}

/// Logs in `folder` with their writers; none if there is no such directory.
///
/// # Errors
/// The directory or a file in it is not trusted ([`host::files`]) or cannot be read.
pub fn all(folder: &Path) -> io::Result<Vec<(PathBuf, Author)>> {
    let opened = match Folder::open(folder) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        opened => opened?,
    };
    let mut found = Vec::new();
    for name in opened.names()?.into_iter().filter(|name| name.ends_with(".journal")) {
        let of_file = |e: io::Error| host::files::of_name(&name, e);
        let read = opened.open_file(&name).and_then(|mut file| {
            let mut text = String::new();
            file.read_to_string(&mut text)?;
            Ok((text, is_locked(&file)))
        });
        match read {
            Ok((text, is_locked)) => {
                found.extend(author(&text, is_locked).map(|author| (folder.join(&name), author)));
            }
            // It was restored meanwhile.
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            Err(e) => return Err(of_file(e)),
        }
    }
    Ok(found)
}

/// True if a daemon holds the lock of its log.
fn is_locked(file: &File) -> bool {
    flock(file, FlockOperation::NonBlockingLockShared) == Err(Errno::WOULDBLOCK)
}

fn author(text: &str, is_locked: bool) -> Option<Author> {
    let words: Vec<&str> = text.lines().next()?.split(' ').collect();
    let ["greenwave", "sched", "1", process, began, cores] = words[..] else { return None };
    let (process, began) = (process.parse().ok()?, began.parse().ok()?);
    Some(Author { process, began, cores: cpulist::parse(cores).ok()?, boot: boot(text), is_locked })
}

/// Boot recorded in a log.
fn boot(text: &str) -> Option<String> {
    text.lines().nth(1)?.strip_prefix("boot ").map(str::to_owned)
}

/// Current boot; `None` if `/proc` does not name it.
fn this_boot() -> Option<String> {
    let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    Some(id.trim().to_owned())
}

impl Journal {
    /// Creates a log in `folder` for this process, which manages `cores`.
    ///
    /// # Errors
    /// The kernel's error for the file.
    pub fn begin(folder: &Path, cores: &[CoreId]) -> io::Result<Self> {
        let opened = Folder::create(folder)?;
        let id = std::process::id();
        let name = format!("sched-{id}.journal");
        let file = opened.create_file(&name).map_err(|e| host::files::of_name(&name, e))?;
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
            frozen: BTreeSet::new(),
            guardian: None,
            signal_pages: BTreeMap::new(),
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

    /// Path of the file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Restores everything in the log, as [`restore`], even if its directory was removed meanwhile.
    ///
    /// # Errors
    /// The log cannot be read or removed.
    pub fn put_back(&self) -> io::Result<Restored> {
        let mut text = vec![0; usize::try_from(self.file.metadata()?.len()).unwrap_or(usize::MAX)];
        self.file.read_exact_at(&mut text, 0)?;
        let name = self.path.file_name().unwrap_or_default().to_string_lossy();
        restore::put_back(&String::from_utf8_lossy(&text), || restore::remove_from(&self.folder, &name))
    }

    /// Records the scheduling of `thread` of `process`, which belongs to `task`, if it can be read.
    /// Settings inherited as one of `ours` are replaced by those it would have without us. A thread
    /// recorded before keeps its record. Returns the thread's class as recorded.
    ///
    /// # Errors
    /// The process has ended, or the file cannot be written.
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
        let has_class = ours.class.is_some_and(|ours| class == ours || ours == REGULAR && class == BUSY);
        let has_cores = ours.cores.contains(&set);
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

    /// Record that `thread` has inherited from: its process's first thread, its parent's, or the
    /// task's.
    fn parent(&self, task: usize, process: u32, thread: u32) -> Option<&Was> {
        let first_of = |id: u32| self.threads.get(&(task, id, id)).filter(|was| was.is_there());
        let own = if thread == process { None } else { first_of(process) };
        own.or_else(|| first_of(proc::parent(process)?)).or_else(|| self.firsts.get(&task))
    }

    /// Records that `group` was made for `task`.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn made(&mut self, task: usize, group: &Path) -> io::Result<()> {
        self.folder(format!("made {task} {}", group.display()))
    }

    /// Records that `group`, which others made, will be frozen now.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn freezes(&mut self, group: &Path) -> io::Result<()> {
        self.write(&format!("freezes {}", group.display()))?;
        self.frozen.insert(group.to_owned());
        Ok(())
    }

    /// Records that `group` was thawed, or that an operator has frozen it: it stays as it is.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn thaws(&mut self, group: &Path) -> io::Result<()> {
        self.write(&format!("thaws {}", group.display()))?;
        self.frozen.remove(group);
        Ok(())
    }

    /// Records that `task` consists of the threads in the threaded `group` only.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn threaded(&mut self, task: usize, group: &Path) -> io::Result<()> {
        self.folder(format!("threaded {task} {}", group.display()))
    }

    /// Records that `file` of a control group, which contains `old`, will contain `new`. Order matters:
    /// the end restores the last file first.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn sets(&mut self, file: &Path, old: u64, new: u64) -> io::Result<()> {
        let line = format!("sets {old} {new} {}", file.display());
        if self.folders.contains(&line) {
            return Ok(());
        }
        self.folder(line)
    }

    /// Process that restores this log when this process has ended.
    #[must_use]
    pub const fn guardian(&self) -> Option<u32> {
        self.guardian
    }

    /// Names that process.
    pub const fn set_guardian(&mut self, process: u32) {
        self.guardian = Some(process);
    }

    /// Records that `process`, the leader of a process group, was started for `task` and ends with us.
    ///
    /// # Errors
    /// The process has ended, or the file cannot be written.
    pub fn started(&mut self, task: usize, process: u32) -> io::Result<()> {
        let began = proc::began(process, process).ok_or(io::ErrorKind::NotFound)?;
        self.folder(format!("started {task} {process} {began}"))
    }

    fn folder(&mut self, line: String) -> io::Result<()> {
        self.write(&line)?;
        self.folders.push(line);
        Ok(())
    }

    /// Records that workers of `process`, started at `began`, will be asked to leave their cores.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn asks(&mut self, process: u32, began: u64) -> io::Result<()> {
        if self.signal_pages.get(&process) != Some(&began) {
            self.write(&signal_page_line(process, began))?;
            self.signal_pages.insert(process, began);
        }
        Ok(())
    }

    /// Writes the log again if it was removed, or its directory: otherwise a kill would restore nothing.
    ///
    /// # Errors
    /// The log cannot be written at its path; [`put_back`](Self::put_back) still restores all.
    pub fn keep(&mut self) -> io::Result<()> {
        if rustix::fs::fstat(&self.file)?.st_nlink > 0 {
            return Ok(());
        }
        let folder = self.path.parent().ok_or(io::ErrorKind::NotFound)?;
        self.folder = Folder::create(folder)?;
        self.write_anew()
    }

    /// Compacts the log if it may hold many ended threads. `is_watched`, given a task, a process and a
    /// thread, is true for threads known to be alive.
    ///
    /// # Errors
    /// The shorter log cannot be written; this one stays in use, and the next attempt follows after as
    /// much growth.
    pub fn shorten(&mut self, is_watched: impl Fn(usize, (u32, u32)) -> bool) -> io::Result<()> {
        if self.lines <= self.lines_max {
            return Ok(());
        }
        // An unwatched thread may be alive: an orphan is found by its line alone.
        self.threads
            .retain(|&(task, process, thread), was| is_watched(task, (process, thread)) || was.is_there());
        self.signal_pages.retain(|&process, began| proc::began(process, process) == Some(*began));
        let done = self.write_anew();
        self.lines_max = 2 * self.lines + SPARE;
        done
    }

    /// Writes the needed lines to a second file, and renames it over this one.
    fn write_anew(&mut self) -> io::Result<()> {
        let mut lines = vec![self.head.clone()];
        lines.extend(self.folders.iter().cloned());
        lines.extend(self.frozen.iter().map(|group| format!("freezes {}", group.display())));
        lines.extend(self.signal_pages.iter().map(|(&process, &began)| signal_page_line(process, began)));
        lines.extend(self.firsts.values().map(Was::line));
        let others = self.threads.values().filter(|was| self.firsts.get(&was.task) != Some(*was));
        lines.extend(others.map(Was::line));
        let name = |path: &Path| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let (new, old) = (name(&beside(&self.path)), name(&self.path));
        // An unfinished earlier attempt.
        let _ = self.folder.remove(&new);
        let mut file = self.folder.create_file(&new)?;
        let text = lines.join("\n") + "\n";
        // Locked before it is renamed: a reader finds a lock at any moment.
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

    /// Appends `line`; after a line that was cut short, [`CUT`] comes first.
    fn write(&mut self, line: &str) -> io::Result<()> {
        let end = if self.is_cut { CUT } else { "" };
        let done = self.file.write_all(format!("{end}{line}\n").as_bytes());
        (self.is_cut, self.lines) = (done.is_err(), self.lines + 1);
        done
    }
}

/// Ends a line that was cut short, and makes it invalid.
const CUT: &str = "?\n";

/// Path of the shorter log that replaces the one at `path`; its name is not that of a log.
fn beside(path: &Path) -> PathBuf {
    path.with_extension("journal.new")
}

/// Program of a signal-page `line`: its number and start time. Earlier versions wrote `pulse`.
fn process_of(line: &str) -> Option<(u32, u64)> {
    let fields = line.strip_prefix("signal_page ").or_else(|| line.strip_prefix("pulse "))?;
    let (process, began) = fields.split_once(' ')?;
    Some((process.parse().ok()?, began.parse().ok()?))
}

fn signal_page_line(process: u32, began: u64) -> String {
    format!("signal_page {process} {began}")
}

/// Recorded state of a thread.
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
    /// Line, as [`was`] reads it.
    fn line(&self) -> String {
        let Self { task, process, thread, began, class: SchedPolicy { policy, priority }, cores } = self;
        format!("thread {task} {process} {thread} {began} {policy} {priority} {}", cpulist::text(cores))
    }

    fn is_there(&self) -> bool {
        proc::began(self.process, self.thread) == Some(self.began)
    }
}

/// Class that a thread which inherited `ours` would have without greenwave, if its parent was in
/// `parent`.
fn inherited(ours: SchedPolicy, parent: SchedPolicy) -> SchedPolicy {
    match parent.child() {
        // A thread made real-time by us was in the fair class before, unless it set the class itself.
        class if matches!(ours, REGULAR | BUSY) && class != ours => SchedPolicy::OTHER,
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

/// Task and group of a `line` about a threaded group.
fn threaded(line: &str) -> Option<(usize, PathBuf)> {
    let (task, path) = line.strip_prefix("threaded ")?.split_once(' ')?;
    Some((task.parse().ok()?, PathBuf::from(path)))
}

/// File, old and new value of a `line` about a control group's setting.
fn sets(line: &str) -> Option<(PathBuf, u64, u64)> {
    let (old, rest) = line.strip_prefix("sets ")?.split_once(' ')?;
    let (new, path) = rest.split_once(' ')?;
    Some((PathBuf::from(path), old.parse().ok()?, new.parse().ok()?))
}

/// The number as the kernel's calls take it.
pub(super) fn pid(id: u32) -> Option<Pid> {
    Pid::from_raw(i32::try_from(id).ok()?)
}

#[cfg(test)]
mod tests;
