//! What an acknowledgement does: it frees what was sent, times the path, and
//! tells by repetition or SACK what was lost. Source: RFC 5681, 6298, 6582, 6675.

use queueing::{Bytes, Span, Time};

use super::congestion::{Ack, CongestionControl};
use super::connection::{Connection, Context, Recovery};
use super::state::{State, Step};
use crate::stack::{CloseReason, EventKind};
use crate::wire::tcp::{Flags, Segment, Seq};

/// So many acknowledgements of the same byte mean that the next was lost.
const DUPLICATE_ACKS_MAX: u8 = 3;

impl Connection {
    #[inline]
    pub(super) fn on_ack(&mut self, cx: &mut Context<'_>, s: &Segment<'_>) {
        let outstanding = self.snd_nxt != self.snd_una;
        let mut news = 0;
        if self.flags.sack {
            for (start, end) in s.options.sack.iter() {
                let valid =
                    start.before(end) && start.at_or_after(self.snd_una) && end.at_or_before(self.snd_nxt);
                if valid && start.at_or_after(s.ack) {
                    news += self.scoreboard.insert(start, end);
                }
            }
        }
        let window = u32::from(s.window) << self.send_scale;
        let bare = s.payload.is_empty() && !s.flags.contains(Flags::FIN) && window == self.snd_wnd;
        if s.ack.after(self.snd_una) {
            self.on_new_ack(cx, s.ack);
        } else if s.ack == self.snd_una && outstanding && (bare || news > 0) {
            self.on_duplicate_ack(cx);
        }
        // Any acknowledgement answers a probe.
        if !outstanding || window == 0 {
            self.retries = 0;
        }
        let newer = self.snd_wl1.before(s.seq) || (self.snd_wl1 == s.seq && self.snd_wl2.at_or_before(s.ack));
        if s.ack.at_or_after(self.snd_una) && newer {
            let was = self.snd_wnd;
            self.update_window(s, self.send_scale);
            if was < self.snd_wnd && self.is_stalled() {
                self.rto_at = Time::MAX;
                self.rtt.on_progress();
            }
        }
    }

    #[inline]
    pub(super) fn sample_rtt(&mut self, cx: &Context<'_>, ack: Seq) -> Option<Span> {
        if !self.flags.timing || ack.before(self.timed_seq) {
            return None;
        }
        self.flags.timing = false;
        let rtt = cx.now.since(self.timed_at);
        self.rtt.on_sample(rtt);
        Some(rtt)
    }

    #[inline]
    fn on_new_ack(&mut self, cx: &mut Context<'_>, ack: Seq) {
        let flight = self.snd_nxt - self.snd_una;
        let acked = ack - self.snd_una;
        let fin = self.flags.fin_sent && ack == self.snd_nxt && acked as usize > self.send.len();
        let data = acked - u32::from(fin);
        self.send.pop(data as usize, cx.pool);
        self.acknowledged += u64::from(data);
        self.snd_una = ack;
        self.scoreboard.advance(ack);
        self.retries = 0;
        self.patience_regained();
        self.rtt.on_progress();
        let rtt = self.sample_rtt(cx, ack);
        self.repair_on_new_ack(cx, ack, acked, flight, rtt);
        let idle = self.snd_una == self.snd_nxt;
        self.rto_at = if idle { Time::MAX } else { cx.now + self.rtt.rto(cx.config.rto_min) };
        if self.flags.blocked && self.send.len() <= self.send_limit(cx.config, cx.pool) / 2 {
            self.flags.blocked = false;
            cx.push(EventKind::Writable);
        }
        if fin {
            let until = cx.now + cx.config.time_wait;
            self.state = self.state.after(Step::FinAcked { until });
            match self.state {
                State::Closed => self.end(cx, CloseReason::Finished),
                State::TimeWait { .. } => self.release_send(cx.pool),
                _ => self.limit_fin_wait(cx),
            }
        }
    }

    /// Moves recovery on: `acked` bytes up to `ack` are confirmed.
    #[inline]
    fn repair_on_new_ack(
        &mut self,
        cx: &mut Context<'_>,
        ack: Seq,
        acked: u32,
        flight: u32,
        rtt: Option<Span>,
    ) {
        self.duplicate_acks = 0;
        let bytes = |n: u32| Bytes::new(u64::from(n));
        let news = Ack {
            now: cx.now,
            acked: bytes(acked),
            flight: bytes(flight),
            srtt: self.rtt.srtt(),
            rtt,
            marked: Bytes::ZERO,
            delivered: self.acknowledged,
            sent: self.acknowledged + self.unacknowledged().get(),
            limited: self.congestion.limits(flight, self.mss),
        };
        match self.recovery {
            Recovery::None => {
                self.congestion.on_ack(&news);
                (self.rtx_next, self.rtx_end) = (ack, ack);
            }
            Recovery::Timeout { until } => {
                self.congestion.on_ack(&news);
                (self.rtx_next, self.rtx_end) = (self.rtx_next.max(ack), self.rtx_end.max(ack));
                if ack.at_or_after(until) {
                    self.recovery = Recovery::None;
                    (self.rtx_next, self.rtx_end) = (ack, ack);
                }
            }
            Recovery::Fast { until } if ack.at_or_after(until) => {
                self.congestion.on_recovered(cx.now);
                self.recovery = Recovery::None;
                self.inflation = 0;
                (self.rtx_next, self.rtx_end) = (ack, ack);
            }
            Recovery::Fast { .. } => {
                // A partial acknowledgement: the next hole is lost, too (RFC 6582 §3.2).
                self.inflation = self.inflation.saturating_sub(acked);
                if self.scoreboard.is_empty() {
                    self.rtx_next = ack;
                    self.rtx_end = (ack + u32::from(self.mss)).min(self.snd_nxt);
                    self.flags.retransmit_now = true;
                } else {
                    self.rtx_next = self.rtx_next.max(ack);
                    self.mark_holes_lost();
                }
            }
        }
    }

    fn on_duplicate_ack(&mut self, cx: &mut Context<'_>) {
        self.duplicate_acks = self.duplicate_acks.saturating_add(1);
        let mss = u32::from(self.mss);
        match self.recovery {
            Recovery::None => {
                let sacked = self.scoreboard.bytes();
                let lost =
                    self.duplicate_acks >= DUPLICATE_ACKS_MAX || sacked > DUPLICATE_ACKS_MAX as u32 * mss;
                if !lost {
                    return;
                }
                cx.counters.fast_retransmits += 1;
                self.congestion.on_loss(cx.now, self.unacknowledged());
                self.recovery = Recovery::Fast { until: self.snd_nxt };
                self.rtx_next = self.snd_una;
                self.rtx_end = (self.snd_una + mss).min(self.snd_nxt);
                self.flags.retransmit_now = true;
                if self.scoreboard.is_empty() {
                    self.inflation = 3 * mss;
                }
                self.mark_holes_lost();
            }
            Recovery::Fast { .. } if self.scoreboard.is_empty() => {
                self.inflation = self.inflation.saturating_add(mss).min(1 << 24);
            }
            Recovery::Fast { .. } => self.mark_holes_lost(),
            Recovery::Timeout { .. } => {}
        }
    }

    /// What the peer lacks before the last byte it has counts as lost.
    fn mark_holes_lost(&mut self) {
        if let Some(end) = self.scoreboard.end() {
            self.rtx_end = self.rtx_end.max(end);
        }
    }
}
