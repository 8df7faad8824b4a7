//! Status and detachment of a guard, through the kernel, from any process.

use std::io;

use queueing::{Clock, Span, Time};

use super::attachment::GuardAttachment;
use super::error::GuardError;
use super::map_layout::{Counts, DEADMAN, LimitInForce, ObservedSignals};
use super::maps::{Maps, refused};
use super::settings::Settings;
use super::{DETACHED, Guard, attached};
use crate::bpf;
use host::Monotonic;
use host::interface::{Interface, InterfaceError};

/// Counts and latest signals of a guard.
#[derive(Clone, Debug, PartialEq)]
pub struct Status {
    /// Configuration.
    pub notes: GuardAttachment,
    /// Time since its controller's last look.
    pub silent: Span,
    /// Limit in force.
    pub held: LimitInForce,
    /// Signals at that look.
    pub seen: ObservedSignals,
    /// Counts since the attach.
    pub counts: Counts,
}

impl Status {
    /// True if its controller is alive; otherwise every SYN passes.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        self.silent <= DEADMAN
    }
}

impl Guard {
    /// Status as [`status`] gives it to root, from open descriptors.
    ///
    /// # Errors
    /// The kernel's.
    pub fn status(&self, now: Time) -> io::Result<Status> {
        let counts = self.counts()?;
        let silent = now.since(self.look.alive);
        Ok(Status {
            notes: GuardAttachment::new(&self.options),
            silent,
            held: self.look.held,
            seen: self.look.seen,
            counts,
        })
    }
}

/// Status of the guard on `device`.
///
/// # Errors
/// [`GuardError::NotAttached`] if there is none.
pub fn status(device: &str) -> Result<Status, GuardError> {
    let id = find(device)?;
    let refused = refused("a look at our maps");
    let maps = Maps::attached(id)?;
    let notes = GuardAttachment::read(&maps.settings().map_err(&refused)?.notes)?;
    let look = maps.look().map_err(&refused)?;
    let counts = maps.counts().map_err(&refused)?;
    let silent = Monotonic::new().now().since(look.alive);
    Ok(Status { notes, silent, held: look.held, seen: look.seen, counts })
}

/// Detaches the guard of `device`, whichever process attached it; its controller notices. Result: the
/// guard's name.
///
/// # Errors
/// [`GuardError::NotAttached`] if there is none.
pub fn detach(device: &str) -> Result<String, GuardError> {
    let id = find(device)?;
    let name = GuardAttachment::attached(id)
        .map_or_else(|_| "a guard of another version".to_owned(), |notes| notes.name());
    // Marks the removal as ours, for the controller.
    let _ = Maps::attached(id).map(|maps| {
        let settings = maps.settings()?;
        maps.set_settings(&Settings { notes: DETACHED.to_vec(), ..settings })
    });
    let refused = refused("to give up the program's place");
    match bpf::link_of(id).map_err(&refused)? {
        Some(link) => bpf::detach(&link).map_err(&refused)?,
        None => return Err(GuardError::NotAttached(device.to_owned())),
    }
    Ok(name)
}

/// ID of the guard's program on `device`.
fn find(device: &str) -> Result<u32, GuardError> {
    if !rustix::process::geteuid().is_root() {
        return Err(GuardError::NoPermission);
    }
    // An interface that is down still has its program.
    let index = match Interface::find(device) {
        Ok(interface) => interface.index,
        Err(InterfaceError::Down(_)) => {
            return Err(GuardError::Interface(InterfaceError::Down(device.to_owned())));
        }
        Err(e) => return Err(e.into()),
    };
    attached(index).ok_or_else(|| GuardError::NotAttached(device.to_owned()))
}
