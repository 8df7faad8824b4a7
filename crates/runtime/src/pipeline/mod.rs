//! What every server has before it: device, driver stage, receive buffer and
//! TCP on a frame's way in, and what TCP has ready on its way out.
//!
//! A [`Shard`](crate::Shard), a [`TaskShard`](crate::task::TaskShard) and
//! [`SocketProxy`](crate::streams::Streams) each have a [`Pipeline`] and differ in what
//! they do with the bytes. The round is its owner's, and so
//! is the stack, which some share ([`StackAccess`]).
//!
//! In a strict receive buffer a frame without a verdict is least urgent; in one
//! that learns it is as urgent as TCP and the application have found its
//! connection to be: what was found once need not be parsed again. A bare
//! acknowledgement is the exception, it is most urgent. Otherwise a flood of
//! urgent data would starve the acknowledgements of what we sent: responses
//! stay in the send buffer, are sent again after a timeout, and large ones
//! never end. A bare acknowledgement costs a lookup, wakes nobody and frees
//! memory, so it may take its turn with the most urgent data. A SYN may not,
//! it costs memory; nor FIN and RST, which would overtake data of their own
//! connection. What the classifier says of a frame always stands, but for a
//! policy's default where the connection is known; and as long as nobody tells
//! one frame or connection from another, all are equal and keep their order.
//!
//! Receiving gets a share of the time (`Budget::receive_percent`): the owner
//! says what it does and when, [`Pipeline::over`] answers. What is ready to be
//! sent may be held for more (`Budget::hold`).
//! Source: ADPS §2.1; the overload paper §3.3 and §3.4.

mod admission;
mod time_share;
mod work_budget;

use net::classify::{DriverClassifier, IpView, PacketMeta, PacketView};
use net::device::Received;
use net::driver::{Admission, DriverCounters, FramePriority, RxBuffer, RxOrder, classify};
use net::wire::tcp::Flags;
use net::{Device, Stack};
use queueing::{Priority, Span, Time};

pub(crate) use admission::DriverAdmission;
pub use admission::{Guard, Refusal, Shed};
pub(crate) use time_share::{TimeShare, Work};
pub use work_budget::Budget;

use admission::{AdmissionResult, ShardLoad, opens};

/// Where the stack is: the owner's own, or behind the lock of those who share it.
pub(crate) trait StackAccess {
    /// What `ask` finds out or does there.
    fn with<R>(&mut self, ask: impl FnOnce(&mut Stack) -> R) -> R;
}

impl StackAccess for Stack {
    #[inline]
    fn with<R>(&mut self, ask: impl FnOnce(&mut Stack) -> R) -> R {
        ask(self)
    }
}

/// How a front is set up.
pub(crate) struct Setup {
    pub rx_order: RxOrder,
    pub rx_frames_max: usize,
    pub classifier: Option<DriverClassifier>,
    pub guard: Option<Guard>,
    pub budget: Budget,
}

/// See the module.
pub(crate) struct Pipeline<F> {
    rx: RxBuffer<F>,
    rx_frames_max: usize,
    order: RxOrder,
    classifier: Option<DriverClassifier>,
    pub gate: Option<DriverAdmission>,
    meter: TimeShare,
    /// Changed by [`Pipeline::set_budget`] only.
    pub budget: Budget,
    /// When the latest frame was taken from the receive buffer.
    popped: Time,
    /// Until when what is ready to be sent waits for more.
    held: Option<Time>,
    /// When to try again to send: the device was full.
    blocked: Option<Time>,
}

/// Where the driver stage counts.
pub(crate) struct DriverCountersMut<'a> {
    pub driver: &'a mut DriverCounters,
    pub guard: &'a mut [Shed; Priority::LEVELS],
}

/// What the driver stage did to a frame.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DriverResult {
    /// A classifier was called.
    pub classified: bool,
    /// The guard shed it, so that it is in no buffer.
    pub shed: bool,
}

/// What a guard's policy needs to know that only the owner does.
pub(crate) struct ServerLoad {
    /// Requests, or tasks, that wait.
    pub waiting: usize,
    /// Since when the oldest does.
    pub oldest: Option<Time>,
    /// Connections that the application has.
    pub present: u64,
    /// Whether others may go before the oldest.
    pub reordered: bool,
}

/// How long to leave a full device alone.
const BLOCKED: Span = Span::from_micros(10);

impl<F: AsRef<[u8]>> Pipeline<F> {
    /// An empty one.
    ///
    /// # Panics
    /// When a budget is 0.
    pub fn new(setup: Setup) -> Self {
        setup.budget.check();
        Self {
            rx: RxBuffer::new(setup.rx_order, setup.rx_frames_max),
            rx_frames_max: setup.rx_frames_max,
            order: setup.rx_order,
            classifier: setup.classifier,
            gate: setup.guard.map(|guard| DriverAdmission::new(guard, setup.rx_frames_max)),
            meter: TimeShare::default(),
            budget: setup.budget,
            popped: Time::ZERO,
            held: None,
            blocked: None,
        }
    }

    pub fn set_classifier(&mut self, classifier: Option<DriverClassifier>) {
        self.classifier = classifier;
    }

    pub fn set_guard(&mut self, guard: Option<Guard>) {
        self.gate = guard.map(|guard| DriverAdmission::new(guard, self.rx_frames_max));
    }

    /// # Panics
    /// When one is 0.
    pub fn set_budget(&mut self, budget: Budget) {
        budget.check();
        self.budget = budget;
    }

    /// Frames in the receive buffer.
    pub fn waiting(&self) -> usize {
        self.rx.len()
    }

    /// When the frame that has waited longest came.
    pub fn oldest(&self) -> Option<Time> {
        self.rx.oldest()
    }

    /// When the latest frame was taken from the receive buffer.
    #[inline]
    pub fn popped(&self) -> Time {
        self.popped
    }

    /// Whether something ready to be sent waits for more.
    #[inline]
    pub fn is_coalescing(&self) -> bool {
        self.held.is_some()
    }

    /// When to look again, should `stack` have nothing to do before.
    pub fn timeout(&self, stack: Option<Time>) -> Option<Time> {
        stack.into_iter().chain(self.blocked).min()
    }

    /// It is `now`; what it was last told to do has taken the time until now.
    #[inline]
    pub fn start_round(&mut self, now: Time) {
        self.meter.at(now, self.budget.receive_percent);
    }

    /// What the owner does from now on.
    #[inline]
    pub fn set_work(&mut self, work: Work) {
        self.meter.begin(work);
    }

    /// Whether receiving has had its share of the time and somebody waits for
    /// the rest, which `waits` finds out.
    #[inline]
    pub fn receive_share_exhausted(&mut self, waits: impl FnOnce() -> bool) -> bool {
        if self.budget.receive_percent == 100 {
            return false;
        }
        let waits = waits();
        if !waits {
            self.meter.forgive();
        }
        waits && self.meter.is_over()
    }

    /// Nobody was kept waiting after all.
    pub fn reset_share(&mut self) {
        self.meter.forgive();
    }

    /// Whether the guard's policy is to look.
    #[inline]
    pub fn is_due(&self, now: Time) -> bool {
        self.gate.as_ref().is_some_and(|gate| gate.is_due(now))
    }

    /// Tells the guard's policy what there is; how long the oldest frame and
    /// the oldest of those behind have waited, together.
    pub fn update_admission(&mut self, now: Time, below: &mut impl StackAccess, behind: &ServerLoad) -> Span {
        let since = |oldest: Option<Time>| oldest.map_or(Span::ZERO, |at| now.since(at));
        let delay = since(self.rx.oldest()) + since(behind.oldest);
        let ServerLoad { present, reordered, .. } = *behind;
        let sight = ShardLoad { waiting: behind.waiting as u64, delay, present, reordered };
        let Self { gate, meter, .. } = self;
        if let Some(gate) = gate {
            below.with(|stack| gate.look(now, &sight, stack, meter));
        }
        delay
    }

    /// The driver stage: takes a frame from the device into the receive buffer.
    /// `present`: connections that the application has.
    #[inline]
    pub fn receive_batch<D: Device<Frame = F>>(
        &mut self,
        now: Time,
        device: &mut D,
        below: &mut impl StackAccess,
        present: u64,
        counted: DriverCountersMut<'_>,
    ) -> Option<DriverResult> {
        let Received { frame, arrived, checked } = device.receive(now)?;
        let DriverCountersMut { driver, guard } = counted;
        let mut driven = DriverResult { classified: self.classifier.is_some(), shed: false };
        match classify(self.classifier.as_ref(), frame.as_ref(), arrived.unwrap_or(now), driver) {
            Admission::Queue(mut meta) => {
                meta.checked = checked;
                if self.sheds(now, frame.as_ref(), &meta, below, present, guard) {
                    device.recycle(frame);
                    driven.shed = true;
                    return Some(driven);
                }
                let turn = self.turn(frame.as_ref(), &meta, below);
                if let Some(frame) = self.rx.push(now, frame, meta, turn) {
                    driver.dropped_full += 1;
                    device.recycle(frame);
                }
            }
            Admission::Drop => device.recycle(frame),
        }
        Some(driven)
    }

    /// How urgent this frame is while it waits.
    #[inline]
    fn turn(&self, frame: &[u8], meta: &PacketMeta, below: &mut impl StackAccess) -> FramePriority {
        let given = FramePriority::from(meta.priority.unwrap_or_default());
        let silent = meta.priority.is_none();
        if self.order == RxOrder::Fifo || !silent && !meta.by_default {
            return given;
        }
        below.with(|stack| {
            let learns = self.order == RxOrder::Learned && stack.has_priorities();
            if !(learns || silent && self.classifier.is_some()) {
                return given;
            }
            let Some(ip) = PacketView::new(frame, meta).ip() else { return given };
            let acknowledges = is_bare_ack(&ip);
            if silent && acknowledges {
                return FramePriority::from(Priority::HIGHEST);
            }
            if !learns || !acknowledges && ip.tcp_payload().is_none_or(<[u8]>::is_empty) {
                return given;
            }
            stack.priority_of(&ip).unwrap_or(given)
        })
    }

    /// Whether the guard sheds this frame; tells the client, if it is to be told.
    #[inline]
    fn sheds(
        &mut self,
        now: Time,
        frame: &[u8],
        meta: &PacketMeta,
        below: &mut impl StackAccess,
        present: u64,
        counts: &mut [Shed; Priority::LEVELS],
    ) -> bool {
        let Some(gate) = &mut self.gate else { return false };
        let found = AdmissionResult { present, frames: self.rx.len() };
        let class = match self.classifier {
            Some(_) => meta.priority.unwrap_or_default(),
            None => Priority::HIGHEST,
        };
        below.with(|stack| {
            if !opens(frame, meta, stack) {
                return false;
            }
            let shed = gate.sheds(now, class, &found, &mut counts[class.index()]);
            if shed && gate.refusal() == Refusal::Reset {
                stack.refuse_syn(frame, meta);
            }
            shed
        })
    }

    /// Runs the frame whose turn it is through TCP; whether it carried payload.
    #[inline]
    pub fn transport<D: Device<Frame = F>>(
        &mut self,
        now: Time,
        device: &mut D,
        below: &mut impl StackAccess,
    ) -> Option<bool> {
        let (frame, meta) = self.rx.pop(now)?;
        self.popped = now;
        below.with(|stack| stack.ingress(now, frame.as_ref(), &meta));
        let payload = PacketView::new(frame.as_ref(), &meta).tcp_payload().is_some_and(|p| !p.is_empty());
        device.recycle(frame);
        Some(payload)
    }

    /// Sends; how many frames. While there is `more` to do, acknowledgements may
    /// wait a round for the response that takes them along; while frames or
    /// others wait (`waits`), all of it may for `Budget::hold`.
    #[inline]
    pub fn transmit<D: Device<Frame = F>>(
        &mut self,
        now: Time,
        device: &mut D,
        below: &mut impl StackAccess,
        more: bool,
        waits: impl FnOnce() -> bool,
    ) -> usize {
        below.with(|stack| {
            if !stack.wants_egress() {
                self.blocked = None;
                return 0;
            }
            if self.budget.hold > Span::ZERO && (!self.rx.is_empty() || waits()) {
                let until = *self.held.get_or_insert(now + self.budget.hold);
                if now < until {
                    return 0;
                }
            }
            self.send(now, device, stack, more)
        })
    }

    /// Sends what TCP has ready; acknowledgements too, unless there is `more` to do.
    pub fn send<D: Device<Frame = F>>(
        &mut self,
        now: Time,
        device: &mut D,
        below: &mut impl StackAccess,
        more: bool,
    ) -> usize {
        self.held = None;
        below.with(|stack| {
            let frames = match more {
                true => stack.egress_early(now, device),
                false => stack.egress(now, device),
            };
            self.blocked = stack.wants_egress().then_some(now + BLOCKED);
            frames
        })
    }
}

/// Whether a packet does nothing but acknowledge.
fn is_bare_ack(ip: &IpView<'_>) -> bool {
    const CONTROL: Flags = Flags::SYN.with(Flags::FIN).with(Flags::RST);
    let (Some([]), Some(flags)) = (ip.tcp_payload(), ip.tcp_flags()) else { return false };
    flags.contains(Flags::ACK) && !flags.intersects(CONTROL)
}

#[cfg(test)]
pub(crate) mod tests;
