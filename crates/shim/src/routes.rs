//! Addresses and routes of a stack.
//!
//! The stack takes sockets that bind to one of its addresses, and connections to destinations that
//! it routes: its subnets, or any address with a gateway. The kernel keeps all others, as well as
//! loopback, multicast, link-local addresses, and addresses of the kernel itself that are not
//! across the device.

use std::net::{IpAddr, SocketAddr};

use host::address;

/// Addresses and routes of a stack.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Routes {
    /// Addresses.
    pub addrs: Vec<IpAddr>,
    /// Subnets: an address in each, and the prefix length in bits.
    pub subnets: Vec<(IpAddr, u8)>,
    /// There is a gateway for IPv4.
    pub beyond4: bool,
    /// There is a gateway for IPv6.
    pub beyond6: bool,
    /// Interface index of the device, or 0.
    pub interface: u32,
    /// The kernel is a peer at the other end of the device.
    pub meets_kernel: bool,
}

impl Routes {
    /// True if `addr` is an address of the stack.
    #[must_use]
    pub fn has(&self, addr: IpAddr) -> bool {
        self.addrs.contains(&addr)
    }

    /// True if the stack takes a socket bound to `addr`. A socket bound to no address and no port
    /// is undecided until it sends.
    #[must_use]
    pub fn is_for(&self, addr: SocketAddr) -> bool {
        match addr.ip() {
            ip if ip.is_unspecified() => addr.port() != 0,
            ip => self.has(ip),
        }
    }

    /// Prefix length of the subnet of `addr`, in bits.
    #[must_use]
    pub fn prefix(&self, addr: IpAddr) -> u8 {
        let near = self.subnets.iter().find(|(of, prefix)| is_in(addr, *of, *prefix));
        match addr {
            IpAddr::V6(addr) if addr.is_unicast_link_local() => 64,
            _ => near.map_or(if addr.is_ipv4() { 32 } else { 128 }, |(_, prefix)| *prefix),
        }
    }

    /// Source address for `to`: one of the same family, in the same subnet if possible.
    #[must_use]
    pub fn source(&self, to: IpAddr) -> Option<IpAddr> {
        if self.has(to) {
            return Some(to);
        }
        let near = self.subnets.iter().find(|(addr, prefix)| is_in(to, *addr, *prefix));
        let mut others = self.addrs.iter().filter(|addr| addr.is_ipv4() == to.is_ipv4());
        near.map(|(addr, _)| *addr).or_else(|| others.find(|addr| !is_link_local(**addr)).copied())
    }

    /// True if the stack routes to `to`.
    #[must_use]
    pub fn leads_to(&self, to: IpAddr) -> bool {
        if to.is_unspecified() || to.is_loopback() || to.is_multicast() || is_link_local(to) {
            return false;
        }
        let near = || self.subnets.iter().any(|(addr, prefix)| is_in(to, *addr, *prefix));
        let speaks = self.addrs.iter().any(|addr| addr.is_ipv4() == to.is_ipv4());
        let beyond = if to.is_ipv4() { self.beyond4 } else { self.beyond6 };
        speaks && (self.has(to) || near() || beyond) && (self.meets_kernel || !address::is_ours(to))
    }
}

fn is_link_local(addr: IpAddr) -> bool {
    match addr {
        IpAddr::V4(addr) => addr.is_link_local() || addr.is_broadcast(),
        IpAddr::V6(addr) => addr.is_unicast_link_local(),
    }
}

/// True if the first `prefix` bits of both are equal.
fn is_in(addr: IpAddr, of: IpAddr, prefix: u8) -> bool {
    let (a, b, bits) = match (addr, of) {
        (IpAddr::V4(a), IpAddr::V4(b)) => (u128::from(a.to_bits()), u128::from(b.to_bits()), 32),
        (IpAddr::V6(a), IpAddr::V6(b)) => (a.to_bits(), b.to_bits(), 128),
        _ => return false,
    };
    let rest = bits - u32::from(prefix).min(bits);
    (a ^ b).checked_shr(rest).unwrap_or(0) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(routes: &Routes, to: &str, expected: bool) {
        assert_eq!(routes.leads_to(to.parse().unwrap()), expected, "{to}");
    }

    #[test]
    fn the_device_leads_to_its_subnets_and_beyond_them_by_a_gateway() {
        let addr = |text: &str| text.parse::<IpAddr>().unwrap();
        let mut routes = Routes {
            addrs: vec![addr("198.18.77.2"), addr("2001:db8:77::2")],
            subnets: vec![(addr("198.18.77.2"), 24), (addr("2001:db8:77::2"), 64)],
            ..Routes::default()
        };
        for near in ["198.18.77.1", "198.18.77.2", "198.18.77.254", "2001:db8:77::99"] {
            check(&routes, near, true);
        }
        let far = ["198.51.100.1", "2001:db8:78::1"];
        far.iter().for_each(|far| check(&routes, far, false));
        routes.beyond4 = true;
        check(&routes, far[0], true);
        check(&routes, far[1], false);
        routes.beyond6 = true;
        check(&routes, far[1], true);
        for never in ["127.0.0.1", "::1", "0.0.0.0", "224.0.0.1", "fe80::1", "255.255.255.255"] {
            check(&routes, never, false);
        }
        routes.addrs.truncate(1);
        check(&routes, far[1], false);
    }

    #[test]
    fn what_is_sent_comes_from_an_address_near_the_peer() {
        let addr = |text: &str| text.parse::<IpAddr>().unwrap();
        let ours = ["fe80::2", "2001:db8:1::2", "2001:db8:2::2", "198.18.77.2"].map(addr);
        let subnets = vec![(ours[1], 64), (ours[2], 64), (ours[3], 24)];
        let routes = Routes { addrs: ours.to_vec(), subnets, ..Routes::default() };
        let source = |to| routes.source(addr(to));
        assert_eq!(source("198.18.77.9"), Some(ours[3]));
        assert_eq!(source("192.0.2.1"), Some(ours[3]));
        assert_eq!(source("2001:db8:2::9"), Some(ours[2]));
        assert_eq!(source("2001:db8:3::9"), Some(ours[1]));
        assert_eq!(source("2001:db8:2::2"), Some(ours[2]), "the stack itself");
        assert_eq!(Routes::default().source(ours[3]), None);
    }

    #[test]
    fn a_subnet_of_no_bits_is_everything() {
        let routes = Routes {
            addrs: vec![[198, 18, 77, 2].into()],
            subnets: vec![([198, 18, 77, 2].into(), 0)],
            ..Routes::default()
        };
        check(&routes, "203.0.113.7", true);
    }
}
