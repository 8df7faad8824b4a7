//! Transmit decision: the next segment to send.
//!
//! [`Connection::plan`] changes no state, so a full device costs nothing;
//! [`Connection::transmitted`] records what was sent. The order is retransmissions, new data, pure
//! ACKs. The segment itself is built in `segment_builder`.

use super::flags::Hold;
use queueing::Time;
use wire::tcp::{Flags, Seq};

use super::buffer::Pool;
use super::congestion::CongestionControl;
use super::connection::{Connection, Recovery};
use super::pmtu::ProbeDecision;
use super::recovery::TailLossProbe;
use super::retransmit_queue::Record;
use super::state::State;
use super::store::ByteStore;
use crate::stack::Config;

/// Plan of one segment to send, or of several in one frame for a device with TSO.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SegmentPlan {
    pub(crate) seq: Seq,
    /// Bytes of data.
    pub(crate) len: u32,
    pub(crate) flags: Flags,
    /// True for a retransmission.
    pub(crate) retransmitted: bool,
    /// True for a probe, which only makes the peer answer.
    pub(crate) probe: bool,
    /// True if it acknowledges less than it could, with the ECE value that belongs to that number.
    pub(crate) partial: bool,
    /// Number of segments into which the device splits the data.
    pub(crate) segments: u8,
}

impl SegmentPlan {
    /// Plan of one segment sent for the first time.
    #[inline]
    fn first(seq: Seq, len: u32, flags: Flags) -> Self {
        Self { seq, len, flags, retransmitted: false, probe: false, partial: false, segments: 1 }
    }

    /// Sequence number after the segment.
    ///
    /// Data in a SYN counts as unsent until the SYN-ACK acknowledges it (RFC 7413 §4.2.2).
    fn end(&self) -> Seq {
        if self.flags.contains(Flags::SYN) {
            return self.seq + 1;
        }
        self.seq + self.len + self.flags.contains(Flags::FIN) as u32
    }
}

impl<B: ByteStore> Connection<B> {
    /// True if [`Connection::plan`] may return a segment.
    #[inline]
    pub(crate) fn wants_output(&self) -> bool {
        self.acks_due > 0 || self.wants_data()
    }

    /// True if more than an ACK may be due.
    #[inline]
    pub(crate) fn wants_data(&self) -> bool {
        let forced = self.flags.probe_due | self.flags.tlp_due;
        self.has_unsent() || forced || self.flight.has_lost() || self.may_doubt()
    }

    /// True if data that is neither lost nor received may be retransmitted.
    #[inline]
    fn may_doubt(&self) -> bool {
        matches!(self.recovery, Recovery::Fast { .. }) && self.flags.sack
    }

    /// Next segment, if one may be sent now.
    #[inline]
    pub(crate) fn plan(&self, now: Time, config: &Config) -> Option<SegmentPlan> {
        match self.state {
            State::Closed => return None,
            State::TimeWait { .. } => return self.plan_ack(),
            _ => {}
        }
        if self.ecn_pacing.is_some() && self.only_acknowledges(now) {
            return self.plan_ack();
        }
        if let retransmitted @ Some(_) = self.plan_retransmission() {
            return retransmitted;
        }
        if self.ecn_pacing.is_some() {
            match self.plan_path_probe() {
                ProbeDecision::Now(probe) => return Some(probe),
                ProbeDecision::Soon => return self.plan_ack(),
                ProbeDecision::None => {}
            }
        }
        if let new @ Some(_) = self.plan_new() {
            return new;
        }
        self.plan_rest(config)
    }

    #[inline(never)]
    fn plan_rest(&self, config: &Config) -> Option<SegmentPlan> {
        self.plan_doubtful(config)
            .or_else(|| self.plan_tlp())
            .or_else(|| self.plan_probe())
            .or_else(|| self.plan_ack())
    }

    /// True if only ACKs may be sent now: an ACK of a mark change comes first, or the pacer holds
    /// data back.
    fn only_acknowledges(&self, now: Time) -> bool {
        let forced = self.flags.retransmit_now || self.flags.tlp_due || self.flags.probe_due;
        self.acked_before_change().is_some() || (!forced && self.is_paced(now))
    }

    #[inline]
    fn plan_retransmission(&self) -> Option<SegmentPlan> {
        if !self.flight.has_lost() {
            return None;
        }
        if !self.flags.retransmit_now {
            let waits = self.flight.records().is_some_and(|records| records.spurious.wants_new_data());
            if waits || self.in_flight() >= self.congestion_window() {
                return None;
            }
        }
        Some(self.cut_again(self.flight.first_lost()?))
    }

    /// Retransmission of possibly lost data in a recovery without RACK, if nothing else can be
    /// sent.
    ///
    /// Once per recovery it includes the last segment that was not SACKed: no later segment could
    /// reveal its loss (RFC 6675 §4, NextSeg rules 3 and 4).
    fn plan_doubtful(&self, config: &Config) -> Option<SegmentPlan> {
        if config.rack
            || !self.may_doubt()
            || self.flight.lost() > 0
            || self.in_flight() >= self.congestion_window()
        {
            return None;
        }
        let doubtful = self.flight.first_doubtful().or_else(|| self.rescue());
        Some(self.cut_again(doubtful?))
    }

    fn rescue(&self) -> Option<&Record> {
        let rescued = self.flight.records().is_none_or(|records| records.rescued);
        let last = if rescued { None } else { self.flight.last_unreported() };
        // It must include the highest sequence number.
        last.filter(|record| record.len() <= u32::from(self.mss))
    }

    /// Tail loss probe by retransmission of the last segment; its ACK shows what is missing.
    fn plan_tlp(&self) -> Option<SegmentPlan> {
        let due = self.flags.tlp_due && self.state.is_synchronized();
        Some(self.cut_again(self.flight.last().filter(|_| due)?))
    }

    fn cut_again(&self, record: &Record) -> SegmentPlan {
        let mut plan = self.cut(record.start, record.len().min(u32::from(self.mss)));
        plan.retransmitted = true;
        plan
    }

    #[inline]
    fn plan_new(&self) -> Option<SegmentPlan> {
        if self.snd_nxt == self.snd_una && !self.state.is_synchronized() {
            return Some(self.cut(self.snd_nxt, 1));
        }
        let flight = self.in_flight();
        self.fresh().filter(|plan| {
            let space = self.congestion_window().saturating_sub(flight);
            flight == 0 || self.flags.tlp_due || plan.len <= space
        })
    }

    /// Next unsent segment, if the peer's window and Nagle's algorithm allow it.
    #[inline]
    pub(super) fn fresh(&self) -> Option<SegmentPlan> {
        if !self.may_send_data() || !self.has_unsent() || self.flight.is_full() {
            return None;
        }
        let mss = u32::from(self.mss);
        let (unsent, window) = (self.unsent(), self.invited());
        let len = unsent.min(mss).min(window);
        // Silly window avoidance: send a full segment, all data, or half the largest window
        // offered; after a timer, whatever fits (RFC 9293 §3.8.6.2.1).
        let silly = len < mss.min(unsent) && len < self.snd_wnd_max / 2 && !self.flags.probe_due;
        if window == 0 || silly {
            return None;
        }
        let flags = self.flags_of_new(len, unsent, window);
        let fin = u32::from(flags.contains(Flags::FIN));
        // Nagle: a small segment waits while anything is in flight (RFC 9293 §3.7.4).
        let waits = self.flags.hold.has(Hold::CORK)
            || self.flags.hold.has(Hold::NAGLE) && self.snd_nxt != self.snd_una;
        if waits && len < mss && fin == 0 {
            return None;
        }
        let plan = SegmentPlan::first(self.snd_nxt, len, flags);
        (len + fin > 0).then_some(plan)
    }

    /// Flags of a segment with `len` of `unsent` new bytes, for a peer window of `window` bytes.
    #[inline]
    pub(super) fn flags_of_new(&self, len: u32, unsent: u32, window: u32) -> Flags {
        let set = |flag, yes| if yes { flag } else { Flags::NONE };
        let last = len == unsent;
        let fin = last && self.flags.fin_queued && window > len && self.state.is_synchronized();
        Flags::ACK.with(set(Flags::PSH, last && len > 0)).with(set(Flags::FIN, fin))
    }

    fn plan_probe(&self) -> Option<SegmentPlan> {
        // The peer answers a sequence number that it has already acknowledged.
        let probe = SegmentPlan { probe: true, ..SegmentPlan::first(self.snd_una - 1, 0, Flags::ACK) };
        (self.flags.probe_due && self.state.is_synchronized()).then_some(probe)
    }

    /// Pure ACK, if one is due.
    #[inline]
    pub(crate) fn plan_ack(&self) -> Option<SegmentPlan> {
        let partial = self.ecn_pacing.is_some() && self.acked_before_change().is_some();
        let ack = SegmentPlan { partial, ..SegmentPlan::first(self.snd_nxt, 0, Flags::ACK) };
        (self.acks_due > 0 && self.state != State::SynSent).then_some(ack)
    }

    /// Segment of `space` sequence numbers at `seq`.
    #[inline]
    pub(super) fn cut(&self, seq: Seq, space: u32) -> SegmentPlan {
        if !self.state.is_synchronized() && seq == self.snd_una {
            let flags = if self.state == State::SynSent { Flags::SYN } else { Flags::SYN.with(Flags::ACK) };
            let len = if self.state == State::SynSent { self.fast_len() } else { 0 };
            return SegmentPlan::first(seq, len, flags);
        }
        let data_end = self.data_start() + self.send.len() as u32;
        let len = (data_end.distance(seq).max(0) as u32).min(space);
        let mut flags = Flags::ACK;
        if len > 0 && seq + len == data_end {
            flags |= Flags::PSH;
        }
        if self.flags.fin_queued && len < space {
            flags |= Flags::FIN;
        }
        SegmentPlan::first(seq, len, flags)
    }

    /// Bytes of data not yet sent.
    #[inline]
    pub(super) fn unsent(&self) -> u32 {
        (self.data_start() + self.send.len() as u32).distance(self.snd_nxt).max(0) as u32
    }

    /// Bytes of the peer's window beyond those that were sent.
    #[inline]
    pub(super) fn invited(&self) -> u32 {
        (self.snd_una + self.snd_wnd).distance(self.snd_nxt).max(0) as u32
    }

    /// True if only the peer's window prevents sending.
    #[inline]
    pub(crate) fn is_stalled(&self) -> bool {
        self.snd_una == self.snd_nxt && self.state.is_synchronized() && self.has_unsent()
    }

    /// Sequence number of the first byte in the send queue.
    #[inline]
    pub(crate) fn data_start(&self) -> Seq {
        if self.state.is_synchronized() { self.snd_una } else { self.snd_una + 1 }
    }

    #[inline]
    pub(crate) fn has_unsent(&self) -> bool {
        let sent = (self.snd_nxt - self.snd_una) as usize;
        if self.state == State::Established {
            return sent < self.send.len() + usize::from(self.flags.fin_queued);
        }
        self.has_unsent_otherwise(sent)
    }

    #[inline(never)]
    fn has_unsent_otherwise(&self, sent: usize) -> bool {
        match self.state {
            State::SynSent | State::SynReceived { .. } if sent == 0 => true,
            State::SynReceived { .. } if self.flags.fast_open => sent < self.send.len() + 1,
            State::SynSent | State::SynReceived { .. } => false,
            State::TimeWait { .. } | State::Closed | State::FinWait2 => false,
            _ => !self.flags.fin_sent && sent < self.send.len() + usize::from(self.flags.fin_queued),
        }
    }

    /// True if data may be sent: after the handshake, or after a SYN with a valid cookie (RFC 7413
    /// §4.2.2).
    #[inline]
    fn may_send_data(&self) -> bool {
        self.state.is_synchronized()
            || (self.flags.fast_open && matches!(self.state, State::SynReceived { .. }))
    }

    /// Bytes believed to be in the network: sent, neither lost nor received (pipe).
    #[inline]
    pub(super) fn in_flight(&self) -> u32 {
        (self.snd_nxt - self.snd_una).saturating_sub(self.flight.sacked() + self.flight.lost())
    }

    /// Congestion window in bytes; during PRR its limit.
    #[inline]
    pub(crate) fn congestion_window(&self) -> u32 {
        if let (true, Some(records)) = (self.recovery.apportions(), self.flight.records()) {
            return records.prr.window();
        }
        self.congestion.window().get().clamp(u64::from(self.mss), u64::from(u32::MAX)) as u32
    }

    /// Clears the D-SACK after an ACK that reported it or had no space for it.
    fn on_dsack_sent(&mut self) {
        let Some(reassembly) = &mut self.reassembly else { return };
        reassembly.twice = None;
        if reassembly.is_empty() {
            self.reassembly = None;
        }
    }

    /// Updates the state after `plan` was sent at `now` with a window up to `edge`.
    #[inline]
    pub(crate) fn transmitted(
        &mut self,
        plan: &SegmentPlan,
        edge: Seq,
        now: Time,
        config: &Config,
        pool: &mut Pool,
    ) {
        let end = plan.end();
        if plan.flags.contains(Flags::ACK) {
            self.rcv_adv = edge;
            (self.flags.ack_delayed, self.flags.ack_waits) = (false, false);
            // Data segments carry no SACK blocks.
            if plan.len == 0 && self.reassembly.is_some() {
                self.on_dsack_sent();
            }
            self.last_ack_sent = self.acked_by(plan);
        }
        if self.ecn_pacing.is_some() {
            self.on_sent_with_ecn_pacing(plan, now, config);
        }
        if plan.seq == end {
            if plan.seq == self.snd_nxt && !plan.partial {
                self.acks_due = self.acks_due.saturating_sub(1);
            }
            self.flags.probe_due = false;
            return;
        }
        // A data segment carries no SACK blocks and is no duplicate ACK (RFC 2018 §4, RFC 5681 §2):
        // ACKs owed for a gap stay due.
        if plan.len == 0 || self.reassembly.is_none() {
            self.acks_due = 0;
        }
        self.flags.probe_due = false;
        self.flags.fin_sent |= plan.flags.contains(Flags::FIN);
        self.segments.on_sent(plan.segments.into());
        // With nothing in flight, the timer ran for a window or a neighbour's address: it starts
        // anew (RFC 6298 §5.1).
        let restart = self.flags.retransmit_now || self.flags.tlp_due || self.flight.is_empty();
        self.flags.retransmit_now = false;
        if plan.retransmitted {
            let rescue = !config.rack && self.flight.lost() == 0 && self.flight.first_doubtful().is_none();
            self.segments.on_retransmission();
            self.flight.record_retransmission(plan.seq, end - plan.seq, now, pool);
            if let Some(records) = self.flight.records_mut() {
                records.spurious.on_retransmission(now);
                records.rescued |= rescue;
            }
            self.undo.on_retransmission(self.snd_nxt);
        } else {
            self.push_flight(plan, end, now, pool);
            self.snd_nxt = end;
            self.transmit.on_sent(end);
        }
        if let (true, Some(records)) = (self.recovery.apportions(), self.flight.records_mut()) {
            records.prr.on_sent(end - plan.seq);
        }
        if self.flags.tlp_due {
            self.flags.tlp_due = false;
            self.tlp = Some(TailLossProbe { end: self.snd_nxt, retransmitted: plan.retransmitted });
        }
        if restart || self.rto_at == Time::MAX {
            self.rto_at = self.rto_from(now, config);
        }
        self.arm_early(now, config);
    }
}
