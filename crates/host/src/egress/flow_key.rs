//! Which flow a frame belongs to, read as the program in the kernel reads it.

/// A flow's key, laid out as in the kernel's map: source address, target
/// address (IPv4 in the first 4 bytes of 16), ports, protocol, a zero, ethertype.
///
/// TCP, UDP, UDP-Lite, DCCP and SCTP are told apart by ports. Fragments go
/// without, the first like the rest, so that a datagram stays in one queue;
/// so does whatever stands behind an IPv6 extension header, which counts as
/// the protocol. What is no IP, or cannot be read, is one flow per ethertype.
/// One VLAN tag is looked through; behind two, all is one flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Key(pub [u8; 40]);

/// What is read of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Read {
    /// The flow.
    pub key: Key,
    /// What the frame is, as far as it matters.
    pub kind: Kind,
}

/// What a frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// ARP, on which everything waits.
    Arp,
    /// An IP packet whose header starts at `at`.
    Ip {
        /// Bytes before the IP header.
        at: usize,
        /// 4 or 6.
        version: u8,
        /// The DSCP it has.
        dscp: u8,
    },
    /// Anything else.
    Other,
}

pub(super) const IPV4: u16 = 0x0800;
pub(super) const IPV6: u16 = 0x86dd;
pub(super) const ARP: u16 = 0x0806;
/// Tags of IEEE 802.1Q and 802.1ad.
pub(super) const VLAN: [u16; 2] = [0x8100, 0x88a8];
/// Bytes before the ethertype, and of a tag.
pub(super) const TYPE_AT: usize = 12;
pub(super) const TAG: usize = 4;
/// Where an IPv4 header says that it is a fragment: any offset, or more to come.
pub(super) const FRAGMENT_BITS: u16 = 0x3fff;
/// TCP, UDP, DCCP, SCTP, UDP-Lite: both ports come first.
pub(super) const WITH_PORTS: [u8; 5] = [6, 17, 33, 132, 136];
/// Where in a key the parts stand.
pub(super) const SOURCE: usize = 0;
pub(super) const TARGET: usize = 16;
pub(super) const PORTS: usize = 32;
pub(super) const PROTOCOL: usize = 36;
pub(super) const ETHERTYPE: usize = 38;

impl Read {
    /// Reads a frame from the destination MAC on.
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

/// `None` when it is no header, or none that is whole.
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

/// `None` when it is no header, or none that is whole.
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
    /// A number of 32 bits that hardly two flows share, and that nobody can
    /// foretell who does not know `seed`.
    #[must_use]
    pub fn hash(&self, seed: u64) -> u32 {
        let (words, _) = self.0.as_chunks::<8>();
        let mixed =
            words.iter().fold(seed, |hash, word| (hash ^ u64::from_ne_bytes(*word)).wrapping_mul(FACTOR));
        ((mixed ^ mixed >> 32).wrapping_mul(FACTOR) >> 32) as u32
    }

    /// Which of `buckets` queues it is in.
    #[must_use]
    pub fn bucket(&self, seed: u64, buckets: u16) -> u16 {
        ((u64::from(self.hash(seed)) * u64::from(buckets)) >> 32) as u16
    }
}

/// An odd number without pattern: 2⁶⁴ over the golden ratio.
pub(super) const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
