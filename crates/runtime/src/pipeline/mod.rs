//! Receive and transmit pipeline shared by all servers: device, driver stage, receive buffer and
//! TCP on receive, TCP's output on transmit.
//!
//! A [`Shard`](crate::Shard), a [`TaskShard`](crate::task::TaskShard) and a
//! [`SocketProxy`](crate::socket_proxy::SocketProxy) each have a [`Pipeline`] and differ in their
//! use of the bytes. The pipeline does not own the loop, nor the stack, which some of them share
//! ([`StackAccess`]).
//!
//! In a strict receive buffer a frame without a verdict is least urgent. In a learning one it takes
//! the connection's last priority from TCP and the application, so a known connection need not be
//! parsed again. A bare acknowledgement is the exception: it is most urgent. A flood of urgent data
//! would otherwise starve the acknowledgements of our own data: responses would stay in the send
//! buffer, be retransmitted after a timeout, and large ones would never end. A bare acknowledgement
//! costs a lookup, wakes no thread and frees memory. A SYN is not exempt, as it costs memory; nor
//! are FIN and RST, which would overtake data of their own connection. The classifier's verdict
//! always holds, except for a policy's default on a known connection. While no rule tells one frame
//! or connection from another, all are equal and stay in order.
//!
//! Receiving has a bounded share of the time (`WorkBudget::receive_percent`): the owner reports its
//! work and the time, and [`Pipeline::receive_share_exhausted`] gives the answer. Output may be
//! coalesced (`WorkBudget::hold`).
//! Source: ADPS §2.1; the overload paper §3.3 and §3.4.

mod admission;
mod time_share;
mod work_budget;

use classify::{DriverClassifier, IpView, PacketMeta, PacketView};
use net::device::ReceivedFrame;
use net::driver::{Admission, DriverCounters, FramePriority, RxBuffer, RxOrder, classify};
use net::{Device, Stack};
use queueing::{Priority, Span, Time};
use wire::tcp::Flags;

pub(crate) use admission::DriverAdmission;
pub use admission::{Refusal, ShardGuard, Shed};
pub(crate) use time_share::{TimeShare, Work};
pub use work_budget::WorkBudget;

use admission::{AdmissionResult, ShardLoad, opens};

/// Access to the stack: the owner's own, or shared behind a lock.
pub(crate) trait StackAccess {
    /// Result of `ask` on the stack.
    fn with<R>(&mut self, ask: impl FnOnce(&mut Stack) -> R) -> R;
}

impl StackAccess for Stack {
    #[inline]
    fn with<R>(&mut self, ask: impl FnOnce(&mut Stack) -> R) -> R {
        ask(self)
    }
}

/// Settings of a pipeline.
pub(crate) struct Setup {
    pub rx_order: RxOrder,
    pub rx_frames_max: usize,
    pub classifier: Option<DriverClassifier>,
    pub guard: Option<ShardGuard>,
    pub budget: WorkBudget,
}

/// Pipeline from device to TCP and back; see the module.
pub(crate) struct Pipeline<F> {
    rx: RxBuffer<F>,
    rx_frames_max: usize,
    order: RxOrder,
    classifier: Option<DriverClassifier>,
    pub admission: Option<DriverAdmission>,
    meter: TimeShare,
    /// Changed by [`Pipeline::set_budget`] only.
    pub budget: WorkBudget,
    /// Time at which the latest frame left the receive buffer.
    popped: Time,
    /// Time until which output is coalesced.
    held: Option<Time>,
    /// Time of the next attempt to transmit on a full device.
    blocked: Option<Time>,
}

/// Counters of the driver stage.
pub(crate) struct DriverCountersMut<'a> {
    pub driver: &'a mut DriverCounters,
    pub guard: &'a mut [Shed; Priority::LEVELS],
}

/// Result of the driver stage for one frame.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DriverResult {
    /// True if a classifier was called.
    pub classified: bool,
    /// True if the guard shed the frame; it is in no buffer.
    pub shed: bool,
}

/// Load of the server behind the pipeline, for the guard's policy.
pub(crate) struct ServerLoad {
    /// Waiting requests or tasks.
    pub waiting: usize,
    /// Time since which the oldest waits.
    pub oldest: Option<Time>,
    /// Connections that the application has.
    pub present: u64,
    /// Long polls besides those waiting, where waits end with the response.
    pub long_polls: Option<u64>,
}

/// Time between two attempts on a full device.
const BLOCKED: Span = Span::from_micros(10);

impl<F: AsRef<[u8]>> Pipeline<F> {
    /// An empty pipeline.
    ///
    /// # Panics
    /// If a budget is 0.
    pub fn new(setup: Setup) -> Self {
        setup.budget.check();
        Self {
            rx: RxBuffer::new(setup.rx_order, setup.rx_frames_max),
            rx_frames_max: setup.rx_frames_max,
            order: setup.rx_order,
            classifier: setup.classifier,
            admission: setup.guard.map(|guard| DriverAdmission::new(guard, setup.rx_frames_max)),
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

    pub fn set_guard(&mut self, guard: Option<ShardGuard>) {
        self.admission = guard.map(|guard| DriverAdmission::new(guard, self.rx_frames_max));
    }

    /// # Panics
    /// If a budget is 0.
    pub fn set_budget(&mut self, budget: WorkBudget) {
        budget.check();
        self.budget = budget;
    }

    /// Frames in the receive buffer.
    pub fn waiting(&self) -> usize {
        self.rx.len()
    }

    /// Arrival time of the oldest frame in the receive buffer.
    pub fn oldest(&self) -> Option<Time> {
        self.rx.oldest()
    }

    /// Time at which the latest frame left the receive buffer.
    #[inline]
    pub fn popped(&self) -> Time {
        self.popped
    }

    /// True while output is coalesced.
    #[inline]
    pub fn is_coalescing(&self) -> bool {
        self.held.is_some()
    }

    /// Time of the next call, if the stack has no earlier one.
    pub fn timeout(&self, stack: Option<Time>) -> Option<Time> {
        stack.into_iter().chain(self.blocked).min()
    }

    /// Charges the time since the last call to the current kind of work.
    #[inline]
    pub fn start_round(&mut self, now: Time) {
        self.meter.at(now, self.budget.receive_percent);
    }

    /// Sets the owner's current kind of work.
    #[inline]
    pub fn set_work(&mut self, work: Work) {
        self.meter.begin(work);
    }

    /// True if receiving has used its share of the time and other work waits, as `waits`
    /// determines.
    #[inline]
    pub fn receive_share_exhausted(&mut self, waits: impl FnOnce() -> bool) -> bool {
        if self.budget.receive_percent == 100 {
            return false;
        }
        let waits = waits();
        if !waits {
            self.meter.reset();
        }
        waits && self.meter.is_over()
    }

    /// Clears the debt of receiving, as no other work waited.
    pub fn reset_share(&mut self) {
        self.meter.reset();
    }

    /// True if an evaluation of the guard's policy is due.
    #[inline]
    pub fn is_due(&self, now: Time) -> bool {
        self.admission.as_ref().is_some_and(|admission| admission.is_due(now))
    }

    /// Evaluates the guard's policy. Returns the waits of the oldest frame and of the oldest
    /// request behind it, added.
    pub fn update_admission(
        &mut self,
        now: Time,
        below: &mut impl StackAccess,
        server_load: &ServerLoad,
    ) -> Span {
        let since = |oldest: Option<Time>| oldest.map_or(Span::ZERO, |at| now.since(at));
        let delay = since(self.rx.oldest()) + since(server_load.oldest);
        let ServerLoad { present, long_polls, .. } = *server_load;
        let load = ShardLoad { waiting: server_load.waiting as u64, delay, present, long_polls };
        let Self { admission, meter, .. } = self;
        if let Some(admission) = admission {
            below.with(|stack| admission.evaluate(now, &load, stack, meter));
        }
        delay
    }

    /// Driver stage: moves a frame from the device into the receive buffer. `present`: connections
    /// that the application has.
    #[inline]
    pub fn receive_batch<D: Device<Frame = F>>(
        &mut self,
        now: Time,
        device: &mut D,
        below: &mut impl StackAccess,
        present: u64,
        counted: DriverCountersMut<'_>,
    ) -> Option<DriverResult> {
        let ReceivedFrame { frame, arrived, checked } = device.receive(now)?;
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
                let frame_priority = self.frame_priority(frame.as_ref(), &meta, below);
                if let Some(frame) = self.rx.push(now, frame, meta, frame_priority) {
                    driver.dropped_full += 1;
                    device.recycle(frame);
                }
            }
            Admission::Drop => device.recycle(frame),
        }
        Some(driven)
    }

    /// Priority of this frame in the receive buffer.
    #[inline]
    fn frame_priority(&self, frame: &[u8], meta: &PacketMeta, below: &mut impl StackAccess) -> FramePriority {
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

    /// True if the guard sheds this frame; queues a reset if the client gets one.
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
        let Some(admission) = &mut self.admission else { return false };
        let found = AdmissionResult { present, frames: self.rx.len() };
        let class = match self.classifier {
            Some(_) => meta.priority.unwrap_or_default(),
            None => Priority::HIGHEST,
        };
        below.with(|stack| {
            if !opens(frame, meta, stack) {
                return false;
            }
            let shed = admission.sheds(now, class, &found, &mut counts[class.index()]);
            if shed && admission.refusal() == Refusal::Reset {
                stack.refuse_syn(frame, meta);
            }
            shed
        })
    }

    /// Runs the next frame through TCP; returns whether it carried payload.
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

    /// Transmits; returns the number of frames. While there is `more` to do, acknowledgements may
    /// wait a round to be piggybacked on a response. While frames or other work (`waits`) wait, all
    /// output may wait for `WorkBudget::hold`.
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

    /// Transmits TCP's output; acknowledgements too, unless there is `more` to do.
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

/// True if a packet is an acknowledgement without data.
fn is_bare_ack(ip: &IpView<'_>) -> bool {
    const CONTROL: Flags = Flags::SYN.with(Flags::FIN).with(Flags::RST);
    let (Some([]), Some(flags)) = (ip.tcp_payload(), ip.tcp_flags()) else { return false };
    flags.contains(Flags::ACK) && !flags.intersects(CONTROL)
}

#[cfg(test)]
pub(crate) mod tests;
