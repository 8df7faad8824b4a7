//! Datagrams of application sockets. Received ones wait in the stack, the most urgent first, until
//! their socket has space. A datagram to a peer that sent first has the level of the peer's last
//! one; any other is read like a request (`calls`).
//!
//! Ports and sockets are served among the connections of their level, up to [`DATAGRAMS_PER_POLL`]
//! datagrams each; one send call with segments (UDP_SEGMENT) counts as one. Datagrams of one length
//! from one peer are delivered at once to a socket that wants it (UDP_GRO). Bounds: received
//! datagrams wait in the stack's queue of their port, strict by label and bounded, besides those of
//! one poll that found the socket full. Sent datagrams wait in their socket, besides those of one
//! send call that found the stack full. Where several sockets share a port, a full one does not
//! delay the others: its datagrams are dropped and counted. A drop is not reported to the program,
//! but a connected socket gets an error if its peer's port is unreachable.
//! Source: ADR 0049.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::SocketAddr;

use net::Device;
use net::stack::{SendError, SendOptions, UdpDatagram, UdpId, UdpOptions, UdpPath, Unreachable};
use queueing::{Label, Priority, Time};

use super::calls::Outgoing;
use super::flow::QueueEntry;
use super::{AppSockets, COLLECTED_MAX, DeliveryResult, OutgoingDatagram, SocketProxy};

/// Maximum of datagrams of a port or a socket per poll.
pub const DATAGRAMS_PER_POLL: usize = 32;
/// Maximum of bytes delivered at once: the payload of the longest datagram over IPv4.
const RUN_BYTES_MAX: usize = 65_507;

/// UDP state of the proxy; at most one entry per application socket.
#[derive(Default)]
pub(super) struct Datagrams {
    ports: BTreeMap<u16, Port>,
    senders: BTreeMap<u64, Sender>,
    /// Sockets whose datagrams found the stack full.
    blocked: BTreeSet<u64>,
    /// ICMP errors handled so far.
    errors: u64,
}

/// A port to which application sockets are bound.
#[derive(Default)]
struct Port {
    /// Level on which the port is queued.
    queued: Option<Priority>,
    /// Datagrams that found the socket full: a run, and one received before that was known.
    held: VecDeque<Run>,
}

/// State of a socket that has sent or received.
#[derive(Default)]
struct Sender {
    peers: Peers,
    /// Most urgent level delivered or sent since the socket had no output; `None`: the level of its
    /// next output is unknown.
    level: Option<Priority>,
    queued: Option<Priority>,
    /// Datagrams that found the stack full.
    unsent: Option<Unsent>,
}

/// Recent peers of a socket. Bound: twice [`PEERS_MAX`]; the least recently used half is forgotten.
#[derive(Default)]
pub(super) struct Peers {
    recent: BTreeMap<SocketAddr, Peer>,
    older: BTreeMap<SocketAddr, Peer>,
}

/// The side of a peer.
#[derive(Clone, Copy)]
pub(super) enum Peer {
    /// It sent first; level of its last datagram.
    Client(Priority),
    /// It was sent to first.
    Server,
}

/// Peers of a socket that are remembered at least.
pub(super) const PEERS_MAX: usize = 512;

impl Peers {
    pub(super) fn get(&self, peer: SocketAddr) -> Option<Peer> {
        self.recent.get(&peer).or_else(|| self.older.get(&peer)).copied()
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.recent.len() + self.older.len()
    }

    fn set(&mut self, peer: SocketAddr, side: Peer) {
        if self.recent.len() >= PEERS_MAX && !self.recent.contains_key(&peer) {
            self.older = std::mem::take(&mut self.recent);
        }
        self.recent.insert(peer, side);
    }

    /// Records a datagram from `peer` at `level`.
    pub(super) fn on_received(&mut self, peer: SocketAddr, level: Priority) {
        let side = match self.get(peer) {
            Some(Peer::Server) => Peer::Server,
            _ => Peer::Client(level),
        };
        self.set(peer, side);
    }
}

/// Datagrams delivered at once: each of the first one's length, the last possibly shorter.
struct Run {
    all: UdpDatagram,
    segment: usize,
    count: usize,
}

impl Run {
    fn of(datagram: UdpDatagram) -> Self {
        Self { segment: datagram.payload.len(), all: datagram, count: 1 }
    }

    /// True if `next` can be appended.
    fn takes(&self, next: &UdpDatagram) -> bool {
        let Self { all, segment, count } = self;
        let same = |of: &UdpDatagram| (of.remote, of.local, of.marks, of.hops, of.label.priority);
        let len = next.payload.len();
        same(all) == same(next)
            && all.payload.len() == segment * count
            && (1..=*segment).contains(&len)
            && all.payload.len() + len <= RUN_BYTES_MAX
    }
}

/// Unsent rest of a send call.
struct Unsent {
    path: UdpPath,
    options: SendOptions,
    payload: Vec<u8>,
    /// Length of each datagram in bytes.
    segment: usize,
}

impl Datagrams {
    /// True if no application socket is bound.
    pub(super) fn has_no_ports(&self) -> bool {
        self.ports.is_empty()
    }
}

impl<D: Device, P: AppSockets> SocketProxy<D, P> {
    /// Binds `port` in the stack.
    pub(super) fn bind(&mut self, port: u16) {
        // Another socket may be bound to it already.
        let _ = self.stack.bind_udp(port, UdpOptions::default());
        self.datagrams.ports.entry(port).or_default();
    }

    /// Queues ports with received datagrams and reports ICMP errors.
    pub(super) fn take_datagrams(&mut self) {
        while let Some(id) = self.stack.poll_udp() {
            if let Some(level) = self.stack.udp_level(id) {
                self.queue_port(id.0, level);
            }
        }
        let errors = self.stack.counters().icmp_errors;
        if std::mem::replace(&mut self.datagrams.errors, errors) == errors {
            return;
        }
        for &port in self.datagrams.ports.keys() {
            while let Some((remote, cause)) = self.stack.take_udp_error(UdpId(port)) {
                // A soft error does not concern a datagram.
                let why = Unreachable::of(cause, remote.is_ipv6()).filter(|_| cause.is_hard());
                why.into_iter().for_each(|why| self.programs.undelivered(port, remote, why));
            }
        }
    }

    /// Queues `port` on `level`.
    fn queue_port(&mut self, port: u16, level: Priority) {
        let Some(at) = self.datagrams.ports.get_mut(&port) else { return };
        if !at.held.is_empty() || at.queued.is_some_and(|queued| queued <= level) {
            return;
        }
        at.queued = Some(level);
        self.push_in(QueueEntry::Port(port), level);
    }

    /// Delivers datagrams of `port`; false if it was not queued on this level.
    pub(super) fn deliver_port(&mut self, now: Time, port: u16, level: Priority) -> bool {
        let id = UdpId(port);
        let Some(at) = self.datagrams.ports.get_mut(&port).filter(|at| at.queued == Some(level)) else {
            return false;
        };
        at.queued = None;
        let merges = self.programs.merges(port);
        let mut run: Option<Run> = None;
        for _ in 0..DATAGRAMS_PER_POLL {
            match self.stack.udp_level(id) {
                Some(next) if next > level => break,
                _ => {}
            }
            // An empty queue makes the stack report the next arrival.
            let Some(datagram) = self.stack.receive_from(now, id) else {
                run.into_iter().for_each(|run| self.deliver_run(port, run));
                return true;
            };
            let Some(before) = &mut run else {
                run = Some(Run::of(datagram));
                continue;
            };
            if merges && before.takes(&datagram) {
                before.all.payload.extend_from_slice(&datagram.payload);
                before.count += 1;
                self.stack.recycle(datagram.payload);
                continue;
            }
            let next = run.replace(Run::of(datagram));
            next.into_iter().for_each(|run| self.deliver_run(port, run));
            if self.is_held(port) {
                break;
            }
        }
        run.into_iter().for_each(|run| self.deliver_run(port, run));
        let next = self.stack.udp_level(id).unwrap_or(level);
        self.queue_port(port, next);
        true
    }

    /// True if datagrams of `port` wait for space.
    fn is_held(&self, port: u16) -> bool {
        self.datagrams.ports.get(&port).is_some_and(|at| !at.held.is_empty())
    }

    /// Delivers a run, or holds it if the socket is full or others are held.
    fn deliver_run(&mut self, port: u16, run: Run) {
        let Run { all, segment, count } = &run;
        let segment = if *count > 1 { *segment } else { 0 };
        let delivered = match self.is_held(port) {
            true => DeliveryResult::Full,
            false => self.programs.deliver(port, all, segment),
        };
        if delivered == DeliveryResult::Full
            && let Some(at) = self.datagrams.ports.get_mut(&port)
        {
            return at.held.push_back(run);
        }
        if let DeliveryResult::Delivered(socket) = delivered {
            self.on_received(socket, all.remote, all.label.priority);
        }
        self.on_delivered(delivered, (*count, all.payload.len()));
        self.stack.recycle(run.all.payload);
    }

    /// Records that `socket` received from `peer` at `level`.
    fn on_received(&mut self, socket: u64, peer: SocketAddr, level: Priority) {
        let sender = self.datagrams.senders.entry(socket).or_default();
        sender.peers.on_received(peer, level);
        sender.level = Some(sender.level.map_or(level, |before| before.min(level)));
    }

    fn on_delivered(&mut self, delivered: DeliveryResult, (count, len): (usize, usize)) {
        let count = count as u64;
        match delivered {
            DeliveryResult::Delivered(_) => {
                self.counters.datagrams_in += count;
                self.counters.bytes_in += len as u64;
            }
            DeliveryResult::Full | DeliveryResult::Dropped => self.counters.datagrams_lost += count,
            DeliveryResult::NoSocket => self.counters.datagrams_unmatched += count,
        }
    }

    /// Retries held datagrams of `port` after a socket was read.
    pub(super) fn on_space(&mut self, port: u16) {
        let Some(at) = self.datagrams.ports.get_mut(&port) else { return };
        let held = std::mem::take(&mut at.held);
        let Some(level) = held.front().map(|run| run.all.label.priority) else { return };
        held.into_iter().for_each(|run| self.deliver_run(port, run));
        let next = self.stack.udp_level(UdpId(port)).unwrap_or(level);
        self.queue_port(port, next);
    }

    /// Queues `socket`, as its program may have sent.
    pub(super) fn queue_socket(&mut self, socket: u64) {
        let unknown = if self.calls.is_some() { Priority::HIGHEST } else { Priority::LOWEST };
        let sender = self.datagrams.senders.entry(socket).or_default();
        let level = sender.level.unwrap_or(unknown);
        if sender.queued.is_none_or(|queued| queued > level) {
            sender.queued = Some(level);
            self.outbound[level.index()].push_back(QueueEntry::Socket(socket));
        }
    }

    /// Sends datagrams of `socket`; false if it was not queued on this level.
    pub(super) fn collect_datagrams(&mut self, now: Time, socket: u64, level: Priority) -> bool {
        let Some(sender) = self.datagrams.senders.get_mut(&socket).filter(|of| of.queued == Some(level))
        else {
            return false;
        };
        sender.queued = None;
        let unknown = sender.level.is_none() && self.calls.is_some();
        // Another program here gets the datagram before its bytes are classified.
        let local = sender.level.unwrap_or_default();
        if let Some(mut unsent) = sender.unsent.take()
            && let Some(sent) =
                self.send_segments(&unsent.path, &unsent.options, &unsent.payload, unsent.segment)
        {
            unsent.payload.drain(..sent);
            self.keep(socket, unsent);
            return true;
        }
        let mut collected = 0;
        // The level of the first is unknown until it is read.
        for _ in 0..if unknown { 1 } else { DATAGRAMS_PER_POLL } {
            if collected >= COLLECTED_MAX {
                break;
            }
            match self.programs.next_datagram(socket, local, &mut self.scratch) {
                OutgoingDatagram::Out { from, to, len, segment, marks, dont_fragment, hops } => {
                    collected += len;
                    self.counters.bytes_out += len as u64;
                    let path = UdpPath { id: UdpId(from.port()), local: from.ip(), remote: to };
                    let scratch = std::mem::take(&mut self.scratch);
                    let first = &scratch[..len.min(segment)];
                    let label = Label::new(self.sent_level(now, socket, (from, to), first));
                    let options = SendOptions { label, marks, dont_fragment, hops: Some(hops) };
                    let sent = self.send_segments(&path, &options, &scratch[..len], segment);
                    self.scratch = scratch;
                    if let Some(sent) = sent {
                        let payload = self.scratch[sent..len].to_vec();
                        self.keep(socket, Unsent { path, options, payload, segment });
                        return true;
                    }
                }
                OutgoingDatagram::Settled(delivered) => self.on_delivered(delivered, (1, 0)),
                OutgoingDatagram::Elsewhere => {}
                OutgoingDatagram::Nothing => {
                    self.datagrams.senders.entry(socket).or_default().level = None;
                    return true;
                }
                OutgoingDatagram::End { port, last } => {
                    self.close_socket(socket, port, last);
                    return true;
                }
            }
        }
        self.queue_socket(socket);
        true
    }

    /// Level of a datagram that `socket` sends between these addresses.
    fn sent_level(
        &mut self,
        now: Time,
        socket: u64,
        (from, to): (SocketAddr, SocketAddr),
        bytes: &[u8],
    ) -> Priority {
        let sender = self.datagrams.senders.entry(socket).or_default();
        let level = match sender.peers.get(to) {
            Some(Peer::Client(level)) => level,
            Some(Peer::Server) | None => {
                sender.peers.set(to, Peer::Server);
                match self.calls.is_some() {
                    true => {
                        self.calls.datagram(&Outgoing { now, from, to, bytes }, &mut self.counters.driver)
                    }
                    false => Priority::default(),
                }
            }
        };
        sender.level = Some(sender.level.map_or(level, |before| before.min(level)));
        self.levels = self.levels.with(level);
        level
    }

    /// Sends `payload` in datagrams of `segment` bytes; returns the number of bytes sent if the
    /// stack was full.
    fn send_segments(
        &mut self,
        path: &UdpPath,
        options: &SendOptions,
        payload: &[u8],
        segment: usize,
    ) -> Option<usize> {
        let mut sent = 0;
        loop {
            let end = payload.len().min(sent + segment);
            match self.stack.answer(path, options, &payload[sent..end]) {
                Err(SendError::Full) => return Some(sent),
                outcome => self.on_sent(outcome),
            }
            sent = end;
            // An empty datagram counts as one.
            if sent == payload.len() {
                return None;
            }
        }
    }

    fn on_sent(&mut self, sent: Result<(), SendError>) {
        match sent {
            Ok(()) => self.counters.datagrams_out += 1,
            Err(_) => self.counters.datagrams_unsent += 1,
        }
    }

    /// Keeps the rest of a send call while the stack is full; `socket` is not read meanwhile.
    fn keep(&mut self, socket: u64, unsent: Unsent) {
        self.datagrams.senders.entry(socket).or_default().unsent = Some(unsent);
        self.datagrams.blocked.insert(socket);
    }

    /// Queues sockets that found the stack full, if it has `sent` something or has no output left;
    /// true if there were any.
    pub(super) fn send_again(&mut self, sent: bool) -> bool {
        if self.datagrams.blocked.is_empty() || !sent && self.stack.wants_egress() {
            return false;
        }
        for socket in std::mem::take(&mut self.datagrams.blocked) {
            self.queue_socket(socket);
        }
        true
    }

    /// Closes `socket`, which was bound to `port`.
    pub(super) fn close_socket(&mut self, socket: u64, port: u16, last: bool) {
        self.datagrams.senders.remove(&socket);
        if last {
            self.stack.close_udp(UdpId(port));
            self.datagrams.ports.remove(&port);
        } else {
            // Another socket may have space for its held datagrams.
            self.on_space(port);
        }
    }
}
