//! Privilege drop of a daemon after its start: its user, capabilities, privileges gained by exec, and
//! most system calls.
//!
//! An attacker who takes over a parser keeps what is left: open descriptors, memory, threads, and files
//! readable by the user. New files, sockets, processes and executable memory are denied. A denied call
//! fails with EPERM and is named on stderr, once; the process is not killed, so a C library that makes
//! a new call loses that call and no connection.
//!
//! The end of the process needs no capability: a TAP device, a packet socket and an XDP link are
//! removed with their descriptors. Detaching a link at once is a separate call, which is allowed.
//!
//! Source: capabilities(7), seccomp(2), credentials(7).

use std::fmt;
use std::io;

use rustix::fs::Mode;
use rustix::process::umask;
use rustix::thread::{CapabilitySet, CapabilitySets, capabilities, set_capabilities, set_keep_capabilities};

mod seccomp;
mod sigsys;
#[cfg(test)]
mod tests;
mod user;

pub use user::{User, UserError};

/// Remaining work of a process, which determines the privileges it keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Duty {
    /// Serves open devices: no capability.
    Serve,
    /// Serves on sockets that it passes to programs which it has started and must end, whatever user
    /// they run as: CAP_KILL.
    Run {
        /// True if the process reads the programs' queue reports, as a guard does.
        reads_reports: bool,
    },
    /// Inspects processes that `run` has started, of any user, and takes no input from the network:
    /// CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH. Without CAP_SYS_PTRACE it keeps all its capabilities,
    /// because the kernel shows a process only to one with at least the same capabilities.
    Look,
    /// Accesses the maps of a BPF program and runs it: CAP_BPF, the minimum that older kernels demand.
    Guard {
        /// True if it reads queue reports, which may be private to a service's user:
        /// CAP_DAC_READ_SEARCH.
        reads_reports: bool,
    },
}

impl Duty {
    fn capabilities_kept(self) -> CapabilitySet {
        match self {
            Self::Serve => CapabilitySet::empty(),
            Self::Run { reads_reports: false } => CapabilitySet::KILL,
            Self::Run { reads_reports: true } => CapabilitySet::KILL | CapabilitySet::DAC_READ_SEARCH,
            Self::Look => {
                let has = capabilities(None).map_or(CapabilitySet::empty(), |has| has.permitted);
                match has.contains(CapabilitySet::SYS_PTRACE) {
                    true => CapabilitySet::SYS_PTRACE | CapabilitySet::DAC_READ_SEARCH,
                    false => has,
                }
            }
            Self::Guard { reads_reports: false } => CapabilitySet::BPF,
            Self::Guard { reads_reports: true } => CapabilitySet::BPF | CapabilitySet::DAC_READ_SEARCH,
        }
    }
}

/// Error of dropping privileges.
#[derive(Debug)]
pub enum SandboxError {
    /// The user was not changed.
    User(io::Error),
    /// Capabilities were not dropped.
    Capabilities(io::Error),
    /// System calls are not filtered.
    Filter(seccompiler::Error),
}

impl fmt::Display for SandboxError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::User(e) => write!(f, "sandbox: the user cannot be changed: {e}"),
            Self::Capabilities(e) => write!(f, "sandbox: capabilities cannot be given up: {e}"),
            Self::Filter(seccompiler::Error::Prctl(e) | seccompiler::Error::Seccomp(e)) => {
                write!(f, "sandbox: the kernel refuses the system call filter: {e}")
            }
            Self::Filter(e) => write!(f, "sandbox: the system call filter cannot be built: {e}"),
        }
    }
}

impl std::error::Error for SandboxError {}

/// Drops everything from this process that `duty` does not need. Other threads get the filter as well;
/// each drops its own capabilities ([`drop_capabilities`]), or is started after this.
///
/// # Errors
/// The kernel's error; privileges dropped before it stay dropped.
pub fn enter(duty: Duty) -> Result<(), SandboxError> {
    keep_capabilities(duty.capabilities_kept()).map_err(SandboxError::Capabilities)?;
    seccomp::filter(duty, seccompiler::apply_filter_all_threads).map_err(SandboxError::Filter)
}

/// As [`enter`] with [`Duty::Serve`], but for this thread and those that it starts: for a thread with
/// untrusted input in a process that must keep its privileges.
///
/// # Errors
/// The errors of [`enter`].
pub fn enter_thread() -> Result<(), SandboxError> {
    drop_capabilities()?;
    seccomp::filter(Duty::Serve, seccompiler::apply_filter).map_err(SandboxError::Filter)
}

/// Changes the user of each thread of this process to `user`. The capabilities that `duty` needs stay
/// with this thread and those that it starts.
///
/// # Errors
/// The kernel's error; only root may do this.
pub fn become_user(user: &User, duty: Duty) -> Result<(), SandboxError> {
    set_keep_capabilities(true).map_err(|e| SandboxError::User(e.into()))?;
    user.enter().map_err(SandboxError::User)?;
    keep_capabilities(duty.capabilities_kept()).map_err(SandboxError::Capabilities)
}

/// Removes write permission for others from files and directories that this process creates, whatever
/// its umask; other bits of the umask are kept. Programs that it starts inherit this.
pub fn restrict_umask() {
    // The umask can only be read by setting it.
    let given = umask(Mode::WOTH);
    umask(given | Mode::WOTH);
}

/// Drops all capabilities of this thread and of those that it starts.
///
/// # Errors
/// The kernel's error; no reason for one is known.
pub fn drop_capabilities() -> Result<(), SandboxError> {
    keep_capabilities(CapabilitySet::empty()).map_err(SandboxError::Capabilities)
}

/// Drops all capabilities except `kept` from this thread and those that it starts. Missing ones are not
/// added.
fn keep_capabilities(kept: CapabilitySet) -> io::Result<()> {
    let kept = kept & capabilities(None)?.permitted;
    let inheritable = CapabilitySet::empty();
    Ok(set_capabilities(None, CapabilitySets { effective: kept, permitted: kept, inheritable })?)
}
