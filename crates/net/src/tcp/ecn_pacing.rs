//! Explicit congestion notification (ECN) and pacing of one connection.
//!
//! Most connections use neither and own no such state. It also holds the state of path MTU probing
//! (`pmtu`), which connections below their largest segment size need.
//!
//! An ECN sender sets ECT on new data, reduces its window once per round trip when the peer echoes
//! a mark, and sends CWR. A receiver echoes marks: by RFC 3168 until CWR arrives. By RFC 8257 §3.2
//! the sender can count the marked bytes: whenever the mark changes, earlier data is acknowledged
//! at once with the old ECE value.
//!
//! The pacer spreads a window over a round trip, in bursts of up to a quantum. It is a time before
//! which no new data is sent.
//! Source: RFC 3168, 8257 §3.

use std::collections::VecDeque;

use queueing::{Span, Time};
use wire::tcp::{Flags, Segment, Seq};

use super::congestion::CongestionControl;
use super::connection::{Connection, Context};
use super::output::SegmentPlan;
use super::pmtu::Probing;
use super::spurious::Undo;
use super::store::ByteStore;
use crate::stack::Config;

/// Use of explicit congestion notification.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ecn {
    /// No ECN.
    #[default]
    Off,
    /// Classic ECN, as routers on the Internet expect (RFC 3168).
    Classic,
    /// ECN in data-centre form (RFC 8257), with [`Dctcp`](crate::congestion::Dctcp) on both sides.
    Dctcp,
}

/// ECN codepoints: ECT(0) and CE (RFC 3168 §5).
pub(crate) const ECT0: u8 = 0b10;
const CE: u8 = 0b11;

/// ECN and pacing state of a connection.
#[derive(Debug, Default)]
pub(crate) struct EcnPacing {
    /// True if our SYN offers ECN.
    offered: bool,
    /// True if the first SYN offered ECN and later ones do not.
    withdrawn: bool,
    /// True if both sides agreed on ECN.
    on: bool,
    /// True for the data-centre form.
    counts: bool,
    /// True if ECE is set on ACKs: a mark arrived and CWR has not; with DCTCP, the last segment was
    /// marked (DCTCP.CE).
    echo: bool,
    /// True if the next new data carries CWR.
    cwr_due: bool,
    /// Sequence numbers at which the mark changed and which no ACK reports yet.
    ///
    /// Each is acknowledged first, with the ECE value that held before it.
    changes: VecDeque<Seq>,
    /// Echoes count again once more than this number of bytes is acknowledged.
    reduced_at: u64,
    /// Earliest time to send new data.
    send_at: Time,
    /// Path MTU probing, if the path is not known to carry our largest segments.
    pub(super) path: Option<Probing>,
}

/// Length of a burst at the paced rate, but at least two segments and at most this number of bytes.
const QUANTUM: Span = Span::from_micros(100);
const QUANTUM_BYTES_MAX: u64 = 64 * 1024;

/// Maximum number of unreported mark changes: more than arrive between two egress calls.
///
/// Beyond it the two oldest are dropped, so that their bytes count like their neighbours.
const CHANGES_MAX: usize = 64;

impl<B: ByteStore> Connection<B> {
    /// State that a new connection needs by `config`.
    pub(super) fn ecn_pacing(config: &Config) -> Option<Box<EcnPacing>> {
        let offered = config.ecn != Ecn::Off;
        (offered || config.pacing).then(|| {
            Box::new(EcnPacing { offered, counts: config.ecn == Ecn::Dctcp, ..EcnPacing::default() })
        })
    }

    /// Processes ECN in the peer's SYN or SYN-ACK: a SYN offers it by both bits, the SYN-ACK
    /// accepts by ECE (RFC 3168 §6.1.1).
    pub(crate) fn negotiate_ecn(&mut self, s: &Segment<'_>) {
        let bits = (s.flags.contains(Flags::ECE), s.flags.contains(Flags::CWR));
        let ece = s.flags.contains(Flags::ACK);
        if let Some(ecn_pacing) = &mut self.ecn_pacing {
            // The SYN-ACK may answer an earlier SYN: then the peer marks its data and needs echoes,
            // though our data goes unmarked (RFC 3168 §6.1.1).
            let offered = ecn_pacing.offered || (ecn_pacing.withdrawn && ece);
            ecn_pacing.on = offered && bits == (true, !ece);
        }
    }

    /// True if both sides agreed on ECN.
    #[inline]
    pub(crate) fn has_ecn(&self) -> bool {
        self.ecn_pacing.as_ref().is_some_and(|ecn_pacing| ecn_pacing.on)
    }

    /// Stops offering ECN.
    ///
    /// Either our SYN got no answer, since a middlebox may drop ECN-setup SYNs (RFC 3168 §6.1.1.1);
    /// or the peer retransmits its SYN without ECN, and our data goes unmarked (§6.1.1).
    pub(super) fn withdraw_ecn(&mut self) {
        if let Some(ecn_pacing) = &mut self.ecn_pacing {
            ecn_pacing.withdrawn |= ecn_pacing.offered;
            ecn_pacing.offered = false;
        }
    }

    /// A valid segment arrived with the ECN field of `cx`.
    #[inline]
    pub(super) fn on_mark(&mut self, cx: &mut Context<'_>, s: &Segment<'_>) {
        if self.ecn_pacing.is_some() {
            self.record_mark(cx, s);
        }
    }

    fn record_mark(&mut self, cx: &mut Context<'_>, s: &Segment<'_>) {
        let unacknowledged = self.last_ack_sent != self.rcv_nxt;
        let rcv_nxt = self.rcv_nxt;
        let Some(ecn_pacing) = self.ecn_pacing.as_deref_mut().filter(|ecn_pacing| ecn_pacing.on) else {
            return;
        };
        let (marked, data) = (cx.ecn == CE, !s.payload.is_empty());
        cx.counters.marks_received += u64::from(marked && data);
        if ecn_pacing.counts {
            if data && marked != ecn_pacing.echo {
                ecn_pacing.change(rcv_nxt, unacknowledged);
                self.owe_ack();
            }
            return;
        }
        if s.flags.contains(Flags::CWR) {
            ecn_pacing.echo = false;
        }
        ecn_pacing.echo |= marked && data;
    }

    /// True if `s` echoes congestion on our path.
    #[inline]
    pub(super) fn is_echo(&self, s: &Segment<'_>) -> bool {
        s.flags.contains(Flags::ECE) && self.has_ecn()
    }

    /// True if the window may grow by an ACK that echoes congestion: only if marks are counted (RFC
    /// 3168 §6.1.2).
    pub(super) fn grows_by_echoes(&self) -> bool {
        self.ecn_pacing.as_ref().is_some_and(|ecn_pacing| ecn_pacing.counts)
    }

    /// The peer echoes congestion; `flight` bytes were in flight, of which `delivered` have
    /// arrived.
    ///
    /// Reduces the sending rate once per window (RFC 3168 §6.1.2, RFC 8257 §3.3). With classic ECN,
    /// the flight shrinks in proportion to what leaves the network (RFC 9937 §4).
    pub(super) fn on_echo(&mut self, cx: &mut Context<'_>, flight: u32, delivered: u32) {
        let acknowledged = self.acknowledged;
        if self.ecn_pacing.as_ref().is_none_or(|ecn_pacing| acknowledged <= ecn_pacing.reduced_at)
            || flight == 0
        {
            return;
        }
        if !self.recovery.repairs() {
            cx.counters.ecn_reductions += 1;
            self.congestion.on_ecn(cx.now, queueing::Bytes::new(u64::from(flight)));
            self.undo = Undo::default();
            // Counted marks are few and reported at once. A flight that shrinks over a round trip
            // would meet as many again (RFC 9937 §4 covers only RFC 3168).
            if !self.grows_by_echoes() {
                self.reduce(cx, delivered);
            }
        }
        self.note_reduction();
    }

    /// Notes a window reduction of any cause: CWR is sent, and echoes are ignored until it can have
    /// arrived.
    pub(super) fn note_reduction(&mut self) {
        let sent = self.acknowledged + self.unacknowledged().get();
        if let Some(ecn_pacing) = self.ecn_pacing.as_deref_mut().filter(|ecn_pacing| ecn_pacing.on) {
            (ecn_pacing.reduced_at, ecn_pacing.cwr_due) = (sent, true);
        }
    }

    /// Sequence number that must be acknowledged before anything else is sent.
    #[inline]
    pub(super) fn acked_before_change(&self) -> Option<Seq> {
        self.ecn_pacing.as_ref()?.changes.front().copied()
    }

    /// ECN flags of the segment of `plan`.
    #[inline]
    pub(super) fn ecn_flags(&self, plan: &SegmentPlan) -> Flags {
        match &self.ecn_pacing {
            None => Flags::NONE,
            Some(ecn_pacing) => ecn_pacing.flags(plan),
        }
    }

    /// ECN field of the packet of `plan`: ECT(0) only on new data (RFC 3168 §6.1.4 to 6.1.6).
    #[inline]
    pub(crate) fn mark(&self, plan: &SegmentPlan) -> u8 {
        match &self.ecn_pacing {
            Some(ecn_pacing)
                if ecn_pacing.on && !ecn_pacing.withdrawn && plan.len > 0 && !plan.retransmitted =>
            {
                ECT0
            }
            _ => 0,
        }
    }

    /// Updates ECN, pacing and path probing after `plan` was sent at `now`.
    #[inline]
    pub(super) fn on_sent_with_ecn_pacing(&mut self, plan: &SegmentPlan, now: Time, config: &Config) {
        self.on_sent_for_path(plan, now);
        let window = u64::from(self.congestion_window());
        let (srtt, mss) = (self.rtt.srtt(), u64::from(self.mss));
        let gain_percent = if self.congestion.in_slow_start() { 200 } else { 120 };
        let Some(ecn_pacing) = self.ecn_pacing.as_deref_mut() else { return };
        if plan.partial {
            ecn_pacing.changes.pop_front();
        }
        if plan.len == 0 {
            return;
        }
        ecn_pacing.cwr_due &= plan.retransmitted;
        if let (true, Some(srtt)) = (config.pacing, srtt) {
            // Time that `bytes` take at the gain times a window per round trip.
            let span = |bytes: u64| {
                let ns = u128::from(bytes) * u128::from(srtt.as_nanos()) * 100;
                Span::from_nanos((ns / (u128::from(window.max(mss)) * gain_percent)) as u64)
            };
            let burst = span(2 * mss).max(QUANTUM).min(span(QUANTUM_BYTES_MAX.max(2 * mss)));
            let earliest = Time::from_nanos(now.as_nanos().saturating_sub(burst.as_nanos()));
            ecn_pacing.send_at = ecn_pacing.send_at.max(earliest) + span(u64::from(plan.len));
        }
    }

    /// True if the pacer holds back new data at `now`.
    #[inline]
    pub(super) fn is_paced(&self, now: Time) -> bool {
        self.ecn_pacing.as_ref().is_some_and(|ecn_pacing| ecn_pacing.send_at > now)
    }

    /// Earliest deadline of the pacer and of path MTU probing; `Time::MAX` for neither.
    #[inline]
    pub(super) fn ecn_pacing_due(&self) -> Time {
        match &self.ecn_pacing {
            Some(ecn_pacing) => self.paced_until().min(ecn_pacing.path.map_or(Time::MAX, |path| path.due())),
            None => Time::MAX,
        }
    }

    /// Time at which a paced connection may send again; `Time::MAX` if it does not wait.
    #[inline]
    pub(super) fn paced_until(&self) -> Time {
        match &self.ecn_pacing {
            Some(ecn_pacing) if self.flags.paced => ecn_pacing.send_at,
            _ => Time::MAX,
        }
    }
}

impl EcnPacing {
    /// The mark changes for the segments from `at` on; `unacknowledged` if data before it is not
    /// acknowledged yet.
    fn change(&mut self, at: Seq, unacknowledged: bool) {
        self.echo = !self.echo;
        match self.changes.back() {
            // No data in order between this change and the last.
            Some(last) if *last == at => drop(self.changes.pop_back()),
            Some(_) => self.changes.push_back(at),
            None if unacknowledged => self.changes.push_back(at),
            None => {}
        }
        if self.changes.len() > CHANGES_MAX {
            self.changes.drain(..2);
        }
    }

    /// ECE value of the ACK in `plan`.
    fn ece(&self, plan: &SegmentPlan) -> bool {
        // Each unreported change inverts it.
        let waiting = if plan.partial { self.changes.len() } else { 0 };
        self.echo != (waiting % 2 == 1)
    }

    fn flags(&self, plan: &SegmentPlan) -> Flags {
        let set = |flag, yes| if yes { flag } else { Flags::NONE };
        if plan.flags.contains(Flags::SYN) {
            return match plan.flags.contains(Flags::ACK) {
                true => set(Flags::ECE, self.on),
                false => set(Flags::ECE | Flags::CWR, self.offered),
            };
        }
        let cwr = self.cwr_due && plan.len > 0 && !plan.retransmitted;
        set(Flags::ECE, self.on && self.ece(plan)) | set(Flags::CWR, self.on && cwr)
    }
}
