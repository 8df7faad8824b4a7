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
    /// Whether loss is told by time (RACK-TLP, RFC 8985) with peers that
    /// understand SACK; otherwise it is told by counting (RFC 6675).
    pub rack: bool,
    /// How long a peer is expected to delay an acknowledgement at most: a
    /// single segment in flight is probed for that much later (RFC 8985 §7.2).
    pub ack_delay_max: Span,
    /// Receive window / receive buffer of a new connection, in bytes.
    pub recv_buffer: usize,
    /// How far the receive window may grow while the application reads as
    /// fast as the peer sends, in bytes; less than `recv_buffer`: not at all.
    pub recv_buffer_max: usize,
    /// Send buffer of a new connection, in bytes.
    pub send_buffer: usize,
    /// How far the send buffer may grow with the congestion window, in bytes;
    /// less than `send_buffer`: not at all.
    pub send_buffer_max: usize,
    /// Most bytes that send and receive buffers and early segments of all
    /// connections may take up together (up to 16 MiB more are kept for reuse).
    /// From half of it on, windows promise only 16 KiB and early segments are
    /// dropped; the last quarter is for connections that hold no more than that.
    pub memory_max: usize,
    /// How long the acknowledgement of data may wait for company, at most
    /// 500 ms (RFC 9293 §3.8.6.3); `None`: not at all.
    pub delayed_ack: Option<Span>,
    /// How long data may wait for its acknowledgement before the connection
    /// ends; `None`: as long as retransmission takes. Looked at when the
    /// retransmission timer fires.
    pub user_timeout: Option<Span>,
    /// How long a closed connection lingers in TIME-WAIT (2 MSL).
    pub time_wait: Span,
    /// How long the peer may take to close its half after ours (FIN-WAIT-2)
    /// once the application has let go. While it has not, and `keep_alive` is
    /// off, the idle time before the peer is asked whether it lives: one that
    /// died then would otherwise be waited for without end.
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
    /// Most answers in each half second that one connection gives to segments
    /// without data that fit nowhere.
    pub answers_max: u8,
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
            rack: true,
            ack_delay_max: Span::from_millis(25),
            recv_buffer: 256 * 1024,
            recv_buffer_max: 4 << 20,
            send_buffer: 256 * 1024,
            send_buffer_max: 4 << 20,
            memory_max: 1 << 30,
            delayed_ack: None,
            user_timeout: None,
            time_wait: Span::from_secs(60),
            fin_wait: Span::from_secs(60),
            time_wait_max: 1 << 17,
            keep_alive: None,
            syn_cookies: SynCookies::WhenFull,
            connections_max: 1 << 20,
            challenges_per_second_max: 1000,
            answers_max: 4,
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

    /// How far a receive window may grow.
    #[inline]
    pub(crate) fn recv_buffer_max(&self) -> usize {
        self.recv_buffer_max.max(self.recv_buffer)
    }

    /// The smallest shift at which the largest receive buffer can be announced.
    pub(crate) fn window_scale(&self) -> u8 {
        (0..14).find(|shift| self.recv_buffer_max() >> shift <= 65_535).unwrap_or(14)
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
