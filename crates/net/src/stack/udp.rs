//! UDP sockets: datagrams in by the urgency their label gives them, datagrams out.
//!
//! A socket's receive queue is strict by label, like the receive buffer: when
//! it is full, a more urgent datagram takes the place of the newest of the
//! least urgent. The label is the driver's verdict or what the socket's (or
//! the stack's) transport classifier says. Nothing is unbounded: a socket holds
//! [`UdpOptions::capacity`] datagrams, [`SENDING_MAX`] wait to be sent and
//! [`HELD_MAX`] for a neighbour's hardware address.
//! Source: RFC 768, RFC 1122 §4.1, RFC 8200 §8.1; ADPS §2.1, §2.2.

use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, SocketAddr};

use queueing::{Bytes, Discipline, Entry, Fifo, Label, Priority, Pushed, Strict, Time};

use super::egress::queue_reply;
use super::event::{ListenError, SendError, UdpId};
use super::ip::outgoing::Outgoing;
use super::ip::question;
use super::neighbors::Reach;
use super::{Config, Counters, Stack};
use crate::Device;
use crate::classify::asked::{caught, labelled};
use crate::classify::{FlowContext, FlowState, PacketMeta, Private, TransportClassifier};
use crate::device::Full;
use crate::wire::FourTuple;
use crate::wire::icmp::Cause;
use crate::wire::ip::{Marks, Packet, Protocol};
use crate::wire::udp;

/// Most datagrams that wait to be sent.
pub(super) const SENDING_MAX: usize = 256;
/// Most datagrams that wait for hardware addresses; the oldest makes room.
pub(super) const HELD_MAX: usize = 64;
/// Datagrams that a socket holds unless told otherwise.
const CAPACITY: usize = 256;
/// First port that is chosen for a socket, and how many there are (RFC 6335 §6).
const EPHEMERAL: (u16, u16) = (49_152, 16_384);

/// How a UDP socket is set up.
#[derive(Clone, Default)]
pub struct UdpOptions {
    /// Datagrams that may wait to be read; 0 means 256. Each has at most 65,527 bytes.
    pub capacity: usize,
    /// Says how urgent a datagram is; `None` leaves it to the stack's.
    pub classifier: Option<TransportClassifier>,
    /// How urgent what it sends is: sets the packets' DSCP ([`Config::dscp`]).
    pub label: Label,
}

/// How a datagram is sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SendOptions {
    /// How urgent it is: sets its packet's DSCP ([`Config::dscp`]) where `marks` have none.
    pub label: Label,
    /// What IP says of it.
    pub marks: Marks,
    /// It is not to be cut on its way, which probes for the path's MTU (RFC 8899): what
    /// the link does not take is dropped and counted, and the path may send what it
    /// knows of it.
    pub whole: bool,
}

impl From<Label> for SendOptions {
    fn from(label: Label) -> Self {
        Self { label, ..Self::default() }
    }
}

/// A datagram that came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Datagram {
    /// Who sent it.
    pub remote: SocketAddr,
    /// Which of our addresses it was for.
    pub local: IpAddr,
    /// As it came.
    pub marks: Marks,
    /// Data.
    pub payload: Vec<u8>,
    /// How urgent it is.
    pub label: Label,
    /// When the device received it.
    pub received: Time,
}

impl Entry for Datagram {
    fn label(&self) -> Label {
        self.label
    }

    fn bytes(&self) -> Bytes {
        Bytes::new(self.payload.len() as u64)
    }
}

/// A socket's way to one peer, as a datagram came by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UdpPath {
    /// Our socket.
    pub id: UdpId,
    /// Our address. Unless it is ours alone (a group's, or given up), what is
    /// sent comes from the address that fits the peer.
    pub local: IpAddr,
    /// The peer.
    pub remote: SocketAddr,
}

struct Socket {
    options: UdpOptions,
    queue: Strict<Fifo<Datagram>>,
    /// The most urgent level of which the owner was told, or will be.
    announced: Option<Priority>,
    private: Private,
    received: u64,
    error: Option<(SocketAddr, Cause)>,
}

/// All sockets, and what they send.
#[derive(Default)]
pub(super) struct Udp {
    sockets: BTreeMap<u16, Socket>,
    readable: VecDeque<UdpId>,
    sending: VecDeque<Outgoing>,
    /// Datagrams that wait for an address, and for whose.
    held: VecDeque<(IpAddr, Outgoing)>,
}

impl Udp {
    pub(super) fn wants_egress(&self) -> bool {
        !self.sending.is_empty()
    }

    /// Lets a packet of ours wait to be sent, if there is room.
    pub(super) fn queue(&mut self, packet: Outgoing) {
        if self.sending.len() < SENDING_MAX {
            self.sending.push_back(packet);
        }
    }

    fn hold(&mut self, addr: IpAddr, packet: Outgoing, counters: &mut Counters) {
        if self.held.len() >= HELD_MAX {
            counters.udp_unsent += 1;
            self.held.pop_front();
        }
        self.held.push_back((addr, packet));
    }

    /// What waited for `addr` may go.
    pub(super) fn wake(&mut self, addr: IpAddr) {
        for _ in 0..self.held.len() {
            match self.held.pop_front() {
                Some((waited, packet)) if waited == addr => self.sending.push_back(packet),
                Some(other) => self.held.push_back(other),
                None => {}
            }
        }
    }

    /// What waited for `addr` waits in vain.
    pub(super) fn on_silent(&mut self, addr: IpAddr, counters: &mut Counters) {
        let before = self.held.len();
        self.held.retain(|(waited, _)| *waited != addr);
        counters.udp_unsent += (before - self.held.len()) as u64;
    }

    /// A datagram from our `port` to `remote` was not delivered.
    pub(super) fn on_error(&mut self, port: u16, remote: SocketAddr, cause: Cause) -> bool {
        let socket = self.sockets.get_mut(&port);
        socket.map(|socket| socket.error = Some((remote, cause))).is_some()
    }
}

impl Stack {
    /// Receives datagrams for `port`, in both families; 0 takes a free one.
    ///
    /// # Errors
    /// [`ListenError::PortInUse`]; [`ListenError::PortZero`] when no port is free.
    pub fn bind_udp(&mut self, port: u16, options: UdpOptions) -> Result<UdpId, ListenError> {
        let (first, count) = EPHEMERAL;
        let port = match port {
            0 => {
                let start = self.config.secret[0..2].iter().fold(0, |n, b| n * 256 + u16::from(*b));
                (0..count)
                    .map(|i| first + (start % count + i) % count)
                    .find(|port| !self.udp.sockets.contains_key(port))
                    .ok_or(ListenError::PortZero)?
            }
            port => port,
        };
        if self.udp.sockets.contains_key(&port) {
            return Err(ListenError::PortInUse(port));
        }
        let capacity = if options.capacity == 0 { CAPACITY } else { options.capacity };
        let queue = Strict::new(capacity, |_| Fifo::new(capacity + 1)).with_push_out();
        let socket = Socket { options, queue, announced: None, private: [0; 64], received: 0, error: None };
        self.udp.sockets.insert(port, socket);
        Ok(UdpId(port))
    }

    /// Gives a socket up; what waits in it is forgotten.
    pub fn close_udp(&mut self, id: UdpId) {
        self.udp.sockets.remove(&id.0);
    }

    /// A socket that has something to read and was not named since it was empty,
    /// or since something more urgent came than all that waited.
    #[must_use]
    #[inline]
    pub fn poll_udp(&mut self) -> Option<UdpId> {
        self.udp.readable.pop_front()
    }

    /// The most urgent datagram that waits in `id`.
    pub fn receive_from(&mut self, now: Time, id: UdpId) -> Option<Datagram> {
        let socket = self.udp.sockets.get_mut(&id.0)?;
        let datagram = socket.queue.pop(now);
        socket.announced = socket.announced.filter(|_| datagram.is_some());
        datagram
    }

    /// How urgent the most urgent datagram is that waits in `id`.
    #[must_use]
    pub fn udp_level(&self, id: UdpId) -> Option<Priority> {
        self.udp.sockets.get(&id.0)?.queue.levels_used().first()
    }

    /// The last error about a datagram that `id` sent, and to whom; once.
    pub fn take_udp_error(&mut self, id: UdpId) -> Option<(SocketAddr, Cause)> {
        self.udp.sockets.get_mut(&id.0)?.error.take()
    }

    /// Takes the memory of a datagram's payload back, so that the next needs none.
    pub fn recycle(&mut self, payload: Vec<u8>) {
        self.pool.give(payload);
    }

    /// Sends a datagram from `id` to `remote`, as urgent as the socket is; in pieces when
    /// it is larger than the MTU.
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

    /// Sends a datagram back the way one came.
    ///
    /// # Errors
    /// See [`SendError`].
    pub fn answer(&mut self, path: &UdpPath, options: &SendOptions, payload: &[u8]) -> Result<(), SendError> {
        let UdpPath { id, local, remote } = *path;
        if !self.udp.sockets.contains_key(&id.0) {
            return Err(SendError::NotOpen);
        }
        let source = self.ip.source(&self.config, remote.ip());
        let source = source.map(|source| if self.has(local) { local } else { source });
        self.emit_datagram(id, source, remote, options, payload)
    }

    fn emit_datagram(
        &mut self,
        id: UdpId,
        source: Option<IpAddr>,
        remote: SocketAddr,
        &SendOptions { label, mut marks, whole }: &SendOptions,
        payload: &[u8],
    ) -> Result<(), SendError> {
        let target = remote.ip();
        let datagram = udp::Datagram { source_port: id.0, target_port: remote.port(), payload };
        // IPv4's length counts its header, too.
        let len_max = if target.is_ipv4() { 65_535 - 20 } else { 65_535 };
        if datagram.len() > len_max {
            return Err(SendError::TooLong);
        }
        let source = source.ok_or(SendError::NoRoute)?;
        if self.udp.sending.len() >= SENDING_MAX {
            return Err(SendError::Full);
        }
        if marks.dscp == 0 {
            marks.dscp = self.config.dscp_of(label.priority);
        }
        let mut payload = self.pool.take(datagram.len());
        payload.resize(datagram.len(), 0);
        datagram.emit(source, target, &mut payload);
        let ident = self.ip.idents.next(&self.config.secret, source, target);
        let (mac, protocol) = ([0; 6], Protocol::Udp);
        let sent = 0;
        let packet = Outgoing { mac, source, target, protocol, marks, whole, payload, ident, sent };
        self.udp.sending.push_back(packet);
        Ok(())
    }

    /// Sends datagrams until none waits or the device is full.
    pub(super) fn send_datagrams<D: Device>(&mut self, now: Time, device: &mut D) -> Result<(), Full> {
        while let Some(mut packet) = self.udp.sending.pop_front() {
            if packet.mac == [0; 6] {
                let Some(hop) = self.ip.next_hop(&self.config, packet.target) else {
                    self.counters.udp_unsent += 1;
                    continue;
                };
                if self.ip.holds_back(packet.source) {
                    self.udp.hold(packet.source, packet, &mut self.counters);
                    continue;
                }
                let reach = self.neighbors.reach(now, hop);
                if matches!(reach, Reach::Ask | Reach::Refresh(_)) {
                    self.watch_ip_clock();
                    if let Some(question) = question(&self.config, &self.ip, hop) {
                        queue_reply(&mut self.replies, &mut self.counters, question);
                    }
                }
                let (Reach::Known(mac) | Reach::Refresh(mac)) = reach else {
                    self.udp.hold(hop, packet, &mut self.counters);
                    continue;
                };
                packet.mac = mac;
            }
            let mtu = match packet.whole {
                true => self.ip.link_mtu(&self.config, packet.target),
                false => self.ip.mtu(now, &self.config, packet.target),
            };
            if packet.whole && !packet.fits(mtu) {
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
                    self.udp.sending.push_front(packet);
                    return Err(Full);
                }
            }
        }
        Ok(())
    }

    /// A datagram for us came in `packet`; `false` when nobody listens on its port.
    pub(super) fn on_datagram(
        &mut self,
        now: Time,
        packet: &Packet<'_>,
        datagram: &udp::Datagram<'_>,
        meta: &PacketMeta,
    ) -> bool {
        let Some(socket) = self.udp.sockets.get_mut(&datagram.target_port) else { return false };
        let Packet { source, target, marks, .. } = *packet;
        let tuple = FourTuple {
            local: target,
            local_port: datagram.target_port,
            remote: source,
            remote_port: datagram.source_port,
        };
        socket.received += datagram.payload.len() as u64;
        let Some(label) = socket.label(&self.config, &mut self.counters, &tuple, datagram.payload, meta)
        else {
            self.counters.classifier_drops += 1;
            return true;
        };
        let mut payload = self.pool.take(datagram.payload.len());
        payload.extend_from_slice(datagram.payload);
        let remote = SocketAddr::new(source, datagram.source_port);
        let entry = Datagram { remote, local: target, marks, payload, label, received: meta.received };
        self.counters.udp_received += 1;
        match socket.queue.push(now, entry) {
            Pushed::Queued => {}
            Pushed::Refused(entry) | Pushed::PushedOut(entry) => {
                self.counters.udp_full += 1;
                self.pool.give(entry.payload);
            }
        }
        if socket.announced.is_none_or(|told| label.priority < told) {
            socket.announced = Some(label.priority);
            self.udp.readable.push_back(UdpId(datagram.target_port));
        }
        true
    }
}

impl Socket {
    /// How urgent a datagram is; `None` to drop it.
    fn label(
        &mut self,
        config: &Config,
        counters: &mut Counters,
        tuple: &FourTuple,
        payload: &[u8],
        meta: &PacketMeta,
    ) -> Option<Label> {
        let given = Label::new(meta.priority.unwrap_or_default());
        let own = self.options.classifier.take();
        let Some(classifier) = own.as_ref().or(config.classifier.as_ref()) else { return Some(given) };
        let flow = FlowState { received: Bytes::new(self.received), ..FlowState::default() };
        let private = &mut self.private;
        let now = meta.received;
        let (app, memory, successor) = (None, None, None);
        let mut context = FlowContext { now, meta, payload, tuple, flow, private, app, memory, successor };
        let verdict = caught(&mut counters.classifier_panics, || classifier(&mut context));
        let successor = context.successor.take();
        self.options.classifier = successor.or(own);
        labelled(counters, given, verdict)
    }
}
