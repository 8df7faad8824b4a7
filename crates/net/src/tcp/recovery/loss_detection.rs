//! Loss detection: by time (RACK), by SACK blocks, or by duplicate ACKs alone.
//!
//! Marks segments as lost and returns their number; `recovery` decides the reaction.
//! Source: RFC 8985 §6, 6675 §4, 6582 §3.

use queueing::{Span, Time};
use wire::tcp::Seq;

use crate::stack::Config;
use crate::tcp::acks::AckResult;
use crate::tcp::connection::{Connection, Context, Recovery};
use crate::tcp::retransmit_queue::LossDecision;
use crate::tcp::store::ByteStore;

/// Number of duplicate ACKs that indicate a loss (DupThresh).
const DUPLICATE_ACKS_MAX: u8 = 3;

/// Method of loss detection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Method {
    /// Time-based: RACK (RFC 8985).
    Rack,
    /// By SACK blocks (RFC 6675).
    Sack,
    /// By duplicate ACKs (RFC 6582).
    NewReno,
}

impl<B: ByteStore> Connection<B> {
    pub(super) fn method(&self, config: &Config) -> Method {
        match (self.flags.sack, config.rack) {
            (true, true) => Method::Rack,
            (true, false) => Method::Sack,
            (false, _) => Method::NewReno,
        }
    }

    /// Marks lost segments; returns the number of newly marked ones.
    pub(super) fn detect_loss(&mut self, cx: &mut Context<'_>, method: Method, result: &AckResult) -> u32 {
        match method {
            Method::Rack => self.detect_by_time(cx.now),
            Method::Sack => self.detect_by_count(),
            Method::NewReno => match self.recovery {
                Recovery::None | Recovery::Reduction { .. } if self.duplicate_acks < DUPLICATE_ACKS_MAX => 0,
                Recovery::Timeout { .. } => 0,
                // A partial ACK: the next hole is lost, too.
                Recovery::Fast { until } if result.advanced == 0 || self.snd_una.at_or_after(until) => 0,
                _ => {
                    self.flags.retransmit_now = true;
                    self.mark_first_lost()
                }
            },
        }
    }

    fn mark_first_lost(&mut self) -> u32 {
        let una = self.snd_una;
        let first = |start: Seq| if start == una { LossDecision::Lost } else { LossDecision::Stop };
        self.flight.mark_lost(|record| first(record.start))
    }

    fn detect_by_count(&mut self) -> u32 {
        let edge = self.flight.records().and_then(|records| records.board.lost_edge(u32::from(self.mss)));
        let starts =
            !self.recovery.repairs() && (self.duplicate_acks >= DUPLICATE_ACKS_MAX || edge.is_some());
        if let Recovery::Timeout { .. } = self.recovery {
            return 0;
        }
        let first = if starts { self.mark_first_lost() } else { 0 };
        let Some(edge) = edge else { return first };
        first
            + self.flight.mark_lost(|record| match record.end.at_or_before(edge) {
                true if !record.retransmitted => LossDecision::Lost,
                true => LossDecision::Keep,
                false => LossDecision::Stop,
            })
    }

    /// Marks segments older than RACK's reordering window, and sets the timer for the others (RFC
    /// 8985 §6.2 step 5).
    pub(super) fn detect_by_time(&mut self, now: Time) -> u32 {
        let (repairing, srtt) = (self.recovery.repairs(), self.rtt.srtt());
        self.early_at = Time::MAX;
        let Some(records) = self.flight.records() else { return 0 };
        let rack = records.rack;
        if !rack.is_known() {
            return 0;
        }
        let window = self.reordering.window(repairing, records.sacked_records, srtt);
        let lost_end = self.flight.retransmitted_end().map_or(rack.fack(), |end| end.max(rack.fack()));
        let mut late_at = Time::ZERO;
        let lost = self.flight.mark_lost(|record| match rack.lost_at(record, window) {
            Some(at) if at <= now => LossDecision::Lost,
            Some(at) => {
                late_at = late_at.max(at);
                LossDecision::Keep
            }
            None if record.start.at_or_after(lost_end) => LossDecision::Stop,
            None => LossDecision::Keep,
        });
        if late_at != Time::ZERO {
            self.early_at = late_at;
        }
        if lost > 0 && self.ecn_pacing.is_some() { self.excuse_probe(now, lost) } else { lost }
    }

    /// After a timeout, marks the first segment and all that could have been acknowledged by now.
    pub(super) fn mark_after_timeout(&mut self, cx: &mut Context<'_>) {
        let (now, una) = (cx.now, self.snd_una);
        let srtt = self.rtt.srtt().unwrap_or(Span::ZERO);
        let reorder_window = match (self.method(cx.config), self.flight.records()) {
            (Method::Rack, Some(records)) => {
                let window = self.reordering.window(true, records.sacked_records, Some(srtt));
                records.rack.rtt_or(srtt) + window
            }
            _ => Span::ZERO,
        };
        self.flight.mark_lost(|record| match record.start == una || record.sent + reorder_window <= now {
            true => LossDecision::Lost,
            false => LossDecision::Keep,
        });
    }
}
