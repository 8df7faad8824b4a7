//! Estimate of the packets that wait at an egress, which decides when a flow is idle.
//!
//! The classifier sees every arrival and no departure. A flow that is silent because its packets wait
//! below others must not count as idle, so departures are estimated: a fluid line of the shaper's rate
//! serves the levels in strict order, and within a level every queue in turn. Each bound errs towards
//! "still waiting". All amounts are nanoseconds of transmission time, so that no rate is needed to compare them.
//!
//! Not in the estimate: a line that is slower than the shaper's rate, and queues beyond
//! [`Line::queues_max`] in one level. The program in the kernel keeps the same state in its map
//! ([`LevelState`], [`FlowBacklog`]) and makes the same comparisons; test vectors are shared.

use crate::{Bytes, Priority, Rate, Span};

/// Constants of the estimate for one egress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line {
    /// Rate at which a level and those above it are served at least, in bits per second.
    pub rate_bits: u64,
    /// Maximum number of queues that take turns within a level.
    pub queues_max: u64,
    /// Idle time of the policy, in ns.
    pub idle_ns: u64,
    /// Transmission time of a quantum, in ns.
    pub quantum_ns: u64,
    /// Transmission time of a full queue of frames, in ns. Larger packets are local TCP's, which limits its own.
    pub queue_ns: u64,
    /// Transmission time of all that the queues of a level can hold, in ns; arrivals beyond it are dropped.
    pub capacity_ns: u64,
    /// Bytes per 2³² ns that a flow sends without a drop of its level.
    pub steady: u64,
}

/// Nanoseconds per second times bits per byte.
pub const NS_BITS: u64 = 8_000_000_000;

impl Line {
    /// Share of the rate that a flow may send without a drop of its level. Its inverse is the
    /// number of flows that have to share the line until none sinks.
    pub const STEADY: f64 = 1.0 / 1_024.0;

    /// Constants for a line that serves a level and those above it at `rate`. A level has `buckets`
    /// queues of `queue` frames, of which at most `queues_max` take turns; they send `quantum` at a time.
    /// A flow is idle after `idle`.
    #[must_use]
    pub fn new(
        rate: Rate,
        queues_max: u64,
        idle: Span,
        [buckets, queue]: [u64; 2],
        [quantum, frame]: [Bytes; 2],
    ) -> Self {
        let (rate_bits, idle_ns) = (rate.bits_per_sec(), idle.as_nanos());
        let mut line =
            Self { rate_bits, queues_max, idle_ns, quantum_ns: 0, queue_ns: 0, capacity_ns: 0, steady: 0 };
        line.steady = (rate_bits as f64 * Self::STEADY * 2_f64.powi(32) / NS_BITS as f64) as u64;
        // A queue of fq may be a frame beyond its turns.
        line.quantum_ns = line.cost_ns(quantum + frame);
        let frame_ns = line.cost_ns(frame);
        let holds = |packets: u64| frame_ns.saturating_mul(packets).min(CAPACITY_NS_MAX);
        (line.queue_ns, line.capacity_ns) = (holds(queue), holds(queue * buckets));
        line
    }

    /// Bytes that a flow may send in `ns` without a drop of its level.
    #[must_use]
    pub fn steady(&self, ns: u64) -> Bytes {
        Bytes::new((ns.min(u32::MAX.into()) * self.steady) >> 32)
    }

    /// Transmission time of `bytes`, in ns.
    #[must_use]
    pub fn cost_ns(&self, bytes: Bytes) -> u64 {
        bytes.get().saturating_mul(NS_BITS) / self.rate_bits
    }
}

/// Longest capacity, an hour: sums of times stay far below 2⁶³ ns.
const CAPACITY_NS_MAX: u64 = 3_600_000_000_000;

/// State of a level.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LevelState {
    /// Time at which this level and all above it are empty, if nothing else arrives.
    pub drained_ns: u64,
    /// Two times, the later first, at which this level and all above it were empty: the idle time of
    /// the policy or more apart.
    pub empty_ns: [u64; 2],
    /// Transmission time of all arrivals at this level.
    pub arrived_ns: u64,
}

/// State of a flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlowBacklog {
    /// Time of its last packet.
    pub last_ns: u64,
    /// Transmission time that waited at its level at its last packet, this one included; at most the
    /// capacity of a queue.
    pub waiting_ns: u64,
    /// Service of its level at its last packet.
    pub served_ns: u64,
}

/// Estimated backlog of all levels.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Backlog(pub [LevelState; Priority::LEVELS]);

impl Backlog {
    /// Transmission time that waits at `level`.
    fn waiting_ns(&self, now_ns: u64, level: usize) -> u64 {
        let waits_to = |level: usize| self.0[level].drained_ns.saturating_sub(now_ns);
        let above = level.checked_sub(1).map_or(0, waits_to);
        waits_to(level).saturating_sub(above)
    }

    /// Transmission time for which `level` was served so far: arrivals less waiting packets.
    #[must_use]
    pub fn served_ns(&self, now_ns: u64, level: usize) -> u64 {
        self.0[level].arrived_ns.wrapping_sub(self.waiting_ns(now_ns, level))
    }

    /// A packet of `cost_ns` arrives at `level`.
    pub fn on_arrival(&mut self, now_ns: u64, level: usize, cost_ns: u64, line: &Line) {
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

impl FlowBacklog {
    /// Transmission time that `level`, the flow's, was served since its last packet.
    fn served_since_ns(&self, backlog: &Backlog, now_ns: u64, level: usize) -> u64 {
        let since = backlog.served_ns(now_ns, level).wrapping_sub(self.served_ns);
        // Another processor may have been ahead.
        u64::try_from(since.cast_signed()).unwrap_or(0)
    }

    /// True if nothing of the flow waited, and nothing came from it, for the policy's idle time.
    ///
    /// Each of three conditions shows that none of its packets waited: its level and all above it are
    /// empty; they were empty at some time since its last packet; or its level was served long enough to
    /// empty the flow's queue in turn with all others, plus the idle time. A queue holds at most the
    /// packets of its level, whichever flows share it.
    #[must_use]
    pub fn is_idle(&self, backlog: &Backlog, now_ns: u64, level: usize, line: &Line) -> bool {
        let idle_ns = line.idle_ns;
        // Signed: a packet on another processor may have a slightly later time.
        if now_ns.wrapping_sub(self.last_ns).cast_signed() < idle_ns.cast_signed() {
            return false;
        }
        let (since, state) = (now_ns - idle_ns, backlog.0[level]);
        let was_empty = state.empty_ns.iter().any(|&empty_ns| empty_ns > self.last_ns && empty_ns <= since);
        let needed = (self.waiting_ns + line.quantum_ns) * line.queues_max + idle_ns;
        state.drained_ns <= since || was_empty || self.served_since_ns(backlog, now_ns, level) >= needed
    }

    /// A packet of `cost_ns` arrives; the flow is at `level` after it.
    pub fn on_arrival(&mut self, backlog: &Backlog, now_ns: u64, level: usize, cost_ns: u64, line: &Line) {
        self.waiting_ns = (backlog.waiting_ns(now_ns, level) + cost_ns).min(line.queue_ns);
        self.last_ns = now_ns;
        self.served_ns = backlog.served_ns(now_ns, level);
    }
}
