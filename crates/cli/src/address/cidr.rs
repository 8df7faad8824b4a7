//! An address and its subnet.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// An address within its subnet: `10.77.0.2/24`, `fd00::2/64`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InterfaceAddress {
    /// The address.
    pub addr: IpAddr,
    /// Length of the subnet's prefix, 1..=30, or 1..=126 for IPv6.
    pub prefix: u8,
}

/// The address as a number, and its length in bits.
fn number(addr: IpAddr) -> (u128, u8) {
    match addr {
        IpAddr::V4(addr) => (addr.to_bits().into(), 32),
        IpAddr::V6(addr) => (addr.to_bits(), 128),
    }
}

impl InterfaceAddress {
    /// The subnet's number, and the host bits of the address.
    fn parts(self) -> (u128, u128) {
        let (own, bits) = number(self.addr);
        let hosts = (1u128 << (bits - self.prefix)) - 1;
        (own & !hosts, hosts)
    }

    fn with(self, number: u128) -> IpAddr {
        match self.addr {
            IpAddr::V4(_) => Ipv4Addr::from_bits(number as u32).into(),
            IpAddr::V6(_) => Ipv6Addr::from_bits(number).into(),
        }
    }

    /// True if `addr` is a host's address in this subnet. The first address is not one, and in IPv4
    /// neither is the last.
    #[must_use]
    pub fn holds(self, addr: IpAddr) -> bool {
        let ((network, hosts), (other, _)) = (self.parts(), number(addr));
        let last = addr.is_ipv4() && other & hosts == hosts;
        addr.is_ipv4() == self.addr.is_ipv4() && other & !hosts == network && other & hosts != 0 && !last
    }

    /// True if `addr` is another host's address in this subnet.
    #[must_use]
    pub fn has_neighbor(self, addr: IpAddr) -> bool {
        self.holds(addr) && addr != self.addr
    }

    /// The subnet's first address that is not this one.
    #[must_use]
    pub fn first_other(self) -> IpAddr {
        let first = self.with(self.parts().0 + 1);
        if first == self.addr { self.with(self.parts().0 + 2) } else { first }
    }

    /// True if the address means the same on every link.
    #[must_use]
    pub fn is_global(&self) -> bool {
        !matches!(self.addr, IpAddr::V6(addr) if addr.is_unicast_link_local())
    }
}

/// True if no host can have `addr`.
fn is_unusable(addr: IpAddr) -> bool {
    match addr {
        IpAddr::V4(addr) => addr.is_loopback() || !(1..=223).contains(&addr.octets()[0]),
        IpAddr::V6(v6) => {
            v6.is_loopback() || v6.is_unspecified() || v6.is_multicast() || v6.to_ipv4_mapped().is_some()
        }
    }
}

impl FromStr for InterfaceAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (addr, prefix) = text.split_once('/').unwrap_or((text, ""));
        let example = |addr: IpAddr| format!("{addr}/{}", if addr.is_ipv4() { 24 } else { 64 });
        let addr: IpAddr = addr
            .parse()
            .map_err(|_| format!("{text:?} is not ADDRESS/PREFIX, such as 10.77.0.2/24 or fd00::2/64"))?;
        let prefix = prefix.parse().map_err(|_| match text.contains('/') {
            true => format!("{text:?} is not ADDRESS/PREFIX, such as {}", example(addr)),
            false => format!("{text:?} has no prefix, such as {}", example(addr)),
        })?;
        let cidr = Self { addr, prefix };
        let max = number(addr).1 - 2;
        if !(1..=max).contains(&prefix) {
            return Err(format!("prefix {prefix} is outside 1..={max}"));
        }
        if is_unusable(addr) {
            let usable = if addr.is_ipv4() { "10.77.0.2" } else { "fd00::2" };
            return Err(format!(
                "{addr} cannot be the address of a host; valid: an address such as {usable}"
            ));
        }
        if !cidr.holds(addr) {
            let (network, hosts) = cidr.parts();
            let last = if addr.is_ipv4() { hosts - 1 } else { hosts };
            let (first, last) = (cidr.with(network + 1), cidr.with(network + last));
            return Err(format!("{addr} is not one of the subnet's hosts, {first} to {last}"));
        }
        Ok(cidr)
    }
}

impl fmt::Display for InterfaceAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.addr, self.prefix)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    //~ cli: `serve` takes address, host address and port, and prints its summary as JSON
    #[test]
    fn the_kernels_end_gets_the_first_other_address() {
        let other = |text: &str| text.parse::<InterfaceAddress>().map(|c| c.first_other().to_string());
        assert_eq!(other("10.77.0.2/24"), Ok("10.77.0.1".to_owned()));
        assert_eq!(other("10.77.0.1/24"), Ok("10.77.0.2".to_owned()));
        assert_eq!(other("10.77.3.9/16"), Ok("10.77.0.1".to_owned()));
        assert_eq!(other("10.77.0.1/30"), Ok("10.77.0.2".to_owned()));
        assert_eq!(other("fd00::5:0:2/64"), Ok("fd00::1".to_owned()));
        assert_eq!(other("fd00::1/126"), Ok("fd00::2".to_owned()));
    }

    //~ input: invalid addresses, devices and flags give one line and exit 2
    #[test]
    fn addresses_no_host_can_have_are_refused() {
        let texts = ["10.77.0.0/24", "10.77.0.255/24", "10.77.0.2", "10.77.0.2/0", "10.77.0.2/31"];
        let v6 =
            ["fd00::/64", "fd00::2", "fd00::2/127", "fd00::2/0", "::1/64", "ff02::1/64", "::ffff:1.2.3.4/96"];
        for text in texts.into_iter().chain(v6).chain([
            "224.0.0.1/24",
            "240.0.0.1/8",
            "0.0.0.5/8",
            "127.0.0.1/8",
            "1.2.3/8",
            "1.2.3.4/x",
        ]) {
            assert!(text.parse::<InterfaceAddress>().is_err(), "{text} is no host's address");
        }
        let error = |text: &str| text.parse::<InterfaceAddress>().unwrap_err();
        assert_eq!(
            error("10.77.0.0/24"),
            "10.77.0.0 is not one of the subnet's hosts, 10.77.0.1 to 10.77.0.254"
        );
        assert_eq!(error("fd00::2"), "\"fd00::2\" has no prefix, such as fd00::2/64");
    }
}
