//! What a run of the world found.

use load::Report;
use queueing::Span;

use crate::link;

/// A run's result.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// What the client found.
    pub report: Report,
    /// What the server's shard counted.
    pub shard: runtime::shard::Counters,
    /// What came to the server's NIC; `dropped` found its ring full.
    pub nic: link::Counters,
    /// How busy the server's cores were since the first request could be due.
    /// Where the cores are shared, `stack` and `worker 0` are parts of one.
    pub cores: Vec<Core>,
    /// Virtual time since then.
    pub elapsed: Span,
    /// Events simulated, connecting included.
    pub events: u64,
}

/// How busy a core was.
#[derive(Clone, Debug, PartialEq)]
pub struct Core {
    /// `stack`, or `worker 0` and so on.
    pub name: String,
    /// How long it had work.
    pub busy: Span,
    /// The same as a share of the run, 0.0..=1.0.
    pub utilisation: f64,
}

impl Outcome {
    /// A number that differs, almost surely, between any two different
    /// outcomes: equal seeds must give equal digests.
    #[must_use]
    pub fn digest(&self) -> u64 {
        let mut fnv = Fnv(0xcbf2_9ce4_8422_2325);
        fnv.feed([self.events, self.elapsed.as_nanos()]);
        fnv.feed([self.nic.sent, self.nic.received, self.nic.dropped]);
        for core in &self.cores {
            fnv.feed([core.busy.as_nanos()]);
        }
        for class in &self.report.classes {
            fnv.feed([class.requests, class.never_sent, class.late, class.unanswered]);
            fnv.feed(class.cdf().into_iter().flat_map(|(span, share)| [span.as_nanos(), share.to_bits()]));
            fnv.feed(class.at_p99.stages().map(|(_, span)| span.as_nanos()));
        }
        fnv.0
    }
}

/// FNV-1a over 64-bit words, stable across machines and compilers.
struct Fnv(u64);

impl Fnv {
    fn feed(&mut self, words: impl IntoIterator<Item = u64>) {
        for byte in words.into_iter().flat_map(u64::to_le_bytes) {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}
