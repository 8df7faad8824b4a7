//! Reassembly queue: received data beyond a gap.
//!
//! Pieces are sorted and disjoint. Adjacent pieces are joined but keep their segment boundaries,
//! since the classifier runs per segment once the data is in order. The number of pieces and
//! segments is bounded, and the receive window bounds their bytes. Data that does not fit is
//! dropped and retransmitted by the peer.
//! Source: RFC 9293 §3.10.7.4, RFC 2018.

use classify::PacketMeta;
use wire::tcp::{SackBlocks, Seq};

use super::buffer::Pool;
use super::store::Run;

/// Contiguous range of received bytes.
#[derive(Debug)]
pub(crate) struct ByteRange<R> {
    pub(crate) start: Seq,
    pub(crate) bytes: R,
    /// End of each segment in it, and the segment's metadata.
    segments: Vec<(Seq, PacketMeta)>,
}

impl<R: Run> ByteRange<R> {
    pub(crate) fn end(&self) -> Seq {
        self.start + self.bytes.len() as u32
    }

    /// Segments in order from `next` on: bytes and metadata.
    pub(crate) fn segments(&self, next: Seq) -> impl Iterator<Item = (&[u8], &PacketMeta)> {
        let mut at = next.max(self.start);
        self.segments.iter().filter_map(move |(end, meta)| {
            let from = at;
            at = at.max(*end);
            let range = (from - self.start) as usize..(at - self.start) as usize;
            Some((self.bytes.part(range).filter(|bytes| !bytes.is_empty())?, meta))
        })
    }
}

/// All data that waits for earlier bytes.
#[derive(Debug)]
pub(crate) struct Reassembly<R> {
    ranges: Vec<ByteRange<R>>,
    /// Positions of the latest segments in distinct pieces, latest first, for SACK blocks (RFC 2018
    /// §4).
    latest: [Seq; REPORTED],
    /// Range received twice, to be reported once (D-SACK, RFC 2883).
    pub(crate) twice: Option<(Seq, Seq)>,
}

/// Memory overhead of a piece, in bytes.
pub(crate) const RANGE_BYTES: usize = 2048;
/// Maximum number of pieces: a slow start that overshoots loses every second segment of a window.
const RANGES_MAX: usize = 1024;
/// Maximum number of pieces before small ones are refused.
const RANGES_SMALL_MAX: usize = 64;
/// Minimum size in bytes of a piece that is accepted beyond [`RANGES_SMALL_MAX`].
const WORTH: usize = 512;
/// Maximum number of segment boundaries in a piece; further segments count as one.
const SEGMENTS_MAX: usize = 1024;
/// Twice the blocks in a segment, since pieces may be joined.
const REPORTED: usize = 8;

impl<R: Run> Reassembly<R> {
    pub(crate) fn new() -> Self {
        Self { ranges: Vec::new(), latest: [Seq(0); REPORTED], twice: None }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// True if the byte at `seq` is held.
    pub(crate) fn holds(&self, seq: Seq) -> bool {
        self.index_of(seq).is_some()
    }

    /// Stores the new part of `bytes`, which begin at `start`; returns the number of bytes stored.
    ///
    /// Bytes already held stay unchanged.
    pub(crate) fn insert(&mut self, start: Seq, bytes: &[u8], meta: &PacketMeta, pool: &mut Pool) -> usize {
        let stored = self.keep(start, bytes, meta, pool);
        self.note_latest(start);
        stored
    }

    fn keep(&mut self, start: Seq, bytes: &[u8], meta: &PacketMeta, pool: &mut Pool) -> usize {
        let end = start + bytes.len() as u32;
        let (mut at, mut stored) = (start, 0);
        let mut i = self.ranges.partition_point(|p| p.end().at_or_before(start));
        while at.before(end) {
            let gap_end = self.ranges.get(i).map_or(end, |p| p.start.min(end));
            if at.before(gap_end) {
                let part = &bytes[(at - start) as usize..(gap_end - start) as usize];
                if i > 0 && self.ranges[i - 1].end() == at {
                    self.ranges[i - 1].grow(&[(gap_end, *meta)], pool, |own| own.extend(part));
                } else if self.has_space(part.len()) {
                    let bytes = R::of(part, pool);
                    let range = ByteRange { start: at, bytes, segments: vec![(gap_end, *meta)] };
                    pool.account(0, range.footprint());
                    self.ranges.insert(i, range);
                    i += 1;
                } else {
                    return stored;
                }
                stored += part.len();
                self.join(i, pool);
                // The piece behind the gap may have been joined.
                i = self.ranges.partition_point(|p| p.end().at_or_before(gap_end));
                at = gap_end;
            } else {
                at = self.ranges[i].end();
                i += 1;
            }
        }
        stored
    }

    /// True if one more piece of `len` bytes is allowed.
    fn has_space(&self, len: usize) -> bool {
        let max = if len < WORTH { RANGES_SMALL_MAX } else { RANGES_MAX };
        self.ranges.len() < max
    }

    /// Joins piece `i` to the previous one if they are adjacent.
    fn join(&mut self, i: usize, pool: &mut Pool) {
        if i == 0 || i >= self.ranges.len() || self.ranges[i - 1].end() != self.ranges[i].start {
            return;
        }
        let range = self.ranges.remove(i);
        self.ranges[i - 1].grow(&range.segments, pool, |own| own.join(&range.bytes));
        range.release(pool);
    }

    /// Removes the first piece if it starts at or before `next`.
    pub(crate) fn pop(&mut self, next: Seq) -> Option<ByteRange<R>> {
        self.ranges.first()?.start.at_or_before(next).then(|| self.ranges.remove(0))
    }

    /// Index of the piece that holds the byte at `seq`.
    fn index_of(&self, seq: Seq) -> Option<usize> {
        let i = self.ranges.partition_point(|p| p.end().at_or_before(seq));
        self.ranges.get(i).is_some_and(|p| p.start.at_or_before(seq)).then_some(i)
    }

    /// Records a segment at `start` as the latest; drops older entries of the same piece.
    fn note_latest(&mut self, start: Seq) {
        let Some(range) = self.index_of(start).map(|i| &self.ranges[i]) else { return };
        let reported = |at: &&Seq| at.at_or_after(range.start) && at.before(range.end());
        let mut latest = [start; REPORTED];
        let others = self.latest.iter().filter(|at| !reported(at));
        latest[1..].iter_mut().zip(others).for_each(|(slot, at)| *slot = *at);
        self.latest = latest;
    }

    /// SACK blocks to send: the D-SACK, the latest pieces, the previously reported ones (RFC 2018
    /// §4), then any others that fit.
    pub(crate) fn blocks(&self) -> SackBlocks {
        let latest = self.latest.map(|seq| self.index_of(seq));
        let recent =
            latest.iter().enumerate().filter(|(n, i)| !latest[..*n].contains(i)).filter_map(|(_, i)| *i);
        let rest = (0..self.ranges.len()).filter(|i| !latest.contains(&Some(*i)));
        let block = |i: usize| (self.ranges[i].start, self.ranges[i].end());
        self.twice.into_iter().chain(recent.chain(rest).map(block)).collect()
    }

    pub(crate) fn release(&mut self, pool: &mut Pool) {
        self.ranges.drain(..).for_each(|range| range.release(pool));
    }
}

impl<R: Run> ByteRange<R> {
    /// Memory of the piece in bytes.
    fn footprint(&self) -> usize {
        self.bytes.footprint() + self.segments.capacity() * size_of::<(Seq, PacketMeta)>()
    }

    /// Frees the memory of the piece.
    pub(crate) fn release(self, pool: &mut Pool) {
        pool.account(self.footprint(), 0);
        self.bytes.give(pool);
    }

    /// Appends `segments`, whose bytes `grow` adds.
    fn grow(&mut self, segments: &[(Seq, PacketMeta)], pool: &mut Pool, grow: impl FnOnce(&mut R)) {
        let before = self.footprint();
        grow(&mut self.bytes);
        self.segments.extend_from_slice(segments);
        if self.segments.len() > SEGMENTS_MAX {
            self.segments.truncate(SEGMENTS_MAX);
            self.segments[SEGMENTS_MAX - 1].0 = self.end();
        }
        pool.account(before, self.footprint());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use queueing::Time;

    type Reassembly = super::Reassembly<Vec<u8>>;

    fn meta(bytes: u16) -> PacketMeta {
        PacketMeta::new(Time::ZERO, bytes.into())
    }

    #[test]
    fn merged_ranges_keep_their_segments() {
        let (mut r, mut pool) = (Reassembly::new(), Pool::default());
        for (start, bytes) in [(10, &b"ab"[..]), (14, b"ef"), (11, b"bcde"), (16, b"g")] {
            r.insert(Seq(start), bytes, &meta(start as u16), &mut pool);
        }
        let range = r.pop(Seq(11)).unwrap();
        let segments: Vec<_> = range.segments(Seq(11)).map(|(bytes, meta)| (bytes, meta.bytes)).collect();
        assert_eq!(segments, [(&b"b"[..], 10), (b"cd", 11), (b"ef", 14), (b"g", 16)]);
        assert!(r.is_empty());
    }

    #[test]
    fn segments_beyond_the_bound_count_as_one() {
        let (mut r, mut pool) = (Reassembly::new(), Pool::default());
        for i in 0..2000 {
            r.insert(Seq(i), b"x", &meta(1), &mut pool);
        }
        let range = r.pop(Seq(0)).unwrap();
        assert_eq!(range.segments.len(), SEGMENTS_MAX);
        assert_eq!(range.segments(Seq(0)).map(|(bytes, _)| bytes.len()).sum::<usize>(), 2000);
    }

    #[test]
    fn every_second_segment_of_a_large_window_is_kept_but_not_of_tiny_segments() {
        for (len, most) in [(1448, RANGES_MAX), (8, RANGES_SMALL_MAX)] {
            let (mut r, mut pool) = (Reassembly::new(), Pool::default());
            let bytes = vec![7; len as usize];
            for i in 0..2000 {
                r.insert(Seq(2 * i * len), &bytes, &meta(0), &mut pool);
            }
            assert_eq!(r.ranges.len(), most);
        }
    }

    //~ recovery: SACK blocks and D-SACK are sent and used, latest block first (RFC 2018, 2883)
    #[test]
    fn latest_sack_block_is_reported_first_then_the_last_reported_ones() {
        let check = |starts: &[u32], expected: &[u32]| {
            let (mut r, mut pool) = (Reassembly::new(), Pool::default());
            for start in starts {
                r.insert(Seq(*start), b"abc", &meta(0), &mut pool);
            }
            let reported: Vec<u32> = r.blocks().iter().map(|b| b.0.0).collect();
            assert_eq!(reported, expected, "{starts:?}");
        };
        check(&[30, 10, 20], &[20, 10, 30]);
        check(&[10, 20, 30, 40, 50, 60], &[60, 50, 40, 30]);
        check(&[60, 50, 40, 30, 20, 10], &[10, 20, 30, 40]);
        // The piece with the latest segment is one block, however often it grew.
        check(&[10, 20, 30, 40, 43, 46], &[40, 30, 20, 10]);
        check(&[10, 20, 30, 40, 23], &[20, 40, 30, 10]);
        // Two reported pieces are joined by the third.
        check(&[10, 40, 20, 26, 23], &[20, 40, 10]);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(128))]
        //~ stack: reassembly restores the stream from segments in any order
        //~ input: overlapping segments keep the stream and its labels
        #[test]
        fn ranges_hold_the_stream_for_any_order(
            base in any::<u32>(),
            parts in prop::collection::vec((0usize..900, 1usize..120), 1..60),
        ) {
            let stream: Vec<u8> = (0..1024).map(|i| (i * 7 % 251) as u8).collect();
            let (mut r, mut pool) = (Reassembly::new(), Pool::default());
            let mut map = [false; 1024];
            for (start, len) in parts {
                r.insert(Seq(base) + start as u32, &stream[start..start + len], &meta(0), &mut pool);
                map[start..start + len].fill(true);
            }
            let mut held = [false; 1024];
            let mut last_end = None;
            for range in &r.ranges {
                prop_assert!(last_end.is_none_or(|end: Seq| end.before(range.start)), "disjoint, not touching");
                let at = (range.start - Seq(base)) as usize;
                prop_assert_eq!(&range.bytes[..], &stream[at..at + range.bytes.len()]);
                held[at..at + range.bytes.len()].fill(true);
                last_end = Some(range.end());
            }
            prop_assert_eq!(map, held);
            prop_assert_eq!(pool.held(), r.ranges.iter().map(ByteRange::footprint).sum::<usize>());
            r.release(&mut pool);
            prop_assert_eq!(pool.held(), 0);
        }
    }
}
