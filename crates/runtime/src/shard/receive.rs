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
use queueing::{Priority, Time};

use super::{Shard, Step};
use crate::app::App;

impl<D: Device, A: App> Shard<D, A> {
    /// The driver stage: takes a frame from the device into the receive buffer.
    pub(super) fn drive(&mut self, now: Time, device: &mut D) -> Option<Step> {
        let net::device::Received { frame, arrived, checked } = device.receive(now)?;
        let counters = &mut self.stats.counters.driver;
        let received = arrived.unwrap_or(now);
        match classify(self.classifier.as_ref(), frame.as_ref(), received, counters) {
            Admission::Queue(mut meta) => {
                meta.checked = checked;
                let ordered = self.rx_order == RxOrder::Strict && self.classifier.is_some();
                if ordered && meta.priority.is_none() {
                    meta.priority = is_bare_ack(frame.as_ref(), &meta).then_some(Priority::HIGHEST);
                }
                if let Some(frame) = self.rx.push(now, frame, meta) {
                    counters.dropped_full += 1;
                    device.recycle(frame);
                }
            }
            Admission::Drop => device.recycle(frame),
        }
        Some(Step::Drive { classified: self.classifier.is_some() })
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
fn is_bare_ack(frame: &[u8], meta: &PacketMeta) -> bool {
    const CONTROL: Flags = Flags::SYN.with(Flags::FIN).with(Flags::RST);
    let Some(ip) = PacketView::new(frame, meta).ip() else { return false };
    let Some([]) = ip.tcp_payload() else { return false };
    let flags = Flags::from_bits(ip.payload()[FLAGS_AT]);
    flags.contains(Flags::ACK) && !flags.intersects(CONTROL)
}

/// Where a TCP header has its control bits.
const FLAGS_AT: usize = 13;
