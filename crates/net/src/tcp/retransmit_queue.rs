//! Retransmission queue: one record per segment that was sent and not yet acknowledged.
//!
//! The first record is stored in the connection, so a single request in flight allocates nothing. A
//! second one, or a recovery, takes a [`RetransmitRecords`] from the pool; it is returned when
//! nothing is in flight.
//!
//! Records are contiguous and sorted by sequence number. Their number is bounded by
//! [`RetransmitQueue::RECORDS_MAX`], and beyond the first few their memory counts towards the
//! pool's bound. At either bound, no new data is sent until some is acknowledged.
//! Source: RFC 8985 §5.

use std::collections::VecDeque;

use queueing::Time;
use wire::tcp::Seq;

use super::buffer::{MemoryClass, Pool};
use super::prr::Prr;
use super::rack::Rack;
use super::scoreboard::Scoreboard;
use super::spurious::Spurious;

mod loss_marking;

pub(crate) use loss_marking::LossDecision;

/// Sent segment with the sequence range `[start, end)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) start: Seq,
    pub(crate) end: Seq,
    /// Time of the last transmission.
    pub(crate) sent: Time,
    /// True if the segment was retransmitted.
    pub(crate) retransmitted: bool,
    /// True if the peer has SACKed the segment.
    pub(crate) sacked: bool,
    /// True if the segment is marked lost and was not retransmitted since.
    pub(crate) lost: bool,
}

impl Record {
    pub(crate) fn new(start: Seq, end: Seq, sent: Time) -> Self {
        Self { start, end, sent, retransmitted: false, sacked: false, lost: false }
    }

    #[inline]
    pub(crate) fn len(&self) -> u32 {
        self.end - self.start
    }
}

/// Records and recovery state of a flight with several segments or with a loss.
#[derive(Debug, Default)]
pub(crate) struct RetransmitRecords {
    /// All records but the first.
    rest: VecDeque<Record>,
    /// Ranges that the peer has SACKed.
    pub(crate) board: Scoreboard,
    /// Bytes marked lost and not retransmitted since, without the first record.
    lost: u32,
    /// Bytes received by the peer beyond its acknowledgement: by SACK, or estimated from duplicate
    /// ACKs.
    sacked: u32,
    /// Number of SACKed records.
    pub(crate) sacked_records: u32,
    pub(crate) rack: Rack,
    pub(crate) prr: Prr,
    pub(crate) spurious: Spurious,
    /// No record before this one is lost.
    lost_from: Seq,
    /// End of the highest retransmission.
    retransmitted_end: Option<Seq>,
    /// True if this recovery has sent its rescue retransmission (RFC 6675 §4).
    pub(crate) rescued: bool,
}

impl RetransmitRecords {
    /// Maximum capacity kept while in the pool, in records.
    const KEPT_RECORDS_MAX: usize = 512;
    /// Minimum capacity, in records.
    const RECORDS_MIN: usize = 4;
    /// Number of records that do not count towards the pool's limit: more than are sent at once.
    const RECORDS_FREE: usize = 64;

    /// Memory of the records that counts towards the pool's bound, in bytes.
    pub(crate) fn footprint(&self) -> usize {
        Self::counted(self.rest.capacity())
    }

    /// Counted bytes of a capacity of `records`.
    const fn counted(records: usize) -> usize {
        records.saturating_sub(Self::RECORDS_FREE) * size_of::<Record>()
    }

    /// True if memory allows `more` records beyond the capacity.
    #[cold]
    fn may_grow(&self, more: usize, pool: &Pool) -> bool {
        let records = (self.rest.len() + more).next_power_of_two();
        records <= Self::RECORDS_FREE
            || pool.allows(MemoryClass::Much, Self::counted(records).saturating_sub(self.footprint()))
    }

    /// Doubles the capacity.
    #[cold]
    fn grow(&mut self, pool: &mut Pool) {
        let before = self.footprint();
        self.rest.reserve(self.rest.len().max(Self::RECORDS_MIN));
        pool.account(before, self.footprint());
    }

    /// Resets everything except the capacity.
    pub(crate) fn reset(&mut self) {
        let (mut rest, mut board) = (std::mem::take(&mut self.rest), std::mem::take(&mut self.board));
        rest.clear();
        if rest.capacity() > Self::KEPT_RECORDS_MAX {
            rest = VecDeque::new();
        }
        board.clear();
        *self = Self { rest, board, ..Self::default() };
    }
}

/// Retransmission queue of a connection.
#[derive(Debug)]
pub(crate) struct RetransmitQueue {
    /// First record; empty if nothing is in flight.
    head: Record,
    records: Option<Box<RetransmitRecords>>,
    /// Time of the last transmission that occupies sequence numbers.
    pub(crate) latest: Time,
}

impl RetransmitQueue {
    /// Maximum number of records, of 24 bytes each.
    pub(crate) const RECORDS_MAX: usize = 1 << 14;

    pub(crate) fn new(at: Seq, now: Time) -> Self {
        Self { head: Record::new(at, at, now), records: None, latest: now }
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.head.start == self.head.end
    }

    /// Send time of the only segment in flight, if it was sent once.
    #[inline]
    pub(crate) fn single(&self) -> Option<Time> {
        let single = self.records.is_none() && !self.head.retransmitted && !self.is_empty();
        single.then_some(self.head.sent)
    }

    /// Removes the only segment in flight, which is acknowledged.
    #[inline]
    pub(crate) fn settle(&mut self) {
        self.head.start = self.head.end;
    }

    /// Number of segments in flight.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        match &self.records {
            _ if self.is_empty() => 0,
            Some(records) => 1 + records.rest.len(),
            None => 1,
        }
    }

    /// Number of `segments` new ones that may be sent at once, given that one may.
    #[inline]
    pub(crate) fn room(&self, segments: u32, pool: &Pool) -> u32 {
        let Some(records) = &self.records else { return segments };
        let left = records.rest.capacity() - records.rest.len();
        let few = left < segments as usize && !records.may_grow(segments as usize, pool);
        let most = if few { left } else { Self::RECORDS_MAX.saturating_sub(records.rest.len() + 1) };
        segments.min(most as u32)
    }

    /// True if no further segment may be sent.
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.records.as_ref().is_some_and(|records| {
            let len = records.rest.len();
            len + 1 >= Self::RECORDS_MAX || len == records.rest.capacity()
        })
    }

    #[inline]
    pub(crate) fn lost(&self) -> u32 {
        let head = if self.head.lost { self.head.len() } else { 0 };
        head + self.records.as_ref().map_or(0, |records| records.lost)
    }

    /// True if any record is lost.
    #[inline]
    pub(crate) fn has_lost(&self) -> bool {
        (self.head.lost && !self.is_empty()) || self.records.as_ref().is_some_and(|records| records.lost > 0)
    }

    #[inline]
    pub(crate) fn sacked(&self) -> u32 {
        self.records.as_ref().map_or(0, |records| records.sacked)
    }

    /// True if nothing is SACKed or retransmitted.
    #[inline]
    pub(crate) fn is_smooth(&self) -> bool {
        self.records.as_ref().is_none_or(|records| records.sacked == 0 && records.retransmitted_end.is_none())
    }

    #[inline]
    pub(crate) fn records(&self) -> Option<&RetransmitRecords> {
        self.records.as_deref()
    }

    #[inline]
    pub(crate) fn records_mut(&mut self) -> Option<&mut RetransmitRecords> {
        self.records.as_deref_mut()
    }

    /// The records; taken from the pool if there are none.
    #[inline]
    pub(crate) fn open(&mut self, pool: &mut Pool) -> &mut RetransmitRecords {
        let head = self.head;
        self.records.get_or_insert_with(|| {
            let mut records = pool.take_records_buffer();
            if records.rest.capacity() == 0 || !pool.has_space(records.footprint()) {
                records.rest = VecDeque::with_capacity(RetransmitRecords::RECORDS_MIN);
            }
            pool.account(0, records.footprint());
            records.lost_from = head.start;
            records.rack.start(head.start);
            records
        })
    }

    pub(crate) fn get(&self, i: usize) -> Option<&Record> {
        match i {
            0 => (!self.is_empty()).then_some(&self.head),
            _ => self.records.as_ref()?.rest.get(i - 1),
        }
    }

    fn get_mut(&mut self, i: usize) -> Option<&mut Record> {
        match i {
            0 => (!self.is_empty()).then_some(&mut self.head),
            _ => self.records.as_mut()?.rest.get_mut(i - 1),
        }
    }

    pub(crate) fn last(&self) -> Option<&Record> {
        self.get(self.len().checked_sub(1)?)
    }

    /// Index of the first record that ends after `seq`.
    pub(crate) fn index_of(&self, seq: Seq) -> usize {
        if self.head.end.after(seq) {
            return 0;
        }
        self.records
            .as_ref()
            .map_or(1, |records| 1 + records.rest.partition_point(|r| r.end.at_or_before(seq)))
    }

    /// Adds `[start, end)`, sent for the first time.
    #[inline]
    pub(crate) fn push(&mut self, start: Seq, end: Seq, now: Time, pool: &mut Pool) {
        self.latest = now;
        let record = Record::new(start, end, now);
        if self.is_empty() {
            self.head = record;
        } else {
            let records = self.open(pool);
            if records.rest.len() == records.rest.capacity() {
                // Among segments that are sent at once.
                records.grow(pool);
            }
            records.rest.push_back(record);
            if records.rest.len() == records.rest.capacity() && records.may_grow(1, pool) {
                records.grow(pool);
            }
        }
    }

    /// True if nothing is in flight and no records are allocated.
    #[inline]
    pub(crate) fn is_at_rest(&self) -> bool {
        self.records.is_none() && self.is_empty()
    }

    /// Same as [`RetransmitQueue::push`] for a queue at rest.
    #[inline]
    pub(crate) fn start(&mut self, start: Seq, end: Seq, now: Time) {
        self.latest = now;
        self.head = Record::new(start, end, now);
    }

    /// Records the retransmission of `len` sequence numbers from `start` on.
    pub(crate) fn record_retransmission(&mut self, start: Seq, len: u32, now: Time, pool: &mut Pool) {
        self.latest = now;
        let i = self.index_of(start);
        self.split(i, start + len, pool);
        let Some(record) = self.get_mut(i) else { return };
        let (was_lost, len, end) = (record.lost, record.len(), record.end);
        (record.sent, record.retransmitted, record.lost) = (now, true, false);
        let records = self.open(pool);
        records.lost -= if was_lost && i > 0 { len } else { 0 };
        records.retransmitted_end = Some(records.retransmitted_end.map_or(end, |previous| previous.max(end)));
        if was_lost {
            // It was the first lost record.
            records.lost_from = end;
        }
    }

    /// Splits record `i` at `seq`, if that lies inside.
    fn split(&mut self, i: usize, seq: Seq, pool: &mut Pool) {
        let Some(record) = self.get_mut(i) else { return };
        if seq.at_or_after(record.end) || seq.at_or_before(record.start) {
            return;
        }
        let second = Record { start: seq, ..*record };
        record.end = seq;
        let records = self.open(pool);
        records.lost += if second.lost && i == 0 { second.len() } else { 0 };
        records.sacked_records += u32::from(second.sacked);
        if records.rest.len() == records.rest.capacity() {
            records.grow(pool);
        }
        records.rest.insert(i, second);
    }

    /// Removes everything before `una`; calls `deliver` for every record that was not SACKed
    /// before.
    #[inline]
    pub(crate) fn acknowledge(
        &mut self,
        una: Seq,
        mut deliver: impl FnMut(&mut Option<Box<RetransmitRecords>>, &Record),
    ) {
        while !self.is_empty() && self.head.start.before(una) {
            let mut acknowledged = self.head;
            acknowledged.end = acknowledged.end.min(una);
            if acknowledged.sacked {
                if let Some(records) = &mut self.records {
                    records.sacked -= acknowledged.len();
                }
            } else {
                deliver(&mut self.records, &acknowledged);
            }
            if acknowledged.end != self.head.end {
                self.head.start = una;
                break;
            }
            self.head.start = self.head.end;
            if let Some(records) = &mut self.records {
                records.sacked_records -= u32::from(acknowledged.sacked);
                if let Some(next) = records.rest.pop_front() {
                    records.lost -= if next.lost { next.len() } else { 0 };
                    self.head = next;
                }
            }
        }
        if let Some(records) = &mut self.records {
            records.board.advance(una);
            if records.retransmitted_end.is_some_and(|end| end.at_or_before(una)) {
                records.retransmitted_end = None;
            }
        }
    }

    /// Returns the records to the pool, once nothing is in flight.
    #[inline]
    pub(crate) fn close(&mut self, pool: &mut Pool) {
        if let Some(records) = self.records.take() {
            pool.account(records.footprint(), 0);
            pool.return_records_buffer(records);
        }
    }

    /// Removes everything; the next segment starts at `at`.
    pub(crate) fn clear(&mut self, at: Seq, pool: &mut Pool) {
        (self.head.start, self.head.end) = (at, at);
        self.close(pool);
    }

    /// Marks `[start, end)` as SACKed; calls `deliver` for every newly SACKed record.
    ///
    /// Records covered only in part stay unmarked.
    pub(crate) fn sack(
        &mut self,
        start: Seq,
        end: Seq,
        pool: &mut Pool,
        mut deliver: impl FnMut(&mut Rack, &Record),
    ) {
        let Some((fresh, (from, to))) = self.open(pool).board.insert(start, end) else { return };
        // A record that began before the new range may be complete now.
        let mut i = self.index_of(fresh);
        let Self { head, records, .. } = self;
        let Some(records) = records.as_deref_mut() else { return };
        loop {
            let record = match i {
                0 => &mut *head,
                _ => match records.rest.get_mut(i - 1) {
                    Some(record) => record,
                    None => break,
                },
            };
            if record.start.at_or_after(end) {
                break;
            }
            i += 1;
            if record.sacked || record.start.before(from) || record.end.after(to) {
                continue;
            }
            records.lost -= if record.lost && i > 1 { record.len() } else { 0 };
            records.sacked += record.len();
            records.sacked_records += 1;
            deliver(&mut records.rack, record);
            (record.sacked, record.lost) = (true, false);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sends one-byte segments until the queue is full; returns their number.
    fn fill(flight: &mut RetransmitQueue, from: u32, pool: &mut Pool) -> u32 {
        let full = (from..).take(20_000).find(|&at| {
            let full = flight.is_full();
            if !full {
                flight.push(Seq(at), Seq(at + 1), Time::ZERO, pool);
            }
            full
        });
        full.expect("the queue fills") - from
    }

    //~ stack: memory of all connections stays within `memory_max`; windows closed for it reopen
    #[test]
    fn records_stay_within_the_memory_and_continue_once_some_are_acknowledged() {
        for (memory, expected) in
            [(0, 65), (16 << 10, 513), (usize::MAX, RetransmitQueue::RECORDS_MAX as u32)]
        {
            let (mut pool, mut flight) = (Pool::bounded(memory), RetransmitQueue::new(Seq(0), Time::ZERO));
            let sent = fill(&mut flight, 0, &mut pool);
            assert_eq!(sent, expected, "{memory} bytes");
            assert!(pool.held() <= memory);
            assert_eq!(flight.room(9, &pool), 0);
            flight.acknowledge(Seq(10), |_, _| ());
            assert_eq!(fill(&mut flight, sent, &mut pool), 10);
            assert!(pool.held() <= memory);
            flight.clear(Seq(sent + 10), &mut pool);
            assert_eq!(pool.held(), 0);
        }
    }

    #[test]
    fn large_retransmit_records_are_not_reused_without_memory_for_them() {
        let mut pool = Pool::bounded(20 << 10);
        let mut flight = RetransmitQueue::new(Seq(0), Time::ZERO);
        let sent = fill(&mut flight, 0, &mut pool);
        flight.clear(Seq(sent), &mut pool);
        pool.account(0, 20 << 10);
        flight.push(Seq(0), Seq(1), Time::ZERO, &mut pool);
        flight.push(Seq(1), Seq(2), Time::ZERO, &mut pool);
        assert_eq!(pool.held(), 20 << 10);
        flight.clear(Seq(2), &mut pool);
        assert_eq!(pool.held(), 20 << 10);
    }
}
