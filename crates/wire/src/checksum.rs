//! Internet checksum, computed eight bytes at a time.
//!
//! The one's complement sum does not depend on byte order: words are loaded in native order, and
//! only the result is converted. Sums have 128 bits, where a carry costs one instruction. Two sums
//! run in parallel, so that no addition waits for the previous one.
//! Source: RFC 1071 §2; pseudo headers RFC 9293 §3.1, RFC 8200 §8.1.

use std::net::IpAddr;

/// Partial checksum.
#[derive(Clone, Copy, Debug, Default)]
pub struct Checksum {
    sum: u64,
}

impl Checksum {
    /// The sum of no bytes.
    #[must_use]
    pub const fn new() -> Self {
        Self { sum: 0 }
    }

    /// Sum of the pseudo header of either family, for `len` bytes (RFC 9293 §3.1, RFC 8200 §8.1).
    ///
    /// The two pseudo headers differ only in layout, which does not affect the sum.
    #[must_use]
    #[inline]
    pub fn pseudo(source: impl Into<IpAddr>, target: impl Into<IpAddr>, protocol: u8, len: usize) -> Self {
        let protocol = u64::from(u16::from_ne_bytes([0, protocol]));
        let len = u64::from(u32::from_ne_bytes((len as u32).to_be_bytes()));
        Self { sum: address(source.into()) + address(target.into()) + protocol + len }
    }

    /// Sum including `bytes`; every part except the last must have an even length.
    #[must_use]
    #[inline]
    pub fn with(self, bytes: &[u8]) -> Self {
        let mut lanes = [u128::from(self.sum), 0];
        let mut blocks = bytes.chunks_exact(32);
        for block in &mut blocks {
            for (i, word) in block.chunks_exact(8).enumerate() {
                lanes[i % 2] += u128::from(word_of(word));
            }
        }
        let mut sum = lanes[0] + lanes[1];
        let mut words = blocks.remainder().chunks_exact(8);
        for word in &mut words {
            sum += u128::from(word_of(word));
        }
        let rest = words.remainder();
        if !rest.is_empty() {
            let mut last = [0; 8];
            last[..rest.len()].copy_from_slice(rest);
            sum += u128::from(word_of(&last));
        }
        // 2⁶⁴ and 2³² are congruent to 1; the result has 34 bits.
        let (high, low) = ((sum >> 64) as u64, sum as u64);
        Self { sum: high + (low >> 32) + (low & 0xffff_ffff) }
    }

    /// Sum including whole words in wire byte order.
    #[must_use]
    #[inline]
    pub fn with_words(self, words: &[u32; 8]) -> Self {
        Self { sum: self.sum + words.iter().map(|word| u64::from(*word)).sum::<u64>() }
    }

    /// Checksum in wire byte order; `[0, 0]` if the summed bytes include a correct checksum.
    #[must_use]
    #[inline]
    pub const fn finish(self) -> [u8; 2] {
        // Each pair of folds halves the number of bits and leaves no carry.
        let mut sum = self.sum;
        sum = (sum & 0xffff_ffff) + (sum >> 32);
        sum = (sum & 0xffff_ffff) + (sum >> 32);
        sum = (sum & 0xffff) + (sum >> 16);
        sum = (sum & 0xffff) + (sum >> 16);
        (!(sum as u16)).to_ne_bytes()
    }
}

/// Checksum of `bytes`.
#[must_use]
pub fn of(bytes: &[u8]) -> [u8; 2] {
    Checksum::new().with(bytes).finish()
}

/// Checksum of an IPv4 header without options, the common case.
#[must_use]
#[inline]
pub fn of_header(header: &[u8; 20]) -> [u8; 2] {
    let (words, _) = header.as_chunks::<4>();
    let sum = words.iter().map(|word| u64::from(u32::from_ne_bytes(*word))).sum();
    Checksum { sum }.finish()
}

/// Checksum of an IPv4 header without options, given as five numbers.
#[must_use]
#[inline]
pub fn of_words(words: &[u32; 5]) -> u16 {
    let sum = words.iter().map(|word| u64::from(*word)).sum();
    u16::from_ne_bytes(Checksum { sum }.finish())
}

/// Sum of the words of an address.
#[inline]
fn address(addr: IpAddr) -> u64 {
    match addr {
        IpAddr::V4(addr) => u64::from(u32::from_ne_bytes(addr.octets())),
        IpAddr::V6(addr) => {
            let octets = addr.octets();
            let (words, _) = octets.as_chunks::<4>();
            words.iter().map(|word| u64::from(u32::from_ne_bytes(*word))).sum()
        }
    }
}

#[inline]
fn word_of(bytes: &[u8]) -> u64 {
    u64::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3], bytes[4], bytes[5], bytes[6], bytes[7]])
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr};

    use super::*;
    use proptest::prelude::*;

    /// Literal implementation of RFC 1071.
    fn naive(bytes: &[u8]) -> [u8; 2] {
        let mut sum = 0u32;
        for pair in bytes.chunks(2) {
            sum += u32::from(u16::from_be_bytes([pair[0], pair.get(1).copied().unwrap_or(0)]));
            sum = (sum & 0xffff) + (sum >> 16);
        }
        (!(sum as u16)).to_be_bytes()
    }

    //~ ip: the Internet checksum matches the example of RFC 1071 and detects a flipped bit
    #[test]
    fn the_example_of_rfc_1071_sums_to_ddf2() {
        assert_eq!(of(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]), (!0xddf2u16).to_be_bytes());
    }

    proptest! {
        #[test]
        fn words_and_byte_pairs_give_the_same_sum(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            prop_assert_eq!(of(&bytes), naive(&bytes));
            if let Some(header) = bytes.first_chunk() {
                prop_assert_eq!(of_header(header), naive(header));
            }
        }

        #[test]
        fn checksums_of_even_parts_sum_to_the_whole(
            bytes in proptest::collection::vec(any::<u8>(), 0..200),
            cut in 0usize..100,
        ) {
            let cut = (cut * 2).min(bytes.len() & !1);
            let parts = Checksum::new().with(&bytes[..cut]).with(&bytes[cut..]).finish();
            prop_assert_eq!(parts, of(&bytes));
        }

        #[test]
        fn the_pseudo_header_counts_like_its_bytes(a in any::<u32>(), b in any::<u32>(), len in 0usize..65_536) {
            let mut bytes = Vec::new();
            bytes.extend(a.to_be_bytes());
            bytes.extend(b.to_be_bytes());
            bytes.extend([0, 6]);
            bytes.extend((len as u16).to_be_bytes());
            let pseudo = Checksum::pseudo(Ipv4Addr::from_bits(a), Ipv4Addr::from_bits(b), 6, len).finish();
            prop_assert_eq!(pseudo, naive(&bytes));
        }

        #[test]
        fn the_pseudo_header_of_ipv6_counts_like_its_bytes(a in any::<u128>(), b in any::<u128>(), len in 0usize..100_000) {
            let mut bytes = Vec::new();
            bytes.extend(a.to_be_bytes());
            bytes.extend(b.to_be_bytes());
            bytes.extend((len as u32).to_be_bytes());
            bytes.extend([0, 0, 0, 58]);
            let pseudo = Checksum::pseudo(Ipv6Addr::from_bits(a), Ipv6Addr::from_bits(b), 58, len).finish();
            prop_assert_eq!(pseudo, naive(&bytes));
        }
    }
}
