//! ARP packets for IPv4 over Ethernet.
//!
//! Neighbour resolution itself belongs to the stack.
//! Source: RFC 826.

use std::net::Ipv4Addr;

use super::ethernet::Mac;
use super::{Malformed, addr, be16};

/// Length of a packet in bytes.
pub const LEN: usize = 28;

/// Operation of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Request for the hardware address of the target address.
    Request,
    /// Reply with the sender's hardware address.
    Reply,
}

/// ARP request or reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// Request or reply.
    pub operation: Operation,
    /// The sender's hardware address.
    pub sender_mac: Mac,
    /// The sender's address.
    pub sender: Ipv4Addr,
    /// The target's hardware address; zeros in a request.
    pub target_mac: Mac,
    /// The target's address.
    pub target: Ipv4Addr,
}

impl Packet {
    /// Parses a packet; trailing bytes are padding.
    ///
    /// # Errors
    /// [`Malformed::Truncated`]; [`Malformed::Unsupported`] if it is not IPv4 over Ethernet, or
    /// neither request nor reply.
    pub fn parse(packet: &[u8]) -> Result<Self, Malformed> {
        if packet.len() < LEN {
            return Err(Malformed::Truncated);
        }
        if packet[..6] != HARDWARE_AND_PROTOCOL {
            return Err(Malformed::Unsupported);
        }
        let operation = match be16(packet, 6) {
            1 => Operation::Request,
            2 => Operation::Reply,
            _ => return Err(Malformed::Unsupported),
        };
        let mac = |at: usize| [0, 1, 2, 3, 4, 5].map(|i| packet[at + i]);
        Ok(Self {
            operation,
            sender_mac: mac(8),
            sender: addr(packet, 14),
            target_mac: mac(18),
            target: addr(packet, 24),
        })
    }

    /// Writes the packet into the first [`LEN`] bytes of `buf`.
    ///
    /// # Panics
    /// If `buf` is shorter.
    pub fn emit(&self, buf: &mut [u8]) {
        buf[..6].copy_from_slice(&HARDWARE_AND_PROTOCOL);
        buf[6..8].copy_from_slice(&[0, if self.operation == Operation::Request { 1 } else { 2 }]);
        buf[8..14].copy_from_slice(&self.sender_mac);
        buf[14..18].copy_from_slice(&self.sender.octets());
        buf[18..24].copy_from_slice(&self.target_mac);
        buf[24..28].copy_from_slice(&self.target.octets());
    }
}

/// Ethernet (1), IPv4 (0x0800), addresses of 6 and 4 bytes.
const HARDWARE_AND_PROTOCOL: [u8; 6] = [0, 1, 8, 0, 6, 4];
