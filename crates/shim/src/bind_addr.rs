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
    /// `IPV6_V6ONLY` as the kernel reports it: also set by binding to an IPv6 address (Linux,
    /// `inet6_bind`).
    pub fn is_v6_only(&self) -> bool {
        self.v6_only || self.addr.is_ipv6() && !self.addr.ip().is_unspecified()
    }

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

    /// True if the socket may send to `to`: one with an address of its own sends over that address's
    /// family only, and so does one for IPv6 only (Linux, `inet6_bind`, `udpv6_sendmsg`).
    pub fn reaches(&self, to: IpAddr) -> bool {
        match (self.addr.ip(), to) {
            (IpAddr::V6(own), IpAddr::V4(_)) => own.is_unspecified() && !self.v6_only,
            (own, to) => own.is_ipv4() == to.is_ipv4(),
        }
    }

    /// Distance from an exact match of `local`: the least is preferred.
    pub fn distance(&self, local: IpAddr) -> (bool, bool) {
        let ip = self.addr.ip();
        (ip.is_unspecified(), ip.is_ipv6() != local.is_ipv6())
    }
}
