//! The stack's addresses for getifaddrs(3). Programs that listen on each interface address (BIND)
//! would not find them otherwise.

use std::net::IpAddr;

use super::datagram_header;
use super::routes::Routes;

/// Addresses of the stack, and its interface.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StackInterface {
    /// Interface index of the device, or 0.
    pub number: u32,
    /// Each address with its prefix length in bits.
    pub addrs: Vec<(IpAddr, u8)>,
}

/// Encoded address: family, address, prefix.
const ADDR_BYTES: usize = 1 + 16 + 1;
/// Maximum number of addresses encoded.
const ADDRS_MAX: usize = 64;

impl StackInterface {
    /// Maximum encoded length in bytes.
    pub const BYTES_MAX: usize = 4 + ADDRS_MAX * ADDR_BYTES;

    /// Addresses of a stack.
    #[must_use]
    pub fn of(routes: &Routes) -> Self {
        let addrs = routes.addrs.iter().map(|addr| (*addr, routes.prefix(*addr)));
        Self { number: routes.interface, addrs: addrs.take(ADDRS_MAX).collect() }
    }

    /// Encoded form.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = self.number.to_be_bytes().to_vec();
        for (addr, prefix) in &self.addrs {
            bytes.push(u8::from(addr.is_ipv6()));
            bytes.extend(datagram_header::mapped(*addr).octets());
            bytes.push(*prefix);
        }
        bytes
    }

    /// Decodes `bytes`; `None` if they are malformed.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let (number, rest) = bytes.split_first_chunk()?;
        let (addrs, []) = rest.as_chunks::<ADDR_BYTES>() else { return None };
        let addr = |bytes: &[u8; ADDR_BYTES]| {
            let [six, sixteen @ .., prefix] = bytes;
            let addr = IpAddr::from(*sixteen);
            Some((if *six == 1 { addr } else { Some(addr.to_canonical()).filter(IpAddr::is_ipv4)? }, *prefix))
        };
        Some(Self {
            number: u32::from_be_bytes(*number),
            addrs: addrs.iter().map(addr).collect::<Option<_>>()?,
        })
    }
}

//~ programs: `getifaddrs` lists the stack's addresses first
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_comes_back_as_it_was_sent() {
        let addr = |text: &str| text.parse::<IpAddr>().unwrap();
        let routes = Routes {
            addrs: ["198.18.77.2", "2001:db8:77::2", "fe80::2", "198.51.100.2"].map(addr).to_vec(),
            subnets: vec![(addr("198.18.77.2"), 24), (addr("2001:db8:77::2"), 64)],
            interface: 7,
            ..Routes::default()
        };
        let interface = StackInterface::of(&routes);
        assert_eq!(interface.addrs.iter().map(|(_, prefix)| *prefix).collect::<Vec<_>>(), [24, 64, 64, 32]);
        let bytes = interface.encode();
        assert!(bytes.len() <= StackInterface::BYTES_MAX);
        assert_eq!(StackInterface::decode(&bytes), Some(interface));
        for len in (0..bytes.len()).filter(|len| (len - 4.min(*len)) % ADDR_BYTES != 0 || *len < 4) {
            assert_eq!(StackInterface::decode(&bytes[..len]), None, "{len} bytes");
        }
        let many = Routes { addrs: vec![addr("::1"); 100], ..routes };
        assert_eq!(StackInterface::of(&many).encode().len(), StackInterface::BYTES_MAX);
    }
}
