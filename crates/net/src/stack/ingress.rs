//! Input of frames: from Ethernet to the connection of a segment.

use std::net::Ipv4Addr;

use classify::{IpView, PacketMeta};
use queueing::{Priority, Time};
use wire::ethernet::{BROADCAST, EtherType, Frame, Mac};
use wire::fast_path::FastPathFrame;
use wire::ip::{Packet, Protocol, TrafficClass};
use wire::tcp::Segment;
use wire::{FourTuple, Malformed, ipv4, ipv6};

use super::ip::demux::Arrived;
use super::ip::interface::Interface;
use super::ip::is_group;
use super::listener::{Listener, fast_open_ends};
use super::{CloseReason, Config, HASH_FLOW, Stack, connection_table, update_timers};
use crate::device::{Device, ReceivedFrame};
use crate::driver::FramePriority;
use crate::tcp::{Connection, SegmentOutcome, State, Verdicts};

/// IP header fields of a segment other than addresses.
#[derive(Clone, Copy, Debug)]
pub(super) struct IpFields {
    /// ECN bits.
    pub(super) ecn: u8,
    /// Remaining hops.
    pub(super) hops: u8,
}

impl Stack {
    /// Processes the next frame that `device` has received, without a receive buffer and a driver
    /// classifier; `false` if there is none.
    pub fn ingress_from<D: Device>(&mut self, now: Time, device: &mut D) -> bool {
        let Some(ReceivedFrame { frame, arrived, checked }) = device.receive(now) else { return false };
        let bytes = frame.as_ref();
        let meta = PacketMeta { checked, ..PacketMeta::new(arrived.unwrap_or(now), bytes.len()) };
        self.ingress(now, bytes, &meta);
        device.recycle(frame);
        true
    }

    /// Processes one frame. A malformed frame is counted and dropped.
    pub fn ingress(&mut self, now: Time, frame: &[u8], meta: &PacketMeta) {
        self.counters.frames_received += 1;
        if let Err(reason) = self.on_frame(now, frame, meta) {
            self.counters.malformed(reason);
        }
    }

    fn on_frame(&mut self, now: Time, frame: &[u8], meta: &PacketMeta) -> Result<(), Malformed> {
        if let Some(common) = FastPathFrame::parse(frame, (self.config.mac, self.config.addr), !meta.checked)
            && is_sender(&self.config, common.ip.source)
            && common.ip.source != self.config.addr
        {
            let tuple = FourTuple {
                local: common.ip.target.into(),
                local_port: common.target_port,
                remote: common.ip.source.into(),
                remote_port: common.source_port,
            };
            let ip = IpFields { ecn: common.ip.ecn, hops: common.ip.ttl };
            self.on_segment(now, tuple, &common.segment(), ip, common.source_mac, meta);
            return Ok(());
        }
        self.on_any_frame(now, frame, meta)
    }

    #[inline(never)]
    fn on_any_frame(&mut self, now: Time, frame: &[u8], meta: &PacketMeta) -> Result<(), Malformed> {
        let frame = Frame::parse(frame)?;
        let ours = frame.target == self.config.mac;
        match frame.kind {
            _ if frame.is_of_vlan() => {
                self.counters.not_for_us += 1;
                Ok(())
            }
            EtherType::Ipv4 if ours || frame.target == BROADCAST => {
                self.on_packet4(now, frame.payload, !ours, frame.source, meta)
            }
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

    fn on_packet4(
        &mut self,
        now: Time,
        bytes: &[u8],
        group: bool,
        from: Mac,
        meta: &PacketMeta,
    ) -> Result<(), Malformed> {
        let packet = ipv4::Packet::parse(bytes)?;
        let (source, target) = (packet.source, packet.target);
        if target != self.config.addr && !self.accepts_other(target, packet.protocol, group) {
            self.counters.not_for_us += 1;
            return Ok(());
        }
        let is_unspecified = source.is_unspecified();
        if !is_unspecified && (source == self.config.addr || !is_sender(&self.config, source)) {
            return Err(Malformed::BadAddress);
        }
        if packet.protocol == Protocol::Tcp && packet.fragment.is_none() && !group && !source.is_unspecified()
        {
            let segment = Segment::parse(packet.payload, source, target, !meta.checked)?;
            let tuple = FourTuple {
                local: target.into(),
                local_port: segment.target_port,
                remote: source.into(),
                remote_port: segment.source_port,
            };
            let ip = IpFields { ecn: packet.ecn, hops: packet.ttl };
            self.on_segment(now, tuple, &segment, ip, from, meta);
            return Ok(());
        }
        let group = group || target != self.config.addr;
        let arrived = Arrived { from, meta, group, packet: bytes };
        let ipv4::Packet { protocol, dscp, ecn, ttl: hops, payload, .. } = packet;
        let marks = TrafficClass { dscp, ecn };
        let upper = Packet { source: source.into(), target: target.into(), protocol, marks, hops, payload };
        if source.is_unspecified() && protocol != Protocol::Udp {
            return Err(Malformed::BadAddress);
        }
        match packet.fragment {
            Some(fragment) => self.on_fragment(now, &upper, fragment, &arrived),
            None => self.on_upper(now, &upper, &arrived),
        }
    }

    /// True if a packet to an IPv4 address other than this host's is accepted: a broadcast
    /// datagram, or any datagram while DHCP requests an address.
    #[cold]
    fn accepts_other(&self, target: Ipv4Addr, protocol: Protocol, group: bool) -> bool {
        let Config { addr, prefix, .. } = self.config;
        let broadcast =
            Ipv4Addr::from_bits(addr.to_bits() | u32::MAX.checked_shr(prefix.into()).unwrap_or(0));
        protocol == Protocol::Udp
            && (addr.is_unspecified() && self.requests_address()
                || group && (target.is_broadcast() || target == broadcast))
    }

    fn on_packet6(&mut self, now: Time, bytes: &[u8], from: Mac, meta: &PacketMeta) -> Result<(), Malformed> {
        let packet = ipv6::Packet::parse(bytes)?;
        let (source, target) = (packet.source, packet.target);
        let group = target.is_multicast();
        let accepts = |v6: &&Interface| if group { v6.listens_to(target) } else { v6.owns(target) };
        let Some(v6) = self.ip.v6.as_deref().filter(accepts) else {
            self.counters.not_for_us += 1;
            return Ok(());
        };
        if source.is_multicast() || source.is_loopback() || v6.owns(source) {
            return Err(Malformed::BadAddress);
        }
        let arrived = Arrived { from, meta, group, packet: bytes };
        let ipv6::Packet { protocol, dscp, ecn, hops, payload, .. } = packet;
        let marks = TrafficClass { dscp, ecn };
        let upper = Packet { source: source.into(), target: target.into(), protocol, marks, hops, payload };
        match packet.fragment {
            Some(fragment) => self.on_fragment(now, &upper, fragment, &arrived),
            None => self.on_upper(now, &upper, &arrived),
        }
    }

    pub(super) fn on_segment(
        &mut self,
        now: Time,
        tuple: FourTuple,
        s: &Segment<'_>,
        ip: IpFields,
        from: Mac,
        meta: &PacketMeta,
    ) {
        let Some(index) = self.find(&tuple) else { return self.on_stray(now, tuple, s, ip, from, meta) };
        self.recent = index;
        let Some((_, connection)) = self.flows.at(index) else { return };
        if ip.hops < connection.hops.received_min {
            self.counters.hops_min_drops += 1;
            return;
        }
        let ecn = ip.ecn;
        let arrival = if connection.state == State::Established {
            self.deliver(now, index, s, ecn, meta)
        } else if connection.is_replaced_by(s) && self.ports.contains_key(&tuple.local_port) {
            let ended = connection.snd_nxt;
            self.replace_time_wait(now, index);
            self.on_stray(now, tuple, s, ip, from, meta);
            if let Some(next) = self.flows.find(self.hash(&tuple), &tuple)
                && let Some((_, connection)) = self.flows.at(next)
            {
                connection.start_beyond(ended);
            }
            return;
        } else {
            self.deliver_opening(now, index, s, ecn, meta)
        };
        self.update_queues(now, index);
        match arrival {
            SegmentOutcome::Done => {}
            SegmentOutcome::Refuse => self.refuse(&tuple, s, from),
            SegmentOutcome::Reset => {
                self.counters.resets += 1;
                self.answer_by_reset(&tuple, s, from);
            }
        }
    }

    /// Slot of the connection with `tuple`.
    #[inline]
    fn find(&mut self, tuple: &FourTuple) -> Option<u32> {
        match self.flows.at(self.recent) {
            Some((_, connection)) if connection.flags.linked && connection.tuple == *tuple => {
                Some(self.recent)
            }
            _ => self.flows.find(connection_table::hash(&self.config.secret, HASH_FLOW, tuple), tuple),
        }
    }

    /// Priority of a packet by its connection: the level of the latest request, or the level that
    /// the application set since. `None` without a connection.
    #[must_use]
    pub fn priority_of(&mut self, ip: &IpView<'_>) -> Option<FramePriority> {
        let (remote_port, local_port) = ip.tcp_ports()?;
        let tuple = FourTuple { local: ip.target(), local_port, remote: ip.source(), remote_port };
        let index = self.find(&tuple)?;
        let (id, connection) = self.flows.at(index)?;
        Some(FramePriority { level: connection.transmit.latest(), of: Some(id) })
    }

    /// True if any connection has been above the lowest priority; as long as none has,
    /// [`Stack::priority_of`] need not be called.
    #[must_use]
    #[inline]
    pub fn has_priorities(&self) -> bool {
        self.has_levels
    }

    /// Delivers `s` to the connection in slot `index`.
    #[inline]
    fn deliver(
        &mut self,
        now: Time,
        index: u32,
        s: &Segment<'_>,
        ecn: u8,
        meta: &PacketMeta,
    ) -> SegmentOutcome {
        let Some((id, connection)) = self.flows.at(index) else { return SegmentOutcome::Done };
        let verdicts = verdicts(connection, &self.listeners, &self.config, meta);
        connection.on_segment(&mut context!(self, now, id, meta, ecn), s, &verdicts)
    }

    /// As [`Stack::deliver`] for a connection that is not established: updates its listener, or the
    /// [`CookieCache`](super::fast_open::CookieCache), with the result.
    #[inline(never)]
    fn deliver_opening(
        &mut self,
        now: Time,
        index: u32,
        s: &Segment<'_>,
        ecn: u8,
        meta: &PacketMeta,
    ) -> SegmentOutcome {
        let Some((id, connection)) = self.flows.at(index) else { return SegmentOutcome::Done };
        let opening = !connection.flags.announced;
        let connecting = (connection.state == State::SynSent).then_some(connection.snd_una);
        let verdicts = verdicts(connection, &self.listeners, &self.config, meta);
        let arrival = connection.on_any_segment(&mut context!(self, now, id, meta, ecn), s, &verdicts);
        if opening
            && connection.flags.announced
            && let Some(listener) = connection.listener()
        {
            self.listeners[usize::from(listener)].on_accepted();
            self.counters.accepted += 1;
        }
        if let Some(iss) = connecting
            && connection.state.is_synchronized()
            && let Some(cookie) = connection.learned(s, s.ack != iss + 1)
        {
            let mss = s.options.mss.unwrap_or(Connection::mss_default(&connection.tuple));
            self.cookie_cache.put(connection.tuple.remote, cookie, mss, self.config.fast_open_cookies);
        }
        fast_open_ends(connection, &mut self.listeners);
        arrival
    }

    /// Ends the connection in TIME-WAIT in slot `index` in favour of a new one.
    #[cold]
    fn replace_time_wait(&mut self, now: Time, index: u32) {
        let Some((id, connection)) = self.flows.at(index) else { return };
        connection.end(&mut context!(self, now, id), CloseReason::Finished);
        self.counters.time_wait_reused += 1;
        self.settle(now, index);
    }

    /// Updates queues and timers after a segment for the connection in slot `index`.
    #[inline]
    fn update_queues(&mut self, now: Time, index: u32) {
        let Some((id, connection)) = self.flows.at(index) else { return };
        self.has_levels |= connection.transmit.level != Priority::LOWEST;
        if connection.flags.ack_waits && !connection.flags.ack_listed {
            connection.flags.ack_listed = true;
            self.waiting_acks.push_back(index);
        }
        if connection.state.is_ending() {
            self.settle_closed(now, id);
        } else {
            update_timers(now, &mut self.ready, &mut self.timers, &self.config, connection, index);
        }
    }
}

/// Classifiers of segments for `connection`.
#[inline]
fn verdicts<'a>(
    connection: &Connection,
    listeners: &'a [Listener],
    config: &'a Config,
    meta: &'a PacketMeta,
) -> Verdicts<'a> {
    let listener = connection.listener().map(|l| &listeners[usize::from(l)]);
    Verdicts {
        listener: listener.and_then(|l| l.classifier.as_ref()),
        default: config.classifier.as_ref(),
        meta,
        has_space: listener.is_none_or(Listener::has_space),
    }
}

/// True if `addr` is a valid source address (RFC 1122 §3.2.1.3).
#[inline]
fn is_sender(config: &Config, addr: Ipv4Addr) -> bool {
    let hosts = u32::MAX.checked_shr(config.prefix.into()).unwrap_or(0);
    let broadcast = hosts > 1 && addr.to_bits() == config.addr.to_bits() | hosts;
    !(broadcast || addr.is_multicast() || addr.is_broadcast() || addr.is_unspecified() || addr.is_loopback())
}
