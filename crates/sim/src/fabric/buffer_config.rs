//! Buffer sharing, ECN marking and level assignment at ports.

use queueing::{Bytes, QueueLength, RedSettings, Span};
use serde::de::{Deserialize, Deserializer, Error};

use super::config::Config;
use super::packet::SEGMENT_BYTES;
use super::queues::Scheduler;
use crate::serde_text::text;

/// Scope within which the buffer is shared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BufferConfig {
    /// All queues of a port.
    #[default]
    Port,
    /// All ports of a switch; a host has one port.
    Switch,
    /// No sharing: each of a port's eight levels has this size.
    Queue,
}

/// Queue length that is compared with the marking threshold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Marking {
    /// Packets queued at the port.
    #[default]
    Port,
    /// Packets queued at the level.
    Queue,
    /// Packets of the flow queued at its level.
    Flow,
}

/// Node that assigns levels to packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LevelAssignment {
    /// The sender, by the bytes of the flow sent so far.
    #[default]
    Host,
    /// Every port, hosts' NICs included, by the bytes of the flow seen so far; packets leave their
    /// sender at the highest level. The level is written to the packet (DSCP) and only ever falls
    /// on the way.
    Switch,
}

/// Random early detection, in place of the threshold `mark`.
#[derive(Clone, Copy, Debug, PartialEq, serde::Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RedParams {
    /// Average length up to which no packet is marked.
    #[serde(deserialize_with = "depth")]
    pub min: QueueLength,
    /// Average length from which every packet is marked; same unit as `min`.
    #[serde(deserialize_with = "depth")]
    pub max: QueueLength,
    /// Marking probability just below `max`, 0..=1.
    pub chance: f64,
    /// Weight of a new sample in the average, 0..=1.
    pub weight: f64,
    /// Transmission time of a packet; decays the average while the queue is empty.
    #[serde(deserialize_with = "text")]
    pub service: Span,
}

impl Default for RedParams {
    /// 30 to 90 packets, up to 0.1, 0.002 and 1.2 µs.
    /// Source: Floyd and Jacobson, ToN 1993, §11, except for the lengths (max is three times
    /// min).
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

/// CoDel parameters, for `fq-codel`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Codel {
    /// Acceptable standing queueing delay.
    #[serde(deserialize_with = "text")]
    pub target: Span,
    /// Time for which the delay must exceed the target: about the longest round trip.
    #[serde(deserialize_with = "text")]
    pub interval: Span,
}

impl Default for Codel {
    /// 50 µs and 1 ms: target 5 % of the interval (RFC 8289 §4.3); the interval is a few round
    /// trips of a loaded data centre.
    fn default() -> Self {
        Self { target: Span::from_micros(50), interval: Span::from_millis(1) }
    }
}

/// Deserializes a number of packets, or bytes as text: `240`, `"360KB"`.
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

/// Reason why the port settings are invalid, if they are.
pub(super) fn problem(config: &Config) -> Option<String> {
    let scheduler = config.scheduler;
    let name = scheduler.name();
    match config.buffer_size {
        QueueLength::Entries(packets) if !(1..=1_000_000).contains(&packets) => {
            return Some(format!("buffer_size {packets} is outside 1..=1000000 packets"));
        }
        QueueLength::Bytes(bytes) if !(u64::from(SEGMENT_BYTES)..=1_000_000_000).contains(&bytes) => {
            return Some(format!("buffer_size {bytes}B is outside {SEGMENT_BYTES}B..=1000MB"));
        }
        _ => {}
    }
    if let Some(quantum) = config.quantum.filter(|quantum| !(64..=1_000_000).contains(quantum)) {
        return Some(format!("quantum {quantum} is outside 64..=1000000 bytes"));
    }
    if config.quantum.is_some() && !scheduler.is_flow_fair() {
        return Some(format!("quantum requires a scheduler with round robin between flows, not {name}"));
    }
    if let Some(weight) = config.shares.iter().flatten().find(|weight| !(1..=10_000).contains(*weight)) {
        return Some(format!("shares: {weight} is outside 1..=10000"));
    }
    if config.shares.is_some() && !scheduler.has_levels() {
        return Some(format!("shares require a scheduler with levels, not {name}"));
    }
    if config.marking == Marking::Flow && (!scheduler.is_flow_fair() || scheduler == Scheduler::FqCodel) {
        return Some(format!(
            "marking \"flow\" requires round robin between flows without CoDel, not {name}"
        ));
    }
    let Codel { target, interval } = config.codel;
    if target == Span::ZERO || interval <= target {
        return Some(format!("codel: target {target} is not between 0 and the interval, {interval}"));
    }
    if config.idle == Span::ZERO {
        return Some("idle 0s is not above 0: every packet would start a new flow".to_owned());
    }
    let RedParams { min, max, chance, weight, .. } = config.red?;
    if !min.same_unit(max) || min.amount() >= max.amount() {
        return Some("red: max is not above min, both in packets or both in bytes".to_owned());
    }
    let shares = [("chance", chance), ("weight", weight)];
    let (name, value) = shares.iter().find(|(_, value)| !(*value > 0.0 && *value <= 1.0))?;
    Some(format!("red: {name} {value} is not above 0 and at most 1"))
}
