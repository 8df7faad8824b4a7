//! Reassembly of fragmented packets.
//!
//! Bounded in packets, fragments and bytes; the oldest packet is evicted. In both versions a packet
//! with overlapping fragments is dropped whole, including fragments still to come: no legitimate
//! sender overlaps them. Exact repetitions are ignored.
//!
//! Source: RFC 791, 815, 5722, 8200 §4.5, 8900.

use std::net::IpAddr;

use queueing::{Span, Time};
use wire::Malformed;
use wire::ethernet::Mac;
use wire::ip::{Fragment, Protocol, TrafficClass};

/// Maximum number of packets in reassembly.
pub(crate) const PACKETS_MAX: usize = 64;
/// Maximum number of bytes of fragments in reassembly.
pub(crate) const BYTES_MAX: usize = 1 << 20;
/// Maximum number of fragments of one packet: 64 KiB at an MTU of 576 is 119.
pub(crate) const PIECES_MAX: usize = 128;
/// Reassembly timeout.
pub(crate) const LIFE: Span = Span::from_secs(15);
/// Largest payload of a packet.
const LEN_MAX: usize = 65_535;
/// Bytes of the first fragment that are kept to be quoted in a Time Exceeded error.
const HEAD_LEN: usize = 128;

/// A received fragment.
pub(crate) struct FragmentPacket<'a> {
    pub(crate) source: IpAddr,
    pub(crate) target: IpAddr,
    pub(crate) protocol: Protocol,
    pub(crate) marks: TrafficClass,
    pub(crate) fragment: Fragment,
    pub(crate) payload: &'a [u8],
    /// Whole packet including headers.
    pub(crate) packet: &'a [u8],
    pub(crate) from: Mac,
}

/// Result of inserting a fragment.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Further fragments are missing.
    Held,
    /// The fragment contradicts others; the packet will not be delivered.
    Refused,
    /// The packet is complete.
    Whole(Reassembled),
}

/// A reassembled packet.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Reassembled {
    pub(crate) protocol: Protocol,
    pub(crate) marks: TrafficClass,
    pub(crate) payload: Vec<u8>,
}

/// An incomplete packet whose reassembly timed out.
pub(crate) struct Expired {
    pub(crate) source: IpAddr,
    pub(crate) target: IpAddr,
    pub(crate) from: Mac,
    /// Start of its first fragment; empty if that is missing.
    pub(crate) head: Vec<u8>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
struct Key {
    source: IpAddr,
    target: IpAddr,
    /// IPv4 numbers packets per protocol, IPv6 does not.
    protocol: Option<u8>,
    ident: u32,
}

struct Partial {
    key: Key,
    until: Time,
    protocol: Protocol,
    marks: TrafficClass,
    from: Mac,
    head: Vec<u8>,
    bytes: Vec<u8>,
    /// Received ranges, ordered and not adjacent.
    received: Vec<(usize, usize)>,
    count: usize,
    /// Length of the packet, once its last fragment has arrived.
    len: Option<usize>,
    /// True if refused: further fragments are dropped.
    refused: bool,
}

/// Packets in reassembly, the oldest first.
#[derive(Default)]
pub(crate) struct Fragments {
    waiting: Vec<Partial>,
    bytes: usize,
    /// Packets evicted.
    pub(crate) evicted: u64,
}

impl Fragments {
    /// Inserts a fragment.
    ///
    /// # Errors
    /// [`Malformed::BadLength`] for a fragment that no packet can have.
    pub(crate) fn insert(&mut self, now: Time, fragment: &FragmentPacket<'_>) -> Result<Outcome, Malformed> {
        let Fragment { ident, offset, more } = fragment.fragment;
        let (start, len) = (offset as usize, fragment.payload.len());
        let end = start + len;
        if len == 0 || (more && !len.is_multiple_of(8)) || end > LEN_MAX {
            return Err(Malformed::BadLength);
        }
        let protocol = fragment.source.is_ipv4().then(|| fragment.protocol.number());
        let key = Key { source: fragment.source, target: fragment.target, protocol, ident };
        let at = match self.waiting.iter().position(|partial| partial.key == key) {
            Some(at) => at,
            None => self.begin(now, key, fragment),
        };
        let partial = &mut self.waiting[at];
        if partial.refused {
            return Ok(Outcome::Refused);
        }
        let before = partial.bytes.len();
        match partial.add(start, end, more, fragment) {
            Added::Overlap => {
                self.bytes -= before;
                (partial.bytes, partial.refused) = (Vec::new(), true);
                return Ok(Outcome::Refused);
            }
            Added::Piece => {}
            Added::Last => {
                let partial = self.waiting.remove(at);
                self.bytes -= before;
                let Partial { protocol, marks, bytes: payload, .. } = partial;
                return Ok(Outcome::Whole(Reassembled { protocol, marks, payload }));
            }
        }
        self.bytes += self.waiting[at].bytes.len() - before;
        while self.bytes > BYTES_MAX {
            self.evict();
        }
        Ok(Outcome::Held)
    }

    fn begin(&mut self, now: Time, key: Key, fragment: &FragmentPacket<'_>) -> usize {
        while self.waiting.len() >= PACKETS_MAX {
            self.evict();
        }
        self.waiting.push(Partial {
            key,
            until: now + LIFE,
            protocol: fragment.protocol,
            marks: fragment.marks,
            from: fragment.from,
            head: Vec::new(),
            bytes: Vec::new(),
            received: Vec::new(),
            count: 0,
            len: None,
            refused: false,
        });
        self.waiting.len() - 1
    }

    fn evict(&mut self) {
        let oldest = self.waiting.remove(0);
        self.bytes -= oldest.bytes.len();
        self.evicted += u64::from(!oldest.refused);
    }

    /// Time when [`Fragments::expire`] is due.
    pub(crate) fn deadline(&self) -> Time {
        self.waiting.first().map_or(Time::MAX, |oldest| oldest.until)
    }

    /// Removes and returns a packet whose reassembly timed out at `now`.
    pub(crate) fn expire(&mut self, now: Time) -> Option<Expired> {
        if self.deadline() > now {
            return None;
        }
        let Partial { key, from, head, bytes, refused, .. } = self.waiting.remove(0);
        self.bytes -= bytes.len();
        let head = if refused { Vec::new() } else { head };
        Some(Expired { source: key.source, target: key.target, from, head })
    }
}

enum Added {
    Piece,
    Last,
    Overlap,
}

impl Partial {
    fn add(&mut self, start: usize, end: usize, more: bool, fragment: &FragmentPacket<'_>) -> Added {
        let at = self.received.partition_point(|&(_, known_end)| known_end <= start);
        if let Some(&(known_start, known_end)) = self.received.get(at)
            && known_start < end
        {
            let repeats =
                known_start <= start && end <= known_end && self.bytes[start..end] == *fragment.payload;
            return if repeats { Added::Piece } else { Added::Overlap };
        }
        let last = self.received.last().map_or(0, |&(_, end)| end);
        let contradicts = match self.len {
            Some(len) => end > len || (!more && end != len),
            None => !more && last > end,
        };
        self.count += 1;
        if contradicts || self.count > PIECES_MAX {
            return Added::Overlap;
        }
        if !more {
            self.len = Some(end);
        }
        if start == 0 {
            self.protocol = fragment.protocol;
            self.marks.dscp = fragment.marks.dscp;
            self.head = fragment.packet[..fragment.packet.len().min(HEAD_LEN)].to_vec();
        }
        // A mark on one fragment marks the packet (RFC 3168 §5.3).
        self.marks.ecn = if fragment.marks.ecn == 3 { 3 } else { self.marks.ecn };
        if self.bytes.len() < end {
            self.bytes.resize(end, 0);
        }
        self.bytes[start..end].copy_from_slice(fragment.payload);
        self.received.insert(at, (start, end));
        self.join(at);
        let payload =
            self.received.len() == 1 && self.received[0].0 == 0 && self.len == Some(self.received[0].1);
        if payload { Added::Last } else { Added::Piece }
    }

    /// Joins the range at `at` with adjacent ones.
    fn join(&mut self, at: usize) {
        if self.received.get(at + 1).is_some_and(|next| next.0 == self.received[at].1) {
            self.received[at].1 = self.received.remove(at + 1).1;
        }
        if at > 0 && self.received[at - 1].1 == self.received[at].0 {
            self.received[at - 1].1 = self.received.remove(at).1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn insert(
        fragments: &mut Fragments,
        ident: u32,
        start: usize,
        payload: &[u8],
        more: bool,
    ) -> Option<Outcome> {
        let fragment = Fragment { ident, offset: start as u32, more };
        let addr = std::net::Ipv6Addr::LOCALHOST.into();
        let fragment = FragmentPacket {
            source: addr,
            target: addr,
            protocol: Protocol::Udp,
            marks: TrafficClass::default(),
            fragment,
            payload,
            packet: payload,
            from: [2; 6],
        };
        fragments.insert(Time::ZERO, &fragment).ok()
    }

    fn complete(payload: &[u8]) -> Option<Outcome> {
        Some(Outcome::Whole(Reassembled {
            protocol: Protocol::Udp,
            marks: TrafficClass::default(),
            payload: payload.to_vec(),
        }))
    }

    #[test]
    fn overlap_discards_the_packet_and_its_later_fragments() {
        let mut f = Fragments::default();
        assert_eq!(insert(&mut f, 1, 0, &[1; 16], true), Some(Outcome::Held));
        assert_eq!(insert(&mut f, 1, 8, &[2; 16], true), Some(Outcome::Refused));
        assert_eq!(insert(&mut f, 1, 16, &[2; 8], false), Some(Outcome::Refused));
        assert_eq!(f.bytes, 0);
    }

    #[test]
    fn an_exact_repetition_is_only_ignored() {
        let mut f = Fragments::default();
        assert_eq!(insert(&mut f, 1, 0, &[1; 16], true), Some(Outcome::Held));
        assert_eq!(insert(&mut f, 1, 0, &[1; 16], true), Some(Outcome::Held));
        assert_eq!(insert(&mut f, 1, 16, &[2], false), complete(&[&[1; 16][..], &[2]].concat()));
        assert!(f.waiting.is_empty() && f.bytes == 0);
    }

    #[test]
    fn fragments_beyond_the_end_and_two_ends_are_refused() {
        let mut f = Fragments::default();
        assert_eq!(insert(&mut f, 1, 16, &[1; 8], false), Some(Outcome::Held));
        assert_eq!(insert(&mut f, 1, 32, &[1; 8], true), Some(Outcome::Refused));
        assert_eq!(insert(&mut f, 2, 16, &[1; 8], true), Some(Outcome::Held));
        assert_eq!(insert(&mut f, 2, 8, &[1; 4], false), Some(Outcome::Refused));
    }

    #[test]
    fn impossible_fragments_are_malformed() {
        let mut f = Fragments::default();
        assert_eq!(insert(&mut f, 1, 0, &[], true), None);
        assert_eq!(insert(&mut f, 1, 0, &[1; 12], true), None);
        assert_eq!(insert(&mut f, 1, 65_528, &[1; 16], false), None);
        assert!(f.waiting.is_empty());
    }

    //~ ip: overlapping fragments deliver nothing, in both families (RFC 5722, 8900)
    //~ attacks: fragment floods stay within the memory bound
    #[test]
    fn memory_is_bounded_for_any_input() {
        let mut f = Fragments::default();
        for ident in 0..5000 {
            // The last fragment of a large packet allocates all of it.
            let _ = insert(&mut f, ident, 65_000, &[1; 8], true);
            assert!(f.bytes <= BYTES_MAX && f.waiting.len() <= PACKETS_MAX);
        }
        assert_eq!(f.bytes, f.waiting.iter().map(|p| p.bytes.len()).sum::<usize>());
        assert!(f.evicted > 4900);
        let mut f = Fragments::default();
        let refused = (0..200).filter(|i| insert(&mut f, 1, i * 16, &[1; 8], true) == Some(Outcome::Refused));
        assert!(refused.count() > 0 && f.bytes == 0);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn fragments_in_any_order_are_reassembled(
            payload in prop::collection::vec(any::<u8>(), 17..2000),
            size in 1usize..40,
            keys in prop::collection::vec(any::<u64>(), 300),
        ) {
            let cuts: Vec<_> = payload.chunks(size * 8).enumerate().collect();
            let mut order: Vec<_> = (0..cuts.len()).collect();
            order.sort_by_key(|i| keys[*i]);
            let mut f = Fragments::default();
            for (n, &i) in order.iter().enumerate() {
                let more = i + 1 < cuts.len();
                let outcome = if cuts.len() > PIECES_MAX { return Ok(()) } else {
                    insert(&mut f, 9, i * size * 8, cuts[i].1, more)
                };
                let last = n + 1 == cuts.len();
                prop_assert_eq!(outcome, if last { complete(&payload) } else { Some(Outcome::Held) });
            }
        }
    }
}
