//! Segment acceptability: the checks before a segment has any effect.
//!
//! They follow RFC 9293 §3.10.7.4; PAWS rejects old duplicates (RFC 7323 §5), and challenge ACKs
//! answer blind resets and SYNs (RFC 5961).
//!
//! On an established connection nearly every segment is the expected one. [`Connection::expects`]
//! replaces the checks of [`Connection::screen`] for it (header prediction, RFC 1323 §4.2.1). This
//! is safe: every expected segment passes the checks, and they leave no state for a segment that
//! passes.
//! Source: RFC 9293 §3.10.7.4, RFC 7323, RFC 5961.

use queueing::{Span, Time};
use wire::tcp::{Flags, Segment, Seq};

use super::connection::{Connection, Context};
use super::input::{SegmentOutcome, Verdicts};
use super::state::{State, Step};
use super::store::ByteStore;
use crate::stack::CloseReason;

impl<B: ByteStore> Connection<B> {
    /// True if `s` is the expected segment of an established connection: in order, within the
    /// window, passing PAWS, with an ACK within the data in flight.
    #[inline]
    pub(super) fn expects(&self, s: &Segment<'_>) -> bool {
        let promised = self.rcv_adv.distance(self.rcv_nxt);
        let fresh = match s.options.timestamps {
            Some(stamps) => stamps.value.wrapping_sub(self.ts_recent) as i32 >= 0 || !self.flags.timestamps,
            None => true,
        };
        self.state == State::Established
            && s.flags.without(Flags::PSH) == Flags::ACK
            && s.seq == self.rcv_nxt
            && s.payload.len() as i64 <= i64::from(promised)
            && s.ack - self.snd_una <= self.snd_nxt - self.snd_una
            && fresh
    }

    /// Checks a segment that is not the expected one; `None` if it is acceptable.
    #[inline(never)]
    pub(super) fn screen(
        &mut self,
        cx: &mut Context<'_>,
        s: &Segment<'_>,
        v: &Verdicts<'_>,
    ) -> Option<SegmentOutcome> {
        let has = |flag| s.flags.contains(flag);
        if !self.is_fresh(cx.now, s) && !has(Flags::RST) {
            cx.counters.paws += 1;
            self.answer_stray(cx, s);
            return Some(SegmentOutcome::Done);
        }
        if !self.is_acceptable(s) || self.repeats_syn(s) {
            return Some(self.on_unacceptable(cx, s));
        }
        if has(Flags::RST) {
            // An old duplicate may have provoked the RST, and TIME-WAIT exists to outlast those
            // (RFC 1337 §3).
            if matches!(self.state, State::TimeWait { .. }) {
                cx.counters.time_wait_resets += 1;
            } else if s.seq == self.rcv_nxt {
                cx.counters.resets_received += 1;
                self.end(cx, CloseReason::Reset);
            } else {
                self.challenge(cx);
            }
            return Some(SegmentOutcome::Done);
        }
        if has(Flags::SYN) {
            match self.state {
                // Back to LISTEN (RFC 9293 §3.10.7.4; all other states use RFC 5961's challenge
                // ACK). Nothing is lost yet, and the peer's next SYN reaches the listener. An
                // off-path attacker would have to guess the window. A connection announced by Fast
                // Open has more to lose: it sends a challenge ACK.
                State::SynReceived { passive: true } if !self.flags.announced => {
                    self.end(cx, CloseReason::Reset);
                }
                _ => self.challenge(cx),
            }
            return Some(SegmentOutcome::Done);
        }
        if !has(Flags::ACK) {
            return Some(SegmentOutcome::Done);
        }
        if let State::SynReceived { passive } = self.state {
            if passive && !v.has_space && !self.flags.announced {
                cx.counters.accept_drops += 1;
                return Some(SegmentOutcome::Done);
            }
            if !(s.ack.after(self.snd_una) && s.ack.at_or_before(self.snd_nxt)) {
                cx.counters.bad_acks += 1;
                return Some(SegmentOutcome::Refuse);
            }
        } else if s.ack.after(self.snd_nxt)
            || s.ack.distance(self.snd_una) < -(self.snd_wnd_max.min(i32::MAX as u32) as i32)
        {
            cx.counters.bad_acks += 1;
            self.challenge(cx);
            return Some(SegmentOutcome::Done);
        }
        None
    }

    /// Protection against wrapped sequence numbers (PAWS, RFC 7323 §5.3).
    ///
    /// After 24 idle days the timestamps themselves may have wrapped (§5.5). A segment without a
    /// timestamp is accepted, as by Linux. §3.2 would drop it, which breaks connections through
    /// middleboxes that strip options.
    fn is_fresh(&self, now: Time, s: &Segment<'_>) -> bool {
        match s.options.timestamps {
            Some(stamps) if self.flags.timestamps => {
                (stamps.value.wrapping_sub(self.ts_recent) as i32) >= 0
                    || now.since(self.received_at) > Span::from_secs(24 * 24 * 3600)
            }
            _ => true,
        }
    }

    /// True if any part of the segment lies in the window (RFC 9293 §3.10.7.4).
    fn is_acceptable(&self, s: &Segment<'_>) -> bool {
        let window = self.receive_window();
        let within = |seq: Seq| seq.at_or_after(self.rcv_nxt) && seq.before(self.rcv_nxt + window);
        match (s.seq_len(), window) {
            // A zero window accepts no data, but the rest of the segment counts.
            (_, 0) => s.seq == self.rcv_nxt,
            (0, _) => within(s.seq) || s.seq == self.rcv_nxt,
            (len, _) => within(s.seq) || within(s.seq + (len - 1)),
        }
    }

    /// True for a retransmission of the SYN that we have answered.
    ///
    /// It lies before the window, even if its data does not (RFC 9293 §3.10.7.4).
    fn repeats_syn(&self, s: &Segment<'_>) -> bool {
        matches!(self.state, State::SynReceived { .. })
            && s.flags.contains(Flags::SYN)
            && !s.flags.contains(Flags::RST)
            && s.seq + 1 == self.rcv_nxt
    }

    fn on_unacceptable(&mut self, cx: &mut Context<'_>, s: &Segment<'_>) -> SegmentOutcome {
        if s.flags.contains(Flags::RST) {
            return SegmentOutcome::Done;
        }
        if self.ends_crossed_open(s) {
            self.state = self.state.after(Step::SynAcked);
            self.update_window(s, 0);
            self.on_handshake_done(cx, s);
            self.owe_ack();
            return SegmentOutcome::Done;
        }
        cx.counters.out_of_window += 1;
        let end = s.seq + s.payload.len() as u32;
        cx.counters.duplicates += u64::from(!s.payload.is_empty() && self.rcv_nxt.at_or_after(end));
        let opens = s.flags.contains(Flags::SYN) && !s.flags.contains(Flags::ACK);
        if matches!(self.state, State::SynReceived { .. }) && opens {
            let again = self.repeats_syn(s);
            // The SYN-ACK must echo this SYN, or the peer's round-trip sample would include its own
            // timeout.
            if again && let Some(stamps) = s.options.timestamps {
                self.ts_recent = stamps.value;
            }
            if again && !s.flags.contains(Flags::ECE | Flags::CWR) {
                self.withdraw_ecn();
            }
            if self.may_answer(cx) {
                self.resend_first();
            }
        } else {
            self.record_duplicate(s.seq, (s.seq + s.payload.len() as u32).min(self.rcv_nxt));
            self.answer_stray(cx, s);
        }
        if let State::TimeWait { ref mut until } = self.state
            && s.flags.contains(Flags::FIN)
        {
            *until = cx.now + cx.config.time_wait;
        }
        SegmentOutcome::Done
    }

    /// True for the peer's SYN-ACK in a simultaneous open: old by its number, but it acknowledges
    /// our SYN (RFC 9293 §3.5, Figure 8).
    fn ends_crossed_open(&self, s: &Segment<'_>) -> bool {
        self.state == (State::SynReceived { passive: false })
            && s.flags.contains(Flags::SYN.with(Flags::ACK))
            && s.seq + 1 == self.rcv_nxt
            && s.ack.after(self.snd_una)
            && s.ack.at_or_before(self.snd_nxt)
    }

    /// True if the rate limit allows one more answer to an unacceptable segment.
    fn may_answer(&mut self, cx: &mut Context<'_>) -> bool {
        let may = self.ack_rate_limit.allow(cx.now, cx.config.answers_max);
        cx.counters.answers_withheld += u64::from(!may);
        may
    }

    /// Answers a segment that is old or outside the window.
    fn answer_stray(&mut self, cx: &mut Context<'_>, s: &Segment<'_>) {
        if s.flags.contains(Flags::SYN) {
            self.challenge(cx);
        } else if !s.payload.is_empty() || self.may_answer(cx) {
            self.owe_ack();
        }
    }

    /// Sends a challenge ACK (RFC 5961).
    fn challenge(&mut self, cx: &mut Context<'_>) {
        if self.may_answer(cx) && cx.may_challenge() {
            self.owe_ack();
        }
    }
}
