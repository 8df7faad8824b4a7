//! Counters of an egress: of the program, and of the queues.

use queueing::Bytes;
use serde_json::Value;

use super::attachment::EgressAttachment;
use super::backlog;
use super::error::FabricError;
use super::program::{COUNTED_LARGE, COUNTED_OTHER, COUNTED_PINNED, LAST, SENT, SERVED, WAITING};
use super::saved_qdisc::{is_root, text};
use super::{BACKLOG, COUNTS, FLOWS, Found, exists, map_of, refused, rule, tc, uptime_ns};
use crate::bpf::{self, Map};
use host::interface::Interface;
use queueing::egress::FlowBacklog;

/// Packets and bytes on the wire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counter {
    /// Packets.
    pub packets: u64,
    /// Bytes, headers included.
    pub bytes: u64,
}

/// Counters of one level since the attach.
///
/// Once no packet is in flight, `came.packets` equals sent, dropped and waiting together. Exception: a
/// packet that the NIC was to segment (GSO) is dropped as one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Level {
    /// Packets classified.
    pub arrived: Counter,
    /// Packets sent to the wire.
    pub sent: Counter,
    /// Packets dropped at a full queue.
    pub dropped: u64,
    /// Packets queued.
    pub waiting: Counter,
    /// Active flows at this level; a flow silent for the idle time with nothing waiting is not counted.
    pub flows: u64,
}

/// Status of an egress.
#[derive(Clone, Debug, PartialEq)]
pub struct Status {
    /// Configuration.
    pub notes: EgressAttachment,
    /// Levels, most urgent first.
    pub levels: Vec<Level>,
    /// Packets whose level was set by the sender's label.
    pub pinned: Counter,
    /// Packets without a readable IPv4 or IPv6 header.
    pub other: Counter,
    /// Packets sent or dropped that the classifier did not see.
    pub unseen: Counter,
    /// Packets that are larger than a queue's quantum.
    pub large: Counter,
    /// Times at which packets waited for the shaper's rate.
    pub waits: u64,
    /// Programs that run before the classifier.
    pub ahead: Vec<String>,
}

/// A reason why the levels have less effect than they could.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Warning {
    /// Packets leave without a level.
    Unseen {
        /// Number of packets.
        packets: u64,
        /// Programs that run before the classifier.
        ahead: Vec<String>,
    },
    /// Nearly all packets are on one level.
    OneLevel {
        /// Level of the packets.
        level: usize,
    },
    /// No packet ever waited: the shaper is not the bottleneck.
    NeverWaits,
    /// Packets are larger than a quantum.
    Large {
        /// Number of packets, as the network counts them.
        packets: u64,
        /// Bytes of a quantum.
        quantum: u32,
    },
}

/// Minimum number of packets for a conclusion.
const PACKETS_MIN: u64 = 1_000;
/// Share of the packets that counts as nearly all, and share that may be larger than a quantum: in %.
const NEARLY_ALL: u64 = 99;
const LARGE_MAX: u64 = 1;

impl Warning {
    /// Name in JSON.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Unseen { .. } => "unseen",
            Self::OneLevel { .. } => "one-level",
            Self::NeverWaits => "never-waits",
            Self::Large { .. } => "large-packets",
        }
    }
}

impl std::fmt::Display for Warning {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Unseen { packets, ahead } => {
                write!(f, "{packets} packets left without a level: another program passed them on first")?;
                if ahead.is_empty() { Ok(()) } else { write!(f, ": {}", ahead.join(", ")) }
            }
            Self::OneLevel { level } => write!(
                f,
                "nearly all packets are on level {level}: levels have no effect with this policy and traffic"
            ),
            Self::NeverWaits => f.write_str(
                "no packet has waited: this interface is not the bottleneck at this rate; lower --rate below it",
            ),
            Self::Large { packets, quantum } => write!(
                f,
                "{packets} packets were larger than a quantum of {quantum} bytes (GRO, or connections older than the \
                 attach): flows of single packets get less than their quantum"
            ),
        }
    }
}

impl Status {
    /// Reasons why the levels have less effect than they could.
    #[must_use]
    pub fn warnings(&self) -> Vec<Warning> {
        let mut warnings = Vec::new();
        let arrived = |level: &Level| level.arrived.packets;
        let all: u64 = self.levels.iter().map(arrived).sum();
        if self.unseen.packets > 0 || !self.ahead.is_empty() {
            warnings.push(Warning::Unseen { packets: self.unseen.packets, ahead: self.ahead.clone() });
        }
        if all < PACKETS_MIN {
            return warnings;
        }
        let full = self.levels.iter().position(|level| arrived(level) * 100 >= all * NEARLY_ALL);
        if let (Some(level), true) = (full, self.levels.len() > 1) {
            warnings.push(Warning::OneLevel { level });
        }
        if self.waits == 0 && self.levels.iter().all(|level| level.dropped == 0 && level.waiting.packets == 0)
        {
            warnings.push(Warning::NeverWaits);
        }
        if self.large.packets * 100 > all * LARGE_MAX {
            warnings.push(Warning::Large { packets: self.large.packets, quantum: self.notes.quantum.bytes });
        }
        warnings
    }
}

/// Present status of the egress of `device`.
///
/// # Errors
/// [`FabricError::NotAttached`] if nothing is attached, or only partly.
pub fn status(device: &str) -> Result<Status, FabricError> {
    exists(device)?;
    let found = Found::on(device)?;
    let (Some(filter), Some(notes), true) = (&found.filter, &found.notes, found.root_is_ours) else {
        return Err(FabricError::NotAttached(device.to_owned()));
    };
    let id = filter.program;
    let counts = map_of(id, COUNTS)?;
    let mut levels = vec![Level::default(); notes.thresholds.len() + 1];
    for (at, level) in levels.iter_mut().enumerate() {
        level.arrived = counter(&counts, at as u32)?;
    }
    let classes = notes.shape.classes(notes.buckets);
    let parent = format!("{:x}:", classes.major);
    let (mut unseen, mut waits) = (Level::default(), 0);
    for qdisc in tc::show(&["-s", "qdisc", "show", "dev", device])? {
        if is_root(&qdisc) {
            waits = number(&qdisc, "overlimits");
        }
        let minor = text(&qdisc, "parent")
            .strip_prefix(&parent)
            .and_then(|minor| u16::from_str_radix(minor, 16).ok());
        let Some(minor) = minor else { continue };
        if minor == notes.shape.unseen() {
            add(&mut unseen, &qdisc);
        } else if let Some(level) = classes.level(minor).and_then(|at| levels.get_mut(at)) {
            add(level, &qdisc);
        }
    }
    count_flows(&mut levels, notes, id)?;
    let mut ahead = Vec::new();
    if let Ok(interface) = Interface::find(device) {
        for id in bpf::tcx_egress(interface.index).map_err(refused("a query of tcx programs"))? {
            ahead.push(format!("tcx program {} (ID {id})", bpf::program_name(id).unwrap_or_default()));
        }
    }
    if let Some(first) = found.others_first.filter(|first| *first < filter.preference) {
        ahead.push(format!("a filter of preference {first}"));
    }
    let pinned = counter(&counts, COUNTED_PINNED as u32)?;
    let other = counter(&counts, COUNTED_OTHER as u32)?;
    let large = counter(&counts, COUNTED_LARGE as u32)?;
    let unseen = Counter { packets: unseen.sent.packets + unseen.dropped, bytes: unseen.sent.bytes };
    Ok(Status { notes: notes.clone(), levels, pinned, other, unseen, large, waits, ahead })
}

/// Counts the active flows of each level.
fn count_flows(levels: &mut [Level], notes: &EgressAttachment, program: u32) -> Result<(), FabricError> {
    let (rule, line, now_ns) = (rule(notes)?, notes.line(), uptime_ns());
    let backlog = map_of(program, BACKLOG)?.get(&0_u32.to_ne_bytes()).map_err(refused("our backlog"))?;
    let backlog = backlog::read(&backlog.unwrap_or_default());
    for flow in map_of(program, FLOWS)?.values().map_err(refused("a look at our flows"))? {
        let word = |at: i16| {
            flow.get(at as usize..)
                .and_then(<[u8]>::first_chunk)
                .map_or(0, |bytes| u64::from_ne_bytes(*bytes))
        };
        let level = rule.level(Bytes::new(word(SENT))).index();
        let state = FlowBacklog { last_ns: word(LAST), waiting_ns: word(WAITING), served_ns: word(SERVED) };
        if !state.is_idle(&backlog, now_ns, level, &line) {
            levels[level].flows += 1;
        }
    }
    Ok(())
}

fn counter(counts: &Map, at: u32) -> Result<Counter, FabricError> {
    let value = counts.get(&at.to_ne_bytes()).map_err(refused("access to our counters"))?.unwrap_or_default();
    let word = |at: usize| {
        value.get(at..).and_then(<[u8]>::first_chunk).map_or(0, |bytes| u64::from_ne_bytes(*bytes))
    };
    Ok(Counter { packets: word(0), bytes: word(8) })
}

fn number(qdisc: &Value, key: &str) -> u64 {
    qdisc.get(key).and_then(Value::as_u64).unwrap_or_default()
}

/// Adds the counters of one queue from `tc`.
fn add(level: &mut Level, qdisc: &Value) {
    let number = |key: &str| number(qdisc, key);
    level.sent.packets += number("packets");
    level.sent.bytes += number("bytes");
    level.dropped += number("drops");
    level.waiting.packets += number("qlen");
    level.waiting.bytes += number("backlog");
}
