//! How a stack and its listeners are set up.

use std::net::{IpAddr, Ipv4Addr};

use queueing::{Priority, Span};

use super::cookies::SynCookies;
use super::ready::TransmitOrder;
use crate::classify::TransportClassifier;
use crate::tcp::congestion::NewCongestion;
use crate::wire::{ipv4, tcp};

/// How a stack is set up.
#[derive(Clone)]
pub struct Config {
    /// Our hardware address.
    pub mac: [u8; 6],
    /// Our address.
    pub addr: Ipv4Addr,
    /// Prefix length of the local subnet, 0..=32.
    pub prefix: u8,
    /// Next hop for other subnets.
    pub gateway: Option<Ipv4Addr>,
    /// IP MTU, 68..=9216.
    pub mtu: u16,
    /// Keys initial sequence numbers (RFC 6528) and the flow table's hash; draw it at random.
    pub secret: [u8; 16],
    /// Classifier of connections whose listener and socket give none (M3).
    pub classifier: Option<TransportClassifier>,
    /// Makes each connection's congestion control, such as the `new` of one of
    /// [`ALGORITHMS`](crate::congestion::ALGORITHMS); `None` is CUBIC.
    pub congestion: Option<NewCongestion>,
    /// Which connection sends first.
    pub transmit: TransmitOrder,
    /// DSCP of TCP segments by the level they are sent at, 0..64 each. The
    /// default follows RFC 4594: real-time interactive (CS4), conferencing
    /// (AF41), streaming (AF31), broadcast (CS3), low-latency data (AF21),
    /// operations (CS2), high-throughput data (AF11), and best effort for the
    /// least urgent, which is also what nobody has classified: the lower
    /// effort of RFC 8622 is for the operator to choose.
    pub dscp: [u8; Priority::LEVELS],
    /// Smallest retransmission timeout.
    pub rto_min: Span,
    /// Largest receive window / receive buffer per connection, in bytes.
    pub recv_buffer: usize,
    /// Largest send buffer per connection, in bytes.
    pub send_buffer: usize,
    /// How long a closed connection lingers in TIME-WAIT (2 MSL).
    pub time_wait: Span,
    /// Idle time before a peer is probed for life once we have closed our half
    /// (FIN-WAIT-2), when `keep_alive` is off: a peer that died then would
    /// otherwise be waited for without end.
    pub fin_wait: Span,
    /// Most connections in TIME-WAIT; the oldest makes room for one more.
    pub time_wait_max: usize,
    /// Idle time before keep-alive probes start; `None` turns them off.
    pub keep_alive: Option<Span>,
    /// When listeners answer without remembering (RFC 4987).
    pub syn_cookies: SynCookies,
    /// Most connections at once.
    pub connections_max: usize,
    /// Most acknowledgements each second that challenge a suspicious RST, SYN
    /// or ACK, over all connections (RFC 5961 §7).
    pub challenges_per_second_max: u32,
}

impl Config {
    /// A host at `addr`/`prefix` with this MAC and `secret`; the rest as documented in the guide.
    #[must_use]
    pub fn new(mac: [u8; 6], addr: Ipv4Addr, prefix: u8, secret: [u8; 16]) -> Self {
        Self {
            mac,
            addr,
            prefix,
            gateway: None,
            mtu: 1500,
            secret,
            classifier: None,
            congestion: None,
            transmit: TransmitOrder::default(),
            dscp: [32, 34, 26, 24, 18, 16, 10, 0],
            rto_min: Span::from_millis(5),
            recv_buffer: 256 * 1024,
            send_buffer: 256 * 1024,
            time_wait: Span::from_secs(60),
            fin_wait: Span::from_secs(60),
            time_wait_max: 1 << 17,
            keep_alive: None,
            syn_cookies: SynCookies::WhenFull,
            connections_max: 1 << 20,
            challenges_per_second_max: 1000,
        }
    }
}

/// How a listener is set up.
#[derive(Clone, Default)]
pub struct ListenOptions {
    /// Connections that may wait for being taken; 0 means 1024.
    pub backlog: usize,
    /// Connections whose handshake may be under way; 0 means as many as `backlog`.
    pub half_open: usize,
    /// Classifier that accepted connections inherit (M3).
    pub classifier: Option<TransportClassifier>,
}

impl Config {
    /// The largest segment without options that fits a packet, RFC 6691.
    #[inline]
    pub(crate) fn mss(&self) -> u16 {
        self.mtu.saturating_sub((ipv4::HEADER_LEN + tcp::HEADER_LEN) as u16).max(28)
    }

    /// The smallest shift at which the whole receive buffer can be announced.
    pub(crate) fn window_scale(&self) -> u8 {
        (0..14).find(|shift| self.recv_buffer >> shift <= 65_535).unwrap_or(14)
    }

    /// The host to hand a packet for `target` to.
    #[inline]
    pub(crate) fn next_hop(&self, target: IpAddr) -> Option<IpAddr> {
        match target {
            IpAddr::V4(addr) if self.is_local(addr) => Some(target),
            IpAddr::V4(_) => self.gateway.map(IpAddr::V4),
            IpAddr::V6(_) => None,
        }
    }

    /// The address that a packet for `target` comes from; `None` when there
    /// is no way there.
    #[inline]
    pub(crate) fn source(&self, target: IpAddr) -> Option<IpAddr> {
        self.next_hop(target).map(|_| self.addr.into())
    }

    /// Whether `addr` is in our subnet.
    #[inline]
    pub(crate) fn is_local(&self, addr: Ipv4Addr) -> bool {
        let host_bits = 32 - u32::from(self.prefix.min(32));
        let differing = addr.to_bits() ^ self.addr.to_bits();
        differing.checked_shr(host_bits).unwrap_or(0) == 0
    }
}
