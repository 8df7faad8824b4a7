//! Whether a segment counts at all.
//!
//! Order and wording of the checks follow RFC 9293 §3.10.7.4; old duplicates
//! are told by timestamps (RFC 7323 §5), blind resets and SYNs are challenged
//! (RFC 5961).
//!
//! On an open connection nearly every segment is the one that is expected
//! next, and the one question [`Connection::expects`] answers for it what
//! [`Connection::screen`] would ask bit by bit (header prediction, RFC 1323
//! §4.2.1). That is safe because screening leaves no trace of a segment that
//! passes, and whatever is expected passes; what happens to it then is the
//! same for both.

use queueing::{Span, Time};

use super::connection::{Connection, Context};
use super::input::{SegmentOutcome, Verdicts};
use super::state::{State, Step};
use super::store::ByteStore;
use crate::stack::CloseReason;
use crate::wire::tcp::{Flags, Segment, Seq};

impl<B: ByteStore> Connection<B> {
    /// Whether `s` is what comes next on an open connection: in order and as
    /// promised, not too old, acknowledging what is in flight or nothing.
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

    /// Checks whatever is not expected; `None` when it counts.
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
            // TIME-WAIT is there to outlast old duplicates: one of them may have
            // provoked the reset, which therefore ends nothing (RFC 1337 §3).
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
                // Back to LISTEN (RFC 9293 §3.10.7.4, which takes RFC 5961's
                // challenge for all other states): nothing is lost yet, and the
                // peer's next SYN finds the listener. Whoever does not see the
                // answers has to guess the window to get here. What Fast Open
                // has announced is more than that: it is challenged.
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
            if passive && !v.room && !self.flags.announced {
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

    /// Protection against wrapped sequence numbers, RFC 7323 §5.3. After 24
    /// days of silence the timestamps themselves may have wrapped (§5.5). A
    /// segment without a timestamp is taken, as by Linux: §3.2 would have it
    /// dropped, which ends connections through middleboxes that strip options.
    fn is_fresh(&self, now: Time, s: &Segment<'_>) -> bool {
        match s.options.timestamps {
            Some(stamps) if self.flags.timestamps => {
                (stamps.value.wrapping_sub(self.ts_recent) as i32) >= 0
                    || now.since(self.heard_at) > Span::from_secs(24 * 24 * 3600)
            }
            _ => true,
        }
    }

    /// Whether any of the segment lies in the window, RFC 9293 §3.10.7.4.
    fn is_acceptable(&self, s: &Segment<'_>) -> bool {
        let window = self.receive_window();
        let within = |seq: Seq| seq.at_or_after(self.rcv_nxt) && seq.before(self.rcv_nxt + window);
        match (s.seq_len(), window) {
            // A closed window takes no data, but what else the segment says counts.
            (_, 0) => s.seq == self.rcv_nxt,
            (0, _) => within(s.seq) || s.seq == self.rcv_nxt,
            (len, _) => within(s.seq) || within(s.seq + (len - 1)),
        }
    }

    /// Whether this is the SYN that we have answered: it lies before the window,
    /// even if data that came with it does not (RFC 9293 §3.10.7.4).
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
            // The answer echoes this SYN and not the one before it, or the peer
            // would take its own patience for the length of the path.
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
            self.note_twice(s.seq, (s.seq + s.payload.len() as u32).min(self.rcv_nxt));
            self.answer_stray(cx, s);
        }
        if let State::TimeWait { ref mut until } = self.state
            && s.flags.contains(Flags::FIN)
        {
            *until = cx.now + cx.config.time_wait;
        }
        SegmentOutcome::Done
    }

    /// Whether both sides opened at once and this is the peer's SYN again, now
    /// with the ACK of ours: old by its number, but it opens (RFC 9293 §3.5, Figure 8).
    fn ends_crossed_open(&self, s: &Segment<'_>) -> bool {
        self.state == (State::SynReceived { passive: false })
            && s.flags.contains(Flags::SYN.with(Flags::ACK))
            && s.seq + 1 == self.rcv_nxt
            && s.ack.after(self.snd_una)
            && s.ack.at_or_before(self.snd_nxt)
    }

    /// Whether one more answer to what fits nowhere may be given.
    fn may_answer(&mut self, cx: &mut Context<'_>) -> bool {
        let may = self.answers.allow(cx.now, cx.config.answers_max);
        cx.counters.answers_withheld += u64::from(!may);
        may
    }

    /// Answers a segment outside the window, or too old.
    fn answer_stray(&mut self, cx: &mut Context<'_>, s: &Segment<'_>) {
        if s.flags.contains(Flags::SYN) {
            self.challenge(cx);
        } else if !s.payload.is_empty() || self.may_answer(cx) {
            self.owe_ack();
        }
    }

    /// Makes the peer prove a suspicious segment (RFC 5961).
    fn challenge(&mut self, cx: &mut Context<'_>) {
        if self.may_answer(cx) && cx.may_challenge() {
            self.owe_ack();
        }
    }
}
