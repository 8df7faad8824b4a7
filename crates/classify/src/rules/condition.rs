//! Conditions of a rule as written, and implication between conditions.

use std::net::{IpAddr, Ipv6Addr};

use super::pattern::{HttpPattern, Pattern};
use super::request_match::RequestMatch;

/// Conditions of one rule. All that are set must hold.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Conditions {
    /// Local TCP or UDP port.
    pub port: Option<Range>,
    /// Remote address.
    pub source: Option<Cidr>,
    /// Differentiated services code point.
    pub dscp: Option<Range>,
    /// Frame length in bytes.
    pub length: Option<Range>,
    /// Bytes at an offset of the TCP or UDP payload.
    pub bytes: Option<(usize, Vec<u8>)>,
    /// Start of an HTTP request in the packet.
    pub http: Option<HttpPattern>,
    /// Condition on the request, wherever in the stream its head is.
    pub request: Option<RequestMatch>,
    /// Expected service time of the request, in ns.
    pub service: Option<Range>,
    /// Bytes received on the connection.
    pub received: Option<Range>,
    /// Smoothed round-trip time in ns.
    pub rtt: Option<Range>,
    /// Share of lost segments, as the integer that [`loss_order`] computes.
    pub loss: Option<Range>,
}

/// Closed interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    pub min: u64,
    pub max: u64,
}

impl Range {
    /// All values.
    pub const FULL: Self = Self { min: 0, max: u64::MAX };

    #[inline]
    pub const fn contains(self, value: u64) -> bool {
        value.wrapping_sub(self.min) <= self.max - self.min
    }

    const fn covers(self, other: Self) -> bool {
        self.min <= other.min && other.max <= self.max
    }

    /// True if the ranges intersect.
    pub const fn meets(self, other: Self) -> bool {
        self.min <= other.max && other.min <= self.max
    }
}

/// Loss of 0.0..=1.0 as an integer of the same order: the bits of a non-negative float compare like
/// the float.
pub fn loss_order(loss: f32) -> u64 {
    u64::from(loss.max(0.0).to_bits())
}

/// Address prefix; IPv4 addresses are in IPv4-mapped form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cidr {
    pub net: u128,
    pub mask: u128,
}

/// Address as an integer; IPv4 addresses are in IPv4-mapped form.
#[inline]
pub fn bits(addr: IpAddr) -> u128 {
    const MAPPED: u128 = 0xffff << 32;
    match addr {
        IpAddr::V4(addr) => MAPPED | u128::from(addr.to_bits()),
        IpAddr::V6(addr) => addr.to_bits(),
    }
}

impl Cidr {
    /// Every address.
    pub const ANY: Self = Self { net: 0, mask: 0 };

    pub fn new(addr: IpAddr, prefix: u8) -> Self {
        let host_bits = if addr.is_ipv4() { 32 } else { 128 } - u32::from(prefix);
        let mask = u128::MAX.checked_shl(host_bits).unwrap_or(0);
        Self { net: bits(addr) & mask, mask }
    }

    /// First address of the prefix.
    pub fn addr(self) -> IpAddr {
        Ipv6Addr::from_bits(self.net).to_canonical()
    }

    /// First address and length of the prefix.
    pub fn prefix(self) -> (IpAddr, u32) {
        let addr = self.addr();
        let bits = if addr.is_ipv4() { 32_u32 } else { 128 };
        (addr, bits.saturating_sub(self.mask.trailing_zeros()))
    }

    #[inline]
    pub const fn contains(self, addr: u128) -> bool {
        addr & self.mask == self.net
    }

    const fn covers(self, other: Self) -> bool {
        self.mask & other.mask == self.mask && self.contains(other.net)
    }
}

impl Conditions {
    /// Payload patterns of the conditions.
    pub fn patterns(&self) -> Vec<Pattern> {
        let bytes = self.bytes.as_ref().map(|(at, bytes)| Pattern::At(*at, bytes.as_slice().into()));
        let http = self.http.as_ref().map(|http| match (&http.method, http.path.as_deref().unwrap_or("")) {
            (Some(method), path) => Pattern::At(0, format!("{method} {path}").into_bytes().into()),
            (None, path) => Pattern::AfterSpace(path.as_bytes().into()),
        });
        bytes.into_iter().chain(http).collect()
    }

    /// True if every packet that fulfils `other` fulfils these conditions. False negatives are
    /// possible, false positives are not.
    pub fn cover(&self, other: &Self) -> bool {
        let range = |this: Option<Range>, other: Option<Range>| match (this, other) {
            (None, _) => true,
            (Some(this), Some(other)) => this.covers(other),
            (Some(_), None) => false,
        };
        let source = match (self.source, other.source) {
            (None, _) => true,
            (Some(this), Some(other)) => this.covers(other),
            (Some(_), None) => false,
        };
        let request = match (&self.request, &other.request) {
            (None, _) => true,
            (Some(this), Some(other)) => this.cover(other),
            (Some(_), None) => false,
        };
        let others = other.patterns();
        source
            && request
            && range(self.service, other.service)
            && range(self.port, other.port)
            && range(self.dscp, other.dscp)
            && range(self.length, other.length)
            && range(self.received, other.received)
            && range(self.rtt, other.rtt)
            && range(self.loss, other.loss)
            && self.patterns().iter().all(|own| others.iter().any(|pattern| own.implied_by(pattern)))
    }
}
