//! Neighbour discovery: who has which hardware address, and what routers say.
//!
//! Only what a host needs is read; unknown options are stepped over. That a
//! message came from this link (hop limit 255) is for the caller to check.
//! Source: RFC 4861 §4, 4862.

use std::net::Ipv6Addr;

use super::ethernet::Mac;
use super::{Malformed, addr6, be16, be32};

/// A message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message<'a> {
    /// Which routers are there?
    RouterSolicitation {
        /// Who asks.
        source: Option<Mac>,
    },
    /// A router says what this link is like.
    RouterAdvertisement(RouterAdvertisement<'a>),
    /// Who has `target`?
    NeighborSolicitation {
        /// The address in question.
        target: Ipv6Addr,
        /// The asker's hardware address; none when it checks for duplicates.
        source: Option<Mac>,
    },
    /// I have `target`.
    NeighborAdvertisement(NeighborAdvertisement),
    /// There is a better way than over me.
    Redirect {
        /// The better first hop; the destination itself when it is on this link.
        target: Ipv6Addr,
        /// Where packets are to go.
        destination: Ipv6Addr,
        /// The first hop's hardware address.
        mac: Option<Mac>,
    },
}

/// I have `target`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NeighborAdvertisement {
    /// The address in question.
    pub target: Ipv6Addr,
    /// Its hardware address.
    pub mac: Option<Mac>,
    /// It routes.
    pub router: bool,
    /// It answers a question.
    pub solicited: bool,
    /// It may replace what is known.
    pub replaces: bool,
}

/// What a router says of the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RouterAdvertisement<'a> {
    /// Hop limit to use; 0 leaves it open.
    pub hops: u8,
    /// Seconds for which it may be a default router; 0 when it is none.
    pub lifetime_s: u16,
    /// Milliseconds for which a neighbour counts as reachable; 0 leaves it open.
    pub reachable_ms: u32,
    /// Its hardware address.
    pub mac: Option<Mac>,
    /// The link's MTU.
    pub mtu: Option<u32>,
    /// The options, well-formed; ask [`RouterAdvertisement::prefixes`].
    pub options: &'a [u8],
}

/// One prefix that a router announces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefix {
    /// The prefix; bits behind `len` mean nothing.
    pub addr: Ipv6Addr,
    /// Its length, 0..=128.
    pub len: u8,
    /// Its addresses are on this link.
    pub on_link: bool,
    /// Hosts may make themselves addresses in it.
    pub autonomous: bool,
    /// Seconds for which it is valid; all ones for ever.
    pub valid_s: u32,
    /// Seconds for which addresses in it are preferred.
    pub preferred_s: u32,
}

const SOURCE_MAC: u8 = 1;
const TARGET_MAC: u8 = 2;
const PREFIX: u8 = 3;
const MTU: u8 = 5;

/// Most options that are read (RFC 4861 has five types).
const OPTIONS_MAX: usize = 32;

impl<'a> Message<'a> {
    /// Reads a message whose checksum is right.
    ///
    /// # Errors
    /// [`Malformed::Truncated`], [`Malformed::BadOption`],
    /// [`Malformed::BadAddress`] when a multicast group is asked or spoken
    /// for or redirected, [`Malformed::Unsupported`] for other types.
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

    /// Appends the message to `buf`, which is empty, with a checksum of zero.
    pub fn emit(&self, buf: &mut Vec<u8>) {
        match *self {
            Self::RouterSolicitation { source } => {
                buf.extend([133, 0, 0, 0, 0, 0, 0, 0]);
                put_mac(buf, SOURCE_MAC, source);
            }
            Self::RouterAdvertisement(said) => {
                buf.extend([134, 0, 0, 0, said.hops, 0]);
                buf.extend(said.lifetime_s.to_be_bytes());
                buf.extend(said.reachable_ms.to_be_bytes());
                buf.extend([0; 4]);
                buf.extend(said.options);
            }
            Self::NeighborSolicitation { target, source } => {
                buf.extend([135, 0, 0, 0, 0, 0, 0, 0]);
                buf.extend(target.octets());
                put_mac(buf, SOURCE_MAC, source);
            }
            Self::NeighborAdvertisement(said) => {
                let flag = |set, bit| if set { bit } else { 0 };
                let flags = flag(said.router, 0x80) | flag(said.solicited, 0x40) | flag(said.replaces, 0x20);
                buf.extend([136, 0, 0, 0, flags, 0, 0, 0]);
                buf.extend(said.target.octets());
                put_mac(buf, TARGET_MAC, said.mac);
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
    /// The prefixes it announces.
    pub fn prefixes(&self) -> impl Iterator<Item = Prefix> {
        each(self.options).filter(|(kind, body)| *kind == PREFIX && body.len() == 30 && body[0] <= 128).map(
            |(_, body)| Prefix {
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

impl Prefix {
    /// Appends the option that announces it.
    pub fn emit(&self, buf: &mut Vec<u8>) {
        let flags = u8::from(self.on_link) << 7 | u8::from(self.autonomous) << 6;
        buf.extend([PREFIX, 4, self.len, flags]);
        buf.extend(self.valid_s.to_be_bytes());
        buf.extend(self.preferred_s.to_be_bytes());
        buf.extend([0; 4]);
        buf.extend(self.addr.octets());
    }
}

/// `options`, if each has a length that can be.
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

/// The options, as type and what stands behind type and length.
fn each(options: &[u8]) -> impl Iterator<Item = (u8, &[u8])> {
    let mut rest = options;
    std::iter::from_fn(move || {
        let [kind, len, ..] = *rest else { return None };
        let (option, others) = rest.split_at_checked(usize::from(len) * 8)?;
        rest = others;
        option.get(2..).map(|body| (kind, body))
    })
}

/// The hardware address in the first option of type `wanted`.
fn mac(options: &[u8], wanted: u8) -> Option<Mac> {
    each(options).find(|(kind, _)| *kind == wanted).and_then(|(_, body)| body.first_chunk().copied())
}

fn put_mac(buf: &mut Vec<u8>, kind: u8, mac: Option<Mac>) {
    if let Some(mac) = mac {
        buf.extend([kind, 1]);
        buf.extend(mac);
    }
}
