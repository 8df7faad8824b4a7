//! Programs of a test bed, and those left behind by a crash.
//!
//! Every program started in a namespace has an environment variable that names its starter by process
//! ID and start time. A program whose starter is gone is killed by process ID. That is the whole
//! clean-up: namespace and devices are removed with the last process inside.

use std::ops::{Deref, DerefMut};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::{io, process};

use rustix::process::{Pid, Signal, kill_process};

use host::proc;

/// A program that is killed when this is dropped.
#[derive(Debug)]
pub struct Child(process::Child);

impl Child {
    pub(super) fn new(child: process::Child) -> Self {
        Self(child)
    }
}

impl Deref for Child {
    type Target = process::Child;

    fn deref(&self) -> &process::Child {
        &self.0
    }
}

impl DerefMut for Child {
    fn deref_mut(&mut self) -> &mut process::Child {
        &mut self.0
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // Both fail only if it has ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Environment variable that names the starter of a program.
pub(super) const MARK: &str = "GREENWAVE_LAB";

/// Mark of this process: `ID-START`.
pub(super) fn mark() -> &'static str {
    static MARK: OnceLock<String> = OnceLock::new();
    MARK.get_or_init(|| {
        let id = process::id();
        format!("{id}-{}", proc::began(id, id).unwrap_or_default())
    })
}

/// Named leftovers of a crash: directories, including control groups'.
pub(super) struct Leftovers;

/// Directories and control groups of this process not yet removed.
static MADE: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

impl Leftovers {
    /// Creates `path` by `make`, to be removed by [`NetLab::end_all`](super::NetLab::end_all). Once
    /// that has begun, nothing more is created, and the caller blocks until the process ends.
    pub(super) fn make(path: &Path, make: impl FnOnce(&Path) -> io::Result<()>) -> io::Result<()> {
        let mut made = Self::lock();
        make(path).map(|()| made.push(path.to_owned()))
    }

    /// Paths created by this process; nothing is created or started while the lock is held.
    pub(super) fn lock() -> MutexGuard<'static, Vec<PathBuf>> {
        MADE.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records that `path` was removed.
    pub(super) fn removed(path: &Path) {
        Self::lock().retain(|other| other != path);
    }

    /// A unique name that contains the creator's mark.
    pub(super) fn name(name: &str) -> String {
        static MADE: AtomicU32 = AtomicU32::new(0);
        format!("{PREFIX}{}-{}-{name}", mark(), MADE.fetch_add(1, Ordering::Relaxed))
    }

    /// Entries of `folder` whose creator is gone.
    pub(super) fn in_folder(folder: &Path) -> impl Iterator<Item = PathBuf> {
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).filter(|path| {
            let name = path.file_name().and_then(|name| name.to_str());
            name.and_then(|name| name.strip_prefix(PREFIX)).is_some_and(|rest| {
                let mut parts = rest.splitn(3, '-');
                let (id, start) = (parts.next().unwrap_or(""), parts.next().unwrap_or(""));
                is_gone(&format!("{id}-{start}"))
            })
        })
    }
}

/// Prefix of leftovers' names.
const PREFIX: &str = "greenwave-lab-";

/// True if the process named by `mark` is gone.
fn is_gone(mark: &str) -> bool {
    let Some((id, start)) = mark.split_once('-') else { return false };
    let (Ok(id), Ok(start)) = (id.parse(), start.parse()) else { return false };
    proc::began(id, id) != Some(start)
}

/// Kills programs whose starter is gone.
pub(super) fn cleanup_stale() {
    end_marked(is_gone);
}

/// Kills programs started by this process.
pub(super) fn end_ours() {
    end_marked(|mark| mark == self::mark());
}

/// Kills programs whose mark satisfies `is_to_end`.
fn end_marked(is_to_end: impl Fn(&str) -> bool) {
    for id in proc::processes().filter(|&id| id > 1) {
        // One that ends meanwhile, or is not readable, is no leftover.
        let Ok(environment) = std::fs::read(format!("/proc/{id}/environ")) else { continue };
        let mark = environment
            .split(|&b| b == 0)
            .find_map(|line| line.strip_prefix(MARK.as_bytes())?.strip_prefix(b"="));
        let ends = mark.and_then(|mark| std::str::from_utf8(mark).ok()).is_some_and(&is_to_end);
        if ends && let Some(pid) = id.try_into().ok().and_then(Pid::from_raw) {
            let _ = kill_process(pid, Signal::KILL);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_is_what_has_a_maker_that_is_gone() {
        let folder = std::env::temp_dir().join(Leftovers::name("left"));
        let made = [
            Leftovers::name("a"),
            Leftovers::name("b-c"),
            format!("{PREFIX}4194305-1-0-x"),
            "else".to_owned(),
        ];
        made.iter().for_each(|name| std::fs::create_dir_all(folder.join(name)).unwrap());
        let left: Vec<_> = Leftovers::in_folder(&folder).collect();
        assert_eq!(left, [folder.join(&made[2])]);
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_process_that_lives_is_not_gone_and_one_of_another_start_is() {
        assert!(!is_gone(mark()));
        let id = process::id();
        assert!(is_gone(&format!("{id}-1")), "another process has the ID");
        assert!(is_gone("4194305-1"), "beyond the largest process ID");
        for text in ["", "x", "1", "x-1", "1-x"] {
            assert!(!is_gone(text), "{text:?} is not a mark");
        }
    }
}
