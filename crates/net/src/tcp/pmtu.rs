//! A path that carries less than was thought: segments shrink, and what is in
//! flight and does not fit goes again, cut anew. And one that may carry more
//! than they have: now and then a segment of the size that the path's search
//! asks for goes out, which is data like any other.
//!
//! Neither is a sign of congestion, so the window stays as it is, even if such
//! a probe is lost, as long as it is lost alone. Where routers do not say (or
//! their words are filtered), a few timeouts in a row of a large segment are
//! taken for it. Probes need RACK and enough data behind them, so that their
//! loss is heard of within a round trip; a connection without SACK only
//! shrinks. What is known of the path is the stack's: it looks at a connection
//! that is not at its largest size when that one's timer says so.
//! Source: RFC 1191 §6, RFC 8201, RFC 4821 §7, RFC 8899.

use queueing::{Span, Time};

use super::congestion::CongestionControl;
use super::connection::{Connection, Recovery};
use super::output::SegmentPlan;
use super::retransmit_queue::LossDecision;
use super::state::State;
use super::store::ByteStore;
use crate::stack::Config;
use crate::wire::ip;
use crate::wire::ipv6::MTU_MIN;
use crate::wire::tcp::{self, Seq};

/// Timeouts in a row after which the path is suspected: soon for packets that
/// some paths do not carry, late for those that nearly every path does.
const TIMEOUTS_LARGE: u8 = 2;
const TIMEOUTS_SMALL: u8 = 5;
/// Nor is it suspected before timeouts have grown to this: with a floor of
/// milliseconds, several in a row are but a moment of congestion.
const TIMEOUT_MIN: Span = Span::from_millis(500);
/// Full segments that follow a probe, to tell its loss.
const FOLLOWERS: u32 = 2;

/// What a connection that sends less than it might does about it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Probing {
    /// What `mss` would be if the path carried anything.
    pub(super) mss_max: u16,
    step: Step,
    /// When the stack looks at it.
    due: Time,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// Too little is queued: the stack looks once that has changed.
    Idle,
    /// The stack looks when it said it would.
    Resting,
    /// A packet of so many bytes is wanted.
    Wanted(u16),
    /// It is in flight, with these numbers.
    Sent { size: u16, start: Seq, end: Seq },
    /// That is known of it.
    Known(Outcome),
}

/// What became of a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// A packet of so many bytes arrived.
    Arrived(u16),
    /// It was lost, alone.
    Lost(u16),
    /// It was not sent, or lost among others, or went again for other reasons.
    Unclear,
    /// There was none.
    Nothing,
}

/// Whether a probe goes out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ProbeDecision {
    /// None is wanted, or now is no time for it.
    None,
    /// Once the window has room for it; nothing else goes meanwhile.
    Soon,
    /// This.
    Now(SegmentPlan),
}

impl Probing {
    fn conclude(&mut self, now: Time, outcome: Outcome) {
        (self.step, self.due) = (Step::Known(outcome), now);
    }

    /// When the stack wants to look at it.
    pub(super) fn due(&self) -> Time {
        self.due
    }
}

impl<B: ByteStore> Connection<B> {
    /// Bytes of headers in each segment; until the peer has answered, `mss`
    /// does not know of options.
    fn overhead(&self) -> u16 {
        let stamped = self.flags.timestamps && self.state != State::SynSent;
        let timestamps = if stamped { Self::TIMESTAMPS_LEN } else { 0 };
        (ip::header_len(self.tuple.remote) + tcp::HEADER_LEN) as u16 + timestamps
    }

    /// The largest packet that the connection sends.
    pub(crate) fn packet_len_max(&self) -> u16 {
        self.mss.saturating_add(self.overhead())
    }

    /// Packets of more than `mtu` bytes do not get through. Returns whether
    /// that was news.
    pub(crate) fn limit_mtu(&mut self, mtu: u16) -> bool {
        if mtu >= self.packet_len_max() {
            return false;
        }
        let mss = mtu.saturating_sub(self.overhead()).max(Self::MSS_MIN);
        let (before, now) = (self.mss, self.flight.latest);
        let path = &mut self.manners.get_or_insert_default().path;
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

    /// Whether the segment at `seq` is in flight and takes more than `mtu`
    /// bytes: only then can a router have complained of it (RFC 5927 §7.2).
    pub(crate) fn exceeds(&self, seq: Seq, mtu: u16) -> bool {
        let record = self.flight.get(self.flight.index_of(seq));
        let len = record.filter(|r| r.start.at_or_before(seq) && seq.before(r.end)).map_or(0, |r| r.len());
        len + u32::from(self.overhead()) > u32::from(mtu)
    }

    /// Whether the path may swallow segments as large as the first in flight,
    /// which would fit none of `mtu` bytes.
    pub(crate) fn suspects_path(&self, mtu: u16, config: &Config) -> bool {
        let len = self.flight.get(0).map_or(0, |record| record.len());
        let timeouts = if mtu >= MTU_MIN { TIMEOUTS_LARGE } else { TIMEOUTS_SMALL };
        self.retries >= timeouts
            && self.rtt.rto(config.rto_min) >= TIMEOUT_MIN
            && self.state.is_synchronized()
            && self.snd_una != self.snd_nxt
            && len + u32::from(self.overhead()) > u32::from(mtu)
    }

    /// The largest packet that the connection would send if the path carried anything.
    pub(crate) fn packet_len_most(&self) -> u16 {
        let mss = self.probing().map_or(self.mss, |probing| probing.mss_max);
        mss.saturating_add(self.overhead())
    }

    fn probing(&self) -> Option<&Probing> {
        self.manners.as_ref()?.path.as_ref()
    }

    fn probing_mut(&mut self) -> Option<&mut Probing> {
        self.manners.as_mut()?.path.as_mut()
    }

    /// What the peer's SYN says about the largest segment.
    pub(super) fn negotiate_path(&mut self, announced: u16) {
        let stamped = if self.flags.timestamps { Self::TIMESTAMPS_LEN } else { 0 };
        if let Some(probing) = self.probing_mut() {
            probing.mss_max = probing.mss_max.min(announced) - stamped;
        }
        self.raise_mtu(0);
    }

    /// What has become of the latest probe, if the stack is to look at this
    /// connection at `now`.
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

    /// The path carries packets of `mtu` bytes, more than was thought.
    pub(crate) fn raise_mtu(&mut self, mtu: u16) {
        let mss = mtu.saturating_sub(self.overhead());
        let Some(probing) = self.probing_mut() else { return };
        let most = probing.mss_max;
        self.mss = self.mss.max(mss.min(most));
        self.congestion.on_mss(self.mss);
        if self.mss == most
            && let Some(manners) = &mut self.manners
        {
            manners.path = None;
        }
    }

    /// Whether it can be asked for probes: what it hears has to be exact.
    pub(crate) fn can_probe(&self, config: &Config) -> bool {
        self.flags.sack && config.rack
    }

    /// Whether a larger segment would soon go out, if asked for.
    pub(crate) fn is_busy(&self) -> bool {
        self.flight.lost() > 0 || self.unsent() > (FOLLOWERS + 1) * u32::from(self.mss)
    }

    /// Wants a packet of `size` bytes sent by `until`.
    pub(crate) fn want_probe(&mut self, size: u16, until: Time) {
        if let Some(probing) = self.probing_mut() {
            (probing.step, probing.due) = (Step::Wanted(size), until);
        }
    }

    /// Wants nothing before `until`.
    pub(crate) fn rest_probing(&mut self, until: Time) {
        if let Some(probing) = self.probing_mut() {
            (probing.step, probing.due) = (Step::Resting, until);
        }
    }

    /// The probe that is wanted, if it fits what is queued and the windows.
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
            && self.tail.is_none()
            && !self.flight.is_full()
            && !(self.flags.tail_due | self.flags.probe_due);
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

    /// `plan` goes out: it may be the probe, or make what is known of it unclear.
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
                // One no larger than others is sent to confirm them.
                probing.step = Step::Sent { size, start, end };
                probing.due = if plan.len > mss { Time::MAX } else { probing.due };
            }
            Step::Sent { start: s, end: e, .. } if plan.again && start.before(e) && end.after(s) => {
                probing.conclude(now, Outcome::Unclear);
            }
            Step::Idle if busy => (probing.step, probing.due) = (Step::Resting, now),
            _ => {}
        }
    }

    /// What an acknowledgement says of the probe in flight.
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

    /// Segments were found lost, `lost` in number: if it is the probe and
    /// nothing else, it was too large, which is no congestion, and it goes
    /// again in smaller ones (RFC 4821 §7.5). Returns how many count.
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

    /// A router says that the segment at `seq`, which is the probe, was too
    /// large; whether it is.
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
