//! TCP/IP stack of one host: frames and timeouts in, events and frames out.
//!
//! A stack never blocks, reads no clock and owns no device. Its owner passes it frames
//! ([`Stack::ingress`]) and the time ([`Stack::handle_timeout`]), polls events, and lets it fill a
//! device's buffers ([`Stack::egress`]).
//!
//! Bounds: connections by [`Config::connections_max`], bytes per connection by its buffers, replies
//! and neighbours by constants. The event queue is bounded by the events of one call, as long as
//! the owner drains it after each call.
//!
//! ```
//! use net::{EventKind, Stack, device::memory};
//! use net::stack::{Config, ListenOptions};
//! use queueing::Time;
//!
//! let config = |n: u8| Config::new([2, 0, 0, 0, 0, n], [10, 0, 0, n].into(), 24, [n; 16]);
//! let (mut server, mut client) = (Stack::new(config(1)), Stack::new(config(2)));
//! server.listen(80, ListenOptions::default()).unwrap();
//! let conn = client.connect(Time::ZERO, "10.0.0.1:80".parse().unwrap(), None).unwrap();
//! let (mut server_end, mut client_end) = memory::pair(64, 1514);
//! for _ in 0..8 {
//!     for (stack, end) in [(&mut client, &mut client_end), (&mut server, &mut server_end)] {
//!         stack.egress(Time::ZERO, end);
//!         while stack.ingress_from(Time::ZERO, end) {}
//!     }
//! }
//! let event = client.poll_event().unwrap();
//! assert_eq!((event.conn, event.kind), (conn, EventKind::Connected));
//! ```

use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, SocketAddr};

use queueing::{Label, Time, TimerWheel};
use wire::FourTuple;
use wire::tcp::{Flags, Options, Seq};

use crate::tcp::{Connection, Pool};

/// Context of connection `$id` for one event: fields of a stack borrowed one by one, so that the
/// connection itself can be borrowed too. `$meta` and `$ecn` are those of a received packet.
macro_rules! context {
    ($stack:ident, $now:expr, $id:expr) => {
        $crate::tcp::Context {
            now: $now,
            id: $id,
            config: &$stack.config,
            pool: &mut $stack.pool,
            counters: &mut $stack.counters,
            challenges: &mut $stack.challenges,
            events: &mut $stack.events,
            label: queueing::Label::default(),
            received: $now,
            ecn: 0,
        }
    };
    ($stack:ident, $now:expr, $id:expr, $meta:expr, $ecn:expr) => {
        $crate::tcp::Context {
            label: queueing::Label::new($meta.priority.unwrap_or_default()),
            received: $meta.received,
            ecn: $ecn,
            ..context!($stack, $now, $id)
        }
    };
}

mod config;
mod connection_table;
mod cookies;
mod counters;
#[cfg(test)]
pub(crate) mod differential;
mod egress;
mod event;
pub(crate) mod fast_open;
mod ingress;
mod ip;
mod listener;
mod neighbors;
mod socket_api;
mod timers;
mod tx_fast_path;
mod tx_scheduler;
mod udp;
mod upkeep;

pub use crate::tcp::{Ecn, Info, KeepAlive, RecoveryKind, State};
pub use config::{Config, HopLimits, InterfaceId, Ipv6, ListenOptions};
pub use cookies::SynCookies;
pub(crate) use counters::Challenges;
pub use counters::Counters;
pub use event::{
    CloseReason, ConnId, ConnectError, Event, EventKind, ListenError, ListenerId, NotOpen, SendError, UdpId,
    Unreachable,
};

pub use ip::Lease;
pub use tx_scheduler::TransmitOrder;
pub(crate) use tx_scheduler::TxLinks;
pub use udp::{SendOptions, UdpDatagram, UdpOptions, UdpPath};

use connection_table::ConnectionTable;
use egress::Reply;
use fast_open::CookieCache;
use ip::Ip;
use listener::Listener;
use neighbors::Neighbors;
use timers::{set_timer, update_timers};
use tx_scheduler::TxScheduler;
use udp::Udp;

/// TCP/IP stack of one host.
pub struct Stack {
    config: Config,
    flows: ConnectionTable,
    ports: BTreeMap<u16, u16>,
    listeners: Vec<Listener>,
    neighbors: Neighbors,
    ip: Ip,
    udp: Udp,
    timers: TimerWheel<u32>,
    events: VecDeque<Event>,
    ready: TxScheduler,
    replies: VecDeque<Reply>,
    /// Connections (by slot) whose acknowledgement waits for a response; the first
    /// `waiting_acks_aged` of them have waited since before the owner's last egress.
    waiting_acks: VecDeque<u32>,
    waiting_acks_aged: usize,
    pool: Pool,
    counters: Counters,
    challenges: Challenges,
    /// End of the validity of the last cookie sent.
    cookies_until: Time,
    /// Fast Open cookies of servers.
    cookie_cache: CookieCache,
    /// Connections in TIME-WAIT by age; some may have ended already.
    time_wait: VecDeque<ConnId>,
    ports_tried: u16,
    /// Slot of the latest segment's connection, a cache for the next segment.
    recent: u32,
    /// True once a connection has been above the lowest priority.
    has_levels: bool,
}

/// Number of listeners from which unused closed ones are searched for and reused.
const LISTENERS_KEPT: usize = 256;
/// First ephemeral port, and their number.
const EPHEMERAL: (u16, u16) = (32_768, 28_232);

/// Timeouts in a row after which the next hop's hardware address is verified.
const DOUBTS_MIN: u8 = 2;

/// Purposes of the secret.
const HASH_FLOW: u8 = 0;
const HASH_ISN: u8 = 1;
const HASH_PORT: u8 = 2;
const HASH_IDENT: u8 = 3;

impl Stack {
    /// A stack without listeners or connections.
    #[must_use]
    pub fn new(config: Config) -> Self {
        let frame_len_max = usize::from(config.mtu) + wire::ethernet::HEADER_LEN;
        Self {
            ip: Ip::new(&config),
            udp: Udp::default(),
            ready: TxScheduler::new(config.transmit, config.connections_max, frame_len_max),
            flows: ConnectionTable::new(),
            ports: BTreeMap::new(),
            listeners: Vec::new(),
            neighbors: Neighbors::default(),
            timers: TimerWheel::new(),
            events: VecDeque::new(),
            replies: VecDeque::new(),
            waiting_acks: VecDeque::new(),
            waiting_acks_aged: 0,
            pool: Pool::bounded(config.memory_max),
            counters: Counters::default(),
            challenges: Challenges::default(),
            cookies_until: Time::ZERO,
            cookie_cache: CookieCache::default(),
            config,
            time_wait: VecDeque::new(),
            ports_tried: 0,
            recent: 0,
            has_levels: false,
        }
    }

    /// Configuration of the stack.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Counts since the stack was created.
    #[must_use]
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Listens on `port`.
    ///
    /// # Errors
    /// [`ListenError::PortZero`], [`ListenError::PortInUse`], [`ListenError::TooMany`].
    pub fn listen(&mut self, port: u16, options: ListenOptions) -> Result<ListenerId, ListenError> {
        if port == 0 {
            return Err(ListenError::PortZero);
        }
        if self.ports.contains_key(&port) {
            return Err(ListenError::PortInUse(port));
        }
        let listener = Listener::new(options);
        let free = self.listeners.iter().position(|closed| closed.is_replaced_by(&listener));
        let free = free.or_else(|| self.unused_listener());
        let index = free.unwrap_or(self.listeners.len());
        // A connection stores one more than it.
        let short = u16::try_from(index).ok().filter(|index| *index < u16::MAX);
        let short = short.ok_or(ListenError::TooMany)?;
        match free {
            Some(index) => self.listeners[index] = listener,
            None => self.listeners.push(listener),
        }
        self.ports.insert(port, short);
        Ok(ListenerId(index as u32))
    }

    /// Closed listener that no connection uses, searched for only from [`LISTENERS_KEPT`] listeners
    /// on.
    fn unused_listener(&self) -> Option<usize> {
        if self.listeners.len() < LISTENERS_KEPT {
            return None;
        }
        let mut needed = vec![false; self.listeners.len()];
        self.flows.iter().filter_map(|connection| connection.listener()).for_each(|index| {
            needed[usize::from(index)] = true;
        });
        self.listeners.iter().zip(needed).position(|(listener, needed)| listener.is_over() && !needed)
    }

    /// Sets the limit of Fast Open handshakes of `port`; [`ListenOptions::fast_open`]. Has no
    /// effect on a port without a listener.
    pub fn set_fast_open(&mut self, port: u16, most: usize) {
        if let Some(index) = self.ports.get(&port) {
            self.listeners[usize::from(*index)].fast_open_max = most;
        }
    }

    /// Sets the hop limits of future connections of `port`; [`ListenOptions::hops`]. Has no effect
    /// on a port without a listener.
    pub fn set_listener_hops(&mut self, port: u16, hops: [HopLimits; 2]) {
        if let Some(index) = self.ports.get(&port) {
            self.listeners[usize::from(*index)].hops = hops;
        }
    }

    /// Closes the listener of `port`: further SYNs are refused. Accepted and half-open connections
    /// stay. Has no effect on a port without a listener.
    pub fn unlisten(&mut self, port: u16) {
        if let Some(index) = self.ports.remove(&port) {
            self.listeners[usize::from(index)].close();
        }
    }

    /// Starts a handshake; [`EventKind::Connected`] or [`EventKind::Closed`] follows. Without
    /// `local_port`, selects a free ephemeral port.
    ///
    /// # Errors
    /// [`ConnectError::NoPort`] if the port (or each ephemeral port) is in use towards `remote`,
    /// [`ConnectError::TooMany`], [`ConnectError::NoRoute`].
    pub fn connect(
        &mut self,
        now: Time,
        remote: SocketAddr,
        local_port: Option<u16>,
    ) -> Result<ConnId, ConnectError> {
        self.connect_with_hops(now, remote, local_port, HopLimits::default())
    }

    /// As [`Stack::connect`], with hop limits that apply from the SYN on.
    ///
    /// # Errors
    /// The errors of [`Stack::connect`].
    pub fn connect_with_hops(
        &mut self,
        now: Time,
        remote: SocketAddr,
        local_port: Option<u16>,
        hops: HopLimits,
    ) -> Result<ConnId, ConnectError> {
        let local = self.ip.source(&self.config, remote.ip()).ok_or(ConnectError::NoRoute)?;
        if self.flows.len() >= self.config.connections_max {
            return Err(ConnectError::TooMany);
        }
        let local_port = match local_port {
            Some(port) => port,
            None => self.ephemeral_port(local, remote).ok_or(ConnectError::NoPort)?,
        };
        let tuple = tuple(local, local_port, remote);
        let ours = self.config.shard_index.is_none_or(|shard| shard.owns(&tuple));
        if !ours || local_port == 0 || self.flows.find(self.hash(&tuple), &tuple).is_some() {
            return Err(ConnectError::NoPort);
        }
        let mut connection = self.new_connection(now, tuple);
        connection.flags.announced = true;
        connection.hops = hops;
        let id = self.add(connection);
        self.settle(now, id.index);
        Ok(id)
    }

    /// Port that is free towards `remote`, searched from a keyed start (RFC 6056 §3.3.3).
    fn ephemeral_port(&mut self, local: IpAddr, remote: SocketAddr) -> Option<u16> {
        let (first, count) = EPHEMERAL;
        let start =
            connection_table::hash(&self.config.secret, HASH_PORT, &tuple(local, 0, remote)) as u16 % count;
        (0..count).find_map(|_| {
            self.ports_tried = (self.ports_tried + 1) % count;
            let port = first + ((u32::from(start) + u32::from(self.ports_tried)) % u32::from(count)) as u16;
            let tuple = tuple(local, port, remote);
            let ours = self.config.shard_index.is_none_or(|shard| shard.owns(&tuple));
            (ours && self.flows.find(self.hash(&tuple), &tuple).is_none()).then_some(port)
        })
    }

    /// A connection with an initial sequence number by RFC 6528.
    fn new_connection(&self, now: Time, tuple: FourTuple) -> Connection {
        let secret = connection_table::hash(&self.config.secret, HASH_ISN, &tuple);
        let clock = (now.as_nanos() / 4_000) as u32;
        let iss = Seq((secret as u32).wrapping_add(clock));
        let mut connection = Connection::open(tuple, iss, (secret >> 32) as u32, now, &self.config);
        connection.limit_mtu(self.ip.mtu(now, &self.config, tuple.remote));
        if self.pool.is_short() {
            connection.window.shorten();
        }
        connection
    }

    #[inline(never)]
    fn hash(&self, tuple: &FourTuple) -> u64 {
        connection_table::hash(&self.config.secret, HASH_FLOW, tuple)
    }

    fn add(&mut self, connection: Connection) -> ConnId {
        let hash = self.hash(&connection.tuple);
        let id = self.flows.insert(connection);
        self.flows.link(hash, id.index);
        id
    }

    /// True if `egress` has something to send.
    #[must_use]
    pub fn wants_egress(&self) -> bool {
        !self.ready.is_empty()
            || !self.replies.is_empty()
            || !self.waiting_acks.is_empty()
            || self.udp.outbox.wants_egress()
    }

    /// Runs the timers that are due.
    pub fn handle_timeout(&mut self, now: Time) {
        if self.ip.due <= now {
            self.run_ip_clock(now);
        }
        while let Some((_, index)) = self.timers.expire(now) {
            let Some((id, connection)) = self.flows.at(index) else { continue };
            connection.timer = None;
            if connection.deadline(&self.config) > now {
                set_timer(&mut self.timers, connection, &self.config, index);
                continue;
            }
            let mut cx = context!(self, now, id);
            connection.on_timeout(&mut cx);
            self.tend_path(now, index);
            let Some((_, connection)) = self.flows.at(index) else { continue };
            if connection.retries >= DOUBTS_MIN
                && let Some(hop) = self.ip.next_hop(&self.config, connection.tuple.remote)
            {
                self.neighbors.doubt(hop);
            }
            self.settle(now, index);
        }
    }

    /// Time of the next call of `handle_timeout`.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Time> {
        let below = Some(self.ip.due).filter(|due| *due < Time::MAX);
        self.timers.next().into_iter().chain(below).min()
    }

    /// The next event, in the order in which packets were processed.
    #[must_use]
    #[inline]
    pub fn poll_event(&mut self) -> Option<Event> {
        match self.events.front() {
            Some(Event { kind: EventKind::Readable { .. }, .. }) => self.events.pop_front(),
            None if !self.pool.can_feed() => None,
            _ => self.take_event(),
        }
    }

    fn take_event(&mut self) -> Option<Event> {
        if self.events.is_empty() {
            self.feed();
        }
        let event = self.events.pop_front()?;
        match event.kind {
            EventKind::Accepted(ListenerId(listener)) => self.listeners[listener as usize].accepted -= 1,
            EventKind::Closed(_) => self.release_id(event.conn),
            _ => {}
        }
        Some(event)
    }

    /// Notifies connections whose `send` failed for lack of memory that memory is available.
    #[cold]
    fn feed(&mut self) {
        for id in self.pool.fed() {
            let Some(connection) = self.flows.get_mut(id) else { continue };
            connection.flags.starved = false;
            if std::mem::take(&mut connection.flags.blocked) {
                let (kind, label, received) = (EventKind::Writable, Label::default(), Time::ZERO);
                self.events.push_back(Event { conn: id, kind, label, received });
            }
        }
    }

    /// Queues a reset to the peer of `tuple`, if its hardware address is known.
    fn reset(&mut self, now: Time, tuple: FourTuple, seq: Seq, ack: Seq, options: Options, hops: u8) {
        let hop = self.ip.next_hop(&self.config, tuple.remote);
        if let Some(neighbors::Resolution::Known(mac) | neighbors::Resolution::Refresh(mac)) =
            hop.map(|hop| self.neighbors.reach(now, hop))
        {
            let flags = Flags::RST | Flags::ACK;
            self.reply(Reply::Segment { mac, tuple, seq, ack, flags, window: 0, options, hops });
        }
    }

    fn reply(&mut self, reply: Reply) {
        egress::queue_reply(&mut self.replies, &mut self.counters, reply);
    }
}

fn tuple(local: IpAddr, local_port: u16, remote: SocketAddr) -> FourTuple {
    FourTuple { local, local_port, remote: remote.ip(), remote_port: remote.port() }
}
