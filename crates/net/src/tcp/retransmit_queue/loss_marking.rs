//! Loss and SACK marks of the retransmission queue, and the choice of the next retransmission.
//!
//! The rules of loss are in `recovery`.
//! Source: RFC 6675 §4, RFC 6582 §3.2.

use wire::tcp::Seq;

use super::{Record, RetransmitQueue};

impl RetransmitQueue {
    /// Without SACK: counts a duplicate ACK as `bytes` received; returns how many of them are
    /// plausible.
    ///
    /// The first record is never counted as received.
    pub(crate) fn count_duplicate(&mut self, bytes: u32, in_flight: u32) -> u32 {
        let most = in_flight.saturating_sub(self.head.len());
        let Some(records) = self.records.as_deref_mut() else { return 0 };
        let before = records.sacked;
        records.sacked = before.saturating_add(bytes).min(most).max(before);
        records.sacked - before
    }

    /// Without SACK: removes bytes of `acked` that duplicate ACKs have already counted; returns
    /// their number.
    ///
    /// That is all but the first segment (RFC 6582 §3.2).
    pub(crate) fn discount_duplicates(&mut self, acked: u32, mss: u32) -> u32 {
        let Some(records) = self.records.as_deref_mut() else { return 0 };
        let before = records.sacked;
        records.sacked = before.saturating_sub(acked.saturating_sub(mss.min(acked)));
        before - records.sacked
    }

    pub(crate) fn forget_duplicates(&mut self) {
        if let Some(records) = self.records.as_deref_mut() {
            records.sacked = 0;
        }
    }

    /// Marks every record as lost for which `judge` decides so; returns the number of newly marked
    /// ones.
    ///
    /// `judge` is not called for records that are SACKed or already lost.
    pub(crate) fn mark_lost(&mut self, mut judge: impl FnMut(&Record) -> LossDecision) -> u32 {
        let (mut marked, mut first) = (0, None);
        let mut mark = |record: &mut Record| {
            if record.sacked || record.lost || record.start == record.end {
                return LossDecision::Keep;
            }
            let judgement = judge(record);
            if judgement == LossDecision::Lost {
                record.lost = true;
                marked += 1;
                first.get_or_insert(record.start);
            }
            judgement
        };
        let mut stop = mark(&mut self.head) == LossDecision::Stop;
        if let Some(records) = self.records.as_deref_mut() {
            let mut rest = records.rest.iter_mut();
            while !stop && let Some(record) = rest.next() {
                let judgement = mark(record);
                stop = judgement == LossDecision::Stop;
                records.lost += if judgement == LossDecision::Lost { record.len() } else { 0 };
            }
            records.lost_from = first.map_or(records.lost_from, |first| records.lost_from.min(first));
        }
        marked
    }

    /// Clears all loss marks.
    pub(crate) fn unmark(&mut self) {
        self.head.lost = false;
        if let Some(records) = self.records.as_deref_mut() {
            records.lost = 0;
            records.rest.iter_mut().for_each(|record| record.lost = false);
        }
    }

    /// Clears all SACK marks (RFC 2018 §8).
    pub(crate) fn forget_reports(&mut self) {
        self.head.sacked = false;
        if let Some(records) = self.records.as_deref_mut() {
            records.sacked = 0;
            records.rest.iter_mut().for_each(|record| record.sacked = false);
            records.board.clear();
            records.sacked_records = 0;
        }
    }

    /// True if the peer SACKed the first byte that it has not acknowledged (reneging).
    pub(crate) fn contradicts(&self) -> bool {
        self.head.sacked
    }

    /// First lost record.
    pub(crate) fn first_lost(&self) -> Option<&Record> {
        if self.head.lost && !self.is_empty() {
            return Some(&self.head);
        }
        let records = self.records.as_ref().filter(|records| records.lost > 0)?;
        let from = records.rest.partition_point(|r| r.end.at_or_before(records.lost_from));
        records.rest.range(from..).find(|record| record.lost)
    }

    /// First record below the last SACK block that was neither received nor retransmitted (RFC 6675
    /// §4, NextSeg rule 3).
    pub(crate) fn first_doubtful(&self) -> Option<&Record> {
        let end = self.records.as_ref()?.board.end()?;
        (0..self.len())
            .map_while(|i| self.get(i))
            .take_while(|r| r.start.before(end))
            .find(|r| !r.sacked && !r.retransmitted)
    }

    /// Last record that was not SACKed (RFC 6675 §4, NextSeg rule 4).
    pub(crate) fn last_unreported(&self) -> Option<&Record> {
        (0..self.len()).rev().find_map(|i| self.get(i).filter(|record| !record.sacked))
    }

    /// End of the highest retransmitted record.
    pub(crate) fn retransmitted_end(&self) -> Option<Seq> {
        self.records.as_ref().and_then(|records| records.retransmitted_end)
    }
}

/// Decision of [`RetransmitQueue::mark_lost`] on a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LossDecision {
    /// The record is lost.
    Lost,
    /// The record may still arrive.
    Keep,
    /// The record and all later ones may still arrive.
    Stop,
}
