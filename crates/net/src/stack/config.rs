//! How a stack and its listeners are set up.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use queueing::{Priority, Span};

use super::cookies::SynCookies;
use super::tx_scheduler::TransmitOrder;
use crate::classify::TransportClassifier;
use crate::steer::ShardIndex;
use crate::tcp::Ecn;
use crate::tcp::congestion::NewCongestion;
use crate::wire::{ip, tcp};

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
    /// Whether a server is asked for `addr`, `prefix` and `gateway` (RFC 2131);
    /// `addr` may be 0.0.0.0 then.
    pub dhcp: bool,
    /// IPv6, if it is spoken.
    pub ipv6: Option<Ipv6>,
    /// IP MTU, 68..=9216; IPv6 needs 1280.
    pub mtu: u16,
    /// Largest segment without options that is sent or asked for, whatever
    /// the MTU allows; `None` leaves it to the MTU.
    pub mss_max: Option<u16>,
    /// Most ICMP errors sent each second (RFC 1812 §4.3.2.8, RFC 4443 §2.4 f).
    pub icmp_errors_per_second_max: u32,
    /// Keys initial sequence numbers (RFC 6528) and the flow table's hash; draw it at random.
    pub secret: [u8; 16],
    /// Classifier of connections whose listener and socket give none (M3).
    pub classifier: Option<TransportClassifier>,
    /// Makes each connection's congestion control, such as the `new` of one of
    /// [`ALGORITHMS`](crate::congestion::ALGORITHMS); `None` is CUBIC.
    pub congestion: Option<NewCongestion>,
    /// Which connection sends first.
    pub transmit: TransmitOrder,
    /// DSCP of TCP segments by the level they are sent at, 0..64 each;
    /// [`Config::DSCP`] by default.
    pub dscp: [u8; Priority::LEVELS],
    /// How much longer than the smoothed round trip a retransmission timeout
    /// is at least: RTO = SRTT + max(`rto_min`, 4 × RTTVAR), which is G in RFC
    /// 6298 §2.3. The 1 s of its §2.4 is not kept: data centres need less.
    pub rto_min: Span,
    /// Whether loss is told by time (RACK-TLP, RFC 8985) with peers that
    /// understand SACK; otherwise it is told by counting (RFC 6675).
    pub rack: bool,
    /// Whether marks of congestion are used. With [`Ecn::Dctcp`], `congestion`
    /// should be DCTCP's.
    pub ecn: Ecn,
    /// Whether a window is sent evenly over a round trip instead of at once:
    /// at 1.2 times the window per smoothed round trip, twice in slow start.
    pub pacing: bool,
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
    /// Most bytes that send and receive buffers, early segments and records of
    /// segments in flight (24 bytes each, at most 384 KiB a connection) of all
    /// connections, and what their owner [holds](super::Stack::hold) for them, may
    /// take up together.
    ///
    /// Outside are: [connections themselves](super::Stack::connection_bytes), 640
    /// bytes each; of one with several segments in flight the first 64 records,
    /// 1.5 KiB, and up to 8 KiB of what its peer reports to have; records that a
    /// retransmission cuts in two; datagrams and replies, which are bounded in
    /// number; and what is kept for reuse, 16 MiB of buffers and 12 MiB of records.
    ///
    /// From half of it on, windows promise only 16 KiB and early segments are
    /// dropped; the last quarter is for connections that hold no more than that.
    /// Windows grow again, and peers hear of it, once less than half is in use.
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
    /// Whether what came before a reset, or before a peer was given up, can still be read, as a
    /// kernel's programs can; the application hears of the end after that. Otherwise it does at
    /// once, and what it has not read is gone with who sent it.
    pub reads_after_reset: bool,
    /// An attempt to connect ends by any ICMP error, as Linux has it (RFC 5461 §3.1), and not only by those that
    /// are no use to wait for (RFC 9293 §3.9.2.2, MUST-56).
    pub soft_errors_end_opening: bool,
    /// Most connections in TIME-WAIT; the oldest makes room for one more.
    pub time_wait_max: usize,
    /// Idle time before keep-alive probes start; `None` turns them off.
    pub keep_alive: Option<Span>,
    /// When listeners answer without remembering (RFC 4987).
    pub syn_cookies: SynCookies,
    /// Fast Open cookies of servers to remember, for
    /// [`Stack::connect_with`](super::Stack::connect_with); 0 turns it off.
    pub fast_open_cookies: usize,
    /// This stack's place among the shards of its host; `None` when it is alone.
    pub place: Option<ShardIndex>,
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
    /// With which DSCP each level is sent unless it is said otherwise, by RFC 4594:
    /// real-time interactive (CS4), conferencing (AF41), streaming (AF31), broadcast
    /// (CS3), low-latency data (AF21), operations (CS2), high-throughput data (AF11),
    /// and best effort for the least urgent, which is also what nobody has
    /// classified: the lower effort of RFC 8622 is for the operator to choose.
    pub const DSCP: [u8; Priority::LEVELS] = [32, 34, 26, 24, 18, 16, 10, 0];

    /// A host at `addr`/`prefix` with this MAC and `secret`; the rest as documented in the guide.
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
            place: None,
            connections_max: 1 << 20,
            challenges_per_second_max: 1000,
            answers_max: 4,
        }
    }
}

/// How IPv6 is set up. There is always a link-local address.
#[derive(Clone, Debug)]
pub struct Ipv6 {
    /// Further addresses of ours, each with its prefix length, 0..=128: what
    /// shares that many bits with it is on this link. At most 15.
    pub addrs: Vec<(Ipv6Addr, u8)>,
    /// Next hop for what is not on this link; without one, the routers that
    /// advertise themselves.
    pub gateway: Option<Ipv6Addr>,
    /// Whether routers' advertisements make addresses and routes (RFC 4862).
    pub slaac: bool,
    /// How addresses of our own making end.
    pub interface_id: InterfaceId,
    /// How often to ask, a second apart, whether an address is taken before it
    /// is used; 0 uses it at once (RFC 4862 §5.1, DupAddrDetectTransmits).
    pub probes: u8,
}

impl Default for Ipv6 {
    /// A link-local address and what routers advertise.
    fn default() -> Self {
        Self { addrs: Vec::new(), gateway: None, slaac: true, interface_id: InterfaceId::Stable, probes: 1 }
    }
}

/// The last 64 bits of an address of our own making.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InterfaceId {
    /// The hardware address (RFC 4291, appendix A): tells it to everybody.
    Eui64,
    /// Drawn from [`Config::secret`], another one in each network (RFC 7217).
    Stable,
}

/// How a listener is set up.
#[derive(Clone, Default)]
pub struct ListenOptions {
    /// Connections that may wait for being taken; 0 means 1024.
    pub backlog: usize,
    /// Connections whose handshake may be under way; 0 means as many as `backlog`.
    pub half_open: usize,
    /// Connections that may have brought data with their SYN (Fast Open) and
    /// whose handshake may be under way. 0 turns it off: whoever turns it on
    /// must bear requests that are delivered twice (RFC 7413 §6.1).
    pub fast_open: usize,
    /// Classifier that accepted connections inherit (M3).
    pub classifier: Option<TransportClassifier>,
    /// Hop limits that accepted connections inherit, of IPv4 and of IPv6; its answers to SYNs
    /// have them, too.
    pub hops: [HopLimits; 2],
}

/// Hop limits of a connection: the TTL of IPv4, the hop limit of IPv6.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HopLimits {
    /// Hops that packets of ours may take (IP_TTL, IPV6_UNICAST_HOPS).
    pub sent: u8,
    /// Segments whose packet has fewer hops left are dropped (IP_MINTTL, IPV6_MINHOPCOUNT;
    /// RFC 5082): with 255, those that passed a router.
    pub received_min: u8,
}

impl Default for HopLimits {
    /// 64, and segments from anywhere.
    fn default() -> Self {
        Self { sent: ip::HOPS, received_min: 0 }
    }
}

impl Config {
    /// Whether this stack speaks for its host: where there are several shards,
    /// all hear who has which hardware address, and the first answers.
    #[inline]
    pub(crate) fn answers_for_host(&self) -> bool {
        self.place.is_none_or(|place| place.shard == 0)
    }

    /// The largest segment without options that fits a packet to `remote`, RFC 6691.
    #[inline]
    pub(crate) fn mss(&self, remote: IpAddr) -> u16 {
        let fits = self.mtu.saturating_sub((ip::header_len(remote) + tcp::HEADER_LEN) as u16);
        fits.min(self.mss_max.unwrap_or(u16::MAX)).max(28)
    }

    /// How far a receive window may grow.
    #[inline]
    pub(crate) fn recv_buffer_max(&self) -> usize {
        self.recv_buffer_max.max(self.recv_buffer)
    }

    /// The code point of packets of this level.
    #[inline]
    pub(crate) fn dscp_of(&self, level: Priority) -> u8 {
        self.dscp[level.index()] & 63
    }

    /// The smallest shift at which the largest receive buffer can be announced.
    pub(crate) fn window_scale(&self) -> u8 {
        (0..14).find(|shift| self.recv_buffer_max() >> shift <= 65_535).unwrap_or(14)
    }

    /// The host to hand a packet for `target` to.
    #[inline]
    pub(crate) fn next_hop(&self, target: Ipv4Addr) -> Option<Ipv4Addr> {
        if self.is_local(target) { Some(target) } else { self.gateway }
    }

    /// Whether `addr` is in our subnet.
    #[inline]
    pub(crate) fn is_local(&self, addr: Ipv4Addr) -> bool {
        let host_bits = 32 - u32::from(self.prefix.min(32));
        let differing = addr.to_bits() ^ self.addr.to_bits();
        differing.checked_shr(host_bits).unwrap_or(0) == 0
    }
}
