//! Counters of an egress: of the program, and of the queues.

use queueing::Bytes;
use serde_json::Value;

use super::attachment::EgressAttachment;
use super::error::FabricError;
use super::program::{COUNTED_OTHER, COUNTED_PINNED};
use super::saved_qdisc::text;
use super::{COUNTS, FLOWS, Found, exists, map_of, refused, rule, tc, uptime_ns};
use crate::bpf::Map;

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
    pub came: Counter,
    /// Packets sent to the wire.
    pub sent: Counter,
    /// Packets dropped at a full queue.
    pub dropped: u64,
    /// Packets queued.
    pub waiting: Counter,
    /// Active flows at this level; a flow silent for the idle time is not counted.
    pub flows: u64,
}

/// Status of an egress.
#[derive(Clone, Debug, PartialEq)]
pub struct Status {
    /// Configuration.
    pub notes: EgressAttachment,
    /// Levels, most urgent first.
    pub levels: Vec<Level>,
    /// Packets, of all, whose level was set by the sender's label.
    pub pinned: Counter,
    /// Packets, of all, without a readable IPv4 or IPv6 header.
    pub other: Counter,
}

/// Present status of the egress of `device`.
///
/// # Errors
/// [`FabricError::NotAttached`] if nothing is attached, or only partly.
pub fn status(device: &str) -> Result<Status, FabricError> {
    exists(device)?;
    let found = Found::on(device)?;
    let (Some(id), Some(notes), true) = (found.filter, found.notes, found.root_is_ours) else {
        return Err(FabricError::NotAttached(device.to_owned()));
    };
    let counts = map_of(id, COUNTS)?;
    let mut levels = vec![Level::default(); notes.thresholds.len() + 1];
    for (at, level) in levels.iter_mut().enumerate() {
        level.came = counter(&counts, at as u32)?;
    }
    let classes = notes.shape.classes(notes.buckets);
    let parent = format!("{:x}:", classes.major);
    for qdisc in tc::show(&["-s", "qdisc", "show", "dev", device])? {
        let minor = text(&qdisc, "parent")
            .strip_prefix(&parent)
            .and_then(|minor| u16::from_str_radix(minor, 16).ok());
        if let Some(level) = minor.and_then(|minor| classes.level(minor)).and_then(|at| levels.get_mut(at)) {
            add(level, &qdisc);
        }
    }
    let rule = rule(&notes)?;
    let now = uptime_ns();
    for flow in map_of(id, FLOWS)?.values().map_err(refused("a look at our flows"))? {
        let word = |at: usize| {
            flow.get(at..).and_then(<[u8]>::first_chunk).map_or(0, |bytes| u64::from_ne_bytes(*bytes))
        };
        if now.saturating_sub(word(8)) < notes.idle.as_nanos() {
            levels[rule.level(Bytes::new(word(0))).index()].flows += 1;
        }
    }
    let pinned = counter(&counts, COUNTED_PINNED as u32)?;
    let other = counter(&counts, COUNTED_OTHER as u32)?;
    Ok(Status { notes, levels, pinned, other })
}

fn counter(counts: &Map, at: u32) -> Result<Counter, FabricError> {
    let value = counts.get(&at.to_ne_bytes()).map_err(refused("a look at our counters"))?.unwrap_or_default();
    let word = |at: usize| {
        value.get(at..).and_then(<[u8]>::first_chunk).map_or(0, |bytes| u64::from_ne_bytes(*bytes))
    };
    Ok(Counter { packets: word(0), bytes: word(8) })
}

/// Adds the counters of one queue from `tc`.
fn add(level: &mut Level, qdisc: &Value) {
    let number = |key: &str| qdisc.get(key).and_then(Value::as_u64).unwrap_or_default();
    level.sent.packets += number("packets");
    level.sent.bytes += number("bytes");
    level.dropped += number("drops");
    level.waiting.packets += number("qlen");
    level.waiting.bytes += number("backlog");
}
