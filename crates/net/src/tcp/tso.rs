//! TCP segmentation offload (TSO): several segments in one frame, split by the device.
//!
//! A plan for new data is extended by data that could be sent right after it, within both windows,
//! in full segments and at one priority level. The retransmission queue holds the segments one by
//! one, as if sent separately. A connection in recovery, with probes, pacing or ECN does not use
//! TSO.

use super::flags::Hold;
use queueing::Time;
use wire::tcp::Seq;

use super::buffer::Pool;
use super::connection::{Connection, Recovery};
use super::output::SegmentPlan;
use super::store::ByteStore;

/// Maximum data in one frame: an IP packet with all possible options.
const BYTES_MAX: u32 = 65_535 - 120;

impl<B: ByteStore> Connection<B> {
    /// Extends `plan` to at most `segments` segments.
    #[inline]
    pub(crate) fn together(&self, plan: SegmentPlan, segments: u8, pool: &Pool) -> SegmentPlan {
        if plan.len != u32::from(self.mss) || segments < 2 {
            return plan;
        }
        self.widened(plan, segments, pool).unwrap_or(plan)
    }

    fn widened(&self, plan: SegmentPlan, segments: u8, pool: &Pool) -> Option<SegmentPlan> {
        let smooth = self.recovery == Recovery::None
            && self.ecn_pacing.is_none()
            && !(self.flags.tlp_due || self.flags.probe_due || self.flags.retransmit_now);
        let new =
            plan.seq == self.snd_nxt && self.state.is_synchronized() && !plan.retransmitted && !plan.probe;
        if !smooth || !new {
            return None;
        }
        let mss = u32::from(self.mss);
        let (unsent, window) = (self.unsent(), self.invited());
        let space = self.congestion_window().saturating_sub(self.in_flight());
        let level = self.transmit.until().map_or(u32::MAX, |at| at.distance(plan.seq).max(0) as u32);
        let most = unsent.min(window).min(space).min(level).min(BYTES_MAX);
        let segments = self.flight.room(segments.into(), pool);
        // The last segment may be short, unless Nagle's algorithm or TCP_CORK holds it back.
        let sends_all = unsent <= most && unsent <= segments * mss && self.flags.hold == Hold::default();
        let len = if sends_all { unsent } else { segments.min(most / mss) * mss };
        if len <= mss {
            return None;
        }
        let flags = self.flags_of_new(len, unsent, window);
        Some(SegmentPlan { len, flags, segments: len.div_ceil(mss) as u8, ..plan })
    }

    /// Adds the segments of `plan`, which ends at `end`, to the retransmission queue.
    #[inline]
    pub(super) fn push_flight(&mut self, plan: &SegmentPlan, end: Seq, now: Time, pool: &mut Pool) {
        let mss = u32::from(self.mss);
        let mut start = plan.seq;
        for _ in 1..plan.segments {
            self.flight.push(start, start + mss, now, pool);
            start += mss;
        }
        self.flight.push(start, end, now, pool);
    }
}

#[cfg(test)]
mod tests;
