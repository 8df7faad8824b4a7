//! Loss recovery: its start and end, detection of spurious recoveries, and the retransmission
//! timeout.
//!
//! Loss detection is in `loss_detection`, the tail loss probe in `tlp`.
//! Source: RFC 6582, 6675, 8985, 9937, 6298 §5, 3522, 5682.

mod loss_detection;
mod tlp;

pub(crate) use tlp::TailLossProbe;

use queueing::{Bytes, Span, Time};
use wire::tcp::Segment;

use super::acks::AckResult;
use super::congestion::CongestionControl;
use super::connection::{Connection, Context, Recovery};
use super::prr::Prr;
use super::rack::millis;
use super::spurious::{Evidence, Spurious, Undo};
use super::state::State;
use super::store::ByteStore;
use crate::stack::CloseReason;
use loss_detection::Method;

impl<B: ByteStore> Connection<B> {
    /// Processes an acknowledgement during recovery or with gaps in the received data.
    #[inline(never)]
    pub(super) fn repair(&mut self, cx: &mut Context<'_>, s: &Segment<'_>, result: &mut AckResult) {
        let method = self.method(cx.config);
        if result.advanced > 0 {
            self.duplicate_acks = 0;
        } else if result.duplicate && (result.twice.is_none() || result.bytes > 0) {
            // A D-SACK alone is no duplicate ACK (RFC 6675 §2).
            self.duplicate_acks = self.duplicate_acks.saturating_add(1);
        }
        if method == Method::NewReno {
            self.count_duplicates(result);
        }
        self.note_duplicates(cx, result);
        if self.flight.contradicts() {
            self.forget_reports(cx);
        }
        if self.is_undone(result) || self.came_all_twice(result) {
            self.undo(cx, result);
        }
        self.on_tlp_ack(cx, s, result);
        let lost = self.detect_loss(cx, method, result);
        match self.recovery {
            Recovery::None | Recovery::Reduction { .. } if lost > 0 => {
                // A marked window was reduced for the mark (RFC 3168 §6.1.2).
                let reduces = self.recovery == Recovery::None;
                self.recover(cx, result.flight - result.sacked.min(result.flight), reduces);
            }
            Recovery::None if result.advanced > 0 => self.grow(cx.now, result.advanced, result),
            Recovery::Reduction { until } if result.advanced > 0 => {
                self.tell(cx.now, result.advanced, result.flight, result.rtt, result.marked, false);
                if self.snd_una.at_or_after(until) {
                    self.recovery = Recovery::None;
                }
            }
            Recovery::Timeout { until } if result.advanced > 0 => {
                self.grow(cx.now, result.bytes, result);
                if self.snd_una.at_or_after(until) {
                    // RFC 8985 §6.2 step 4 counts these recoveries, too.
                    self.reordering.on_recovered();
                    self.recovery = Recovery::None;
                }
            }
            Recovery::Fast { until } if self.snd_una.at_or_after(until) => {
                self.congestion.on_recovered(cx.now);
                self.reordering.on_recovered();
                self.recovery = Recovery::None;
                self.duplicate_acks = 0;
                if method == Method::NewReno {
                    self.flight.forget_duplicates();
                }
            }
            _ => {}
        }
        if self.recovery.apportions() {
            let safe = result.advanced > 0 && lost == 0;
            self.apportion(result.bytes, safe);
        }
    }

    /// Estimates the delivered bytes from duplicate ACKs, without SACK.
    fn count_duplicates(&mut self, result: &mut AckResult) {
        let mss = u32::from(self.mss);
        match self.recovery {
            Recovery::Timeout { .. } => {}
            _ if result.duplicate => {
                let in_flight = self.snd_nxt - self.snd_una;
                result.bytes += self.flight.count_duplicate(mss, in_flight);
            }
            Recovery::None | Recovery::Reduction { .. } => self.flight.forget_duplicates(),
            Recovery::Fast { .. } => {
                let known = self.flight.discount_duplicates(result.advanced, mss);
                result.bytes = result.bytes.saturating_sub(known);
            }
        }
    }

    /// Discards SACK information: the peer requests data that it once SACKed, so it has dropped it
    /// (RFC 2018 §8).
    fn forget_reports(&mut self, cx: &mut Context<'_>) {
        self.flight.forget_reports();
        if let Recovery::Timeout { .. } = self.recovery {
            self.mark_after_timeout(cx);
        }
    }

    /// Processes a D-SACK, which shows an unnecessary retransmission.
    fn note_duplicates(&mut self, cx: &mut Context<'_>, result: &AckResult) {
        if result.twice.is_some() {
            cx.counters.duplicates_reported += 1;
        }
        let (una, nxt) = (self.snd_una, self.snd_nxt);
        let first = match self.flight.records_mut() {
            Some(records) => {
                if result.advanced > 0 {
                    records.rack.end_round(una);
                }
                result.twice.is_some() && records.rack.on_dsack(nxt)
            }
            None => result.twice.is_some(),
        };
        if first {
            self.reordering.on_dsack();
        }
    }

    /// True if every retransmission of the latest recovery was reported by D-SACK: nothing was lost
    /// (RFC 3708).
    fn came_all_twice(&mut self, result: &AckResult) -> bool {
        let (una, mss) = (self.snd_una, self.mss);
        let window = self.congestion.window().get().min(1 << 30) as u32;
        result.twice.is_some_and(|twice| self.undo.on_twice(twice, una, window, mss))
    }

    /// True if the recovery in progress is spurious.
    fn is_undone(&mut self, result: &AckResult) -> bool {
        let until = match self.recovery {
            Recovery::None | Recovery::Reduction { .. } => return false,
            Recovery::Fast { until } | Recovery::Timeout { until } => until,
        };
        let evidence = Evidence {
            advances: result.advanced > 0,
            ends: self.snd_una.at_or_after(until),
            original: result.original,
            retransmitted: result.retransmitted,
            echo_ms: result.echo_ms,
            sack: self.flags.sack,
            can_send_new: self.fresh().is_some(),
        };
        let Some(records) = self.flight.records_mut() else { return false };
        let tried = records.spurious.wants_new_data();
        let undone = records.spurious.on_ack(&evidence);
        // New data was sent and the loss is real: besides the two new segments, one is
        // retransmitted at once (RFC 5682 §2.1, step 3a).
        if tried && !undone && self.flight.lost() > 0 {
            self.flags.retransmit_now = true;
        }
        undone
    }

    /// Reverts a spurious recovery (RFC 4015).
    fn undo(&mut self, cx: &mut Context<'_>, result: &AckResult) {
        if let Recovery::Fast { .. } = self.recovery {
            self.reordering.on_reordering();
        }
        cx.counters.recoveries_undone += 1;
        if let (Some(echo_ms), Recovery::Timeout { .. }) = (result.echo_ms, self.recovery) {
            // A late ACK of the original: its round trip is a valid sample (RFC 4015 §4).
            let rtt_ms = millis(cx.now).wrapping_sub(echo_ms);
            self.rtt.on_sample(Span::from_millis(u64::from(rtt_ms)));
        }
        self.congestion.on_undo(cx.now);
        self.undo = Undo::default();
        if !self.recovery.repairs() {
            return;
        }
        self.recovery = Recovery::None;
        self.duplicate_acks = 0;
        self.flags.retransmit_now = false;
        self.flight.unmark();
        if let Some(records) = self.flight.records_mut() {
            records.rack.on_undo();
        }
        if !self.flags.sack {
            self.flight.forget_duplicates();
        }
    }

    /// Starts fast recovery with `base` bytes in flight before the loss was detected.
    fn recover(&mut self, cx: &mut Context<'_>, base: u32, reduces: bool) {
        cx.counters.fast_retransmits += 1;
        if reduces {
            self.congestion.on_loss(cx.now, self.flight_size());
            self.undo.start(self.snd_una);
        } else {
            // An undo of this recovery would undo the ECN reduction, too.
            self.undo = Undo::default();
        }
        self.recovery = Recovery::Fast { until: self.snd_nxt };
        self.flags.retransmit_now = true;
        self.flags.tlp_due = false;
        let target = self.congestion.ssthresh();
        let records = self.flight.open(cx.pool);
        records.prr = Prr::start(base, bound(target, self.mss));
        records.spurious = Spurious::default();
        if reduces {
            records.spurious.on_loss();
        }
        records.rescued = false;
        self.note_reduction();
    }

    /// Starts a reduction without loss, after `delivered` bytes have left the network; PRR brings
    /// down the flight.
    pub(super) fn reduce(&mut self, cx: &mut Context<'_>, delivered: u32) {
        if self.flight.is_empty() {
            return;
        }
        self.recovery = Recovery::Reduction { until: self.snd_nxt };
        let (base, target) = (self.in_flight() + delivered, self.congestion.window());
        self.flight.open(cx.pool).prr = Prr::start(base, bound(target, self.mss));
        self.apportion(delivered, true);
    }

    /// Updates the PRR limit after `delivered` bytes have left the network.
    fn apportion(&mut self, delivered: u32, safe: bool) {
        let (pipe, mss) = (self.in_flight(), u32::from(self.mss));
        if let Some(records) = self.flight.records_mut() {
            records.prr.on_ack(delivered, pipe, safe, mss);
        }
    }

    /// Handles the retransmission timeout (RFC 6298 §5.4 to 5.6, RFC 8985 §6.3).
    pub(super) fn on_retransmission_timeout(&mut self, cx: &mut Context<'_>) {
        if self.state.is_synchronized() && self.snd_una == self.snd_nxt && !self.has_unsent() {
            if self.state == State::FinWait2 && self.flags.detached {
                cx.counters.fin_wait_timeouts += 1;
                return self.end(cx, CloseReason::TimedOut);
            }
            // Only an ACK was waiting, for the resolution of the peer's hardware address.
            self.rto_at = Time::MAX;
            return;
        }
        let over = self.user_timeout_expired(cx.now, cx.config);
        self.retries += 1;
        if self.retries > self.retries_max() || over {
            return self.time_out(cx);
        }
        self.rtt.on_timeout();
        if self.state == State::SynSent && self.snd_una != self.snd_nxt {
            self.open_plainly();
            self.withdraw_ecn();
        }
        self.rto_at = self.rto_from(cx.now, cx.config);
        self.early_at = Time::MAX;
        if self.snd_una == self.snd_nxt {
            // Nothing is in flight: the window is closed, or the SYN was not sent.
            self.flags.probe_due = self.state.is_synchronized();
            return;
        }
        cx.counters.timeouts += 1;
        let repeatedly = self.retries > 1;
        // One reduction per episode (RFC 5681 §3.1); for lost SYNs it comes at the end of the
        // handshake.
        let syn_alone = !self.state.is_synchronized() && self.snd_nxt - self.snd_una == 1;
        if !repeatedly && !syn_alone {
            self.congestion.on_timeout(cx.now, self.unacknowledged());
            self.undo.start(self.snd_una);
            self.note_reduction();
        }
        if repeatedly || self.flight.contradicts() || !self.flags.sack {
            // The peer may have dropped data that it once SACKed (RFC 2018 §8).
            self.flight.forget_reports();
        }
        let timestamps = self.flags.timestamps;
        self.flight.open(cx.pool).spurious.on_timeout(timestamps, repeatedly);
        self.mark_after_timeout(cx);
        self.recovery = Recovery::Timeout { until: self.snd_nxt };
        self.duplicate_acks = 0;
        self.tlp = None;
        self.flags.tlp_due = false;
        self.flags.retransmit_now = true;
    }
}

/// `window` in 32 bits, at least one segment.
fn bound(window: Bytes, mss: u16) -> u32 {
    window.get().clamp(u64::from(mss), u64::from(u32::MAX)) as u32
}
