//! Bound address of a socket, and its overlap with others.
//!
//! Source: ip(7), ipv6(7) (dual-stack wildcards).

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

/// Address to which a socket is bound.
#[derive(Clone, Copy, Debug)]
pub(super) struct BindAddr {
    pub addr: SocketAddr,
    /// IPv6 only (`IPV6_V6ONLY`).
    pub v6_only: bool,
}

impl BindAddr {
    /// True if some packet would match both.
    pub fn overlaps(&self, other: &Self) -> bool {
        let (a, b) = (self.addr.ip(), other.addr.ip());
        let overlap = match (a.is_unspecified(), b.is_unspecified()) {
            (false, false) => a == b,
            (true, false) => self.hears(b),
            (false, true) => other.hears(a),
            (true, true) => {
                a.is_ipv4() == b.is_ipv4()
                    || (a.is_ipv6() && !self.v6_only)
                    || (b.is_ipv6() && !other.v6_only)
            }
        };
        self.addr.port() == other.addr.port() && overlap
    }

    /// True if a packet to `local` matches.
    pub fn hears(&self, local: IpAddr) -> bool {
        match self.addr.ip() {
            IpAddr::V6(Ipv6Addr::UNSPECIFIED) => local.is_ipv6() || !self.v6_only,
            addr if addr.is_unspecified() => local.is_ipv4(),
            addr => addr == local,
        }
    }

    /// Distance from an exact match of `local`: the least is preferred.
    pub fn distance(&self, local: IpAddr) -> (bool, bool) {
        let ip = self.addr.ip();
        (ip.is_unspecified(), ip.is_ipv6() != local.is_ipv6())
    }
}
