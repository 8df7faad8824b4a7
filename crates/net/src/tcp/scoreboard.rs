//! SACK scoreboard: ranges that the peer has received beyond its acknowledgement.
//!
//! Ranges are sorted and disjoint. Their number is bounded, since a peer can report any number; a
//! range that does not fit is merely retransmitted.
//! Source: RFC 2018, 6675.

use wire::tcp::Seq;

/// Ranges `[start, end)` received by the peer.
#[derive(Debug, Default)]
pub(crate) struct Scoreboard {
    ranges: Vec<(Seq, Seq)>,
}

impl Scoreboard {
    /// Maximum number of ranges: as many as our own reassembly queue would report.
    const RANGES_MAX: usize = 1024;
    /// DupThresh of RFC 6675.
    const DUP_THRESH: usize = 3;

    /// End of the last range.
    pub(crate) fn end(&self) -> Option<Seq> {
        self.ranges.last().map(|r| r.1)
    }

    /// Adds `[start, end)`; if part of it is new, returns the start of that part and the merged
    /// range.
    pub(crate) fn insert(&mut self, start: Seq, end: Seq) -> Option<(Seq, (Seq, Seq))> {
        let first = self.ranges.partition_point(|r| r.1.before(start));
        let last = self.ranges.partition_point(|r| r.0.at_or_before(end));
        if first == last {
            if self.ranges.len() == Self::RANGES_MAX {
                return None;
            }
            self.ranges.insert(first, (start, end));
            return Some((start, (start, end)));
        }
        let previous = self.ranges[first];
        let merged = (start.min(previous.0), end.max(self.ranges[last - 1].1));
        self.ranges.splice(first..last, [merged]);
        let fresh = if start.before(previous.0) { start } else { previous.1 };
        (merged != previous).then_some((fresh, merged))
    }

    /// Removes everything before `una`.
    pub(crate) fn advance(&mut self, una: Seq) {
        if self.ranges.is_empty() {
            return;
        }
        self.ranges.retain(|r| r.1.after(una));
        if let Some(first) = self.ranges.first_mut() {
            first.0 = first.0.max(una);
        }
    }

    /// Removes everything except the capacity.
    pub(crate) fn clear(&mut self) {
        self.ranges.clear();
    }

    /// Sequence number below which unreceived data is lost: three ranges, or more than two
    /// segments' bytes, were received beyond it (RFC 6675 §4, IsLost).
    pub(crate) fn lost_edge(&self, mss: u32) -> Option<Seq> {
        let mut bytes = 0;
        self.ranges.iter().rev().enumerate().find_map(|(i, range)| {
            bytes += range.1 - range.0;
            (i + 1 >= Self::DUP_THRESH || bytes > (Self::DUP_THRESH as u32 - 1) * mss).then_some(range.0)
        })
    }
}

//~ recovery: without RACK loss is detected by counting SACKed segments (RFC 6675)
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
                let result = (start..start + len).find(|i| !map[*i as usize]);
                let merged = board.insert(Seq(base) + start, Seq(base) + start + len);
                map[start as usize..(start + len) as usize].fill(true);
                prop_assert_eq!(merged.map(|m| m.0), result.map(|i| Seq(base) + i));
                if let Some((_, (from, to))) = merged {
                    let (from, to) = ((from - Seq(base)) as usize, (to - Seq(base)) as usize);
                    prop_assert!(map[from..to].iter().all(|held| *held) && !map[to] && (from == 0 || !map[from - 1]));
                }
            }
            board.advance(Seq(base) + una);
            map[..una as usize].fill(false);
            let mut held = [false; 240];
            for (start, end) in &board.ranges {
                held[(*start - Seq(base)) as usize..(*end - Seq(base)) as usize].fill(true);
            }
            prop_assert_eq!(held, map);
        }
    }

    #[test]
    fn three_ranges_or_more_than_two_segments_beyond_a_hole_mean_loss() {
        let edge = |ranges: &[(u32, u32)]| {
            let mut board = Scoreboard::default();
            for (a, b) in ranges {
                let _ = board.insert(Seq(*a), Seq(*b));
            }
            board.lost_edge(1000)
        };
        assert_eq!(edge(&[(1000, 3000)]), None);
        assert_eq!(edge(&[(1000, 3001)]), Some(Seq(1000)));
        assert_eq!(edge(&[(1000, 1100), (2000, 2100)]), None);
        assert_eq!(edge(&[(1000, 1100), (2000, 2100), (3000, 3100)]), Some(Seq(1000)));
        assert_eq!(edge(&[(1000, 1100), (2000, 2100), (3000, 6000)]), Some(Seq(3000)));
    }
}
