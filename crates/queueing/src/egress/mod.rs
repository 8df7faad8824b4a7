//! Levels and queues of packets at an egress whose departures are not seen.
//!
//! Levels are those of [`Mlfq`](crate::Mlfq), by the bytes sent before. Departures are estimated
//! ([`Backlog`]): they show when a flow is idle. New flows take the queues of a level in turn and
//! keep them. Not here: frames, and packets whose sender sets the level. The BPF classifier of
//! `greenwave egress` makes the same decisions.

mod backlog;
mod quantum;

use std::num::NonZeroUsize;

use lru::LruCache;

pub use backlog::{Backlog, FlowBacklog, LevelState, Line, NS_BITS};
pub use quantum::QueueQuantum;

use crate::{Bytes, FlowId, Priority, Thresholds, Time};

/// Levels of flows, by the bytes that they have sent since they were idle.
#[derive(Clone, Debug)]
pub struct FlowLevels {
    line: Line,
    rule: Thresholds,
    backlog: Backlog,
    buckets: u16,
    flows: LruCache<FlowId, Flow>,
    /// New flows so far.
    new: u64,
}

/// State of a flow.
#[derive(Clone, Copy, Debug)]
struct Flow {
    /// Queue of the flow.
    bucket: u16,
    /// Bytes that count for its level.
    sent: u64,
    state: FlowBacklog,
}

impl FlowLevels {
    /// Demotes flows by `rule` on `line`, in `buckets` queues per level; tracks at most `flows`.
    ///
    /// # Panics
    /// If `buckets` or `flows` is zero.
    #[must_use]
    pub fn new(rule: Thresholds, line: Line, buckets: u16, flows: usize) -> Self {
        assert!(buckets > 0, "buckets 0 is not above 0");
        let flows = LruCache::new(NonZeroUsize::new(flows).expect("flows 0 is not above 0"));
        Self { line, rule, backlog: Backlog::default(), buckets, flows, new: 0 }
    }

    /// Level and queue of a packet that `id` sends; a new flow takes the next queue. The packet is to
    /// be [counted](Self::on_arrival).
    pub fn level(&mut self, now: Time, id: FlowId, bytes: Bytes) -> (Priority, u16) {
        let (new, buckets) = (&mut self.new, u64::from(self.buckets));
        let now_ns = now.as_nanos();
        let flow = self.flows.get_or_insert_mut(id, || {
            *new += 1;
            let state = FlowBacklog { last_ns: now_ns, ..FlowBacklog::default() };
            Flow { bucket: ((*new - 1) % buckets) as u16, sent: 0, state }
        });
        let steady = self.line.steady(now_ns.saturating_sub(flow.state.last_ns));
        // A steady flow does not sink, and none rises.
        let floor = self.rule.floor(Bytes::new(flow.sent)).get();
        let sent = flow.sent.saturating_sub(steady.get()).max(floor);
        let level = self.rule.level(Bytes::new(sent));
        let is_idle = flow.state.is_idle(&self.backlog, now_ns, level.index(), &self.line);
        let (before, level) = if is_idle { (0, Priority::HIGHEST) } else { (sent, level) };
        flow.sent = before.saturating_add(bytes.get());
        let after = self.rule.level(Bytes::new(flow.sent)).index();
        let cost_ns = self.line.cost_ns(bytes);
        flow.state.on_arrival(&self.backlog, now_ns, after, cost_ns, &self.line);
        (level, flow.bucket)
    }

    /// A packet of `bytes` arrives at `level`.
    pub fn on_arrival(&mut self, now: Time, level: Priority, bytes: Bytes) {
        let cost_ns = self.line.cost_ns(bytes);
        self.backlog.on_arrival(now.as_nanos(), level.index(), cost_ns, &self.line);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Rate, Span};

    /// Last level of a flow that sends 1,000 bytes per millisecond and `n` packets, on a line of which
    /// this is 1/`share`, below a flow that keeps the line busy.
    fn level_after(share: u64, n: u64) -> usize {
        let rate = Rate::from_bits_per_sec(8_000_000 * share);
        let amounts = [1_500, 1_500].map(Bytes::new);
        let line = Line::new(rate, 64, Span::from_millis(100), [64, 240], amounts);
        let rule = Thresholds::new([10_000, 20_000].map(Bytes::new).to_vec()).unwrap();
        let mut levels = FlowLevels::new(rule, line, 64, 1_000);
        let mut last = Priority::HIGHEST;
        for ms in 0..n {
            let now = Time::from_nanos(ms * 1_000_000);
            levels.on_arrival(now, Priority::HIGHEST, Bytes::new(1_000 * share));
            let level = levels.level(now, FlowId(1), Bytes::new(1_000)).0;
            assert!(level >= last, "no level rises while packets may wait");
            last = level;
        }
        last.index()
    }

    //~ egress: a flow that sends at most 1/1,024 of the line does not sink; no level rises while packets may wait
    #[test]
    fn a_flow_that_sends_little_keeps_its_level() {
        assert_eq!(level_after(1_100, 1_000), 0, "it sends less");
        assert_eq!(level_after(500, 30), 1, "it sends twice as much");
        assert_eq!(level_after(500, 1_000), 2, "it sends twice as much");
        assert_eq!(level_after(10, 13), 1, "it sends a tenth of the line");
    }
}
