//! UDP output: datagrams sent whole or fragmented, once the next hop's address is resolved.
//!
//! At most [`SENDING_MAX`] datagrams wait to be sent and [`HELD_MAX`] for a neighbour's hardware
//! address.
//!
//! Source: RFC 768, RFC 8200 §8.1; marks RFC 2474, RFC 3168; probes RFC 8899.

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};

use queueing::{Label, Time};
use wire::ip::{Protocol, TrafficClass};
use wire::udp;

use crate::Device;
use crate::device::Full;
use crate::stack::egress::queue_reply;
use crate::stack::event::{SendError, UdpId};
use crate::stack::ip::output::Outgoing;
use crate::stack::ip::question;
use crate::stack::neighbors::Resolution;
use crate::stack::{Counters, Stack};

/// Maximum number of datagrams that wait to be sent.
const SENDING_MAX: usize = 256;
/// Maximum number of datagrams that wait for address resolution; a further one evicts the oldest.
const HELD_MAX: usize = 64;

/// Options of sending a datagram.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SendOptions {
    /// Priority: sets the packet's DSCP ([`Config::dscp`](crate::stack::Config::dscp)) unless
    /// `marks` do.
    pub label: Label,
    /// DSCP and ECN of its packet.
    pub marks: TrafficClass,
    /// True if it must not be fragmented, as a probe of the path MTU (RFC 8899). It is dropped and
    /// counted if it exceeds the link MTU; the cached path MTU does not apply.
    pub dont_fragment: bool,
    /// Hop limit; `None` is the default.
    pub hops: Option<u8>,
}

impl From<Label> for SendOptions {
    fn from(label: Label) -> Self {
        Self { label, ..Self::default() }
    }
}

/// Path of a socket to one peer, as of a received datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UdpPath {
    /// Local socket.
    pub id: UdpId,
    /// Local address. Unless it is a unicast address of the peer's family that this host still has,
    /// the source address of sent datagrams is chosen by the peer.
    pub local: IpAddr,
    /// Address of the peer.
    pub remote: SocketAddr,
}

/// Send queue of datagrams.
#[derive(Default)]
pub(in crate::stack) struct Outbox {
    waiting: VecDeque<Outgoing>,
    /// Datagrams that wait for the resolution of an address.
    held: VecDeque<(IpAddr, Outgoing)>,
}

impl Outbox {
    pub(in crate::stack) fn wants_egress(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Queues a packet for sending, unless the queue is full.
    pub(in crate::stack) fn queue(&mut self, packet: Outgoing, counters: &mut Counters) {
        if self.waiting.len() < SENDING_MAX {
            self.waiting.push_back(packet);
        } else {
            counters.udp_unsent += 1;
        }
    }

    fn hold(&mut self, addr: IpAddr, packet: Outgoing, counters: &mut Counters) {
        if self.held.len() >= HELD_MAX {
            counters.udp_unsent += 1;
            self.held.pop_front();
        }
        self.held.push_back((addr, packet));
    }

    /// Queues datagrams that waited for `addr` for sending.
    pub(in crate::stack) fn wake(&mut self, addr: IpAddr) {
        for _ in 0..self.held.len() {
            match self.held.pop_front() {
                Some((waited, packet)) if waited == addr => self.waiting.push_back(packet),
                Some(other) => self.held.push_back(other),
                None => {}
            }
        }
    }

    /// Discards datagrams that waited for `addr`.
    pub(in crate::stack) fn on_silent(&mut self, addr: IpAddr, counters: &mut Counters) {
        let before = self.held.len();
        self.held.retain(|(waited, _)| *waited != addr);
        counters.udp_unsent += (before - self.held.len()) as u64;
    }
}

impl Stack {
    /// Sends a datagram from `id` to `remote` with the socket's priority; fragmented if it exceeds
    /// the MTU.
    ///
    /// # Errors
    /// See [`SendError`].
    pub fn send_to(
        &mut self,
        now: Time,
        id: UdpId,
        remote: SocketAddr,
        payload: &[u8],
    ) -> Result<(), SendError> {
        let _ = now;
        let socket = self.udp.sockets.get(&id.0).ok_or(SendError::NotOpen)?;
        let options = socket.options.label.into();
        let source = self.ip.source(&self.config, remote.ip());
        self.emit_datagram(id, source, remote, &options, payload)
    }

    /// Sends a datagram back along the path of a received one.
    ///
    /// # Errors
    /// See [`SendError`].
    pub fn answer(&mut self, path: &UdpPath, options: &SendOptions, payload: &[u8]) -> Result<(), SendError> {
        let UdpPath { id, local, remote } = *path;
        if !self.udp.sockets.contains_key(&id.0) {
            return Err(SendError::NotOpen);
        }
        let source = self.ip.source(&self.config, remote.ip());
        let is_usable = local.is_ipv4() == remote.is_ipv4() && self.has(local);
        let source = source.map(|source| if is_usable { local } else { source });
        self.emit_datagram(id, source, remote, options, payload)
    }

    fn emit_datagram(
        &mut self,
        id: UdpId,
        source: Option<IpAddr>,
        remote: SocketAddr,
        &SendOptions { label, mut marks, dont_fragment, hops }: &SendOptions,
        payload: &[u8],
    ) -> Result<(), SendError> {
        let target = remote.ip();
        let datagram = udp::Datagram { source_port: id.0, target_port: remote.port(), payload };
        // The length field of IPv4 includes the header.
        let len_max = if target.is_ipv4() { 65_535 - 20 } else { 65_535 };
        if datagram.len() > len_max {
            return Err(SendError::TooLong);
        }
        let source = source.ok_or(SendError::NoRoute)?;
        if self.udp.outbox.waiting.len() >= SENDING_MAX {
            return Err(SendError::Full);
        }
        if marks.dscp == 0 {
            marks.dscp = self.config.dscp_of(label.priority);
        }
        let mut payload = self.pool.take(datagram.len());
        payload.resize(datagram.len(), 0);
        datagram.emit(source, target, &mut payload);
        let ident = self.ip.idents.next(&self.config.secret, source, target);
        let (mac, protocol, sent) = ([0; 6], Protocol::Udp, 0);
        let hops = hops.unwrap_or(protocol.hops());
        let packet =
            Outgoing { mac, source, target, protocol, marks, hops, dont_fragment, payload, ident, sent };
        self.udp.outbox.waiting.push_back(packet);
        Ok(())
    }

    /// Sends queued datagrams until none is left or the device is full.
    pub(in crate::stack) fn send_datagrams<D: Device>(
        &mut self,
        now: Time,
        device: &mut D,
    ) -> Result<(), Full> {
        while let Some(mut packet) = self.udp.outbox.waiting.pop_front() {
            if packet.mac == [0; 6] {
                let Some(hop) = self.ip.next_hop(&self.config, packet.target) else {
                    self.counters.udp_unsent += 1;
                    continue;
                };
                if self.ip.holds_back(packet.source) {
                    self.udp.outbox.hold(packet.source, packet, &mut self.counters);
                    continue;
                }
                let reach = self.neighbors.reach(now, hop);
                if matches!(reach, Resolution::Ask | Resolution::Refresh(_)) {
                    self.watch_ip_clock();
                    if let Some(question) = question(&self.config, &self.ip, hop) {
                        queue_reply(&mut self.replies, &mut self.counters, question);
                    }
                }
                let (Resolution::Known(mac) | Resolution::Refresh(mac)) = reach else {
                    self.udp.outbox.hold(hop, packet, &mut self.counters);
                    continue;
                };
                packet.mac = mac;
            }
            let mtu = match packet.dont_fragment {
                true => self.ip.link_mtu(&self.config, packet.target),
                false => self.ip.mtu(now, &self.config, packet.target),
            };
            if packet.dont_fragment && !packet.fits(mtu) {
                self.counters.udp_unsent += 1;
                self.pool.give(packet.payload);
                continue;
            }
            match packet.transmit(now, device, self.config.mac, mtu) {
                Ok(packets) => {
                    self.counters.frames_sent += packets;
                    self.counters.udp_sent += 1;
                    self.pool.give(packet.payload);
                }
                Err(Full) => {
                    self.udp.outbox.waiting.push_front(packet);
                    return Err(Full);
                }
            }
        }
        Ok(())
    }
}
