//! IP output: packets sent whole or fragmented.
//!
//! TCP segments always fit; larger packets of applications or replies are fragmented here, IPv4
//! with DF clear.
//!
//! Source: RFC 791 §3.2, RFC 8200 §4.5; identifications RFC 6864, RFC 7739 §5.3.

use std::net::IpAddr;

use queueing::Time;
use wire::ethernet::{self, EtherType, Mac};
use wire::ip::{self, Fragment, Protocol, TrafficClass};
use wire::{FourTuple, ipv4, ipv6};

use crate::Device;
use crate::device::Full;
use crate::stack::connection_table;

/// A packet to send.
#[derive(Debug)]
pub(crate) struct Outgoing {
    pub(crate) mac: Mac,
    pub(crate) source: IpAddr,
    pub(crate) target: IpAddr,
    pub(crate) protocol: Protocol,
    pub(crate) marks: TrafficClass,
    pub(crate) hops: u8,
    /// True if the packet must not be fragmented.
    pub(crate) dont_fragment: bool,
    pub(crate) payload: Vec<u8>,
    /// Identification of its fragments.
    pub(crate) ident: u32,
    /// Bytes of the payload already sent.
    pub(crate) sent: usize,
}

impl Outgoing {
    /// Payload that fits a packet of `mtu`, and payload that fits a fragment, in bytes.
    fn room(&self, mtu: u16) -> (usize, usize) {
        let payload_max = usize::from(mtu).saturating_sub(ip::header_len(self.target));
        let extra = if self.target.is_ipv6() { ipv6::FRAGMENT_LEN } else { 0 };
        (payload_max, (payload_max.saturating_sub(extra) & !7).max(8))
    }

    /// True if the payload fits in one packet of `mtu`.
    pub(crate) fn fits(&self, mtu: u16) -> bool {
        self.payload.len() <= self.room(mtu).0
    }

    /// Sends the remaining payload, fragmented if necessary; returns the number of packets.
    pub(crate) fn transmit<D: Device>(
        &mut self,
        now: Time,
        device: &mut D,
        source_mac: Mac,
        mtu: u16,
    ) -> Result<u64, Full> {
        let (payload_max, piece) = self.room(mtu);
        if self.payload.len() <= payload_max {
            self.transmit_fragment(now, device, source_mac, self.payload.len(), None)?;
            return Ok(1);
        }
        let mut packets = 0;
        while self.sent < self.payload.len() {
            let len = (self.payload.len() - self.sent).min(piece);
            let more = self.sent + len < self.payload.len();
            let fragment = Fragment { ident: self.ident, offset: self.sent as u32, more };
            self.transmit_fragment(now, device, source_mac, len, Some(fragment))?;
            packets += 1;
        }
        Ok(packets)
    }

    fn transmit_fragment<D: Device>(
        &mut self,
        now: Time,
        device: &mut D,
        source_mac: Mac,
        len: usize,
        fragment: Option<Fragment>,
    ) -> Result<(), Full> {
        let Self { mac, protocol, marks: TrafficClass { dscp, ecn }, hops, .. } = *self;
        let payload = &self.payload[self.sent..self.sent + len];
        let kind = if self.target.is_ipv4() { EtherType::Ipv4 } else { EtherType::Ipv6 };
        let extra = if fragment.is_some() && self.target.is_ipv6() { ipv6::FRAGMENT_LEN } else { 0 };
        let start = ethernet::HEADER_LEN + ip::header_len(self.target) + extra;
        device.transmit(now, start + len, &mut |buf| {
            ethernet::emit_header(buf, mac, source_mac, kind);
            let (header, body) = buf[ethernet::HEADER_LEN..].split_at_mut(start - ethernet::HEADER_LEN);
            body.copy_from_slice(payload);
            match (self.source, self.target, fragment) {
                (IpAddr::V4(source), IpAddr::V4(target), Some(fragment)) => {
                    ipv4::Header { source, target, protocol, dscp, ecn, ttl: hops, payload_len: len }
                        .emit_fragment(fragment, header);
                }
                (IpAddr::V6(source), IpAddr::V6(target), Some(fragment)) => {
                    ipv6::Header { source, target, protocol, dscp, ecn, hops, payload_len: len }
                        .emit_fragment(fragment, header);
                }
                (source, target, _) => {
                    ip::Header { source, target, protocol, dscp, ecn, hops, payload_len: len }.emit(header);
                }
            }
        })?;
        self.sent += len;
        Ok(())
    }
}

/// Generator of unpredictable identifications that do not repeat soon.
#[derive(Debug)]
pub(crate) struct Idents {
    counters: [u32; 64],
}

impl Default for Idents {
    fn default() -> Self {
        Self { counters: [0; 64] }
    }
}

impl Idents {
    /// The next identification from `source` to `target`.
    pub(crate) fn next(&mut self, secret: &[u8; 16], source: IpAddr, target: IpAddr) -> u32 {
        let tuple = FourTuple { local: source, local_port: 0, remote: target, remote_port: 0 };
        let hash = connection_table::hash(secret, super::super::HASH_IDENT, &tuple);
        let counter = &mut self.counters[(hash >> 58) as usize];
        *counter = counter.wrapping_add(1);
        counter.wrapping_add(hash as u32)
    }
}
