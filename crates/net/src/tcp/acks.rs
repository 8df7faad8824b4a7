//! ACK processing: frees acknowledged data, samples the round-trip time, grows the window.
//!
//! Loss is not decided here: `recovery` evaluates the result of each acknowledgement.
//! Source: RFC 5681, 6298, 2018, 2883.

use queueing::{Bytes, Span, Time};
use wire::tcp::{Flags, Segment, Seq};

use super::congestion::{Ack, Congestion, CongestionControl};
use super::connection::{Connection, Context, Recovery};
use super::rack::RackSample;
use super::retransmit_queue::Record;
use super::state::{State, Step};
use super::store::ByteStore;
use crate::stack::{CloseReason, EventKind};

/// Result of one acknowledgement.
#[derive(Clone, Copy, Debug)]
pub(super) struct AckResult {
    /// Bytes newly delivered, cumulatively or by SACK.
    pub(super) bytes: u32,
    /// Bytes by which `snd_una` advances.
    pub(super) advanced: u32,
    /// Number of bytes in flight before, and number of them that were SACKed.
    pub(super) flight: u32,
    pub(super) sacked: u32,
    /// True for a duplicate acknowledgement, as a segment received out of order causes.
    pub(super) duplicate: bool,
    /// True if it delivers a segment that was sent before the current timeout and never
    /// retransmitted.
    pub(super) original: bool,
    /// True if the ACK carries an ECN echo.
    pub(super) marked: bool,
    /// Range that the peer received twice (D-SACK).
    pub(super) twice: Option<(Seq, Seq)>,
    /// Round trip of the oldest delivered segment, if unambiguous.
    pub(super) rtt: Option<Span>,
    pub(super) echo_ms: Option<u32>,
    /// Send times of the oldest and the youngest delivered segment that were sent once.
    oldest: Time,
    youngest: Time,
    /// True if the ACK covers a retransmitted segment (Karn's rule).
    pub(super) retransmitted: bool,
}

impl AckResult {
    #[inline]
    fn add(&mut self, record: &Record) {
        self.bytes += record.len();
        if !record.retransmitted {
            self.oldest = self.oldest.min(record.sent);
            self.youngest = self.youngest.max(record.sent);
        }
    }
}

impl<B: ByteStore> Connection<B> {
    #[inline]
    fn result(&self, s: &Segment<'_>) -> AckResult {
        let stamps = s.options.timestamps.filter(|_| self.flags.timestamps);
        AckResult {
            bytes: 0,
            advanced: 0,
            flight: self.snd_nxt - self.snd_una,
            sacked: self.flight.sacked(),
            duplicate: false,
            original: false,
            marked: self.is_echo(s),
            twice: None,
            rtt: None,
            echo_ms: stamps.map(|stamps| stamps.echo.wrapping_sub(self.ts_offset)),
            oldest: Time::MAX,
            youngest: Time::ZERO,
            retransmitted: false,
        }
    }

    #[inline]
    pub(super) fn on_ack(&mut self, cx: &mut Context<'_>, s: &Segment<'_>) {
        match self.everything_in_order(s) {
            Some(sent) => self.on_everything_acknowledged(cx, s.ack, sent),
            None => self.on_any_ack(cx, s),
        }
        self.take_window(cx, s);
    }

    /// Send time of the only segment in flight, if `s` acknowledges it and no other condition
    /// applies.
    ///
    /// Common case of a request or a response (header prediction, RFC 1323 §4.2.1).
    #[inline]
    fn everything_in_order(&self, s: &Segment<'_>) -> Option<Time> {
        let plain = s.ack == self.snd_nxt
            && s.options.sack.is_empty()
            && self.recovery == Recovery::None
            && self.tlp.is_none()
            && self.ecn_pacing.is_none()
            && !(self.flags.fin_sent | self.flags.blocked);
        self.flight.single().filter(|_| plain)
    }

    /// Same as [`Connection::on_any_ack`] for a single segment sent at `sent`.
    ///
    /// Each step has its counterpart there.
    #[inline]
    fn on_everything_acknowledged(&mut self, cx: &mut Context<'_>, ack: Seq, sent: Time) {
        let flight = ack - self.snd_una;
        self.send.pop(flight as usize, cx.pool);
        self.acknowledged += u64::from(flight);
        self.flight.settle();
        self.set_acknowledged(ack);
        (self.retries, self.duplicate_acks) = (0, 0);
        self.restart_user_timeout();
        self.flags.tlp_due = false;
        let rtt = cx.now.since(sent);
        self.rtt.on_sample(rtt);
        self.reordering.on_rtt(cx.now, rtt);
        self.grow_by(cx.now, flight, flight, Some(rtt), false);
        (self.rto_at, self.early_at) = (Time::MAX, Time::MAX);
    }

    /// Updates the send window from `s` unless `s` is older than the last update.
    #[inline]
    fn take_window(&mut self, cx: &mut Context<'_>, s: &Segment<'_>) {
        let newer = self.snd_wl1.before(s.seq) || (self.snd_wl1 == s.seq && self.snd_wl2.at_or_before(s.ack));
        if s.ack.at_or_after(self.snd_una) && newer {
            let was = self.snd_wnd;
            self.update_window(s, self.send_scale);
            if was < self.snd_wnd && self.is_stalled() {
                self.rto_at = Time::MAX;
                self.rtt.on_progress();
                // The wait for the window was an idle period, too (RFC 5681 §4.1).
                self.on_resume(cx);
            }
        }
    }

    #[inline(never)]
    fn on_any_ack(&mut self, cx: &mut Context<'_>, s: &Segment<'_>) {
        let mut result = self.result(s);
        let awaited = result.flight != 0 || self.tlp.is_some();
        if s.ack.after(self.snd_una) {
            self.take_acknowledged(cx, s.ack, &mut result);
        }
        if self.flags.sack && !s.options.sack.is_empty() && (awaited || self.undo.is_open()) {
            self.take_reports(cx, s, &mut result);
        }
        let window = u32::from(s.window) << self.send_scale;
        let bare = s.payload.is_empty() && !s.flags.contains(Flags::FIN) && window == self.snd_wnd;
        result.duplicate =
            result.advanced == 0 && s.ack == self.snd_una && awaited && (bare || result.bytes > 0);
        if result.advanced > 0 || result.bytes > 0 || result.duplicate || result.twice.is_some() {
            self.on_ack_result(cx, s, &mut result);
        }
        if self.ecn_pacing.is_some() {
            self.judge_path_probe(cx.now);
            if result.marked {
                self.on_echo(cx, result.flight, result.bytes);
            }
        }
        // Any acknowledgement answers a probe.
        if result.flight == 0 || window == 0 {
            self.retries = 0;
        }
    }

    /// Our SYN is acknowledged; the acknowledgement yields only a round-trip sample.
    pub(super) fn on_syn_acked(&mut self, cx: &mut Context<'_>, s: &Segment<'_>) {
        let mut result = self.result(s);
        // The echo may be that of the first copy of a retransmitted SYN, since the peer's own timer
        // makes it answer, too. The sample would include our timeout.
        result.echo_ms = None;
        self.take_records(cx, s.ack, &mut result);
        self.sample_rtt(cx.now, &mut result);
        self.snd_una = s.ack;
        if self.flight.is_empty() {
            self.flight.close(cx.pool);
        }
    }

    /// Removes acknowledged data before `ack` from the send queue.
    #[inline]
    fn take_acknowledged(&mut self, cx: &mut Context<'_>, ack: Seq, result: &mut AckResult) {
        let acked = ack - self.snd_una;
        let fin = self.flags.fin_sent && ack == self.snd_nxt && acked as usize > self.send.len();
        let data = acked - u32::from(fin);
        self.send.pop(data as usize, cx.pool);
        self.acknowledged += u64::from(data);
        self.take_records(cx, ack, result);
        self.set_acknowledged(ack);
        result.advanced = acked;
    }

    #[inline]
    fn take_records(&mut self, cx: &mut Context<'_>, ack: Seq, result: &mut AckResult) {
        if self.flight.records().is_none() {
            return self.flight.acknowledge(ack, |_, record| {
                result.add(record);
                result.retransmitted |= record.retransmitted;
            });
        }
        let arrived = self.arrived(cx.now, result);
        let until = self.timeout_until();
        let mut reordered = false;
        self.flight.acknowledge(ack, |records, record| {
            result.add(record);
            result.retransmitted |= record.retransmitted;
            if let Some(records) = records {
                reordered |= records.rack.on_delivered(record, &arrived);
                result.original |=
                    !record.retransmitted && until.is_some_and(|until| record.end.at_or_before(until));
            }
        });
        if reordered {
            self.reordering.on_reordering();
        }
    }

    /// Processes the SACK blocks and the D-SACK block.
    ///
    /// The first block is a D-SACK if it lies before the acknowledgement or within the second block
    /// (RFC 2883 §4).
    fn take_reports(&mut self, cx: &mut Context<'_>, s: &Segment<'_>, result: &mut AckResult) {
        let blocks = s.options.sack.as_slice();
        let within = |a: (Seq, Seq), b: (Seq, Seq)| a.0.at_or_after(b.0) && a.1.at_or_before(b.1);
        let first = blocks[0];
        if first.0.before(first.1)
            && (first.1.at_or_before(s.ack) || blocks.get(1).is_some_and(|second| within(first, *second)))
        {
            result.twice = Some(first);
        }
        let arrived = self.arrived(cx.now, result);
        let until = self.timeout_until();
        let mut reordered = false;
        // Blocks are listed latest first. RACK needs them by sequence number (RFC 8985 §6.2 step
        // 3).
        let mut ascending = s.options.sack;
        ascending.sort_after(self.snd_una);
        for &(start, end) in ascending.as_slice() {
            let valid = start.before(end) && start.after(self.snd_una) && end.at_or_before(self.snd_nxt);
            if !valid || start.before(s.ack) {
                continue;
            }
            self.flight.sack(start, end, cx.pool, |rack, record| {
                result.add(record);
                reordered |= rack.on_delivered(record, &arrived);
                result.original |=
                    !record.retransmitted && until.is_some_and(|until| record.end.at_or_before(until));
            });
        }
        if reordered {
            self.reordering.on_reordering();
        }
    }

    #[inline]
    fn arrived(&self, now: Time, result: &AckResult) -> RackSample {
        RackSample { now, echo_ms: result.echo_ms, min_rtt: self.reordering.min_rtt() }
    }

    /// End of the flight of the latest timeout, during its recovery.
    #[inline]
    fn timeout_until(&self) -> Option<Seq> {
        match self.recovery {
            Recovery::Timeout { until } => Some(until),
            _ => None,
        }
    }

    /// Samples the round-trip time of the oldest delivered segment, unless retransmissions make it
    /// ambiguous.
    ///
    /// Timestamps would resolve the ambiguity but not measure the time: behind a hole they echo an
    /// earlier segment (RFC 7323 §4.3).
    #[inline]
    fn sample_rtt(&mut self, now: Time, result: &mut AckResult) {
        if result.oldest != Time::MAX && !result.retransmitted {
            let rtt = now.since(result.oldest);
            self.rtt.on_sample(rtt);
            self.reordering.on_rtt(now, now.since(result.youngest));
            result.rtt = Some(rtt);
        }
    }

    #[inline]
    fn on_ack_result(&mut self, cx: &mut Context<'_>, s: &Segment<'_>, result: &mut AckResult) {
        if result.advanced > 0 {
            self.retries = 0;
            self.restart_user_timeout();
            self.rtt.on_progress();
            self.flags.tlp_due = false;
        }
        self.sample_rtt(cx.now, result);
        let smooth = self.recovery == Recovery::None
            && result.advanced > 0
            && result.sacked == 0
            && self.flight.is_smooth()
            && self.tlp.is_none()
            && result.twice.is_none();
        if smooth {
            self.duplicate_acks = 0;
            self.grow(cx.now, result.advanced, result);
        } else {
            self.repair(cx, s, result);
        }
        if result.advanced > 0 {
            self.on_advance(cx);
        }
        self.arm_early(cx.now, cx.config);
    }

    /// Reports `acked` delivered bytes to congestion control.
    #[inline]
    pub(super) fn grow(&mut self, now: Time, acked: u32, result: &AckResult) {
        if result.marked && !self.grows_by_echoes() {
            return;
        }
        self.grow_by(now, acked, result.flight, result.rtt, result.marked);
    }

    #[inline]
    fn grow_by(&mut self, now: Time, acked: u32, flight: u32, rtt: Option<Span>, marked: bool) {
        let limited = self.congestion.limits(flight, self.mss);
        self.tell(now, acked, flight, rtt, marked, limited);
    }

    /// Reports delivered bytes to congestion control.
    ///
    /// The window may grow by them only if it was `limited`, that is, held the flight back.
    #[inline]
    pub(super) fn tell(
        &mut self,
        now: Time,
        acked: u32,
        flight: u32,
        rtt: Option<Span>,
        marked: bool,
        limited: bool,
    ) {
        if let (Congestion::Cubic(own), false) = (&mut self.congestion, limited) {
            // The common case; CUBIC needs nothing else.
            return own.on_unused(now);
        }
        let bytes = |n: u32| Bytes::new(u64::from(n));
        let delivered = self.acknowledged + u64::from(self.flight.sacked());
        self.congestion.on_ack(&Ack {
            now,
            acked: bytes(acked),
            flight: bytes(flight),
            srtt: self.rtt.srtt(),
            rtt,
            marked: if marked { bytes(acked) } else { Bytes::ZERO },
            delivered,
            sent: self.acknowledged + self.unacknowledged().get(),
            limited,
        });
    }

    /// Follow-up work after `snd_una` has advanced.
    #[inline]
    fn on_advance(&mut self, cx: &mut Context<'_>) {
        let idle = self.snd_una == self.snd_nxt;
        if idle {
            self.rto_at = Time::MAX;
            self.flight.close(cx.pool);
        } else {
            self.rto_at = self.rto_from(cx.now, cx.config);
        }
        if self.flags.blocked && self.send.len() <= self.send_limit(cx.config, cx.pool) / 2 {
            self.flags.blocked = false;
            cx.push(EventKind::Writable);
        }
        // FIN has the last sequence number: it is acknowledged if everything is.
        if idle && self.flags.fin_sent {
            let until = cx.now + cx.config.time_wait;
            self.state = self.state.after(Step::FinAcked { until });
            match self.state {
                State::Closed => self.end(cx, CloseReason::Finished),
                State::TimeWait { .. } => self.release_send(cx.pool),
                _ => self.limit_fin_wait(cx),
            }
        }
    }
}
