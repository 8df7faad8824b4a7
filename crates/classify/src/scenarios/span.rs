//! Scenario 5: one priority for all packets of a long request.
//!
//! The private area holds the position in the current request ([`CurrentRequest`]), so a header may
//! be split at any byte, and one segment may hold the end of one request and several more.
//! Positions follow the stream: bytes seen before are not counted twice, and bytes that were not
//! passed in count as body if the gap lies inside a request's body. A stream that cannot be parsed
//! gives no verdict until a segment starts with the magic bytes.
//! Source: ADPS §3.

use std::sync::Arc;

use super::{Magic, has_magic};
use crate::private::CurrentRequest;
use crate::{FlowContext, TransportClassifier, Verdict};

/// Positions of priority and length in a request's header.
#[derive(Clone, Copy, Debug)]
pub struct SpanAt {
    /// Offset and bytes that mark the start of a request.
    pub magic: Magic,
    /// Offset of the priority byte, 0..=7.
    pub level_at: usize,
    /// Offset of the request's length in bytes, header included: `u32`, big-endian.
    pub length_at: usize,
}

/// Gives every segment the priority of the request that its bytes belong to; of several requests,
/// the most urgent. Before a header's priority byte has arrived, the driver's verdict holds.
///
/// # Panics
/// If an offset is beyond 65,535; no header is that long.
#[must_use]
pub fn span(at: SpanAt) -> TransportClassifier {
    let header_len = at.header_len();
    assert!(header_len <= 0x1_0000, "a header of {header_len} bytes is longer than 65536");
    Arc::new(move |cx: &mut FlowContext<'_>| {
        let mut current = CurrentRequest::load(cx.private);
        let end = cx.flow.received.get() as u32;
        let fresh = current.align(&at, end.wrapping_sub(cx.payload.len() as u32), cx.payload);
        let level = current.advance(&at, fresh);
        current.store(cx.private);
        level.map_or(Verdict::NoVerdict, Verdict::Level)
    })
}

impl SpanAt {
    /// Length in bytes of the header up to the last field used here.
    fn header_len(&self) -> usize {
        (self.magic.0 + self.magic.1.len()).max(self.level_at + 1).max(self.length_at + 4)
    }

    /// Byte that the magic requires at `position`.
    fn demanded(&self, position: usize) -> Option<u8> {
        self.magic.1.get(position.checked_sub(self.magic.0)?).copied()
    }
}

impl CurrentRequest {
    /// New part of `payload`, which starts at stream offset `start`.
    fn align<'a>(&mut self, at: &SpanAt, start: u32, payload: &'a [u8]) -> &'a [u8] {
        let missed = start.wrapping_sub(self.next) as i32;
        let seen = (missed.min(0).unsigned_abs() as usize).min(payload.len());
        let fresh = &payload[seen..];
        if missed > 0 {
            self.next = start;
            let in_body = self.position as usize >= at.header_len();
            if in_body && missed as u32 <= self.length - self.position {
                self.position += missed as u32;
                self.end_if_complete();
            } else {
                self.lost = true;
            }
        }
        if self.lost && seen == 0 && has_magic(fresh, at.magic) {
            *self = Self { level: Self::NO_LEVEL, next: self.next, ..Self::default() };
        }
        self.next = self.next.wrapping_add(fresh.len() as u32);
        fresh
    }

    /// Parses `bytes`; returns the most urgent level among their requests.
    fn advance(&mut self, at: &SpanAt, mut bytes: &[u8]) -> Option<u8> {
        let header_len = at.header_len();
        let mut most_urgent = None;
        while !bytes.is_empty() && !self.lost {
            let left = header_len.checked_sub(self.position as usize).filter(|&left| left > 0);
            let left = left.unwrap_or_else(|| (self.length - self.position) as usize);
            let (part, rest) = bytes.split_at(left.min(bytes.len()));
            if (self.position as usize) < header_len {
                self.read_header(at, part);
            }
            self.position += part.len() as u32;
            bytes = rest;
            if self.position as usize == header_len && (self.length as usize) < header_len {
                self.lost = true;
            }
            if !self.lost && self.level != Self::NO_LEVEL {
                most_urgent = Some(most_urgent.map_or(self.level, |level: u8| level.min(self.level)));
            }
            if self.position as usize >= header_len {
                self.end_if_complete();
            }
        }
        most_urgent
    }

    fn read_header(&mut self, at: &SpanAt, part: &[u8]) {
        for (position, &byte) in (self.position as usize..).zip(part) {
            self.lost |= at.demanded(position).is_some_and(|demanded| demanded != byte);
            if position == at.level_at {
                self.level = byte;
            }
            if (at.length_at..at.length_at + 4).contains(&position) {
                self.length = self.length << 8 | u32::from(byte);
            }
        }
    }

    fn end_if_complete(&mut self) {
        if self.position == self.length && !self.lost {
            *self = Self { level: Self::NO_LEVEL, next: self.next, ..Self::default() };
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use queueing::Bytes;

    use super::*;
    use crate::testing::TestFlow;
    use Verdict::{Level, NoVerdict};

    const AT: SpanAt = SpanAt { magic: (0, b"GW"), level_at: 4, length_at: 8 };

    fn request(level: u8, len: usize) -> Vec<u8> {
        let mut bytes = b"GW\x01\x00".to_vec();
        bytes.extend([level, 0, 0, 0]);
        bytes.extend((len as u32).to_be_bytes());
        bytes.resize(len, 0);
        bytes
    }

    fn check(segments: &[&[u8]], expected: &[Verdict]) {
        let classifier = span(AT);
        let mut flow = TestFlow::new();
        let got: Vec<_> = segments.iter().map(|segment| flow.segment(&classifier, segment)).collect();
        assert_eq!(got, expected);
    }

    //~ classifiers: scenario 5: later packets of a request get the priority of its first
    #[test]
    fn later_packets_get_the_priority_of_the_first() {
        let (urgent, other) = (request(0, 4096), request(6, 100));
        check(&[&urgent[..1448], &urgent[1448..2896], &urgent[2896..], &other], &[0, 0, 0, 6].map(Level));
    }

    #[test]
    fn the_most_urgent_of_several_requests_in_a_segment_wins() {
        let bytes = [request(5, 100), request(2, 40), request(6, 2000)].concat();
        check(&[&bytes[..50], &bytes[50..1000], &bytes[1000..]], &[5, 2, 6].map(Level));
    }

    #[test]
    fn a_header_may_be_split_at_any_byte() {
        let bytes = request(3, 64);
        check(
            &[&bytes[..1], &bytes[1..4], &bytes[4..5], &bytes[5..10], &bytes[10..]],
            &[NoVerdict, NoVerdict, Level(3), Level(3), Level(3)],
        );
    }

    #[test]
    fn nonsense_gives_no_verdict_until_a_segment_starts_a_request() {
        let short = request(1, 64).iter().take(11).copied().chain([5]).collect::<Vec<_>>();
        check(
            &[b"nonsense", b"more", &request(1, 64), &short, b"GX", &request(2, 64)],
            &[NoVerdict, NoVerdict, Level(1), NoVerdict, NoVerdict, Level(2)],
        );
    }

    #[test]
    fn retransmitted_bytes_are_not_counted_twice() {
        let classifier = span(AT);
        let mut flow = TestFlow::new();
        let (first, second) = (request(1, 200), request(4, 200));
        assert_eq!(flow.segment(&classifier, &first[..150]), Level(1));
        // The last 50 bytes again, together with new ones.
        flow.state.received = Bytes::new(100);
        assert_eq!(flow.segment(&classifier, &first[100..]), Level(1));
        assert_eq!(flow.segment(&classifier, &second), Level(4));
    }

    #[test]
    fn out_of_order_bytes_are_counted_inside_a_body() {
        let classifier = span(AT);
        let mut flow = TestFlow::new();
        let bytes = request(1, 300);
        assert_eq!(flow.segment(&classifier, &bytes[..100]), Level(1));
        // 100..200 arrived out of order and were delivered with another segment.
        flow.state.received += Bytes::new(100);
        assert_eq!(flow.segment(&classifier, &bytes[200..]), Level(1));
        assert_eq!(flow.segment(&classifier, &request(6, 50)), Level(6));
        // A request may have begun in the gap: parsing resumes at the next header.
        flow.state.received += Bytes::new(100);
        assert_eq!(flow.segment(&classifier, b"tail of something"), NoVerdict);
        assert_eq!(flow.segment(&classifier, &request(2, 50)), Level(2));
    }

    proptest! {
        //~ classifiers: scenario 5: later packets of a request get the priority of its first
        #[test]
        fn any_cut_gives_the_most_urgent_request_it_touches(
            requests in proptest::collection::vec((0u8..8, 12usize..200), 1..12),
            cuts in proptest::collection::vec(1usize..300, 1..40),
        ) {
            let stream = requests.iter().flat_map(|&(level, len)| request(level, len)).collect::<Vec<_>>();
            let classifier = span(AT);
            let mut flow = TestFlow::new();
            let (mut start, mut cuts) = (0, cuts.iter().cycle());
            while start < stream.len() {
                let end = (start + cuts.next().unwrap()).min(stream.len());
                let mut at = 0;
                let expected = requests.iter().filter_map(|&(level, len)| {
                    let range = at..at + len;
                    at += len;
                    let touched = range.start < end && range.end > start && end > range.start + AT.level_at;
                    touched.then_some(level)
                }).min();
                prop_assert_eq!(flow.segment(&classifier, &stream[start..end]), expected.map_or(NoVerdict, Level));
                start = end;
            }
        }

        #[test]
        fn no_stream_makes_it_panic(
            segments in proptest::collection::vec((proptest::collection::vec(prop_oneof![Just(b'G'), Just(b'W'), 0u8..14, any::<u8>()], 1..30), any::<bool>(), any::<u64>()), 1..20),
        ) {
            let classifier = span(AT);
            let mut flow = TestFlow::new();
            for (segment, jump, to) in segments {
                if jump {
                    flow.state.received = Bytes::new(to % 1000);
                }
                flow.segment(&classifier, &segment);
            }
        }
    }
}
