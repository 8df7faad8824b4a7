//! Whether a device's interface is still there, while somebody serves over it.

use host::interface::Presence;
use queueing::{Span, Time};

use super::Kind;
use crate::Error;

/// An interface that is looked at; without one nothing can be taken away.
#[derive(Default)]
pub struct Watch {
    interface: Option<Presence>,
    /// When to ask the kernel next.
    due: Time,
    gone: bool,
}

/// How often the kernel is asked.
const EVERY: Span = Span::from_millis(500);

impl Watch {
    /// Of the interface of `kind`, where it has one.
    pub fn of(kind: &Kind) -> Self {
        Self { interface: kind.name().map(Presence::of), ..Self::default() }
    }

    /// Whether it was removed, renamed or moved, as far as is known at `now`.
    pub fn is_gone(&mut self, now: Time) -> bool {
        if !self.gone && now >= self.due {
            self.due = now + EVERY;
            self.gone = self.interface.as_ref().is_some_and(|interface| !interface.is_there());
        }
        self.gone
    }

    /// Whether `command` over `device` came to its own end.
    ///
    /// # Errors
    /// It could not go on, as the interface was gone.
    pub fn end(&self, device: &str, command: &str) -> Result<(), Error> {
        let what = || format!("{device}: the interface is gone: it was removed, renamed or moved");
        let error = || Error::new(what()).advice(format!("greenwave {command} again, once it is there"));
        if self.gone { Err(error()) } else { Ok(()) }
    }
}
