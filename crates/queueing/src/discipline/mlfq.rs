//! MLFQ: multi-level feedback, shortest flow first without known sizes.
//!
//! Every flow starts at the most urgent level and is demoted each time the bytes
//! that it has sent exceed a threshold, so short flows finish before they are
//! demoted. Counts and assigns levels only; a queue over levels, such as
//! [`Strict`], serves by them. A flow restarts after a long pause: none of its
//! packets waits, and since the last one left it has sent nothing. A flow that is
//! silent because its packets wait is backlogged, not idle. When there are too
//! many flows, the least recently active one is forgotten.
//! Source: PIAS (Bai et al., NSDI '15) §4; FISH §3 (counters at the switch).
//!
//! [`Strict`]: super::Strict

use std::fmt;
use std::num::NonZeroUsize;

use foldhash::fast::FixedState;
use lru::LruCache;

use super::FlowId;
use crate::{Bytes, Priority, Span, Time};

/// Byte counters of flows, and their levels.
#[derive(Clone, Debug)]
pub struct Mlfq {
    thresholds: Thresholds,
    idle: Span,
    sent: LruCache<FlowId, Sent, FixedState>,
}

/// Bytes that a flow may send at each level but the last.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Thresholds(Vec<Bytes>);

/// Bytes that a flow has sent, its packets in the queue, and the time of its last
/// arrival or departure.
#[derive(Clone, Copy, Debug)]
struct Sent {
    bytes: u64,
    waiting: u32,
    last: Time,
}

/// Error for invalid thresholds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ThresholdsError {
    /// More thresholds than demotions.
    TooMany {
        /// Number of items given.
        given: usize,
    },
    /// A threshold is not above the previous one.
    NotIncreasing {
        /// The first threshold that is not above the one before.
        threshold: Bytes,
    },
}

impl std::error::Error for ThresholdsError {}

impl fmt::Display for ThresholdsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooMany { given } => {
                write!(
                    f,
                    "{given} thresholds are above {}, the most for {} levels",
                    Priority::LEVELS - 1,
                    Priority::LEVELS
                )
            }
            Self::NotIncreasing { threshold } => {
                write!(f, "threshold {} is not above the previous one", threshold.get())
            }
        }
    }
}

impl Thresholds {
    /// A flow that has sent more than the `i`-th of `bytes` is at level `i + 1` or
    /// below; without thresholds, all flows are at the most urgent level.
    ///
    /// # Errors
    /// The thresholds do not increase or are more than seven.
    pub fn new(bytes: Vec<Bytes>) -> Result<Self, ThresholdsError> {
        if bytes.len() >= Priority::LEVELS {
            return Err(ThresholdsError::TooMany { given: bytes.len() });
        }
        match bytes.windows(2).find(|pair| pair[1] <= pair[0]) {
            Some(pair) => Err(ThresholdsError::NotIncreasing { threshold: pair[1] }),
            None => Ok(Self(bytes)),
        }
    }

    /// Level of a flow that has sent `sent` so far.
    #[must_use]
    pub fn level(&self, sent: Bytes) -> Priority {
        let passed = self.0.partition_point(|&threshold| threshold < sent);
        Priority::new(passed as u8).expect("there are fewer thresholds than levels")
    }

    /// Least bytes of a flow at the level of one that has sent `sent`.
    #[must_use]
    pub fn floor(&self, sent: Bytes) -> Bytes {
        let passed = self.0.partition_point(|&threshold| threshold < sent);
        passed.checked_sub(1).map_or(Bytes::ZERO, |above| Bytes::new(self.0[above].get() + 1))
    }
}

impl Mlfq {
    /// Demotes flows by `thresholds`. A flow that was idle for `idle` restarts; at
    /// most `flows` are tracked.
    ///
    /// # Panics
    /// If `flows` is zero.
    #[must_use]
    pub fn new(thresholds: Thresholds, idle: Span, flows: usize) -> Self {
        let flows = NonZeroUsize::new(flows).expect("flows 0 is not above 0");
        Self { thresholds, idle, sent: LruCache::with_hasher(flows, FixedState::default()) }
    }

    /// Level of a packet of `bytes` that `flow` enqueues now, by the bytes sent
    /// before it. The packet waits until [`on_departure`](Self::on_departure).
    pub fn level(&mut self, now: Time, flow: FlowId, bytes: Bytes) -> Priority {
        let sent = self.sent.get_or_insert_mut(flow, || Sent { bytes: 0, waiting: 0, last: now });
        if sent.waiting == 0 && now.since(sent.last) >= self.idle {
            sent.bytes = 0;
        }
        let before = sent.bytes;
        let bytes = before.saturating_add(bytes.get());
        *sent = Sent { bytes, waiting: sent.waiting.saturating_add(1), last: now };
        self.thresholds.level(Bytes::new(before))
    }

    /// A packet of `flow` left the queue, sent or dropped.
    pub fn on_departure(&mut self, now: Time, flow: FlowId) {
        if let Some(sent) = self.sent.peek_mut(&flow) {
            sent.waiting = sent.waiting.saturating_sub(1);
            sent.last = sent.last.max(now);
        }
    }

    /// Number of tracked flows.
    #[must_use]
    pub fn flows(&self) -> usize {
        self.sent.len()
    }
}
