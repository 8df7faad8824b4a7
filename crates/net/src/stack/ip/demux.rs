//! Demultiplexing of a packet to TCP, UDP or ICMP, for both IP versions and for reassembled
//! packets.

use std::net::IpAddr;

use classify::PacketMeta;
use queueing::Time;
use wire::ethernet::Mac;
use wire::icmp::Cause;
use wire::ip::{Fragment, Packet, Protocol};
use wire::tcp::Segment;
use wire::{FourTuple, Malformed, dhcp, ipv6, udp};

use super::reassembly::{FragmentPacket, Outcome};
use crate::stack::Stack;
use crate::stack::ingress::IpFields;

/// No Next Header: nothing to deliver (RFC 8200 §4.7).
const NOTHING: u8 = 59;

/// Circumstances of a packet's arrival.
#[derive(Clone, Copy)]
pub(in crate::stack) struct Arrived<'a> {
    pub(in crate::stack) from: Mac,
    pub(in crate::stack) meta: &'a PacketMeta,
    /// True if the packet was broadcast or multicast.
    pub(in crate::stack) group: bool,
    /// Whole packet including headers; empty if it was reassembled.
    pub(in crate::stack) packet: &'a [u8],
}

impl Stack {
    /// Handles a packet for this host outside the fast path of TCP over IPv4.
    pub(in crate::stack) fn on_upper(
        &mut self,
        now: Time,
        packet: &Packet<'_>,
        arrived: &Arrived<'_>,
    ) -> Result<(), Malformed> {
        let Arrived { from, meta, group, .. } = *arrived;
        let Packet { source, target, payload, .. } = *packet;
        match (packet.protocol, source, target) {
            (Protocol::Tcp, ..) if !group && !source.is_unspecified() => {
                let segment = Segment::parse(payload, source, target, !meta.checked)?;
                let tuple = FourTuple {
                    local: target,
                    local_port: segment.target_port,
                    remote: source,
                    remote_port: segment.source_port,
                };
                let ip = IpFields { ecn: packet.marks.ecn, hops: packet.hops };
                self.on_segment(now, tuple, &segment, ip, from, meta);
            }
            (Protocol::Udp, ..) => {
                let datagram = udp::Datagram::parse(payload, source, target, !meta.checked)?;
                if self.ip.dhcp.is_some() && datagram.target_port == dhcp::CLIENT_PORT && source.is_ipv4() {
                    return self.on_dhcp(now, datagram.payload);
                }
                if source.is_ipv4() && self.config.addr.is_unspecified() {
                    // Without an address, the packet is for another owner of this hardware address.
                    self.counters.not_for_us += 1;
                    return Ok(());
                }
                if !self.on_datagram(now, packet, &datagram, meta) {
                    self.counters.no_socket += 1;
                    self.refuse_packet(now, Cause::Port, packet, arrived);
                }
            }
            (Protocol::Icmp, IpAddr::V4(source), IpAddr::V4(target)) => {
                self.on_icmp(now, source, target, payload, from, group)?;
            }
            (Protocol::Icmpv6, IpAddr::V6(source), IpAddr::V6(target)) => {
                self.on_icmpv6(now, source, target, packet.hops, payload, from)?;
            }
            (protocol, ..) => {
                self.counters.not_for_us += 1;
                if protocol.number() != NOTHING && protocol != Protocol::Tcp {
                    self.refuse_packet(now, Cause::Protocol, packet, arrived);
                }
            }
        }
        Ok(())
    }

    fn refuse_packet(&mut self, now: Time, cause: Cause, packet: &Packet<'_>, arrived: &Arrived<'_>) {
        let quotable = !arrived.group && !arrived.packet.is_empty() && !packet.source.is_unspecified();
        if quotable {
            self.send_error(now, cause, packet.target, packet.source, arrived.packet, arrived.from);
        }
    }

    /// Handles a fragment of a packet for this host.
    pub(in crate::stack) fn on_fragment(
        &mut self,
        now: Time,
        packet: &Packet<'_>,
        fragment: Fragment,
        arrived: &Arrived<'_>,
    ) -> Result<(), Malformed> {
        self.counters.fragments += 1;
        let Packet { source, target, protocol, marks, payload, .. } = *packet;
        let part = FragmentPacket {
            source,
            target,
            protocol,
            marks,
            fragment,
            payload,
            packet: arrived.packet,
            from: arrived.from,
        };
        let outcome = self.ip.fragments.insert(now, &part)?;
        self.counters.fragments_evicted = self.ip.fragments.evicted;
        match outcome {
            Outcome::Held => {
                self.watch_ip_clock();
                Ok(())
            }
            Outcome::Refused => {
                self.counters.fragments_refused += 1;
                Ok(())
            }
            Outcome::Whole(reassembled) => {
                self.counters.reassembled += 1;
                let meta = PacketMeta { checked: false, ..*arrived.meta };
                let (protocol, payload) = match source {
                    IpAddr::V4(_) => (reassembled.protocol, &reassembled.payload[..]),
                    IpAddr::V6(_) => ipv6::upper(reassembled.protocol, &reassembled.payload)?,
                };
                let packet = Packet { protocol, marks: reassembled.marks, payload, ..*packet };
                self.on_upper(now, &packet, &Arrived { meta: &meta, packet: &[], ..*arrived })
            }
        }
    }

    /// Drops packets whose reassembly timed out, and reports them to their senders.
    pub(super) fn expire_fragments(&mut self, now: Time) {
        while let Some(expired) = self.ip.fragments.expire(now) {
            self.counters.fragments_expired += 1;
            let multicast = expired.target.is_multicast() || expired.source.is_unspecified();
            if !expired.head.is_empty() && !multicast {
                let (local, remote) = (expired.target, expired.source);
                self.send_error(now, Cause::Reassembly, local, remote, &expired.head, expired.from);
            }
        }
    }
}
