//! Classes of connections, by source address or destination port.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use super::error::GuardError;
use super::map_layout::{CLASSES, PORTS_MAX, PREFIXES_MAX};

/// Address prefix: `10.0.0.0/8`, `fd00::/16`, `192.0.2.7`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Prefix {
    /// As IPv6; IPv4 as `::ffff:a.b.c.d`.
    address: u128,
    /// Prefix length, of 128.
    bits: u8,
}

const V4: u128 = 0xffff << 32;

impl Prefix {
    /// Prefix of the first `bits` bits of `addr`, at most its length. The bits after it are ignored.
    #[must_use]
    pub fn new(addr: IpAddr, bits: u8) -> Self {
        let (address, bits) = match addr {
            IpAddr::V4(addr) => (V4 | u128::from(addr.to_bits()), 96 + bits.min(32)),
            IpAddr::V6(addr) => (addr.to_bits(), bits.min(128)),
        };
        Self { address: address & Self::mask(bits), bits }
    }

    fn mask(bits: u8) -> u128 {
        u128::MAX.checked_shl(128 - u32::from(bits)).unwrap_or(0)
    }

    /// True if `other` lies within.
    #[must_use]
    pub fn holds(self, other: Self) -> bool {
        self.bits <= other.bits && other.address & Self::mask(self.bits) == self.address
    }

    /// Prefix length, of 128.
    #[must_use]
    pub const fn bits(self) -> u8 {
        self.bits
    }

    /// `struct prefix`.
    pub(super) fn key(self) -> [u8; 20] {
        let mut key = [0; 20];
        key[..4].copy_from_slice(&u32::from(self.bits).to_ne_bytes());
        key[4..].copy_from_slice(&self.address.to_be_bytes());
        key
    }
}

impl FromStr for Prefix {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bad = || format!("{text:?} is not ADDRESS/PREFIX, such as 10.0.0.0/8 or fd00::/16");
        let (addr, bits) = text.split_once('/').map_or((text, None), |(addr, bits)| (addr, Some(bits)));
        let addr: IpAddr = addr.parse().map_err(|_| bad())?;
        let most = if addr.is_ipv4() { 32 } else { 128 };
        let bits = bits.map_or(Ok(most), |bits| bits.parse().map_err(|_| bad()))?;
        if bits > most {
            return Err(format!("prefix {bits} is outside 0..={most}"));
        }
        Ok(Self::new(addr, bits))
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.bits >= 96 && self.address & Self::mask(96) == V4 {
            return write!(f, "{}/{}", Ipv4Addr::from_bits(self.address as u32), self.bits - 96);
        }
        write!(f, "{}/{}", Ipv6Addr::from_bits(self.address), self.bits)
    }
}

/// Condition that puts a connection into a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// Source prefix.
    From(Prefix),
    /// Destination port.
    Port(u16),
}

impl FromStr for Rule {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.strip_prefix("port:") {
            Some(port) => match port.parse() {
                Ok(0) | Err(_) => Err(format!("{text:?} is not port:N with N in 1..=65535")),
                Ok(port) => Ok(Self::Port(port)),
            },
            None => text.parse().map(Self::From),
        }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::From(prefix) => prefix.fmt(f),
            Self::Port(port) => write!(f, "port:{port}"),
        }
    }
}

/// Classes, the most important first. A connection in none is in one more, the last; a connection in
/// several is in the first of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Classes(pub Vec<Vec<Rule>>);

impl Classes {
    /// Number of classes, including the last.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len() + 1
    }

    /// Always false: every connection has a class.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        false
    }

    /// Class of each guarded port, for any source address.
    pub(super) fn of_ports<'a>(&'a self, ports: &'a [u16]) -> impl Iterator<Item = (u16, u8)> + 'a {
        ports.iter().map(|&port| (port, self.first(|rule| *rule == Rule::Port(port))))
    }

    /// Prefixes and their classes: the longest prefix of an address gives the first of its classes.
    pub(super) fn of_prefixes(&self) -> impl Iterator<Item = (Prefix, u8)> + '_ {
        let all = self.0.iter().flatten().filter_map(|rule| match rule {
            Rule::From(prefix) => Some(*prefix),
            Rule::Port(_) => None,
        });
        all.map(|prefix| {
            let holds = |rule: &Rule| matches!(rule, Rule::From(outer) if outer.holds(prefix));
            (prefix, self.first(holds))
        })
    }

    fn first(&self, holds: impl Fn(&Rule) -> bool) -> u8 {
        let place = self.0.iter().position(|class| class.iter().any(&holds));
        place.unwrap_or(self.0.len()) as u8
    }

    pub(super) fn check(&self, ports: &[u16]) -> Result<(), GuardError> {
        let outside = |what, given, max| Err(GuardError::TooMany { what, given, max });
        let prefixes = self.of_prefixes().count();
        let stranger = self.0.iter().flatten().find_map(|rule| match rule {
            Rule::Port(port) => (!ports.contains(port)).then_some(*port),
            Rule::From(_) => None,
        });
        match stranger {
            _ if self.len() > CLASSES => outside("classes", self.len(), CLASSES),
            _ if ports.len() > PORTS_MAX => outside("ports", ports.len(), PORTS_MAX),
            _ if prefixes > PREFIXES_MAX => outside("prefixes", prefixes, PREFIXES_MAX),
            Some(port) => Err(GuardError::Unguarded { what: "a class", port, ports: ports.to_vec() }),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_read_as_they_are_written() {
        for text in ["10.0.0.0/8", "192.0.2.7/32", "fd00::/16", "::/0", "0.0.0.0/0", "port:443"] {
            assert_eq!(text.parse::<Rule>().unwrap().to_string(), text);
        }
        assert_eq!("10.1.2.3/8".parse::<Prefix>().unwrap().to_string(), "10.0.0.0/8");
        for text in ["10.0.0.0/33", "fd00::/129", "x", "port:0", "port:65536", "port:", "1.2.3/8", "/8", ""] {
            assert!(text.parse::<Rule>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn the_first_matching_class_counts() {
        let rule = |text: &str| text.parse::<Rule>().unwrap();
        let classes = Classes(vec![
            vec![rule("10.0.0.0/8")],
            vec![rule("10.1.0.0/16"), rule("port:80")],
            vec![rule("::/0")],
        ]);
        let prefixes: Vec<_> =
            classes.of_prefixes().map(|(prefix, class)| (prefix.to_string(), class)).collect();
        let expected = [("10.0.0.0/8", 0), ("10.1.0.0/16", 0), ("::/0", 2)];
        assert_eq!(prefixes, expected.map(|(prefix, class)| (prefix.to_owned(), class)));
        assert_eq!(classes.of_ports(&[80, 81]).collect::<Vec<_>>(), [(80, 1), (81, 3)]);
        assert!(classes.check(&[80]).is_ok());
        assert!(classes.check(&[81]).is_err(), "port 80 is not guarded");
        assert!(Classes(vec![vec![]; CLASSES]).check(&[80]).is_err());
    }
}
