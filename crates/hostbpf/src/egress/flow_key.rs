//! Flow key of a frame, parsed as the program in the kernel parses it.

/// Flow key, laid out as in the kernel's map: source address, destination address (IPv4 in the first 4
/// bytes of 16), ports, protocol, a zero byte, ethertype.
///
/// TCP, UDP, UDP-Lite, DCCP and SCTP flows include ports. Fragments have none, the first like the rest,
/// so that a datagram stays in one queue. The same holds for packets with an IPv6 extension header,
/// which counts as the protocol. Frames without a readable IP header form one flow per ethertype. One
/// VLAN tag is skipped; all frames behind two form one flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Key(pub [u8; 40]);

/// Parsed frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Read {
    /// The flow.
    pub key: Key,
    /// Kind of the frame.
    pub kind: Kind,
}

/// Kind of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// ARP, which all other traffic depends on.
    Arp,
    /// An IP packet whose header starts at `at`.
    Ip {
        /// Bytes before the IP header.
        at: usize,
        /// 4 or 6.
        version: u8,
        /// DSCP.
        dscp: u8,
    },
    /// Anything else.
    Other,
}

pub(super) const IPV4: u16 = 0x0800;
pub(super) const IPV6: u16 = 0x86dd;
pub(super) const ARP: u16 = 0x0806;
/// Ethertypes of VLAN tags (IEEE 802.1Q and 802.1ad).
pub(super) const VLAN: [u16; 2] = [0x8100, 0x88a8];
/// Bytes before the ethertype; length of a tag.
pub(super) const TYPE_AT: usize = 12;
pub(super) const TAG: usize = 4;
/// Bits of an IPv4 header that mark a fragment: the offset, and "more fragments".
pub(super) const FRAGMENT_BITS: u16 = 0x3fff;
/// TCP, UDP, DCCP, SCTP, UDP-Lite: protocols that begin with both ports.
pub(super) const WITH_PORTS: [u8; 5] = [6, 17, 33, 132, 136];
/// Offsets within a key.
pub(super) const SOURCE: usize = 0;
pub(super) const TARGET: usize = 16;
pub(super) const PORTS: usize = 32;
pub(super) const PROTOCOL: usize = 36;
pub(super) const ETHERTYPE: usize = 38;

impl Read {
    /// Parses a frame that begins with the destination MAC.
    #[must_use]
    pub fn frame(frame: &[u8]) -> Self {
        let mut key = Key([0; 40]);
        let mut at = TYPE_AT;
        let mut ethertype = half(frame, at).unwrap_or_default();
        if VLAN.contains(&ethertype) {
            at += TAG;
            ethertype = half(frame, at).unwrap_or_default();
        }
        key.0[ETHERTYPE..].copy_from_slice(&ethertype.to_be_bytes());
        let at = at + 2;
        let read = match ethertype {
            ARP => return Self { key, kind: Kind::Arp },
            IPV4 => ipv4(frame, at, key),
            IPV6 => ipv6(frame, at, key),
            _ => None,
        };
        read.unwrap_or(Self { key, kind: Kind::Other })
    }
}

/// `None` if there is no complete IPv4 header.
fn ipv4(frame: &[u8], at: usize, mut key: Key) -> Option<Read> {
    let header: &[u8; 20] = frame.get(at..)?.first_chunk()?;
    let words = usize::from(header[0] & 15);
    if header[0] >> 4 != 4 || words < 5 {
        return None;
    }
    key.0[SOURCE..][..4].copy_from_slice(&header[12..16]);
    key.0[TARGET..][..4].copy_from_slice(&header[16..20]);
    key.0[PROTOCOL] = header[9];
    if u16::from_be_bytes([header[6], header[7]]) & FRAGMENT_BITS == 0 {
        ports(frame, at + words * 4, &mut key);
    }
    Some(Read { key, kind: Kind::Ip { at, version: 4, dscp: header[1] >> 2 } })
}

/// `None` if there is no complete IPv6 header.
fn ipv6(frame: &[u8], at: usize, mut key: Key) -> Option<Read> {
    let header: &[u8; 40] = frame.get(at..)?.first_chunk()?;
    if header[0] >> 4 != 6 {
        return None;
    }
    key.0[SOURCE..][..16].copy_from_slice(&header[8..24]);
    key.0[TARGET..][..16].copy_from_slice(&header[24..40]);
    key.0[PROTOCOL] = header[6];
    ports(frame, at + 40, &mut key);
    let dscp = (header[0] & 15) << 2 | header[1] >> 6;
    Some(Read { key, kind: Kind::Ip { at, version: 6, dscp } })
}

fn ports(frame: &[u8], at: usize, key: &mut Key) {
    if WITH_PORTS.contains(&key.0[PROTOCOL])
        && let Some(ports) = frame.get(at..).and_then(<[u8]>::first_chunk::<4>)
    {
        key.0[PORTS..][..4].copy_from_slice(ports);
    }
}

fn half(frame: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(*frame.get(at..)?.first_chunk()?))
}

impl Key {
    /// A 32-bit hash that is unpredictable without `seed`.
    #[must_use]
    pub fn hash(&self, seed: u64) -> u32 {
        let (words, _) = self.0.as_chunks::<8>();
        let mixed =
            words.iter().fold(seed, |hash, word| (hash ^ u64::from_ne_bytes(*word)).wrapping_mul(FACTOR));
        ((mixed ^ mixed >> 32).wrapping_mul(FACTOR) >> 32) as u32
    }

    /// Queue of the flow, of `buckets` queues.
    #[must_use]
    pub fn bucket(&self, seed: u64, buckets: u16) -> u16 {
        ((u64::from(self.hash(seed)) * u64::from(buckets)) >> 32) as u16
    }
}

/// An odd multiplier without pattern: 2⁶⁴ over the golden ratio.
pub(super) const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
