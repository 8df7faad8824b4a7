//! Settings of an egress and of the flows that share it.

use queueing::{Bytes, Distribution, Rate, Span};

use crate::BadConfig;
use crate::serde_text::text;

/// An egress and its flows.
#[derive(Clone, Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Rate of the line.
    #[serde(deserialize_with = "text")]
    pub rate: Rate,
    /// Queues of the egress.
    #[serde(default)]
    pub queues: Queues,
    /// Packets that the one FIFO holds.
    #[serde(default = "buffer_default")]
    pub buffer: u32,
    /// Largest packet that the kernel enqueues before an attach, in bytes (`gso_max_size`).
    #[serde(default = "gso_default")]
    pub gso: u32,
    /// True for flows of this machine: a socket keeps two packets in the queue at most (TCP small
    /// queues). A router has no such limit, and packets are larger than its own.
    #[serde(default)]
    pub local: bool,
    /// Duration in virtual milliseconds.
    pub duration_ms: u64,
    /// Seed; the same seed replays the run.
    #[serde(default)]
    pub seed: u64,
    /// The flows.
    pub groups: Vec<FlowGroup>,
}

/// Queues of the egress.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Queues {
    /// One FIFO: nothing attached.
    Fifo,
    /// Levels of `prio`, flows of a level by `fq`.
    #[default]
    Fq,
    /// HTB's classes.
    Htb,
}

/// Flows of one kind.
#[derive(Clone, Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FlowGroup {
    /// FlowKind.
    pub kind: FlowKind,
    /// Number of flows; of short ones, flows per second.
    pub flows: f64,
    /// Least and most bytes of a transfer, which is drawn by its logarithm.
    #[serde(default)]
    pub bytes: [u64; 2],
    /// Pause of a kept connection between two responses.
    #[serde(default = "pause_default", deserialize_with = "text")]
    pub pause: Distribution,
    /// Rate of a constant flow.
    #[serde(default = "rate_default", deserialize_with = "text")]
    pub rate: Rate,
    /// Bytes of a packet, at most the device's largest.
    #[serde(default = "packet_default")]
    pub packet: u32,
    /// Round-trip time without queueing.
    #[serde(default = "rtt_default", deserialize_with = "text")]
    pub rtt: Span,
    /// Bytes that each flow sent before the run.
    #[serde(default)]
    pub sent: u64,
}

/// FlowKind of flows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FlowKind {
    /// Endless transfers.
    Bulk,
    /// One transfer on each of many new connections, which arrive at random (Poisson).
    Short,
    /// Connections that send a response, pause until its last byte is acknowledged and longer, and
    /// send the next.
    Kept,
    /// A constant rate that answers no loss.
    Constant,
}

impl FlowKind {
    /// Name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Bulk => "bulk",
            Self::Short => "short",
            Self::Kept => "kept",
            Self::Constant => "constant",
        }
    }
}

fn buffer_default() -> u32 {
    1_000
}

fn gso_default() -> u32 {
    65_536
}

fn pause_default() -> Distribution {
    Distribution::Constant(Span::from_millis(100))
}

fn rate_default() -> Rate {
    Rate::from_bits_per_sec(1_000_000)
}

fn packet_default() -> u32 {
    FRAME
}

fn rtt_default() -> Span {
    Span::from_millis(1)
}

/// Mean of the distribution between `least` and `most` that is uniform in the logarithm.
#[must_use]
pub fn log_mean(least: f64, most: f64) -> f64 {
    if most > least { (most - least) / (most / least).ln() } else { least }
}

impl FlowGroup {
    /// Bits per second of all short flows.
    #[must_use]
    pub fn load_bits(&self) -> f64 {
        let [least, most] = self.bytes.map(|bytes| bytes as f64);
        if self.kind == FlowKind::Short { self.flows * 8.0 * log_mean(least, most) } else { 0.0 }
    }

    /// Most bits per second of each flow.
    #[must_use]
    pub fn rate_bits(&self) -> f64 {
        let [least, most] = self.bytes.map(|bytes| bytes as f64);
        match self.kind {
            FlowKind::Bulk => f64::INFINITY,
            FlowKind::Short => 0.0,
            FlowKind::Kept => log_mean(least, most) * 8.0 / self.pause.mean().as_secs_f64().max(1e-9),
            FlowKind::Constant => self.rate.bits_per_sec() as f64,
        }
    }
}

/// Bytes of a full frame.
pub(super) const FRAME: u32 = 1_514;

impl Config {
    /// Parses a configuration and checks it.
    ///
    /// # Errors
    /// One line with the invalid value and the valid ones.
    pub fn from_toml(text: &str) -> Result<Self, BadConfig> {
        crate::serde_text::settings(text, Self::check)
    }

    fn check(&self) -> Result<(), BadConfig> {
        let bad = |text: String| Err(BadConfig(text));
        if !(1..=10_000_000).contains(&self.duration_ms) {
            return bad(format!("duration_ms {} is outside 1..=10000000", self.duration_ms));
        }
        if !(1..=1_000_000).contains(&self.buffer) {
            return bad(format!("buffer {} is outside 1..=1000000 packets", self.buffer));
        }
        if !(FRAME..=1_000_000).contains(&self.gso) {
            return bad(format!("gso {} is outside {FRAME}..=1000000 bytes", self.gso));
        }
        for group in &self.groups {
            let [least, most] = group.bytes;
            let transfers = matches!(group.kind, FlowKind::Short | FlowKind::Kept);
            if transfers && !(1..=most).contains(&least) {
                return bad(format!("bytes [{least}, {most}] are not two sizes above 0 in order"));
            }
            if !(0.0..=100_000.0).contains(&group.flows) {
                return bad(format!("flows {} is outside 0..=100000", group.flows));
            }
            if !(60..=1_000_000).contains(&group.packet) {
                return bad(format!("packet {} is outside 60..=1000000 bytes", group.packet));
            }
        }
        Ok(())
    }

    /// Duration of the run.
    pub(super) fn duration(&self) -> Span {
        Span::from_millis(self.duration_ms)
    }

    /// Bytes that a quantum and a full frame have.
    pub(super) fn frame() -> Bytes {
        Bytes::new(FRAME.into())
    }
}
