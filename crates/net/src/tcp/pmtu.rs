//! Path MTU of one connection: smaller segments after a reduction, and probes for larger ones.
//!
//! If the path carries less, segments shrink, and data in flight that does not fit is retransmitted
//! in smaller segments. If it may carry more, a data segment of the size requested by the stack's
//! search is sent as a probe.
//!
//! Neither is a congestion signal, so the window stays, even after the loss of a probe that was
//! lost alone. Where ICMP errors are missing or filtered, several consecutive timeouts of a large
//! segment indicate the reduction (black hole detection). Probes need RACK and enough data behind
//! them, so that their loss is detected within a round trip; a connection without SACK only
//! shrinks.
//!
//! The search itself belongs to the stack, which checks a connection below its largest size when
//! its timer is due.
//! Source: RFC 1191 §6, RFC 8201, RFC 4821 §7, RFC 8899.

use queueing::{Span, Time};
use wire::ip;
use wire::ipv6::MTU_MIN;
use wire::tcp::{self, Seq};

use super::congestion::CongestionControl;
use super::connection::{Connection, Recovery};
use super::output::SegmentPlan;
use super::retransmit_queue::LossDecision;
use super::state::State;
use super::store::ByteStore;
use crate::stack::Config;

/// Consecutive timeouts after which a black hole is suspected: few for packets above the IPv6
/// minimum MTU, more for those that nearly every path carries.
const TIMEOUTS_LARGE: u8 = 2;
const TIMEOUTS_SMALL: u8 = 5;
/// Minimum timeout for that suspicion: with a floor of milliseconds, several timeouts may be only a
/// moment of congestion.
const TIMEOUT_MIN: Span = Span::from_millis(500);
/// Number of full segments sent after a probe, to reveal its loss.
const FOLLOWERS: u32 = 2;

/// Probing state of a connection whose segments are below their largest size.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Probing {
    /// Value of `mss` on a path without a limit.
    pub(super) mss_max: u16,
    step: Step,
    /// Next check by the stack.
    due: Time,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// Too little data is queued: the stack checks once that changes.
    Idle,
    /// Waiting until the due time.
    Resting,
    /// Probe requested, with its packet size in bytes.
    Wanted(u16),
    /// Probe in flight, with its sequence range.
    Sent { size: u16, start: Seq, end: Seq },
    /// Probe finished, with its outcome.
    Known(Outcome),
}

/// Outcome of a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// A packet of this many bytes arrived.
    Arrived(u16),
    /// Only a packet of this many bytes was lost.
    Lost(u16),
    /// Inconclusive: not sent, lost among others, or retransmitted for another reason.
    Unclear,
    /// No probe was requested.
    Nothing,
}

/// Decision to send a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ProbeDecision {
    /// No probe is requested, or the connection cannot send it now.
    None,
    /// Send the probe once the window allows; other data waits.
    Soon,
    /// Send this segment.
    Now(SegmentPlan),
}

impl Probing {
    fn conclude(&mut self, now: Time, outcome: Outcome) {
        (self.step, self.due) = (Step::Known(outcome), now);
    }

    /// Next check by the stack.
    pub(super) fn due(&self) -> Time {
        self.due
    }
}

impl<B: ByteStore> Connection<B> {
    /// Header bytes of each segment; before the handshake, `mss` does not include options.
    fn overhead(&self) -> u16 {
        let stamped = self.flags.timestamps && self.state != State::SynSent;
        let timestamps = if stamped { Self::TIMESTAMPS_LEN } else { 0 };
        (ip::header_len(self.tuple.remote) + tcp::HEADER_LEN) as u16 + timestamps
    }

    /// Largest packet that the connection sends, in bytes.
    pub(crate) fn packet_len_max(&self) -> u16 {
        self.mss.saturating_add(self.overhead())
    }

    /// Limits packets to `mtu` bytes; returns true if this is a reduction.
    pub(crate) fn limit_mtu(&mut self, mtu: u16) -> bool {
        if mtu >= self.packet_len_max() {
            return false;
        }
        let mss = mtu.saturating_sub(self.overhead()).max(Self::MSS_MIN);
        let (before, now) = (self.mss, self.flight.latest);
        let path = &mut self.ecn_pacing.get_or_insert_default().path;
        let mss_max = path.map_or(before, |probing| probing.mss_max);
        *path = Some(Probing { mss_max, step: Step::Resting, due: now });
        self.mss = mss;
        self.congestion.on_mss(mss);
        let lost = self.flight.mark_lost(|record| match record.len() > u32::from(mss) {
            true => LossDecision::Lost,
            false => LossDecision::Keep,
        });
        self.flags.retransmit_now |= lost > 0;
        true
    }

    /// True if the segment at `seq` is in flight and exceeds `mtu` bytes.
    ///
    /// Only then can a router have reported it (RFC 5927 §7.2).
    pub(crate) fn exceeds(&self, seq: Seq, mtu: u16) -> bool {
        let record = self.flight.get(self.flight.index_of(seq));
        let len = record.filter(|r| r.start.at_or_before(seq) && seq.before(r.end)).map_or(0, |r| r.len());
        len + u32::from(self.overhead()) > u32::from(mtu)
    }

    /// True if the path may silently drop packets as large as the first in flight, which exceeds
    /// `mtu` bytes.
    pub(crate) fn suspects_path(&self, mtu: u16, config: &Config) -> bool {
        let len = self.flight.get(0).map_or(0, |record| record.len());
        let timeouts = if mtu >= MTU_MIN { TIMEOUTS_LARGE } else { TIMEOUTS_SMALL };
        self.retries >= timeouts
            && self.rtt.rto(config.rto_min) >= TIMEOUT_MIN
            && self.state.is_synchronized()
            && self.snd_una != self.snd_nxt
            && len + u32::from(self.overhead()) > u32::from(mtu)
    }

    /// Largest packet of the connection on a path without a limit, in bytes.
    pub(crate) fn packet_len_most(&self) -> u16 {
        let mss = self.probing().map_or(self.mss, |probing| probing.mss_max);
        mss.saturating_add(self.overhead())
    }

    fn probing(&self) -> Option<&Probing> {
        self.ecn_pacing.as_ref()?.path.as_ref()
    }

    fn probing_mut(&mut self) -> Option<&mut Probing> {
        self.ecn_pacing.as_mut()?.path.as_mut()
    }

    /// Applies the MSS of the peer's SYN.
    pub(super) fn negotiate_path(&mut self, announced: u16) {
        let stamped = if self.flags.timestamps { Self::TIMESTAMPS_LEN } else { 0 };
        if let Some(probing) = self.probing_mut() {
            probing.mss_max = probing.mss_max.min(announced) - stamped;
        }
        self.raise_mtu(0);
    }

    /// Outcome of the latest probe, if the check is due at `now`.
    pub(crate) fn probed(&mut self, now: Time) -> Option<Outcome> {
        let synchronized = self.state.is_synchronized();
        let probing = self.probing_mut().filter(|probing| probing.due <= now)?;
        let outcome = match probing.step {
            Step::Known(outcome) => outcome,
            Step::Wanted(_) | Step::Sent { .. } => Outcome::Unclear,
            Step::Idle | Step::Resting => Outcome::Nothing,
        };
        (probing.step, probing.due) = (Step::Idle, Time::MAX);
        synchronized.then_some(outcome)
    }

    /// Allows packets of `mtu` bytes, since the path carries them.
    pub(crate) fn raise_mtu(&mut self, mtu: u16) {
        let mss = mtu.saturating_sub(self.overhead());
        let Some(probing) = self.probing_mut() else { return };
        let most = probing.mss_max;
        self.mss = self.mss.max(mss.min(most));
        self.congestion.on_mss(self.mss);
        if self.mss == most
            && let Some(ecn_pacing) = &mut self.ecn_pacing
        {
            ecn_pacing.path = None;
        }
    }

    /// True if the connection can probe: loss detection must be exact.
    pub(crate) fn can_probe(&self, config: &Config) -> bool {
        self.flags.sack && config.rack
    }

    /// True if a requested probe would be sent soon.
    pub(crate) fn is_busy(&self) -> bool {
        self.flight.lost() > 0 || self.unsent() > (FOLLOWERS + 1) * u32::from(self.mss)
    }

    /// Requests a probe of `size` bytes, to be sent by `until`.
    pub(crate) fn want_probe(&mut self, size: u16, until: Time) {
        if let Some(probing) = self.probing_mut() {
            (probing.step, probing.due) = (Step::Wanted(size), until);
        }
    }

    /// Postpones probing until `until`.
    pub(crate) fn rest_probing(&mut self, until: Time) {
        if let Some(probing) = self.probing_mut() {
            (probing.step, probing.due) = (Step::Resting, until);
        }
    }

    /// Decision on the requested probe, by queued data and windows.
    #[cold]
    #[inline(never)]
    pub(super) fn plan_path_probe(&self) -> ProbeDecision {
        let Some(Probing { step: Step::Wanted(size), .. }) = self.probing() else {
            return ProbeDecision::None;
        };
        let len = u32::from(size.saturating_sub(self.overhead()));
        let with_followers = len + FOLLOWERS * u32::from(self.mss);
        let calm = self.state.is_synchronized()
            && self.recovery == Recovery::None
            && self.flight.lost() + self.flight.sacked() == 0
            && self.tlp.is_none()
            && !self.flight.is_full()
            && !(self.flags.tlp_due | self.flags.probe_due);
        let window = self.congestion_window();
        if len <= u32::from(self.mss)
            || !calm
            || self.unsent().min(self.invited()).min(window) < with_followers
        {
            return ProbeDecision::None;
        }
        match self.in_flight() + len <= window {
            true => ProbeDecision::Now(self.cut(self.snd_nxt, len)),
            false => ProbeDecision::Soon,
        }
    }

    /// Updates the probe after `plan` was sent: `plan` may be the probe or a retransmission of it.
    #[cold]
    #[inline(never)]
    pub(super) fn on_sent_for_path(&mut self, plan: &SegmentPlan, now: Time) {
        if self.probing().is_none() {
            return;
        }
        let (overhead, mss, busy) = (u32::from(self.overhead()), u32::from(self.mss), self.is_busy());
        let Some(probing) = self.probing_mut() else { return };
        let (start, end) = (plan.seq, plan.seq + plan.len);
        match probing.step {
            Step::Wanted(size) if plan.len > 0 && plan.len + overhead == u32::from(size) => {
                // A probe no larger than other segments only confirms their size.
                probing.step = Step::Sent { size, start, end };
                probing.due = if plan.len > mss { Time::MAX } else { probing.due };
            }
            Step::Sent { start: s, end: e, .. } if plan.retransmitted && start.before(e) && end.after(s) => {
                probing.conclude(now, Outcome::Unclear);
            }
            Step::Idle if busy => (probing.step, probing.due) = (Step::Resting, now),
            _ => {}
        }
    }

    /// Concludes the probe in flight if it was acknowledged.
    #[cold]
    #[inline(never)]
    pub(super) fn judge_path_probe(&mut self, now: Time) {
        let una = self.snd_una;
        if let Some(probing) = self.probing_mut()
            && let Step::Sent { size, end, .. } = probing.step
            && una.at_or_after(end)
        {
            probing.conclude(now, Outcome::Arrived(size));
        }
    }

    /// Excludes a lost probe from `lost` newly lost segments; returns how many count as congestion.
    ///
    /// A probe that was lost alone was too large, which is no congestion. Its data is retransmitted
    /// in smaller segments (RFC 4821 §7.5).
    #[cold]
    #[inline(never)]
    pub(super) fn excuse_probe(&mut self, now: Time, lost: u32) -> u32 {
        let Some(Step::Sent { size, start, .. }) = self.probing().map(|probing| probing.step) else {
            return lost;
        };
        let Some(record) = self.flight.get(self.flight.index_of(start)).filter(|record| record.lost) else {
            return lost;
        };
        let alone = lost == 1
            && self.recovery == Recovery::None
            && record.len() > u32::from(self.mss)
            && self.flight.lost() == record.len();
        if let Some(probing) = self.probing_mut() {
            probing.conclude(now, if alone { Outcome::Lost(size) } else { Outcome::Unclear });
        }
        self.flags.retransmit_now |= alone;
        if alone { 0 } else { lost }
    }

    /// A router reports the segment at `seq` as too large; returns true if it is the probe.
    pub(crate) fn on_probe_too_big(&mut self, now: Time, seq: Seq) -> bool {
        let mss = u32::from(self.mss);
        let Some(Step::Sent { start, .. }) = self.probing().map(|probing| probing.step) else { return false };
        let long = self.flight.get(self.flight.index_of(start)).is_some_and(|record| record.len() > mss);
        if start != seq || !long {
            return false;
        }
        let lost = self.flight.mark_lost(|record| match record.start == seq {
            true => LossDecision::Lost,
            false => LossDecision::Keep,
        });
        self.flags.retransmit_now |= lost > 0;
        if let Some(probing) = self.probing_mut() {
            probing.conclude(now, Outcome::Nothing);
        }
        true
    }
}
