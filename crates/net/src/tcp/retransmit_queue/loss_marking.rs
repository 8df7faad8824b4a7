//! What of a flight counts as lost, as received or as neither, and which of it
//! goes again first.

use super::{Record, RetransmitQueue};
use crate::wire::tcp::Seq;

impl RetransmitQueue {
    /// Without SACK: one more duplicate says that the peer got `bytes` more,
    /// never all that is in flight; returns how much of that can be true.
    pub(crate) fn count_duplicate(&mut self, bytes: u32, in_flight: u32) -> u32 {
        let most = in_flight.saturating_sub(self.head.len());
        let Some(ledger) = self.ledger.as_deref_mut() else { return 0 };
        let before = ledger.sacked;
        ledger.sacked = before.saturating_add(bytes).min(most).max(before);
        ledger.sacked - before
    }

    /// Without SACK: `acked` bytes were acknowledged at once, all but the first
    /// segment of which were counted as duplicates before (RFC 6582 §3.2).
    pub(crate) fn discount_duplicates(&mut self, acked: u32, mss: u32) -> u32 {
        let Some(ledger) = self.ledger.as_deref_mut() else { return 0 };
        let before = ledger.sacked;
        ledger.sacked = before.saturating_sub(acked.saturating_sub(mss.min(acked)));
        before - ledger.sacked
    }

    pub(crate) fn forget_duplicates(&mut self) {
        if let Some(ledger) = self.ledger.as_deref_mut() {
            ledger.sacked = 0;
        }
    }

    /// Every record for which `judge` says so counts as lost; returns how many
    /// do so newly. `judge` sees neither what the peer holds nor what is lost.
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
        if let Some(ledger) = self.ledger.as_deref_mut() {
            let mut rest = ledger.rest.iter_mut();
            while !stop && let Some(record) = rest.next() {
                let judgement = mark(record);
                stop = judgement == LossDecision::Stop;
                ledger.lost += if judgement == LossDecision::Lost { record.len() } else { 0 };
            }
            ledger.lost_from = first.map_or(ledger.lost_from, |first| ledger.lost_from.min(first));
        }
        marked
    }

    /// Nothing counts as lost any more.
    pub(crate) fn forgive(&mut self) {
        self.head.lost = false;
        if let Some(ledger) = self.ledger.as_deref_mut() {
            ledger.lost = 0;
            ledger.rest.iter_mut().for_each(|record| record.lost = false);
        }
    }

    /// What the peer once reported does not count any more (RFC 2018 §8).
    pub(crate) fn forget_reports(&mut self) {
        self.head.sacked = false;
        if let Some(ledger) = self.ledger.as_deref_mut() {
            ledger.sacked = 0;
            ledger.rest.iter_mut().for_each(|record| record.sacked = false);
            ledger.board.clear();
            ledger.sacked_records = 0;
        }
    }

    /// Whether the peer reported the very first byte that it has not acknowledged.
    pub(crate) fn contradicts(&self) -> bool {
        self.head.sacked
    }

    /// The first lost record.
    pub(crate) fn first_lost(&self) -> Option<&Record> {
        if self.head.lost && !self.is_empty() {
            return Some(&self.head);
        }
        let ledger = self.ledger.as_ref().filter(|ledger| ledger.lost > 0)?;
        let from = ledger.rest.partition_point(|r| r.end.at_or_before(ledger.lost_from));
        ledger.rest.range(from..).find(|record| record.lost)
    }

    /// The first record below the last report that was neither received nor
    /// sent again (RFC 6675 §4, NextSeg rule 3).
    pub(crate) fn first_doubtful(&self) -> Option<&Record> {
        let end = self.ledger.as_ref()?.board.end()?;
        (0..self.len())
            .map_while(|i| self.get(i))
            .take_while(|r| r.start.before(end))
            .find(|r| !r.sacked && !r.again)
    }

    /// The last record that the peer has not reported (RFC 6675 §4, NextSeg rule 4).
    pub(crate) fn last_unreported(&self) -> Option<&Record> {
        (0..self.len()).rev().find_map(|i| self.get(i).filter(|record| !record.sacked))
    }

    /// Where what was sent again ends; nothing behind it was.
    pub(crate) fn again_end(&self) -> Option<Seq> {
        self.ledger.as_ref().and_then(|ledger| ledger.again_end)
    }
}

/// What [`RetransmitQueue::mark_lost`] does with a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LossDecision {
    /// It is lost.
    Lost,
    /// It may still arrive.
    Keep,
    /// It and all behind it may still arrive.
    Stop,
}
