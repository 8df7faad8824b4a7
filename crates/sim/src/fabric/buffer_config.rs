//! What a configuration says of ports beyond their order: whose room it is, who
//! looks after the length of what, and who tells levels.

use queueing::{Bytes, QueueLength, RedSettings, Span};
use serde::de::{Deserialize, Deserializer, Error};

use super::config::Config;
use super::packet::SEGMENT_BYTES;
use super::queues::Scheduler;
use crate::text::text;

/// Who shares the room.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Buffer {
    /// All queues of a port.
    #[default]
    Port,
    /// All ports of a switch; a host has one port.
    Switch,
    /// Nobody: each of a port's eight levels has so much.
    Queue,
}

/// What is looked after: whose length counts for marks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Marking {
    /// All that waits at a port.
    #[default]
    Port,
    /// What waits at a level.
    Queue,
    /// What waits of a flow, at its level.
    Flow,
}

/// Who tells packets' levels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LevelAssignment {
    /// The sender, by what it has sent of the flow.
    #[default]
    Host,
    /// Every port, by what it has seen of the flow, and writes it into the
    /// packet (DSCP), which sinks on its way and never rises.
    Switch,
}

/// Random early detection in place of the threshold `mark`.
#[derive(Clone, Copy, Debug, PartialEq, serde::Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RedParams {
    /// Up to this average length nobody is marked.
    #[serde(deserialize_with = "depth")]
    pub min: QueueLength,
    /// From this one on everybody is; packets or bytes as `min`.
    #[serde(deserialize_with = "depth")]
    pub max: QueueLength,
    /// The chance just below that, 0..=1.
    pub chance: f64,
    /// How much of each look at the length the average takes over, 0..=1.
    pub weight: f64,
    /// How long a packet takes to leave; for the average while nothing waits.
    #[serde(deserialize_with = "text")]
    pub service: Span,
}

impl Default for RedParams {
    /// 30 to 90 packets, up to 0.1, 0.002 and 1.2 µs. Source: Floyd and
    /// Jacobson, ToN 1993, §11 (all but the lengths: max three times min).
    fn default() -> Self {
        let (min, max) = (QueueLength::Entries(30), QueueLength::Entries(90));
        Self { min, max, chance: 0.1, weight: 0.002, service: Span::from_nanos(1_200) }
    }
}

impl RedParams {
    pub(super) const fn settings(self) -> RedSettings {
        let Self { min, max, chance, weight, service } = self;
        RedSettings { min, max, chance_max: chance, weight, service }
    }
}

/// CoDel's settings, for `fq-codel`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Codel {
    /// Wait that may last.
    #[serde(deserialize_with = "text")]
    pub target: Span,
    /// How long it has to last to be too long: about the longest round trip.
    #[serde(deserialize_with = "text")]
    pub interval: Span,
}

impl Default for Codel {
    /// 50 µs, 1 ms: 5 % of the interval, as RFC 8289 §4.3 has it, which is some
    /// round trips of a data centre under load.
    fn default() -> Self {
        Self { target: Span::from_micros(50), interval: Span::from_millis(1) }
    }
}

/// Reads a number of packets, or bytes as text: `240`, `"360KB"`.
pub(crate) fn depth<'de, D: Deserializer<'de>>(from: D) -> Result<QueueLength, D::Error> {
    #[derive(serde::Deserialize)]
    #[serde(untagged)]
    enum Written {
        Packets(u64),
        Bytes(String),
    }
    match Written::deserialize(from) {
        Ok(Written::Packets(packets)) => Ok(QueueLength::Entries(packets)),
        Ok(Written::Bytes(bytes)) => {
            Ok(QueueLength::Bytes(bytes.parse::<Bytes>().map_err(D::Error::custom)?.get()))
        }
        Err(_) => Err(D::Error::custom("neither a number of packets nor a size such as \"360KB\"")),
    }
}

/// Why such ports cannot be, if so.
pub(super) fn problem(config: &Config) -> Option<String> {
    let scheduler = config.scheduler;
    let name = scheduler.name();
    match config.room {
        QueueLength::Entries(packets) if !(1..=1_000_000).contains(&packets) => {
            return Some(format!("room {packets} is outside 1..=1000000 packets"));
        }
        QueueLength::Bytes(bytes) if !(u64::from(SEGMENT_BYTES)..=1_000_000_000).contains(&bytes) => {
            return Some(format!("room {bytes}B is outside {SEGMENT_BYTES}B..=1000MB"));
        }
        _ => {}
    }
    if let Some(quantum) = config.quantum.filter(|quantum| !(64..=1_000_000).contains(quantum)) {
        return Some(format!("quantum {quantum} is outside 64..=1000000 bytes"));
    }
    if config.quantum.is_some() && !scheduler.has_turns() {
        return Some(format!("quantum is for schedulers with turns between flows, which {name} has not"));
    }
    if let Some(weight) = config.shares.iter().flatten().find(|weight| !(1..=10_000).contains(*weight)) {
        return Some(format!("shares: {weight} is outside 1..=10000"));
    }
    if config.shares.is_some() && !scheduler.has_levels() {
        return Some(format!("shares are for schedulers with levels, which {name} has not"));
    }
    if config.marking == Marking::Flow && (!scheduler.has_turns() || scheduler == Scheduler::FqCodel) {
        return Some(format!("marking \"flow\" is for turns between flows without CoDel, not for {name}"));
    }
    let Codel { target, interval } = config.codel;
    if target == Span::ZERO || interval <= target {
        return Some(format!("codel: target {target} is not between 0 and the interval, {interval}"));
    }
    if config.idle == Span::ZERO {
        return Some("idle 0s starts every packet's flow anew, more than 0 is valid".to_owned());
    }
    let RedParams { min, max, chance, weight, .. } = config.red?;
    if !min.same_unit(max) || min.amount() >= max.amount() {
        return Some("red: max is not above min, both in packets or both in bytes".to_owned());
    }
    let shares = [("chance", chance), ("weight", weight)];
    let (what, value) = shares.iter().find(|(_, value)| !(*value > 0.0 && *value <= 1.0))?;
    Some(format!("red: {what} {value} is not above 0 and at most 1"))
}
