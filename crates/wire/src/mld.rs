//! Multicast listener discovery (MLD), host side, for switches that forward only to listeners.
//!
//! Parses queries (version 1 queries are a prefix of version 2's) and writes reports with one group
//! and no sources. The router side is absent.
//! Source: RFC 3810 §5.

use std::net::Ipv6Addr;

use queueing::Span;

use super::{Malformed, addr6, be16, icmpv6};

/// Destination of reports: all MLDv2-capable routers (RFC 3810 §5.2.14).
pub const REPORTS: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 0x16);

/// Hop-by-hop header of each message: router alert (RFC 2711) and padding, followed by ICMPv6.
pub const HOP_BY_HOP: [u8; 8] = [58, 0, 5, 2, 0, 0, 1, 0];

/// Multicast listener query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Query {
    /// Group queried; unspecified for all groups.
    pub group: Ipv6Addr,
    /// Maximum response delay.
    pub within: Span,
}

/// Multicast address record of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressRecord {
    /// MODE_IS_EXCLUDE without sources: the host listens to the group.
    Listening = 2,
    /// CHANGE_TO_INCLUDE_MODE without sources: the host has left the group.
    Left = 3,
    /// CHANGE_TO_EXCLUDE_MODE without sources: the host has joined the group.
    Joined = 4,
}

impl Query {
    /// Parses a query whose checksum was verified.
    ///
    /// # Errors
    /// [`Malformed::Truncated`]; [`Malformed::BadAddress`] if the address is no group.
    pub fn parse(message: &[u8]) -> Result<Self, Malformed> {
        if message.len() < 24 {
            return Err(Malformed::Truncated);
        }
        let group = addr6(message, 8);
        if !group.is_multicast() && !group.is_unspecified() {
            return Err(Malformed::BadAddress);
        }
        // Large codes consist of mantissa and exponent (§5.1.3).
        let code = u64::from(be16(message, 4));
        let ms = if code < 0x8000 { code } else { (code & 0xfff | 0x1000) << ((code >> 12 & 7) + 3) };
        Ok(Self { group, within: Span::from_millis(ms) })
    }
}

/// Report with `record` for `group`, preceded by its hop-by-hop header.
#[must_use]
pub fn report(record: AddressRecord, group: Ipv6Addr, source: Ipv6Addr) -> Vec<u8> {
    let mut message = vec![143, 0, 0, 0, 0, 0, 0, 1, record as u8, 0, 0, 0];
    message.extend(group.octets());
    icmpv6::finish_checksum(&mut message, source, REPORTS);
    [&HOP_BY_HOP[..], &message].concat()
}

//~ ip: MLDv2 reports the groups of the stack's addresses on joining, leaving and when queried (RFC 3810, 3590)
#[cfg(test)]
mod tests {
    use super::*;

    fn query(code: u16, group: Ipv6Addr) -> Result<Query, Malformed> {
        let [high, low] = code.to_be_bytes();
        let mut message = vec![130, 0, 0, 0, high, low, 0, 0];
        message.extend(group.octets());
        Query::parse(&message)
    }

    #[test]
    fn a_query_carries_the_maximum_response_delay() {
        let within = |code| query(code, Ipv6Addr::UNSPECIFIED).unwrap().within;
        assert_eq!([0, 10_000].map(within), [Span::ZERO, Span::from_secs(10)]);
        assert_eq!(within(0x8000), Span::from_millis(0x1000 << 3));
        assert_eq!(within(0xffff), Span::from_millis(0x1fff << 10));
        assert_eq!(query(0, Ipv6Addr::LOCALHOST), Err(Malformed::BadAddress));
        assert_eq!(Query::parse(&[130; 23]), Err(Malformed::Truncated));
    }
}
