//! Connections whose other end is a program that knows nothing of us.
//!
//! A [`Shard`](crate::Shard) serves requests; here nobody knows where a
//! request ends. A connection is two streams of bytes: what the peer sent goes
//! into the program's [`AppStream`], what the program wrote goes to TCP, and the
//! label of what has come decides whose turn it is. Bytes of one connection
//! keep their order. The pure half of `greenwave run`: [`SocketProxy::turn`] does
//! one bounded round of work at `now`; [`serve`] loops on it.
//!
//! Bounds: the program's side of a connection is the pipe's own bound, as
//! nothing is taken from it that TCP has no room for; TCP's is its window, which
//! closes while the pipe is full. A connection waits at most once on each
//! level to hand over and once on each to collect. Starvation: both are strict
//! by level, up to [`HANDED_MAX`] connections a round and [`COLLECTED_MAX`]
//! bytes, but every level on which somebody waits has a turn in every round;
//! in the next where a program has just been handed something more urgent, and
//! where more urgent bytes fill round after round, in the ninth
//! ([`PASSED_IN_A_ROW`](queueing::PASSED_IN_A_ROW), as everywhere).
//! Datagrams take their turns among the connections (`datagrams`).
//! Source: ADPS M6 (label from packet to application); ADR 0025.

mod accept_wait;
mod app_sockets;
mod connect;
mod counters;
mod datagrams;
mod flow;
mod request_tracker;
mod thread;

use std::collections::VecDeque;

use guard::WaitEnd;
use net::classify::private::application_mut;
use net::classify::rules::PortProtocols;
use net::stack::{ConnId, HopLimits, KeepAlive, ListenOptions};
use net::{Device, Stack};
use queueing::{Label, Priority, PrioritySet, Span, Time};

use crate::mode::{Classifiers, Policy};
use crate::pipeline::{Budget, DriverCountersMut, Guard, Pipeline, ServerLoad, Setup, Work};
use crate::shard::Limits;
use accept_wait::UnacceptedConnections;
pub use app_sockets::{
    AppEvent, AppSockets, AppStream, DeliveryResult, OutgoingDatagram, Read, Setting, WriteResult,
};
pub use connect::NotOpened;
pub use counters::{Counters, Seen};
use datagrams::Datagrams;
use flow::{Flow, QueueEntry};
use request_tracker::TrackerState;
pub use thread::{SnapshotEndpoints, serve};

/// The pure heart.
pub struct SocketProxy<D: Device, P: AppSockets> {
    stack: Stack,
    front: Pipeline<D::Frame>,
    /// This round has received; its rest is to come.
    received: bool,
    programs: P,
    /// By [`ConnId::index`].
    flows: Vec<Option<Flow<P::Pipe>>>,
    /// How many of them there are.
    present: u64,
    /// Whoever has something for a program, by level; entries of those that
    /// have moved to a more urgent level are stale.
    inbound: [VecDeque<QueueEntry>; Priority::LEVELS],
    /// Those whose program may have written something, in the same way.
    outbound: [VecDeque<QueueEntry>; Priority::LEVELS],
    /// The levels on which somebody has waited so far.
    levels: PrioritySet,
    /// Rounds in a row that left what was less urgent to the next.
    passed_over: u8,
    datagrams: Datagrams,
    /// For the guard.
    newcomers: UnacceptedConnections,
    /// Connections whose small segments wait for more, and until when, in this order; entries of those that wait
    /// no longer are stale.
    corked: VecDeque<(Time, ConnId)>,
    /// Connections to be reset once this round's segments are out.
    resets: Vec<ConnId>,
    happened: Vec<AppEvent>,
    scratch: Box<[u8]>,
    counters: Counters,
    ledger: TrackerState,
}

/// Bytes that are read from a pipe at once.
const READ_MAX: usize = 64 * 1024;
/// Connections that are handed over in a round, and as many that are collected.
pub const HANDED_MAX: usize = 64;
/// Frames taken from the device in a round, and run through TCP.
const DRIVEN_MAX: usize = 128;
/// Bytes that are collected in a round before the next, in which who has
/// become urgent goes first.
pub const COLLECTED_MAX: usize = 256 * 1024;
/// The same while some are more urgent than others, so that a round is short:
/// some 30 segments.
pub const COLLECTED_SHORT: usize = 32 * 1024;
/// How long small segments wait for more (tcp(7), TCP_CORK).
const CORKED_MAX: Span = Span::from_millis(200);
/// Frames run through TCP in such a round. In any other it is all that were taken: peers
/// acknowledge faster than this, and what waits too long for TCP is lost.
const TRANSPORTED_SHORT: usize = 32;

impl<D: Device, P: AppSockets> SocketProxy<D, P> {
    /// A stack on which nobody listens yet, under `policy`, of which the
    /// dispatch is the program's own affair. `frames_max`: received frames
    /// that wait for TCP.
    #[must_use]
    pub fn new(mut stack: net::stack::Config, policy: Policy, frames_max: usize, programs: P) -> Self {
        if policy.transport.is_some() {
            stack.classifier = policy.transport;
        }
        // Its programs were written for a kernel's TCP.
        (stack.reads_after_reset, stack.soft_errors_end_opening) = (true, true);
        Self {
            stack: Stack::new(stack),
            front: Pipeline::new(Setup {
                rx_order: policy.rx_order,
                rx_frames_max: frames_max,
                classifier: policy.driver,
                guard: None,
                budget: Budget { drive: DRIVEN_MAX, transport: DRIVEN_MAX, ..Budget::default() },
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
            newcomers: UnacceptedConnections::default(),
            corked: VecDeque::new(),
            resets: Vec::new(),
            happened: Vec::new(),
            scratch: vec![0; READ_MAX].into(),
            counters: Counters::default(),
            ledger: TrackerState::default(),
        }
    }

    /// Keeps slow requests whole, of connections that come or are opened from now on.
    pub fn set_slow(&mut self, limits: Limits) {
        self.ledger.set_limits(limits);
    }

    /// Lets in whose SYN `guard` admits. Nobody knows here where a request
    /// begins, so the policy sees neither budgets nor latencies: a connection
    /// waits from when its program was handed its first bytes until that has read
    /// them ([`WaitEnd::Accept`]), or has written something for it: then others may
    /// be answered before the one that has waited longest.
    pub fn set_guard(&mut self, guard: Option<Guard>, until: WaitEnd) {
        self.newcomers = UnacceptedConnections::new(until);
        self.front.set_guard(guard);
    }

    /// Replaces both classifiers, the transport's where no program has said rules
    /// of its own: from the next frame, and the next segment, on. What waits
    /// already keeps its label. What is spoken is known of connections that come, or are opened, from now on.
    pub fn set_classifiers(&mut self, classifiers: Classifiers) {
        self.front.set_classifier(classifiers.driver);
        self.stack.set_default_classifier(classifiers.transport);
        self.set_spoken(classifiers.spoken);
    }

    /// What connections speak that come or are opened from now on: slow requests are told from each
    /// other by it, where first bytes do not say.
    pub fn set_spoken(&mut self, spoken: PortProtocols) {
        self.ledger.spoken = spoken;
    }

    /// How much of its time the stack may receive while something for programs
    /// waits, 1..=100 percent.
    ///
    /// # Panics
    /// When it is 0.
    pub fn set_receive_percent(&mut self, percent: u8) {
        let budget = Budget { receive_percent: percent, ..self.front.budget };
        self.front.set_budget(budget);
    }

    /// The stack.
    pub fn stack(&mut self) -> &mut Stack {
        &mut self.stack
    }

    /// The programs.
    pub fn programs(&mut self) -> &mut P {
        &mut self.programs
    }

    /// What happened so far.
    #[must_use]
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Shows the same, what waits now, and who was slow; `into` brings an empty
    /// list of those, with which it goes on.
    pub fn show(&mut self, into: &mut Seen) {
        let waiting = |levels: &[VecDeque<QueueEntry>]| levels.iter().map(VecDeque::len).sum();
        let mut slow = std::mem::take(&mut into.slow);
        slow.clear();
        slow.set_limits(self.ledger.slowest.limits());
        *into = Seen {
            counters: self.counters,
            stack: *self.stack.counters(),
            frames: self.front.waiting(),
            inbound: waiting(&self.inbound),
            outbound: waiting(&self.outbound),
            connections: self.connections(),
            slow: std::mem::replace(&mut self.ledger.slowest, slow),
            together: self.ledger.together,
        };
    }

    /// Connections that programs have.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.present as usize
    }

    /// Whether no program has a connection that is open, or sends datagrams,
    /// and all that they wrote has arrived.
    #[must_use]
    pub fn is_quiet(&self) -> bool {
        self.flows.iter().flatten().all(|flow| flow.opening)
            && self.datagrams.nobody_sends()
            && self.stack.buffer_bytes() == 0
            && !self.stack.wants_egress()
    }

    /// When [`turn`](Self::turn) should be called next if nothing comes.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Time> {
        let corked = self.corked.front().map(|&(until, _)| until);
        self.front.timeout([self.stack.poll_timeout(), corked].into_iter().flatten().min())
    }

    /// Whether some have been more urgent than others so far, so that it matters who is next.
    fn differ(&self) -> bool {
        self.levels.first() != self.levels.last()
    }

    /// Bytes that are collected in a round.
    fn collected_max(&self) -> usize {
        if self.differ() { COLLECTED_SHORT } else { COLLECTED_MAX }
    }

    /// Whether this round is over and the core better a program's now, in case
    /// that the two have one: what it was handed may be more urgent than the rest.
    #[must_use]
    pub fn gives_way(&self) -> bool {
        !self.received && self.differ()
    }

    /// One round of work, or where frames came its first half, so that it is
    /// known how long receiving takes; whether there was any.
    pub fn turn(&mut self, now: Time, device: &mut D) -> bool {
        self.front.start_round(now);
        self.look_around(now);
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

    /// What happens to bytes beyond TCP; `busy`: this round has received.
    fn pass_on(&mut self, now: Time, device: &mut D, mut busy: bool) -> bool {
        busy |= self.listen_to_programs(now);
        self.take_events(now);
        self.take_datagrams();
        let handed = self.hand_over(now);
        busy |= handed.is_some();
        busy |= self.collect(now, handed);
        self.take_events(now);
        let sent = self.front.transmit(now, device, &mut self.stack, busy, || false) > 0;
        busy |= sent | self.send_again(sent);
        busy | self.reset(now)
    }

    /// Takes in what has come: all of it is classified before the next frame
    /// goes through TCP. Whether there was any.
    fn receive(&mut self, now: Time, device: &mut D) -> bool {
        let Budget { drive, transport, .. } = self.front.budget;
        let transport = if self.differ() { TRANSPORTED_SHORT } else { transport };
        let mut some = false;
        for _ in 0..drive {
            let Self { front, stack, counters, present, .. } = self;
            let counted = DriverCountersMut { driver: &mut counters.driver, guard: &mut counters.guard };
            if front.receive_batch(now, device, stack, *present, counted).is_none() {
                break;
            }
            some = true;
        }
        some |= self.hear(now, P::poll_left);
        for _ in 0..transport {
            if self.front.transport(now, device, &mut self.stack).is_none() {
                break;
            }
            some = true;
        }
        some
    }

    /// Tells the guard's policy what there is, if it is time to.
    fn look_around(&mut self, now: Time) {
        if self.front.is_due(now) {
            let oldest = self.oldest_newcomer();
            let waiting = self.inbound.iter().map(VecDeque::len).sum::<usize>() + self.newcomers.len();
            let (present, reordered) = (self.present, self.newcomers.are_reordered());
            self.front.update_admission(
                now,
                &mut self.stack,
                &ServerLoad { waiting, oldest, present, reordered },
            );
        }
    }

    /// Takes in what happened on the programs' side.
    fn listen_to_programs(&mut self, now: Time) -> bool {
        self.hear(now, P::poll)
    }

    /// Takes in what `poll` tells; whether that was anything.
    fn hear(&mut self, now: Time, poll: impl FnOnce(&mut P, &mut Vec<AppEvent>) -> bool) -> bool {
        let mut happened = std::mem::take(&mut self.happened);
        let some = poll(&mut self.programs, &mut happened);
        for what in happened.drain(..) {
            self.on_happened(now, what);
        }
        self.happened = happened;
        some
    }

    fn on_happened(&mut self, now: Time, what: AppEvent) {
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
                    flow.pipe.want_room(false);
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
                // Somebody may listen there already.
                if self.stack.listen(port, options).is_err() {
                    self.stack.set_fast_open(port, fast_open);
                    self.stack.set_listener_hops(port, hops);
                }
            }
            AppEvent::Unlisten(port) => self.stack.unlisten(port),
            AppEvent::Connect { call, to, port, hops } => self.connect(now, call, to, (port, hops)),
            AppEvent::Set(conn, setting) => self.set(now, conn, setting),
            AppEvent::Asked { call, conn } => {
                let keep_alive = self.flow(conn).and_then(|flow| flow.keep_alive);
                let keep_alive = keep_alive.map_or(KeepAlive::LINUX, |(_, keep_alive)| keep_alive);
                self.programs.answer(call, self.stack.info(now, conn).as_ref(), keep_alive);
            }
            AppEvent::Bound(port) => self.bind(port),
            AppEvent::Left { socket, port, last } => self.let_go_of_socket(socket, port, last),
            AppEvent::Mail(socket) => self.queue_socket(socket),
            AppEvent::Room(port) => self.on_room(port),
        }
    }

    fn set(&mut self, now: Time, conn: ConnId, setting: Setting) {
        let Some(flow) = flow::of(&mut self.flows, conn) else { return };
        let keep = flow.keep_alive.get_or_insert((false, KeepAlive::LINUX));
        match setting {
            Setting::KeepAlive(on) => keep.0 = on,
            Setting::KeepIdle(idle) => keep.1.idle = idle,
            Setting::KeepInterval(interval) => keep.1.interval = interval,
            Setting::KeepCount(count) => keep.1.count = count,
            Setting::UserTimeout(timeout) => return self.stack.set_user_timeout(now, conn, timeout),
            Setting::Dscp(dscp) => return self.stack.set_dscp(now, conn, dscp),
            Setting::Hops { six, hops } => return self.set_hops(now, conn, six, |limits| limits.sent = hops),
            Setting::HopsMin { six, hops } => {
                return self.set_hops(now, conn, six, |limits| limits.received_min = hops);
            }
            Setting::ResetOnClose(reset) => return flow.reset_on_close = reset,
            Setting::Cork(cork) => {
                flow.cork = cork;
                return flow.hold(now, conn, cork, &mut self.stack, &mut self.corked);
            }
            Setting::Level(level) => {
                flow.level = level;
                self.stack.set_label(now, conn, Label::new(level));
                return self.tell(conn);
            }
            Setting::Private(bytes) => {
                let private = self.stack.private_mut(conn);
                private.into_iter().for_each(|all| application_mut(all).copy_from_slice(&bytes));
                return self.tell(conn);
            }
        }
        let (on, keep_alive) = *keep;
        self.stack.set_keep_alive(now, conn, on.then_some(keep_alive));
    }

    /// Changes hop limits of `conn`, if it is of this version of IP.
    fn set_hops(&mut self, now: Time, conn: ConnId, six: bool, change: impl FnOnce(&mut HopLimits)) {
        if self.stack.tuple(conn).is_some_and(|tuple| tuple.remote.is_ipv6() == six) {
            self.stack.set_hops(now, conn, change);
        }
    }

    /// Lets go of small segments that have waited long enough.
    fn uncork_due(&mut self, now: Time) {
        while let Some(&(until, conn)) = self.corked.front()
            && until <= now
        {
            self.corked.pop_front();
            if let Some(flow) = flow::of(&mut self.flows, conn).filter(|flow| flow.corked == Some(until)) {
                flow.hold(now, conn, false, &mut self.stack, &mut self.corked);
            }
        }
    }
}

#[cfg(test)]
mod tests;
