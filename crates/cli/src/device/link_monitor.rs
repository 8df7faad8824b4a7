//! Monitor of an interface: it still exists and has our XDP program attached.

use host::interface::Presence;
use hostbpf::xdp::{Attached, Attachment};
use queueing::{Span, Time};

use super::DeviceKind;
use crate::Error;

/// A monitored interface; without one nothing can be lost.
#[derive(Default)]
pub struct LinkMonitor {
    interface: Option<Presence>,
    /// Our XDP program on the interface, if frames arrive through one.
    program: Option<Attachment>,
    /// Time of the next check.
    due: Time,
    /// The detected fault.
    gone: Option<&'static str>,
}

const REMOVED: &str = "interface lost: it was removed, renamed or moved to another network namespace";
const TAKEN_OFF: &str =
    "another program detached greenwave's XDP program from the interface, so no frames arrive";

/// Interval between checks of the kernel.
const EVERY: Span = Span::from_millis(500);

impl LinkMonitor {
    /// Monitor of the interface of `kind`, if that has an interface.
    pub fn of(kind: &DeviceKind) -> Self {
        let interface = kind.name().map(Presence::of);
        let index = interface.as_ref().and_then(Presence::index);
        let program = index.filter(|_| matches!(kind, DeviceKind::Xdp { .. })).and_then(Attachment::of);
        Self { interface, program, ..Self::default() }
    }

    /// Takes the program attached now for ours: it was replaced by one that knows the addresses
    /// found.
    pub fn renew(&mut self) {
        self.program.iter_mut().for_each(Attachment::renew);
    }

    /// True if frames no longer arrive through it, as far as known at `now`.
    pub fn is_lost(&mut self, now: Time) -> bool {
        if self.gone.is_none() && now >= self.due {
            self.due = now + EVERY;
            self.gone = match self.program.as_mut().map(Attachment::query) {
                _ if self.interface.as_ref().is_some_and(|interface| !interface.is_there()) => Some(REMOVED),
                Some(Attached::NoInterface) => Some(REMOVED),
                Some(Attached::Off) => Some(TAKEN_OFF),
                Some(Attached::Here) | None => None,
            };
        }
        self.gone.is_some()
    }

    /// Ok if `command` over `device` ended by itself.
    ///
    /// # Errors
    /// The interface was lost.
    pub fn end(&self, device: &str, command: &str) -> Result<(), Error> {
        let Some(what) = self.gone else { return Ok(()) };
        Err(Error::new(format!("{device}: {what}"))
            .advice(format!("greenwave {command} again, when the interface is available")))
    }
}
