//! A guard in front of a kernel's server: sheds connections before the kernel
//! makes a packet of their first frame.
//!
//! [`attach`] puts a program on an interface. Whoever attached it then looks
//! ([`Guard::look`]), has a policy of crate `guard` decide, and says what may
//! come in ([`Guard::hold`]), a hundred times a second or so. While nobody
//! does, for a second, everybody comes in; when its process ends, however it
//! ends, the program goes with it. There is no file: what is attached, and what
//! it did, is asked of the kernel ([`status`], [`detach`]).
//!
//! Built by the feature `bpf` alone, since the program is in C; without it
//! [`attach`] says so. The same decision in Rust is [`Model`].
//! Source: the overload paper §3.3; bpf-helpers(7).

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;

pub use guard::WaitEnd;
use guard::{Limit, Signals};
use queueing::{Clock, Span, Time};

use crate::interface::{Interface, InterfaceError};
use crate::{Monotonic, bpf, xdp};

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
pub use syn::Syn;
use system_load::Machine;

/// Whether the programs are built in.
pub const BUILT: bool = cfg!(feature = "bpf");

/// The program's name, by which it is known again.
const PROGRAM: &str = "gw_guard";

/// What the program takes of the processor for one kind of frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cost {
    /// The frame, and what becomes of it.
    pub what: &'static str,
    /// Whether it is a SYN for a guarded port.
    pub is_syn: bool,
    /// For each such frame.
    pub each: Span,
}

/// Why a guard is not attached any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// [`detach`] took it off.
    Detached,
    /// Another program took it off, or put its own in its place.
    Removed,
    /// The interface was removed, or moved to another network namespace.
    NoInterface,
}

/// The notes of a guard that [`detach`] is about to take off.
const DETACHED: &[u8] = b"detached";

/// What a client hears whose SYN is shed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Refusal {
    /// Nothing: it tries again after a second or so.
    #[default]
    Silence,
    /// A reset: it knows at once, and costs a frame. A SYN behind options or
    /// extension headers of IP hears nothing all the same.
    Reset,
}

/// How to guard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Guarded ports, one and more.
    pub ports: Vec<u16>,
    /// Where the program runs.
    pub mode: xdp::Mode,
    /// Who is shed last.
    pub classes: Classes,
    /// Until when they wait.
    pub until: WaitEnd,
    /// Sheds nobody, and counts whom it would have shed.
    pub watching: bool,
    /// What who is shed hears.
    pub refusal: Refusal,
    /// Whether the policy looks at the machine ([`guard::Policy::needs_system_signals`]).
    pub machine: bool,
    /// The policy's name, for [`status`].
    pub policy: String,
    /// How long a connection may wait, for [`status`].
    pub target: Span,
    /// Where the services behind these ports tell of their requests
    /// ([`guard::app_queue`]), [`JOINED_MAX`] at the most.
    pub joined: Vec<PathBuf>,
}

impl Options {
    /// Checks of [`attach`] before it looks at the interface.
    ///
    /// # Errors
    /// Rules that contradict each other, or a file in which no service tells.
    pub fn check(&self) -> Result<(), GuardError> {
        self.tellers().map(drop)
    }

    fn tellers(&self) -> Result<QueueReports, GuardError> {
        self.classes.check(&self.ports)?;
        QueueReports::new(&self.joined)
    }
}

/// A guard; it is detached when this is dropped.
pub struct Guard {
    attachment: Option<xdp::Attachment>,
    link: OwnedFd,
    loaded: Loaded,
    queues: Queues,
    machine: Machine,
    tellers: QueueReports,
    options: Options,
    /// At the last look.
    last: Last,
    /// Connections that waited before the guard was there.
    before: u64,
    /// All that there were then.
    served_before: u64,
    look: LimitEntry,
}

/// What there was at the last look.
#[derive(Clone, Copy, Debug, Default)]
struct Last {
    at: Time,
    offered: u64,
    shed: u64,
    closed: u64,
    answered: u64,
    present: u64,
}

/// Guards the listeners on `options.ports` of this thread's network namespace
/// against what comes in by `device`.
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
    // Counted when those that come and go are: there may be one too many, and none is forgotten.
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
        options,
        last,
        before,
        served_before,
        look,
    })
}

/// The number of this thread's network namespace.
fn netns() -> io::Result<u32> {
    use std::os::unix::fs::MetadataExt;
    fs::metadata("/proc/thread-self/ns/net").map(|namespace| namespace.ino() as u32)
}

/// By which way resets go back to interface `index`: see `bpf/reset.h`.
fn way(index: u32, mode: xdp::Mode) -> Way {
    if mode == xdp::Mode::Native && xdp::is_veth(index) { Way::Redirect } else { Way::Driver }
}

/// The number of the guard's program on interface `index`.
fn attached(index: u32) -> Option<u32> {
    xdp::attached(index).filter(|&id| bpf::program_name(id).as_deref() == Some(PROGRAM))
}

impl Guard {
    /// What the server looks like, and what came since the last look.
    ///
    /// The wait is that of the accept queue whose first has waited longest. One
    /// who was there before the guard has waited since then. Latency is by
    /// Little's law, of whole connections. Under [`WaitEnd::Answer`] the wait is until
    /// the first byte of an answer, of whoever has sent something, those in the accept queue
    /// among them; others may be answered before the first. What services tell of their
    /// requests is joined to it.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn look(&mut self, now: Time) -> io::Result<Signals> {
        let span = now.since(self.last.at);
        let maps = &self.loaded.maps;
        let [opened, closed, answered] = maps.connections()?;
        let unknown = self.look.seen.delay + span;
        let queue = seen(now, self.queues.look(&self.loaded.look, now)?, unknown);
        let served = (opened + self.before).saturating_sub(queue.waiting).max(self.look.seen.served);
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
            None => (served - self.look.seen.served, queue.waiting, queue.delay),
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

    /// From now on holds connections to `limit`; says that somebody is there.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn hold(&mut self, now: Time, limit: Limit) -> io::Result<()> {
        let held = LimitInForce::new(limit, self.options.classes.len());
        if let LimitInForce::Rate { cost_ns, .. } = held
            && !matches!(self.look.held, LimitInForce::Rate { .. })
        {
            // Nobody has saved up.
            self.loaded.maps.set_spent(Time::from_nanos(now.as_nanos().saturating_sub(cost_ns)))?;
        }
        self.look.alive = now;
        self.look.held = held;
        self.loaded.maps.set_limit(&self.look)
    }

    /// From now on [`status`] says that a connection may wait for `target`.
    ///
    /// # Errors
    /// What the kernel says; nothing has changed then.
    pub fn set_target(&mut self, target: Span) -> io::Result<()> {
        let options = Options { target, ..self.options.clone() };
        let mut settings = self.loaded.maps.settings()?;
        settings.notes = GuardAttachment::new(&options).bytes();
        self.loaded.maps.set_settings(&settings)?;
        self.options = options;
        Ok(())
    }

    /// Why it is not where it was attached any more, if so. It is, where the kernel does not say.
    pub fn end(&mut self) -> Option<End> {
        match self.attachment.as_mut()?.look() {
            xdp::Attached::Here => None,
            xdp::Attached::NoInterface => Some(End::NoInterface),
            xdp::Attached::Off => {
                let settings = self.loaded.maps.settings();
                let is_ours = settings.is_ok_and(|settings| settings.notes == DETACHED);
                Some(if is_ours { End::Detached } else { End::Removed })
            }
        }
    }

    /// Whether the last service that told of its requests had fallen silent at the last look.
    #[must_use]
    pub fn is_silenced(&self) -> bool {
        self.tellers.is_silenced()
    }

    /// What came so far.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn counts(&self) -> io::Result<Counts> {
        self.loaded.maps.counts()
    }
}

/// The queues, summed up; `unknown` is how long the first of one has waited who
/// is not known.
fn seen(now: Time, queues: &[accept_queue::Queue], unknown: Span) -> ObservedSignals {
    let mut seen = ObservedSignals::default();
    for &accept_queue::Queue { port, waiting, room, since } in queues {
        let delay = match waiting {
            0 => Span::ZERO,
            _ => since.map_or(unknown, |since| now.since(since)),
        };
        seen.waiting += u64::from(waiting);
        seen.room += u64::from(room);
        seen.delay = seen.delay.max(delay);
        // Behind those that wait longer; the last is pushed out.
        let at = seen.queues.iter().position(|other| other.port == 0 || other.delay < delay);
        if let Some(at) = at {
            seen.queues[at..].rotate_right(1);
            seen.queues[at] = Queue { port, waiting, room, delay };
        }
    }
    seen
}

impl Drop for Guard {
    fn drop(&mut self) {
        // Where this fails, closing the link does it.
        let _ = bpf::detach(&self.link);
    }
}
