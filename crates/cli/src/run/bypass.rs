//! Sockets that a program's processes have in the kernel and should have had on
//! the stack ([`host::shim::bypass`]): said when they are found, counted, and said
//! once more at the end.

use std::collections::{BTreeMap, BTreeSet};

use host::shim::Routes;
use host::shim::bypass::{Event, Finding, Protocol, Use, Watcher};
use rustix::process::Pid;

use crate::error::plain;
use crate::ui::{Figure, Labels};

/// Sockets that are named; more are counted.
const NAMED_MAX: usize = 16;

/// See the module.
pub(super) struct Bypass {
    watcher: Option<Watcher>,
    /// Warnings, with the sockets that they are about.
    said: BTreeMap<(String, Protocol, Use, String), Said>,
    counts: BTreeMap<(Protocol, Use), u64>,
    /// Those that were not named.
    unnamed: u64,
    unseen: BTreeSet<u32>,
    /// Processes with a ring of io_uring.
    rings: BTreeMap<u32, String>,
}

struct Said {
    line: String,
    count: u64,
}

impl Bypass {
    /// Begins to watch programs into which `library` is preloaded, while this process
    /// has one thread. Where that cannot be, it is said.
    pub(super) fn watch(library: &std::path::Path, is_confined: bool) -> Self {
        let mut new = Self {
            watcher: None,
            said: BTreeMap::new(),
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

    /// The process that looks.
    pub(super) fn process(&self) -> Option<Pid> {
        self.watcher.as_ref().map(Watcher::process)
    }

    /// Says where the stack is: from now on sockets are looked for.
    pub(super) fn set_place(&mut self, place: &Routes) {
        // One that has ended is noticed when it is looked at.
        self.watcher.iter_mut().for_each(|watcher| drop(watcher.set_place(place)));
    }

    /// Says what was found since.
    pub(super) fn look(&mut self) {
        let Some(watcher) = &mut self.watcher else { return };
        let events = watcher.look();
        let is_over = watcher.is_over();
        let mut is_said = false;
        for event in events {
            match event {
                Event::Found(finding) => self.found(&finding),
                Event::Ring { process, name } => drop(self.rings.insert(process, name)),
                Event::Unseen { process, name, why } => {
                    if self.unseen.insert(process) {
                        eprintln!(
                            "note: {name} (process {process}) cannot be inspected ({}): \
                             its kernel sockets are not detected",
                            why.to_lowercase()
                        );
                    }
                }
                Event::Blind { why } => {
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

    fn found(&mut self, finding: &Finding) {
        let Finding { name, protocol, used, addr, .. } = finding;
        *self.counts.entry((*protocol, *used)).or_default() += 1;
        let key = (name.clone(), *protocol, *used, addr.to_string());
        if let Some(said) = self.said.get_mut(&key) {
            said.count += 1;
        } else if self.said.len() < NAMED_MAX {
            eprintln!("warning: {finding}");
            self.said.insert(key, Said { line: finding.to_string(), count: 1 });
        } else {
            self.unnamed += 1;
        }
    }

    /// True if any was found.
    pub(super) fn is_any(&self) -> bool {
        !self.counts.is_empty()
    }

    /// Appends the figures.
    pub(super) fn figures(&self, figures: &mut Vec<Figure>) {
        let kinds = [Protocol::Tcp, Protocol::Udp]
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

    /// Says all of it once more; `full` connections were not taken as too many waited to be.
    pub(super) fn summary(&self, full: u64) {
        let sum: u64 = self.counts.values().sum();
        if sum > 0 {
            let (sockets, were) = if sum == 1 { ("socket", "was") } else { ("sockets", "were") };
            eprintln!(
                "warning: {sum} {sockets} of the program {were} opened in the kernel instead of greenwave's stack:"
            );
            for Said { line, count } in self.said.values() {
                let times = if *count > 1 { format!(", {count}×") } else { String::new() };
                eprintln!("  {line}{times}");
            }
            if self.unnamed > 0 {
                eprintln!("  and {} more", self.unnamed);
            }
        }
        if !self.unseen.is_empty() {
            let count = self.unseen.len();
            let processes = if count == 1 { "process" } else { "processes" };
            eprintln!("note: {count} {processes} could not be inspected");
        }
        if let (1.., Some((process, name))) = (full, self.rings.first_key_value()) {
            eprintln!(
                "note: {name} (process {process}) uses io_uring; greenwave's connections cannot be accepted through io_uring"
            );
        }
    }
}

fn blind(why: &str) {
    eprintln!("note: kernel sockets of the program are not detected: {why}");
}
