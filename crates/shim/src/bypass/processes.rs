//! Processes of a program, with their sockets and a check that the library is loaded.
//!
//! A process is inspected when it is new, after it has executed another program, and from time to
//! time for io_uring: reading the mappings is the most expensive step. Source: proc_pid_maps(5),
//! proc_pid_stat(5), proc_pid_fd(5).

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::Process;
use crate::preload::elf_check::{self, NotPreloadable};
use host::proc::{self, Stat};

/// All known descendants of a process.
#[derive(Debug)]
pub(super) struct Processes {
    /// Root process, not included.
    root: u32,
    /// Child of the root that is not included.
    but: u32,
    /// File name of the library.
    library: OsString,
    lives: BTreeMap<u32, Life>,
}

/// State of one process.
#[derive(Debug)]
struct Life {
    image: Image,
    /// Snapshots with this image.
    snapshots: u32,
    state: State,
}

#[derive(Debug)]
enum State {
    /// The loader is running, or the process is about to execute another program.
    Begins,
    Known(Process),
    /// The process may not be inspected; error of the kernel.
    Unseen(Process, String),
}

/// Start time, load address and stack address of the running program: they differ for each
/// execve(2).
type Image = [Option<u64>; 3];

/// Number of snapshots between two readings of the mappings.
const LOOKS_MAPPED: u32 = 10;

impl Processes {
    /// Creates the set of descendants of `root`, without its child `but`; `library` is the
    /// preloaded file.
    pub fn new(root: u32, but: u32, library: &Path) -> Self {
        let library = library.file_name().unwrap_or_default().to_owned();
        Self { root, but, library, lives: BTreeMap::new() }
    }

    /// Takes a snapshot.
    pub fn scan(&mut self) {
        let ids: BTreeSet<u32> =
            proc::descendants(self.root).into_iter().filter(|id| *id != self.but).collect();
        self.lives.retain(|id, _| ids.contains(id));
        let root = image(self.root);
        for id in ids {
            let now = image(id);
            let life = self.lives.remove(&id).filter(|life| life.image == now);
            let snapshots = life.as_ref().map_or(0, |life| life.snapshots + 1);
            let state = match life {
                // A forked copy of the root is about to execute another program.
                _ if now[0].is_none() || now[1..] == root[1..] && now[1] > Some(0) => State::Begins,
                Some(Life { state: state @ (State::Known(_) | State::Unseen(..)), .. })
                    if !snapshots.is_multiple_of(LOOKS_MAPPED) =>
                {
                    state
                }
                _ => self.look_into(id),
            };
            self.lives.insert(id, Life { image: now, snapshots, state });
        }
    }

    /// Processes that were inspected.
    pub fn known(&self) -> impl Iterator<Item = &Process> {
        self.lives.values().filter_map(|life| match &life.state {
            State::Known(process) => Some(process),
            _ => None,
        })
    }

    /// Processes that may not be inspected, with the kernel's error.
    pub fn unseen(&self) -> impl Iterator<Item = (&Process, &str)> {
        self.lives.values().filter_map(|life| match &life.state {
            State::Unseen(process, why) => Some((process, &**why)),
            _ => None,
        })
    }

    fn look_into(&self, id: u32) -> State {
        let process = Process { id, name: proc::name(id), ..Process::default() };
        // Reading this link takes the same right as reading the links of descriptors. Reading
        // `maps` may take less (CAP_PERFMON).
        let looked = std::fs::read_link(format!("/proc/{id}/exe"));
        match looked.and_then(|_| std::fs::read(format!("/proc/{id}/maps"))) {
            // The process has ended.
            Ok(maps) if maps.is_empty() => State::Begins,
            Ok(maps) => self.known_by(&maps, process),
            Err(e) if e.kind() == io::ErrorKind::PermissionDenied => {
                let why = e.to_string().split(" (os error").next().unwrap_or_default().to_owned();
                State::Unseen(process, why)
            }
            Err(_) => State::Begins,
        }
    }

    fn known_by(&self, maps: &[u8], process: Process) -> State {
        let uses_io_uring = is_mapped(maps, |path| path == b"anon_inode:[io_uring]");
        let has = |is: &dyn Fn(&OsStr) -> bool| {
            is_mapped(maps, |path| {
                let path = path.strip_suffix(b" (deleted)").unwrap_or(path);
                path.starts_with(b"/") && Path::new(OsStr::from_bytes(path)).file_name().is_some_and(is)
            })
        };
        if has(&|name| name == self.library) {
            return State::Known(Process { uses_io_uring, ..process });
        }
        let program = format!("/proc/{}/exe", process.id);
        let why = match elf_check::fits(Path::new(&program)) {
            Ok(()) => {
                // The loader maps the C library after preloaded libraries.
                let is_loaded = has(&|name| {
                    name.as_bytes().starts_with(b"libc.so") || name.as_bytes().starts_with(b"libc-")
                });
                if !is_loaded {
                    return State::Begins;
                }
                "started without LD_PRELOAD".to_owned()
            }
            Err(NotPreloadable::NotThere(_) | NotPreloadable::Unread(..)) => {
                "libgreenwave.so is not loaded".to_owned()
            }
            Err(unfit) => unfit.clause(),
        };
        State::Known(Process { uses_io_uring, without: Some(why), ..process })
    }
}

/// Inodes of the sockets of `process`.
pub(super) fn sockets(process: u32) -> BTreeSet<u32> {
    let descriptors = std::fs::read_dir(format!("/proc/{process}/fd")).into_iter().flatten().flatten();
    let number = |link: &OsStr| {
        let link = link.as_bytes().strip_prefix(b"socket:[")?.strip_suffix(b"]")?;
        std::str::from_utf8(link).ok()?.parse().ok()
    };
    descriptors.filter_map(|entry| number(std::fs::read_link(entry.path()).ok()?.as_os_str())).collect()
}

fn image(process: u32) -> Image {
    let stat = Stat::of(process);
    [22, 26, 28].map(|field| stat.as_ref()?.field(field))
}

/// True if the path, the sixth field, of a line of `maps` satisfies `is`.
fn is_mapped(maps: &[u8], mut is: impl FnMut(&[u8]) -> bool) -> bool {
    maps.split(|&b| b == b'\n').any(|line| {
        let mut rest = line;
        for _ in 0..5 {
            let Some(end) = rest.iter().position(|&b| b == b' ') else { return false };
            rest = rest[end..].trim_ascii_start();
        }
        !rest.is_empty() && is(rest)
    })
}
