//! Metadata of an attached egress, in a map of the classifier.
//!
//! The map exists exactly as long as the filter, in its network namespace, whichever process attached
//! it and however that process ended. There is no file.

use queueing::{Rate, Span};
use serde_json::{Value, json};

use super::backlog::line;
use super::error::FabricError;
use super::policy::Policy;
use super::qdisc_plan::{Choice, Shape};
use super::saved_qdisc::{SavedQdisc, text};
use queueing::egress::Line;
use queueing::egress::QueueQuantum;

/// Bytes of the map's value.
pub(super) const NOTES_LEN: usize = 4096;

/// Configuration of an attached egress.
#[derive(Clone, Debug, PartialEq)]
pub struct EgressAttachment {
    /// The policy's name.
    pub policy: String,
    /// Rate to which the egress is shaped.
    pub rate: Rate,
    /// Qdiscs that form levels and queues.
    pub shape: Shape,
    /// Quantum of each queue, and the limit of packets that belongs to it.
    pub quantum: QueueQuantum,
    /// Bytes after which flows drop a level.
    pub thresholds: Vec<u64>,
    /// Queues per level.
    pub buckets: u16,
    /// Idle time after which a flow with nothing waiting starts at the top level again.
    pub idle: Span,
    /// Packets that each queue holds.
    pub(super) queue: u32,
    /// Share of the rate guaranteed to each level.
    pub(super) guaranteed: f64,
    /// Root qdisc that was there before.
    pub(super) before: SavedQdisc,
    /// True if clsact was absent before.
    pub(super) clsact_is_ours: bool,
}

impl EgressAttachment {
    pub(super) fn new(
        policy: &Policy,
        rate: Rate,
        choice: &Choice,
        before: SavedQdisc,
        clsact_is_ours: bool,
    ) -> Self {
        Self {
            policy: policy.name.clone(),
            rate,
            shape: choice.shape,
            quantum: choice.quantum,
            thresholds: policy.thresholds.clone(),
            buckets: policy.buckets,
            idle: policy.idle,
            queue: policy.queue,
            guaranteed: policy.guaranteed,
            before,
            clsact_is_ours,
        }
    }

    /// Constants of the backlog estimate.
    pub(super) fn line(&self) -> Line {
        let policy = Policy {
            name: String::new(),
            thresholds: self.thresholds.clone(),
            buckets: self.buckets,
            queue: self.queue,
            idle: self.idle,
            flows: 16,
            guaranteed: self.guaranteed,
            pin_priority: Vec::new(),
            pin_dscp: Vec::new(),
            dscp: Vec::new(),
        };
        line(&policy, self.rate, self.shape, self.quantum.amounts())
    }

    /// One line: `fish at 9.5gbit`.
    #[must_use]
    pub fn name(&self) -> String {
        format!("{} at {}", self.policy, self.rate)
    }

    /// Qdisc that was there before, as text.
    #[must_use]
    pub fn before(&self) -> String {
        self.before.name()
    }

    /// Encoding as the map's value.
    ///
    /// # Errors
    /// The encoding is longer than the map's value.
    pub(super) fn bytes(&self) -> Result<Vec<u8>, FabricError> {
        let before = match &self.before {
            SavedQdisc::Default => Value::Null,
            SavedQdisc::Chosen { handle, words } => json!({ "handle": handle, "words": words }),
        };
        let text = json!({
            "policy": self.policy, "rate": self.rate.bits_per_sec(), "shape": self.shape.name(),
            "thresholds": self.thresholds, "buckets": self.buckets, "idle_ns": self.idle.as_nanos(),
            "quantum": self.quantum.bytes, "frame": self.quantum.frame, "gso": self.quantum.gso, "queue": self.queue, "guaranteed": self.guaranteed,
            "before": before, "clsact_is_ours": self.clsact_is_ours,
        })
        .to_string();
        if text.len() > NOTES_LEN {
            return Err(FabricError::Unreadable(format!(
                "notes of {} bytes do not fit {NOTES_LEN}",
                text.len()
            )));
        }
        let mut bytes = text.into_bytes();
        bytes.resize(NOTES_LEN, 0);
        Ok(bytes)
    }

    /// Decodes the map's value.
    pub(super) fn read(bytes: &[u8]) -> Result<Self, FabricError> {
        let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
        let read = || {
            let value: Value = serde_json::from_slice(&bytes[..end]).ok()?;
            let number = |key: &str| value.get(key)?.as_u64();
            let before = match value.get("before")? {
                Value::Null => SavedQdisc::Default,
                chosen => SavedQdisc::Chosen {
                    handle: text(chosen, "handle").to_owned(),
                    words: text(chosen, "words").to_owned(),
                },
            };
            let gso = match value.get("gso")? {
                Value::Null => None,
                limit => {
                    let bytes = |at: usize| limit.get(at)?.as_u64()?.try_into().ok();
                    Some([bytes(0)?, bytes(1)?])
                }
            };
            Some(Self {
                policy: text(&value, "policy").to_owned(),
                rate: number("rate").filter(|&bits| bits > 0).map(Rate::from_bits_per_sec)?,
                shape: Shape::named(text(&value, "shape"))?,
                quantum: QueueQuantum {
                    bytes: number("quantum").or_else(|| number("turn"))?.try_into().ok()?,
                    frame: number("frame")?.try_into().ok()?,
                    gso,
                },
                queue: number("queue")?.try_into().ok()?,
                guaranteed: value.get("guaranteed")?.as_f64().filter(|share| (0.0..=0.5).contains(share))?,
                thresholds: value.get("thresholds")?.as_array()?.iter().filter_map(Value::as_u64).collect(),
                buckets: number("buckets")?.try_into().ok()?,
                idle: Span::from_nanos(number("idle_ns")?),
                before,
                clsact_is_ours: value.get("clsact_is_ours")?.as_bool()?,
            })
        };
        read().ok_or_else(|| {
            let text = String::from_utf8_lossy(&bytes[..end.min(200)]).into_owned();
            FabricError::Unreadable(format!("the attached policy's metadata is unreadable: {text:?}"))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::policy::tests::policy;
    use super::*;

    fn choice(shape: Shape, gso: Option<[u32; 2]>) -> Choice {
        Choice { shape, quantum: QueueQuantum { bytes: 14_062, frame: 1_514, gso }, missing: Vec::new() }
    }

    #[test]
    fn notes_are_read_as_they_were_written() {
        let chosen = SavedQdisc::Chosen { handle: "8001:".to_owned(), words: "tbf rate 1Mbit".to_owned() };
        for (before, ours) in [(SavedQdisc::Default, true), (chosen, false)] {
            let shape = Shape::Bands { levels: "ets", queues: "sfq" };
            let choice = choice(shape, ours.then_some([65_536, 12_500]));
            let notes = EgressAttachment::new(&policy(), Rate::from_gbps(9), &choice, before, ours);
            let bytes = notes.bytes().unwrap();
            assert_eq!(bytes.len(), NOTES_LEN);
            assert_eq!(EgressAttachment::read(&bytes).unwrap(), notes);
        }
        assert!(EgressAttachment::read(&[0; 8]).is_err());
        assert!(EgressAttachment::read(b"{\"policy\":1}").is_err());
        let long = Policy { name: "x".repeat(NOTES_LEN), ..policy() };
        assert!(
            EgressAttachment::new(
                &long,
                Rate::from_gbps(9),
                &choice(Shape::Classes, None),
                SavedQdisc::Default,
                true
            )
            .bytes()
            .is_err()
        );
    }
}
