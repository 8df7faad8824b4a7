//! Programs that a daemon started, ended after it.
//!
//! Each is the first of a process group, and all of the group end with it, as they do when the daemon
//! ends in order. The kernel gives the number of a group to no other as long as a process is in it, so a group is
//! the daemon's if its first process, or a process that the journal knows, still is that one.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::{Signal, kill_process_group};

use super::restore::{parts, remove};
use super::{Was, pid, was};
use crate::proc::{self, Stat};

/// Time for programs to end after SIGTERM, before SIGKILL.
pub const GRACE: Duration = Duration::from_secs(5);

/// Ends the programs that the journal at `path` names as started, each with its process group, and
/// removes the journal. Which they were: `stress (4242)`.
///
/// # Errors
/// It cannot be read, or is not to be trusted ([`crate::files`]).
pub fn end_programs(path: &Path) -> io::Result<Vec<String>> {
    let (folder, name) = parts(path)?;
    let text = folder.read(&name)?;
    let known: BTreeMap<(u32, u32), Was> =
        text.lines().filter_map(was).map(|was| ((was.process, was.thread), was)).collect();
    let is_known = |id: u32| known.get(&(id, id)).is_some_and(Was::is_there);
    let mut groups = Vec::new();
    for (group, began) in text.lines().filter_map(started) {
        let members: Vec<u32> = members(group).collect();
        let is_ours =
            proc::began(group, group) == Some(began) || members.iter().any(|&member| is_known(member));
        if is_ours && !members.is_empty() {
            let name = |id: &u32| format!("{} ({id})", proc::name(*id));
            groups.push((group, members.iter().map(name).collect::<Vec<_>>()));
        }
    }
    let signal = |signal: Signal| {
        for &(group, _) in &groups {
            // Whoever has ended needs none.
            let _ = pid(group).map(|group| kill_process_group(group, signal));
        }
    };
    signal(Signal::TERM);
    // Who was stopped could not hear it.
    signal(Signal::CONT);
    let end = Instant::now() + GRACE;
    while groups.iter().any(|&(group, _)| members(group).next().is_some()) && Instant::now() < end {
        std::thread::park_timeout(Duration::from_millis(5));
    }
    signal(Signal::KILL);
    remove(path)?;
    Ok(groups.into_iter().flat_map(|(_, names)| names).collect())
}

/// Processes of a process group that have not ended.
pub(super) fn members(group: u32) -> impl Iterator<Item = u32> {
    proc::processes().filter(move |&id| {
        Stat::of(id).is_some_and(|stat| stat.field(5) == Some(group.into()) && !stat.is_zombie())
    })
}

/// The group that `line` says was started, and when its first process began.
pub(super) fn started(line: &str) -> Option<(u32, u64)> {
    let mut words = line.strip_prefix("started ")?.split(' ');
    let (_task, process, began) = (words.next()?, words.next()?, words.next()?);
    Some((process.parse().ok()?, began.parse().ok()?))
}
