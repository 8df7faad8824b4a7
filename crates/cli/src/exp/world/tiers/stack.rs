//! The front on our own stack: `greenwave run` around it, at the users' cable.
//!
//! The service is the same unmodified program. The stack has an address of its own
//! beside the kernel's on that cable, and takes frames for it by AF_XDP; what the
//! front calls its workers by stays the kernel's. A class of users is a level of
//! its receive buffer and of its events by the DSCP of their packets, and answers
//! go back with the same.

use std::fs::File;
use std::path::Path;
use std::process::Command;

use host::netlab::{Group, Namespace, TempDir};
use net::stack::Config as StackConfig;
use queueing::Span;

use crate::error::Error;

/// What `greenwave run` is told by files, and where it says what goes wrong.
pub struct OurStack {
    folder: TempDir,
}

impl OurStack {
    /// Its files; classes of users come with each of `dscp`.
    ///
    /// # Errors
    /// They cannot be written.
    pub fn new(dscp: &[u8]) -> Result<Self, Error> {
        let failed = |e: host::netlab::LabError| Error::new(format!("greenwave run: {e}"));
        let folder = TempDir::new("front").map_err(failed)?;
        let policy = policy(dscp).map_err(Error::new)?;
        folder.write(POLICY, policy.as_bytes()).map_err(failed)?;
        Ok(Self { folder })
    }

    /// Starts `words` in `group` and `host` on the stack that has `addr` on `device`. With a
    /// target at its `door`, newcomers are held to what can be served, by the front's own queue, too,
    /// of which it tells in a file.
    ///
    /// # Errors
    /// There is no log, or no program of ours.
    pub fn command(
        &self,
        (group, host): (&Group, &Namespace),
        device: &str,
        addr: &str,
        door: Option<(Span, &Path)>,
        words: &[&str],
    ) -> Result<Command, Error> {
        let this = std::env::current_exe().map_err(|e| Error::new(format!("greenwave run: {e}")))?;
        let mut command = group.command(host, &this.to_string_lossy());
        command.args(["run", "--device", &format!("xdp:{device}"), "--addr", addr, "--policy"]);
        command.arg(self.folder.path().join(POLICY));
        if let Some((target, queue)) = door {
            // Who is shed knows at once, as those do whom the front itself sheds.
            let target = target.as_nanos().to_string() + "ns";
            command.args(["--guard", "queue-delay", "--target-delay", &target, "--guard-refusal", "reset"]);
            command.arg("--joined").arg(queue);
        }
        command.arg("--").args(words);
        let log = self.folder.path().join(LOG);
        command.stderr(File::create(&log).map_err(|e| Error::file(&log, &e))?);
        Ok(command)
    }

    /// `why` it does not serve, and what it said last of that.
    pub fn explained(&self, why: Error) -> Error {
        let said = std::fs::read_to_string(self.folder.path().join(LOG)).unwrap_or_default();
        let line = said.lines().find_map(|line| line.strip_prefix("error: "));
        line.map_or(why, |line| Error::new(format!("greenwave run: {line}")))
    }
}

/// The levels at which our stack sends with each of `dscp`, where there are such.
pub fn levels(dscp: &[u8]) -> Result<Vec<usize>, String> {
    let known = StackConfig::DSCP;
    let level = |dscp: &u8| known.iter().position(|known| known == dscp);
    dscp.iter().map(level).collect::<Option<_>>().ok_or_else(|| {
        format!("host.dscp {dscp:?} is not among those that our stack sends with, which are {known:?}")
    })
}

fn policy(dscp: &[u8]) -> Result<String, String> {
    let rules = levels(dscp)?.into_iter().zip(dscp).map(|(level, dscp)| {
        format!("[[rule]]\nname = \"dscp-{dscp}\"\nlayer = \"driver\"\ndscp = {dscp}\npriority = {level}\n")
    });
    Ok(rules.collect())
}

const POLICY: &str = "policy.toml";
const LOG: &str = "log";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_is_the_level_that_leaves_with_its_dscp() {
        assert_eq!(levels(&[32, 10]), Ok(vec![0, 6]));
        let error = levels(&[46, 10]).unwrap_err();
        assert!(error.contains("host.dscp [46, 10] is not among") && error.contains("32, 34"), "{error}");
        let read = net::classify::Policy::parse(&policy(&[32, 10]).unwrap()).expect("it is a policy");
        assert_eq!(read.rules().len(), 2);
    }
}
