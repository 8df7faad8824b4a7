//! Admission control in XDP for servers on the kernel's TCP: sheds SYNs before the kernel allocates an
//! skb.
//!
//! [`attach`] puts a program on an interface. The attaching process then makes about a hundred control
//! steps a second: it observes each port ([`Guard::observe`]), lets a policy of crate `guard` decide for
//! each, and sets the limits ([`Guard::hold`]). One second after the last control step every SYN passes.
//! When the process ends in any way, the program is removed. There is no file: configuration and counters
//! are read from the kernel ([`status`], [`detach`]).
//!
//! The program is in C and needs the feature `bpf`; without it [`attach`] returns an error. The same
//! decision in Rust is [`Model`].
//!
//! Source: the overload paper §3.3; bpf-helpers(7).

use std::fs;
use std::io;
use std::os::fd::OwnedFd;

pub use guard::WaitEnd;
use guard::{Limit, Signals};
use queueing::{Clock, Span, Time};

use crate::{bpf, xdp};
use host::Monotonic;
use host::interface::{Interface, InterfaceError};

mod accept_queue;
mod app_queue_policy;
mod attachment;
mod classes;
mod error;
#[cfg(any(feature = "bpf", test))]
mod frames;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzz;
mod guarded_port;
mod map_layout;
mod maps;
mod model;
#[cfg(feature = "bpf")]
mod prog_run_cost;
#[cfg(feature = "bpf")]
mod program;
mod queue_reports;
mod response_wait;
mod settings;
mod sock_diag;
mod status;
#[cfg(not(feature = "bpf"))]
mod stub;
mod stuck_queues;
mod syn;
mod syn_reply;
mod system_load;
#[cfg(all(test, feature = "bpf"))]
mod tests;
#[cfg(test)]
mod vectors;

use accept_queue::Queues;
pub use app_queue_policy::{AppQueuePolicy, ReportCounter};
pub use attachment::GuardAttachment;
pub use classes::{Classes, Prefix, Rule};
pub use error::GuardError;
use guarded_port::{GuardedPort, Observed};
pub use map_layout::{
    CLASSES, Counts, DEADMAN, LimitInForce, ObservedSignals, PORTS_MAX, PREFIXES_MAX, Queue, Reason, SHOWN,
};
use map_layout::{LimitEntry, PortEntry};
use maps::refused;
pub use model::{Listening, Model, Verdict};
#[cfg(feature = "bpf")]
pub use prog_run_cost::costs;
#[cfg(feature = "bpf")]
use program::{Loaded, load};
pub use queue_reports::{QUEUE_REPORTS_MAX, ReportFile};
use queue_reports::{QueueReports, ReportFiles};
use settings::{Settings, Way};
use sock_diag::Listeners;
pub use status::{PortStatus, Status, detach, status};
#[cfg(not(feature = "bpf"))]
pub use stub::costs;
#[cfg(not(feature = "bpf"))]
use stub::{Loaded, load};
use stuck_queues::StuckQueues;
pub use syn::Syn;
use system_load::SystemLoadReader;

/// True if the BPF programs are built in.
pub const BUILT: bool = cfg!(feature = "bpf");

/// Name of the program, by which it is found again.
const PROGRAM: &str = "gw_guard";

/// CPU cost of the program for one kind of frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cost {
    /// The frame, and the verdict.
    pub what: &'static str,
    /// True for a SYN to a guarded port.
    pub is_syn: bool,
    /// Time per frame.
    pub each: Span,
}

/// Reason why a guard is no longer attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// [`detach`] removed it.
    Detached,
    /// Another program removed or replaced it.
    Removed,
    /// The interface was removed, or moved to another network namespace.
    NoInterface,
}

/// Metadata written by [`detach`] before it removes a guard.
const DETACHED: &[u8] = b"detached";

/// Response to a shed SYN.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Refusal {
    /// None: the client retries after about a second.
    #[default]
    Silence,
    /// RST: the client fails at once; costs a frame. A SYN behind IP options or extension headers gets
    /// no response.
    Reset,
}

/// Options of a guard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Guarded ports, at least one and each once; each has a limit of its own.
    pub ports: Vec<u16>,
    /// XDP mode of the program; `None`: [`Native`](xdp::Mode::Native), unless resets could be lost in it.
    pub mode: Option<xdp::Mode>,
    /// Classes, which set the order of shedding.
    pub classes: Classes,
    /// End of a connection's wait.
    pub until: WaitEnd,
    /// Sheds no connection, and counts those it would have shed.
    pub watching: bool,
    /// Response to a shed SYN.
    pub refusal: Refusal,
    /// True if the policy needs system load ([`guard::Policy::needs_system_signals`]).
    pub needs_system_signals: bool,
    /// The policy's name, for [`status`].
    pub policy: String,
    /// Target delay, for [`status`].
    pub target: Span,
    /// Queue-report files of the services on these ports ([`guard::app_queue`]), at most
    /// [`QUEUE_REPORTS_MAX`].
    pub queue_reports: Vec<ReportFile>,
}

impl Options {
    /// Checks that [`attach`] makes before it opens the interface.
    ///
    /// # Errors
    /// Contradicting rules, or a file without a report.
    pub fn check(&self) -> Result<(), GuardError> {
        self.report_files().map(drop)
    }

    /// The files of the reports, and the signals of each port's.
    fn report_files(&self) -> Result<(ReportFiles, Vec<QueueReports>), GuardError> {
        self.classes.check(&self.ports)?;
        let mut ports = self.queue_reports.iter().filter_map(|file| file.port);
        if let Some(port) = ports.find(|port| !self.ports.contains(port)) {
            let (what, ports) = ("a queue report", self.ports.clone());
            return Err(GuardError::Unguarded { what, port, ports });
        }
        let mut paths: Vec<_> = self.queue_reports.iter().map(|file| file.path.clone()).collect();
        paths.sort_unstable();
        paths.dedup();
        let files = ReportFiles::new(&paths)?;
        let of_port = |&port: &u16| files.signals_of_port(&self.queue_reports, port);
        let of_ports = self.ports.iter().map(of_port).collect::<Result<_, _>>()?;
        Ok((files, of_ports))
    }
}

/// An attached guard; detached on drop.
pub struct Guard {
    attachment: Option<xdp::Attachment>,
    may_lose_resets: bool,
    link: OwnedFd,
    loaded: Loaded,
    queues: Queues,
    system_load: SystemLoadReader,
    options: Options,
    /// In the order of `options.ports`.
    ports: Vec<GuardedPort>,
    report_files: ReportFiles,
    /// For [`status`]: queues stuck among those of all ports, all queue reports, and totals over the
    /// ports.
    stuck: StuckQueues,
    reports: QueueReports,
    totals: LimitEntry,
}

/// Guards the listeners on `options.ports` of this thread's network namespace against SYNs that arrive
/// on `device`.
///
/// # Errors
/// [`GuardError`]; nothing is left behind then.
pub fn attach(device: &str, options: &Options) -> Result<Guard, GuardError> {
    let (report_files, port_reports) = options.report_files()?;
    let interface = Interface::find(device)?;
    if let Some(found) = attached(interface.index) {
        let what = GuardAttachment::attached(found)
            .map_or_else(|_| "of another version".to_owned(), |notes| notes.name());
        return Err(GuardError::Attached { device: device.to_owned(), what });
    }
    let resets = options.refusal == Refusal::Reset;
    let mode = options.mode.unwrap_or_else(|| match way(interface.index, xdp::Mode::Native) {
        Way::Redirect if resets => xdp::Mode::Generic,
        _ => xdp::Mode::Native,
    });
    let options = &Options { mode: Some(mode), ..options.clone() };
    let mut queues = Queues::new(&options.ports).map_err(refused("a read of the listeners"))?;
    let (waiting_before, listening) = queues.sample().map_err(refused("a read of the listeners"))?;
    if let Some(&port) = options.ports.iter().find(|port| !listening.contains(port)) {
        return Err(GuardError::NoListener { port, listening });
    }
    let loaded = load(options.until)?;
    let maps = &loaded.maps;
    // The program counts changes already: a connection may be counted twice, but none is missed.
    let present_before = queues.connections().map_err(refused("a read of the connections"))?;
    let refused = refused("an entry in the guard's maps");
    let settings = Settings {
        netns: netns().map_err(&refused)?,
        classes: options.classes.len() as u32,
        watching: options.watching,
        prefixes: options.classes.of_prefixes().next().is_some(),
        resets: resets.then(|| way(interface.index, mode)),
        answers: options.until == WaitEnd::Answer,
        ports: options.ports.clone(),
        notes: GuardAttachment::new(options).bytes(),
    };
    for ((slot, (port, class)), &before) in
        options.classes.of_ports(&options.ports).enumerate().zip(&present_before)
    {
        maps.set_port(port, PortEntry { class, slot, before }).map_err(&refused)?;
    }
    for (prefix, class) in options.classes.of_prefixes() {
        maps.set_prefix(prefix, class).map_err(&refused)?;
    }
    let now = Monotonic::new().now();
    let before = waiting_before.into_iter().zip(present_before);
    let ports = options.ports.iter().copied().enumerate().zip(before).zip(port_reports);
    let mut ports: Vec<_> = ports
        .map(|((port, (waiting, present)), reports)| {
            GuardedPort::new(port, now, [waiting, present.into()], reports)
        })
        .collect();
    for port in &mut ports {
        port.hold(maps, now, Limit::Open, options.classes.len()).map_err(&refused)?;
    }
    let totals = LimitEntry { alive: now, ..LimitEntry::default() };
    maps.set_totals(&totals).map_err(&refused)?;
    maps.set_settings(&settings).map_err(&refused)?;
    let (link, _) = xdp::attach(&interface, &loaded.program, Some(mode), |what, source| {
        InterfaceError::Refused { name: device.to_owned(), what, source }
    })?;
    let attachment = xdp::Attachment::of(interface.index);
    let system_load = SystemLoadReader::new(options.needs_system_signals)
        .map_err(crate::guard::maps::refused("a read of /proc"))?;
    let (options, stuck, reports) = (options.clone(), StuckQueues::default(), report_files.signals_of_all());
    Ok(Guard {
        attachment,
        may_lose_resets: settings.may_lose_resets(),
        link,
        loaded,
        queues,
        system_load,
        options,
        ports,
        report_files,
        stuck,
        reports,
        totals,
    })
}

/// Ports of the TCP listeners in this thread's network namespace that `device` can reach: those that are
/// not bound to a loopback address or to another device; in ascending order.
///
/// # Errors
/// The interface does not exist, or the kernel's error.
pub fn listening_ports(device: &str) -> Result<Vec<u16>, GuardError> {
    let index = Interface::find(device)?.index;
    let mut ports = Vec::new();
    let listeners = Listeners::new().and_then(|mut listeners| {
        listeners.each(None, |listener| {
            if !listener.is_loopback() && [0, index].contains(&listener.device) {
                ports.push(listener.port);
            }
        })
    });
    listeners.map_err(refused("a read of the listeners"))?;
    ports.sort_unstable();
    ports.dedup();
    Ok(ports)
}

/// Number of this thread's network namespace.
fn netns() -> io::Result<u32> {
    use std::os::unix::fs::MetadataExt;
    fs::metadata("/proc/thread-self/ns/net").map(|namespace| namespace.ino() as u32)
}

/// Transmit path for RSTs on interface `index`: see `bpf/reset.h`.
fn way(index: u32, mode: xdp::Mode) -> Way {
    if mode == xdp::Mode::Native && xdp::is_veth(index) { Way::Redirect } else { Way::Driver }
}

/// ID of the guard's program on interface `index`.
fn attached(index: u32) -> Option<u32> {
    xdp::attached(index).filter(|&id| bpf::program_name(id).as_deref() == Some(PROGRAM))
}

impl Guard {
    /// Signals of each port, in the order of [`Options::ports`], with the counts since the last control
    /// step.
    ///
    /// The wait is that of the port's accept queue whose first connection has waited longest, of those that
    /// are not stuck among the port's; a connection older than the guard has waited since the attach.
    /// Latency is by Little's law, over whole connections. Under [`WaitEnd::Answer`] the wait ends with
    /// the first byte of a response. It covers every connection that has sent data, including those in
    /// the accept queue; later ones may be answered before the first, and long polls do not wait
    /// ([`guard::ResponseWaits`]). Queue reports of services are added
    /// to it. The system's load is the same for all ports.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn observe(&mut self, now: Time) -> io::Result<Vec<Signals>> {
        let maps = &self.loaded.maps;
        let slots = 0..self.ports.len();
        let connections = slots.map(|slot| maps.connections(slot)).collect::<io::Result<Vec<_>>>()?;
        let queues = self.queues.observe(&self.loaded.look, now)?;
        let accepted: Vec<u64> = self
            .ports
            .iter()
            .zip(&connections)
            .map(|(port, connections)| port.count_accepted(connections.opened, queues))
            .collect();
        let stuck = self.stuck.find(now, accepted.iter().sum(), queues);
        let queues: Vec<_> = queues.iter().copied().zip(stuck).collect();
        let waits = self.loaded.waits.as_ref();
        let ends = self.ports.iter_mut().map(|port| port.long_polls_end(now));
        let unanswered = waits.map(|program| response_wait::observe(program, now, ends)).transpose()?;
        let load = self.system_load.sample(now)?;
        let reports = self.report_files.read();
        let observed = Observed {
            now,
            reports: &reports,
            queues: &queues,
            unanswered: unanswered.as_ref().map(<[_; PORTS_MAX]>::as_slice),
            load,
            watching: self.options.watching,
        };
        let _ = self.reports.join(now, &reports, Signals::default());
        let (overflows, drops, requests) = (load.overflows, load.drops, self.reports.requests());
        let handshakes_ppm = u64::MAX;
        let mut totals =
            ObservedSignals { overflows, drops, requests, handshakes_ppm, ..ObservedSignals::default() };
        let mut signals = Vec::with_capacity(self.ports.len());
        for ((port, accepted), connections) in self.ports.iter_mut().zip(accepted).zip(connections) {
            signals.push(port.observe(maps, &observed, accepted, &connections)?);
            totals.add(&port.entry().seen);
        }
        self.totals.seen = totals;
        Ok(signals)
    }

    /// Sets the limit of each port, in the order of [`Options::ports`], and renews the heartbeat of the
    /// controller.
    ///
    /// # Errors
    /// The kernel's error.
    ///
    /// # Panics
    /// If the number of limits is not that of the ports.
    pub fn hold(&mut self, now: Time, limits: &[Limit]) -> io::Result<()> {
        assert_eq!(limits.len(), self.ports.len(), "each port has one limit");
        let (maps, classes) = (&self.loaded.maps, self.options.classes.len());
        for (port, &limit) in self.ports.iter_mut().zip(limits) {
            port.hold(maps, now, limit, classes)?;
        }
        self.totals.alive = now;
        maps.set_totals(&self.totals)
    }

    /// Changes the target delay that [`status`] shows.
    ///
    /// # Errors
    /// The kernel's error; nothing has changed then.
    pub fn set_target(&mut self, target: Span) -> io::Result<()> {
        let options = Options { target, ..self.options.clone() };
        let mut settings = self.loaded.maps.settings()?;
        settings.notes = GuardAttachment::new(&options).bytes();
        self.loaded.maps.set_settings(&settings)?;
        self.options = options;
        Ok(())
    }

    /// Reason why it is no longer attached; `None` while it is, or if the kernel does not report it.
    pub fn end(&mut self) -> Option<End> {
        match self.attachment.as_mut()?.query() {
            xdp::Attached::Here => None,
            xdp::Attached::NoInterface => Some(End::NoInterface),
            xdp::Attached::Off => {
                let settings = self.loaded.maps.settings();
                let is_ours = settings.is_ok_and(|settings| settings.notes == DETACHED);
                Some(if is_ours { End::Detached } else { End::Removed })
            }
        }
    }

    /// True if the last service that reported its queue for the port at this place of
    /// [`Options::ports`] had stopped reporting at the last control step.
    #[must_use]
    pub fn is_silenced(&self, place: usize) -> bool {
        self.ports[place].is_silenced()
    }

    /// Counts of all ports since the attach.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn counts(&self) -> io::Result<Counts> {
        self.loaded.maps.counts_of_ports(self.ports.len()).map(|(_, all)| all)
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        // If this fails, closing the link detaches it.
        let _ = bpf::detach(&self.link);
    }
}
