//! Admission control for SYNs at the driver stage.
//!
//! A policy of crate `guard` evaluates the shard's load periodically. Its [`AdmissionController`]
//! admits or sheds each SYN after the driver's classifier and before TCP. A shed SYN costs one
//! parse of its headers and no memory beyond the device's. Only SYNs to listening ports are subject
//! to admission; an open connection is never cut. A SYN's class is the level from the driver's
//! classifier (address, port, a policy's rules). Level 7 and SYNs without a verdict are shed first.
//! Without a classifier all SYNs are of one class. The controller counts SYNs, the policy connections
//! ([`Handshakes`]).
//!
//! SYNs are admitted only while the receive buffer is filled to at most three quarters, by class,
//! because each connection brings more frames. Between two evaluations a flood could otherwise fill
//! the buffer. It would then drop frames of open connections, requests among them; the peers would
//! retransmit them a second later, past the guard, and the server would serve clients that have
//! left.
//! Source: the overload paper §3.3; ADR 0021.

use classify::{PacketMeta, PacketView};
use deadline::BudgetMedian;
use guard::{
    AdmissionController, Class, HandshakeEnds, Handshakes, Limit, Params, Policy, ResponseWaits, Share,
    Signals, UnknownName,
};
use net::Stack;
use queueing::{Priority, Span, Time};
use wire::tcp::Flags;

use super::time_share::TimeShare;

/// Guard of a shard: policy, period and response to shed SYNs.
pub struct ShardGuard {
    /// Policy that sets the limit.
    pub policy: Box<dyn Policy>,
    /// Time between two evaluations.
    pub period: Span,
    /// Response to a shed SYN.
    pub refusal: Refusal,
    /// Dry run: admits every SYN and counts those it would have shed.
    pub watches: bool,
}

/// Response to a shed SYN.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Refusal {
    /// None: the client retransmits after about a second.
    #[default]
    Drop,
    /// A reset: the client fails at once, at the cost of one frame.
    Reset,
}

impl ShardGuard {
    /// Guard with the policy `name` and `params`, which drops silently.
    ///
    /// # Errors
    /// No policy has the name; the error lists the names.
    pub fn by_name(name: &str, params: &Params) -> Result<Self, UnknownName> {
        let policy = guard::by_name(name, params)?;
        Ok(Self { policy, period: params.period, refusal: Refusal::default(), watches: false })
    }
}

/// SYNs of one class at the guard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shed {
    /// SYNs received.
    pub seen: u64,
    /// SYNs shed (or, in a dry run, counted as such) because of the rate limit.
    pub by_rate: u64,
    /// SYNs shed because of too many connections in the server or frames in the receive buffer.
    pub by_presence: u64,
    /// SYNs shed because admission was closed.
    pub by_closing: u64,
}

impl Shed {
    /// SYNs shed for any reason.
    #[must_use]
    pub const fn shed(&self) -> u64 {
        self.by_rate + self.by_presence + self.by_closing
    }

    /// SYNs shed by reason, with a name each.
    #[must_use]
    pub const fn reasons(&self) -> [(&'static str, u64); 3] {
        [("rate", self.by_rate), ("present", self.by_presence), ("closed", self.by_closing)]
    }

    /// Adds the counts of another shard.
    pub const fn add(&mut self, other: &Self) {
        self.seen += other.seen;
        self.by_rate += other.by_rate;
        self.by_presence += other.by_presence;
        self.by_closing += other.by_closing;
    }
}

/// Event counts of the current period, for the policy.
#[derive(Debug, Default)]
struct PeriodCounts {
    offered: u64,
    admitted: u64,
    served: u64,
    answered: u64,
    answered_in: Span,
}

/// Current state of the shard, for the policy.
pub(crate) struct ShardLoad {
    /// Requests in the event queue.
    pub(crate) waiting: u64,
    /// Waits of the oldest frame and the oldest request, added.
    pub(crate) delay: Span,
    /// Connections that the application has.
    pub(crate) present: u64,
    /// Long polls besides those waiting, where waits end with the response.
    pub(crate) long_polls: Option<u64>,
}

/// State that a SYN meets on arrival.
pub(crate) struct AdmissionResult {
    /// Connections that the application has.
    pub(crate) present: u64,
    /// Frames in the receive buffer.
    pub(crate) frames: usize,
}

/// Running guard of a pipeline.
pub(crate) struct DriverAdmission {
    guard: ShardGuard,
    /// Limit of frames in the receive buffer for a SYN of the first class.
    frames_max: u64,
    controller: AdmissionController,
    limit: Limit,
    /// Time of the next evaluation.
    due: Time,
    /// Time of the last one, and what the stack had counted by then.
    last: Option<(Time, HandshakeEnds)>,
    handshakes: Handshakes,
    period: PeriodCounts,
    response_waits: ResponseWaits,
    budgets: BudgetMedian,
}

impl DriverAdmission {
    /// Guard in front of a receive buffer of `rx_frames_max` frames.
    pub(crate) fn new(guard: ShardGuard, rx_frames_max: usize) -> Self {
        let frames_max = match guard.policy.never_sheds() {
            true => u64::MAX,
            false => (rx_frames_max - rx_frames_max / KEPT) as u64,
        };
        let controller = AdmissionController::new(Priority::LEVELS as u8);
        let (due, period) = (Time::ZERO, PeriodCounts::default());
        Self {
            guard,
            frames_max,
            controller,
            limit: Limit::Open,
            due,
            last: None,
            handshakes: Handshakes::default(),
            period,
            response_waits: ResponseWaits::default(),
            budgets: BudgetMedian::default(),
        }
    }

    /// True if an evaluation is due.
    #[inline]
    pub(crate) fn is_due(&self, now: Time) -> bool {
        now >= self.due
    }

    /// Evaluates the policy and sets the new limit.
    pub(crate) fn evaluate(&mut self, now: Time, load: &ShardLoad, stack: &Stack, meter: &mut TimeShare) {
        let PeriodCounts { offered, admitted, served, answered, answered_in } =
            std::mem::take(&mut self.period);
        let signals = Signals {
            offered,
            admitted,
            served,
            waiting: load.waiting,
            delay: load.delay,
            // Levels reorder, but frames wait too, and are not in `waiting`.
            reordered: false,
            responses: None,
            budget: self.budgets.median(),
            latency: (answered > 0).then(|| answered_in / answered.max(1)),
            present: load.present,
            kernel_share: meter.take_share(),
            sockets: stack.connections() as u64,
            memory_share: stack.buffer_bytes() as f64 / stack.config().memory_max.max(1) as f64,
        };
        let net::stack::Counters { accepted, accept_drops, .. } = *stack.counters();
        let total = HandshakeEnds { completed: accepted, dropped: accept_drops };
        let (before, counted) = self.last.replace((now, total)).unwrap_or((now, total));
        let signals = self.handshakes.signals(now.since(before), total.since(counted), signals);
        let signals = match load.long_polls {
            None => signals,
            Some(long_polls) => self.response_waits.signals(signals, long_polls),
        };
        self.limit = self.handshakes.limit(self.guard.policy.tick(now, &signals));
        self.controller.set(now, self.limit);
        self.due = now + self.guard.period;
    }

    /// True if a SYN of `class` is shed.
    pub(crate) fn sheds(
        &mut self,
        now: Time,
        class: Priority,
        found: &AdmissionResult,
        counts: &mut Shed,
    ) -> bool {
        let frames_max = Share::new(Priority::LEVELS).present(self.frames_max, class.index());
        let room = (found.frames as u64) < frames_max;
        let admitted = room && self.controller.try_admit(now, Class::new(class.level()), found.present);
        counts.seen += 1;
        if !admitted {
            match self.limit {
                _ if !room => counts.by_presence += 1,
                Limit::Concurrency { .. } => counts.by_presence += 1,
                Limit::Closed => counts.by_closing += 1,
                Limit::Rate { .. } | Limit::Open => counts.by_rate += 1,
            }
        }
        let is_admitted = admitted || self.guard.watches;
        self.period.offered += 1;
        self.period.admitted += u64::from(is_admitted);
        !is_admitted
    }

    /// Response to a shed SYN.
    pub(crate) fn refusal(&self) -> Refusal {
        self.guard.refusal
    }

    /// Records that a worker takes the first request of a connection.
    pub(crate) fn on_served(&mut self) {
        self.period.served += 1;
    }

    /// Records the first response of a connection, after `wait`.
    pub(crate) fn on_first_response(&mut self, wait: Span) {
        self.on_served();
        self.response_waits.record(wait);
    }

    /// Time before which connections without a response were made that are long polls at `now`.
    pub(crate) fn long_polls_end(&mut self, now: Time) -> Time {
        self.response_waits.long_polls_end(now)
    }

    /// Records the budget of a request.
    pub(crate) fn on_budget(&mut self, budget: Option<Span>) {
        self.budgets.record(budget);
    }

    /// Records an answer `latency` after the request's arrival.
    pub(crate) fn on_answered(&mut self, latency: Span) {
        self.period.answered += 1;
        self.period.answered_in += latency;
    }
}

/// Inverse of the share of the receive buffer that is reserved for open connections.
const KEPT: usize = 4;

/// True if a frame opens a connection to a listening port.
#[inline]
pub(crate) fn opens(frame: &[u8], meta: &PacketMeta, stack: &Stack) -> bool {
    const OTHERS: Flags = Flags::ACK.with(Flags::RST);
    let Some(ip) = PacketView::new(frame, meta).ip() else { return false };
    let Some(flags) = ip.tcp_flags() else { return false };
    flags.contains(Flags::SYN)
        && !flags.intersects(OTHERS)
        && ip.tcp_ports().is_some_and(|(_, target)| stack.listens(target))
}
