//! What passes an egress: counters of the program, and of the queues.

use queueing::Bytes;
use serde_json::Value;

use super::attachment::EgressAttachment;
use super::error::FabricError;
use super::program::{COUNTED_OTHER, COUNTED_PINNED};
use super::saved_qdisc::text;
use super::{COUNTS, FLOWS, Found, exists, map_of, refused, rule, tc, uptime_ns};
use crate::bpf::Map;

/// Packets and their bytes on the wire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counter {
    /// Packets.
    pub packets: u64,
    /// Their bytes, headers counted.
    pub bytes: u64,
}

/// What became of the packets of one level since it was attached.
///
/// Once nothing is on the way, `came.packets` are those sent, dropped and
/// waiting, except that a packet that the network card was to cut into
/// segments (GSO) is dropped as one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Level {
    /// Came.
    pub came: Counter,
    /// Left for the wire.
    pub sent: Counter,
    /// Found their queue full.
    pub dropped: u64,
    /// Wait.
    pub waiting: Counter,
    /// Flows that are at this level, and not silent for so long that they
    /// would start anew.
    pub flows: u64,
}

/// What passes an egress.
#[derive(Clone, Debug, PartialEq)]
pub struct Status {
    /// What is attached.
    pub notes: EgressAttachment,
    /// Level by level, the most urgent first.
    pub levels: Vec<Level>,
    /// Of all that came: whose level the sender's label said.
    pub pinned: Counter,
    /// Of all that came: neither IPv4 nor IPv6, or not readable as such.
    pub other: Counter,
}

/// What passes the egress of `device` now.
///
/// # Errors
/// [`FabricError::NotAttached`] when nothing is attached, or only by half.
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

/// Adds what `tc` shows of one queue.
fn add(level: &mut Level, qdisc: &Value) {
    let number = |key: &str| qdisc.get(key).and_then(Value::as_u64).unwrap_or_default();
    level.sent.packets += number("packets");
    level.sent.bytes += number("bytes");
    level.dropped += number("drops");
    level.waiting.packets += number("qlen");
    level.waiting.bytes += number("backlog");
}
