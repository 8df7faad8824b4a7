//! What a daemon gives up once it has all it needs: its user, capabilities,
//! privileges that a program might bring, and most system calls.
//!
//! Whoever takes it over by its parser has what is left: the descriptors that
//! it holds, memory, threads, and files that its user may read. It makes no
//! file, no socket, no process and no memory that runs. A call that is not
//! allowed fails with EPERM and is named on stderr, once; nothing is killed, so a
//! C library that asks for something new costs that call and no connection.
//!
//! What the end needs is left: a TAP device, a packet socket and an XDP link go
//! with their descriptors, without a capability; that a link is detached at
//! once is a call of its own, which is allowed.
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

/// What a process still has to do, which says what it keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Duty {
    /// Answers what comes by devices that are open: no capability.
    Serve,
    /// The same, on sockets that it hands to programs which it has started, and
    /// will have to end, whoever they have become: CAP_KILL.
    Run {
        /// Listens to them, as a guard does.
        joined: bool,
    },
    /// Looks into processes that `run` has started, of any user, and takes no input from
    /// the network: CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH. Without the first it keeps
    /// all capabilities it has: the kernel shows a process to one that has at least its
    /// capabilities.
    Look,
    /// Reads and writes the maps of a program in the kernel, and runs it: CAP_BPF,
    /// which older kernels do not demand less than.
    Guard {
        /// Listens to services, whose files may be theirs alone: CAP_DAC_READ_SEARCH.
        joined: bool,
    },
}

impl Duty {
    fn keeps(self) -> CapabilitySet {
        match self {
            Self::Serve => CapabilitySet::empty(),
            Self::Run { joined: false } => CapabilitySet::KILL,
            Self::Run { joined: true } => CapabilitySet::KILL | CapabilitySet::DAC_READ_SEARCH,
            Self::Look => {
                let has = capabilities(None).map_or(CapabilitySet::empty(), |has| has.permitted);
                match has.contains(CapabilitySet::SYS_PTRACE) {
                    true => CapabilitySet::SYS_PTRACE | CapabilitySet::DAC_READ_SEARCH,
                    false => has,
                }
            }
            Self::Guard { joined: false } => CapabilitySet::BPF,
            Self::Guard { joined: true } => CapabilitySet::BPF | CapabilitySet::DAC_READ_SEARCH,
        }
    }
}

/// What keeps a process from giving up what it does not need.
#[derive(Debug)]
pub enum SandboxError {
    /// It is who it was.
    User(io::Error),
    /// Capabilities are still there.
    Capabilities(io::Error),
    /// Calls are not filtered.
    Filter(seccompiler::Error),
}

impl fmt::Display for SandboxError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::User(e) => write!(f, "sandbox: the user cannot be changed: {e}"),
            Self::Capabilities(e) => write!(f, "sandbox: capabilities cannot be given up: {e}"),
            Self::Filter(seccompiler::Error::Prctl(e) | seccompiler::Error::Seccomp(e)) => {
                write!(f, "sandbox: the kernel filters no system calls: {e}")
            }
            Self::Filter(e) => write!(f, "sandbox: no filter of system calls: {e}"),
        }
    }
}

impl std::error::Error for SandboxError {}

/// Takes from this process all that `duty` does not need. Other threads have the
/// filter from now on as well; each gives up its own capabilities
/// ([`drop_capabilities`]), or is started after this.
///
/// # Errors
/// The kernel's; what was given up until then is gone.
pub fn enter(duty: Duty) -> Result<(), SandboxError> {
    keep_capabilities(duty.keeps()).map_err(SandboxError::Capabilities)?;
    seccomp::filter(duty, seccompiler::apply_filter_all_threads).map_err(SandboxError::Filter)
}

/// As [`enter`] of [`Duty::Serve`], but of this thread alone, and of those that it
/// starts: of one that hears strangers, in a process that has to keep what it has.
///
/// # Errors
/// As [`enter`].
pub fn enter_thread() -> Result<(), SandboxError> {
    drop_capabilities()?;
    seccomp::filter(Duty::Serve, seccompiler::apply_filter).map_err(SandboxError::Filter)
}

/// Makes this process that of `user`: each of its threads. Those of its
/// capabilities that `duty` needs stay with this thread, and with those that it starts.
///
/// # Errors
/// The kernel's; only root may do that.
pub fn become_user(user: &User, duty: Duty) -> Result<(), SandboxError> {
    set_keep_capabilities(true).map_err(|e| SandboxError::User(e.into()))?;
    user.enter().map_err(SandboxError::User)?;
    keep_capabilities(duty.keeps()).map_err(SandboxError::Capabilities)
}

/// From now on nobody else may write to the files and folders that this process
/// makes, whatever the umask that it was started with allows; what else that says
/// holds. Programs that it starts inherit this.
pub fn keep_files_from_others() {
    // There is no other way to read it.
    let given = umask(Mode::WOTH);
    umask(given | Mode::WOTH);
}

/// Takes all capabilities from this thread, and from those that it starts.
///
/// # Errors
/// The kernel's; there is no known reason for one.
pub fn drop_capabilities() -> Result<(), SandboxError> {
    keep_capabilities(CapabilitySet::empty()).map_err(SandboxError::Capabilities)
}

/// Takes all others than `kept` from this thread, and from those that it starts.
/// What it does not have, it does not get.
fn keep_capabilities(kept: CapabilitySet) -> io::Result<()> {
    let kept = kept & capabilities(None)?.permitted;
    let inheritable = CapabilitySet::empty();
    Ok(set_capabilities(None, CapabilitySets { effective: kept, permitted: kept, inheritable })?)
}
