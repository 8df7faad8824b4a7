//! Result of a client and server run.

use load::Report;
use queueing::Span;

use crate::link;

/// Result of a run.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Client's report.
    pub report: Report,
    /// Counters of the server's shard.
    pub shard: runtime::shard::Counters,
    /// Counters of the server's NIC; `dropped` counts frames at a full ring.
    pub nic: link::Counters,
    /// Load of the server's cores since the start of measurement. If cores are shared, `stack`
    /// and `worker 0` are parts of one core.
    pub cores: Vec<CoreLoad>,
    /// Virtual time since the start of measurement.
    pub elapsed: Span,
    /// Events simulated, connection setup included.
    pub events: u64,
}

/// Load of a core.
#[derive(Clone, Debug, PartialEq)]
pub struct CoreLoad {
    /// `stack`, `worker 0`, and so on.
    pub name: String,
    /// Busy time.
    pub busy: Span,
    /// Busy share of the run, 0.0..=1.0.
    pub utilisation: f64,
}

impl Outcome {
    /// Hash of the outcome: equal seeds must give equal digests.
    #[must_use]
    pub fn digest(&self) -> u64 {
        let mut fnv = Fnv(0xcbf2_9ce4_8422_2325);
        fnv.update([self.events, self.elapsed.as_nanos()]);
        fnv.update([self.nic.sent, self.nic.received, self.nic.dropped]);
        for core in &self.cores {
            fnv.update([core.busy.as_nanos()]);
        }
        for class in &self.report.classes {
            fnv.update([class.requests, class.never_sent, class.late, class.unanswered]);
            fnv.update(class.cdf().into_iter().flat_map(|(span, share)| [span.as_nanos(), share.to_bits()]));
            fnv.update(class.at_p99.stages().map(|(_, span)| span.as_nanos()));
        }
        fnv.0
    }
}

/// FNV-1a over 64-bit words, stable across machines and compilers.
struct Fnv(u64);

impl Fnv {
    fn update(&mut self, words: impl IntoIterator<Item = u64>) {
        for byte in words.into_iter().flat_map(u64::to_le_bytes) {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}
