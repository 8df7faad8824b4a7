//! How a connection opens: its side of the handshake, active, passive or both
//! at once. Source: RFC 9293 §3.5 and §3.10.7.3.

use queueing::{Span, Time};

use super::congestion::CongestionControl;
use super::connection::{Connection, Context, Recovery};
use super::input::{SegmentOutcome, Verdicts};
use super::retransmit_queue::LossDecision;
use super::state::{State, Step};
use super::store::ByteStore;
use crate::stack::{CloseReason, Config, EventKind, ListenerId};
use crate::wire::tcp::{Flags, Segment, Seq};

/// Time from a reset of the peer's old connection to the next SYN.
const SYN_AGAIN: Span = Span::from_millis(2);

impl<B: ByteStore> Connection<B> {
    /// Makes a fresh connection the answer to a listener's SYN `s`.
    pub(crate) fn accept(&mut self, listener: u16, s: &Segment<'_>, config: &Config) {
        self.answer(s, config);
        self.listener = Some(listener);
        self.update_window(s, 0);
    }

    /// Makes a fresh connection one that has received the SYN `s`.
    pub(crate) fn answer(&mut self, s: &Segment<'_>, config: &Config) {
        self.state = State::SynReceived { passive: true };
        self.negotiate(s.seq, &s.options, config);
        self.negotiate_ecn(s);
    }

    /// Nothing was sent yet: starts where the connection before it between the
    /// same ports `ended`, if that sent faster than the clock of initial numbers
    /// goes (RFC 9293 §3.6.1, MAY-2).
    pub(crate) fn start_beyond(&mut self, ended: Seq) {
        let start = self.snd_nxt.max(ended);
        (self.snd_una, self.snd_nxt) = (start, start);
    }

    /// Makes a connection that would answer a SYN one that has done so, with
    /// `number`, and waits for the acknowledgement.
    pub(crate) fn resume(&mut self, listener: u16, number: Seq) {
        self.listener = Some(listener);
        (self.snd_una, self.snd_nxt) = (number, number + 1);
        self.rcv_adv = self.rcv_nxt + self.receive_room().min(65_535);
        self.last_ack_sent = self.rcv_nxt;
    }

    /// Whether a connection in TIME-WAIT may end for the sake of the SYN `s`:
    /// nothing old can be taken for new (RFC 6191 §2, RFC 9293 §3.6.1). Where
    /// both have timestamps these decide, and only equal ones leave it to the
    /// numbers. Where only the new one has, what is old has none and is refused.
    #[inline]
    pub(crate) fn gives_way_to(&self, s: &Segment<'_>) -> bool {
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
                // The peer has a connection that we know nothing of. Our reset ends
                // it, so the SYN goes again soon, once (Linux, TCP_TIMEOUT_MIN).
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
        self.heard_at = cx.now;
        self.update_window(s, 0);
        if has(Flags::ACK) {
            self.take_fast(cx, s);
            self.state = self.state.after(Step::SynAck);
            self.on_handshake_done(cx, s);
            self.acks_due = 1;
            if s.seq_len() > 1 {
                // What comes with the SYN counts from now on.
                let flags = Flags::from_bits(s.flags.bits() & !Flags::SYN.bits());
                // Its window is still a SYN's, which is never scaled (RFC 7323 §2.2).
                let scale = std::mem::take(&mut self.send_scale);
                let arrival = self.on_segment_synchronized(cx, &Segment { seq: s.seq + 1, flags, ..*s }, v);
                self.send_scale = scale;
                return arrival;
            }
        } else {
            // Both sides open at once: our SYN goes out again, now with ACK.
            self.state = self.state.after(Step::Syn);
            self.resend_first();
        }
        SegmentOutcome::Done
    }

    /// Sends the first segment in flight again, whatever the window says.
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
        if self.retries > 1 && self.segments.again > 1 && self.snd_una == self.snd_nxt {
            // Data starts with one segment (RFC 5681 §3.1), but not after a
            // single repetition, which may have been impatience (RFC 6928 §2). A
            // timeout while a neighbour was asked for sent none, and a SYN, ACK
            // goes again by its timer and for the peer's SYN, though one was lost.
            self.congestion.on_syn_lost(cx.now);
        }
        self.retries = 0;
        self.patience_regained();
        self.recovery = Recovery::None;
        self.rto_at = Time::MAX;
        self.flags.retransmit_now = false;
        if self.listener.is_none() {
            cx.push(EventKind::Connected);
        } else if self.flags.announced {
            // Its data came before.
        } else if let Some(listener) = self.listener {
            self.flags.announced = true;
            cx.push(EventKind::Accepted(ListenerId(u32::from(listener))));
        }
        if self.flags.fin_queued {
            self.state = self.state.after(Step::Close);
        }
    }
}
