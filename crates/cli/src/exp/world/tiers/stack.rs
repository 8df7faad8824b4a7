//! Front on greenwave's stack: `greenwave run` on the users' link.
//!
//! The service is the same unmodified program. The stack has its own address on that link beside
//! the kernel's and receives its frames by AF_XDP; the front's connections to its workers stay on
//! the kernel's TCP. The DSCP of a class of users selects its level in the receive buffer and the
//! event queue, and answers carry the same DSCP.

use std::fs::File;
use std::path::Path;
use std::process::Command;

use net::stack::Config as StackConfig;
use netlab::TempDir;
use netlab::{Namespace, TestGroup};
use queueing::Span;

use crate::error::Error;

/// Input files and log of `greenwave run`.
pub struct GreenwaveStack {
    folder: TempDir,
}

impl GreenwaveStack {
    /// Writes the files; each of `dscp` is a class of users.
    ///
    /// # Errors
    /// The files cannot be written.
    pub fn new(dscp: &[u8]) -> Result<Self, Error> {
        let failed = |e: netlab::LabError| Error::new(format!("greenwave run: {e}"));
        let folder = TempDir::new("front").map_err(failed)?;
        let policy = policy(dscp).map_err(Error::new)?;
        folder.write(POLICY, policy.as_bytes()).map_err(failed)?;
        Ok(Self { folder })
    }

    /// Starts `words` in `group` and `host` on the stack with `addr` on `device`. With a target at
    /// its `sheds_syns`, the stack sheds new connections beyond the capacity, also by the front's own
    /// queue, which the front writes to a queue report.
    ///
    /// # Errors
    /// The log cannot be created, or a greenwave program is missing.
    pub fn command(
        &self,
        (group, host): (&TestGroup, &Namespace),
        device: &str,
        addr: &str,
        sheds_syns: Option<(Span, &Path)>,
        words: &[&str],
    ) -> Result<Command, Error> {
        let this = std::env::current_exe().map_err(|e| Error::new(format!("greenwave run: {e}")))?;
        let mut command = group.command(host, &this.to_string_lossy());
        command.args(["run", "--device", &format!("xdp:{device}"), "--addr", addr, "--policy"]);
        command.arg(self.folder.path().join(POLICY));
        if let Some((target, queue)) = sheds_syns {
            // A shed client gets an immediate RST, as from the front's own shedding.
            let target = target.as_nanos().to_string() + "ns";
            command.args(["--guard", "queue-delay", "--target-delay", &target, "--guard-reject", "reset"]);
            command.arg("--queue-report").arg(queue);
        }
        command.arg("--").args(words);
        let log = self.folder.path().join(LOG);
        command.stderr(File::create(&log).map_err(|e| Error::file(&log, &e))?);
        Ok(command)
    }

    /// `error` it does not serve, with the last lines of its log.
    pub fn explain(&self, error: Error) -> Error {
        let log = std::fs::read_to_string(self.folder.path().join(LOG)).unwrap_or_default();
        let line = log.lines().find_map(|line| line.strip_prefix("error: "));
        line.map_or(error, |line| Error::new(format!("greenwave run: {line}")))
    }
}

/// Levels at which greenwave's stack sends each of `dscp`, if each has one.
pub fn levels(dscp: &[u8]) -> Result<Vec<usize>, String> {
    let known = StackConfig::DSCP;
    let level = |dscp: &u8| known.iter().position(|known| known == dscp);
    dscp.iter().map(level).collect::<Option<_>>().ok_or_else(|| {
        format!("host.dscp {dscp:?} is not among the DSCPs that greenwave's stack sends: {known:?}")
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
        let read = classify::Policy::parse(&policy(&[32, 10]).unwrap()).expect("a valid policy");
        assert_eq!(read.rules().len(), 2);
    }
}
