//! A frame's way in: device, driver stage, receive buffer, TCP.
//!
//! In a strict receive buffer a frame without a verdict is least urgent, with
//! one exception: a bare acknowledgement is most urgent. Otherwise a flood of
//! urgent data would starve the acknowledgements of what we sent: responses
//! stay in the send buffer, are sent again after a timeout, and large ones
//! never end. A bare acknowledgement costs a lookup, wakes nobody and frees
//! memory, so it may take its turn with the most urgent data. A SYN may not,
//! it costs memory; nor FIN and RST, which would overtake data of their own
//! connection. What the classifier says of a frame always stands, and where
//! there is none all frames are equal and keep their order.

use net::Device;
use net::classify::{PacketMeta, PacketView};
use net::driver::{Admission, RxOrder, classify};
use net::wire::tcp::Flags;
use queueing::{Priority, Span, Time};

use super::gate::{Refusal, Sight, opens};
use super::{Shard, Step};
use crate::app::App;

impl<D: Device, A: App> Shard<D, A> {
    /// The driver stage: takes a frame from the device into the receive buffer.
    pub(super) fn drive(&mut self, now: Time, device: &mut D) -> Option<Step> {
        let net::device::Received { frame, arrived, checked } = device.receive(now)?;
        let received = arrived.unwrap_or(now);
        let counters = &mut self.stats.counters.driver;
        match classify(self.classifier.as_ref(), frame.as_ref(), received, counters) {
            Admission::Queue(mut meta) => {
                meta.checked = checked;
                if self.sheds(now, frame.as_ref(), &meta) {
                    device.recycle(frame);
                    return Some(Step::Drive { classified: self.classifier.is_some(), shed: true });
                }
                let ordered = self.rx_order == RxOrder::Strict && self.classifier.is_some();
                if ordered && meta.priority.is_none() {
                    meta.priority = is_bare_ack(frame.as_ref(), &meta).then_some(Priority::HIGHEST);
                }
                if let Some(frame) = self.rx.push(now, frame, meta) {
                    self.stats.counters.driver.dropped_full += 1;
                    device.recycle(frame);
                }
            }
            Admission::Drop => device.recycle(frame),
        }
        Some(Step::Drive { classified: self.classifier.is_some(), shed: false })
    }

    /// Whether the guard sheds this frame; tells the client, if it is to be told.
    #[inline]
    fn sheds(&mut self, now: Time, frame: &[u8], meta: &PacketMeta) -> bool {
        let Some(gate) = self.gate.as_mut().filter(|_| opens(frame, meta, &self.stack)) else { return false };
        let class = match self.classifier {
            Some(_) => meta.priority.unwrap_or_default(),
            None => Priority::HIGHEST,
        };
        let counts = &mut self.stats.counters.guard[class.index()];
        let shed = gate.sheds(now, class, self.conns.live() as u64, counts);
        if shed && gate.refusal() == Refusal::Reset {
            self.stack.refuse_syn(frame, meta);
        }
        shed
    }

    /// Tells the guard's policy what the shard looks like, if it is time to.
    #[inline]
    pub(super) fn look_around(&mut self, now: Time) {
        let Some(gate) = self.gate.as_mut().filter(|gate| gate.is_due(now)) else { return };
        let since = |oldest: Option<Time>| oldest.map_or(Span::ZERO, |at| now.since(at));
        let sight = Sight {
            waiting: (self.dispatch.len() + self.stalled_len) as u64,
            delay: since(self.rx.oldest()) + since(self.dispatch.oldest()),
            present: self.conns.live() as u64,
        };
        self.stats.delay.record(sight.delay);
        gate.look(now, &sight, &self.stack, &mut self.meter);
    }

    /// Whether receiving has had its share of the time and a request waits
    /// that an idle worker would take.
    #[inline]
    pub(super) fn receives_too_much(&mut self) -> bool {
        if self.budget.receive_percent == 100 {
            return false;
        }
        let waits = !self.dispatch.is_empty() && !self.workers.idle.is_empty();
        if !waits {
            self.meter.forgive();
        }
        waits && self.meter.is_over()
    }

    /// Runs the frame whose turn it is through TCP.
    pub(super) fn transport(&mut self, now: Time, device: &mut D) -> Option<Step> {
        let (frame, meta) = self.rx.pop(now)?;
        self.popped = now;
        self.stack.ingress(now, frame.as_ref(), &meta);
        let payload = PacketView::new(frame.as_ref(), &meta).tcp_payload().is_some_and(|p| !p.is_empty());
        device.recycle(frame);
        Some(Step::Transport { payload })
    }
}

/// Whether a frame does nothing but acknowledge.
pub(crate) fn is_bare_ack(frame: &[u8], meta: &PacketMeta) -> bool {
    const CONTROL: Flags = Flags::SYN.with(Flags::FIN).with(Flags::RST);
    let Some(ip) = PacketView::new(frame, meta).ip() else { return false };
    let (Some([]), Some(flags)) = (ip.tcp_payload(), ip.tcp_flags()) else { return false };
    flags.contains(Flags::ACK) && !flags.intersects(CONTROL)
}
