//! Processing of an arriving segment, in the order of RFC 9293 §3.10.7.
//!
//! The checks of RFC 9293 §3.10.7.4 that come before a segment has any effect are in
//! `acceptability`.
//! Source: RFC 9293 §3.10.7.

use classify::catch_panic::{apply_verdict, catch};
use classify::{FlowContext, PacketMeta, TransportClassifier};
use queueing::{Label, Time};
use wire::tcp::{Flags, Segment, Seq};

use super::buffer::MemoryClass;
use super::connection::{Connection, Context};
use super::reassembly::{RANGE_BYTES, Reassembly};
use super::state::{State, Step};
use super::store::ByteStore;
use crate::stack::{CloseReason, EventKind};

/// Action left to the stack after a segment.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SegmentOutcome {
    /// No action.
    Done,
    /// Answer with a reset; the connection stays.
    Refuse,
    /// Answer with a reset, which ends the connection.
    Reset,
}

/// Classifiers for a connection that has none of its own.
#[derive(Clone, Copy)]
pub(crate) struct Verdicts<'a> {
    pub(crate) listener: Option<&'a TransportClassifier>,
    pub(crate) default: Option<&'a TransportClassifier>,
    pub(crate) meta: &'a PacketMeta,
    /// The listener has space for one more connection.
    pub(crate) has_space: bool,
}

impl<B: ByteStore> Connection<B> {
    /// Processes one segment.
    #[inline]
    pub(crate) fn on_segment(
        &mut self,
        cx: &mut Context<'_>,
        s: &Segment<'_>,
        v: &Verdicts<'_>,
    ) -> SegmentOutcome {
        if let Some(arrival) = self.on_common_segment(cx, s, v) {
            return arrival;
        }
        self.on_any_segment(cx, s, v)
    }

    #[inline(never)]
    pub(crate) fn on_any_segment(
        &mut self,
        cx: &mut Context<'_>,
        s: &Segment<'_>,
        v: &Verdicts<'_>,
    ) -> SegmentOutcome {
        match self.state {
            State::Closed => SegmentOutcome::Done,
            State::SynSent => self.on_segment_in_syn_sent(cx, s, v),
            _ => self.on_segment_synchronized(cx, s, v),
        }
    }

    pub(super) fn on_segment_synchronized(
        &mut self,
        cx: &mut Context<'_>,
        s: &Segment<'_>,
        v: &Verdicts<'_>,
    ) -> SegmentOutcome {
        if !self.expects(s)
            && let Some(arrival) = self.screen(cx, s, v)
        {
            return arrival;
        }
        // The classifier may drop the segment: until it has run, the segment must have no effect.
        let (offset, len) = self.fitting(s);
        let payload = &s.payload[offset..offset + len];
        let in_order = s.seq + offset as u32 == self.rcv_nxt;
        let lacking = in_order && self.recv.affordable(len, cx.pool) < len;
        if in_order && !lacking && len > 0 && self.state.can_receive_soon() {
            // Without a classifier the device's label applies.
            if self.has_classifier(v) {
                let Some(label) = self.classify(cx, payload, v.meta, v) else {
                    cx.counters.classifier_drops += 1;
                    return SegmentOutcome::Done;
                };
                cx.label = label;
            }
        }
        (self.received_at, self.keep_alives) = (cx.now, 0);
        self.take_stamps(cx.now, s, len);
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
            return SegmentOutcome::Done;
        }
        if lacking {
            // Dropped like a lost segment, except that its acknowledgement has freed memory.
            cx.counters.memory_drops += 1;
            return SegmentOutcome::Done;
        }
        if len > 0 && self.flags.detached && self.state.can_receive() {
            // No reader is left (RFC 9293 §3.6.1).
            self.end(cx, CloseReason::Aborted);
            return SegmentOutcome::Reset;
        }
        let fin = s.flags.contains(Flags::FIN);
        if fin {
            self.early_fin.get_or_insert(s.seq + s.payload.len() as u32);
        }
        if !s.payload.is_empty() {
            self.record_duplicate(s.seq, s.seq + offset as u32);
            self.on_payload(cx, s.seq + offset as u32, payload, offset == s.payload.len(), v);
        }
        if fin {
            self.owe_ack();
        }
        self.take_fin(cx);
        SegmentOutcome::Done
    }

    /// Stores the timestamp of `s`, which carries `len` bytes that fit.
    #[inline]
    pub(super) fn take_stamps(&mut self, now: Time, s: &Segment<'_>, len: usize) {
        if let Some(stamps) = s.options.timestamps
            && self.flags.timestamps
            && s.seq.at_or_before(self.last_ack_sent)
        {
            self.ts_recent = stamps.value;
            if len > 0 {
                self.window.on_echo(self.timestamp(now).wrapping_sub(stamps.echo));
            }
        }
    }

    #[inline]
    pub(super) fn owe_ack(&mut self) {
        self.acks_due = self.acks_due.max(1);
    }

    /// New part of the payload that fits the window: offset and length.
    #[inline]
    fn fitting(&self, s: &Segment<'_>) -> (usize, usize) {
        // Common case: in order and within the advertised window.
        let promised = self.rcv_adv.distance(self.rcv_nxt);
        if s.seq == self.rcv_nxt && s.payload.len() as i64 <= i64::from(promised) && self.early_fin.is_none()
        {
            return (0, s.payload.len());
        }
        self.fitting_part(s)
    }

    #[inline(never)]
    fn fitting_part(&self, s: &Segment<'_>) -> (usize, usize) {
        let duplicate = (self.rcv_nxt.distance(s.seq).max(0) as usize).min(s.payload.len());
        let start = s.seq + duplicate as u32;
        let has_space = (self.rcv_nxt + self.receive_window()).distance(start).max(0) as usize;
        let mut len = (s.payload.len() - duplicate).min(has_space);
        if let Some(fin) = self.early_fin {
            len = len.min(fin.distance(start).max(0) as usize);
        }
        (duplicate, len)
    }

    /// True if a classifier applies.
    #[inline]
    pub(super) fn has_classifier(&self, v: &Verdicts<'_>) -> bool {
        self.classifier.is_some() || v.listener.is_some() || v.default.is_some()
    }

    /// Label of `payload` by the classifier; `None` if the segment is to be dropped.
    ///
    /// Called in order, once for every byte that is not dropped.
    #[inline]
    pub(super) fn classify(
        &mut self,
        cx: &mut Context<'_>,
        payload: &[u8],
        meta: &PacketMeta,
        v: &Verdicts<'_>,
    ) -> Option<Label> {
        let driver_label = Label::new(meta.priority.unwrap_or_default());
        let own = self.classifier.take();
        let Some(classifier) = own.as_ref().or(v.listener).or(v.default) else { return Some(driver_label) };
        let mut flow = self.flow();
        flow.received += queueing::Bytes::new(payload.len() as u64);
        let mut memory = self.rare.as_deref_mut().and_then(|rare| rare.memory.take());
        let mut context = FlowContext {
            now: cx.now,
            meta,
            payload,
            tuple: &self.tuple,
            flow,
            private: &mut self.private,
            app: self.rare.as_deref().and_then(|rare| rare.app.as_deref()),
            memory: Some(&mut memory),
            successor: None,
        };
        let verdict = catch(&mut cx.counters.classifier_panics, || classifier(&mut context));
        let successor = context.successor.take();
        self.classifier = successor.or(own);
        if memory.is_some() {
            self.rare.get_or_insert_default().memory = memory;
        }
        apply_verdict(&mut cx.counters.classifier_out_of_range, driver_label, verdict)
    }

    /// Notifies the classifier's state that the application has written a response.
    #[inline(never)]
    pub(super) fn notify_classifier(&mut self, cx: &mut Context<'_>) {
        let Some(memory) = self.rare.as_deref_mut().and_then(|rare| rare.memory.as_mut()) else { return };
        catch(&mut cx.counters.classifier_panics, || memory.on_answer(cx.now));
    }

    #[inline]
    pub(super) fn update_window(&mut self, s: &Segment<'_>, scale: u8) {
        self.snd_wnd = u32::from(s.window) << scale;
        self.snd_wnd_max = self.snd_wnd_max.max(self.snd_wnd);
        self.snd_wl1 = s.seq;
        self.snd_wl2 = s.ack;
    }

    #[inline]
    fn on_payload(
        &mut self,
        cx: &mut Context<'_>,
        start: Seq,
        payload: &[u8],
        duplicate: bool,
        v: &Verdicts<'_>,
    ) {
        if !self.state.can_receive() {
            self.owe_ack();
            return;
        }
        if payload.is_empty() {
            cx.counters.duplicates += u64::from(duplicate);
            self.owe_ack();
            return;
        }
        if start != self.rcv_nxt {
            cx.counters.out_of_order += 1;
            // Each one causes a duplicate ACK.
            self.acks_due = self.acks_due.saturating_add(1);
            if !cx.pool.allows(MemoryClass::Early, payload.len() + RANGE_BYTES) {
                cx.counters.memory_drops += 1;
                return;
            }
            let reassembly = self.reassembly.get_or_insert_with(|| Box::new(Reassembly::new()));
            if reassembly.insert(start, payload, v.meta, cx.pool) == 0 && reassembly.holds(start) {
                cx.counters.duplicates += 1;
                self.record_duplicate(start, start + payload.len() as u32);
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

    /// Records `[start, end)`, unless empty, as received twice, to be reported by D-SACK.
    #[inline]
    pub(super) fn record_duplicate(&mut self, start: Seq, end: Seq) {
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

    /// Moves data that is now in order to the receive queue, segment by segment.
    ///
    /// The most urgent label applies to all of it. A segment that the classifier drops here was
    /// already SACKed; the peer must expect that (RFC 2018 §8).
    fn append_reassembled(&mut self, cx: &mut Context<'_>, v: &Verdicts<'_>) {
        let Some(mut reassembly) = self.reassembly.take() else { return };
        while let Some(range) = reassembly.pop(self.rcv_nxt) {
            for (bytes, meta) in range.segments(self.rcv_nxt) {
                // Data beyond FIN is ignored (RFC 9293 §3.10.7.4).
                let most =
                    self.early_fin.map_or(bytes.len(), |fin| fin.distance(self.rcv_nxt).max(0) as usize);
                let bytes = &bytes[..bytes.len().min(most)];
                if bytes.is_empty() {
                    break;
                }
                let Some(label) = self.classify(cx, bytes, meta, v) else {
                    cx.counters.classifier_drops += 1;
                    break;
                };
                self.append(cx, bytes);
                if label.priority < cx.label.priority {
                    cx.label = label;
                }
            }
            range.release(cx.pool);
        }
        if !reassembly.is_empty() {
            self.reassembly = Some(reassembly);
        }
    }

    /// Processes the peer's FIN once all data before it has been received.
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
