//! Egress scheduling that serves short flows first, built from Linux's own qdiscs.
//!
//! A classifier at clsact counts the bytes of each flow and writes the queue of its level to
//! `skb->priority`. Qdiscs below a shaper are the levels and queues. [`attach`] sets both up,
//! [`status`] shows counters, [`detach`] restores the previous state. All state is in the kernel:
//! `detach` also removes what a killed process left unfinished.
//!
//! The decision itself is [`Model`], which runs anywhere; tests compare the kernel's program with it.
//! Needs root and the program `tc`.
//!
//! Source: FISH; PIAS (Bai et al., NSDI '15) §4; tc-bpf(8), tc-htb(8).

use std::io;

use queueing::egress::QueueQuantum;
use queueing::{Rate, Thresholds};
use rustix::time::{ClockId, clock_gettime};
use serde_json::Value;

use crate::bpf::{self, Map};
use host::interface::{Interface, InterfaceError};
use netlab::{LabError, Namespace};

mod attachment;
mod backlog;
mod error;
mod flow_key;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzz;
mod gso_max_size;
mod model;
mod policy;
mod program;
mod qdisc_plan;
mod saved_qdisc;
mod status;
mod tc;
mod tc_filter;
#[cfg(test)]
mod tests;

pub use attachment::EgressAttachment;
pub use backlog::line;
pub use error::FabricError;
pub use flow_key::{Key, Kind, Read};
pub use model::{Model, Verdict};
pub use policy::{BadPolicy, Policy};
use program::{COUNTER_LEN, COUNTERS, FLOW_LEN, KEY_LEN, Wiring};
pub use qdisc_plan::{Choice, Shape};
use saved_qdisc::{SavedQdisc, is_root, text};
pub use status::{Counter, Level, Status, Warning, status};

/// Names of the program and its maps, by which they are found again.
const PROGRAM: &str = "gw_fabric";
const FLOWS: &str = "gw_flows";
const COUNTS: &str = "gw_counts";
const NOTES: &str = "gw_notes";
const BACKLOG: &str = "gw_backlog";

/// Sets up levels and queues by `policy` on the egress of `device`, in this thread's network namespace,
/// shaped to `rate`.
///
/// # Errors
/// [`FabricError`]; nothing is left behind then.
pub fn attach(device: &str, rate: Rate, policy: &Policy, seed: u64) -> Result<Choice, FabricError> {
    policy.check()?;
    Policy::check_rate(rate)?;
    let interface = Interface::find(device)?;
    let found = Found::on(device)?;
    if let Some(what) = found.what() {
        return Err(FabricError::Attached { device: device.to_owned(), what });
    }
    if found.has("ingress") {
        return Err(FabricError::Ingress(device.to_owned()));
    }
    let workshop = Namespace::new("fabric".to_owned()).map_err(no_workshop)?;
    let has = |kind: &str| {
        let words = qdisc_plan::tried(kind);
        let words: Vec<&str> = words.split(' ').collect();
        workshop.run("tc", &[&["qdisc", "replace", "dev", "lo", "root"], &words[..]].concat()).is_ok()
    };
    if !has("htb") {
        return Err(FabricError::Lacks("htb"));
    }
    let frame = u32::from(interface.mtu) + 14;
    let quantum = QueueQuantum::choose(rate, frame, gso_max_size::gso_max_size(device)?);
    let choice = qdisc_plan::choose(policy, quantum, has);
    let preference = found.first_preference(device, interface.index)?;
    let before = SavedQdisc::of(device, &found.qdiscs, &workshop)?;
    let notes = EgressAttachment::new(policy, rate, &choice, before, !found.has("clsact"));
    let loaded = Loaded::new(policy, rate, &choice, seed, Some(&notes))?;
    match tc_filter::attach(interface.index, &loaded.program, PROGRAM, preference) {
        Ok(()) => {}
        Err(e) => {
            // Another attach came first, or the kernel rejects ours.
            if e.kind() != io::ErrorKind::AlreadyExists && notes.clsact_is_ours {
                let _ = tc::run(&["qdisc", "del", "dev", device, "clsact"]);
            }
            return Err(FabricError::Bpf { what: "a filter at the egress", source: e });
        }
    }
    let made = || {
        if let Some([_, limit]) = quantum.gso {
            gso_max_size::set_gso_max_size(device, limit)?;
        }
        tc::batch(&choice.shape.commands(device, rate, policy, interface.mtu, quantum))
    };
    match made() {
        Ok(()) => Ok(choice),
        Err(e) => {
            // The first error is more informative than a failed cleanup.
            let _ = detach(device);
            Err(e)
        }
    }
}

/// Restores the state before [`attach`], also after one that was killed. Result: the restored qdisc, as
/// text.
///
/// # Errors
/// [`FabricError::NotAttached`] if no greenwave policy is attached.
pub fn detach(device: &str) -> Result<String, FabricError> {
    exists(device)?;
    let found = Found::on(device)?;
    if found.what().is_none() {
        return Err(FabricError::NotAttached(device.to_owned()));
    }
    let before = found.notes.as_ref().map_or(&SavedQdisc::Default, |notes| &notes.before);
    // The root first: the metadata is removed with the filter.
    if found.root_is_ours {
        tc::batch(&before.commands(device))?;
    }
    // A size that another program has changed since is its own.
    if let Some([before, limit]) = found.notes.as_ref().and_then(|notes| notes.quantum.gso)
        && gso_max_size::gso_max_size(device)? == Some(limit)
    {
        gso_max_size::set_gso_max_size(device, before)?;
    }
    if let Some(filter) = &found.filter {
        let alone = found.notes.as_ref().is_some_and(|notes| notes.clsact_is_ours) && found.others == 0;
        match alone {
            true => tc::run(&["qdisc", "del", "dev", device, "clsact"])?,
            false => {
                let preference = filter.preference.to_string();
                tc::run(&["filter", "del", "dev", device, "egress", "pref", &preference])?
            }
        };
    }
    Ok(match found.notes {
        Some(notes) => notes.before(),
        None => "the kernel's default qdisc, because the record of the previous one is missing".to_owned(),
    })
}

/// Greenwave's qdiscs and filter on an interface.
struct Found {
    qdiscs: Vec<Value>,
    /// Our filter, if attached.
    filter: Option<Filter>,
    notes: Option<EgressAttachment>,
    root_is_ours: bool,
    /// Number of other filters at clsact.
    others: usize,
    /// Lowest preference of other filters at the egress.
    others_first: Option<u16>,
}

/// Our filter at an egress.
struct Filter {
    /// ID of its program.
    program: u32,
    preference: u16,
}

impl Found {
    fn on(device: &str) -> Result<Self, FabricError> {
        let qdiscs = tc::show(&["qdisc", "show", "dev", device])?;
        let ours = format!("{:x}:", qdisc_plan::ROOT);
        let root_is_ours = qdiscs.iter().any(|qdisc| is_root(qdisc) && text(qdisc, "handle") == ours);
        let mut found =
            Self { qdiscs, filter: None, notes: None, root_is_ours, others: 0, others_first: None };
        if !found.has("clsact") {
            return Ok(found);
        }
        for side in ["ingress", "egress"] {
            for filter in tc::show(&["filter", "show", "dev", device, side])? {
                // A line for each preference precedes those of its filters.
                let Some(options) = filter.get("options") else { continue };
                let preference = filter.get("pref").and_then(Value::as_u64).unwrap_or_default() as u16;
                match program_of(options) {
                    Some(program) if side == "egress" => found.filter = Some(Filter { program, preference }),
                    _ => {
                        found.others += 1;
                        if side == "egress" {
                            let first = found.others_first.unwrap_or(preference);
                            found.others_first = Some(first.min(preference));
                        }
                    }
                }
            }
        }
        if let Some(filter) = &found.filter {
            let notes =
                map_of(filter.program, NOTES)?.get(&0_u32.to_ne_bytes()).map_err(refused("our notes"))?;
            found.notes = notes.map(|bytes| EgressAttachment::read(&bytes)).transpose()?;
        }
        Ok(found)
    }

    fn has(&self, kind: &str) -> bool {
        self.qdiscs.iter().any(|qdisc| text(qdisc, "kind") == kind)
    }

    /// A preference below all others', so that no filter passes a packet on before ours has seen it.
    ///
    /// # Errors
    /// [`FabricError::NotFirst`] if there is none, or tcx programs run before all filters.
    fn first_preference(&self, device: &str, index: u32) -> Result<u16, FabricError> {
        let not_first = |what: String| FabricError::NotFirst { device: device.to_owned(), what };
        if let Some(id) = bpf::tcx_egress(index).map_err(refused("a query of tcx programs"))?.first() {
            let name = bpf::program_name(*id).unwrap_or_default();
            return Err(not_first(format!("tcx program {name} (ID {id})")));
        }
        match self.others_first {
            Some(first) if first <= tc_filter::PREFERENCE => match first.saturating_sub(1) {
                0 => Err(not_first(format!("a filter of preference {first}"))),
                preference => Ok(preference),
            },
            _ => Ok(tc_filter::PREFERENCE),
        }
    }

    /// The attached policy and rate, as text.
    fn what(&self) -> Option<String> {
        let name = self.notes.as_ref().map(EgressAttachment::name);
        match (&self.filter, self.root_is_ours) {
            (None, false) => None,
            (Some(_), true) => Some(name.unwrap_or_default()),
            (Some(_), false) => Some(format!("{}, incompletely", name.unwrap_or_default())),
            (None, true) => Some("greenwave's qdiscs without their filter".to_owned()),
        }
    }
}

/// Program ID of a filter, if it is ours.
fn program_of(options: &Value) -> Option<u32> {
    let id = options.get("prog")?.get("id")?.as_u64()?.try_into().ok()?;
    (bpf::program_name(id)? == PROGRAM).then_some(id)
}

/// The map `name` of program `id`.
fn map_of(id: u32, name: &str) -> Result<Map, FabricError> {
    let refused = refused("access to our maps");
    for map in bpf::program_maps(id).map_err(&refused)? {
        let (map, its) = Map::with_id(map).map_err(&refused)?;
        if its == name {
            return Ok(map);
        }
    }
    Err(FabricError::Unreadable(format!("our program has no map {name}")))
}

fn refused(what: &'static str) -> impl Fn(io::Error) -> FabricError {
    move |source| match source.kind() {
        io::ErrorKind::PermissionDenied => FabricError::NoPermission(format!("{what}: {source}")),
        _ => FabricError::Bpf { what, source },
    }
}

fn no_workshop(e: LabError) -> FabricError {
    FabricError::NoPermission(e.to_string())
}

/// Checks that the interface exists, in any state.
fn exists(device: &str) -> Result<(), FabricError> {
    match Interface::find(device) {
        Err(e @ InterfaceError::Missing { .. }) => Err(e.into()),
        _ => Ok(()),
    }
}

/// Loaded program and maps, not attached yet.
struct Loaded {
    program: std::os::fd::OwnedFd,
    #[cfg(test)]
    flows: Map,
    #[cfg(test)]
    counts: Map,
    #[cfg(test)]
    backlog: Map,
}

impl Loaded {
    fn new(
        policy: &Policy,
        rate: Rate,
        choice: &Choice,
        seed: u64,
        notes: Option<&EgressAttachment>,
    ) -> Result<Self, FabricError> {
        let Choice { shape, quantum, .. } = *choice;
        let map = refused("a map");
        let flows =
            Map::new(bpf::map::MapKind::Lru, FLOWS, [KEY_LEN, FLOW_LEN], policy.flows).map_err(&map)?;
        let counts = Map::new(bpf::map::MapKind::Array, COUNTS, [4, COUNTER_LEN], COUNTERS).map_err(&map)?;
        let backlog =
            Map::new(bpf::map::MapKind::Array, BACKLOG, [4, backlog::BACKLOG_LEN], 1).map_err(&map)?;
        let kept = Map::new(bpf::map::MapKind::Array, NOTES, [4, attachment::NOTES_LEN], 1).map_err(&map)?;
        if let Some(notes) = notes {
            kept.set(&0_u32.to_ne_bytes(), &notes.bytes()?).map_err(&map)?;
        }
        let wiring = Wiring {
            classes: shape.classes(policy.buckets),
            seed,
            line: backlog::line(policy, rate, shape, quantum.amounts()),
            quantum: quantum.bytes,
            flows: flows.number(),
            counts: counts.number(),
            backlog: backlog.number(),
            notes: kept.number(),
        };
        let code = program::assemble(policy, &wiring);
        let program = bpf::load(bpf::Kind::Classifier, PROGRAM, &code).map_err(refused("the classifier"))?;
        Ok(Self {
            program,
            #[cfg(test)]
            flows,
            #[cfg(test)]
            counts,
            #[cfg(test)]
            backlog,
        })
    }
}

/// Nanoseconds since boot, the program's clock.
fn uptime_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    (now.tv_sec as u64).saturating_mul(1_000_000_000).saturating_add(now.tv_nsec as u64)
}

/// The attached thresholds.
fn rule(notes: &EgressAttachment) -> Result<Thresholds, FabricError> {
    let bytes = notes.thresholds.iter().copied().map(queueing::Bytes::new).collect();
    Thresholds::new(bytes).map_err(|e| FabricError::Policy(BadPolicy::Thresholds(e)))
}
