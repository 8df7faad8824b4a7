//! Which level a flow has sunk to: shortest first without knowing who is short.
//!
//! Every flow starts at the most urgent level and sinks to the next when what
//! it has sent passes a threshold, so that a short flow is done before it
//! sinks. This only counts and says the level; a queue over levels, such as
//! [`Strict`], serves by it. A flow that pauses for long starts anew, and who
//! paused longest is forgotten when there are too many.
//! Source: PIAS (Bai et al., NSDI '15) §4; FISH §3 (counted at the switch).
//!
//! [`Strict`]: super::Strict

use std::fmt;
use std::num::NonZeroUsize;

use foldhash::fast::FixedState;
use lru::LruCache;

use super::FlowId;
use crate::{Bytes, Priority, Span, Time};

/// Counts flows' bytes and says their levels.
#[derive(Clone, Debug)]
pub struct Mlfq {
    thresholds: Thresholds,
    idle: Span,
    sent: LruCache<FlowId, Sent, FixedState>,
}

/// How much a flow may have sent at each level but the last.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Thresholds(Vec<Bytes>);

/// What a flow has sent, and when last.
#[derive(Clone, Copy, Debug)]
struct Sent {
    bytes: u64,
    last: Time,
}

/// Thresholds that cannot be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BadThresholds {
    /// More than there are levels to sink to.
    TooMany {
        /// How many were given.
        given: usize,
    },
    /// One is not above the one before it.
    NotIncreasing {
        /// The first such threshold.
        threshold: Bytes,
    },
}

impl std::error::Error for BadThresholds {}

impl fmt::Display for BadThresholds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooMany { given } => {
                write!(
                    f,
                    "{given} thresholds: at most {} part {} levels",
                    Priority::LEVELS - 1,
                    Priority::LEVELS
                )
            }
            Self::NotIncreasing { threshold } => {
                write!(f, "threshold {} is not above the one before it", threshold.get())
            }
        }
    }
}

impl Thresholds {
    /// Whoever has sent more than the `i`-th of `bytes` is at level `i + 1` or
    /// below; without any, all are at the most urgent level.
    ///
    /// # Errors
    /// When they do not increase or are more than seven.
    pub fn new(bytes: Vec<Bytes>) -> Result<Self, BadThresholds> {
        if bytes.len() >= Priority::LEVELS {
            return Err(BadThresholds::TooMany { given: bytes.len() });
        }
        match bytes.windows(2).find(|pair| pair[1] <= pair[0]) {
            Some(pair) => Err(BadThresholds::NotIncreasing { threshold: pair[1] }),
            None => Ok(Self(bytes)),
        }
    }

    /// The level of who has sent `sent` so far.
    #[must_use]
    pub fn level(&self, sent: Bytes) -> Priority {
        let passed = self.0.partition_point(|&threshold| threshold < sent);
        Priority::new(passed as u8).expect("there are fewer thresholds than levels")
    }
}

impl Mlfq {
    /// Flows sink by `thresholds`. Who has sent nothing for `idle` starts
    /// anew; at most `flows` are remembered.
    ///
    /// # Panics
    /// When `flows` is zero.
    #[must_use]
    pub fn new(thresholds: Thresholds, idle: Span, flows: usize) -> Self {
        let flows = NonZeroUsize::new(flows).expect("at least one flow is remembered");
        Self { thresholds, idle, sent: LruCache::with_hasher(flows, FixedState::default()) }
    }

    /// The level of a packet of `bytes` that `flow` sends now, by what it had
    /// sent before.
    pub fn level(&mut self, now: Time, flow: FlowId, bytes: Bytes) -> Priority {
        let sent = self.sent.get_or_insert_mut(flow, || Sent { bytes: 0, last: now });
        if now.since(sent.last) >= self.idle {
            sent.bytes = 0;
        }
        let before = sent.bytes;
        *sent = Sent { bytes: before.saturating_add(bytes.get()), last: now };
        self.thresholds.level(Bytes::new(before))
    }

    /// Flows that are remembered.
    #[must_use]
    pub fn flows(&self) -> usize {
        self.sent.len()
    }
}
