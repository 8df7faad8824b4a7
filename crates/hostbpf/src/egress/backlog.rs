//! Estimate of the packets that wait at an egress, which decides when a flow is idle.
//!
//! The classifier sees every arrival and no departure. A flow that is silent because its packets wait
//! below others must not count as idle, so departures are estimated: a fluid line of the shaper's rate
//! serves the levels in strict order, and within a level every queue in turn. Each bound errs towards
//! "still waiting". All amounts are nanoseconds of transmission time, so that no rate is needed to compare them.
//!
//! Not in the estimate: a line that is slower than the shaper's rate, and queues beyond
//! [`Line::turns`] in one level. The program in the kernel keeps the same state in its map
//! ([`LevelState`], [`FlowState`]) and makes the same comparisons; test vectors are shared.

use queueing::{Bytes, Rate};

use super::policy::Policy;
use super::qdisc_plan::Shape;

/// Constants of the estimate for one egress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line {
    /// Rate at which a level and those above it are served at least, in bits per second.
    rate_bits: u64,
    /// Maximum number of queues that take turns within a level.
    pub(super) turns: u64,
    /// Idle time of the policy, in ns.
    pub(super) idle_ns: u64,
    /// Transmission time of a turn, in ns.
    pub(super) turn_ns: u64,
    /// Transmission time of a full queue of frames, in ns. Larger packets are local TCP's, which limits its own.
    pub(super) queue_ns: u64,
    /// Transmission time of all that the queues of a level can hold, in ns; arrivals beyond it are dropped.
    pub(super) capacity_ns: u64,
}

/// Nanoseconds per second times bits per byte.
pub(super) const NS_BITS: u64 = 8_000_000_000;
/// Number of queues that fq and sfq are assumed to serve in turn, at most. fq itself has no limit.
const TURNS_FQ: u64 = 1_024;
const TURNS_SFQ: u64 = 128;

impl Line {
    /// Constants for `policy` on a line of `rate` whose queues send `turn` at a time, with frames of at
    /// most `frame`.
    #[must_use]
    pub fn new(policy: &Policy, rate: Rate, shape: Shape, [turn, frame]: [Bytes; 2]) -> Self {
        // Levels below may get their guaranteed shares first.
        let below = match shape {
            Shape::Classes => policy.guaranteed * (policy.levels() - 1) as f64,
            Shape::Bands { .. } => 0.0,
        };
        let rate_bits = ((rate.bits_per_sec() as f64 * (1.0 - below)) as u64).max(1);
        let turns = match shape {
            Shape::Classes => policy.buckets.into(),
            Shape::Bands { queues: "fq", .. } => TURNS_FQ,
            Shape::Bands { queues: "sfq", .. } => TURNS_SFQ,
            Shape::Bands { .. } => 1,
        };
        let idle_ns = policy.idle.as_nanos();
        let mut line = Self { rate_bits, turns, idle_ns, turn_ns: 0, queue_ns: 0, capacity_ns: 0 };
        line.turn_ns = line.cost_ns(turn);
        let frame_ns = line.cost_ns(frame);
        let holds = |packets: u64| frame_ns.saturating_mul(packets).min(CAPACITY_NS_MAX);
        let packets = u64::from(policy.queue);
        (line.queue_ns, line.capacity_ns) = (holds(packets), holds(packets * u64::from(policy.buckets)));
        line
    }

    /// Rate of the estimate, in bits per second.
    pub(super) fn rate_bits(&self) -> u64 {
        self.rate_bits
    }

    /// Transmission time of `bytes`, in ns.
    #[must_use]
    pub fn cost_ns(&self, bytes: Bytes) -> u64 {
        bytes.get().saturating_mul(NS_BITS) / self.rate_bits
    }
}

/// Longest capacity, an hour: sums of times stay far below 2⁶³ ns.
const CAPACITY_NS_MAX: u64 = 3_600_000_000_000;

/// State of a level, as in the map.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct LevelState {
    /// Time at which this level and all above it are empty, if nothing else arrives.
    pub(super) drained_ns: u64,
    /// Two times, the later first, at which this level and all above it were empty: the idle time of
    /// the policy or more apart.
    pub(super) empty_ns: [u64; 2],
    /// Transmission time of all arrivals at this level.
    pub(super) arrived_ns: u64,
}

/// State of a flow, as in the map.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct FlowState {
    /// Time of its last packet.
    pub(super) last_ns: u64,
    /// Transmission time that waited at its level at its last packet, this one included; at most what a queue
    /// holds.
    pub(super) waiting_ns: u64,
    /// Service of its level at its last packet.
    pub(super) served_ns: u64,
}

/// Number of levels of the estimate.
pub(super) const LEVELS: usize = 8;
/// Bytes of a level's state in the map, and offsets within. The state before the first level's is zero.
pub(super) const LEVEL_LEN: usize = 32;
pub(super) const DRAINED: i16 = 0;
pub(super) const EMPTY: [i16; 2] = [8, 24];
pub(super) const ARRIVED: i16 = 16;
pub(super) const BACKLOG_LEN: usize = (LEVELS + 1) * LEVEL_LEN;

/// Estimated backlog of all levels.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Backlog(pub(super) [LevelState; LEVELS]);

impl Backlog {
    /// State from the map's value.
    pub(super) fn read(bytes: &[u8]) -> Self {
        let word = |at: usize| {
            bytes.get(at..).and_then(<[u8]>::first_chunk).map_or(0, |bytes| u64::from_ne_bytes(*bytes))
        };
        Self(std::array::from_fn(|level| {
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
    pub(super) fn bytes(&self) -> Vec<u8> {
        let mut bytes = vec![0; LEVEL_LEN];
        for level in self.0 {
            let words = [level.drained_ns, level.empty_ns[0], level.arrived_ns, level.empty_ns[1]];
            bytes.extend(words.into_iter().flat_map(u64::to_ne_bytes));
        }
        bytes
    }

    /// Transmission time that waits at `level`.
    fn waiting_ns(&self, now_ns: u64, level: usize) -> u64 {
        let waits_to = |level: usize| self.0[level].drained_ns.saturating_sub(now_ns);
        let above = level.checked_sub(1).map_or(0, waits_to);
        waits_to(level).saturating_sub(above)
    }

    /// Transmission time that `level` was served so far: what arrived, less what waits.
    pub(super) fn served_ns(&self, now_ns: u64, level: usize) -> u64 {
        self.0[level].arrived_ns.wrapping_sub(self.waiting_ns(now_ns, level))
    }

    /// A packet of `cost_ns` arrives at `level`.
    pub(super) fn on_arrival(&mut self, now_ns: u64, level: usize, cost_ns: u64, line: &Line) {
        if self.0[level].drained_ns > now_ns + line.capacity_ns {
            return;
        }
        self.0[level].arrived_ns += cost_ns;
        for state in &mut self.0[level..] {
            if state.drained_ns <= now_ns {
                state.drained_ns = now_ns + cost_ns;
                if now_ns.wrapping_sub(state.empty_ns[0]) >= line.idle_ns {
                    state.empty_ns = [now_ns, state.empty_ns[0]];
                }
            } else {
                state.drained_ns += cost_ns;
            }
        }
    }
}

impl FlowState {
    /// Transmission time that `level`, the flow's, was served since its last packet.
    fn served_since_ns(&self, backlog: &Backlog, now_ns: u64, level: usize) -> u64 {
        let since = backlog.served_ns(now_ns, level).wrapping_sub(self.served_ns);
        // Another processor may have been ahead.
        u64::try_from(since.cast_signed()).unwrap_or(0)
    }

    /// True if nothing of the flow waited, and nothing came from it, for the policy's idle time.
    ///
    /// One of three shows that nothing waited: its level and all above it were empty; they were empty
    /// at some time since its last packet; or its level was served for as long as every queue needs
    /// to empty what the flow's queue may have held, and for the idle time more. What a queue holds is at
    /// most what its level held, whichever flows share it.
    pub(super) fn is_idle(&self, backlog: &Backlog, now_ns: u64, level: usize, line: &Line) -> bool {
        let idle_ns = line.idle_ns;
        // Signed: a packet on another processor may have a slightly later time.
        if now_ns.wrapping_sub(self.last_ns).cast_signed() < idle_ns.cast_signed() {
            return false;
        }
        let (since, state) = (now_ns - idle_ns, backlog.0[level]);
        let was_empty = state.empty_ns.iter().any(|&empty_ns| empty_ns > self.last_ns && empty_ns <= since);
        let needed = (self.waiting_ns + line.turn_ns) * line.turns + idle_ns;
        state.drained_ns <= since || was_empty || self.served_since_ns(backlog, now_ns, level) >= needed
    }

    /// A packet of `cost_ns` arrives; the flow is at `level` after it.
    pub(super) fn on_arrival(
        &mut self,
        backlog: &Backlog,
        now_ns: u64,
        level: usize,
        cost_ns: u64,
        line: &Line,
    ) {
        self.waiting_ns = (backlog.waiting_ns(now_ns, level) + cost_ns).min(line.queue_ns);
        self.last_ns = now_ns;
        self.served_ns = backlog.served_ns(now_ns, level);
    }
}
