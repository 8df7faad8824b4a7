//! Several segments in one frame, for a device that cuts them (TSO).
//!
//! A plan for new data takes along what could go out right after it, as far
//! as both windows allow, in full segments and at one level of urgency. They
//! are in flight one by one, as if they had been sent so: what is lost and
//! repaired is a segment. A connection that repairs, probes, paces or marks
//! sends them singly.

use queueing::Time;

use super::buffer::Pool;
use super::connection::{Connection, Recovery};
use super::output::SegmentPlan;
use super::store::ByteStore;
use crate::wire::tcp::Seq;

/// Data in one frame: an IP packet with all the options there can be.
const BYTES_MAX: u32 = 65_535 - 120;

impl<B: ByteStore> Connection<B> {
    /// `plan`, and with it what may follow at once: `segments` in all at most.
    #[inline]
    pub(crate) fn together(&self, plan: SegmentPlan, segments: u8, pool: &Pool) -> SegmentPlan {
        if plan.len != u32::from(self.mss) || segments < 2 {
            return plan;
        }
        self.widened(plan, segments, pool).unwrap_or(plan)
    }

    fn widened(&self, plan: SegmentPlan, segments: u8, pool: &Pool) -> Option<SegmentPlan> {
        let smooth = self.recovery == Recovery::None
            && self.manners.is_none()
            && !(self.flags.tail_due || self.flags.probe_due || self.flags.retransmit_now);
        let new = plan.seq == self.snd_nxt && self.state.is_synchronized() && !plan.again && !plan.probe;
        if !smooth || !new {
            return None;
        }
        let mss = u32::from(self.mss);
        let (unsent, window) = (self.unsent(), self.invited());
        let room = self.congestion_window().saturating_sub(self.in_flight());
        let level = self.transmit.until().map_or(u32::MAX, |at| at.distance(plan.seq).max(0) as u32);
        let most = unsent.min(window).min(room).min(level).min(BYTES_MAX);
        let segments = self.flight.room(segments.into(), pool);
        // The end of all there is may be short, unless it waits for an answer
        // to what is before it (Nagle), or for more.
        let whole = unsent <= most && unsent <= segments * mss && !(self.flags.nagle || self.flags.cork);
        let len = if whole { unsent } else { segments.min(most / mss) * mss };
        if len <= mss {
            return None;
        }
        let flags = self.flags_of_new(len, unsent, window);
        Some(SegmentPlan { len, flags, segments: len.div_ceil(mss) as u8, ..plan })
    }

    /// What ends at `end` is in flight from `now` on, segment by segment.
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
