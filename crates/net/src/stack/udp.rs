//! UDP sockets: datagrams received in order of priority. Sending is in [`output`].
//!
//! A socket's receive queue is strict by label, like the receive buffer: when it is full, a more
//! urgent datagram replaces the newest of the lowest level. The label is the driver's verdict,
//! unless the transport classifier of the socket (or the stack) sets one. A socket holds at most
//! [`UdpOptions::capacity`] datagrams.
//!
//! Source: RFC 768, RFC 1122 §4.1; ADPS §2.1, §2.2.

use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, SocketAddr};

use classify::catch_panic::{apply_verdict, catch};
use classify::{FlowContext, FlowState, PacketMeta, Private, TransportClassifier};
use queueing::{Bytes, Discipline, Entry, Fifo, Label, Priority, PushResult, Strict, Time};
use wire::FourTuple;
use wire::icmp::Cause;
use wire::ip::{Packet, TrafficClass};
use wire::udp;

use super::event::{ListenError, UdpId};
use super::{Config, Counters, Stack};

mod output;

use output::Outbox;
pub use output::{SendOptions, UdpPath};

/// Default capacity of a socket's receive queue, in datagrams.
const CAPACITY: usize = 256;
/// First ephemeral port of sockets, and their number (RFC 6335 §6).
const EPHEMERAL: (u16, u16) = (49_152, 16_384);

/// Configuration of a UDP socket.
#[derive(Clone, Default)]
pub struct UdpOptions {
    /// Receive queue capacity in datagrams; 0 means 256. Each has at most 65,527 bytes.
    pub capacity: usize,
    /// Classifier of received datagrams; `None` uses the stack's.
    pub classifier: Option<TransportClassifier>,
    /// Priority of sent datagrams: sets the packets' DSCP ([`Config::dscp`]).
    pub label: Label,
}

/// A received datagram.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UdpDatagram {
    /// Sender.
    pub remote: SocketAddr,
    /// Local address that received it.
    pub local: IpAddr,
    /// DSCP and ECN as received.
    pub marks: TrafficClass,
    /// Hop limit as received.
    pub hops: u8,
    /// Data.
    pub payload: Vec<u8>,
    /// Priority and budget.
    pub label: Label,
    /// Time at which the device received it.
    pub received: Time,
}

impl Entry for UdpDatagram {
    fn label(&self) -> Label {
        self.label
    }

    fn bytes(&self) -> Bytes {
        Bytes::new(self.payload.len() as u64)
    }
}

struct Socket {
    options: UdpOptions,
    queue: Strict<Fifo<UdpDatagram>>,
    /// Highest priority that was reported to the owner or is queued to be.
    announced: Option<Priority>,
    private: Private,
    received: u64,
    error: Option<(SocketAddr, Cause)>,
}

/// All UDP sockets and their send queue.
#[derive(Default)]
pub(super) struct Udp {
    sockets: BTreeMap<u16, Socket>,
    readable: VecDeque<UdpId>,
    pub(super) outbox: Outbox,
}

impl Udp {
    /// Records that a datagram from local `port` to `remote` was not delivered; `false` without a
    /// socket.
    pub(super) fn on_error(&mut self, port: u16, remote: SocketAddr, cause: Cause) -> bool {
        let socket = self.sockets.get_mut(&port);
        socket.map(|socket| socket.error = Some((remote, cause))).is_some()
    }
}

impl Stack {
    /// Binds a socket to `port`, in both families; 0 selects a free port.
    ///
    /// # Errors
    /// [`ListenError::PortInUse`]; [`ListenError::PortZero`] if no port is free.
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

    /// Closes a socket and discards its queue.
    pub fn close_udp(&mut self, id: UdpId) {
        self.udp.sockets.remove(&id.0);
    }

    /// The next socket that became readable, or that received a datagram more urgent than all that
    /// wait there.
    #[must_use]
    #[inline]
    pub fn poll_udp(&mut self) -> Option<UdpId> {
        self.udp.readable.pop_front()
    }

    /// Removes and returns the most urgent datagram of `id`.
    pub fn receive_from(&mut self, now: Time, id: UdpId) -> Option<UdpDatagram> {
        let socket = self.udp.sockets.get_mut(&id.0)?;
        let datagram = socket.queue.pop(now);
        socket.announced = socket.announced.filter(|_| datagram.is_some());
        datagram
    }

    /// Priority of the most urgent datagram of `id`.
    #[must_use]
    pub fn udp_level(&self, id: UdpId) -> Option<Priority> {
        self.udp.sockets.get(&id.0)?.queue.levels_used().first()
    }

    /// Last error about a datagram that `id` sent, and its destination; cleared by the call.
    pub fn take_udp_error(&mut self, id: UdpId) -> Option<(SocketAddr, Cause)> {
        self.udp.sockets.get_mut(&id.0)?.error.take()
    }

    /// Returns the memory of a datagram's payload to the pool.
    pub fn recycle(&mut self, payload: Vec<u8>) {
        self.pool.give(payload);
    }

    /// Delivers `datagram` of `packet`; `false` if no socket has its port.
    pub(super) fn on_datagram(
        &mut self,
        now: Time,
        packet: &Packet<'_>,
        datagram: &udp::Datagram<'_>,
        meta: &PacketMeta,
    ) -> bool {
        let Some(socket) = self.udp.sockets.get_mut(&datagram.target_port) else { return false };
        let Packet { source, target, marks, hops, .. } = *packet;
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
        let received = meta.received;
        let entry = UdpDatagram { remote, local: target, marks, hops, payload, label, received };
        self.counters.udp_received += 1;
        match socket.queue.push(now, entry) {
            PushResult::Queued => {}
            PushResult::Refused(entry) | PushResult::PushedOut(entry) => {
                self.counters.udp_full += 1;
                self.pool.give(entry.payload);
            }
        }
        if socket.announced.is_none_or(|announced| label.priority < announced) {
            socket.announced = Some(label.priority);
            self.udp.readable.push_back(UdpId(datagram.target_port));
        }
        true
    }
}

impl Socket {
    /// Label of a datagram; `None` drops it.
    fn label(
        &mut self,
        config: &Config,
        counters: &mut Counters,
        tuple: &FourTuple,
        payload: &[u8],
        meta: &PacketMeta,
    ) -> Option<Label> {
        let driver_label = Label::new(meta.priority.unwrap_or_default());
        let own = self.options.classifier.take();
        let Some(classifier) = own.as_ref().or(config.classifier.as_ref()) else { return Some(driver_label) };
        let flow = FlowState { received: Bytes::new(self.received), ..FlowState::default() };
        let private = &mut self.private;
        let now = meta.received;
        let (app, memory, successor) = (None, None, None);
        let mut context = FlowContext { now, meta, payload, tuple, flow, private, app, memory, successor };
        let verdict = catch(&mut counters.classifier_panics, || classifier(&mut context));
        let successor = context.successor.take();
        self.options.classifier = successor.or(own);
        apply_verdict(&mut counters.classifier_out_of_range, driver_label, verdict)
    }
}
