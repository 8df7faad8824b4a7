//! Socket options of UDP sockets that the server keeps: ancillary data on receipt, marking and
//! segmentation on sending.
//!
//! Options set before the socket moves to the stack are read from the kernel by the library
//! ([`DatagramOptions::NAMES`]). Address and marking options exist per IP version; an IPv6 socket
//! has both sets, because it may use IPv4, too. Source: ip(7), ipv6(7), udp(7), RFC 3542 §6.

use libc::{IPPROTO_IP, IPPROTO_IPV6, SOL_UDP};
use rustix::io::Errno;
use wire::ip::HOPS;

use super::tcp_sockopt::TcpSockopt;

/// Option values; all are 0 on a new socket except hop limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DatagramOptions {
    /// Receive the local address of each datagram (IP_PKTINFO, IPV6_RECVPKTINFO).
    pub info: bool,
    /// Receive the traffic class, for IPv4 and for IPv6 (IP_RECVTOS, IPV6_RECVTCLASS).
    pub told_class: [bool; 2],
    /// Receive the hop limit, for IPv4 and for IPv6 (IP_RECVTTL, IPV6_RECVHOPLIMIT).
    pub told_hops: [bool; 2],
    /// Traffic class of datagrams sent, for IPv4 and for IPv6 (IP_TOS, IPV6_TCLASS); a DSCP of 0
    /// lets the stack choose.
    pub class: [u8; 2],
    /// Path MTU discovery, for IPv4 and for IPv6 (IP_MTU_DISCOVER, IPV6_MTU_DISCOVER): see
    /// [`dont_fragment`](Self::dont_fragment).
    pub discover: [u8; 2],
    /// No fragmentation over IPv6 (IPV6_DONTFRAG).
    pub dontfrag: bool,
    /// Receive several datagrams of one length in one message (UDP_GRO).
    pub gro: bool,
    /// Segment size of messages sent, in bytes; 0: no segmentation (UDP_SEGMENT).
    pub segment: u16,
    /// Hop limit of datagrams sent, for IPv4 and for IPv6 (IP_TTL, IPV6_UNICAST_HOPS).
    pub hops: [u8; 2],
    /// IP_MINTTL and IPV6_MINHOPCOUNT, without effect on UDP.
    pub hops_min: [u8; 2],
}

impl Default for DatagramOptions {
    fn default() -> Self {
        Self {
            info: false,
            told_class: [false; 2],
            told_hops: [false; 2],
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
    /// Level and name of each option.
    pub const NAMES: [(i32, i32); 17] = [
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
        (IPPROTO_IP, libc::IP_RECVTTL),
        (IPPROTO_IPV6, libc::IPV6_RECVHOPLIMIT),
    ];
    /// Hop limits among [`NAMES`](Self::NAMES).
    const HOPS: [(i32, i32); 4] = [Self::NAMES[11], Self::NAMES[12], Self::NAMES[13], Self::NAMES[14]];
    /// Length of [`encode`](Self::encode) in bytes.
    pub const LEN: usize = 2 * Self::NAMES.len();

    /// Value of option `name` at `level`; `None` if it is none of these.
    #[must_use]
    pub fn get(&self, level: i32, name: i32) -> Option<i32> {
        Some(match (level, name) {
            (IPPROTO_IP, libc::IP_PKTINFO) | (IPPROTO_IPV6, libc::IPV6_RECVPKTINFO) => self.info.into(),
            (IPPROTO_IP, libc::IP_RECVTOS) => self.told_class[0].into(),
            (IPPROTO_IPV6, libc::IPV6_RECVTCLASS) => self.told_class[1].into(),
            (IPPROTO_IP, libc::IP_RECVTTL) => self.told_hops[0].into(),
            (IPPROTO_IPV6, libc::IPV6_RECVHOPLIMIT) => self.told_hops[1].into(),
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

    /// Sets option `name` at `level` to `value`.
    ///
    /// # Errors
    /// `ENOPROTOOPT`: none of these options; `EINVAL`: the value is out of range.
    pub fn set(&mut self, level: i32, name: i32, value: i32) -> Result<(), Errno> {
        match (level, name) {
            (IPPROTO_IP, libc::IP_PKTINFO) | (IPPROTO_IPV6, libc::IPV6_RECVPKTINFO) => self.info = value != 0,
            (IPPROTO_IP, libc::IP_RECVTOS) => self.told_class[0] = value != 0,
            (IPPROTO_IPV6, libc::IPV6_RECVTCLASS) => self.told_class[1] = value != 0,
            (IPPROTO_IP, libc::IP_RECVTTL) => self.told_hops[0] = value != 0,
            (IPPROTO_IPV6, libc::IPV6_RECVHOPLIMIT) => self.told_hops[1] = value != 0,
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

    /// Sets a hop limit, with the ranges of connections.
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

    /// True if datagrams sent over IPv6 (`six`) or IPv4 must not be fragmented: path MTU probes, or
    /// IPV6_DONTFRAG.
    #[must_use]
    pub fn dont_fragment(&self, six: bool) -> bool {
        let probes =
            [libc::IP_PMTUDISC_DO, libc::IP_PMTUDISC_PROBE].contains(&self.discover[usize::from(six)].into());
        probes || six && self.dontfrag
    }

    /// Encoded form: the value of each of [`NAMES`](Self::NAMES).
    #[must_use]
    pub fn encode(&self) -> [u8; Self::LEN] {
        let mut bytes = [0; Self::LEN];
        for (slot, (level, name)) in bytes.as_chunks_mut().0.iter_mut().zip(Self::NAMES) {
            // Each fits: a class, a flag, hops, or a length.
            *slot = (self.get(level, name).unwrap_or(0) as u16).to_be_bytes();
        }
        bytes
    }

    /// Decodes [`encode`](Self::encode)'s form; values out of range are ignored.
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

/// IPv6 traffic class of a socket or message: −1 is the default (RFC 3542 §6.5). `None` if out of
/// range.
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
        assert_eq!(options.set(IPPROTO_IP, libc::IP_RECVERR, 1), Err(Errno::NOPROTOOPT));
        assert_eq!(options.get(IPPROTO_IP, libc::IP_RECVERR), None);
    }

    proptest! {
        /// Compares with a reference model: each name has its own value, except the two for the
        /// local address.
        #[test]
        fn options_are_what_they_were_set_to_last(sets in prop::collection::vec((0..17usize, 0..2), 0..30)) {
            let (mut options, mut model) = (DatagramOptions::default(), [0; 17]);
            (model[11], model[13]) = (64, 64);
            for (at, value) in sets {
                let (level, name) = DatagramOptions::NAMES[at];
                // An IPv4 hop limit is at least 1.
                let value = if at == 11 { value + 1 } else { value };
                prop_assert_eq!(options.set(level, name, value), Ok(()));
                model[at] = value;
                if [0, 4].contains(&at) {
                    (model[0], model[4]) = (value, value);
                }
            }
            let options = DatagramOptions::decode(options.encode());
            let values = DatagramOptions::NAMES.map(|(level, name)| options.get(level, name));
            prop_assert_eq!(values, model.map(Some));
        }
    }
}
