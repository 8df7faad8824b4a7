//! Connection establishment: active, passive and simultaneous open.
//!
//! Listeners belong to the stack.
//! Source: RFC 9293 §3.5 and §3.10.7.3.

use queueing::{Span, Time};
use wire::tcp::{Flags, Segment, Seq};

use super::congestion::CongestionControl;
use super::connection::{Connection, Context, Recovery};
use super::input::{SegmentOutcome, Verdicts};
use super::retransmit_queue::LossDecision;
use super::state::{State, Step};
use super::store::ByteStore;
use crate::stack::{CloseReason, Config, EventKind, ListenerId};

/// Delay between a reset of the peer's old connection and the next SYN.
const SYN_AGAIN: Span = Span::from_millis(2);

impl<B: ByteStore> Connection<B> {
    /// Turns a new connection into the receiver of a listener's SYN `s`.
    pub(crate) fn accept(&mut self, listener: u16, s: &Segment<'_>, config: &Config) {
        self.answer(s, config);
        self.set_listener(listener);
        self.update_window(s, 0);
    }

    /// Turns a new connection into one that has received the SYN `s`.
    pub(crate) fn answer(&mut self, s: &Segment<'_>, config: &Config) {
        self.state = State::SynReceived { passive: true };
        self.negotiate(s.seq, &s.options, config);
        self.negotiate_ecn(s);
    }

    /// Sets the initial sequence number beyond `ended`, before anything is sent.
    ///
    /// `ended` is the last number of the previous connection between the same ports, which may have
    /// sent faster than the ISN clock runs (RFC 9293 §3.6.1, MAY-2).
    pub(crate) fn start_beyond(&mut self, ended: Seq) {
        let start = self.snd_nxt.max(ended);
        (self.snd_una, self.snd_nxt) = (start, start);
    }

    /// Turns a new connection into one that has sent its SYN-ACK with `number` and waits for the
    /// ACK.
    pub(crate) fn resume(&mut self, listener: u16, number: Seq) {
        self.set_listener(listener);
        (self.snd_una, self.snd_nxt) = (number, number + 1);
        self.rcv_adv = self.rcv_nxt + self.receive_space().min(65_535);
        self.last_ack_sent = self.rcv_nxt;
    }

    /// True if the SYN `s` may end this connection in TIME-WAIT, because no old segment can be
    /// mistaken for a new one (RFC 6191 §2, RFC 9293 §3.6.1).
    ///
    /// If both have timestamps, these decide; equal ones leave the decision to the sequence
    /// numbers. If only the new one has them, old segments have none and are refused.
    #[inline]
    pub(crate) fn is_replaced_by(&self, s: &Segment<'_>) -> bool {
        let State::TimeWait { .. } = self.state else { return false };
        let opens =
            s.flags.contains(Flags::SYN) && !s.flags.contains(Flags::ACK) && !s.flags.contains(Flags::RST);
        let later = match s.options.timestamps {
            Some(stamps) if self.flags.timestamps => stamps.value.wrapping_sub(self.ts_recent) as i32,
            Some(_) => return opens,
            None => 0,
        };
        opens && (later > 0 || (later == 0 && s.seq.after(self.rcv_nxt)))
    }

    pub(super) fn on_segment_in_syn_sent(
        &mut self,
        cx: &mut Context<'_>,
        s: &Segment<'_>,
        v: &Verdicts<'_>,
    ) -> SegmentOutcome {
        let acks_syn = s.ack.after(self.snd_una) && s.ack.at_or_before(self.snd_nxt + self.fast_end());
        let has = |flag| s.flags.contains(flag);
        if has(Flags::ACK) && !acks_syn {
            cx.counters.bad_acks += 1;
            if self.retries == 0 && self.snd_una != self.snd_nxt {
                // The peer has an old connection. Our RST ends it, so the SYN is repeated soon,
                // once (Linux, TCP_TIMEOUT_MIN).
                self.rto_at = self.rto_at.min(cx.now + SYN_AGAIN);
            }
            return if has(Flags::RST) { SegmentOutcome::Done } else { SegmentOutcome::Refuse };
        }
        if has(Flags::RST) {
            if has(Flags::ACK) {
                cx.counters.resets_received += 1;
                self.end(cx, CloseReason::Reset);
            }
            return SegmentOutcome::Done;
        }
        if !has(Flags::SYN) || self.snd_una == self.snd_nxt {
            return SegmentOutcome::Done;
        }
        self.negotiate(s.seq, &s.options, cx.config);
        self.negotiate_ecn(s);
        self.received_at = cx.now;
        self.update_window(s, 0);
        if has(Flags::ACK) {
            self.accept_fast_open(cx, s);
            self.state = self.state.after(Step::SynAck);
            self.on_handshake_done(cx, s);
            self.acks_due = 1;
            if s.seq_len() > 1 {
                // Data or FIN in the SYN-ACK is processed now.
                let flags = Flags::from_bits(s.flags.bits() & !Flags::SYN.bits());
                // The window of a SYN-ACK is never scaled (RFC 7323 §2.2).
                let scale = std::mem::take(&mut self.send_scale);
                let arrival = self.on_segment_synchronized(cx, &Segment { seq: s.seq + 1, flags, ..*s }, v);
                self.send_scale = scale;
                return arrival;
            }
        } else {
            // Simultaneous open: our SYN is sent again, now with ACK.
            self.state = self.state.after(Step::Syn);
            self.resend_first();
        }
        SegmentOutcome::Done
    }

    /// Retransmits the first segment in flight regardless of the window.
    pub(crate) fn resend_first(&mut self) {
        let una = self.snd_una;
        let first = |start| if start == una { LossDecision::Lost } else { LossDecision::Stop };
        self.flight.mark_lost(|record| first(record.start));
        self.flags.retransmit_now = true;
    }

    pub(super) fn on_handshake_done(&mut self, cx: &mut Context<'_>, s: &Segment<'_>) {
        self.on_syn_acked(cx, s);
        if self.retries > 0 {
            self.rtt.on_syn_lost();
        }
        if self.retries > 1 && self.segments.retransmitted > 1 && self.snd_una == self.snd_nxt {
            // Data starts with one segment (RFC 5681 §3.1), but not after a single retransmission,
            // which may have been premature (RFC 6928 §2). Both counts are needed: a timeout during
            // neighbour resolution sends nothing, and a SYN-ACK is sent again by its timer and for
            // the peer's SYN, though only one was lost.
            self.congestion.on_syn_lost(cx.now);
        }
        self.retries = 0;
        self.restart_user_timeout();
        self.recovery = Recovery::None;
        self.rto_at = Time::MAX;
        self.flags.retransmit_now = false;
        if self.listener().is_none() {
            cx.push(EventKind::Connected);
        } else if self.flags.announced {
            // Its Fast Open data was accepted before.
        } else if let Some(listener) = self.listener() {
            self.flags.announced = true;
            cx.push(EventKind::Accepted(ListenerId(u32::from(listener))));
        }
        if self.flags.fin_queued {
            self.state = self.state.after(Step::Close);
        }
    }
}
