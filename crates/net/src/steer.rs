//! Which shard owns a frame, where a host has several.
//!
//! A shard is a stack of its own, so every frame of a flow must reach the same
//! one. Flows are told apart as a network card with receive-side scaling does:
//! a hash of the addresses and ports, and a table of 128 entries that names a
//! shard for the hash's last bits. What belongs to no flow follows a rule:
//! ARP, neighbour discovery, who asks for listeners (MLD) and what a DHCP server says concern all shards
//! (the first asks and answers), an ICMP error the flow whose packet it quotes, fragments and the rest of ICMP
//! the pair of addresses: a datagram that came in pieces is put together on
//! that pair's shard, where a UDP socket must be bound as well; a segment of
//! TCP in pieces, which no peer that discovers its path's MTU sends, is dropped
//! there if another shard owns its flow. Nothing is verified here: a damaged frame may reach
//! any shard, whose stack then drops it.
//! Source: Microsoft's RSS (the Toeplitz hash); Woo and Park, "Scalable TCP
//! session monitoring with symmetric receive-side scaling" (2012) (the key).

use std::hash::Hasher;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use siphasher::sip::SipHasher13;

use crate::wire::FourTuple;

/// How flows are told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlowHash {
    /// Toeplitz with the key 0x6d5a repeated, which hashes both directions of
    /// a flow alike: what a card does when it is given that key. Anybody can
    /// choose ports that fall onto one shard.
    Toeplitz,
    /// SipHash-1-3 under a secret key, which nobody can aim at a shard.
    Keyed([u8; 16]),
}

/// Which shard owns which flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Steering {
    shards: u16,
    hash: FlowHash,
}

/// Whom a frame concerns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// This shard.
    One(u16),
    /// Every shard: it tells who has which hardware address.
    All,
}

/// A stack's place among the shards of its host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShardIndex {
    /// Who owns which flow.
    pub steering: Steering,
    /// Which shard this is, from 0.
    pub shard: u16,
}

impl ShardIndex {
    /// Whether this shard owns the flow `tuple`.
    #[must_use]
    pub fn owns(&self, tuple: &FourTuple) -> bool {
        self.steering.of_flow(tuple) == self.shard
    }
}

/// Entries of the table from hash to shard, as cards have.
const TABLE: u32 = 128;

impl Steering {
    /// Most shards: beyond that some would own no entry of the table.
    pub const SHARDS_MAX: u16 = TABLE as u16;

    /// Over `shards` shards.
    ///
    /// # Panics
    /// When `shards` is outside 1..=128.
    #[must_use]
    pub fn new(shards: u16, hash: FlowHash) -> Self {
        assert!((1..=Self::SHARDS_MAX).contains(&shards), "shards {shards} is outside 1..=128");
        Self { shards, hash }
    }

    /// How many shards there are.
    #[must_use]
    pub const fn shards(&self) -> u16 {
        self.shards
    }

    /// The shard of the connection `tuple`.
    #[must_use]
    pub fn of_flow(&self, tuple: &FourTuple) -> u16 {
        self.shard(tuple.local, tuple.remote, tuple.local_port, tuple.remote_port)
    }

    /// The shard of a received frame; what cannot be read goes to the first.
    #[must_use]
    pub fn owner(&self, frame: &[u8]) -> Owner {
        if self.shards == 1 {
            return Owner::One(0);
        }
        match frame.get(ETHERTYPE) {
            // An 802.1Q tag, at most one.
            Some([0x81, 0x00]) => self.of_network(frame.get(ETHERTYPE.start + TAG..).unwrap_or_default()),
            _ => self.of_network(frame.get(ETHERTYPE.start..).unwrap_or_default()),
        }
    }

    /// Whose a packet is that begins with its EtherType.
    fn of_network(&self, typed: &[u8]) -> Owner {
        match typed {
            [0x08, 0x06, ..] => Owner::All,
            [0x08, 0x00, packet @ ..] => self.of_ipv4(packet),
            [0x86, 0xdd, packet @ ..] => self.of_ipv6(packet),
            _ => Owner::One(0),
        }
    }

    fn of_ipv4(&self, packet: &[u8]) -> Owner {
        let Some(ip) = Ip::of_ipv4(packet) else { return Owner::One(0) };
        match (ip.protocol, ip.payload) {
            (UDP, [_, _, 0, DHCP_CLIENT, ..]) if !ip.fragment => Owner::All,
            (ICMP, [3 | 4 | 5 | 11 | 12, _, _, _, _, _, _, _, quoted @ ..]) => {
                self.of_quoted(Ip::of_ipv4(quoted), &ip)
            }
            _ => self.of_packet(&ip),
        }
    }

    fn of_ipv6(&self, packet: &[u8]) -> Owner {
        let Some(ip) = Ip::of_ipv6(packet) else { return Owner::One(0) };
        match (ip.protocol, ip.payload) {
            (ICMPV6, [MLD_QUERY | 133..=137, ..]) => Owner::All,
            (ICMPV6, [1..=4, _, _, _, _, _, _, _, quoted @ ..]) => self.of_quoted(Ip::of_ipv6(quoted), &ip),
            _ => self.of_packet(&ip),
        }
    }

    /// A received packet: its source is the peer.
    fn of_packet(&self, ip: &Ip<'_>) -> Owner {
        let (peer, own) = ip.ports();
        Owner::One(self.shard(ip.target, ip.source, own, peer))
    }

    /// A packet of ours that an error quotes: its source is us.
    fn of_quoted(&self, quoted: Option<Ip<'_>>, carrier: &Ip<'_>) -> Owner {
        let Some(ip) = quoted else { return self.of_packet(carrier) };
        let (own, peer) = ip.ports();
        Owner::One(self.shard(ip.source, ip.target, own, peer))
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

/// The key repeats after 16 bits, so the hash of a packet is that of all its
/// 16-bit words added without carry, and its halves are equal.
fn toeplitz(words: u16) -> u32 {
    let half =
        (0..16).filter(|bit| words & (0x8000 >> bit) != 0).fold(0, |hash, bit| hash ^ KEY.rotate_left(bit));
    u32::from(half) << 16 | u32::from(half)
}

const KEY: u16 = 0x6d5a;

/// The address's 16-bit words, added without carry.
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

/// What steering needs of a packet.
struct Ip<'a> {
    source: IpAddr,
    target: IpAddr,
    protocol: u8,
    /// Only a piece: it may have no ports.
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
            // More fragments follow, or others came before.
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

    /// Source and target port, 0 where there is none to be seen.
    fn ports(&self) -> (u16, u16) {
        match (self.protocol, self.payload) {
            (TCP | UDP, &[a, b, c, d, ..]) if !self.fragment => {
                (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]))
            }
            _ => (0, 0),
        }
    }
}

/// Bytes of a tag.
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
/// More extension headers than any honest packet has.
const EXTENSIONS_MAX: usize = 8;

#[cfg(test)]
mod tests;
