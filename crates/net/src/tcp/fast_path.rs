//! The short ways of an open connection on which nothing is amiss.
//!
//! A request and its response are nearly always one segment each, in order,
//! and nothing else happens to them. Here stand the conditions for that, each a
//! single comparison, and what is left to do when all of them hold: what
//! `input` does with a segment and what `output` does with a plan, less the
//! steps whose conditions are known to be false. Both change nothing unless
//! the conditions hold, and both leave what the long way leaves: a test drives
//! two hosts through the same packets, one of which knows only the long way.
//! Source: the idea is header prediction, RFC 1323 §4.2.1.

use queueing::Time;

use super::connection::{Connection, Context, Recovery};
use super::input::{SegmentOutcome, Verdicts};
use super::state::State;
use super::store::ByteStore;
use crate::stack::{Config, EventKind};
use crate::wire::tcp::{Segment, Seq, Timestamps};

impl<B: ByteStore> Connection<B> {
    /// Does what there is to do for a segment that is expected and meets a
    /// connection where nothing is amiss; `None` leaves it to the long way.
    #[inline]
    pub(super) fn on_everyday_segment(
        &mut self,
        cx: &mut Context<'_>,
        s: &Segment<'_>,
        v: &Verdicts<'_>,
    ) -> Option<SegmentOutcome> {
        let amiss = self.early_fin.is_some()
            | self.reassembly.is_some()
            | self.manners.is_some()
            | self.flags.detached;
        let len = s.payload.len();
        if amiss || !self.expects(s) || self.recv.affordable(len, cx.pool) < len || long_way_only() {
            return None;
        }
        if len > 0 && self.has_classifier(v) {
            let Some(label) = self.classify(cx, s.payload, v.meta, v) else {
                cx.counters.classifier_drops += 1;
                return Some(SegmentOutcome::Done);
            };
            cx.label = label;
        }
        note_taken();
        (self.heard_at, self.keep_alives) = (cx.now, 0);
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

    /// How many bytes go out in one segment that brings all there is to send,
    /// with nothing else in flight; `None` leaves it to the long way.
    #[inline]
    pub(crate) fn everything_in_one(&self) -> Option<u32> {
        let len = self.send.len() as u32;
        let amiss = self.flags.probe_due
            | self.flags.tail_due
            | self.flags.retransmit_now
            | self.flags.fin_queued
            | self.flags.cork
            | self.manners.is_some()
            | self.reassembly.is_some();
        let everyday = self.state == State::Established
            && !amiss
            && self.flags.timestamps
            && self.snd_una == self.snd_nxt
            && self.recovery == Recovery::None
            && self.flight.is_at_rest()
            && len.wrapping_sub(1) < u32::from(self.mss).min(self.snd_wnd);
        (everyday && !long_way_only()).then_some(len)
    }

    /// The timestamps of a segment that goes out at `now`.
    #[inline]
    pub(crate) fn stamps(&self, now: Time) -> Timestamps {
        Timestamps { value: self.timestamp(now), echo: self.ts_recent }
    }

    /// Everything went out in one segment at `now`, which invited the peer up to `edge`.
    #[inline]
    pub(crate) fn everything_transmitted(&mut self, edge: Seq, now: Time, config: &Config) {
        note_taken();
        let end = self.snd_nxt + self.send.len() as u32;
        (self.flags.ack_delayed, self.flags.ack_waits) = (false, false);
        (self.rcv_adv, self.last_ack_sent, self.acks_due) = (edge, self.rcv_nxt, 0);
        self.segments.on_sent(1);
        self.flight.start(self.snd_nxt, end, now);
        self.snd_nxt = end;
        self.transmit.on_sent(end);
        self.rto_at = self.rto_from(now, config);
        let probes = config.rack & self.flags.sack & self.tail.is_none();
        self.early_at = if probes { self.probe_at(now, true, config) } else { Time::MAX };
    }
}

/// Whether a test forbids the short ways.
#[inline]
fn long_way_only() -> bool {
    #[cfg(test)]
    return testing::LONG_WAY_ONLY.get();
    #[cfg(not(test))]
    false
}

/// Counts for tests that a short way was taken.
#[inline]
fn note_taken() {
    #[cfg(test)]
    testing::TAKEN.set(testing::TAKEN.get() + 1);
}

#[cfg(test)]
pub(crate) mod testing {
    use std::cell::Cell;

    thread_local! {
        /// The short ways are closed on this thread.
        pub(crate) static LONG_WAY_ONLY: Cell<bool> = const { Cell::new(false) };
        /// How often one was taken on this thread.
        pub(crate) static TAKEN: Cell<u32> = const { Cell::new(0) };
    }
}
