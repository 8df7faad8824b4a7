//! Receive-side steering: the shard that owns a frame, on a host with several.
//!
//! A shard is a stack of its own, and every frame of a flow must reach the same shard. Flows are
//! distributed as by a NIC with receive-side scaling: a hash of addresses and ports, and an
//! indirection table of 128 entries indexed by the low bits of the hash. Other frames follow a
//! rule:
//!
//! * ARP, neighbour discovery, MLD queries and DHCP replies go to all shards; the first sends
//!   requests and responses.
//! * An ICMP error goes to the flow whose packet it quotes.
//! * Fragments and other ICMP go by the pair of addresses. A fragmented datagram is reassembled on
//!   that pair's shard, where a UDP socket must be bound as well. A fragmented TCP segment, which
//!   no peer with path MTU discovery sends, is dropped there if another shard owns its flow.
//!
//! Verifies nothing: a corrupted frame may reach any shard, whose stack drops it.
//!
//! Source: Microsoft's RSS (the Toeplitz hash); Woo and Park, "Scalable TCP session monitoring with
//! symmetric receive-side scaling" (2012) (the key).

use std::hash::Hasher;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use siphasher::sip::SipHasher13;
use wire::FourTuple;

/// Hash of flows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlowHash {
    /// Toeplitz with the key 0x6d5a repeated, equal for both directions of a flow, as computed by a
    /// NIC with that key. An attacker can choose ports that collide on one shard.
    Toeplitz,
    /// SipHash-1-3 under a secret key, safe from chosen collisions.
    Keyed([u8; 16]),
}

/// Assignment of flows to shards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowSteering {
    shards: u16,
    hash: FlowHash,
}

/// Owner of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameOwner {
    /// One shard.
    One(u16),
    /// All shards: the frame concerns the host, such as ARP.
    All,
}

/// Index of a stack among the shards of its host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShardIndex {
    /// Assignment of flows to shards.
    pub steering: FlowSteering,
    /// Index of this shard, from 0.
    pub shard: u16,
}

impl ShardIndex {
    /// True if this shard owns the flow `tuple`.
    #[must_use]
    pub fn owns(&self, tuple: &FourTuple) -> bool {
        self.steering.of_flow(tuple) == self.shard
    }
}

/// Number of entries of the indirection table, as in NICs.
const TABLE: u32 = 128;

impl FlowSteering {
    /// Maximum number of shards: beyond it, some would own no entry of the table.
    pub const SHARDS_MAX: u16 = TABLE as u16;

    /// Steering over `shards` shards.
    ///
    /// # Panics
    /// If `shards` is outside 1..=128.
    #[must_use]
    pub fn new(shards: u16, hash: FlowHash) -> Self {
        assert!((1..=Self::SHARDS_MAX).contains(&shards), "shards {shards} is outside 1..=128");
        Self { shards, hash }
    }

    /// Number of shards.
    #[must_use]
    pub const fn shards(&self) -> u16 {
        self.shards
    }

    /// Shard of the connection `tuple`.
    #[must_use]
    pub fn of_flow(&self, tuple: &FourTuple) -> u16 {
        self.shard(tuple.local, tuple.remote, tuple.local_port, tuple.remote_port)
    }

    /// Owner of a received frame; unreadable frames go to the first shard.
    #[must_use]
    pub fn owner(&self, frame: &[u8]) -> FrameOwner {
        if self.shards == 1 {
            return FrameOwner::One(0);
        }
        match frame.get(ETHERTYPE) {
            // An 802.1Q tag, at most one.
            Some([0x81, 0x00]) => self.of_network(frame.get(ETHERTYPE.start + TAG..).unwrap_or_default()),
            _ => self.of_network(frame.get(ETHERTYPE.start..).unwrap_or_default()),
        }
    }

    /// Owner of a packet that begins with its EtherType.
    fn of_network(&self, typed: &[u8]) -> FrameOwner {
        match typed {
            [0x08, 0x06, ..] => FrameOwner::All,
            [0x08, 0x00, packet @ ..] => self.of_ipv4(packet),
            [0x86, 0xdd, packet @ ..] => self.of_ipv6(packet),
            _ => FrameOwner::One(0),
        }
    }

    fn of_ipv4(&self, packet: &[u8]) -> FrameOwner {
        let Some(ip) = Ip::of_ipv4(packet) else { return FrameOwner::One(0) };
        match (ip.protocol, ip.payload) {
            (UDP, [_, _, 0, DHCP_CLIENT, ..]) if !ip.fragment => FrameOwner::All,
            (ICMP, [3 | 4 | 5 | 11 | 12, _, _, _, _, _, _, _, quoted @ ..]) => {
                self.of_quoted(Ip::of_ipv4(quoted), &ip)
            }
            _ => self.of_packet(&ip),
        }
    }

    fn of_ipv6(&self, packet: &[u8]) -> FrameOwner {
        let Some(ip) = Ip::of_ipv6(packet) else { return FrameOwner::One(0) };
        match (ip.protocol, ip.payload) {
            (ICMPV6, [MLD_QUERY | 133..=137, ..]) => FrameOwner::All,
            (ICMPV6, [1..=4, _, _, _, _, _, _, _, quoted @ ..]) => self.of_quoted(Ip::of_ipv6(quoted), &ip),
            _ => self.of_packet(&ip),
        }
    }

    /// Owner of a received packet, whose source is the peer.
    fn of_packet(&self, ip: &Ip<'_>) -> FrameOwner {
        let (peer, own) = ip.ports();
        FrameOwner::One(self.shard(ip.target, ip.source, own, peer))
    }

    /// Owner of a packet of this host that an error quotes, whose source is this host.
    fn of_quoted(&self, quoted: Option<Ip<'_>>, carrier: &Ip<'_>) -> FrameOwner {
        let Some(ip) = quoted else { return self.of_packet(carrier) };
        let (own, peer) = ip.ports();
        FrameOwner::One(self.shard(ip.source, ip.target, own, peer))
    }

    fn shard(&self, local: IpAddr, remote: IpAddr, local_port: u16, remote_port: u16) -> u16 {
        let hash = match self.hash {
            FlowHash::Toeplitz => {
                let words = fold(local) ^ fold(remote) ^ local_port ^ remote_port;
                toeplitz(words)
            }
            FlowHash::Keyed(key) => {
                let mut hasher = SipHasher13::new_with_key(&key);
                write(&mut hasher, local);
                write(&mut hasher, remote);
                hasher.write(&local_port.to_be_bytes());
                hasher.write(&remote_port.to_be_bytes());
                hasher.finish() as u32
            }
        };
        (hash % TABLE) as u16 % self.shards
    }
}

/// Toeplitz hash of a packet by the sum of its 16-bit words without carry: the key repeats after 16
/// bits, so that the hash depends on the sum alone and its halves are equal.
fn toeplitz(words: u16) -> u32 {
    let half =
        (0..16).filter(|bit| words & (0x8000 >> bit) != 0).fold(0, |hash, bit| hash ^ KEY.rotate_left(bit));
    u32::from(half) << 16 | u32::from(half)
}

const KEY: u16 = 0x6d5a;

/// Sum of the address's 16-bit words without carry.
fn fold(addr: IpAddr) -> u16 {
    match addr {
        IpAddr::V4(addr) => (addr.to_bits() >> 16) as u16 ^ addr.to_bits() as u16,
        IpAddr::V6(addr) => addr.segments().into_iter().fold(0, |sum, word| sum ^ word),
    }
}

fn write(hasher: &mut SipHasher13, addr: IpAddr) {
    match addr {
        IpAddr::V4(addr) => hasher.write(&addr.octets()),
        IpAddr::V6(addr) => hasher.write(&addr.octets()),
    }
}

/// Fields of a packet used by steering.
struct Ip<'a> {
    source: IpAddr,
    target: IpAddr,
    protocol: u8,
    /// True for a fragment, which may have no ports.
    fragment: bool,
    payload: &'a [u8],
}

impl<'a> Ip<'a> {
    fn of_ipv4(packet: &'a [u8]) -> Option<Self> {
        let header = packet.first_chunk::<20>()?;
        let address =
            |at: usize| IpAddr::V4(Ipv4Addr::from(*packet[at..].first_chunk::<4>().expect("20 bytes")));
        Some(Self {
            source: address(12),
            target: address(16),
            protocol: header[9],
            // More Fragments is set, or the offset is not zero.
            fragment: u16::from_be_bytes([header[6], header[7]]) & 0x3fff != 0,
            payload: packet.get(usize::from(header[0] & 15) * 4..)?,
        })
    }

    fn of_ipv6(packet: &'a [u8]) -> Option<Self> {
        let header = packet.first_chunk::<40>()?;
        let address =
            |at: usize| IpAddr::V6(Ipv6Addr::from(*packet[at..].first_chunk::<16>().expect("40 bytes")));
        let (mut protocol, mut payload, mut fragment) = (header[6], &packet[40..], false);
        for _ in 0..EXTENSIONS_MAX {
            let len = match protocol {
                HOP_BY_HOP | ROUTING | DESTINATION => (usize::from(*payload.get(1)?) + 1) * 8,
                AUTHENTICATION => (usize::from(*payload.get(1)?) + 2) * 4,
                FRAGMENT => {
                    let fields = payload.first_chunk::<8>()?;
                    // An atomic fragment is a whole packet (RFC 6946).
                    fragment |= u16::from_be_bytes([fields[2], fields[3]]) & 0xfff9 != 0;
                    8
                }
                _ => break,
            };
            protocol = payload[0];
            payload = payload.get(len..)?;
            if fragment {
                break;
            }
        }
        Some(Self { source: address(8), target: address(24), protocol, fragment, payload })
    }

    /// Source and target port, 0 if not present.
    fn ports(&self) -> (u16, u16) {
        match (self.protocol, self.payload) {
            (TCP | UDP, &[a, b, c, d, ..]) if !self.fragment => {
                (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]))
            }
            _ => (0, 0),
        }
    }
}

/// Length of an 802.1Q tag, in bytes.
const TAG: usize = 4;
const MLD_QUERY: u8 = 130;
const ETHERTYPE: std::ops::Range<usize> = 12..14;
const DHCP_CLIENT: u8 = 68;
const ICMP: u8 = 1;
const TCP: u8 = 6;
const UDP: u8 = 17;
const HOP_BY_HOP: u8 = 0;
const ROUTING: u8 = 43;
const FRAGMENT: u8 = 44;
const AUTHENTICATION: u8 = 51;
const ICMPV6: u8 = 58;
const DESTINATION: u8 = 60;
/// Maximum number of extension headers read; no legitimate packet has more.
const EXTENSIONS_MAX: usize = 8;

#[cfg(test)]
mod tests;
