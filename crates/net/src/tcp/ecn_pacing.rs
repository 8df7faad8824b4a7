//! How a connection behaves towards the network, where more is asked than a
//! window: answers to marks of congestion (ECN) and even spacing (pacing).
//!
//! Most connections need neither and own none of this.
//!
//! A sender marks new data as capable, reduces its window once per round trip
//! when the peer echoes a mark, and tells so (CWR). A receiver echoes: by
//! RFC 3168 until the sender has told that it reduced, by RFC 8257 §3.2 so that
//! the sender can count how many bytes were marked: whenever the mark changes,
//! what came before is acknowledged at once with the old answer.
//!
//! Who sends smaller segments than it might probes for larger ones (`path`).
//!
//! A pacer lets a window leave over a round trip instead of all at once, up to
//! a quantum; it is a date before which nothing new is sent.

use std::collections::VecDeque;

use queueing::{Span, Time};

use super::congestion::CongestionControl;
use super::connection::{Connection, Context};
use super::output::SegmentPlan;
use super::pmtu::Probing;
use super::spurious::Undo;
use super::store::ByteStore;
use crate::stack::Config;
use crate::wire::tcp::{Flags, Segment, Seq};

/// Whether marks of congestion are used instead of losses where the path can mark.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ecn {
    /// Not at all.
    #[default]
    Off,
    /// As routers on the Internet expect (RFC 3168).
    Classic,
    /// In the form of data centres (RFC 8257), with
    /// [`Dctcp`](crate::congestion::Dctcp) on both sides.
    Dctcp,
}

/// Marks: capable of transport, ECT(0), and congestion experienced (RFC 3168 §5).
pub(crate) const ECT0: u8 = 0b10;
const CE: u8 = 0b11;

/// A connection's marks and pacing.
#[derive(Debug, Default)]
pub(crate) struct EcnPacing {
    /// Our SYN offers ECN.
    offered: bool,
    /// The first one did, those after it do not.
    withdrawn: bool,
    /// Both sides understand ECN.
    on: bool,
    /// In the form of data centres.
    counts: bool,
    /// The peer is to hear of congestion: a mark came and CWR did not yet; with
    /// DCTCP, the last segment was marked (DCTCP.CE).
    echo: bool,
    /// The next new data tells that the window was reduced.
    cwr_due: bool,
    /// Where the mark changed and nobody was told yet: acknowledged up to each
    /// of these first, with the answer that held before it.
    changes: VecDeque<Seq>,
    /// Echoes count again once more than so many bytes are acknowledged.
    reduced_at: u64,
    /// Nothing new is sent before.
    send_at: Time,
    /// The path does not carry our largest segments, as far as known.
    pub(super) path: Option<Probing>,
}

/// At a given rate, so long a burst is sent at once, but two segments at
/// least and this many bytes at most.
const QUANTUM: Span = Span::from_micros(100);
const QUANTUM_BYTES_MAX: u64 = 64 * 1024;

/// Most changes of marks that wait to be told: more than come with one egress.
/// Of more, the two oldest are forgotten, so that their bytes count as their
/// neighbours do.
const CHANGES_MAX: usize = 64;

impl<B: ByteStore> Connection<B> {
    /// What a new connection needs by `config`.
    pub(super) fn manners(config: &Config) -> Option<Box<EcnPacing>> {
        let offered = config.ecn != Ecn::Off;
        (offered || config.pacing).then(|| {
            Box::new(EcnPacing { offered, counts: config.ecn == Ecn::Dctcp, ..EcnPacing::default() })
        })
    }

    /// Takes over what the peer's SYN or its answer says about ECN (RFC 3168
    /// §6.1.1): a SYN asks by both bits, its answer agrees by one.
    pub(crate) fn negotiate_ecn(&mut self, s: &Segment<'_>) {
        let bits = (s.flags.contains(Flags::ECE), s.flags.contains(Flags::CWR));
        let answer = s.flags.contains(Flags::ACK);
        if let Some(manners) = &mut self.manners {
            // The answer may be to a SYN before: then the peer marks its data,
            // which it must hear of, though ours goes without (RFC 3168 §6.1.1).
            let offered = manners.offered || (manners.withdrawn && answer);
            manners.on = offered && bits == (true, !answer);
        }
    }

    /// Whether both sides understand ECN.
    #[inline]
    pub(crate) fn has_ecn(&self) -> bool {
        self.manners.as_ref().is_some_and(|manners| manners.on)
    }

    /// Our SYN got no answer: the next one does not offer what a broken box on
    /// the path may dislike (RFC 3168 §6.1.1.1). Or the peer's SYN comes again and
    /// asks no more: ours goes unmarked (§6.1.1).
    pub(super) fn withdraw_ecn(&mut self) {
        if let Some(manners) = &mut self.manners {
            manners.withdrawn |= manners.offered;
            manners.offered = false;
        }
    }

    /// A valid segment came with the marks of `cx`.
    #[inline]
    pub(super) fn on_mark(&mut self, cx: &mut Context<'_>, s: &Segment<'_>) {
        if self.manners.is_some() {
            self.take_mark(cx, s);
        }
    }

    fn take_mark(&mut self, cx: &mut Context<'_>, s: &Segment<'_>) {
        let unacknowledged = self.last_ack_sent != self.rcv_nxt;
        let rcv_nxt = self.rcv_nxt;
        let Some(manners) = self.manners.as_deref_mut().filter(|manners| manners.on) else { return };
        let (marked, data) = (cx.ecn == CE, !s.payload.is_empty());
        cx.counters.marks_received += u64::from(marked && data);
        if manners.counts {
            if data && marked != manners.echo {
                manners.change(rcv_nxt, unacknowledged);
                self.owe_ack();
            }
            return;
        }
        if s.flags.contains(Flags::CWR) {
            manners.echo = false;
        }
        manners.echo |= marked && data;
    }

    /// Whether `s` echoes congestion that our segments met.
    #[inline]
    pub(super) fn is_echo(&self, s: &Segment<'_>) -> bool {
        s.flags.contains(Flags::ECE) && self.has_ecn()
    }

    /// Whether the window may grow by an acknowledgement that echoes
    /// congestion: only where it counts the marks (RFC 3168 §6.1.2).
    pub(super) fn grows_by_echoes(&self) -> bool {
        self.manners.as_ref().is_some_and(|manners| manners.counts)
    }

    /// The peer echoes congestion; `flight` bytes were in flight, of which
    /// `delivered` are not any more. Once per window the sending rate is reduced
    /// (RFC 3168 §6.1.2, RFC 8257 §3.3), by the former in proportion to what
    /// leaves the network (RFC 9937 §4).
    pub(super) fn on_echo(&mut self, cx: &mut Context<'_>, flight: u32, delivered: u32) {
        let acknowledged = self.acknowledged;
        if self.manners.as_ref().is_none_or(|manners| acknowledged <= manners.reduced_at) || flight == 0 {
            return;
        }
        if !self.recovery.repairs() {
            cx.counters.ecn_reductions += 1;
            self.congestion.on_ecn(cx.now, queueing::Bytes::new(u64::from(flight)));
            self.undo = Undo::default();
            // Marks that are counted are few and told at once: a flight that
            // shrank over a round trip would meet as many again (RFC 9937 §4
            // speaks of RFC 3168's only).
            if !self.grows_by_echoes() {
                self.reduce(cx, delivered);
            }
        }
        self.note_reduction();
    }

    /// The window was reduced, for whatever reason: the peer is told, and
    /// echoes do not count until it can have heard.
    pub(super) fn note_reduction(&mut self) {
        let sent = self.acknowledged + self.unacknowledged().get();
        if let Some(manners) = self.manners.as_deref_mut().filter(|manners| manners.on) {
            (manners.reduced_at, manners.cwr_due) = (sent, true);
        }
    }

    /// What must be acknowledged before anything else is sent.
    #[inline]
    pub(super) fn acked_before_change(&self) -> Option<Seq> {
        self.manners.as_ref()?.changes.front().copied()
    }

    /// The bits of `plan` that speak of congestion.
    #[inline]
    pub(super) fn ecn_flags(&self, plan: &SegmentPlan) -> Flags {
        match &self.manners {
            None => Flags::NONE,
            Some(manners) => manners.flags(plan),
        }
    }

    /// The mark of the packet that carries `plan`: new data only (RFC 3168 §6.1.4 to 6.1.6).
    #[inline]
    pub(crate) fn mark(&self, plan: &SegmentPlan) -> u8 {
        match &self.manners {
            Some(manners) if manners.on && !manners.withdrawn && plan.len > 0 && !plan.again => ECT0,
            _ => 0,
        }
    }

    /// `plan` went out at `now`.
    #[inline]
    pub(super) fn on_sent_politely(&mut self, plan: &SegmentPlan, now: Time, config: &Config) {
        self.on_sent_for_path(plan, now);
        let window = u64::from(self.congestion_window());
        let (srtt, mss) = (self.rtt.srtt(), u64::from(self.mss));
        let gain_percent = if self.congestion.in_slow_start() { 200 } else { 120 };
        let Some(manners) = self.manners.as_deref_mut() else { return };
        if plan.old {
            manners.changes.pop_front();
        }
        if plan.len == 0 {
            return;
        }
        manners.cwr_due &= plan.again;
        if let (true, Some(srtt)) = (config.pacing, srtt) {
            // How long `bytes` take at the gain times a window per round trip.
            let span = |bytes: u64| {
                let ns = u128::from(bytes) * u128::from(srtt.as_nanos()) * 100;
                Span::from_nanos((ns / (u128::from(window.max(mss)) * gain_percent)) as u64)
            };
            let burst = span(2 * mss).max(QUANTUM).min(span(QUANTUM_BYTES_MAX.max(2 * mss)));
            let earliest = Time::from_nanos(now.as_nanos().saturating_sub(burst.as_nanos()));
            manners.send_at = manners.send_at.max(earliest) + span(u64::from(plan.len));
        }
    }

    /// Whether new data has to wait at `now`, for the pacer's sake.
    #[inline]
    pub(super) fn is_paced(&self, now: Time) -> bool {
        self.manners.as_ref().is_some_and(|manners| manners.send_at > now)
    }

    /// When a paced connection may send again or the search of its path is to
    /// be looked after; `Time::MAX` for neither.
    #[inline]
    pub(super) fn manners_due(&self) -> Time {
        match &self.manners {
            Some(manners) => self.paced_until().min(manners.path.map_or(Time::MAX, |path| path.due())),
            None => Time::MAX,
        }
    }

    /// When a paced connection may send again; `Time::MAX` when it does not wait.
    #[inline]
    pub(super) fn paced_until(&self) -> Time {
        match &self.manners {
            Some(manners) if self.flags.paced => manners.send_at,
            _ => Time::MAX,
        }
    }
}

impl EcnPacing {
    /// The mark of the segments from `at` on is another one; `unacknowledged`
    /// when what came before it was not acknowledged yet.
    fn change(&mut self, at: Seq, unacknowledged: bool) {
        self.echo = !self.echo;
        match self.changes.back() {
            // Nothing came in order between this change and the last.
            Some(last) if *last == at => drop(self.changes.pop_back()),
            Some(_) => self.changes.push_back(at),
            None if unacknowledged => self.changes.push_back(at),
            None => {}
        }
        if self.changes.len() > CHANGES_MAX {
            self.changes.drain(..2);
        }
    }

    /// The answer that `plan` gives.
    fn answer(&self, plan: &SegmentPlan) -> bool {
        // Each change that waits turns it round.
        let waiting = if plan.old { self.changes.len() } else { 0 };
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
        let cwr = self.cwr_due && plan.len > 0 && !plan.again;
        set(Flags::ECE, self.on && self.answer(plan)) | set(Flags::CWR, self.on && cwr)
    }
}
