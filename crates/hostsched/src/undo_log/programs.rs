//! Programs that a daemon started, ended after its death.
//!
//! Each program leads a process group, which ends with the program, as in an orderly end of the daemon.
//! The kernel does not reuse a group's number while a process is in it. A group is therefore the
//! daemon's if its leader, or a process in the log, is still the recorded one.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::{Signal, kill_process_group};

use super::restore::{parts, remove};
use super::{Was, pid, was};
use host::proc::{self, Stat};

/// Maximum time for programs to end after SIGTERM, before SIGKILL.
pub const GRACE: Duration = Duration::from_secs(5);

/// Ends the programs that the log at `path` records as started, with their process groups, and removes
/// the log. Result: the programs, such as `stress (4242)`.
///
/// # Errors
/// The log cannot be read or is not trusted ([`host::files`]).
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
            // An ended group needs no signal.
            let _ = pid(group).map(|group| kill_process_group(group, signal));
        }
    };
    signal(Signal::TERM);
    // A stopped process does not act on it.
    signal(Signal::CONT);
    let wait = || {
        let end = Instant::now() + GRACE;
        while groups.iter().any(|&(group, _)| members(group).next().is_some()) && Instant::now() < end {
            std::thread::park_timeout(Duration::from_millis(5));
        }
    };
    wait();
    signal(Signal::KILL);
    // A killed process ends only when it runs next.
    wait();
    remove(path)?;
    Ok(groups.into_iter().flat_map(|(_, names)| names).collect())
}

/// Processes of a process group that have not ended.
pub(super) fn members(group: u32) -> impl Iterator<Item = u32> {
    proc::processes().filter(move |&id| {
        Stat::of(id).is_some_and(|stat| stat.field(5) == Some(group.into()) && !stat.is_zombie())
    })
}

/// Group that `line` records as started, and start time of its leader.
pub(super) fn started(line: &str) -> Option<(u32, u64)> {
    let mut words = line.strip_prefix("started ")?.split(' ');
    let (_task, process, began) = (words.next()?, words.next()?, words.next()?);
    Some((process.parse().ok()?, began.parse().ok()?))
}
