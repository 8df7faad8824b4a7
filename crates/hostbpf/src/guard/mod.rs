//! Admission control in XDP for servers on the kernel's TCP: sheds SYNs before the kernel allocates an
//! skb.
//!
//! [`attach`] puts a program on an interface. The attaching process then runs a control loop, about a
//! hundred times a second: it observes ([`Guard::look`]), lets a policy of crate `guard` decide, and
//! sets the limit ([`Guard::hold`]). After one second without it, every SYN passes. When the process
//! ends in any way, the program is removed. There is no file: configuration and counters are read from
//! the kernel ([`status`], [`detach`]).
//!
//! The program is in C and needs the feature `bpf`; without it [`attach`] returns an error. The same
//! decision in Rust is [`Model`].
//!
//! Source: the overload paper §3.3; bpf-helpers(7).

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;

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
use map_layout::LimitEntry;
pub use map_layout::{
    CLASSES, Counts, DEADMAN, LimitInForce, ObservedSignals, PORTS_MAX, PREFIXES_MAX, Queue, Reason, SHOWN,
};
use maps::refused;
pub use model::{Listening, Model, Verdict};
#[cfg(feature = "bpf")]
pub use prog_run_cost::costs;
#[cfg(feature = "bpf")]
use program::{Loaded, load};
pub use queue_reports::JOINED_MAX;
use queue_reports::QueueReports;
use response_wait::PendingResponses;
use settings::{Settings, Way};
pub use status::{Status, detach, status};
#[cfg(not(feature = "bpf"))]
pub use stub::costs;
#[cfg(not(feature = "bpf"))]
use stub::{Loaded, load};
use stuck_queues::StuckQueues;
pub use syn::Syn;
use system_load::Machine;

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
    /// Guarded ports, at least one.
    pub ports: Vec<u16>,
    /// XDP mode of the program.
    pub mode: xdp::Mode,
    /// Classes, which set the order of shedding.
    pub classes: Classes,
    /// End of a connection's wait.
    pub until: WaitEnd,
    /// Sheds no connection, and counts those it would have shed.
    pub watching: bool,
    /// Response to a shed SYN.
    pub refusal: Refusal,
    /// True if the policy needs system load ([`guard::Policy::needs_system_signals`]).
    pub machine: bool,
    /// The policy's name, for [`status`].
    pub policy: String,
    /// Target delay, for [`status`].
    pub target: Span,
    /// Queue-report files of the services behind these ports ([`guard::app_queue`]), at most
    /// [`JOINED_MAX`].
    pub joined: Vec<PathBuf>,
}

impl Options {
    /// Checks that [`attach`] makes before it opens the interface.
    ///
    /// # Errors
    /// Contradicting rules, or a file without a report.
    pub fn check(&self) -> Result<(), GuardError> {
        self.tellers().map(drop)
    }

    fn tellers(&self) -> Result<QueueReports, GuardError> {
        self.classes.check(&self.ports)?;
        QueueReports::new(&self.joined)
    }
}

/// An attached guard; detached on drop.
pub struct Guard {
    attachment: Option<xdp::Attachment>,
    link: OwnedFd,
    loaded: Loaded,
    queues: Queues,
    machine: Machine,
    tellers: QueueReports,
    stuck: StuckQueues,
    options: Options,
    /// State at the last look.
    last: Last,
    /// Connections that waited before the guard was attached.
    before: u64,
    /// All connections at that time.
    served_before: u64,
    look: LimitEntry,
}

/// State at the last look.
#[derive(Clone, Copy, Debug, Default)]
struct Last {
    at: Time,
    offered: u64,
    shed: u64,
    closed: u64,
    answered: u64,
    present: u64,
}

/// Guards the listeners on `options.ports` of this thread's network namespace against SYNs that arrive
/// on `device`.
///
/// # Errors
/// [`GuardError`]; nothing is left behind then.
pub fn attach(device: &str, options: &Options) -> Result<Guard, GuardError> {
    let tellers = options.tellers()?;
    let interface = Interface::find(device)?;
    if let Some(found) = attached(interface.index) {
        let what = GuardAttachment::attached(found)
            .map_or_else(|_| "of another version".to_owned(), |notes| notes.name());
        return Err(GuardError::Attached { device: device.to_owned(), what });
    }
    let mut queues = Queues::new(&options.ports).map_err(refused("a look at listeners"))?;
    let (before, there) = queues.sample().map_err(refused("a look at listeners"))?;
    if let Some(&port) = options.ports.iter().find(|port| !there.contains(port)) {
        return Err(GuardError::NoListener { port, there });
    }
    let loaded = load(options.until)?;
    let maps = &loaded.maps;
    // Counted while changes are counted too: there may be one too many, but none is lost.
    let served_before = queues.connections().map_err(refused("a look at connections"))?;
    let refused = refused("an entry in our maps");
    let settings = Settings {
        netns: netns().map_err(&refused)?,
        classes: options.classes.len() as u32,
        watching: options.watching,
        prefixes: options.classes.of_prefixes().next().is_some(),
        resets: (options.refusal == Refusal::Reset).then(|| way(interface.index, options.mode)),
        answers: options.until == WaitEnd::Answer,
        before: served_before,
        ports: options.ports.clone(),
        notes: GuardAttachment::new(options).bytes(),
    };
    maps.set_settings(&settings).map_err(&refused)?;
    for (port, class) in options.classes.of_ports(&options.ports) {
        maps.set_port(port, class).map_err(&refused)?;
    }
    for (prefix, class) in options.classes.of_prefixes() {
        maps.set_prefix(prefix, class).map_err(&refused)?;
    }
    let last = Last { at: Monotonic::new().now(), ..Last::default() };
    let look = LimitEntry { alive: last.at, ..LimitEntry::default() };
    maps.set_limit(&look).map_err(&refused)?;
    let (link, _) = xdp::attach(&interface, &loaded.program, Some(options.mode), |what, source| {
        InterfaceError::Refused { name: device.to_owned(), what, source }
    })?;
    let attachment = xdp::Attachment::of(interface.index);
    let machine = Machine::new(options.machine).map_err(crate::guard::maps::refused("a look at /proc"))?;
    let options = options.clone();
    let served_before = served_before.into();
    Ok(Guard {
        attachment,
        link,
        loaded,
        queues,
        machine,
        tellers,
        stuck: StuckQueues::default(),
        options,
        last,
        before,
        served_before,
        look,
    })
}

/// Number of this thread's network namespace.
fn netns() -> io::Result<u32> {
    use std::os::unix::fs::MetadataExt;
    fs::metadata("/proc/thread-self/ns/net").map(|namespace| namespace.ino() as u32)
}

/// Way back for RSTs on interface `index`: see `bpf/reset.h`.
fn way(index: u32, mode: xdp::Mode) -> Way {
    if mode == xdp::Mode::Native && xdp::is_veth(index) { Way::Redirect } else { Way::Driver }
}

/// ID of the guard's program on interface `index`.
fn attached(index: u32) -> Option<u32> {
    xdp::attached(index).filter(|&id| bpf::program_name(id).as_deref() == Some(PROGRAM))
}

impl Guard {
    /// Signals of the server, with the counts since the last look.
    ///
    /// The wait is that of the accept queue whose first connection has waited longest, of those that are
    /// not [stuck](Queue::is_stuck); a connection older than the guard has waited since the attach.
    /// Latency is by Little's law, over whole connections. Under [`WaitEnd::Answer`] the wait ends with the first byte of a response. It
    /// covers every connection that has sent data, including those in the accept queue; later ones may
    /// be answered before the first. Queue reports of services are joined to it.
    ///
    /// # Errors
    /// The kernel's.
    pub fn look(&mut self, now: Time) -> io::Result<Signals> {
        let span = now.since(self.last.at);
        let maps = &self.loaded.maps;
        let [opened, closed, answered] = maps.connections()?;
        let unknown = self.look.seen.delay + span;
        let queues = self.queues.look(&self.loaded.look, now)?;
        let all: u64 = queues.iter().map(|queue| u64::from(queue.waiting)).sum();
        let served = (opened + self.before).saturating_sub(all).max(self.look.seen.served);
        let stuck = self.stuck.find(now, served, queues);
        let (queue, progressing) = seen(now, queues, &stuck, unknown);
        let counts = maps.counts()?;
        let (offered, shed) = (counts.offered(), counts.shed());
        let busy = self.machine.sample(now)?;
        let present = (opened + self.served_before).saturating_sub(closed);
        let left = closed.saturating_sub(self.last.closed);
        let area = span.as_secs_f64() * (present + self.last.present) as f64 / 2.0;
        let latency = (left > 0).then(|| Span::from_secs_f64(area / left as f64));
        let came = offered.saturating_sub(self.last.offered);
        let waits = self.loaded.waits.as_ref();
        let unanswered = waits.map(|program| response_wait::look(program, now)).transpose()?;
        let (begun, waiting, delay) = match unanswered {
            None => (served - self.look.seen.served, progressing.waiting, progressing.delay),
            Some(PendingResponses { waiting, delay }) => {
                (answered.saturating_sub(self.last.answered), waiting, delay)
            }
        };
        let signals = Signals {
            offered: came,
            admitted: if self.options.watching {
                came
            } else {
                came.saturating_sub(shed.saturating_sub(self.last.shed))
            },
            served: begun,
            waiting,
            delay,
            reordered: unanswered.is_some(),
            budget: None,
            latency,
            present,
            kernel_share: busy.kernel_share,
            sockets: busy.sockets,
            memory_share: busy.memory_share,
        };
        let signals = self.tellers.join(now, signals);
        let requests = self.tellers.requests();
        self.last = Last { at: now, offered, shed, closed, answered, present };
        let PendingResponses { waiting: unanswered, delay: unanswered_delay } =
            unanswered.unwrap_or_default();
        let (overflows, drops) = (busy.overflows, busy.drops);
        self.look.seen =
            ObservedSignals { served, overflows, drops, requests, unanswered, unanswered_delay, ..queue };
        Ok(signals)
    }

    /// Sets `limit`, and renews the sign of the controller.
    ///
    /// # Errors
    /// The kernel's.
    pub fn hold(&mut self, now: Time, limit: Limit) -> io::Result<()> {
        let held = LimitInForce::new(limit, self.options.classes.len());
        if let LimitInForce::Rate { cost_ns, .. } = held
            && !matches!(self.look.held, LimitInForce::Rate { .. })
        {
            // The bucket starts empty.
            self.loaded.maps.set_spent(Time::from_nanos(now.as_nanos().saturating_sub(cost_ns)))?;
        }
        self.look.alive = now;
        self.look.held = held;
        self.loaded.maps.set_limit(&self.look)
    }

    /// Changes the target delay that [`status`] shows.
    ///
    /// # Errors
    /// The kernel's; nothing has changed then.
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

    /// True if the last reporting service had stopped reporting at the last look.
    #[must_use]
    pub fn is_silenced(&self) -> bool {
        self.tellers.is_silenced()
    }

    /// Counts since the attach.
    ///
    /// # Errors
    /// The kernel's.
    pub fn counts(&self) -> io::Result<Counts> {
        self.loaded.maps.counts()
    }
}

/// Connections in the queues that are not stuck, and the longest wait there.
#[derive(Default)]
struct Progressing {
    waiting: u64,
    delay: Span,
}

/// Summary of the queues; `unknown` is the wait of a first connection whose age is unknown.
fn seen(
    now: Time,
    queues: &[accept_queue::Queue],
    stuck: &[bool],
    unknown: Span,
) -> (ObservedSignals, Progressing) {
    let (mut seen, mut progressing) = (ObservedSignals::default(), Progressing::default());
    for (&accept_queue::Queue { port, waiting, room, since, .. }, &is_stuck) in queues.iter().zip(stuck) {
        let delay = match waiting {
            0 => Span::ZERO,
            _ => since.map_or(unknown, |since| now.since(since)),
        };
        seen.waiting += u64::from(waiting);
        seen.room += u64::from(room);
        seen.delay = seen.delay.max(delay);
        if !is_stuck {
            progressing.waiting += u64::from(waiting);
            progressing.delay = progressing.delay.max(delay);
        }
        // After those with a longer wait; the last entry is dropped.
        let at = seen.queues.iter().position(|other| other.port == 0 || other.delay < delay);
        if let Some(at) = at {
            seen.queues[at..].rotate_right(1);
            seen.queues[at] = Queue { port, waiting, room, delay, is_stuck };
        }
    }
    (seen, progressing)
}

impl Drop for Guard {
    fn drop(&mut self) {
        // If this fails, closing the link detaches it.
        let _ = bpf::detach(&self.link);
    }
}
