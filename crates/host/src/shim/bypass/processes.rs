//! A program's processes: whether the library is loaded into them, and which
//! sockets they have.
//!
//! A process is looked into when it is new, when it runs another program than
//! before, and now and then, for rings of io_uring: reading what is mapped costs
//! more than all else here.
//! Source: proc_pid_maps(5), proc_pid_stat(5), proc_pid_fd(5).

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::Process;
use crate::proc::{self, Stat};
use crate::shim::preload::elf_check::{self, NotPreloadable};

/// See the module.
#[derive(Debug)]
pub(super) struct Processes {
    /// That of which they descend, which is none of them.
    root: u32,
    /// Another one of its that is not.
    but: u32,
    /// The file name of the library.
    library: OsString,
    lives: BTreeMap<u32, Life>,
}

/// State of one process.
#[derive(Debug)]
struct Life {
    image: Image,
    /// Looks at which it had this image.
    looks: u32,
    state: State,
}

#[derive(Debug)]
enum State {
    /// The loader is at work, or it is about to run another program.
    Begins,
    Known(Process),
    /// It may not be looked into, as the kernel says.
    Unseen(Process, String),
}

/// When it began, where its program was loaded, and where its stack begins: what it
/// runs now, and no other program before or after.
type Image = [Option<u64>; 3];

/// Looks from one reading of what is mapped to the next.
const LOOKS_MAPPED: u32 = 10;

impl Processes {
    /// Those that descend from `root`, less its child `but`; `library` is the file that
    /// is preloaded.
    pub fn new(root: u32, but: u32, library: &Path) -> Self {
        let library = library.file_name().unwrap_or_default().to_owned();
        Self { root, but, library, lives: BTreeMap::new() }
    }

    /// Looks at all of them.
    pub fn look(&mut self) {
        let ids: BTreeSet<u32> =
            proc::descendants(self.root).into_iter().filter(|id| *id != self.but).collect();
        self.lives.retain(|id, _| ids.contains(id));
        let root = image(self.root);
        for id in ids {
            let now = image(id);
            let life = self.lives.remove(&id).filter(|life| life.image == now);
            let looks = life.as_ref().map_or(0, |life| life.looks + 1);
            let state = match life {
                // A copy of the root runs another program at once.
                _ if now[0].is_none() || now[1..] == root[1..] && now[1] > Some(0) => State::Begins,
                Some(Life { state: state @ (State::Known(_) | State::Unseen(..)), .. })
                    if !looks.is_multiple_of(LOOKS_MAPPED) =>
                {
                    state
                }
                _ => self.look_into(id),
            };
            self.lives.insert(id, Life { image: now, looks, state });
        }
    }

    /// Those that could be looked into.
    pub fn known(&self) -> impl Iterator<Item = &Process> {
        self.lives.values().filter_map(|life| match &life.state {
            State::Known(process) => Some(process),
            _ => None,
        })
    }

    /// Those that could not, and what the kernel says.
    pub fn unseen(&self) -> impl Iterator<Item = (&Process, &str)> {
        self.lives.values().filter_map(|life| match &life.state {
            State::Unseen(process, why) => Some((process, &**why)),
            _ => None,
        })
    }

    fn look_into(&self, id: u32) -> State {
        let process = Process { id, name: proc::name(id), ..Process::default() };
        // The right to read this link is that to read those of descriptors. Reading `maps` can
        // take less (CAP_PERFMON).
        let looked = std::fs::read_link(format!("/proc/{id}/exe"));
        match looked.and_then(|_| std::fs::read(format!("/proc/{id}/maps"))) {
            // It has ended.
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
                // The loader maps the C library after what is preloaded.
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

/// The numbers of the sockets that `process` has.
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

/// True if a line of `maps` ends with a path that `is` so: its sixth field.
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
