//! What a guard did, and its end, asked of the kernel by anybody.

use std::io;

use queueing::{Clock, Span, Time};

use super::attachment::GuardAttachment;
use super::error::GuardError;
use super::map_layout::{Counts, DEADMAN, LimitInForce, ObservedSignals};
use super::maps::{Maps, refused};
use super::settings::Settings;
use super::{DETACHED, Guard, attached};
use crate::interface::{Interface, InterfaceError};
use crate::{Monotonic, bpf};

/// What a guard did so far, and what it saw last.
#[derive(Clone, Debug, PartialEq)]
pub struct Status {
    /// What is attached.
    pub notes: GuardAttachment,
    /// How long ago its controller last looked.
    pub silent: Span,
    /// What may come in.
    pub held: LimitInForce,
    /// What it saw then.
    pub seen: ObservedSignals,
    /// What came since it was attached.
    pub counts: Counts,
}

impl Status {
    /// Whether its controller is there; if not, everything passes.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        self.silent <= DEADMAN
    }
}

impl Guard {
    /// What it did so far, as [`status`] tells root, of descriptors that are open.
    ///
    /// # Errors
    /// What the kernel says.
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

/// What the guard on `device` did.
///
/// # Errors
/// [`GuardError::NotAttached`] when there is none.
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

/// Takes the guard off `device`, whoever attached it, and says what it was;
/// its controller notices.
///
/// # Errors
/// [`GuardError::NotAttached`] when there is none.
pub fn detach(device: &str) -> Result<String, GuardError> {
    let id = find(device)?;
    let name = GuardAttachment::attached(id)
        .map_or_else(|_| "a guard of another version".to_owned(), |notes| notes.name());
    // Its controller tells this from a removal by others.
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

/// The number of the guard's program on `device`.
fn find(device: &str) -> Result<u32, GuardError> {
    if !rustix::process::geteuid().is_root() {
        return Err(GuardError::NoPermission);
    }
    // One that is down has its program all the same.
    let index = match Interface::find(device) {
        Ok(interface) => interface.index,
        Err(InterfaceError::Down(_)) => {
            return Err(GuardError::Interface(InterfaceError::Down(device.to_owned())));
        }
        Err(e) => return Err(e.into()),
    };
    attached(index).ok_or_else(|| GuardError::NotAttached(device.to_owned()))
}
