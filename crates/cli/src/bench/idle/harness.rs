//! Test setup: a server, its clients and the link between them, on one thread.

use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use classify::PacketMeta;
use indicatif::ProgressBar;
use net::device::memory::{self, MemoryDevice};
use net::stack::{Config as StackConfig, ListenOptions};
use net::{ConnId, Device, EventKind, Stack};
use queueing::{Clock, Histogram, Rng, Span, Time};
use runtime::Shard;
use runtime::app::Echo;
use runtime::mode::{Classifiers, Mode};
use runtime::shard::{Config, Step};
use sched::dispatch::{Params, Steering};

use crate::Error;
use crate::options::secret_of;

const SERVER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const PORT: u16 = 7000;
/// Largest number of connections per client: a client has 28,232 ephemeral ports.
const CLIENT_CONNECTIONS_MAX: u64 = 28_000;
/// Capacity of the link per direction, in frames.
const FRAMES: usize = 4096;
/// Number of concurrent handshakes.
const BATCH: u64 = 512;
/// Bytes of a request and of its response.
const REQUEST: usize = 64;
/// Offset of the target address in a frame.
const TARGET: std::ops::Range<usize> = 30..34;
/// Maximum number of polls without progress, more than any handshake needs.
const STILL_MAX: u32 = 1_000_000;

/// Connection that sends requests.
struct Active {
    client: usize,
    id: ConnId,
    /// Due times of the outstanding requests.
    due: VecDeque<Time>,
    /// Bytes received of the first one's response.
    got: usize,
}

/// The whole setup.
pub(super) struct World {
    clock: Box<dyn Clock>,
    shard: Shard<MemoryDevice, Echo>,
    near: MemoryDevice,
    far: MemoryDevice,
    clients: Vec<Stack>,
    connections: u64,
    opened: u64,
    connected: u64,
    active: Vec<Active>,
    /// Active connection by client and slot.
    by_slot: Vec<Vec<u32>>,
    latencies: Histogram,
    rng: Rng,
}

/// Value in `by_slot` without an active connection.
const IDLE: u32 = u32::MAX;

impl World {
    /// Creates the setup for `connections`.
    pub(super) fn new(connections: u64, clock: Box<dyn Clock>, seed: u64) -> Self {
        let (near, far) = memory::pair(FRAMES, 1514);
        let mut stack = StackConfig::new([2, 0, 0, 0, 0, 1], SERVER, 8, secret_of(seed, 1));
        stack.connections_max = connections as usize;
        let policy = Mode::Adps.policy(Classifiers::default(), &Params::new(1, 65_536), Steering::all(1));
        let mut shard = Shard::new(Config::new(stack, policy, 1), Arc::new(Echo));
        let options = ListenOptions { backlog: 2 * BATCH as usize, ..ListenOptions::default() };
        shard.stack().listen(PORT, options).expect("an unused port");
        let clients = connections.div_ceil(CLIENT_CONNECTIONS_MAX);
        let client = |n: u64| {
            let host = Ipv4Addr::from_bits(SERVER.to_bits() + 1 + n as u32);
            let [_, b, c, d] = host.octets();
            let mut config = StackConfig::new([2, 0, 1, b, c, d], host, 8, secret_of(seed, 2 + n));
            config.connections_max = CLIENT_CONNECTIONS_MAX as usize;
            Stack::new(config)
        };
        Self {
            clock,
            shard,
            near,
            far,
            clients: (0..clients).map(client).collect(),
            connections,
            opened: 0,
            connected: 0,
            active: Vec::new(),
            by_slot: vec![Vec::new(); clients as usize],
            latencies: Histogram::new(),
            rng: Rng::seeded(seed),
        }
    }

    /// Opens `more` connections; returns the time taken.
    pub(super) fn open(&mut self, more: u64, active: bool, bar: &ProgressBar) -> Result<Span, Error> {
        let start = self.clock.now();
        let end = self.opened + more;
        let mut still = 0;
        while self.connected < end {
            let now = self.clock.now();
            while self.opened < end && self.opened - self.connected < BATCH {
                self.connect(now, active)?;
            }
            let before = self.connected;
            self.turn();
            still = if self.connected == before { still + 1 } else { 0 };
            if still > STILL_MAX {
                let what = format!("{} of {} connections opened, then no more", self.connected, end);
                return Err(Error::new(what));
            }
            bar.set_position(self.connected);
        }
        Ok(self.clock.now().since(start))
    }

    fn connect(&mut self, now: Time, active: bool) -> Result<(), Error> {
        // Round-robin over clients, so that the active connections are spread over them.
        let clients = self.clients.len() as u64;
        let client = (self.opened % clients) as usize;
        let id = self.clients[client]
            .connect(now, SocketAddr::from((SERVER, PORT)), None)
            .map_err(|e| Error::new(format!("connection {} of {}: {e:?}", self.opened, self.connections)))?;
        self.opened += 1;
        if active {
            let slots = &mut self.by_slot[client];
            slots.resize(slots.len().max(id.index as usize + 1), IDLE);
            slots[id.index as usize] = self.active.len() as u32;
            self.active.push(Active { client, id, due: VecDeque::new(), got: 0 });
        }
        Ok(())
    }

    /// Latencies of requests at `rate_per_s`, Poisson, for `span`.
    pub(super) fn measure(&mut self, rate_per_s: f64, span: Span) -> Histogram {
        self.latencies.clear();
        let start = self.clock.now();
        let (end, mut due) = (start + span, start);
        let mut asked = 0u64;
        loop {
            let now = self.clock.now();
            while due <= now.min(end) {
                self.ask(now, due);
                asked += 1;
                due += Span::from_secs_f64(self.rng.exponential() / rate_per_s);
            }
            self.turn();
            let late = now > end + GIVE_UP;
            if now > end && (self.latencies.count() == asked || late) {
                return std::mem::take(&mut self.latencies);
            }
        }
    }

    fn ask(&mut self, now: Time, due: Time) {
        let which = self.rng.below(self.active.len() as u64) as usize;
        let active = &mut self.active[which];
        if self.clients[active.client].send(now, active.id, &[which as u8; REQUEST]) == Ok(REQUEST) {
            active.due.push_back(due);
        }
    }

    /// Polls the server and all clients once.
    fn turn(&mut self) {
        let now = self.clock.now();
        for client in &mut self.clients {
            if client.wants_egress() {
                client.egress(now, &mut self.far);
            }
        }
        loop {
            match self.shard.step(now, &mut self.near) {
                Step::Assign(mut job) => {
                    job.serve(&Echo, &Still(now));
                    self.shard.complete(now, job);
                }
                Step::Idle => break,
                _ => {}
            }
        }
        let now = self.clock.now();
        while let Some(received) = self.far.receive(now) {
            let frame = received.frame.as_ref();
            let meta = PacketMeta { checked: received.checked, ..PacketMeta::new(now, frame.len()) };
            match frame.get(TARGET).filter(|_| frame[12..14] == [8, 0]) {
                Some(target) => {
                    let target = u32::from_be_bytes([target[0], target[1], target[2], target[3]]);
                    let client = target.wrapping_sub(SERVER.to_bits() + 1) as usize;
                    if let Some(stack) = self.clients.get_mut(client) {
                        stack.ingress(now, frame, &meta);
                    }
                    self.take_events(client, now);
                }
                // ARP concerns all clients.
                None => self.clients.iter_mut().for_each(|stack| stack.ingress(now, frame, &meta)),
            }
            self.far.recycle(received.frame);
        }
        for client in 0..self.clients.len() {
            if self.clients[client].poll_timeout().is_some_and(|at| at <= now) {
                self.clients[client].handle_timeout(now);
            }
        }
    }

    fn take_events(&mut self, client: usize, now: Time) {
        let Some(stack) = self.clients.get_mut(client) else { return };
        while let Some(event) = stack.poll_event() {
            match event.kind {
                EventKind::Connected => self.connected += 1,
                EventKind::Readable { .. } => {
                    let len = stack.received(event.conn).len();
                    stack.consume(now, event.conn, len);
                    let slot = self.by_slot[client].get(event.conn.index as usize).copied();
                    let Some(active) = slot.and_then(|slot| self.active.get_mut(slot as usize)) else {
                        continue;
                    };
                    active.got += len;
                    while active.got >= REQUEST
                        && let Some(due) = active.due.pop_front()
                    {
                        active.got -= REQUEST;
                        self.latencies.record(self.clock.now().since(due));
                    }
                }
                _ => {}
            }
        }
    }

    /// Number of client addresses.
    pub(super) fn clients(&self) -> usize {
        self.clients.len()
    }

    /// Connections established at both ends.
    pub(super) fn established(&mut self) -> u64 {
        let clients: usize = self.clients.iter().map(Stack::connections).sum();
        clients.min(self.shard.stack().connections()) as u64
    }

    /// Bytes as counted by greenwave: the server's TCP, its shard beyond that, the clients' TCP.
    pub(super) fn bytes(&mut self) -> (u64, u64, u64) {
        let tcp = self.shard.stack().connection_bytes();
        let clients: usize = self.clients.iter().map(Stack::connection_bytes).sum();
        (tcp as u64, self.shard.connection_bytes() as u64, clients as u64)
    }
}

/// Clock that stands still, so that one reading serves a whole poll.
struct Still(Time);

impl Clock for Still {
    fn now(&self) -> Time {
        self.0
    }

    fn compute(&self, _span: Span) {}
}

/// Timeout of the last responses.
const GIVE_UP: Span = Span::from_secs(5);
