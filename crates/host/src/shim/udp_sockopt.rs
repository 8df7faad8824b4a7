//! Socket options of sockets for datagrams that the desk keeps: what their program is told
//! beside a datagram, how what it sends is marked, and how that is cut.
//!
//! A program may set them before its socket is ours: the library then brings along what the
//! kernel has kept of them ([`DatagramOptions::NAMES`]). Addresses and marks are options of
//! a version of IP, and a socket of IPv6 has those of both, since it may speak IPv4, too.
//! Source: ip(7), ipv6(7), udp(7), RFC 3542 §6.

use libc::{IPPROTO_IP, IPPROTO_IPV6, SOL_UDP};
use net::wire::ip::HOPS;
use rustix::io::Errno;

use super::tcp_sockopt::TcpSockopt;

/// What they are; all of a new socket's are 0, but hops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DatagramOptions {
    /// It is told to which address of ours each datagram came (IP_PKTINFO, IPV6_RECVPKTINFO).
    pub info: bool,
    /// It is told the traffic class of datagrams of IPv4, and of IPv6 (IP_RECVTOS,
    /// IPV6_RECVTCLASS).
    pub told_class: [bool; 2],
    /// The traffic class of what it sends by IPv4, and by IPv6 (IP_TOS, IPV6_TCLASS); where
    /// its DSCP is 0 that is the stack's to say.
    pub class: [u8; 2],
    /// Whether what it sends may be cut on its way, by IPv4 and by IPv6 (IP_MTU_DISCOVER,
    /// IPV6_MTU_DISCOVER): [`whole`](Self::whole).
    pub discover: [u8; 2],
    /// Nothing that it sends by IPv6 may be (IPV6_DONTFRAG).
    pub dontfrag: bool,
    /// It takes several datagrams of one length at once (UDP_GRO).
    pub gro: bool,
    /// It sends in segments of so many bytes; 0: as it writes (UDP_SEGMENT).
    pub segment: u16,
    /// Hops that what it sends by IPv4, and by IPv6, may take (IP_TTL, IPV6_UNICAST_HOPS).
    pub hops: [u8; 2],
    /// IP_MINTTL and IPV6_MINHOPCOUNT, which UDP does not look at.
    pub hops_min: [u8; 2],
}

impl Default for DatagramOptions {
    fn default() -> Self {
        Self {
            info: false,
            told_class: [false; 2],
            class: [0; 2],
            discover: [0; 2],
            dontfrag: false,
            gro: false,
            segment: 0,
            hops: [HOPS; 2],
            hops_min: [0; 2],
        }
    }
}

impl DatagramOptions {
    /// Levels and names of all of them.
    pub const NAMES: [(i32, i32); 15] = [
        (IPPROTO_IP, libc::IP_PKTINFO),
        (IPPROTO_IP, libc::IP_RECVTOS),
        (IPPROTO_IP, libc::IP_TOS),
        (IPPROTO_IP, libc::IP_MTU_DISCOVER),
        (IPPROTO_IPV6, libc::IPV6_RECVPKTINFO),
        (IPPROTO_IPV6, libc::IPV6_RECVTCLASS),
        (IPPROTO_IPV6, libc::IPV6_TCLASS),
        (IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER),
        (IPPROTO_IPV6, libc::IPV6_DONTFRAG),
        (SOL_UDP, libc::UDP_SEGMENT),
        (SOL_UDP, libc::UDP_GRO),
        (IPPROTO_IP, libc::IP_TTL),
        (IPPROTO_IP, libc::IP_MINTTL),
        (IPPROTO_IPV6, libc::IPV6_UNICAST_HOPS),
        (IPPROTO_IPV6, libc::IPV6_MINHOPCOUNT),
    ];
    /// Those of them that are hop limits.
    const HOPS: [(i32, i32); 4] = [Self::NAMES[11], Self::NAMES[12], Self::NAMES[13], Self::NAMES[14]];
    /// Bytes of [`encode`](Self::encode).
    pub const LEN: usize = 2 * Self::NAMES.len();

    /// What option `name` of `level` is; `None` if it is none of these.
    #[must_use]
    pub fn get(&self, level: i32, name: i32) -> Option<i32> {
        Some(match (level, name) {
            (IPPROTO_IP, libc::IP_PKTINFO) | (IPPROTO_IPV6, libc::IPV6_RECVPKTINFO) => self.info.into(),
            (IPPROTO_IP, libc::IP_RECVTOS) => self.told_class[0].into(),
            (IPPROTO_IPV6, libc::IPV6_RECVTCLASS) => self.told_class[1].into(),
            (IPPROTO_IP, libc::IP_TOS) => self.class[0].into(),
            (IPPROTO_IPV6, libc::IPV6_TCLASS) => self.class[1].into(),
            (IPPROTO_IP, libc::IP_MTU_DISCOVER) => self.discover[0].into(),
            (IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER) => self.discover[1].into(),
            (IPPROTO_IPV6, libc::IPV6_DONTFRAG) => self.dontfrag.into(),
            (SOL_UDP, libc::UDP_SEGMENT) => self.segment.into(),
            (SOL_UDP, libc::UDP_GRO) => self.gro.into(),
            (IPPROTO_IP, libc::IP_TTL) => self.hops[0].into(),
            (IPPROTO_IP, libc::IP_MINTTL) => self.hops_min[0].into(),
            (IPPROTO_IPV6, libc::IPV6_UNICAST_HOPS) => self.hops[1].into(),
            (IPPROTO_IPV6, libc::IPV6_MINHOPCOUNT) => self.hops_min[1].into(),
            _ => return None,
        })
    }

    /// Sets option `name` of `level` to `value`.
    ///
    /// # Errors
    /// `ENOPROTOOPT` if it is none of these; `EINVAL` for a value that it cannot have.
    pub fn set(&mut self, level: i32, name: i32, value: i32) -> Result<(), Errno> {
        match (level, name) {
            (IPPROTO_IP, libc::IP_PKTINFO) | (IPPROTO_IPV6, libc::IPV6_RECVPKTINFO) => self.info = value != 0,
            (IPPROTO_IP, libc::IP_RECVTOS) => self.told_class[0] = value != 0,
            (IPPROTO_IPV6, libc::IPV6_RECVTCLASS) => self.told_class[1] = value != 0,
            (IPPROTO_IP, libc::IP_TOS) => self.class[0] = u8::try_from(value).map_err(|_| Errno::INVAL)?,
            (IPPROTO_IPV6, libc::IPV6_TCLASS) => {
                self.class[1] = class_of_v6(value).ok_or(Errno::INVAL)?.unwrap_or(0);
            }
            (IPPROTO_IP, libc::IP_MTU_DISCOVER) => self.discover[0] = discover(value)?,
            (IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER) => self.discover[1] = discover(value)?,
            (IPPROTO_IPV6, libc::IPV6_DONTFRAG) => self.dontfrag = value != 0,
            (SOL_UDP, libc::UDP_SEGMENT) => self.segment = u16::try_from(value).map_err(|_| Errno::INVAL)?,
            (SOL_UDP, libc::UDP_GRO) => self.gro = value != 0,
            _ => return self.set_hops(level, name, value),
        }
        Ok(())
    }

    /// Hop limits are as those of connections.
    fn set_hops(&mut self, level: i32, name: i32, value: i32) -> Result<(), Errno> {
        if !Self::HOPS.contains(&(level, name)) {
            return Err(Errno::NOPROTOOPT);
        }
        match TcpSockopt::of(level, name, [value, 0]).ok_or(Errno::INVAL)? {
            TcpSockopt::Ttl(hops) => self.hops[0] = hops,
            TcpSockopt::HopLimit(hops) => self.hops[1] = hops,
            TcpSockopt::TtlMin(hops) => self.hops_min[0] = hops,
            TcpSockopt::HopLimitMin(hops) => self.hops_min[1] = hops,
            _ => return Err(Errno::NOPROTOOPT),
        }
        Ok(())
    }

    /// Whether a datagram that it sends by IPv6, if `six`, or by IPv4 is not to be cut: it
    /// probes for the path's MTU, or wants to be told of it.
    #[must_use]
    pub fn whole(&self, six: bool) -> bool {
        let probes =
            [libc::IP_PMTUDISC_DO, libc::IP_PMTUDISC_PROBE].contains(&self.discover[usize::from(six)].into());
        probes || six && self.dontfrag
    }

    /// Its bytes: the value of each of [`NAMES`](Self::NAMES).
    #[must_use]
    pub fn encode(&self) -> [u8; Self::LEN] {
        let mut bytes = [0; Self::LEN];
        for (place, (level, name)) in bytes.as_chunks_mut().0.iter_mut().zip(Self::NAMES) {
            // None is larger: a class, a flag, hops, or a length.
            *place = (self.get(level, name).unwrap_or(0) as u16).to_be_bytes();
        }
        bytes
    }

    /// What [`encode`](Self::encode) has written; what it cannot have is left out.
    #[must_use]
    pub fn decode(bytes: [u8; Self::LEN]) -> Self {
        let mut options = Self::default();
        for (&value, (level, name)) in bytes.as_chunks().0.iter().zip(Self::NAMES) {
            let _ = options.set(level, name, u16::from_be_bytes(value).into());
        }
        options
    }
}

fn discover(value: i32) -> Result<u8, Errno> {
    let known = libc::IP_PMTUDISC_DONT..=libc::IP_PMTUDISC_OMIT;
    u8::try_from(value).ok().filter(|_| known.contains(&value)).ok_or(Errno::INVAL)
}

/// What `value` says of a traffic class of IPv6, of a socket or of a message: −1 is no
/// word of it (RFC 3542 §6.5). `None`: it cannot be.
#[must_use]
pub fn class_of_v6(value: i32) -> Option<Option<u8>> {
    if value == -1 { Some(None) } else { u8::try_from(value).ok().map(Some) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_value_that_cannot_be_is_refused_and_what_was_there_stays() {
        let mut options = DatagramOptions::default();
        let tos = (IPPROTO_IP, libc::IP_TOS, [-1, 256]);
        let class = (IPPROTO_IPV6, libc::IPV6_TCLASS, [-2, 256]);
        let segment = (SOL_UDP, libc::UDP_SEGMENT, [-1, 65_536]);
        let discover = (IPPROTO_IP, libc::IP_MTU_DISCOVER, [-1, 6]);
        let ttl = (IPPROTO_IP, libc::IP_TTL, [0, 256]);
        for (level, name, wrong) in [tos, class, segment, discover, ttl] {
            assert_eq!(options.set(level, name, 5), Ok(()));
            for wrong in wrong {
                assert_eq!(options.set(level, name, wrong), Err(Errno::INVAL));
            }
            assert_eq!(options.get(level, name), Some(5));
        }
        let (level, name, _) = class;
        assert_eq!((options.set(level, name, -1), options.get(level, name)), (Ok(()), Some(0)));
        assert_eq!(options.set(IPPROTO_IP, libc::IP_RECVTTL, 1), Err(Errno::NOPROTOOPT));
        assert_eq!(options.get(IPPROTO_IP, libc::IP_RECVTTL), None);
    }

    proptest! {
        /// Against a map: each name has a value of its own, but that our end is told by either of two.
        #[test]
        fn options_are_what_they_were_set_to_last(sets in prop::collection::vec((0..15usize, 0..2), 0..30)) {
            let (mut options, mut model) = (DatagramOptions::default(), [0; 15]);
            (model[11], model[13]) = (64, 64);
            for (at, value) in sets {
                let (level, name) = DatagramOptions::NAMES[at];
                // No packet of IPv4 may take none.
                let value = if at == 11 { value + 1 } else { value };
                prop_assert_eq!(options.set(level, name, value), Ok(()));
                model[at] = value;
                if [0, 4].contains(&at) {
                    (model[0], model[4]) = (value, value);
                }
            }
            let options = DatagramOptions::decode(options.encode());
            let told = DatagramOptions::NAMES.map(|(level, name)| options.get(level, name));
            prop_assert_eq!(told, model.map(Some));
        }
    }
}
