//! Reference model of the XDP program's decision.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::{
    ALL_NODES, ARP, Claims, EXTENSIONS, FRAGMENT_BITS, ICMP, ICMPV6, IPV4, IPV6, NEIGHBOR_ADVERTISEMENT,
    NEIGHBOR_SOLICITATION, TCP, UDP, solicited_node,
};

impl Claims {
    /// True if `frame`, from the destination MAC on, is ours.
    #[must_use]
    pub fn hold(&self, frame: &[u8]) -> bool {
        self.decide(frame).unwrap_or(false)
    }

    /// `None` if the frame ends too early.
    fn decide(&self, frame: &[u8]) -> Option<bool> {
        match u32::from(half(frame, 12)?) {
            ARP => Some(self.has(ipv4_at(frame, 38)?.into())),
            IPV4 => {
                if !self.has(ipv4_at(frame, 30)?.into()) {
                    return Some(false);
                }
                let header = usize::from(frame[14] & 15) * 4;
                match frame[23] {
                    ICMP => Some(true),
                    TCP | UDP if self.ports.is_empty() => Some(true),
                    TCP | UDP if half(frame, 20)? & FRAGMENT_BITS != 0 => Some(true),
                    TCP | UDP => self.has_port(frame, 14 + header),
                    _ => Some(false),
                }
            }
            IPV6 => {
                let target = ipv6_at(frame, 38)?;
                match (self.has(target.into()), frame[20]) {
                    (true, ICMPV6) => Some(true),
                    (true, kind) if EXTENSIONS.contains(&kind) => Some(true),
                    (true, TCP | UDP) if self.ports.is_empty() => Some(true),
                    (true, TCP | UDP) => self.has_port(frame, 54),
                    (false, ICMPV6) => {
                        let asked = ipv6_at(frame, 62)?;
                        let group = match frame[54] {
                            NEIGHBOR_SOLICITATION => solicited_node(asked),
                            NEIGHBOR_ADVERTISEMENT => ALL_NODES,
                            _ => return Some(false),
                        };
                        Some(target == group && self.has(asked.into()))
                    }
                    _ => Some(false),
                }
            }
            _ => Some(false),
        }
    }

    fn has(&self, addr: IpAddr) -> bool {
        self.addresses.contains(&addr)
    }

    fn has_port(&self, frame: &[u8], header: usize) -> Option<bool> {
        let port = half(frame, header + 2)?;
        Some(self.ports.iter().any(|range| range.contains(&port)))
    }
}

fn half(frame: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(*frame.get(at..)?.first_chunk()?))
}

fn ipv4_at(frame: &[u8], at: usize) -> Option<Ipv4Addr> {
    Some(Ipv4Addr::from(*frame.get(at..)?.first_chunk::<4>()?))
}

fn ipv6_at(frame: &[u8], at: usize) -> Option<Ipv6Addr> {
    Some(Ipv6Addr::from(*frame.get(at..)?.first_chunk::<16>()?))
}
