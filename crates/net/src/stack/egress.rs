//! Output of frames: replies first, then connections, each with a transmit opportunity of a few
//! segments, in the order of [`tx_scheduler`](super::tx_scheduler).

use std::collections::VecDeque;
use std::net::IpAddr;

use queueing::Time;
use wire::ethernet::{self, BROADCAST, EtherType, Mac};
use wire::ip::{self, Protocol, TrafficClass};
use wire::tcp::{Flags, Options, Segment, Seq};
use wire::{FourTuple, arp, ipv4};

use super::ip::output::Outgoing;
use super::ip::question;
use super::neighbors::Resolution;
use super::tx_scheduler::TxTurn;
use super::{Counters, HopLimits, Stack};
use crate::Device;
use crate::device::Full;
use crate::tcp::Connection;

/// Capacity of the reply queue; further replies are dropped.
pub(super) const REPLIES_MAX: usize = 256;
/// Frame that the stack sends outside of any connection.
#[derive(Debug)]
pub(super) enum Reply {
    /// An ARP request or reply.
    Arp(arp::Packet),
    /// A reply of the network layer.
    Packet(Outgoing),
    /// A segment without data: a reset, or a stateless SYN-ACK.
    Segment {
        mac: Mac,
        tuple: FourTuple,
        seq: Seq,
        ack: Seq,
        flags: Flags,
        window: u16,
        options: Options,
        hops: u8,
    },
}

impl Reply {
    /// A reset for no connection.
    pub(super) fn reset(
        mac: Mac,
        tuple: FourTuple,
        seq: Seq,
        ack: Seq,
        flags: Flags,
        options: Options,
    ) -> Self {
        let hops = HopLimits::default().sent;
        Self::Segment { mac, tuple, seq, ack, flags, window: 0, options, hops }
    }

    /// A packet to a known hardware address.
    pub(super) fn packet(
        mac: Mac,
        source: IpAddr,
        target: IpAddr,
        protocol: Protocol,
        payload: Vec<u8>,
    ) -> Self {
        let marks = TrafficClass::default();
        let (dont_fragment, ident, sent, hops) = (false, 0, 0, protocol.hops());
        let packet =
            Outgoing { mac, source, target, protocol, marks, hops, dont_fragment, payload, ident, sent };
        Self::Packet(packet)
    }
}

impl Stack {
    /// Sends due frames until none is left or the device is full. Returns the frames sent.
    pub fn egress<D: Device>(&mut self, now: Time, device: &mut D) -> usize {
        self.owe_waiting_acks(now, self.waiting_acks.len());
        self.send_due(now, device)
    }

    /// As [`Stack::egress`], for an owner with further work in this poll: pure acknowledgements
    /// wait until the next call, so that a response may carry them. An owner that goes idle calls
    /// [`Stack::egress`], which sends them.
    pub fn egress_early<D: Device>(&mut self, now: Time, device: &mut D) -> usize {
        self.owe_waiting_acks(now, self.waiting_acks_aged);
        self.waiting_acks_aged = self.waiting_acks.len();
        self.send_due(now, device)
    }

    /// Ends the wait of the acknowledgements of the first `n` connections.
    fn owe_waiting_acks(&mut self, now: Time, n: usize) {
        for _ in 0..n {
            let Some(index) = self.waiting_acks.pop_front() else { break };
            let Some((_, connection)) = self.flows.at(index) else { continue };
            connection.flags.ack_listed = false;
            if std::mem::take(&mut connection.flags.ack_waits) {
                connection.acks_due = connection.acks_due.max(1);
                self.ready.enqueue(now, connection, index);
            }
        }
        self.waiting_acks_aged = 0;
    }

    /// Enlarges windows that were reduced for lack of memory.
    #[inline]
    fn restore_windows(&mut self, now: Time) {
        while let Some(index) = self.pool.next_shortened() {
            let Some((_, connection)) = self.flows.at(index).filter(|(_, c)| !c.state.is_ending()) else {
                continue;
            };
            connection.restore_window(&self.config);
            self.ready.enqueue(now, connection, index);
        }
    }

    fn send_due<D: Device>(&mut self, now: Time, device: &mut D) -> usize {
        let before = self.counters.frames_sent;
        self.restore_windows(now);
        let mut has_space = self.replies.is_empty() || self.send_replies(now, device).is_ok();
        has_space =
            has_space && (!self.udp.outbox.wants_egress() || self.send_datagrams(now, device).is_ok());
        while has_space {
            let flows = &mut self.flows;
            let Some(mut turn) = self.ready.next(now, |index| flows.tx_links(index)) else {
                self.ready.caught_up();
                break;
            };
            if !turn.acks_only && self.transmit_fast_path(now, device, turn.index) {
                continue;
            }
            if self.send_turn(now, device, &mut turn).is_err() {
                self.ready.suspend(turn);
                has_space = false;
            }
        }
        if has_space && !self.replies.is_empty() {
            // Connections may have queued address resolution requests.
            let _ = self.send_replies(now, device);
        }
        device.flush(now);
        (self.counters.frames_sent - before) as usize
    }

    /// Sends within a connection's transmit opportunity; a connection with more to send is queued
    /// again.
    #[inline(never)]
    fn send_turn<D: Device>(&mut self, now: Time, device: &mut D, turn: &mut TxTurn) -> Result<(), Full> {
        let index = turn.index;
        let Some((id, connection)) = self.flows.at(index) else { return Ok(()) };
        // Data carries the acknowledgement, unless the data has to wait.
        if turn.acks_only && connection.wants_data() && !self.ready.is_behind() {
            return Ok(());
        }
        let (config, acks_only) = (&self.config, turn.acks_only);
        let next = |connection: &Connection| {
            if acks_only { connection.plan_ack() } else { connection.plan(now, config) }
        };
        let mut plan = next(connection);
        let mut sent = Ok(());
        if plan.is_some() {
            let FourTuple { local, remote, .. } = connection.tuple;
            let Some(hop) = self.ip.next_hop(config, remote) else {
                self.park(now, None, index);
                return Ok(());
            };
            if self.ip.holds_back(local) {
                self.park(now, Some(local), index);
                return Ok(());
            }
            let reach = self.neighbors.reach(now, hop);
            if matches!(reach, Resolution::Ask | Resolution::Refresh(_)) {
                self.ip.due = self.ip.due.min(self.neighbors.deadline());
                if let Some(question) = question(config, &self.ip, hop) {
                    queue_reply(&mut self.replies, &mut self.counters, question);
                }
            }
            let (Resolution::Known(mac) | Resolution::Refresh(mac)) = reach else {
                self.park(now, Some(hop), index);
                return Ok(());
            };
            if matches!(reach, Resolution::Refresh(_)) && connection.retries > 0 && !connection.flags.parked {
                // The cached address may be stale: the connection sends again once resolution
                // reports a new one.
                connection.flags.parked = self.neighbors.park(hop, id);
            }
            let together = device.offloads().tx_segmentation;
            while let Some(going) = plan
                && turn.left > 0
            {
                let going = if together { connection.together(going, turn.left, &self.pool) } else { going };
                let size = (going.segments > 1).then_some(connection.mss);
                let edge = connection.edge();
                let segment = connection.segment(&going, edge, now, config);
                let dscp = connection.transmit.dscp(config);
                let ecn = connection.mark(&going);
                let hops = connection.hops.sent;
                let envelope =
                    Envelope { dscp, ecn, hops, ..Envelope::of(config.mac, mac, &connection.tuple) };
                sent = envelope.transmit_segment(now, device, &segment, size);
                if sent.is_err() {
                    break;
                }
                turn.left -= going.segments;
                self.counters.frames_sent += 1;
                self.counters.retransmissions += u64::from(going.retransmitted);
                self.counters.probes += u64::from(going.probe);
                connection.transmitted(&going, edge, now, config, &mut self.pool);
                plan = if connection.wants_output() { next(connection) } else { None };
            }
        }
        match plan {
            None if turn.acks_only => {}
            None => connection.wait_for_window(now, config),
            Some(_) if sent.is_ok() => self.ready.enqueue(now, connection, index),
            Some(_) => {}
        }
        super::set_timer(&mut self.timers, connection, config, index);
        sent
    }

    /// Suspends a connection until `addr` is resolved; its timer keeps running.
    fn park(&mut self, now: Time, addr: Option<IpAddr>, index: u32) {
        let Some((id, connection)) = self.flows.at(index) else { return };
        if let Some(addr) = addr
            && !connection.flags.parked
        {
            connection.flags.parked = self.neighbors.park(addr, id);
        }
        connection.arm(now, &self.config);
        super::set_timer(&mut self.timers, connection, &self.config, index);
    }

    fn send_replies<D: Device>(&mut self, now: Time, device: &mut D) -> Result<(), Full> {
        while let Some(reply) = self.replies.front_mut() {
            let mtu = match reply {
                Reply::Packet(packet) => self.ip.mtu(now, &self.config, packet.target),
                _ => self.config.mtu,
            };
            self.counters.frames_sent += transmit_reply(now, device, self.config.mac, mtu, reply)?;
            if let Some(Reply::Packet(packet)) = self.replies.pop_front() {
                self.pool.give(packet.payload);
            }
        }
        Ok(())
    }
}

/// Queues `reply` for egress, unless the queue is full.
pub(super) fn queue_reply(replies: &mut VecDeque<Reply>, counters: &mut Counters, reply: Reply) {
    if replies.len() < REPLIES_MAX {
        replies.push_back(reply);
    } else {
        counters.replies_dropped += 1;
    }
}

/// Sends `reply`; returns the number of packets.
fn transmit_reply<D: Device>(
    now: Time,
    device: &mut D,
    source_mac: Mac,
    mtu: u16,
    reply: &mut Reply,
) -> Result<u64, Full> {
    match reply {
        Reply::Packet(packet) => return packet.transmit(now, device, source_mac, mtu),
        Reply::Arp(packet) => {
            let request = packet.operation == arp::Operation::Request;
            let target = if request { BROADCAST } else { packet.target_mac };
            device.transmit(now, ethernet::HEADER_LEN + arp::LEN, &mut |buf| {
                ethernet::emit_header(buf, target, source_mac, EtherType::Arp);
                packet.emit(&mut buf[ethernet::HEADER_LEN..]);
            })
        }
        Reply::Segment { mac, tuple, seq, ack, flags, window, options, hops } => {
            let segment = Segment {
                source_port: tuple.local_port,
                target_port: tuple.remote_port,
                seq: *seq,
                ack: *ack,
                flags: *flags,
                window: *window,
                options: *options,
                payload: &[],
            };
            let envelope = Envelope { hops: *hops, ..Envelope::of(source_mac, *mac, tuple) };
            envelope.transmit_segment(now, device, &segment, None)
        }
    }?;
    Ok(1)
}

/// Varying fields of a packet's Ethernet and IP headers.
struct Envelope<'a> {
    source_mac: Mac,
    target_mac: Mac,
    source: &'a IpAddr,
    target: &'a IpAddr,
    protocol: Protocol,
    dscp: u8,
    ecn: u8,
    hops: u8,
}

impl<'a> Envelope<'a> {
    /// Headers of a segment of `tuple`, without DSCP and ECN and with the default hop limit.
    #[inline]
    fn of(source_mac: Mac, target_mac: Mac, tuple: &'a FourTuple) -> Self {
        let FourTuple { local: source, remote: target, .. } = tuple;
        let (protocol, dscp, ecn, hops) = (Protocol::Tcp, 0, 0, ip::HOPS);
        Self { source_mac, target_mac, source, target, protocol, dscp, ecn, hops }
    }

    /// Sends a packet of `payload_len` bytes, which `fill` writes, segmented by the device at
    /// `size` if given.
    fn transmit<D: Device>(
        &self,
        now: Time,
        device: &mut D,
        payload_len: usize,
        size: Option<u16>,
        fill: impl Fn(&mut [u8]),
    ) -> Result<(), Full> {
        let Self { protocol, dscp, ecn, hops, .. } = *self;
        let (source, target) = (*self.source, *self.target);
        let header = ip::Header { source, target, protocol, dscp, ecn, hops, payload_len };
        let kind = if header.target.is_ipv4() { EtherType::Ipv4 } else { EtherType::Ipv6 };
        let start = ethernet::HEADER_LEN + header.len();
        transmit(now, device, start + payload_len, size, &mut |buf| {
            ethernet::emit_header(buf, self.target_mac, self.source_mac, kind);
            header.emit(&mut buf[ethernet::HEADER_LEN..]);
            fill(&mut buf[start..]);
        })
    }

    /// Sends `segment`, segmented by the device at `size` if given; branches once on the address
    /// family.
    #[inline]
    fn transmit_segment<D: Device>(
        &self,
        now: Time,
        device: &mut D,
        segment: &Segment<'_>,
        size: Option<u16>,
    ) -> Result<(), Full> {
        let payload_len = segment.header_len() + segment.payload.len();
        let offloaded = size.is_some() || device.offloads().tx_checksum;
        let (&IpAddr::V4(source), &IpAddr::V4(target)) = (self.source, self.target) else {
            let (source, target) = (*self.source, *self.target);
            return self.transmit(now, device, payload_len, size, |buf| match offloaded {
                false => segment.emit(source, target, buf),
                true => segment.emit_partial(source, target, buf),
            });
        };
        const START: usize = ethernet::HEADER_LEN + ipv4::HEADER_LEN;
        let Self { protocol, dscp, ecn, hops: ttl, .. } = *self;
        let header = &ipv4::Header { source, target, protocol, dscp, ecn, ttl, payload_len };
        // The closure captures few references: it is called through a pointer.
        transmit(now, device, START + payload_len, size, &mut |buf| {
            ethernet::emit_header(buf, self.target_mac, self.source_mac, EtherType::Ipv4);
            header.emit(&mut buf[ethernet::HEADER_LEN..]);
            match offloaded {
                false => segment.emit(header.source, header.target, &mut buf[START..]),
                true => segment.emit_partial(header.source, header.target, &mut buf[START..]),
            }
        })
    }
}

/// Sends a frame, segmented by the device at `size` if given.
#[inline]
fn transmit<D: Device>(
    now: Time,
    device: &mut D,
    len: usize,
    size: Option<u16>,
    fill: &mut dyn FnMut(&mut [u8]),
) -> Result<(), Full> {
    match size {
        None => device.transmit(now, len, fill),
        Some(size) => device.transmit_cut(now, len, size, fill),
    }
}
