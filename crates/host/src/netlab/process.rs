//! Programs in the laboratory, and those that a crash left behind.
//!
//! Every program started in a namespace has an environment variable that
//! names the process which started it, by id and start time. One whose
//! starter is gone serves nobody: its end, by process id, is the whole
//! clean-up, as namespace and devices go with the last process inside.

use std::ops::{Deref, DerefMut};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::{io, process};

use rustix::process::{Pid, Signal, kill_process};

use crate::proc;

/// A program that ends when this is dropped.
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
        // Both fail only when it has ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The environment variable that says who started a program.
pub(super) const MARK: &str = "GREENWAVE_LAB";

/// Who this process is: `ID-START`.
pub(super) fn mark() -> &'static str {
    static MARK: OnceLock<String> = OnceLock::new();
    MARK.get_or_init(|| {
        let id = process::id();
        format!("{id}-{}", proc::began(id, id).unwrap_or_default())
    })
}

/// What outlives a crash and has a name: a folder, or a control group's.
pub(super) struct Leftovers;

/// Folders and control groups of this process that are not removed yet.
static MADE: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

impl Leftovers {
    /// Makes `path` by `make`, to be removed by [`NetLab::end_all`](super::NetLab::end_all); once that has begun,
    /// nothing is made any more, and the caller waits for the end of the process.
    pub(super) fn make(path: &Path, make: impl FnOnce(&Path) -> io::Result<()>) -> io::Result<()> {
        let mut made = Self::lock();
        make(path).map(|()| made.push(path.to_owned()))
    }

    /// What this process has made; nothing is made or started while this is held.
    pub(super) fn lock() -> MutexGuard<'static, Vec<PathBuf>> {
        MADE.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// `path` is removed.
    pub(super) fn removed(path: &Path) {
        Self::lock().retain(|other| other != path);
    }

    /// A name that says who made it, and is nobody else's.
    pub(super) fn name(name: &str) -> String {
        static MADE: AtomicU32 = AtomicU32::new(0);
        format!("{PREFIX}{}-{}-{name}", mark(), MADE.fetch_add(1, Ordering::Relaxed))
    }

    /// What is in `folder` and whose maker is gone.
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

/// How names of what is left begin.
const PREFIX: &str = "greenwave-lab-";

/// Whether the process that `mark` names is gone.
fn is_gone(mark: &str) -> bool {
    let Some((id, start)) = mark.split_once('-') else { return false };
    let (Ok(id), Ok(start)) = (id.parse(), start.parse()) else { return false };
    proc::began(id, id) != Some(start)
}

/// Ends programs whose starter is gone.
pub(super) fn cleanup_stale() {
    end_marked(is_gone);
}

/// Ends programs that this process has started.
pub(super) fn end_ours() {
    end_marked(|mark| mark == self::mark());
}

/// Ends programs whose starter's mark is one that `is_to_end`.
fn end_marked(is_to_end: impl Fn(&str) -> bool) {
    for id in proc::processes().filter(|&id| id > 1) {
        // One that ends meanwhile, or is not ours to read, is nobody's leftover.
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
        assert!(is_gone(&format!("{id}-1")), "the id is used again by another process");
        assert!(is_gone("4194305-1"), "beyond the largest id there is");
        for text in ["", "x", "1", "x-1", "1-x"] {
            assert!(!is_gone(text), "{text:?} names nobody");
        }
    }
}
