//! One host's TCP/IP: frames and timeouts in, events and frames out.
//!
//! A stack never blocks, reads no clock and owns no device: its owner hands it
//! frames ([`Stack::ingress`]) and the time ([`Stack::handle_timeout`]), takes
//! events out and lets it fill a device's buffers ([`Stack::egress`]). Bounds:
//! connections by [`Config::connections_max`], bytes per connection by its
//! buffers, replies and neighbours by constants; the queue of events by what
//! one call causes, as long as the owner drains it after each.
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

use std::any::Any;
use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use queueing::{Label, Span, Time, TimerKey, TimerWheel};

use crate::classify::{FlowState, Private, TransportClassifier};
use crate::tcp::{Connection, Context, Pool, State};
use crate::wire::FourTuple;
use crate::wire::tcp::{Flags, Seq};

mod config;
mod cookies;
mod counters;
mod egress;
mod event;
pub(crate) mod fast_open;
mod flows;
mod ingress;
mod ip;
mod neighbors;
mod opening;
mod ready;
mod udp;

pub use crate::tcp::Ecn;
pub use crate::tcp::KeepAlive;
pub use config::{Config, InterfaceId, Ipv6, ListenOptions};
pub use cookies::SynCookies;
pub(crate) use counters::Challenges;
pub use counters::Counters;
pub use event::{
    CloseReason, ConnId, ConnectError, Event, EventKind, ListenError, ListenerId, NotOpen, SendError, UdpId,
};

pub use ip::Lease;
pub(crate) use ready::Places;
pub use ready::TransmitOrder;
pub use udp::{Datagram, UdpOptions, UdpPath};

use egress::Reply;
use fast_open::Jar;
use flows::Flows;
use ip::Ip;
use neighbors::Neighbors;
use opening::Listener;
use ready::Ready;
use udp::Udp;

/// One host's TCP/IP.
pub struct Stack {
    config: Config,
    flows: Flows,
    ports: BTreeMap<u16, u16>,
    listeners: Vec<Listener>,
    neighbors: Neighbors,
    ip: Ip,
    udp: Udp,
    timers: TimerWheel<u32>,
    events: VecDeque<Event>,
    ready: Ready,
    replies: VecDeque<Reply>,
    /// Connections (by slot) whose acknowledgement waits for a response, the
    /// first `waiting_acks_old` of them since before the owner last sent.
    waiting_acks: VecDeque<u32>,
    waiting_acks_old: usize,
    pool: Pool,
    counters: Counters,
    challenges: Challenges,
    /// Until when a cookie may come back.
    cookies_until: Time,
    /// Fast Open cookies of servers.
    jar: Jar,
    /// Connections in TIME-WAIT by age; some may be gone already.
    time_wait: VecDeque<ConnId>,
    ports_tried: u16,
    /// The slot of the latest segment's connection: often the next one's, too.
    recent: u32,
}

/// First port that `connect` chooses by itself, and how many there are.
const EPHEMERAL: (u16, u16) = (32_768, 28_232);

/// After so many timeouts in a row the peer's hardware address is asked for anew.
const DOUBTS_MIN: u8 = 2;

/// Uses of the secret.
const HASH_FLOW: u8 = 0;
const HASH_ISN: u8 = 1;
const HASH_PORT: u8 = 2;
const HASH_IDENT: u8 = 3;

impl Stack {
    /// A stack without listeners or connections.
    #[must_use]
    pub fn new(config: Config) -> Self {
        let frame_len_max = usize::from(config.mtu) + crate::wire::ethernet::HEADER_LEN;
        Self {
            ip: Ip::new(&config),
            udp: Udp::default(),
            ready: Ready::new(config.transmit, config.connections_max, frame_len_max),
            flows: Flows::new(),
            ports: BTreeMap::new(),
            listeners: Vec::new(),
            neighbors: Neighbors::default(),
            timers: TimerWheel::new(),
            events: VecDeque::new(),
            replies: VecDeque::new(),
            waiting_acks: VecDeque::new(),
            waiting_acks_old: 0,
            pool: Pool::bounded(config.memory_max),
            counters: Counters::default(),
            challenges: Challenges::default(),
            cookies_until: Time::ZERO,
            jar: Jar::default(),
            config,
            time_wait: VecDeque::new(),
            ports_tried: 0,
            recent: 0,
        }
    }

    /// How the stack was set up.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// What was counted so far.
    #[must_use]
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Listens on `port`.
    ///
    /// # Errors
    /// [`ListenError::PortZero`], [`ListenError::PortInUse`].
    pub fn listen(&mut self, port: u16, options: ListenOptions) -> Result<ListenerId, ListenError> {
        if port == 0 {
            return Err(ListenError::PortZero);
        }
        if self.ports.contains_key(&port) {
            return Err(ListenError::PortInUse(port));
        }
        let index = self.listeners.len() as u16;
        self.listeners.push(Listener::new(options));
        self.ports.insert(port, index);
        Ok(ListenerId(u32::from(index)))
    }

    /// Starts a handshake; [`EventKind::Connected`] or [`EventKind::Closed`]
    /// follows. Without `local_port` a free ephemeral one is taken.
    ///
    /// # Errors
    /// [`ConnectError::NoPort`] when the port (or all of them) is taken towards
    /// `remote`, [`ConnectError::TooMany`], [`ConnectError::NoRoute`].
    pub fn connect(
        &mut self,
        now: Time,
        remote: SocketAddr,
        local_port: Option<u16>,
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
        let ours = self.config.place.is_none_or(|place| place.owns(&tuple));
        if !ours || local_port == 0 || self.flows.find(self.hash(&tuple), &tuple).is_some() {
            return Err(ConnectError::NoPort);
        }
        let mut connection = self.new_connection(now, tuple);
        connection.flags.announced = true;
        let id = self.add(connection);
        self.settle(now, id.index);
        Ok(id)
    }

    /// A port that is free towards `remote`, from a secret start (RFC 6056 §3.3.3).
    fn ephemeral_port(&mut self, local: IpAddr, remote: SocketAddr) -> Option<u16> {
        let (first, count) = EPHEMERAL;
        let start = flows::hash(&self.config.secret, HASH_PORT, &tuple(local, 0, remote)) as u16 % count;
        (0..count).find_map(|_| {
            self.ports_tried = (self.ports_tried + 1) % count;
            let port = first + ((u32::from(start) + u32::from(self.ports_tried)) % u32::from(count)) as u16;
            let tuple = tuple(local, port, remote);
            let ours = self.config.place.is_none_or(|place| place.owns(&tuple));
            (ours && self.flows.find(self.hash(&tuple), &tuple).is_none()).then_some(port)
        })
    }

    /// A connection with the sequence number that RFC 6528 asks for.
    fn new_connection(&self, now: Time, tuple: FourTuple) -> Connection {
        let secret = flows::hash(&self.config.secret, HASH_ISN, &tuple);
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
        flows::hash(&self.config.secret, HASH_FLOW, tuple)
    }

    fn add(&mut self, connection: Connection) -> ConnId {
        let hash = self.hash(&connection.tuple);
        let id = self.flows.insert(connection);
        self.flows.link(hash, id.index);
        id
    }

    /// Whether `egress` has something to send.
    #[must_use]
    pub fn wants_egress(&self) -> bool {
        !self.ready.is_empty()
            || !self.replies.is_empty()
            || !self.waiting_acks.is_empty()
            || self.udp.wants_egress()
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
            let mut cx = Context {
                now,
                id,
                config: &self.config,
                pool: &mut self.pool,
                counters: &mut self.counters,
                challenges: &mut self.challenges,
                events: &mut self.events,
                label: Label::default(),
                received: now,
                ecn: 0,
            };
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

    /// When `handle_timeout` should be called next.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Time> {
        let below = Some(self.ip.due).filter(|due| *due < Time::MAX);
        self.timers.next().into_iter().chain(below).min()
    }

    /// The next event, in the order in which packets were processed.
    #[must_use]
    #[inline]
    pub fn poll_event(&mut self) -> Option<Event> {
        if self.events.is_empty() && !self.pool.can_feed() {
            return None;
        }
        self.take_event()
    }

    fn take_event(&mut self) -> Option<Event> {
        if self.events.is_empty() {
            self.feed();
        }
        let event = self.events.pop_front()?;
        match event.kind {
            EventKind::Accepted(ListenerId(listener)) => self.listeners[listener as usize].accepted -= 1,
            EventKind::Closed(_) => self.detach(event.conn),
            _ => {}
        }
        Some(event)
    }

    /// Tells those whose `send` found no memory that there is some again.
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

    /// The owner has heard that `id` is closed: the id ends here, the
    /// connection itself when TIME-WAIT does.
    fn detach(&mut self, id: ConnId) {
        let Some(connection) = self.flows.get_mut(id) else { return };
        if connection.state == State::Closed {
            self.free(id.index);
        } else {
            connection.flags.detached = true;
            connection.release(&mut self.pool);
        }
    }

    fn free(&mut self, index: u32) {
        if let Some(mut connection) = self.flows.remove(index) {
            connection.release(&mut self.pool);
            self.pool.forget_shortened(index);
            if let Some(timer) = connection.timer {
                self.timers.cancel(timer.1);
            }
        }
    }

    /// Unread bytes in order, contiguous; empty when none or when `conn` is gone.
    #[must_use]
    pub fn received(&self, conn: ConnId) -> &[u8] {
        self.flows.get(conn).map_or(&[], |connection| connection.recv.as_slice())
    }

    /// Marks the first `n` unread bytes as read; opens the window.
    pub fn consume(&mut self, now: Time, conn: ConnId, n: usize) {
        self.touch_for(now, conn, |connection, cx| connection.consume(cx, n), |due| *due);
    }

    /// Queues bytes for sending; returns how many were taken. When fewer than
    /// given, [`EventKind::Writable`] follows.
    ///
    /// # Errors
    /// [`NotOpen`] when the connection is gone or our half is closed.
    pub fn send(&mut self, now: Time, conn: ConnId, bytes: &[u8]) -> Result<usize, NotOpen> {
        self.touch(now, conn, |connection, cx| connection.write(cx, bytes)).flatten().ok_or(NotOpen)
    }

    /// Closes our half after what is queued (FIN).
    pub fn close(&mut self, now: Time, conn: ConnId) {
        self.call(now, conn, |connection, cx| connection.close(cx));
    }

    /// Resets the connection.
    pub fn abort(&mut self, now: Time, conn: ConnId) {
        let Some(connection) = self.flows.get(conn) else { return };
        if connection.state.is_reset_by_abort() {
            let (tuple, seq, ack) = (connection.tuple, connection.snd_nxt, connection.rcv_nxt);
            self.reset(now, tuple, seq, ack);
        }
        self.call(now, conn, |connection, cx| connection.end(cx, CloseReason::Aborted));
    }

    /// What `conn` sends from now on is as urgent as `label` says: which
    /// connection sends first ([`Config::transmit`]) and the packets' DSCP
    /// ([`Config::dscp`]) follow. Until the application says so, it is the
    /// label of the segment that was delivered last.
    pub fn set_label(&mut self, now: Time, conn: ConnId, label: Label) {
        self.touch(now, conn, |connection, _| connection.set_level(label.priority));
    }

    /// Lets go of the connection: our half closes after what is queued, `conn`
    /// is invalid from now on, and nothing more is heard of it. Bytes that
    /// were not read, or that the peer still sends, reset it (RFC 9293
    /// §3.6.1); otherwise the peer has [`Config::fin_wait`] to close its half.
    pub fn release(&mut self, now: Time, conn: ConnId) {
        let Some(connection) = self.flows.get_mut(conn) else { return };
        let open = connection.state.is_synchronized() && !connection.state.is_ending();
        if open && connection.recv.is_empty() {
            self.touch(now, conn, Connection::let_go);
            return self.settle(now, conn.index);
        }
        connection.flags.closed_pushed = true;
        if !connection.state.is_ending() {
            self.abort(now, conn);
        }
        self.detach(conn);
    }

    /// Asks `conn`'s peer, when silent, whether it lives, whatever the
    /// configuration says; `None` never does.
    pub fn set_keep_alive(&mut self, now: Time, conn: ConnId, keep_alive: Option<KeepAlive>) {
        self.call(now, conn, |connection, _| connection.patience().keep_alive = Some(keep_alive));
    }

    /// Ends `conn` when its data waits so long for an acknowledgement,
    /// whatever the configuration says; `None` waits as long as
    /// retransmission takes. Looked at when the retransmission timer fires.
    pub fn set_user_timeout(&mut self, now: Time, conn: ConnId, timeout: Option<Span>) {
        self.call(now, conn, |connection, _| connection.patience().user_timeout = Some(timeout));
    }

    /// Sends small segments at once (the default), or lets them wait for what
    /// is in flight (Nagle's algorithm, RFC 9293 §3.7.4).
    pub fn set_nodelay(&mut self, now: Time, conn: ConnId, nodelay: bool) {
        self.call(now, conn, |connection, _| connection.flags.nagle = !nodelay);
    }

    /// The shared 64 bytes.
    #[must_use]
    pub fn private(&self, conn: ConnId) -> Option<&Private> {
        self.flows.get(conn).map(|connection| &connection.private)
    }

    /// The shared 64 bytes, to write.
    #[must_use]
    pub fn private_mut(&mut self, conn: ConnId) -> Option<&mut Private> {
        self.flows.get_mut(conn).map(|connection| &mut connection.private)
    }

    /// Gives one connection its own classifier (M3); `None` hands the choice
    /// back to its listener's, or the stack's.
    pub fn set_classifier(&mut self, conn: ConnId, classifier: Option<TransportClassifier>) {
        if let Some(connection) = self.flows.get_mut(conn) {
            connection.classifier = classifier;
        }
    }

    /// Attaches application memory for the classifier (M5).
    pub fn attach(&mut self, conn: ConnId, memory: Option<Arc<dyn Any + Send + Sync>>) {
        if let Some(connection) = self.flows.get_mut(conn) {
            connection.app = memory.map(Box::new);
        }
    }

    /// What the flow has been like.
    #[must_use]
    pub fn flow(&self, conn: ConnId) -> Option<FlowState> {
        self.flows.get(conn).map(Connection::flow)
    }

    /// The connection's addresses.
    #[must_use]
    pub fn tuple(&self, conn: ConnId) -> Option<FourTuple> {
        self.flows.get(conn).map(|connection| connection.tuple)
    }

    /// Connections that exist, in any state: handshakes and TIME-WAIT too.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.flows.len()
    }

    /// Bytes that send and receive buffers and early segments take up.
    #[must_use]
    pub fn buffer_bytes(&self) -> usize {
        self.pool.held()
    }

    /// Bytes that connections take up without their buffers: slots, flow
    /// table and timers.
    #[must_use]
    pub fn connection_bytes(&self) -> usize {
        // A timer takes its item, list links, instant and generation.
        self.flows.bytes() + self.timers.len() * 24
    }

    /// Runs `act` on the application's connection `id`, then looks after it.
    #[inline]
    fn call<R>(
        &mut self,
        now: Time,
        id: ConnId,
        act: impl FnOnce(&mut Connection, &mut Context<'_>) -> R,
    ) -> Option<R> {
        let result = self.touch(now, id, act)?;
        self.settle(now, id.index);
        Some(result)
    }

    /// Runs `act` on the application's connection `id` and queues it for
    /// egress; `act` changes neither its state nor its deadline.
    #[inline]
    fn touch<R>(
        &mut self,
        now: Time,
        id: ConnId,
        act: impl FnOnce(&mut Connection, &mut Context<'_>) -> R,
    ) -> Option<R> {
        self.touch_for(now, id, act, |_| true)
    }

    /// [`Stack::touch`] where egress concerns only some results of `act`.
    #[inline]
    fn touch_for<R>(
        &mut self,
        now: Time,
        id: ConnId,
        act: impl FnOnce(&mut Connection, &mut Context<'_>) -> R,
        concerns_egress: impl FnOnce(&R) -> bool,
    ) -> Option<R> {
        let connection = self.flows.get_mut(id)?;
        let mut cx = Context {
            now,
            id,
            config: &self.config,
            pool: &mut self.pool,
            counters: &mut self.counters,
            challenges: &mut self.challenges,
            events: &mut self.events,
            label: Label::default(),
            received: now,
            ecn: 0,
        };
        let result = act(connection, &mut cx);
        if connection.state.is_ending() {
            self.settle_closed(now, id);
        } else if concerns_egress(&result) {
            self.ready.enqueue(now, connection, id.index);
        }
        Some(result)
    }

    /// Does what follows from a connection's new state: tells the application
    /// of its end, frees it, queues it for egress, sets its timer.
    fn settle(&mut self, now: Time, index: u32) {
        let Some((id, connection)) = self.flows.at(index) else { return };
        if connection.state.is_ending() {
            self.settle_closed(now, id);
        } else {
            look_after(now, &mut self.ready, &mut self.timers, &self.config, connection, index);
        }
    }

    fn settle_closed(&mut self, now: Time, id: ConnId) {
        let Some((_, connection)) = self.flows.at(id.index) else { return };
        let over = connection.state == State::Closed;
        let tuple = connection.tuple;
        let (linked, detached, listener) =
            (connection.flags.linked, connection.flags.detached, connection.listener);
        let announced = connection.flags.announced;
        let aging = !over && !connection.flags.aging;
        opening::fast_open_ends(connection, &mut self.listeners);
        if over {
            connection.flags.linked = false;
        } else {
            connection.flags.aging = true;
            look_after(now, &mut self.ready, &mut self.timers, &self.config, connection, id.index);
        }
        let reason = connection.reason.unwrap_or(CloseReason::Finished);
        // What came before a polite end can still be read, for a while.
        let unread = reason == CloseReason::Finished && !connection.recv.is_empty();
        if over && unread {
            connection.linger(now, &self.config);
            set_timer(&mut self.timers, connection, &self.config, id.index);
        }
        if announced && !connection.flags.closed_pushed && !unread {
            connection.flags.closed_pushed = true;
            let kind = EventKind::Closed(reason);
            self.events.push_back(Event { conn: id, kind, label: Label::default(), received: now });
        }
        if over && linked {
            let hash = self.hash(&tuple);
            self.flows.unlink(hash, id.index);
        }
        if over
            && !announced
            && let Some(listener) = listener
        {
            self.listeners[usize::from(listener)].half_open -= 1;
        }
        if over && (detached || !announced) {
            self.free(id.index);
        }
        if aging {
            self.limit_time_wait(now, id);
        }
    }

    /// Takes note that `id` is in TIME-WAIT; the oldest ends if there are too many.
    fn limit_time_wait(&mut self, now: Time, id: ConnId) {
        self.time_wait.push_back(id);
        while self.time_wait.len() > self.config.time_wait_max
            && let Some(oldest) = self.time_wait.pop_front()
        {
            if let Some((found, connection)) = self.flows.at(oldest.index)
                && found == oldest
                && let State::TimeWait { ref mut until } = connection.state
            {
                *until = now;
                set_timer(&mut self.timers, connection, &self.config, oldest.index);
            }
        }
    }

    /// Queues a reset to the peer of `tuple`, if its hardware address is known.
    fn reset(&mut self, now: Time, tuple: FourTuple, seq: Seq, ack: Seq) {
        let hop = self.ip.next_hop(&self.config, tuple.remote);
        if let Some(neighbors::Reach::Known(mac) | neighbors::Reach::Refresh(mac)) =
            hop.map(|hop| self.neighbors.reach(now, hop))
        {
            self.reply(Reply::Reset { mac, tuple, seq, ack, flags: Flags::RST | Flags::ACK });
        }
    }

    fn reply(&mut self, reply: Reply) {
        egress::queue_reply(&mut self.replies, &mut self.counters, reply);
    }
}

fn tuple(local: IpAddr, local_port: u16, remote: SocketAddr) -> FourTuple {
    FourTuple { local, local_port, remote: remote.ip(), remote_port: remote.port() }
}

/// Queues a connection for egress if it may have something to send, and sets
/// its timer.
#[inline]
fn look_after(
    now: Time,
    ready: &mut Ready,
    timers: &mut TimerWheel<u32>,
    config: &Config,
    connection: &mut Connection,
    index: u32,
) {
    ready.enqueue(now, connection, index);
    set_timer(timers, connection, config, index);
}

/// Makes sure that a timer fires no later than the connection's deadline. One
/// that fires too early finds nothing to do and is set anew: cheaper than
/// moving it with every acknowledgement. Where very many connections take
/// turns it is not: the connection would have to be fetched from memory only
/// to find that nothing is due, so there an idle one takes its timer back.
#[inline]
fn set_timer(timers: &mut TimerWheel<u32>, connection: &mut Connection, config: &Config, index: u32) {
    let deadline = connection.deadline(config);
    let set = connection.timer.map_or(Time::MAX, |timer: (Time, TimerKey)| timer.0);
    if deadline < set {
        if let Some((_, key)) = connection.timer.take() {
            timers.cancel(key);
        }
        connection.timer = Some((deadline, timers.insert(deadline, index)));
    } else if deadline == Time::MAX
        && timers.len() > IDLE_TIMERS_MAX
        && let Some((_, key)) = connection.timer.take()
    {
        timers.cancel(key);
    }
}

/// With more timers than this, idle connections keep none.
const IDLE_TIMERS_MAX: usize = 512;
