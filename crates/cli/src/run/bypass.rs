//! Sockets of the program's processes that are in the kernel and should be on the stack
//! ([`shim::bypass`]): reported when found, counted, and reported again at the end.

use std::collections::{BTreeMap, BTreeSet};

use rustix::process::Pid;
use shim::Routes;
use shim::bypass::{BypassingSocket, SocketProtocol, Use, Watcher, WatcherEvent};

use crate::error::plain;
use crate::ui::{Figure, Labels};

/// Maximum number of sockets reported by name; further ones are counted.
const NAMED_MAX: usize = 16;

/// Monitor of bypassing sockets.
pub(super) struct Bypass {
    watcher: Option<Watcher>,
    /// Warnings, with their sockets.
    lines: BTreeMap<(String, SocketProtocol, Use, String), Said>,
    counts: BTreeMap<(SocketProtocol, Use), u64>,
    /// Number of sockets beyond those reported by name.
    unnamed: u64,
    unseen: BTreeSet<u32>,
    /// Processes that use io_uring.
    rings: BTreeMap<u32, String>,
}

struct Said {
    line: String,
    count: u64,
}

impl Bypass {
    /// Starts to watch programs that preload `library`. Must be called while this process has one
    /// thread. Reports where it cannot.
    pub(super) fn watch(library: &std::path::Path, is_confined: bool) -> Self {
        let mut new = Self {
            watcher: None,
            lines: BTreeMap::new(),
            counts: BTreeMap::new(),
            unnamed: 0,
            unseen: BTreeSet::new(),
            rings: BTreeMap::new(),
        };
        match Watcher::start(library, is_confined) {
            Ok(watcher) => new.watcher = Some(watcher),
            Err(e) => blind(plain(&e.to_string())),
        }
        new
    }

    /// The watching process.
    pub(super) fn process(&self) -> Option<Pid> {
        self.watcher.as_ref().map(Watcher::process)
    }

    /// Sets the stack's addresses; sockets are searched from now on.
    pub(super) fn set_routes(&mut self, routes: &Routes) {
        // The next check notices an ended watcher.
        self.watcher.iter_mut().for_each(|watcher| drop(watcher.set_routes(routes)));
    }

    /// Reports new findings.
    pub(super) fn report_new(&mut self) {
        let Some(watcher) = &mut self.watcher else { return };
        let events = watcher.events();
        let is_over = watcher.is_over();
        let mut is_said = false;
        for event in events {
            match event {
                WatcherEvent::Found(finding) => self.found(&finding),
                WatcherEvent::Ring { process, name } => drop(self.rings.insert(process, name)),
                WatcherEvent::Unseen { process, name, why } => {
                    if self.unseen.insert(process) {
                        errln!(
                            "note: {name} (process {process}) cannot be inspected ({}): \
                             its kernel sockets are not detected",
                            why.to_lowercase()
                        );
                    }
                }
                WatcherEvent::Blind { why } => {
                    blind(&why);
                    is_said = true;
                }
            }
        }
        if is_over {
            self.watcher = None;
            if !is_said {
                blind("the watching process has ended");
            }
        }
    }

    fn found(&mut self, finding: &BypassingSocket) {
        let BypassingSocket { name, protocol, used, addr, .. } = finding;
        *self.counts.entry((*protocol, *used)).or_default() += 1;
        let key = (name.clone(), *protocol, *used, addr.to_string());
        if let Some(known) = self.lines.get_mut(&key) {
            known.count += 1;
        } else if self.lines.len() < NAMED_MAX {
            errln!("warning: {finding}");
            self.lines.insert(key, Said { line: finding.to_string(), count: 1 });
        } else {
            self.unnamed += 1;
        }
    }

    /// True if there was any finding.
    pub(super) fn is_any(&self) -> bool {
        !self.counts.is_empty()
    }

    /// Appends the figures.
    pub(super) fn figures(&self, figures: &mut Vec<Figure>) {
        let kinds = [SocketProtocol::Tcp, SocketProtocol::Udp]
            .map(|protocol| [Use::Listens, Use::Connects].map(|used| (protocol, used)));
        for (protocol, used) in kinds.into_iter().flatten() {
            let labels = Labels::none().with("protocol", protocol.name()).with("use", used.name());
            let count = self.counts.get(&(protocol, used)).copied().unwrap_or(0);
            figures.push(Figure::new("greenwave_kernel_sockets_total", labels, count as f64));
        }
        let is_watched = f64::from(u8::from(self.watcher.is_some()));
        figures.push(Figure::new("greenwave_kernel_sockets_watched", Labels::none(), is_watched));
        let unseen = self.unseen.len() as f64;
        figures.push(Figure::new("greenwave_kernel_sockets_unseen", Labels::none(), unseen));
    }

    /// Reports all findings again; `full` connections were refused because the queue was full.
    pub(super) fn summary(&self, full: u64) {
        let sum: u64 = self.counts.values().sum();
        if sum > 0 {
            let (sockets, were) = if sum == 1 { ("socket", "was") } else { ("sockets", "were") };
            errln!(
                "warning: {sum} {sockets} of the program {were} opened in the kernel instead of greenwave's stack:"
            );
            for Said { line, count } in self.lines.values() {
                let times = if *count > 1 { format!(", {count}×") } else { String::new() };
                errln!("  {line}{times}");
            }
            if self.unnamed > 0 {
                errln!("  and {} more", self.unnamed);
            }
        }
        if !self.unseen.is_empty() {
            let count = self.unseen.len();
            let processes = if count == 1 { "process" } else { "processes" };
            errln!("note: {count} {processes} could not be inspected");
        }
        if let (1.., Some((process, name))) = (full, self.rings.first_key_value()) {
            errln!(
                "note: {name} (process {process}) uses io_uring; greenwave's connections cannot be accepted through io_uring"
            );
        }
    }
}

fn blind(why: &str) {
    errln!("note: kernel sockets of the program are not detected: {why}");
}
