//! Socket options of connections that the stack implements.

use net::stack::HopLimits;
use queueing::{Priority, Span};
use wire::ip::HOPS;

use super::label_table::PRIVATE;
use super::udp_sockopt::{DatagramOptions, class_of_v6};

/// A socket option with its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TcpSockopt {
    /// SO_KEEPALIVE.
    KeepAlive(bool),
    /// TCP_KEEPIDLE.
    KeepIdle(Span),
    /// TCP_KEEPINTVL.
    KeepInterval(Span),
    /// TCP_KEEPCNT.
    KeepCount(u8),
    /// TCP_USER_TIMEOUT; none: the retransmission limit.
    UserTimeout(Option<Span>),
    /// SO_LINGER with a zero timeout: close resets.
    ResetOnClose(bool),
    /// TCP_CORK.
    Cork(bool),
    /// SO_RCVLOWAT, in bytes.
    LowWater(u32),
    /// IP_TOS, IPV6_TCLASS: the DSCP; the ECN bits are TCP's. 0: the DSCP of the priority level.
    Dscp(u8),
    /// IP_TTL: hop limit of IPv4 packets sent.
    Ttl(u8),
    /// IPV6_UNICAST_HOPS: hop limit of IPv6 packets sent.
    HopLimit(u8),
    /// IP_MINTTL: least hop limit of IPv4 packets received.
    TtlMin(u8),
    /// IPV6_MINHOPCOUNT: least hop limit of IPv6 packets received.
    HopLimitMin(u8),
    /// [`PRIORITY`]: priority of data sent, until data arrives.
    Priority(Priority),
    /// [`WITHHELD`]: a receive call takes this many bytes.
    Withheld(u32),
    /// [`PRIVATE_BYTES`].
    Private([u8; PRIVATE]),
}

/// Level of greenwave's own options: "gw".
pub const SOL_GREENWAVE: i32 = 0x6777;
/// Priority of a connection: an `int`, 0 (most urgent) to 7.
pub const PRIORITY: i32 = 1;
/// Private bytes of the program: 48 of the connection's private area (ADPS M5).
pub const PRIVATE_BYTES: i32 = 2;

/// Bytes below `SO_RCVLOWAT` that a receive call takes: an `int`.
pub const WITHHELD: i32 = 3;

/// True if the stack implements option `name` at `level`; `datagrams`: of a UDP socket.
#[must_use]
pub fn is_stacks(datagrams: bool, level: i32, name: i32) -> bool {
    match (level, name) {
        (SOL_GREENWAVE, _) => true,
        (libc::SOL_SOCKET, libc::SO_RCVBUF | libc::SO_BROADCAST) if datagrams => true,
        // The socket server knows if a bound socket listens.
        (libc::SOL_SOCKET, libc::SO_ACCEPTCONN) => true,
        _ if datagrams => DatagramOptions::NAMES.contains(&(level, name)) || (level, name) == V6_ONLY,
        (
            libc::IPPROTO_TCP,
            libc::TCP_FASTOPEN | libc::TCP_INFO | libc::TCP_MAXSEG | libc::TCP_CONGESTION,
        ) => true,
        _ => (level, name) == V6_ONLY || TcpSockopt::of(level, name, [1, 0]).is_some(),
    }
}

/// Option of listeners and UDP sockets that is set before `bind`.
const V6_ONLY: (i32, i32) = (libc::IPPROTO_IPV6, libc::IPV6_V6ONLY);

impl TcpSockopt {
    /// Meaning of setting option `name` at `level` to `value`; `None` if it is not implemented or
    /// the value is out of range.
    #[must_use]
    pub fn of(level: i32, name: i32, value: [i32; 2]) -> Option<Self> {
        let seconds =
            || u64::try_from(value[0]).ok().filter(|s| (1..=32_767).contains(s)).map(Span::from_secs);
        Some(match (level, name) {
            (libc::SOL_SOCKET, libc::SO_KEEPALIVE) => Self::KeepAlive(value[0] != 0),
            (libc::SOL_SOCKET, libc::SO_LINGER) => Self::ResetOnClose(value[0] != 0 && value[1] == 0),
            (libc::SOL_SOCKET, libc::SO_RCVLOWAT) => {
                Self::LowWater(u32::try_from(value[0]).unwrap_or(u32::MAX))
            }
            (libc::IPPROTO_TCP, libc::TCP_CORK) => Self::Cork(value[0] != 0),
            (libc::IPPROTO_TCP, libc::TCP_KEEPIDLE) => Self::KeepIdle(seconds()?),
            (libc::IPPROTO_TCP, libc::TCP_KEEPINTVL) => Self::KeepInterval(seconds()?),
            (libc::IPPROTO_TCP, libc::TCP_KEEPCNT) => {
                Self::KeepCount(u8::try_from(value[0]).ok().filter(|count| (1..=127).contains(count))?)
            }
            (libc::IPPROTO_TCP, libc::TCP_USER_TIMEOUT) => {
                let ms = u64::try_from(value[0]).ok()?;
                Self::UserTimeout((ms > 0).then_some(Span::from_millis(ms)))
            }
            (libc::IPPROTO_IP, libc::IP_TOS) => Self::Dscp(u8::try_from(value[0]).ok()? >> 2),
            (libc::IPPROTO_IPV6, libc::IPV6_TCLASS) => Self::Dscp(class_of_v6(value[0])?.unwrap_or(0) >> 2),
            (libc::IPPROTO_IP, libc::IP_TTL) => Self::Ttl(hops(value[0]).filter(|hops| *hops > 0)?),
            (libc::IPPROTO_IPV6, libc::IPV6_UNICAST_HOPS) => Self::HopLimit(hops(value[0])?),
            (libc::IPPROTO_IP, libc::IP_MINTTL) => Self::TtlMin(u8::try_from(value[0]).ok()?),
            (libc::IPPROTO_IPV6, libc::IPV6_MINHOPCOUNT) => Self::HopLimitMin(u8::try_from(value[0]).ok()?),
            (SOL_GREENWAVE, WITHHELD) => Self::Withheld(u32::try_from(value[0]).ok()?),
            (SOL_GREENWAVE, PRIORITY) => Self::Priority(Priority::new(u8::try_from(value[0]).ok()?)?),
            _ => return None,
        })
    }
}

/// Hop limit of packets sent, from a program's `value`: −1 is the default.
pub(super) fn hops(value: i32) -> Option<u8> {
    if value == -1 { Some(HOPS) } else { u8::try_from(value).ok() }
}

/// Hop limits for IPv4 and IPv6 of connections with these `settings`.
pub(super) fn hop_limits(settings: &[TcpSockopt]) -> [HopLimits; 2] {
    let mut limits = [HopLimits::default(); 2];
    for setting in settings {
        match *setting {
            TcpSockopt::Ttl(hops) => limits[0].sent = hops,
            TcpSockopt::HopLimit(hops) => limits[1].sent = hops,
            TcpSockopt::TtlMin(hops) => limits[0].received_min = hops,
            TcpSockopt::HopLimitMin(hops) => limits[1].received_min = hops,
            _ => {}
        }
    }
    limits
}

//~ programs: IP_TOS and IPV6_TCLASS of a stream override the DSCP of its level
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hop_limits_have_the_ranges_of_the_kernels() {
        let of = |level, name, value| TcpSockopt::of(level, name, [value, 0]);
        let (ip, ttl) = (libc::IPPROTO_IP, libc::IP_TTL);
        let ttls = [-2, -1, 0, 1, 255, 256].map(|value| of(ip, ttl, value));
        let some = |hops| Some(TcpSockopt::Ttl(hops));
        assert_eq!(ttls, [None, some(64), None, some(1), some(255), None]);
        let (ip6, some) = (libc::IPPROTO_IPV6, |hops| Some(TcpSockopt::HopLimit(hops)));
        let limits = [-2, -1, 0, 255, 256].map(|value| of(ip6, libc::IPV6_UNICAST_HOPS, value));
        assert_eq!(limits, [None, some(64), some(0), some(255), None]);
        for (level, name, most) in [
            (ip, libc::IP_MINTTL, TcpSockopt::TtlMin(255)),
            (ip6, libc::IPV6_MINHOPCOUNT, TcpSockopt::HopLimitMin(255)),
        ] {
            assert_eq!([-1, 255, 256].map(|value| of(level, name, value)), [None, Some(most), None]);
        }
    }

    #[test]
    fn options_mean_what_the_manual_says() {
        let of = |level, name, value| TcpSockopt::of(level, name, value);
        assert_eq!(of(libc::SOL_SOCKET, libc::SO_KEEPALIVE, [1, 0]), Some(TcpSockopt::KeepAlive(true)));
        assert_eq!(of(libc::SOL_SOCKET, libc::SO_LINGER, [1, 0]), Some(TcpSockopt::ResetOnClose(true)));
        assert_eq!(of(libc::SOL_SOCKET, libc::SO_LINGER, [1, 5]), Some(TcpSockopt::ResetOnClose(false)));
        let idle = Some(TcpSockopt::KeepIdle(Span::from_secs(300)));
        assert_eq!(of(libc::IPPROTO_TCP, libc::TCP_KEEPIDLE, [300, 0]), idle);
        assert_eq!(of(libc::IPPROTO_TCP, libc::TCP_KEEPIDLE, [0, 0]), None, "as the kernel refuses it");
        assert_eq!(
            of(libc::IPPROTO_TCP, libc::TCP_USER_TIMEOUT, [0, 0]),
            Some(TcpSockopt::UserTimeout(None))
        );
        assert_eq!(of(libc::IPPROTO_TCP, libc::TCP_MD5SIG, [5, 0]), None);
        assert_eq!(of(libc::IPPROTO_IP, libc::IP_TOS, [0xb9, 0]), Some(TcpSockopt::Dscp(46)));
        assert_eq!(of(libc::IPPROTO_IP, libc::IP_TOS, [256, 0]), None);
        assert_eq!(of(libc::IPPROTO_IPV6, libc::IPV6_TCLASS, [0xb8, 0]), Some(TcpSockopt::Dscp(46)));
        assert_eq!(of(libc::IPPROTO_IPV6, libc::IPV6_TCLASS, [-1, 0]), Some(TcpSockopt::Dscp(0)));
        assert_eq!(of(SOL_GREENWAVE, PRIORITY, [7, 0]), Some(TcpSockopt::Priority(Priority::LOWEST)));
        assert_eq!(of(SOL_GREENWAVE, PRIORITY, [8, 0]), None, "there are eight levels");
    }
}
