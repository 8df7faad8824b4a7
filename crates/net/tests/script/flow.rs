//! Translation between sequence numbers on the wire and in the script.
//!
//! A script counts each direction from its first SYN. The peer's numbers start just below 2³² on
//! the wire, so every script wraps.

use super::ast::{Body, FIN, Opt, Packet, Quote, SYN, Tcp};

/// State of one pair of ports.
#[derive(Default)]
pub struct Flow {
    /// Number of the stack that is 0 in the script.
    local: Option<u32>,
    /// The stack's number that was 0 in the script for the previous connection.
    before: Option<u32>,
    /// True if the next SYN of the stack may restart the count.
    anew: bool,
    /// True if the stack has sent its FIN: a SYN of the peer then belongs to another connection.
    ending: bool,
    /// Latest SYN of the peer, in the script's numbers.
    syn: Option<u32>,
    /// Timestamp of the stack that is 0 in the script.
    stamps: Option<u32>,
}

/// Number of the peer on the wire that is 0 in the script.
const PEER: u32 = 0u32.wrapping_sub(3000);

impl Flow {
    /// The application connects: the count restarts.
    pub fn connects(&mut self) {
        self.anew = true;
    }

    /// Distance of the stack's initial sequence number from that of the previous connection.
    pub fn isn_advance(&self) -> Option<u32> {
        Some(self.local?.wrapping_sub(self.before?))
    }

    /// Offset in the peer's stream of the byte at `seq`.
    pub fn peer_offset(&self, seq: u32) -> u32 {
        seq.wrapping_sub(self.syn.unwrap_or(0))
    }

    /// Translates a packet of the peer from the script to the wire.
    pub fn sends(&mut self, packet: &Packet) -> Packet {
        let mut packet = packet.clone();
        let local = self.local.unwrap_or(0);
        match &mut packet.body {
            Body::Tcp(tcp) => {
                if tcp.has(SYN) && (self.ending || self.syn != Some(tcp.seq)) {
                    self.syn = Some(tcp.seq);
                    self.anew = true;
                }
                tcp.seq = tcp.seq.wrapping_add(PEER);
                tcp.ack = tcp.ack.map(|ack| ack.wrapping_add(local));
                self.shift(tcp, local, 0, self.stamps.unwrap_or(0));
            }
            Body::Icmp(icmp) => {
                if let Some(Quote::Tcp { seq, .. }) = &mut icmp.quote {
                    *seq = seq.wrapping_add(local);
                }
            }
            Body::Udp { .. } => {}
        }
        packet
    }

    /// Translates a packet of the stack from the wire to the script, which expects `wanted`.
    pub fn accepts(&mut self, packet: &Packet, wanted: Option<&Tcp>) -> Packet {
        let mut packet = packet.clone();
        let Body::Tcp(tcp) = &mut packet.body else { return packet };
        if tcp.has(SYN) && (self.local.is_none() || self.anew) {
            let seq = wanted.map_or(0, |wanted| wanted.seq);
            self.before = self.local;
            self.local = Some(tcp.seq.wrapping_sub(seq));
            (self.anew, self.ending) = (false, false);
        }
        self.ending |= tcp.has(FIN);
        for option in tcp.options.iter().flatten() {
            if let Opt::Stamps(Some(live), _) = option
                && self.stamps.is_none()
            {
                let wanted = wanted.and_then(|wanted| wanted.options.iter().flatten().find_map(stamp));
                self.stamps = Some(live.wrapping_sub(wanted.unwrap_or(0)));
            }
        }
        tcp.seq = tcp.seq.wrapping_sub(self.local.unwrap_or(0));
        tcp.ack = tcp.ack.map(|ack| ack.wrapping_sub(PEER));
        let stamps = self.stamps.unwrap_or(0);
        self.shift(tcp, 0u32.wrapping_sub(PEER), 0u32.wrapping_sub(stamps), 0);
        packet
    }

    fn shift(&self, tcp: &mut Tcp, sack: u32, value: u32, echo: u32) {
        for option in tcp.options.iter_mut().flatten() {
            match option {
                Opt::Sack(blocks) => blocks.iter_mut().for_each(|block| {
                    *block = (block.0.wrapping_add(sack), block.1.wrapping_add(sack));
                }),
                Opt::Stamps(Some(val), Some(ecr)) => {
                    *val = val.wrapping_add(value);
                    // An empty echo is 0 on the wire, too.
                    if *ecr != 0 {
                        *ecr = ecr.wrapping_add(echo);
                    }
                }
                _ => {}
            }
        }
    }
}

fn stamp(option: &Opt) -> Option<u32> {
    if let Opt::Stamps(value, _) = option { *value } else { None }
}

/// Byte at `offset` of every stream and datagram.
pub fn pattern(offset: u32) -> u8 {
    (offset % 251) as u8
}

/// `len` bytes from `offset` on.
pub fn bytes(offset: u32, len: u32) -> Vec<u8> {
    (0..len).map(|i| pattern(offset.wrapping_add(i))).collect()
}
