//! Socket proxy: TCP connections of unmodified programs, whose ends are socket pairs.
//!
//! Unlike a [`Shard`](crate::Shard) it does not know where a request ends. A connection is two byte
//! streams: the peer's bytes go into the program's [`AppStream`], the program's output goes to TCP.
//! On an accepted connection the label of the latest input sets the priority; on one that the
//! program opened, its own output does (`calls`). Bytes of one connection keep their order.
//! This is the pure core of `greenwave run`: [`SocketProxy::step`] does one bounded round of work
//! at `now`; [`serve`] loops on it.
//!
//! Bounds: the program's side of a connection is bounded by its pipe, as output is read only when
//! TCP has space. TCP's side is bounded by its window, which closes while the pipe is full. A
//! connection is queued at most once per level and direction. Starvation: both directions are
//! strict by level, up to [`DELIVERIES_MAX`] connections and [`COLLECTED_MAX`] bytes per round, but
//! every non-empty level is served in every round. Exceptions: output less urgent than the input
//! just delivered waits for the next round, and while more urgent output fills every round, less
//! urgent output waits for the ninth ([`PASSED_IN_A_ROW`](queueing::PASSED_IN_A_ROW)). Datagrams
//! are served among the connections (`datagrams`).
//! Source: ADPS M6 (label from packet to application); ADR 0025.

mod accept_wait;
mod app_sockets;
mod calls;
mod connect;
mod counters;
mod datagrams;
mod flow;
mod request_tracker;
mod thread;

use std::collections::VecDeque;

use classify::private::application_mut;
use classify::rules::PortProtocols;
use guard::WaitEnd;
use net::stack::{ConnId, HopLimits, KeepAlive, ListenOptions};
use net::{Device, Stack};
use queueing::{Label, Priority, PrioritySet, Span, Time};

use crate::mode::{Classifiers, ModeSettings};
use crate::pipeline::{DriverCountersMut, Pipeline, ServerLoad, Setup, ShardGuard, Work, WorkBudget};
use crate::shard::SlowRequestLimits;
use accept_wait::UnacceptedConnections;
pub use app_sockets::{
    AppEvent, AppSockets, AppStream, DeliveryResult, OutgoingDatagram, ReadResult, SocketOption, WriteResult,
};
use calls::CallClassifiers;
pub use connect::ConnectFailure;
pub use counters::{Counters, ProxySnapshot};
use datagrams::Datagrams;
use flow::{Flow, QueueEntry};
use request_tracker::TrackerState;
pub use thread::{SnapshotEndpoints, serve};

/// Pure core of a socket proxy.
pub struct SocketProxy<D: Device, P: AppSockets> {
    stack: Stack,
    front: Pipeline<D::Frame>,
    /// True after the receiving half of a round.
    received: bool,
    programs: P,
    /// Connections by [`ConnId::index`].
    flows: Vec<Option<Flow<P::Pipe>>>,
    /// Number of connections.
    present: u64,
    /// Entries with input for a program, by level; an entry that has moved to a more urgent level
    /// is stale.
    inbound: [VecDeque<QueueEntry>; Priority::LEVELS],
    /// Entries whose program may have output, likewise.
    outbound: [VecDeque<QueueEntry>; Priority::LEVELS],
    /// Levels that have occurred so far.
    levels: PrioritySet,
    /// Consecutive rounds that left less urgent output to the next.
    passed_over: u8,
    datagrams: Datagrams,
    calls: CallClassifiers,
    /// Input of the guard.
    accept_waits: UnacceptedConnections,
    /// Connections with held small segments and the end of each hold, in order; entries of released
    /// ones are stale.
    corked: VecDeque<(Time, ConnId)>,
    /// Connections to be reset once this round's segments are sent.
    resets: Vec<ConnId>,
    /// Buffer for the options of a new connection.
    inherited: Vec<SocketOption>,
    events: Vec<AppEvent>,
    scratch: Box<[u8]>,
    counters: Counters,
    tracker_state: TrackerState,
}

/// Maximum of bytes in one read from a pipe.
const READ_MAX: usize = 64 * 1024;
/// Maximum number of connections served per round in each direction.
pub const DELIVERIES_MAX: usize = 64;
/// Maximum of frames per round taken from the device, and of frames run through TCP.
const DRIVEN_MAX: usize = 128;
/// Maximum of output bytes per round; newly urgent connections come first in the next.
pub const COLLECTED_MAX: usize = 256 * 1024;
/// Maximum of output bytes per round while levels differ: some 30 segments, so that a round is short.
pub const COLLECTED_SHORT: usize = 32 * 1024;
/// Maximum of a flow's low water in bytes: half of the window that a connection always has.
const LOW_WATER_MAX: usize = 8 * 1024;
/// Longest hold of small segments (tcp(7), TCP_CORK).
const CORKED_MAX: Span = Span::from_millis(200);
/// Maximum number of frames run through TCP per round while levels differ. Otherwise all received
/// frames are: peers acknowledge faster than this, and frames that wait too long for TCP are
/// dropped.
const TRANSPORTED_SHORT: usize = 32;

impl<D: Device, P: AppSockets> SocketProxy<D, P> {
    /// A proxy without listeners under `policy`, whose dispatch policy it does not use.
    /// `frames_max`: capacity of the receive buffer in frames.
    #[must_use]
    pub fn new(mut stack: net::stack::Config, policy: ModeSettings, frames_max: usize, programs: P) -> Self {
        let calls = CallClassifiers::new(policy.driver.clone(), policy.transport.clone(), policy.handshake);
        if policy.transport.is_some() {
            stack.classifier = policy.transport;
        }
        // Programs expect the behaviour of a kernel's TCP.
        (stack.reads_after_reset, stack.soft_errors_end_opening) = (true, true);
        Self {
            stack: Stack::new(stack),
            front: Pipeline::new(Setup {
                rx_order: policy.rx_order,
                rx_frames_max: frames_max,
                classifier: policy.driver,
                guard: None,
                budget: WorkBudget { drive: DRIVEN_MAX, transport: DRIVEN_MAX, ..WorkBudget::default() },
            }),
            received: false,
            programs,
            flows: Vec::new(),
            present: 0,
            inbound: Default::default(),
            outbound: Default::default(),
            levels: PrioritySet::NONE,
            passed_over: 0,
            datagrams: Datagrams::default(),
            calls,
            accept_waits: UnacceptedConnections::default(),
            corked: VecDeque::new(),
            resets: Vec::new(),
            inherited: Vec::new(),
            events: Vec::new(),
            scratch: vec![0; READ_MAX].into(),
            counters: Counters::default(),
            tracker_state: TrackerState::default(),
        }
    }

    /// Sets the criteria for slow requests, for connections from now on.
    pub fn set_slow(&mut self, limits: SlowRequestLimits) {
        self.tracker_state.set_limits(limits);
    }

    /// Sets the guard and its definition of a wait. Request boundaries are unknown here, so the
    /// policy gets neither budgets nor latencies. A connection waits from the delivery of its first
    /// bytes until its program has read them ([`WaitEnd::Accept`]) or written its first bytes; in
    /// the latter case others may be answered before the oldest.
    pub fn set_guard(&mut self, guard: Option<ShardGuard>, until: WaitEnd) {
        self.accept_waits = UnacceptedConnections::new(until);
        self.front.set_guard(guard);
    }

    /// Replaces both classifiers from the next frame and segment on. A program's own transport
    /// rules stay. Queued frames and segments keep their labels. Protocols apply to connections
    /// from now on.
    pub fn set_classifiers(&mut self, classifiers: Classifiers) {
        let (driver, transport) = (classifiers.driver.clone(), classifiers.transport.clone());
        self.calls = CallClassifiers::new(driver, transport, classifiers.handshake);
        self.front.set_classifier(classifiers.driver);
        self.stack.set_default_classifier(classifiers.transport);
        self.set_protocols(classifiers.spoken);
    }

    /// Sets the protocols by port of connections from now on, which separate slow requests where
    /// the first bytes do not show the protocol.
    pub fn set_protocols(&mut self, spoken: PortProtocols) {
        self.tracker_state.spoken = spoken;
    }

    /// Sets the maximum share of time for receiving while programs' input or output waits, 1..=100
    /// percent.
    ///
    /// # Panics
    /// If it is 0.
    pub fn set_receive_percent(&mut self, percent: u8) {
        let budget = WorkBudget { receive_percent: percent, ..self.front.budget };
        self.front.set_budget(budget);
    }

    /// The stack.
    pub fn stack(&mut self) -> &mut Stack {
        &mut self.stack
    }

    /// The application side.
    pub fn programs(&mut self) -> &mut P {
        &mut self.programs
    }

    /// Event counters.
    #[must_use]
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Fills `into` and takes over its emptied list of slow requests.
    pub fn show(&mut self, into: &mut ProxySnapshot) {
        let waiting = |levels: &[VecDeque<QueueEntry>]| levels.iter().map(VecDeque::len).sum();
        let mut slow = std::mem::take(&mut into.slow);
        slow.clear();
        slow.set_limits(self.tracker_state.slowest.limits());
        *into = ProxySnapshot {
            counters: self.counters,
            stack: *self.stack.counters(),
            frames: self.front.waiting(),
            inbound: waiting(&self.inbound),
            outbound: waiting(&self.outbound),
            connections: self.connections(),
            slow: std::mem::replace(&mut self.tracker_state.slowest, slow),
            together: self.tracker_state.together,
        };
    }

    /// Number of connections of programs.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.present as usize
    }

    /// True if no program has an open connection or UDP port, and all output was acknowledged.
    #[must_use]
    pub fn is_quiet(&self) -> bool {
        self.flows.iter().flatten().all(|flow| flow.opening)
            && self.datagrams.has_no_ports()
            && self.stack.buffer_bytes() == 0
            && !self.stack.wants_egress()
    }

    /// Time of the next [`step`](Self::step), if no event comes before.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Time> {
        let corked = self.corked.front().map(|&(until, _)| until);
        self.front.timeout([self.stack.poll_timeout(), corked].into_iter().flatten().min())
    }

    /// True if more than one level has occurred, so that the order matters.
    fn levels_differ(&self) -> bool {
        self.levels.first() != self.levels.last()
    }

    /// Maximum of output bytes in a round.
    fn collected_max(&self) -> usize {
        if self.levels_differ() { COLLECTED_SHORT } else { COLLECTED_MAX }
    }

    /// True after a whole round in which levels differ: a program that shares the core may have
    /// more urgent work than the rest.
    #[must_use]
    pub fn gives_way(&self) -> bool {
        !self.received && self.levels_differ()
    }

    /// Does one round of work, or only its first half if frames arrived, so that receiving is timed
    /// separately; true if there was any.
    pub fn step(&mut self, now: Time, device: &mut D) -> bool {
        self.front.start_round(now);
        self.update_guard(now);
        if self.stack.poll_timeout().is_some_and(|at| at <= now) {
            self.stack.handle_timeout(now);
        }
        self.uncork_due(now);
        let (inbound, outbound) = (&self.inbound, &self.outbound);
        let waits = || inbound.iter().chain(outbound).any(|level| !level.is_empty());
        if !self.received && !self.front.receive_share_exhausted(waits) && self.receive(now, device) {
            self.received = true;
            self.front.set_work(Work::Receive);
            return true;
        }
        let received = std::mem::take(&mut self.received);
        let busy = self.pass_on(now, device, received);
        self.front.set_work(if busy { Work::Rest } else { Work::None });
        busy
    }

    /// Second half of a round: everything except receiving; `busy`: this round has received.
    fn pass_on(&mut self, now: Time, device: &mut D, mut busy: bool) -> bool {
        busy |= self.poll_programs(now);
        self.take_events(now);
        self.take_datagrams();
        let delivered = self.deliver_input(now);
        busy |= delivered.is_some();
        busy |= self.collect(now, delivered);
        self.take_events(now);
        let sent = self.front.transmit(now, device, &mut self.stack, busy, || false) > 0;
        busy |= sent | self.send_again(sent);
        busy | self.reset(now)
    }

    /// Receives frames: all of them are classified before the next goes through TCP. True if there
    /// were any.
    fn receive(&mut self, now: Time, device: &mut D) -> bool {
        let WorkBudget { drive, transport, .. } = self.front.budget;
        let transport = if self.levels_differ() { TRANSPORTED_SHORT } else { transport };
        let mut some = false;
        for _ in 0..drive {
            let Self { front, stack, counters, present, .. } = self;
            let counted = DriverCountersMut { driver: &mut counters.driver, guard: &mut counters.guard };
            if front.receive_batch(now, device, stack, *present, counted).is_none() {
                break;
            }
            some = true;
        }
        some |= self.poll_app(now, P::poll_other_stacks);
        for _ in 0..transport {
            if self.front.transport(now, device, &mut self.stack).is_none() {
                break;
            }
            some = true;
        }
        some
    }

    /// Evaluates the guard's policy, if due.
    fn update_guard(&mut self, now: Time) {
        if self.front.is_due(now) {
            let oldest = self.oldest_accept_wait(now);
            let waiting = self.inbound.iter().map(VecDeque::len).sum::<usize>() + self.accept_waits.len();
            let (present, long_polls) = (self.present, self.accept_waits.long_polls());
            self.front.update_admission(
                now,
                &mut self.stack,
                &ServerLoad { waiting, oldest, present, long_polls },
            );
        }
    }

    /// Handles the applications' events.
    fn poll_programs(&mut self, now: Time) -> bool {
        self.poll_app(now, P::poll)
    }

    /// Handles the events from `poll`; true if there were any.
    fn poll_app(&mut self, now: Time, poll: impl FnOnce(&mut P, &mut Vec<AppEvent>) -> bool) -> bool {
        let mut events = std::mem::take(&mut self.events);
        let some = poll(&mut self.programs, &mut events);
        for what in events.drain(..) {
            self.on_app_event(now, what);
        }
        self.events = events;
        some
    }

    fn on_app_event(&mut self, now: Time, what: AppEvent) {
        match what {
            AppEvent::Pipe { conn, readable, writable, gone } => {
                let Some(flow) = self.flow(conn) else { return };
                flow.gone |= gone;
                if flow.gone && flow.opening {
                    return self.give_up(now, conn);
                }
                if readable || gone {
                    flow.pipe.arrived(flow.shut || flow.gone);
                }
                if writable && std::mem::take(&mut flow.full) {
                    flow.pipe.want_space(false);
                    let level = flow.level;
                    self.queue_in(conn, level);
                }
                if readable || gone {
                    self.queue_out(conn);
                }
            }
            AppEvent::Written(conn) => self.queue_out(conn),
            AppEvent::Shut(conn) => {
                if let Some(flow) = self.flow(conn) {
                    flow.shut = true;
                }
            }
            AppEvent::Listen { port, fast_open, hops } => {
                let classifier = self.programs.classifier(port);
                let options = ListenOptions { classifier, fast_open, hops, ..ListenOptions::default() };
                // The port may have a listener already.
                if self.stack.listen(port, options).is_err() {
                    self.stack.set_fast_open(port, fast_open);
                    self.stack.set_listener_hops(port, hops);
                }
            }
            AppEvent::Unlisten(port) => self.stack.unlisten(port),
            AppEvent::Connect { call, to, port, hops } => self.connect(now, call, to, (port, hops)),
            AppEvent::Set(conn, setting) => self.set(now, conn, setting),
            AppEvent::GetInfo { call, conn } => {
                let keep_alive = self.flow(conn).and_then(|flow| flow.keep_alive);
                let keep_alive = keep_alive.map_or(KeepAlive::LINUX, |(_, keep_alive)| keep_alive);
                self.programs.answer(call, self.stack.info(now, conn).as_ref(), keep_alive);
            }
            AppEvent::Bound(port) => self.bind(port),
            AppEvent::SocketClosed { socket, port, last } => self.close_socket(socket, port, last),
            AppEvent::DatagramReadable(socket) => self.queue_socket(socket),
            AppEvent::DatagramWritable(port) => self.on_space(port),
        }
    }

    fn set(&mut self, now: Time, conn: ConnId, setting: SocketOption) {
        let Some(flow) = flow::of(&mut self.flows, conn) else { return };
        let keep = flow.keep_alive.get_or_insert((false, KeepAlive::LINUX));
        match setting {
            SocketOption::KeepAlive(on) => keep.0 = on,
            SocketOption::KeepIdle(idle) => keep.1.idle = idle,
            SocketOption::KeepInterval(interval) => keep.1.interval = interval,
            SocketOption::KeepCount(count) => keep.1.count = count,
            SocketOption::UserTimeout(timeout) => return self.stack.set_user_timeout(now, conn, timeout),
            SocketOption::Dscp(dscp) => return self.stack.set_dscp(now, conn, dscp),
            SocketOption::Hops { six, hops } => {
                return self.set_hops(now, conn, six, |limits| limits.sent = hops);
            }
            SocketOption::HopsMin { six, hops } => {
                return self.set_hops(now, conn, six, |limits| limits.received_min = hops);
            }
            SocketOption::ResetOnClose(reset) => return flow.reset_on_close = reset,
            SocketOption::LowWater(bytes) => {
                flow.low_water = LOW_WATER_MAX.min(bytes as usize);
                if !flow.full {
                    // Now: the program may poll as soon as the next call is answered.
                    self.deliver_bytes(now, conn, usize::MAX);
                }
                return;
            }
            SocketOption::Withheld(bytes) => return self.deliver_withheld(now, conn, bytes as usize),
            SocketOption::Cork(cork) => {
                flow.cork = cork;
                return flow.hold(now, conn, cork, &mut self.stack, &mut self.corked);
            }
            SocketOption::Level(level) => {
                flow.level = level;
                flow.call.iter_mut().for_each(|call| call.set(level));
                self.stack.set_label(now, conn, Label::new(level));
                return self.publish(conn);
            }
            SocketOption::Private(bytes) => {
                let private = self.stack.private_mut(conn);
                private.into_iter().for_each(|all| application_mut(all).copy_from_slice(&bytes));
                return self.publish(conn);
            }
        }
        let (on, keep_alive) = *keep;
        self.stack.set_keep_alive(now, conn, on.then_some(keep_alive));
    }

    /// Changes the hop limits of `conn`, if its IP version matches.
    fn set_hops(&mut self, now: Time, conn: ConnId, six: bool, change: impl FnOnce(&mut HopLimits)) {
        if self.stack.tuple(conn).is_some_and(|tuple| tuple.remote.is_ipv6() == six) {
            self.stack.set_hops(now, conn, change);
        }
    }

    /// Releases small segments whose hold has expired.
    fn uncork_due(&mut self, now: Time) {
        while let Some(&(until, conn)) = self.corked.front() {
            let flow = flow::of(&mut self.flows, conn).filter(|flow| flow.corked == Some(until));
            if flow.is_some() && until > now {
                return;
            }
            // Due, or stale: a stale entry would only wake the stack.
            self.corked.pop_front();
            if let Some(flow) = flow {
                flow.hold(now, conn, false, &mut self.stack, &mut self.corked);
            }
        }
    }
}

#[cfg(test)]
mod tests;
