//! Status and detachment of a guard, through the kernel, from any process.

use std::io;

use queueing::{Clock, Span, Time};

use super::attachment::GuardAttachment;
use super::error::GuardError;
use super::map_layout::{Counts, DEADMAN, LimitEntry, LimitInForce, ObservedSignals, PORTS_MAX};
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
    /// Time since its controller's last control step.
    pub silent: Span,
    /// Strictest limit in force.
    pub held: LimitInForce,
    /// Signals at that control step, over all ports.
    pub seen: ObservedSignals,
    /// Counts since the attach, over all ports.
    pub counts: Counts,
    /// Each guarded port.
    pub ports: Vec<PortStatus>,
    /// True if a reset reaches the client only if the interface at the other end of this veth polls: it
    /// has GRO, or an XDP program.
    pub may_lose_resets: bool,
}

/// Limit, latest signals and counts of a guarded port.
#[derive(Clone, Debug, PartialEq)]
pub struct PortStatus {
    /// The port.
    pub port: u16,
    /// Limit in force.
    pub held: LimitInForce,
    /// Signals at the last control step; without the kernel's drops, which it does not count by port.
    pub seen: ObservedSignals,
    /// Counts since the attach.
    pub counts: Counts,
}

impl PortStatus {
    /// True if few of the admitted SYNs complete the handshake: in a SYN flood, or where the packets are
    /// rewritten behind XDP (DNAT), so that the listener of this port never gets them.
    #[must_use]
    pub fn lacks_handshakes(&self) -> bool {
        let ObservedSignals { served, waiting, handshakes_ppm, .. } = self.seen;
        let admitted = self.counts.offered().saturating_sub(self.counts.shed());
        admitted >= SYNS_MIN && (served + waiting == 0 || handshakes_ppm < HANDSHAKES_PPM_MIN)
    }
}

/// Admitted SYNs that tell whether handshakes are completed, and the share that is few.
const SYNS_MIN: u64 = 64;
const HANDSHAKES_PPM_MIN: u64 = 50_000;

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
    /// The kernel's error.
    pub fn status(&self, now: Time) -> io::Result<Status> {
        let entries = self.ports.iter().map(|port| *port.entry()).collect();
        let notes = GuardAttachment::new(&self.options);
        read(&self.loaded.maps, now, notes, self.may_lose_resets, self.totals, entries)
    }
}

/// Status of the totals and of the ports' entries, with the counts in `maps`.
fn read(
    maps: &Maps,
    now: Time,
    notes: GuardAttachment,
    may_lose_resets: bool,
    totals: LimitEntry,
    entries: Vec<LimitEntry>,
) -> io::Result<Status> {
    let (by_port, counts) = maps.counts_of_ports(entries.len())?;
    let held = LimitInForce::strictest(entries.iter().map(|entry| entry.held));
    let ports = notes.ports.iter().zip(entries).zip(by_port);
    let status = |((&port, LimitEntry { held, seen, .. }), counts)| PortStatus { port, held, seen, counts };
    let ports = ports.map(status).collect();
    let silent = now.since(totals.alive);
    Ok(Status { notes, silent, held, seen: totals.seen, counts, ports, may_lose_resets })
}

/// Status of the guard on `device`.
///
/// # Errors
/// [`GuardError::NotAttached`] if there is none.
pub fn status(device: &str) -> Result<Status, GuardError> {
    let id = find(device)?;
    let refused = refused("a read of the guard's maps");
    let maps = Maps::attached(id)?;
    let settings = maps.settings().map_err(&refused)?;
    let notes = GuardAttachment::read(&settings.notes)?;
    let totals = maps.totals().map_err(&refused)?;
    let entries = (0..notes.ports.len().min(PORTS_MAX)).map(|slot| maps.limit(slot));
    let entries = entries.collect::<io::Result<_>>().map_err(&refused)?;
    let now = Monotonic::new().now();
    read(&maps, now, notes, settings.may_lose_resets(), totals, entries).map_err(&refused)
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
    // Tells the controller that this is a detach, not a removal by another program.
    let _ = Maps::attached(id).map(|maps| {
        let settings = maps.settings()?;
        maps.set_settings(&Settings { notes: DETACHED.to_vec(), ..settings })
    });
    let refused = refused("the detach of the program");
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
