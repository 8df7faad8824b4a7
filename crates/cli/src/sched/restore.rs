//! Restoration of the changes of a daemon that has ended.
//!
//! The daemon's guardian does it: a greenwave process that waits at the other end of a pipe until
//! the daemon ends. If the guardian is gone too, the next start does it, or the user.

use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};

use hostsched::cpulist;
use hostsched::undo_log::{self, Author, Restored};
use queueing::CoreId;

use crate::Error;

/// Undo the changes of a scheduler that was killed.
#[derive(clap::Args)]
pub struct Args {
    /// Journal to restore from [default: all journals of ended schedulers].
    #[arg(value_name = "JOURNAL")]
    journal: Option<PathBuf>,
    /// Folder for undo logs [default: /run/greenwave, or the user's runtime folder].
    #[arg(long, value_name = "DIR", conflicts_with = "journal")]
    state_dir: Option<PathBuf>,
    /// Wait until stdin ends.
    #[arg(long, hide = true, requires = "journal")]
    guard: bool,
}

/// Restores, and prints the changes.
///
/// # Errors
/// An undo log that cannot be read.
pub fn run(args: &Args) -> Result<ExitCode, Error> {
    let Some(path) = &args.journal else {
        let lines = leftovers(&args.state_dir.clone().unwrap_or_else(undo_log::folder))?;
        lines.iter().for_each(|line| outln!("{line}"));
        if lines.is_empty() {
            outln!("nothing to restore");
        }
        return Ok(ExitCode::SUCCESS);
    };
    if args.guard {
        let mut all = Vec::new();
        // The pipe ends when its last writer has ended.
        let _ = std::io::stdin().read_to_end(&mut all);
        if !path.exists() {
            return Ok(ExitCode::SUCCESS);
        }
    }
    let text = restore_log(path).map_err(|e| Error::file(path, &e))?;
    if !args.guard {
        outln!("{text}");
    }
    Ok(ExitCode::SUCCESS)
}

/// Undoes the log at `path`, ends the programs that its daemon started, and returns the report.
fn restore_log(path: &Path) -> std::io::Result<String> {
    let restored = undo_log::restore(path)?;
    // All tasks are resumed before any is asked to end.
    let ended = match undo_log::end_programs(path) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Vec::new(),
        ended => ended?,
    };
    let ended = match ended.len() {
        0 => String::new(),
        _ => format!("; ended the programs it had started: {}", ended.join(", ")),
    };
    Ok(format!("{}{ended}", text(&restored)))
}

/// Undoes the logs in `folder` whose daemons have ended; a line for each.
///
/// # Errors
/// An undo log that cannot be read.
pub fn leftovers(folder: &Path) -> Result<Vec<String>, Error> {
    let mut lines = Vec::new();
    for (path, author) in journals(folder)? {
        if author.is_alive() {
            continue;
        }
        match restore_log(&path) {
            Ok(text) => lines.push(format!("greenwave {} has ended: {text}", author.process)),
            // Its guardian was faster.
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {}
            Err(e) => return Err(Error::file(&path, &e)),
        }
    }
    Ok(lines)
}

/// Refuses `cores` that another daemon manages, by its undo log in `folder` or in `default`, where a
/// daemon without `--state-dir` has it. A `default` that cannot be read does not count, since others
/// may have made it.
///
/// # Errors
/// The cores and their daemon; an undo log in `folder` that cannot be read.
pub fn unless_managed(folder: &Path, default: &Path, cores: &[CoreId]) -> Result<(), Error> {
    let elsewhere = journals(default).unwrap_or_default();
    for (_, author) in journals(folder)?.into_iter().chain(elsewhere) {
        let both: Vec<CoreId> = cores.iter().copied().filter(|core| author.cores.contains(core)).collect();
        if author.is_alive() && !both.is_empty() {
            let what =
                format!("cores {} are already managed by greenwave {}", cpulist::text(&both), author.process);
            return Err(Error::new(what).advice(format!("other cores, or kill {} first", author.process)));
        }
    }
    Ok(())
}

/// The undo logs in `folder`, and the author of each.
fn journals(folder: &Path) -> Result<Vec<(PathBuf, Author)>, Error> {
    undo_log::all(folder).map_err(|e| Error::file(folder, &e))
}

/// Text such as `2 threads and 1 cgroup put back`.
pub fn text(restored: &Restored) -> String {
    if restored.is_of_earlier_boot {
        return "nothing to restore: the journal is from before the last reboot".to_owned();
    }
    let plural = |n: usize, what: &str| if n == 1 { format!("1 {what}") } else { format!("{n} {what}s") };
    let resumed = if restored.signal_pages == 0 {
        String::new()
    } else {
        format!(", resumed the workers of {}", plural(restored.signal_pages, "program"))
    };
    let failed = if restored.failed == 0 { String::new() } else { format!("; {} failed", restored.failed) };
    format!(
        "restored {} and {}{resumed}{failed}",
        plural(restored.threads, "thread"),
        plural(restored.groups, "cgroup")
    )
}

/// Starts the guardian of `journal`. It ends once the child's stdin is closed.
///
/// # Errors
/// This program cannot be started again.
pub fn guardian(journal: &Path) -> Result<Child, Error> {
    let this = Path::new("/proc/self/exe");
    let mut command = Command::new(this);
    command.args(["sched", "restore", "--guard"]).arg(journal);
    // In its own process group, so that ctrl-C does not reach it.
    let child =
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0).spawn();
    child.map_err(|e| Error::file(this, &e))
}

#[cfg(test)]
mod tests {
    use hostsched::undo_log::Journal;

    use super::*;

    //~ sched: a second scheduler on a core is refused, also with a `--state-dir` of its own
    #[test]
    fn cores_of_a_running_scheduler_are_refused() {
        let folder = |name: &str| {
            std::env::temp_dir().join(format!("greenwave-managed-{}-{name}", std::process::id()))
        };
        let (own, default, missing) = (folder("own"), folder("default"), folder("missing"));
        let core = |n| [CoreId(n)];
        let journal = Journal::begin(&default, &core(3)).expect("a journal");
        let refused = |folder: &Path, default: &Path, n| {
            unless_managed(folder, default, &core(n)).err().map(|e| e.to_string())
        };
        for refusal in [refused(&default, &missing, 3), refused(&own, &default, 3)] {
            let process = std::process::id();
            assert!(refusal.is_some_and(|text| {
                text.contains(&format!("cores 3 are already managed by greenwave {process}"))
            }));
        }
        assert_eq!([refused(&own, &default, 4), refused(&own, &missing, 3)], [None, None]);
        drop(journal);
        assert_eq!(refused(&own, &default, 3), None, "it has ended");
        std::fs::remove_dir_all(default).expect("the test's folder");
    }
}
