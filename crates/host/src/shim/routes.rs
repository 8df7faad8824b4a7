//! Which addresses are the stack's, and which it leads to.
//!
//! What a program binds to an address of the stack's is ours, and so is what
//! it connects to an address that the device leads to: one of its subnets, or
//! any other when a gateway was named. Everything else is the kernel's, as
//! are loopback, groups, link-local addresses, and addresses of the kernel's
//! own that the device does not lead to.

use std::net::{IpAddr, SocketAddr};

use crate::address;

/// Where a stack is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Routes {
    /// Its addresses.
    pub addrs: Vec<IpAddr>,
    /// Its subnets: an address in each, and the prefix in bits.
    pub subnets: Vec<(IpAddr, u8)>,
    /// Somebody sends on what is for IPv4 addresses beyond them,
    pub beyond4: bool,
    /// and for those of IPv6.
    pub beyond6: bool,
    /// The number of the interface that the device is, or 0.
    pub interface: u32,
    /// The kernel is at the other end of the device, a peer like any other.
    pub meets_kernel: bool,
}

impl Routes {
    /// Whether `addr` is the stack's own.
    #[must_use]
    pub fn has(&self, addr: IpAddr) -> bool {
        self.addrs.contains(&addr)
    }

    /// Whether who binds `addr` means us. Who binds no address and no port
    /// wants to send first, perhaps elsewhere.
    #[must_use]
    pub fn is_for(&self, addr: SocketAddr) -> bool {
        match addr.ip() {
            ip if ip.is_unspecified() => addr.port() != 0,
            ip => self.has(ip),
        }
    }

    /// The prefix of the subnet in which `addr` is, in bits.
    #[must_use]
    pub fn prefix(&self, addr: IpAddr) -> u8 {
        let near = self.subnets.iter().find(|(of, prefix)| is_in(addr, *of, *prefix));
        match addr {
            IpAddr::V6(addr) if addr.is_unicast_link_local() => 64,
            _ => near.map_or(if addr.is_ipv4() { 32 } else { 128 }, |(_, prefix)| *prefix),
        }
    }

    /// Where what goes to `to` comes from: an address of ours of the same
    /// family, in the same subnet if there is one.
    #[must_use]
    pub fn source(&self, to: IpAddr) -> Option<IpAddr> {
        if self.has(to) {
            return Some(to);
        }
        let near = self.subnets.iter().find(|(addr, prefix)| is_in(to, *addr, *prefix));
        let mut others = self.addrs.iter().filter(|addr| addr.is_ipv4() == to.is_ipv4());
        near.map(|(addr, _)| *addr).or_else(|| others.find(|addr| !is_link_local(**addr)).copied())
    }

    /// Whether a connection to `to` is ours.
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

/// Whether the first `prefix` bits of both are the same.
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

    fn check(place: &Routes, to: &str, expected: bool) {
        assert_eq!(place.leads_to(to.parse().unwrap()), expected, "{to}");
    }

    #[test]
    fn the_device_leads_to_its_subnets_and_beyond_them_by_a_gateway() {
        let addr = |text: &str| text.parse::<IpAddr>().unwrap();
        let mut place = Routes {
            addrs: vec![addr("198.18.77.2"), addr("2001:db8:77::2")],
            subnets: vec![(addr("198.18.77.2"), 24), (addr("2001:db8:77::2"), 64)],
            ..Routes::default()
        };
        for near in ["198.18.77.1", "198.18.77.2", "198.18.77.254", "2001:db8:77::99"] {
            check(&place, near, true);
        }
        let far = ["198.51.100.1", "2001:db8:78::1"];
        far.iter().for_each(|far| check(&place, far, false));
        place.beyond4 = true;
        check(&place, far[0], true);
        check(&place, far[1], false);
        place.beyond6 = true;
        check(&place, far[1], true);
        for never in ["127.0.0.1", "::1", "0.0.0.0", "224.0.0.1", "fe80::1", "255.255.255.255"] {
            check(&place, never, false);
        }
        place.addrs.truncate(1);
        check(&place, far[1], false);
    }

    #[test]
    fn what_is_sent_comes_from_an_address_near_the_peer() {
        let addr = |text: &str| text.parse::<IpAddr>().unwrap();
        let ours = ["fe80::2", "2001:db8:1::2", "2001:db8:2::2", "198.18.77.2"].map(addr);
        let subnets = vec![(ours[1], 64), (ours[2], 64), (ours[3], 24)];
        let place = Routes { addrs: ours.to_vec(), subnets, ..Routes::default() };
        let source = |to| place.source(addr(to));
        assert_eq!(source("198.18.77.9"), Some(ours[3]));
        assert_eq!(source("192.0.2.1"), Some(ours[3]));
        assert_eq!(source("2001:db8:2::9"), Some(ours[2]));
        assert_eq!(source("2001:db8:3::9"), Some(ours[1]));
        assert_eq!(source("2001:db8:2::2"), Some(ours[2]), "ourselves");
        assert_eq!(Routes::default().source(ours[3]), None);
    }

    #[test]
    fn a_subnet_of_no_bits_is_everything() {
        let place = Routes {
            addrs: vec![[198, 18, 77, 2].into()],
            subnets: vec![([198, 18, 77, 2].into(), 0)],
            ..Routes::default()
        };
        check(&place, "203.0.113.7", true);
    }
}
