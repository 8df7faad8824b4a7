//! Tail loss probe (TLP), and the timer that it shares with RACK.
//!
//! The two uses of the timer exclude each other: a tail loss probe, or the expiry of RACK's
//! reordering window. The retransmission timer is separate.
//! Source: RFC 8985 §7, §6.2.

use queueing::{Span, Time};
use wire::tcp::{Segment, Seq};

use crate::stack::Config;
use crate::tcp::acks::AckResult;
use crate::tcp::congestion::CongestionControl;
use crate::tcp::connection::{Connection, Context, Recovery};
use crate::tcp::spurious::Undo;
use crate::tcp::store::ByteStore;

/// Minimum delay of a probe: timers fire up to 1 µs late, on both hosts.
const PROBE_MIN: Span = Span::from_micros(10);

/// Unanswered tail loss probe (RFC 8985 §7.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TailLossProbe {
    /// `snd_nxt` when the probe was sent (TLP.end_seq).
    pub(crate) end: Seq,
    /// True if the probe was a retransmission (TLP.is_retrans).
    pub(crate) retransmitted: bool,
}

impl<B: ByteStore> Connection<B> {
    /// Processes an ACK of the tail loss probe (RFC 8985 §7.4.2).
    pub(super) fn on_tlp_ack(&mut self, cx: &mut Context<'_>, s: &Segment<'_>, result: &AckResult) {
        let Some(probe) = self.tlp else { return };
        if s.ack.before(probe.end) {
            return;
        }
        let duplicated = result.twice.is_some_and(|twice| twice.1 == probe.end);
        let repaired = s.ack.after(probe.end);
        let unneeded = !probe.retransmitted || duplicated || (result.duplicate && s.options.sack.is_empty());
        if !unneeded && repaired && self.recovery == Recovery::None {
            // The probe itself repaired a loss, which no other rule has detected.
            self.congestion.on_loss(cx.now, self.flight_size());
            self.congestion.on_recovered(cx.now);
            self.undo = Undo::default();
            self.note_reduction();
        }
        if unneeded || repaired {
            self.tlp = None;
        }
    }

    /// Sets the timer of a tail loss probe, if one may be sent (RFC 8985 §7.2).
    ///
    /// The delay is two round trips after the latest segment or acknowledgement, plus the peer's
    /// ACK delay if a single segment is in flight.
    #[inline]
    pub(in crate::tcp) fn arm_early(&mut self, now: Time, config: &Config) {
        if self.flight.is_empty() {
            self.early_at = Time::MAX;
            return;
        }
        if self.flight.sacked() != 0 || self.recovery.repairs() {
            // The timer is RACK's, set by `detect_by_time`.
            return;
        }
        self.early_at = Time::MAX;
        let eligible = config.rack
            && self.flags.sack
            && self.flight.lost() == 0
            && self.tlp.is_none()
            && self.state.is_synchronized();
        if eligible {
            self.early_at = self.probe_at(now, self.flight.len() == 1, config);
        }
    }

    /// Due time of a tail loss probe for data sent at `now`; `single` if it is one segment.
    #[inline]
    pub(in crate::tcp) fn probe_at(&self, now: Time, single: bool, config: &Config) -> Time {
        let delay = if single { config.ack_delay_max } else { Span::ZERO };
        let wait = self.rtt.srtt().map_or(Span::from_secs(1), |srtt| (srtt * 2).max(PROBE_MIN) + delay);
        (now + wait).min(self.rto_at)
    }

    /// Handles the timer: sends a tail loss probe, or marks segments as lost by RACK.
    pub(in crate::tcp) fn on_early_timeout(&mut self, cx: &mut Context<'_>) {
        self.early_at = Time::MAX;
        if self.flight.sacked() == 0 && !self.recovery.repairs() {
            if !self.flight.is_empty() {
                cx.counters.tail_probes += 1;
                self.flags.tlp_due = true;
                self.rto_at = self.rto_from(cx.now, cx.config);
            }
            return;
        }
        let base = (self.snd_nxt - self.snd_una).saturating_sub(self.flight.sacked());
        let lost = self.detect_by_time(cx.now);
        if lost > 0 && !self.recovery.repairs() {
            let reduces = self.recovery == Recovery::None;
            self.recover(cx, base, reduces);
        }
        if let Recovery::Fast { .. } = self.recovery {
            self.apportion(0, false);
        }
    }
}
