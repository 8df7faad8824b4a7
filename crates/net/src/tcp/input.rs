//! What an arriving segment does to a connection.
//!
//! Order and wording of the checks follow RFC 9293 §3.10.7; blind resets and
//! SYNs are challenged (RFC 5961), old duplicates are told by timestamps
//! (RFC 7323 §5), loss by duplicate acknowledgements and SACK (RFC 6582, 6675).

use std::panic::{AssertUnwindSafe, catch_unwind};

use queueing::{Label, Priority, Span, Time};

use super::buffer::Use;
use super::connection::{Connection, Context, Recovery};
use super::flight::Judgement;
use super::reassembly::Reassembly;
use super::state::{State, Step};
use crate::classify::{FlowContext, PacketMeta, TransportClassifier, Verdict};
use crate::stack::{CloseReason, Config, EventKind, ListenerId};
use crate::wire::tcp::{Flags, Segment, Seq};

/// What the stack still has to do for a segment.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arrival {
    /// Nothing.
    Done,
    /// Answer it with a reset.
    Refuse,
}

/// Who is asked for a label when the connection has no classifier of its own.
#[derive(Clone, Copy)]
pub(crate) struct Verdicts<'a> {
    pub(crate) listener: Option<&'a TransportClassifier>,
    pub(crate) default: Option<&'a TransportClassifier>,
    pub(crate) meta: &'a PacketMeta,
    /// The listener has room for one more connection.
    pub(crate) room: bool,
}

impl Connection {
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

    /// Makes a connection that would answer a SYN one that has done so, with
    /// `number`, and waits for the acknowledgement.
    pub(crate) fn resume(&mut self, listener: u16, number: Seq) {
        self.listener = Some(listener);
        (self.snd_una, self.snd_nxt) = (number, number + 1);
        self.rcv_adv = self.rcv_nxt + self.receive_room().min(65_535);
        self.last_ack_sent = self.rcv_nxt;
    }

    /// Whether a connection in TIME-WAIT may end for the sake of the SYN `s`:
    /// nothing old can be taken for new (RFC 6191, RFC 9293 §3.6.1).
    #[inline]
    pub(crate) fn gives_way_to(&self, s: &Segment<'_>) -> bool {
        let State::TimeWait { .. } = self.state else { return false };
        let opens =
            s.flags.contains(Flags::SYN) && !s.flags.contains(Flags::ACK) && !s.flags.contains(Flags::RST);
        let later = match s.options.timestamps {
            Some(stamps) if self.flags.timestamps => (stamps.value.wrapping_sub(self.ts_recent) as i32) > 0,
            _ => false,
        };
        opens && (later || s.seq.after(self.rcv_nxt))
    }

    /// Handles one segment.
    #[inline]
    pub(crate) fn on_segment(&mut self, cx: &mut Context<'_>, s: &Segment<'_>, v: &Verdicts<'_>) -> Arrival {
        match self.state {
            State::Closed => Arrival::Done,
            State::SynSent => self.on_segment_in_syn_sent(cx, s, v),
            _ => self.on_segment_synchronized(cx, s, v),
        }
    }

    fn on_segment_in_syn_sent(&mut self, cx: &mut Context<'_>, s: &Segment<'_>, v: &Verdicts<'_>) -> Arrival {
        let acks_syn = s.ack.after(self.snd_una) && s.ack.at_or_before(self.snd_nxt + self.fast_end());
        let has = |flag| s.flags.contains(flag);
        if has(Flags::ACK) && !acks_syn {
            cx.counters.bad_acks += 1;
            return if has(Flags::RST) { Arrival::Done } else { Arrival::Refuse };
        }
        if has(Flags::RST) {
            if has(Flags::ACK) {
                self.end(cx, CloseReason::Reset);
            }
            return Arrival::Done;
        }
        if !has(Flags::SYN) || self.snd_una == self.snd_nxt {
            return Arrival::Done;
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
                return self.on_segment_synchronized(cx, &Segment { seq: s.seq + 1, flags, ..*s }, v);
            }
        } else {
            // Both sides open at once: our SYN goes out again, now with ACK.
            self.state = self.state.after(Step::Syn);
            self.resend_first();
        }
        Arrival::Done
    }

    /// Sends the first segment in flight again, whatever the window says.
    pub(crate) fn resend_first(&mut self) {
        let una = self.snd_una;
        let first = |start| if start == una { Judgement::Lost } else { Judgement::Stop };
        self.flight.mark_lost(|record| first(record.start));
        self.flags.retransmit_now = true;
    }

    fn on_handshake_done(&mut self, cx: &mut Context<'_>, s: &Segment<'_>) {
        self.on_syn_acked(cx, s);
        self.retries = 0;
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

    #[inline]
    fn on_segment_synchronized(
        &mut self,
        cx: &mut Context<'_>,
        s: &Segment<'_>,
        v: &Verdicts<'_>,
    ) -> Arrival {
        let has = |flag| s.flags.contains(flag);
        if !self.is_fresh(cx.now, s) && !has(Flags::RST) {
            cx.counters.paws += 1;
            // One without a timestamp is dropped silently (RFC 7323 §3.2).
            if s.options.timestamps.is_some() {
                self.answer_stray(cx, s);
            }
            return Arrival::Done;
        }
        if !self.is_acceptable(s) {
            return self.on_unacceptable(cx, s);
        }
        if has(Flags::RST) {
            // TIME-WAIT is there to outlast old duplicates: one of them may have
            // provoked the reset, which therefore ends nothing (RFC 1337 §3).
            if matches!(self.state, State::TimeWait { .. }) {
                cx.counters.time_wait_resets += 1;
            } else if s.seq == self.rcv_nxt {
                self.end(cx, CloseReason::Reset);
            } else {
                self.challenge(cx);
            }
            return Arrival::Done;
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
            return Arrival::Done;
        }
        if !has(Flags::ACK) {
            return Arrival::Done;
        }
        if let State::SynReceived { passive } = self.state {
            if passive && !v.room && !self.flags.announced {
                cx.counters.accept_drops += 1;
                return Arrival::Done;
            }
            if !(s.ack.after(self.snd_una) && s.ack.at_or_before(self.snd_nxt)) {
                cx.counters.bad_acks += 1;
                return Arrival::Refuse;
            }
        } else if s.ack.after(self.snd_nxt)
            || s.ack.distance(self.snd_una) < -(self.snd_wnd_max.min(i32::MAX as u32) as i32)
        {
            cx.counters.bad_acks += 1;
            self.challenge(cx);
            return Arrival::Done;
        }
        // The classifier may ask for the segment to be lost: nothing of it may count yet.
        let (offset, len) = self.fitting(s);
        let payload = &s.payload[offset..offset + len];
        let in_order = s.seq + offset as u32 == self.rcv_nxt;
        let lacking = in_order && self.recv.affordable(len, cx.pool) < len;
        if in_order && !lacking && len > 0 && self.state.can_receive_soon() {
            // Without a classifier the label is what the device gave.
            if self.has_classifier(v) {
                let Some(label) = self.classify(cx, payload, v.meta, v) else {
                    cx.counters.classifier_drops += 1;
                    return Arrival::Done;
                };
                cx.label = label;
            }
        }
        self.heard_at = cx.now;
        self.keep_alives = 0;
        if let Some(stamps) = s.options.timestamps
            && self.flags.timestamps
            && s.seq.at_or_before(self.last_ack_sent)
        {
            self.ts_recent = stamps.value;
            if len > 0 {
                self.window.on_echo(self.timestamp(cx.now).wrapping_sub(stamps.echo));
            }
        }
        self.on_mark(cx, s);
        if matches!(self.state, State::SynReceived { .. }) {
            self.state = self.state.after(Step::SynAcked);
            self.update_window(s, self.send_scale);
            if s.ack == self.snd_una + 1 {
                self.on_handshake_done(cx, s);
            } else {
                // With Fast Open it may acknowledge data, too.
                self.on_handshake_done(cx, &Segment { ack: self.snd_una + 1, ..*s });
                self.on_ack(cx, s);
            }
            if self.snd_una != self.snd_nxt {
                self.arm(cx.now, cx.config);
            }
        } else {
            self.on_ack(cx, s);
        }
        if self.state == State::Closed {
            return Arrival::Done;
        }
        if lacking {
            // As if it had been lost, but what it acknowledges frees memory.
            cx.counters.memory_drops += 1;
            return Arrival::Done;
        }
        if len > 0 && self.flags.detached && self.state.can_receive() {
            // Nobody will ever read it (RFC 9293 §3.6.1).
            self.end(cx, CloseReason::Aborted);
            return Arrival::Refuse;
        }
        if !s.payload.is_empty() {
            self.note_twice(s.seq, s.seq + offset as u32);
            self.on_payload(cx, s.seq + offset as u32, payload, offset == s.payload.len(), v);
        }
        if has(Flags::FIN) {
            self.early_fin.get_or_insert(s.seq + s.payload.len() as u32);
            self.owe_ack();
        }
        self.take_fin(cx);
        Arrival::Done
    }

    /// Protection against wrapped sequence numbers, RFC 7323 §5.3. After 24
    /// days of silence the timestamps themselves may have wrapped (§5.5).
    #[inline]
    fn is_fresh(&self, now: Time, s: &Segment<'_>) -> bool {
        match s.options.timestamps {
            Some(stamps) if self.flags.timestamps => {
                (stamps.value.wrapping_sub(self.ts_recent) as i32) >= 0
                    || now.since(self.heard_at) > Span::from_secs(24 * 24 * 3600)
            }
            None => !self.flags.timestamps,
            Some(_) => true,
        }
    }

    /// Whether any of the segment lies in the window, RFC 9293 §3.10.7.4.
    #[inline]
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

    fn on_unacceptable(&mut self, cx: &mut Context<'_>, s: &Segment<'_>) -> Arrival {
        if s.flags.contains(Flags::RST) {
            return Arrival::Done;
        }
        if self.ends_crossed_open(s) {
            self.state = self.state.after(Step::SynAcked);
            self.update_window(s, 0);
            self.on_handshake_done(cx, s);
            self.owe_ack();
            return Arrival::Done;
        }
        cx.counters.out_of_window += 1;
        let opens = s.flags.contains(Flags::SYN) && !s.flags.contains(Flags::ACK);
        if matches!(self.state, State::SynReceived { .. }) && opens {
            // The answer echoes this SYN and not the one before it, or the peer
            // would take its own patience for the length of the path.
            if s.seq + 1 == self.rcv_nxt
                && let Some(stamps) = s.options.timestamps
            {
                self.ts_recent = stamps.value;
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
        Arrival::Done
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

    #[inline]
    pub(super) fn owe_ack(&mut self) {
        self.acks_due = self.acks_due.max(1);
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

    /// Which part of the payload is new and has room: its offset and length.
    #[inline]
    fn fitting(&self, s: &Segment<'_>) -> (usize, usize) {
        // In order and well within what was promised, as nearly all are.
        let promised = self.rcv_adv.distance(self.rcv_nxt);
        if s.seq == self.rcv_nxt && s.payload.len() as i64 <= i64::from(promised) && self.early_fin.is_none()
        {
            return (0, s.payload.len());
        }
        self.fitting_part(s)
    }

    #[inline(never)]
    fn fitting_part(&self, s: &Segment<'_>) -> (usize, usize) {
        let old = (self.rcv_nxt.distance(s.seq).max(0) as usize).min(s.payload.len());
        let start = s.seq + old as u32;
        let room = (self.rcv_nxt + self.receive_window()).distance(start).max(0) as usize;
        let mut len = (s.payload.len() - old).min(room);
        if let Some(fin) = self.early_fin {
            len = len.min(fin.distance(start).max(0) as usize);
        }
        (old, len)
    }

    /// Whether anyone is to be asked for a label.
    #[inline]
    fn has_classifier(&self, v: &Verdicts<'_>) -> bool {
        self.classifier.is_some() || v.listener.is_some() || v.default.is_some()
    }

    /// Asks who is urgent; `None` means that the segment is to be lost. Asked
    /// for `payload` in order: once for every byte that is not dropped.
    #[inline]
    pub(super) fn classify(
        &mut self,
        cx: &mut Context<'_>,
        payload: &[u8],
        meta: &PacketMeta,
        v: &Verdicts<'_>,
    ) -> Option<Label> {
        let given = Label::new(meta.priority.unwrap_or_default());
        let own = self.classifier.take();
        let Some(classifier) = own.as_ref().or(v.listener).or(v.default) else { return Some(given) };
        let mut flow = self.flow();
        flow.received += queueing::Bytes::new(payload.len() as u64);
        let mut context = FlowContext {
            meta,
            payload,
            tuple: &self.tuple,
            flow,
            private: &mut self.private,
            app: self.app.as_deref().map(|app| &**app as &(dyn std::any::Any + Send + Sync)),
            successor: None,
        };
        let verdict = catch_unwind(AssertUnwindSafe(|| classifier(&mut context)));
        let successor = context.successor.take();
        self.classifier = successor.or(own);
        match verdict {
            Ok(Verdict::Keep) => Some(given),
            Ok(Verdict::Drop) => None,
            Ok(Verdict::Level(level)) => match Priority::new(level) {
                Some(priority) => Some(Label::new(priority)),
                None => {
                    cx.counters.classifier_out_of_range += 1;
                    Some(given)
                }
            },
            Err(panic) => {
                cx.counters.classifier_panics += 1;
                // The payload of a panic may itself panic when it is dropped.
                if let Err(again) = catch_unwind(AssertUnwindSafe(|| drop(panic))) {
                    std::mem::forget(again);
                }
                Some(given)
            }
        }
    }

    #[inline]
    pub(super) fn update_window(&mut self, s: &Segment<'_>, scale: u8) {
        self.snd_wnd = u32::from(s.window) << scale;
        self.snd_wnd_max = self.snd_wnd_max.max(self.snd_wnd);
        self.snd_wl1 = s.seq;
        self.snd_wl2 = s.ack;
    }

    #[inline]
    fn on_payload(&mut self, cx: &mut Context<'_>, start: Seq, payload: &[u8], old: bool, v: &Verdicts<'_>) {
        if !self.state.can_receive() {
            self.owe_ack();
            return;
        }
        if payload.is_empty() {
            cx.counters.duplicates += u64::from(old);
            self.owe_ack();
            return;
        }
        if start != self.rcv_nxt {
            cx.counters.out_of_order += 1;
            // Each one tells the peer once more what is missing.
            self.acks_due = self.acks_due.saturating_add(1);
            if !cx.pool.allows(Use::Early, payload.len() + Reassembly::PIECE_BYTES) {
                cx.counters.memory_drops += 1;
                return;
            }
            let reassembly = self.reassembly.get_or_insert_with(|| Box::new(Reassembly::new()));
            if reassembly.insert(start, payload, v.meta, cx.pool) == 0 && reassembly.holds(start) {
                self.note_twice(start, start + payload.len() as u32);
            }
            return;
        }
        let before = self.rcv_nxt;
        self.append(cx, payload);
        let gap = self.reassembly.is_some();
        if gap {
            self.append_reassembled(cx, v);
        }
        self.set_level(cx.label.priority);
        if cx.pool.is_short() {
            self.shorten_window(cx);
        }
        self.owe_ack_for_data(cx, gap);
        if !self.flags.detached {
            let fresh = self.rcv_nxt - before;
            cx.push(EventKind::Readable { fresh });
        }
    }

    /// `[start, end)`, if that is anything, came a second time: the peer is told.
    #[inline]
    fn note_twice(&mut self, start: Seq, end: Seq) {
        if start.before(end) && self.flags.sack && self.state.can_receive() {
            self.reassembly.get_or_insert_with(|| Box::new(Reassembly::new())).twice = Some((start, end));
        }
    }

    #[inline]
    pub(super) fn append(&mut self, cx: &mut Context<'_>, payload: &[u8]) {
        self.recv.push(payload, cx.pool);
        self.rcv_nxt += payload.len() as u32;
        self.received += payload.len() as u64;
    }

    /// Moves what has become in order, segment by segment; the most urgent
    /// label of all goes on. A segment that the classifier drops now was
    /// reported as here, which the peer must expect to be taken back (RFC 2018 §8).
    fn append_reassembled(&mut self, cx: &mut Context<'_>, v: &Verdicts<'_>) {
        let Some(mut reassembly) = self.reassembly.take() else { return };
        while let Some(piece) = reassembly.pop(self.rcv_nxt) {
            for (bytes, meta) in piece.segments(self.rcv_nxt) {
                let Some(label) = self.classify(cx, bytes, meta, v) else {
                    cx.counters.classifier_drops += 1;
                    break;
                };
                self.append(cx, bytes);
                if label.priority < cx.label.priority {
                    cx.label = label;
                }
            }
            piece.release(cx.pool);
        }
        if !reassembly.is_empty() {
            self.reassembly = Some(reassembly);
        }
    }

    /// Handles the peer's FIN once everything before it is here.
    #[inline]
    fn take_fin(&mut self, cx: &mut Context<'_>) {
        if self.early_fin != Some(self.rcv_nxt) || !self.state.can_receive() {
            return;
        }
        self.early_fin = None;
        self.rcv_nxt += 1;
        let until = cx.now + cx.config.time_wait;
        self.state = self.state.after(Step::Fin { until });
        if let State::TimeWait { .. } = self.state {
            self.release_send(cx.pool);
            self.rto_at = Time::MAX;
        }
        self.owe_ack();
        if !self.flags.detached {
            cx.push(EventKind::PeerClosed);
        }
    }
}
