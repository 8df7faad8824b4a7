//! The guard at the driver stage: whose SYN comes in.
//!
//! A policy of crate `guard` looks at the shard some times a second; its door
//! holds SYNs to what it says, right behind the driver's classifier and before
//! the stack has seen them. A SYN that is shed costs a look at its headers: it
//! is in nobody's memory but the device's. Only a SYN to a port on which
//! somebody listens is asked about, so no connection is ever cut. A SYN's class
//! is the level that the driver's classifier gave it (by address, port,
//! whatever a policy's rules say); those of level 7, and those that it says
//! nothing of, are shed first. Without a classifier all are of one class.
//!
//! Whoever has come in finds room in the receive buffer: SYNs, which each bring
//! more frames along, take three quarters of it at the most, by class. A policy
//! looks once in a while and a flood fills the buffer between two looks; what it
//! then drops of open connections, requests among it, is sent again after a
//! second, past the guard, and is served to those who have left.
//! Source: the overload paper §3.3; ADR 0021.

use deadline::BudgetMedian;
use guard::{AdmissionController, Class, Limit, Params, Policy, Share, Signals, UnknownName};
use net::Stack;
use net::classify::{PacketMeta, PacketView};
use net::wire::tcp::Flags;
use queueing::{Priority, Span, Time};

use super::time_share::TimeShare;

/// A policy at a shard's driver stage, and what becomes of whom it sheds.
pub struct Guard {
    /// Says what may come in.
    pub policy: Box<dyn Policy>,
    /// How often it looks.
    pub period: Span,
    /// What a client hears whose SYN is shed.
    pub refusal: Refusal,
    /// Everybody comes in, and whom it would have shed is counted.
    pub watches: bool,
}

/// What a client hears whose SYN is shed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Refusal {
    /// Nothing: it tries again after a second or so.
    #[default]
    Drop,
    /// A reset: it knows at once, and costs a frame.
    Reset,
}

impl Guard {
    /// The policy called `name`, told `params`; silent.
    ///
    /// # Errors
    /// When there is none; the error lists them.
    pub fn by_name(name: &str, params: &Params) -> Result<Self, UnknownName> {
        let policy = guard::by_name(name, params)?;
        Ok(Self { policy, period: params.period, refusal: Refusal::default(), watches: false })
    }
}

/// What came to a gate, of one class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shed {
    /// SYNs that came.
    pub seen: u64,
    /// Of these, shed (or so it would be) because more came than is served.
    pub by_rate: u64,
    /// Because too many are in the server, or too many frames in the receive buffer.
    pub by_presence: u64,
    /// Because nobody came in.
    pub by_closing: u64,
}

impl Shed {
    /// All that were shed, whatever the reason.
    #[must_use]
    pub const fn shed(&self) -> u64 {
        self.by_rate + self.by_presence + self.by_closing
    }

    /// The same by reason, in a word each.
    #[must_use]
    pub const fn reasons(&self) -> [(&'static str, u64); 3] {
        [("rate", self.by_rate), ("present", self.by_presence), ("closed", self.by_closing)]
    }

    /// Adds what came elsewhere.
    pub const fn add(&mut self, other: &Self) {
        self.seen += other.seen;
        self.by_rate += other.by_rate;
        self.by_presence += other.by_presence;
        self.by_closing += other.by_closing;
    }
}

/// What a policy needs to know that the shard sees in passing.
#[derive(Debug, Default)]
struct Passing {
    offered: u64,
    admitted: u64,
    served: u64,
    answered: u64,
    answered_in: Span,
}

/// What a policy needs to know and the shard knows at any time.
pub(crate) struct ShardLoad {
    /// Requests in the event queue.
    pub(crate) waiting: u64,
    /// How long the oldest frame and the oldest request have waited, together.
    pub(crate) delay: Span,
    /// Connections that the application has.
    pub(crate) present: u64,
    /// Whether others may go before the oldest. Not where levels alone go first: frames wait,
    /// too, and are not counted above.
    pub(crate) reordered: bool,
}

/// What a SYN finds.
pub(crate) struct AdmissionResult {
    /// Connections that the application has.
    pub(crate) present: u64,
    /// Frames in the receive buffer.
    pub(crate) frames: usize,
}

/// A guard at work.
pub(crate) struct DriverAdmission {
    guard: Guard,
    /// Frames that one of the first class may find in the receive buffer.
    frames_max: u64,
    door: AdmissionController,
    limit: Limit,
    /// When to look next.
    due: Time,
    passing: Passing,
    budgets: BudgetMedian,
}

impl DriverAdmission {
    /// Before a receive buffer of `rx_frames_max` frames.
    pub(crate) fn new(guard: Guard, rx_frames_max: usize) -> Self {
        let frames_max = match guard.policy.never_sheds() {
            true => u64::MAX,
            false => (rx_frames_max - rx_frames_max / KEPT) as u64,
        };
        let door = AdmissionController::new(Priority::LEVELS as u8);
        let (due, passing) = (Time::ZERO, Passing::default());
        Self { guard, frames_max, door, limit: Limit::Open, due, passing, budgets: BudgetMedian::default() }
    }

    /// Whether a look is due.
    #[inline]
    pub(crate) fn is_due(&self, now: Time) -> bool {
        now >= self.due
    }

    /// Looks; returns the wait that was seen.
    pub(crate) fn look(&mut self, now: Time, sight: &ShardLoad, stack: &Stack, meter: &mut TimeShare) {
        let Passing { offered, admitted, served, answered, answered_in } = std::mem::take(&mut self.passing);
        let signals = Signals {
            offered,
            admitted,
            served,
            waiting: sight.waiting,
            delay: sight.delay,
            reordered: sight.reordered,
            budget: self.budgets.median(),
            latency: (answered > 0).then(|| answered_in / answered.max(1)),
            present: sight.present,
            kernel_share: meter.take_share(),
            sockets: stack.connections() as u64,
            memory_share: stack.buffer_bytes() as f64 / stack.config().memory_max.max(1) as f64,
        };
        self.limit = self.guard.policy.tick(now, &signals);
        self.door.set(now, self.limit);
        self.due = now + self.guard.period;
    }

    /// Whether a SYN of `class` is shed.
    pub(crate) fn sheds(
        &mut self,
        now: Time,
        class: Priority,
        found: &AdmissionResult,
        counts: &mut Shed,
    ) -> bool {
        let frames_max = Share::new(Priority::LEVELS).present(self.frames_max, class.index());
        let room = (found.frames as u64) < frames_max;
        let admitted = room && self.door.try_admit(now, Class::new(class.level()), found.present);
        counts.seen += 1;
        if !admitted {
            match self.limit {
                _ if !room => counts.by_presence += 1,
                Limit::Concurrency { .. } => counts.by_presence += 1,
                Limit::Closed => counts.by_closing += 1,
                Limit::Rate { .. } | Limit::Open => counts.by_rate += 1,
            }
        }
        let comes_in = admitted || self.guard.watches;
        self.passing.offered += 1;
        self.passing.admitted += u64::from(comes_in);
        !comes_in
    }

    /// What a client hears that was shed.
    pub(crate) fn refusal(&self) -> Refusal {
        self.guard.refusal
    }

    /// A worker takes the first request of a connection.
    pub(crate) fn on_served(&mut self) {
        self.passing.served += 1;
    }

    /// A request came that can spare so much.
    pub(crate) fn on_budget(&mut self, budget: Option<Span>) {
        self.budgets.record(budget);
    }

    /// A request was answered `latency` after it came.
    pub(crate) fn on_answered(&mut self, latency: Span) {
        self.passing.answered += 1;
        self.passing.answered_in += latency;
    }
}

/// One part of so many of the receive buffer is for connections that are there.
const KEPT: usize = 4;

/// Whether a frame asks for a connection to somebody who listens.
#[inline]
pub(crate) fn opens(frame: &[u8], meta: &PacketMeta, stack: &Stack) -> bool {
    const OTHERS: Flags = Flags::ACK.with(Flags::RST);
    let Some(ip) = PacketView::new(frame, meta).ip() else { return false };
    let Some(flags) = ip.tcp_flags() else { return false };
    flags.contains(Flags::SYN)
        && !flags.intersects(OTHERS)
        && ip.tcp_ports().is_some_and(|(_, target)| stack.listens(target))
}
