//! Configuration of a stack and of its listeners.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use classify::TransportClassifier;
use queueing::{Priority, Span};
use wire::{ip, tcp};

use super::cookies::SynCookies;
use super::tx_scheduler::TransmitOrder;
use crate::steer::ShardIndex;
use crate::tcp::Ecn;
use crate::tcp::congestion::NewCongestion;

/// Configuration of a stack.
#[derive(Clone)]
pub struct Config {
    /// Hardware address of this host.
    pub mac: [u8; 6],
    /// IPv4 address of this host.
    pub addr: Ipv4Addr,
    /// Prefix length of the local subnet, 0..=32.
    pub prefix: u8,
    /// Next hop for other subnets.
    pub gateway: Option<Ipv4Addr>,
    /// True if DHCP supplies `addr`, `prefix` and `gateway` (RFC 2131); `addr` may then be 0.0.0.0.
    pub dhcp: bool,
    /// IPv6 configuration; `None` turns IPv6 off.
    pub ipv6: Option<Ipv6>,
    /// IP MTU, 68..=9216; IPv6 needs 1280.
    pub mtu: u16,
    /// Largest MSS, without options, that is sent or advertised, whatever the MTU allows; `None`
    /// derives it from the MTU.
    pub mss_max: Option<u16>,
    /// Most ICMP errors sent each second (RFC 1812 §4.3.2.8, RFC 4443 §2.4 f).
    pub icmp_errors_per_second_max: u32,
    /// Keys initial sequence numbers (RFC 6528) and the flow table's hash; draw it at random.
    pub secret: [u8; 16],
    /// Classifier of connections whose listener and socket set none (ADPS M3).
    pub classifier: Option<TransportClassifier>,
    /// Constructor of each connection's congestion control, such as the `new` of one of
    /// [`ALGORITHMS`](crate::congestion::ALGORITHMS); `None` is CUBIC.
    pub congestion: Option<NewCongestion>,
    /// Order in which connections send.
    pub transmit: TransmitOrder,
    /// DSCP of TCP segments per level, 0..64 each; [`Config::DSCP`] by default.
    pub dscp: [u8; Priority::LEVELS],
    /// Lower bound of a retransmission timeout's margin over the smoothed round trip: RTO = SRTT +
    /// max(`rto_min`, 4 × RTTVAR), which is G in RFC 6298 §2.3. The 1 s minimum of its §2.4 does
    /// not apply: it is too long for data centres.
    pub rto_min: Span,
    /// True if loss is detected by time (RACK-TLP, RFC 8985) with peers that support SACK; false if
    /// by counting duplicates (RFC 6675).
    pub rack: bool,
    /// Use of ECN. With [`Ecn::Dctcp`], `congestion` should be DCTCP.
    pub ecn: Ecn,
    /// True if a window is paced over a round trip instead of sent as a burst: at 1.2 times the
    /// window per smoothed round trip, twice in slow start.
    pub pacing: bool,
    /// Assumed upper bound of a peer's acknowledgement delay, added to the probe timeout of a
    /// single segment in flight (RFC 8985 §7.2).
    pub ack_delay_max: Span,
    /// Initial receive window and receive buffer of a connection, in bytes.
    pub recv_buffer: usize,
    /// Largest receive window, in bytes, that autotuning reaches while the application reads as
    /// fast as the peer sends; a value below `recv_buffer` turns autotuning off.
    pub recv_buffer_max: usize,
    /// Initial send buffer of a connection, in bytes.
    pub send_buffer: usize,
    /// Largest send buffer, in bytes, as it grows with the congestion window; a value below
    /// `send_buffer` turns growth off.
    pub send_buffer_max: usize,
    /// Memory limit in bytes over all connections: send and receive buffers, out-of-order segments,
    /// records of segments in flight (24 bytes each, at most 384 KiB per connection), and memory
    /// that the stack's owner [holds](super::Stack::hold) for them.
    ///
    /// Not counted: [connections themselves](super::Stack::connection_bytes), 640 bytes each; for a
    /// connection with several segments in flight its first 64 records (1.5 KiB) and up to 8 KiB of
    /// SACK ranges; records that a retransmission splits; datagrams and replies, whose number is
    /// bounded; and free lists, 16 MiB of buffers and 12 MiB of records.
    ///
    /// From half of the limit, windows advertise at most 16 KiB and out-of-order segments are
    /// dropped; the last quarter is reserved for connections that hold no more than that. Below
    /// half, windows grow again and peers receive window updates.
    pub memory_max: usize,
    /// Longest delay of a data acknowledgement, at most 500 ms (RFC 9293 §3.8.6.3); `None` is no
    /// delay.
    pub delayed_ack: Option<Span>,
    /// Longest time that data may stay unacknowledged before the connection ends; `None` leaves it
    /// to the retransmission limit. Checked when the retransmission timer fires.
    pub user_timeout: Option<Span>,
    /// Duration of TIME-WAIT (2 MSL).
    pub time_wait: Span,
    /// Longest time in FIN-WAIT-2 of a connection that the application has detached. For a
    /// connection not detached, with `keep_alive` off, the idle time before the peer is probed:
    /// otherwise the connection of a dead peer would never end.
    pub fin_wait: Span,
    /// True if data received before a reset or a timeout stays readable, as on the kernel; the
    /// close event follows it. False if the close event comes at once and unread data is discarded.
    pub reads_after_reset: bool,
    /// True if any ICMP error aborts a connection attempt, as in Linux (RFC 5461 §3.1); false if
    /// only hard errors do (RFC 9293 §3.9.2.2, MUST-56).
    pub soft_errors_end_opening: bool,
    /// Maximum number of connections in TIME-WAIT; a further one evicts the oldest.
    pub time_wait_max: usize,
    /// Idle time before keep-alive probes start; `None` turns them off.
    pub keep_alive: Option<Span>,
    /// Use of SYN cookies by listeners (RFC 4987).
    pub syn_cookies: SynCookies,
    /// Most Fast Open cookies of servers to cache, for
    /// [`Stack::connect_with`](super::Stack::connect_with); 0 turns it off.
    pub fast_open_cookies: usize,
    /// Index of this stack among its host's shards; `None` without shards.
    pub shard_index: Option<ShardIndex>,
    /// Maximum number of connections at once.
    pub connections_max: usize,
    /// Maximum number of challenge ACKs per second, in response to a suspicious RST, SYN or ACK, over all
    /// connections (RFC 5961 §7).
    pub challenges_per_second_max: u32,
    /// Maximum number of acknowledgements per half second that one connection sends for unacceptable segments
    /// without data.
    pub answers_max: u8,
}

impl Config {
    /// Default DSCP of each level, of [`queueing::priority_field::TABLE`]. The operator may choose
    /// the lower effort of RFC 8622.
    pub const DSCP: [u8; Priority::LEVELS] = Priority::DSCP;

    /// Configuration of a host at `addr`/`prefix` with this MAC and `secret`; the rest as
    /// documented in the guide.
    #[must_use]
    pub fn new(mac: [u8; 6], addr: Ipv4Addr, prefix: u8, secret: [u8; 16]) -> Self {
        Self {
            mac,
            addr,
            prefix,
            gateway: None,
            dhcp: false,
            ipv6: None,
            mtu: 1500,
            mss_max: None,
            icmp_errors_per_second_max: 100,
            secret,
            classifier: None,
            congestion: None,
            transmit: TransmitOrder::default(),
            dscp: Self::DSCP,
            rto_min: Span::from_millis(5),
            rack: true,
            ecn: Ecn::Off,
            pacing: false,
            ack_delay_max: Span::from_millis(25),
            recv_buffer: 256 * 1024,
            recv_buffer_max: 4 << 20,
            send_buffer: 256 * 1024,
            send_buffer_max: 8 << 20,
            memory_max: 1 << 30,
            delayed_ack: None,
            user_timeout: None,
            time_wait: Span::from_secs(60),
            fin_wait: Span::from_secs(60),
            reads_after_reset: false,
            soft_errors_end_opening: false,
            time_wait_max: 1 << 17,
            keep_alive: None,
            syn_cookies: SynCookies::WhenFull,
            fast_open_cookies: 0,
            shard_index: None,
            connections_max: 1 << 20,
            challenges_per_second_max: 1000,
            answers_max: 4,
        }
    }
}

/// Configuration of IPv6. A link-local address always exists.
#[derive(Clone, Debug)]
pub struct Ipv6 {
    /// Further addresses of this host with their prefix lengths, 0..=128: addresses that share the
    /// prefix are on-link. At most 15.
    pub addrs: Vec<(Ipv6Addr, u8)>,
    /// Next hop for off-link addresses; `None` uses the routers that advertise themselves.
    pub gateway: Option<Ipv6Addr>,
    /// True if router advertisements configure addresses and routes (RFC 4862).
    pub slaac: bool,
    /// Interface identifier of self-generated addresses.
    pub interface_id: InterfaceId,
    /// Duplicate address detection probes, one second apart, before an address is used; 0 uses it
    /// at once (RFC 4862 §5.1, DupAddrDetectTransmits).
    pub probes: u8,
}

impl Default for Ipv6 {
    /// A link-local address and router advertisements.
    fn default() -> Self {
        Self { addrs: Vec::new(), gateway: None, slaac: true, interface_id: InterfaceId::Stable, probes: 1 }
    }
}

/// Interface identifier: the last 64 bits of a self-generated address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InterfaceId {
    /// From the hardware address (RFC 4291, appendix A), which it reveals.
    Eui64,
    /// From [`Config::secret`], different in each network (RFC 7217).
    Stable,
}

/// Configuration of a listener.
#[derive(Clone, Default)]
pub struct ListenOptions {
    /// Accept-queue capacity; 0 means 1024.
    pub backlog: usize,
    /// Maximum number of half-open connections; 0 means as many as `backlog`.
    pub half_open: usize,
    /// Maximum number of half-open connections whose SYN carried data (Fast Open). 0 turns Fast Open off; with
    /// it on, the application must tolerate a request that is delivered twice (RFC 7413 §6.1).
    pub fast_open: usize,
    /// Classifier that accepted connections inherit (ADPS M3).
    pub classifier: Option<TransportClassifier>,
    /// Hop limits of IPv4 and of IPv6 that accepted connections inherit and SYN-ACKs carry.
    pub hops: [HopLimits; 2],
}

/// Hop limits of a connection: the TTL of IPv4, the hop limit of IPv6.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HopLimits {
    /// Hop limit of sent packets (IP_TTL, IPV6_UNICAST_HOPS).
    pub sent: u8,
    /// Segments whose packet has fewer hops left are dropped (IP_MINTTL, IPV6_MINHOPCOUNT; RFC
    /// 5082): with 255, those that passed a router. So are ICMP errors that quote such a packet.
    pub received_min: u8,
}

impl Default for HopLimits {
    /// 64 for sent packets, no minimum for received ones.
    fn default() -> Self {
        Self { sent: ip::HOPS, received_min: 0 }
    }
}

impl Config {
    /// True if this stack answers for its host: all shards receive ARP and neighbour discovery, and
    /// only the first answers.
    #[inline]
    pub(crate) fn answers_for_host(&self) -> bool {
        self.shard_index.is_none_or(|index| index.shard == 0)
    }

    /// The largest segment without options that fits a packet to `remote`, RFC 6691.
    #[inline]
    pub(crate) fn mss(&self, remote: IpAddr) -> u16 {
        let fits = self.mtu.saturating_sub((ip::header_len(remote) + tcp::HEADER_LEN) as u16);
        fits.min(self.mss_max.unwrap_or(u16::MAX)).max(28)
    }

    /// Upper bound of the receive window.
    #[inline]
    pub(crate) fn recv_buffer_max(&self) -> usize {
        self.recv_buffer_max.max(self.recv_buffer)
    }

    /// DSCP of packets of `level`.
    #[inline]
    pub(crate) fn dscp_of(&self, level: Priority) -> u8 {
        self.dscp[level.index()] & 63
    }

    /// Smallest window scale that can advertise the largest receive buffer.
    pub(crate) fn window_scale(&self) -> u8 {
        (0..14).find(|shift| self.recv_buffer_max() >> shift <= 65_535).unwrap_or(14)
    }

    /// Next hop of a packet to `target`.
    #[inline]
    pub(crate) fn next_hop(&self, target: Ipv4Addr) -> Option<Ipv4Addr> {
        if self.is_local(target) { Some(target) } else { self.gateway }
    }

    /// True if `addr` is in the local subnet.
    #[inline]
    pub(crate) fn is_local(&self, addr: Ipv4Addr) -> bool {
        let host_bits = 32 - u32::from(self.prefix.min(32));
        let differing = addr.to_bits() ^ self.addr.to_bits();
        differing.checked_shr(host_bits).unwrap_or(0) == 0
    }
}
