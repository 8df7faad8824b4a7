//! Frames in: from Ethernet to the connection that a segment belongs to.

use queueing::{Label, Time};

use super::ip::is_group;
use super::opening::Listener;
use super::{HASH_FLOW, Stack, flows, look_after};
use crate::classify::PacketMeta;
use crate::tcp::{Arrival, Connection, Context, Verdicts};
use crate::wire::ethernet::{BROADCAST, EtherType, Frame, Mac};
use crate::wire::ipv4::{Packet, Protocol};
use crate::wire::tcp::Segment;
use crate::wire::{FourTuple, Malformed, ipv6};

impl Stack {
    /// Takes one frame in. Malformed ones are counted and dropped.
    pub fn ingress(&mut self, now: Time, frame: &[u8], meta: &PacketMeta) {
        self.counters.frames_received += 1;
        if let Err(reason) = self.on_frame(now, frame, meta) {
            self.counters.malformed(reason);
        }
    }

    fn on_frame(&mut self, now: Time, frame: &[u8], meta: &PacketMeta) -> Result<(), Malformed> {
        let frame = Frame::parse(frame)?;
        let ours = frame.target == self.config.mac;
        match frame.kind {
            EtherType::Ipv4 if ours => self.on_packet(now, frame.payload, frame.source, meta),
            EtherType::Ipv6 if ours || is_group(frame.target) => {
                self.on_packet6(now, frame.payload, frame.source, meta)
            }
            EtherType::Arp if ours || frame.target == BROADCAST => self.on_arp(now, frame.payload),
            _ => {
                self.counters.not_for_us += 1;
                Ok(())
            }
        }
    }

    fn on_packet(&mut self, now: Time, packet: &[u8], from: Mac, meta: &PacketMeta) -> Result<(), Malformed> {
        let packet = Packet::parse(packet)?;
        let source = packet.source;
        if packet.target != self.config.addr {
            self.counters.not_for_us += 1;
            return Ok(());
        }
        if source == self.config.addr
            || source.is_multicast()
            || source.is_broadcast()
            || source.is_unspecified()
        {
            return Err(Malformed::BadAddress);
        }
        if packet.fragment.is_some() {
            self.counters.fragments += 1;
            return Ok(());
        }
        match packet.protocol {
            Protocol::Tcp => {
                let segment = Segment::parse(packet.payload, source, packet.target, !meta.checked)?;
                let tuple = FourTuple {
                    local: packet.target.into(),
                    local_port: segment.target_port,
                    remote: source.into(),
                    remote_port: segment.source_port,
                };
                self.on_segment(now, tuple, &segment, packet.ecn, from, meta);
            }
            Protocol::Icmp => self.on_icmp(now, source, packet.target, packet.payload, from)?,
            Protocol::Udp | Protocol::Icmpv6 | Protocol::Other(_) => self.counters.not_for_us += 1,
        }
        Ok(())
    }

    fn on_packet6(
        &mut self,
        now: Time,
        packet: &[u8],
        from: Mac,
        meta: &PacketMeta,
    ) -> Result<(), Malformed> {
        let packet = ipv6::Packet::parse(packet)?;
        let (source, target) = (packet.source, packet.target);
        let Some(v6) = &self.ip.v6 else {
            self.counters.not_for_us += 1;
            return Ok(());
        };
        let group = target.is_multicast();
        if !(if group { v6.listens_to(target) } else { v6.owns(target) }) {
            self.counters.not_for_us += 1;
            return Ok(());
        }
        if source.is_multicast() || source.is_loopback() || v6.owns(source) {
            return Err(Malformed::BadAddress);
        }
        if packet.fragment.is_some() {
            self.counters.fragments += 1;
            return Ok(());
        }
        match packet.protocol {
            Protocol::Tcp if !group && !source.is_unspecified() => {
                let segment = Segment::parse(packet.payload, source, target, !meta.checked)?;
                let tuple = FourTuple {
                    local: target.into(),
                    local_port: segment.target_port,
                    remote: source.into(),
                    remote_port: segment.source_port,
                };
                self.on_segment(now, tuple, &segment, packet.ecn, from, meta);
            }
            Protocol::Icmpv6 => self.on_icmpv6(now, source, target, packet.hops, packet.payload, from)?,
            _ => self.counters.not_for_us += 1,
        }
        Ok(())
    }

    pub(super) fn on_segment(
        &mut self,
        now: Time,
        tuple: FourTuple,
        s: &Segment<'_>,
        ecn: u8,
        from: Mac,
        meta: &PacketMeta,
    ) {
        let same = |c: &Connection| c.flags.linked && c.tuple == tuple;
        let found = match self.flows.at(self.recent) {
            Some((_, connection)) if same(connection) => Some(self.recent),
            _ => self.flows.find(flows::hash(&self.config.secret, HASH_FLOW, &tuple), &tuple),
        };
        let Some(index) = found else { return self.on_stray(now, tuple, s, ecn, from, meta) };
        self.recent = index;
        let Some((id, connection)) = self.flows.at(index) else { return };
        let mut cx = Context {
            now,
            id,
            config: &self.config,
            pool: &mut self.pool,
            counters: &mut self.counters,
            challenges: &mut self.challenges,
            events: &mut self.events,
            label: Label::new(meta.priority.unwrap_or_default()),
            received: meta.received,
            ecn,
        };
        if connection.gives_way_to(s) {
            connection.end(&mut cx, super::CloseReason::Finished);
            self.counters.time_wait_reused += 1;
            self.settle(now, index);
            return self.on_stray(now, tuple, s, ecn, from, meta);
        }
        let listener = connection.listener.map(|l| &self.listeners[usize::from(l)]);
        let verdicts = Verdicts {
            listener: listener.and_then(|l| l.classifier.as_ref()),
            default: self.config.classifier.as_ref(),
            meta,
            room: listener.is_none_or(Listener::has_room),
        };
        let opening = !connection.flags.announced;
        let arrival = connection.on_segment(&mut cx, s, &verdicts);
        if opening
            && connection.flags.announced
            && let Some(listener) = connection.listener
        {
            self.listeners[usize::from(listener)].on_accepted();
        }
        if connection.state.is_ending() {
            self.settle_closed(now, id);
        } else {
            look_after(now, &mut self.ready, &mut self.timers, &self.config, connection, index);
        }
        if arrival == Arrival::Refuse {
            self.refuse(&tuple, s, from);
        }
    }
}
