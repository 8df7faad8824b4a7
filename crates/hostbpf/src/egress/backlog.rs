//! Layout of the estimated backlog in the program's map, and the estimate's constants for a policy.
//!
//! The estimate itself is [`queueing::egress`]'s; the program in the kernel makes the same comparisons.

use queueing::egress::{Backlog, LevelState, Line};
use queueing::{Bytes, Priority, Rate};

use super::policy::Policy;
use super::qdisc_plan::Shape;

/// Queues that fq and sfq serve in turn: at most this many are assumed. fq has no limit.
const QUEUES_FQ: u64 = 1_024;
const QUEUES_SFQ: u64 = 128;

/// Constants for `policy` on a line of `rate` whose queues send `quantum` at a time, with frames of at
/// most `frame`.
#[must_use]
pub fn line(policy: &Policy, rate: Rate, shape: Shape, amounts: [Bytes; 2]) -> Line {
    // Levels below may get their guaranteed shares first.
    let below = match shape {
        Shape::Classes => policy.guaranteed * (policy.levels() - 1) as f64,
        Shape::Bands { .. } => 0.0,
    };
    let rate = Rate::from_bits_per_sec(((rate.bits_per_sec() as f64 * (1.0 - below)) as u64).max(1));
    let queues_max = match shape {
        Shape::Classes => policy.buckets.into(),
        Shape::Bands { queues: "fq", .. } => QUEUES_FQ,
        Shape::Bands { queues: "sfq", .. } => QUEUES_SFQ,
        Shape::Bands { .. } => 1,
    };
    Line::new(rate, queues_max, policy.idle, [policy.buckets.into(), policy.queue.into()], amounts)
}

/// Number of levels of the estimate.
pub(super) const LEVELS: usize = Priority::LEVELS;
/// Bytes of a level's state in the map, and offsets within. The state before the first level's is zero.
pub(super) const LEVEL_LEN: usize = 32;
pub(super) const DRAINED: i16 = 0;
pub(super) const EMPTY: [i16; 2] = [8, 24];
pub(super) const ARRIVED: i16 = 16;
pub(super) const BACKLOG_LEN: usize = (LEVELS + 1) * LEVEL_LEN;

/// State from the map's value.
pub(super) fn read(bytes: &[u8]) -> Backlog {
    let word = |at: usize| {
        bytes.get(at..).and_then(<[u8]>::first_chunk).map_or(0, |bytes| u64::from_ne_bytes(*bytes))
    };
    Backlog(std::array::from_fn(|level| {
        let at = (level + 1) * LEVEL_LEN;
        LevelState {
            drained_ns: word(at + DRAINED as usize),
            empty_ns: EMPTY.map(|offset| word(at + offset as usize)),
            arrived_ns: word(at + ARRIVED as usize),
        }
    }))
}

/// The map's value.
#[cfg(test)]
pub(super) fn bytes(backlog: &Backlog) -> Vec<u8> {
    let mut bytes = vec![0; LEVEL_LEN];
    for level in backlog.0 {
        let words = [level.drained_ns, level.empty_ns[0], level.arrived_ns, level.empty_ns[1]];
        bytes.extend(words.into_iter().flat_map(u64::to_ne_bytes));
    }
    bytes
}
