//! Fast path of an established connection without loss or special state.
//!
//! A request and its response are nearly always one segment each, in order. Each condition of the
//! fast path is a single comparison. If all hold, the remaining work is that of `input` for a
//! segment, or of `output` for a plan, without the steps whose conditions are known to be false.
//!
//! If a condition fails, nothing changes. Both paths leave the same state: a test drives two hosts
//! through the same packets, one of which uses only the slow path.
//! Source: header prediction, RFC 1323 §4.2.1.

use super::flags::Hold;
use queueing::Time;
use wire::tcp::{Segment, Seq, Timestamps};

use super::connection::{Connection, Context, Recovery};
use super::input::{SegmentOutcome, Verdicts};
use super::state::State;
use super::store::ByteStore;
use crate::stack::{Config, EventKind};

impl<B: ByteStore> Connection<B> {
    /// Processes the expected segment on a connection without special state; `None` leaves it to
    /// the slow path.
    #[inline]
    pub(super) fn on_common_segment(
        &mut self,
        cx: &mut Context<'_>,
        s: &Segment<'_>,
        v: &Verdicts<'_>,
    ) -> Option<SegmentOutcome> {
        let amiss = self.early_fin.is_some()
            | self.reassembly.is_some()
            | self.ecn_pacing.is_some()
            | self.flags.detached;
        let len = s.payload.len();
        if amiss || !self.expects(s) || self.recv.affordable(len, cx.pool) < len || is_disabled() {
            return None;
        }
        if len > 0 && self.has_classifier(v) {
            let Some(label) = self.classify(cx, s.payload, v.meta, v) else {
                cx.counters.classifier_drops += 1;
                return Some(SegmentOutcome::Done);
            };
            cx.label = label;
        }
        count_use();
        (self.received_at, self.keep_alives) = (cx.now, 0);
        self.take_stamps(cx.now, s, len);
        self.on_ack(cx, s);
        if len > 0 {
            self.append(cx, s.payload);
            self.set_level(cx.label.priority);
            if cx.pool.is_short() {
                self.shorten_window(cx);
            }
            self.owe_ack_for_data(cx, false);
            cx.push(EventKind::Readable { fresh: len as u32 });
        }
        Some(SegmentOutcome::Done)
    }

    /// Length of a single segment that carries all queued data, with nothing in flight; `None`
    /// leaves it to the slow path.
    #[inline]
    pub(crate) fn single_segment_len(&self) -> Option<u32> {
        let len = self.send.len() as u32;
        let amiss = self.flags.probe_due
            | self.flags.tlp_due
            | self.flags.retransmit_now
            | self.flags.fin_queued
            | self.flags.hold.has(Hold::CORK)
            | self.ecn_pacing.is_some()
            | self.reassembly.is_some();
        let is_eligible = self.state == State::Established
            && !amiss
            && self.flags.timestamps
            && self.snd_una == self.snd_nxt
            && self.recovery == Recovery::None
            && self.flight.is_at_rest()
            && len.wrapping_sub(1) < u32::from(self.mss).min(self.snd_wnd);
        (is_eligible && !is_disabled()).then_some(len)
    }

    /// Timestamps option of a segment sent at `now`.
    #[inline]
    pub(crate) fn stamps(&self, now: Time) -> Timestamps {
        Timestamps { value: self.timestamp(now), echo: self.ts_recent }
    }

    /// All queued data was sent in one segment at `now`, with a window up to `edge`.
    #[inline]
    pub(crate) fn on_all_transmitted(&mut self, edge: Seq, now: Time, config: &Config) {
        count_use();
        let end = self.snd_nxt + self.send.len() as u32;
        (self.flags.ack_delayed, self.flags.ack_waits) = (false, false);
        (self.rcv_adv, self.last_ack_sent, self.acks_due) = (edge, self.rcv_nxt, 0);
        self.segments.on_sent(1);
        self.flight.start(self.snd_nxt, end, now);
        self.snd_nxt = end;
        self.transmit.on_sent(end);
        self.rto_at = self.rto_from(now, config);
        let probes = config.rack & self.flags.sack & self.tlp.is_none();
        self.early_at = if probes { self.probe_at(now, true, config) } else { Time::MAX };
    }
}

/// True if a test disables the fast path.
#[inline]
fn is_disabled() -> bool {
    #[cfg(test)]
    return testing::DISABLED.get();
    #[cfg(not(test))]
    false
}

/// Counts uses of the fast path, for tests.
#[inline]
fn count_use() {
    #[cfg(test)]
    testing::USES.set(testing::USES.get() + 1);
}

#[cfg(test)]
pub(crate) mod testing {
    use std::cell::Cell;

    thread_local! {
        /// Disables the fast path on this thread.
        pub(crate) static DISABLED: Cell<bool> = const { Cell::new(false) };
        /// Number of fast-path uses on this thread.
        pub(crate) static USES: Cell<u32> = const { Cell::new(0) };
    }
}
