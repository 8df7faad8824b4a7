//! Bytes that came before their turn.
//!
//! Pieces are sorted and disjoint; neighbours become one piece. The number of
//! pieces is bounded and the receive window bounds their bytes; what does not
//! fit is dropped, and the peer sends it again.

use queueing::Label;

use super::buffer::Pool;
use crate::wire::tcp::{SackBlocks, Seq};

/// A run of bytes.
#[derive(Debug)]
pub(crate) struct Piece {
    pub(crate) start: Seq,
    pub(crate) bytes: Vec<u8>,
    /// The most urgent label of the segments it came in.
    pub(crate) label: Label,
}

impl Piece {
    pub(crate) fn end(&self) -> Seq {
        self.start + self.bytes.len() as u32
    }
}

/// Everything that waits for earlier bytes.
#[derive(Debug)]
pub(crate) struct Reassembly {
    pieces: Vec<Piece>,
    /// Where the latest segment lies, for the first SACK block (RFC 2018 §4).
    latest: Seq,
}

impl Reassembly {
    /// Most pieces kept.
    const PIECES_MAX: usize = 64;

    pub(crate) fn new() -> Self {
        Self { pieces: Vec::new(), latest: Seq(0) }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// Keeps what is new of `bytes`, which start at `start`; returns how many
    /// bytes were kept. Bytes that are here already stay as they are.
    pub(crate) fn insert(&mut self, start: Seq, bytes: &[u8], label: Label, pool: &mut Pool) -> usize {
        self.latest = start;
        let end = start + bytes.len() as u32;
        let (mut at, mut kept) = (start, 0);
        let mut i = self.pieces.partition_point(|p| p.end().at_or_before(start));
        while at.before(end) {
            let gap_end = self.pieces.get(i).map_or(end, |p| p.start.min(end));
            if at.before(gap_end) {
                let part = &bytes[(at - start) as usize..(gap_end - start) as usize];
                if i > 0 && self.pieces[i - 1].end() == at {
                    self.pieces[i - 1].extend(part, label);
                } else if self.pieces.len() < Self::PIECES_MAX {
                    let mut own = pool.take();
                    own.extend_from_slice(part);
                    self.pieces.insert(i, Piece { start: at, bytes: own, label });
                    i += 1;
                } else {
                    return kept;
                }
                kept += part.len();
                self.join(i, pool);
                // The piece behind the gap may have been joined to the one before it.
                i = self.pieces.partition_point(|p| p.end().at_or_before(gap_end));
                at = gap_end;
            } else {
                at = self.pieces[i].end();
                i += 1;
            }
        }
        kept
    }

    /// Joins piece `i` to the one before it if they touch.
    fn join(&mut self, i: usize, pool: &mut Pool) {
        if i == 0 || i >= self.pieces.len() || self.pieces[i - 1].end() != self.pieces[i].start {
            return;
        }
        let piece = self.pieces.remove(i);
        self.pieces[i - 1].extend(&piece.bytes, piece.label);
        pool.give(piece.bytes);
    }

    /// The first piece, once its turn has come: when it starts at or before `next`.
    pub(crate) fn pop(&mut self, next: Seq) -> Option<Piece> {
        self.pieces.first()?.start.at_or_before(next).then(|| self.pieces.remove(0))
    }

    /// What to tell the peer, the latest first.
    pub(crate) fn blocks(&self) -> SackBlocks {
        let block = |p: &Piece| (p.start, p.end());
        let recent = self.pieces.partition_point(|p| p.end().at_or_before(self.latest));
        let rest = self.pieces.iter().enumerate().filter(|(i, _)| *i != recent).map(|(_, p)| p);
        self.pieces.get(recent).into_iter().chain(rest).map(block).collect()
    }

    pub(crate) fn release(&mut self, pool: &mut Pool) {
        self.pieces.drain(..).for_each(|p| pool.give(p.bytes));
    }
}

impl Piece {
    fn extend(&mut self, bytes: &[u8], label: Label) {
        self.bytes.extend_from_slice(bytes);
        self.label = most_urgent(self.label, label);
    }
}

/// The more urgent of two labels.
pub(crate) fn most_urgent(a: Label, b: Label) -> Label {
    if b.priority < a.priority { b } else { a }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use queueing::Priority;

    #[test]
    fn joined_pieces_are_as_urgent_as_the_most_urgent() {
        let (mut r, mut pool) = (Reassembly::new(), Pool::default());
        r.insert(Seq(10), b"ab", Label::default(), &mut pool);
        r.insert(Seq(14), b"ef", Label::default(), &mut pool);
        r.insert(Seq(12), b"cd", Label::new(Priority::HIGHEST), &mut pool);
        let piece = r.pop(Seq(10)).unwrap();
        assert_eq!((&piece.bytes[..], piece.label), (&b"abcdef"[..], Label::new(Priority::HIGHEST)));
        assert!(r.is_empty());
    }

    #[test]
    fn latest_block_is_told_first() {
        let (mut r, mut pool) = (Reassembly::new(), Pool::default());
        for start in [30, 10, 20] {
            r.insert(Seq(start), b"abc", Label::default(), &mut pool);
        }
        let starts: Vec<u32> = r.blocks().iter().map(|b| b.0.0).collect();
        assert_eq!(starts, [20, 10, 30]);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(128))]
        #[test]
        fn pieces_hold_the_stream_whatever_the_order(
            base in any::<u32>(),
            parts in prop::collection::vec((0usize..900, 1usize..120), 1..60),
        ) {
            let stream: Vec<u8> = (0..1024).map(|i| (i * 7 % 251) as u8).collect();
            let (mut r, mut pool) = (Reassembly::new(), Pool::default());
            let mut map = [false; 1024];
            for (start, len) in parts {
                r.insert(Seq(base) + start as u32, &stream[start..start + len], Label::default(), &mut pool);
                map[start..start + len].fill(true);
            }
            let mut held = [false; 1024];
            let mut last_end = None;
            for piece in &r.pieces {
                prop_assert!(last_end.is_none_or(|end: Seq| end.before(piece.start)), "disjoint, not touching");
                let at = (piece.start - Seq(base)) as usize;
                prop_assert_eq!(&piece.bytes[..], &stream[at..at + piece.bytes.len()]);
                held[at..at + piece.bytes.len()].fill(true);
                last_end = Some(piece.end());
            }
            prop_assert_eq!(map, held);
        }
    }
}
