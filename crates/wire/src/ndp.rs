//! Neighbour discovery (NDP) messages, as far as a host needs them.
//!
//! Unknown options are skipped. The caller checks that a message comes from this link (hop limit
//! 255).
//! Source: RFC 4861 §4, 4862.

use std::net::Ipv6Addr;

use super::ethernet::Mac;
use super::{Malformed, addr6, be16, be32};

/// Neighbour discovery message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message<'a> {
    /// Router solicitation.
    RouterSolicitation {
        /// Hardware address of the sender.
        source: Option<Mac>,
    },
    /// Router advertisement.
    RouterAdvertisement(RouterAdvertisement<'a>),
    /// Neighbour solicitation.
    NeighborSolicitation {
        /// Address to resolve.
        target: Ipv6Addr,
        /// Hardware address of the sender; `None` for duplicate address detection.
        source: Option<Mac>,
    },
    /// Neighbour advertisement.
    NeighborAdvertisement(NeighborAdvertisement),
    /// Redirect to a better first hop.
    Redirect {
        /// Better first hop; the destination itself if it is on this link.
        target: Ipv6Addr,
        /// Redirected destination.
        destination: Ipv6Addr,
        /// Hardware address of the first hop.
        mac: Option<Mac>,
    },
}

/// Neighbour advertisement: the owner of `target` announces its hardware address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NeighborAdvertisement {
    /// Advertised address.
    pub target: Ipv6Addr,
    /// Hardware address of `target`.
    pub mac: Option<Mac>,
    /// Router flag: the sender is a router.
    pub router: bool,
    /// Solicited flag: the message answers a solicitation.
    pub solicited: bool,
    /// Override flag: the message may replace a cached address.
    pub replaces: bool,
}

/// Router advertisement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RouterAdvertisement<'a> {
    /// Hop limit for sent packets; 0 for unspecified.
    pub hops: u8,
    /// Lifetime as a default router in seconds; 0 if it is none.
    pub lifetime_s: u16,
    /// Time for which a neighbour counts as reachable, in milliseconds; 0 for unspecified.
    pub reachable_ms: u32,
    /// Hardware address of the router.
    pub mac: Option<Mac>,
    /// MTU of the link in bytes.
    pub mtu: Option<u32>,
    /// Well-formed options, read by [`RouterAdvertisement::prefixes`].
    pub options: &'a [u8],
}

/// Prefix information option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PrefixInformation {
    /// Prefix; bits beyond `len` are ignored.
    pub addr: Ipv6Addr,
    /// Prefix length, 0..=128.
    pub len: u8,
    /// On-link flag: its addresses are on this link.
    pub on_link: bool,
    /// Autonomous flag: hosts may configure addresses in it.
    pub autonomous: bool,
    /// Valid lifetime in seconds; all ones for infinity.
    pub valid_s: u32,
    /// Preferred lifetime in seconds.
    pub preferred_s: u32,
}

const SOURCE_MAC: u8 = 1;
const TARGET_MAC: u8 = 2;
const PREFIX: u8 = 3;
const MTU: u8 = 5;

/// Maximum number of options (RFC 4861 has five types).
const OPTIONS_MAX: usize = 32;

impl<'a> Message<'a> {
    /// Parses a message whose checksum was verified.
    ///
    /// # Errors
    /// [`Malformed::Truncated`], [`Malformed::BadOption`]; [`Malformed::BadAddress`] if a target or
    /// redirected destination is multicast; [`Malformed::Unsupported`] for other types.
    pub fn parse(message: &'a [u8]) -> Result<Self, Malformed> {
        if message.len() < 8 {
            return Err(Malformed::Truncated);
        }
        match message[0] {
            133 => Ok(Self::RouterSolicitation { source: mac(checked(&message[8..])?, SOURCE_MAC) }),
            134 => {
                let options = checked(message.get(16..).ok_or(Malformed::Truncated)?)?;
                let mtu = each(options).find(|(kind, body)| *kind == MTU && body.len() >= 6);
                Ok(Self::RouterAdvertisement(RouterAdvertisement {
                    hops: message[4],
                    lifetime_s: be16(message, 6),
                    reachable_ms: be32(message, 8),
                    mac: mac(options, SOURCE_MAC),
                    mtu: mtu.map(|(_, body)| be32(body, 2)),
                    options,
                }))
            }
            kind @ (135 | 136) => {
                let options = checked(message.get(24..).ok_or(Malformed::Truncated)?)?;
                let target = addr6(message, 8);
                if target.is_multicast() {
                    return Err(Malformed::BadAddress);
                }
                if kind == 135 {
                    return Ok(Self::NeighborSolicitation { target, source: mac(options, SOURCE_MAC) });
                }
                let flags = message[4];
                Ok(Self::NeighborAdvertisement(NeighborAdvertisement {
                    target,
                    mac: mac(options, TARGET_MAC),
                    router: flags & 0x80 != 0,
                    solicited: flags & 0x40 != 0,
                    replaces: flags & 0x20 != 0,
                }))
            }
            137 => {
                let options = checked(message.get(40..).ok_or(Malformed::Truncated)?)?;
                let (target, destination) = (addr6(message, 8), addr6(message, 24));
                if target.is_multicast() || destination.is_multicast() {
                    return Err(Malformed::BadAddress);
                }
                Ok(Self::Redirect { target, destination, mac: mac(options, TARGET_MAC) })
            }
            _ => Err(Malformed::Unsupported),
        }
    }

    /// Appends the message, with a checksum of zero, to the empty `buf`.
    pub fn emit(&self, buf: &mut Vec<u8>) {
        match *self {
            Self::RouterSolicitation { source } => {
                buf.extend([133, 0, 0, 0, 0, 0, 0, 0]);
                put_mac(buf, SOURCE_MAC, source);
            }
            Self::RouterAdvertisement(advertisement) => {
                buf.extend([134, 0, 0, 0, advertisement.hops, 0]);
                buf.extend(advertisement.lifetime_s.to_be_bytes());
                buf.extend(advertisement.reachable_ms.to_be_bytes());
                buf.extend([0; 4]);
                buf.extend(advertisement.options);
            }
            Self::NeighborSolicitation { target, source } => {
                buf.extend([135, 0, 0, 0, 0, 0, 0, 0]);
                buf.extend(target.octets());
                put_mac(buf, SOURCE_MAC, source);
            }
            Self::NeighborAdvertisement(advertisement) => {
                let flag = |set, bit| if set { bit } else { 0 };
                let flags = flag(advertisement.router, 0x80)
                    | flag(advertisement.solicited, 0x40)
                    | flag(advertisement.replaces, 0x20);
                buf.extend([136, 0, 0, 0, flags, 0, 0, 0]);
                buf.extend(advertisement.target.octets());
                put_mac(buf, TARGET_MAC, advertisement.mac);
            }
            Self::Redirect { target, destination, mac } => {
                buf.extend([137, 0, 0, 0, 0, 0, 0, 0]);
                buf.extend(target.octets());
                buf.extend(destination.octets());
                put_mac(buf, TARGET_MAC, mac);
            }
        }
    }
}

impl RouterAdvertisement<'_> {
    /// Prefixes announced by the router.
    pub fn prefixes(&self) -> impl Iterator<Item = PrefixInformation> {
        each(self.options).filter(|(kind, body)| *kind == PREFIX && body.len() == 30 && body[0] <= 128).map(
            |(_, body)| PrefixInformation {
                addr: addr6(body, 14),
                len: body[0],
                on_link: body[1] & 0x80 != 0,
                autonomous: body[1] & 0x40 != 0,
                valid_s: be32(body, 2),
                preferred_s: be32(body, 6),
            },
        )
    }
}

impl PrefixInformation {
    /// Appends the prefix information option.
    pub fn emit(&self, buf: &mut Vec<u8>) {
        let flags = u8::from(self.on_link) << 7 | u8::from(self.autonomous) << 6;
        buf.extend([PREFIX, 4, self.len, flags]);
        buf.extend(self.valid_s.to_be_bytes());
        buf.extend(self.preferred_s.to_be_bytes());
        buf.extend([0; 4]);
        buf.extend(self.addr.octets());
    }
}

/// Returns `options` if the lengths of all are valid.
fn checked(options: &[u8]) -> Result<&[u8], Malformed> {
    let mut rest = options;
    for _ in 0..OPTIONS_MAX {
        match *rest {
            [] => return Ok(options),
            [_, len, ..] if len > 0 => rest = rest.get(usize::from(len) * 8..).ok_or(Malformed::BadOption)?,
            _ => return Err(Malformed::BadOption),
        }
    }
    Err(Malformed::BadOption)
}

/// Options as pairs of type and body.
fn each(options: &[u8]) -> impl Iterator<Item = (u8, &[u8])> {
    let mut rest = options;
    std::iter::from_fn(move || {
        let [kind, len, ..] = *rest else { return None };
        let (option, others) = rest.split_at_checked(usize::from(len) * 8)?;
        rest = others;
        option.get(2..).map(|body| (kind, body))
    })
}

/// Hardware address in the first option of type `wanted`.
fn mac(options: &[u8], wanted: u8) -> Option<Mac> {
    each(options).find(|(kind, _)| *kind == wanted).and_then(|(_, body)| body.first_chunk().copied())
}

fn put_mac(buf: &mut Vec<u8>, kind: u8, mac: Option<Mac>) {
    if let Some(mac) = mac {
        buf.extend([kind, 1]);
        buf.extend(mac);
    }
}
