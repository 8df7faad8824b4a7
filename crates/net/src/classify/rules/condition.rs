//! What a rule asks of a packet, as it was written, and which conditions imply
//! others.

use std::net::{IpAddr, Ipv6Addr};

use super::pattern::{Http, Pattern};
use super::request_match::RequestMatch;

/// The conditions of one rule; all that are there must hold.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Conditions {
    /// Our TCP or UDP port.
    pub port: Option<Range>,
    /// The peer's address.
    pub source: Option<Cidr>,
    /// Differentiated services code point.
    pub dscp: Option<Range>,
    /// Bytes of the frame.
    pub length: Option<Range>,
    /// Bytes at a place of the TCP or UDP payload.
    pub bytes: Option<(usize, Vec<u8>)>,
    /// Start of an HTTP request, in the packet.
    pub http: Option<Http>,
    /// What the request says, wherever in the stream it is.
    pub asks: Option<RequestMatch>,
    /// What such requests are expected to take, in nanoseconds.
    pub service: Option<Range>,
    /// Bytes received on the connection.
    pub received: Option<Range>,
    /// Smoothed round-trip time in nanoseconds.
    pub rtt: Option<Range>,
    /// Loss, as [`loss_order`] counts it.
    pub loss: Option<Range>,
}

/// Both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    pub min: u64,
    pub max: u64,
}

impl Range {
    /// Everything.
    pub const FULL: Self = Self { min: 0, max: u64::MAX };

    #[inline]
    pub const fn contains(self, value: u64) -> bool {
        value.wrapping_sub(self.min) <= self.max - self.min
    }

    const fn covers(self, other: Self) -> bool {
        self.min <= other.min && other.max <= self.max
    }

    /// Whether there is a value in both.
    pub const fn meets(self, other: Self) -> bool {
        self.min <= other.max && other.min <= self.max
    }
}

/// A loss of 0.0..=1.0 as an integer of the same order: the bits of a float
/// that is not negative are one.
pub fn loss_order(loss: f32) -> u64 {
    u64::from(loss.max(0.0).to_bits())
}

/// Addresses that share their first bits; those of IPv4 as IPv6 writes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cidr {
    pub net: u128,
    pub mask: u128,
}

/// An address as bits, those of IPv4 as IPv6 writes them.
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

    /// The first address.
    pub fn addr(self) -> IpAddr {
        Ipv6Addr::from_bits(self.net).to_canonical()
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
    /// What the payload must have.
    pub fn patterns(&self) -> Vec<Pattern> {
        let bytes = self.bytes.as_ref().map(|(at, bytes)| Pattern::At(*at, bytes.as_slice().into()));
        let http = self.http.as_ref().map(|http| match (&http.method, http.path.as_deref().unwrap_or("")) {
            (Some(method), path) => Pattern::At(0, format!("{method} {path}").into_bytes().into()),
            (None, path) => Pattern::AfterSpace(path.as_bytes().into()),
        });
        bytes.into_iter().chain(http).collect()
    }

    /// Whether every packet that fulfils `other` fulfils this too. It may
    /// overlook that it does, never the reverse.
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
        let asks = match (&self.asks, &other.asks) {
            (None, _) => true,
            (Some(this), Some(other)) => this.cover(other),
            (Some(_), None) => false,
        };
        let theirs = other.patterns();
        source
            && asks
            && range(self.service, other.service)
            && range(self.port, other.port)
            && range(self.dscp, other.dscp)
            && range(self.length, other.length)
            && range(self.received, other.received)
            && range(self.rtt, other.rtt)
            && range(self.loss, other.loss)
            && self.patterns().iter().all(|mine| theirs.iter().any(|their| mine.implied_by(their)))
    }
}
