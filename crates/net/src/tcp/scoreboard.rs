//! What the peer has received beyond its acknowledgement.
//!
//! Sorted, disjoint ranges; bounded, since a peer can name as many as it
//! likes: what does not fit is merely retransmitted. Source: RFC 2018, 6675.

use crate::wire::tcp::Seq;

/// Ranges `[start, end)` that the peer holds.
#[derive(Debug, Default)]
pub(crate) struct Scoreboard {
    ranges: Vec<(Seq, Seq)>,
}

impl Scoreboard {
    /// Most ranges kept.
    const RANGES_MAX: usize = 64;

    pub(crate) fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Whether the byte at `una` is reported as received, though `una` is
    /// what is acknowledged: the peer took its report back (RFC 2018 §8).
    pub(crate) fn contradicts(&self, una: Seq) -> bool {
        self.ranges.first().is_some_and(|r| r.0.at_or_before(una))
    }

    /// The end of the last range.
    pub(crate) fn end(&self) -> Option<Seq> {
        self.ranges.last().map(|r| r.1)
    }

    /// Adds `[start, end)`; returns how many bytes of it are news.
    pub(crate) fn insert(&mut self, start: Seq, end: Seq) -> u32 {
        let before = self.bytes();
        let first = self.ranges.partition_point(|r| r.1.before(start));
        let last = self.ranges.partition_point(|r| r.0.at_or_before(end));
        if first == last {
            if self.ranges.len() == Self::RANGES_MAX {
                return 0;
            }
            self.ranges.insert(first, (start, end));
        } else {
            let merged = (start.min(self.ranges[first].0), end.max(self.ranges[last - 1].1));
            self.ranges.splice(first..last, [merged]);
        }
        self.bytes() - before
    }

    /// Forgets what lies before `una`: it is acknowledged.
    pub(crate) fn advance(&mut self, una: Seq) {
        if self.ranges.is_empty() {
            return;
        }
        self.ranges.retain(|r| r.1.after(una));
        if let Some(first) = self.ranges.first_mut() {
            first.0 = first.0.max(una);
        } else {
            self.ranges = Vec::new();
        }
    }

    pub(crate) fn clear(&mut self) {
        self.ranges = Vec::new();
    }

    /// The first hole at or after `seq`, and where it ends; an open end for
    /// what lies behind the last range.
    pub(crate) fn hole(&self, mut seq: Seq) -> (Seq, Option<Seq>) {
        for &(start, end) in &self.ranges {
            if seq.before(start) {
                return (seq, Some(start));
            }
            seq = seq.max(end);
        }
        (seq, None)
    }

    /// How many bytes all ranges hold.
    pub(crate) fn bytes(&self) -> u32 {
        self.ranges.iter().map(|r| r.1 - r.0).sum()
    }

    /// How many bytes of `[from, to)` the peer holds.
    pub(crate) fn bytes_within(&self, from: Seq, to: Seq) -> u32 {
        let within = |r: &(Seq, Seq)| r.1.min(to).distance(r.0.max(from)).max(0) as u32;
        self.ranges.iter().map(within).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn scoreboard_equals_a_bitmap(
            base in any::<u32>(),
            ranges in prop::collection::vec((0u32..200, 1u32..40), 1..20),
            una in 0u32..100,
        ) {
            let (mut board, mut map) = (Scoreboard::default(), [false; 240]);
            for (start, len) in ranges {
                let news = (start..start + len).filter(|i| !map[*i as usize]).count() as u32;
                prop_assert_eq!(board.insert(Seq(base) + start, Seq(base) + start + len), news);
                map[start as usize..(start + len) as usize].fill(true);
            }
            board.advance(Seq(base) + una);
            map[..una as usize].fill(false);
            prop_assert_eq!(board.bytes() as usize, map.iter().filter(|b| **b).count());
            let (hole, end) = board.hole(Seq(base) + una);
            let first = (una as usize..240).find(|i| !map[*i]).unwrap();
            prop_assert_eq!(hole, Seq(base) + first as u32);
            let next = (first..240).find(|i| map[*i]).map(|i| Seq(base) + i as u32);
            prop_assert_eq!(end, next);
        }
    }
}
