//! Flow steering: several shards behind one host's devices, each frame to the shard that owns its
//! flow.
//!
//! A [`Steered`] device sits between a shard and its device. It passes frames of other shards'
//! flows over a memory link: bounded, single producer and single consumer, a copy into the link's
//! own buffers, no lock. It never waits: a frame for a full link is dropped and counted, as by a
//! NIC with a full queue. Either every shard has a device queue of its own ([`over_queues`]; no
//! frame has to be passed on where the NIC hashes as [`FlowSteering`] does), or the first shard's
//! thread drives the only one ([`over_one`]) and transmits for all.
//!
//! The shard that passes a frame wakes a sleeping receiver; `tests/doorbell.rs` checks that no
//! interleaving loses a wake-up.

mod counts;
mod waker;

use std::sync::Arc;
use std::time::Duration;

use net::Device;
use net::device::memory::{MemoryDevice, MemoryFrame, pair};
use net::device::{Full, Offloads, ReceivedFrame};
use net::steer::{FlowSteering, FrameOwner};
use queueing::{Span, Time};

use counts::{Counters, count};
pub use counts::{FrameCounts, FrameMeter};
use waker::ShardWaker;

/// Device of one shard, with its links to the other shards.
pub struct Steered<D: Device> {
    shard: usize,
    steering: FlowSteering,
    /// The shard's own queue; `None` if it transmits through the first shard.
    device: Option<D>,
    /// True if this shard transmits for shards without a device.
    transmits_for_others: bool,
    frame_len_max: usize,
    offloads: Offloads,
    /// Link to each shard, by shard.
    links: Vec<Option<MemoryDevice>>,
    /// Next source to poll: a shard's link or, at our own number, the device.
    next: usize,
    /// Another shard's frame that the full device refused.
    blocked: Option<(usize, MemoryFrame)>,
    /// Shards with frames passed since their last wake-up, one bit each.
    unsignalled: u128,
    passed: u32,
    wakers: Arc<[ShardWaker]>,
    counters: Arc<Counters>,
}

/// A received frame: from the device, or passed on by another shard.
#[derive(Debug)]
pub enum SteeredFrame<F> {
    /// Frame from the shard's own device queue.
    Device(F),
    /// Frame from another shard.
    Link {
        /// Shard whose link owns the buffer.
        from: usize,
        /// The copied frame.
        frame: MemoryFrame,
    },
}

impl<F: AsRef<[u8]>> AsRef<[u8]> for SteeredFrame<F> {
    fn as_ref(&self) -> &[u8] {
        match self {
            Self::Device(frame) => frame.as_ref(),
            Self::Link { frame, .. } => frame.as_ref(),
        }
    }
}

/// Devices of the shards; `devices[n]` is shard `n`'s queue. A link holds `frames` frames in each
/// direction.
///
/// # Panics
/// If the number of devices differs from `steering`'s shards, or `frames` is 0.
#[must_use]
pub fn over_queues<D: Device>(devices: Vec<D>, steering: FlowSteering, frames: usize) -> Vec<Steered<D>> {
    build(devices.into_iter().map(Some).collect(), steering, frames)
}

/// One device for all shards, driven by the first shard's thread. A link to each other shard holds
/// `frames` frames in each direction.
///
/// # Panics
/// If `frames` is 0.
#[must_use]
pub fn over_one<D: Device>(device: D, steering: FlowSteering, frames: usize) -> Vec<Steered<D>> {
    let mut devices = vec![Some(device)];
    devices.resize_with(usize::from(steering.shards()), || None);
    build(devices, steering, frames)
}

fn build<D: Device>(devices: Vec<Option<D>>, steering: FlowSteering, frames: usize) -> Vec<Steered<D>> {
    let shards = devices.len();
    assert_eq!(shards, usize::from(steering.shards()), "a shard has one device");
    let first = devices[0].as_ref().expect("the first shard has a device");
    let (frame_len_max, offloads) = (first.frame_len_max(), first.offloads());
    let transmits_for_others = devices.iter().any(Option::is_none);
    let wakers: Arc<[ShardWaker]> =
        devices.iter().map(|device| ShardWaker::new(device.as_ref().and_then(Device::waker))).collect();
    let mut steered: Vec<_> = devices
        .into_iter()
        .enumerate()
        .map(|(shard, device)| Steered {
            shard,
            steering,
            transmits_for_others: transmits_for_others && shard == 0,
            device,
            frame_len_max,
            offloads,
            links: (0..shards).map(|_| None).collect(),
            next: 0,
            blocked: None,
            unsignalled: 0,
            passed: 0,
            wakers: wakers.clone(),
            counters: Arc::default(),
        })
        .collect();
    for a in 0..shards {
        for b in a + 1..shards {
            if a == 0 || !transmits_for_others {
                let (first_end, second_end) = pair(frames, frame_len_max);
                (steered[a].links[b], steered[b].links[a]) = (Some(first_end), Some(second_end));
            }
        }
    }
    steered
}

/// Default capacity of a link, in frames.
pub const LINK_FRAMES: usize = 1024;
/// Maximum number of frames passed on in one `receive` before it returns to the shard.
const PASSED_MAX: usize = 64;
/// Maximum number of frames passed on before receivers are woken.
const UNSIGNALLED_MAX: u32 = 16;
/// Maximum number of other shards' frames transmitted before the device is polled again.
const FORWARDED_MAX: usize = 64;
/// Longest sleep on a device that cannot be woken, as other shards' frames may wait.
const POLL_INTERVAL: Span = Span::from_micros(50);

impl<D: Device> Steered<D> {
    /// Reader of the counters, usable while the device serves.
    #[must_use]
    pub fn meter(&self) -> FrameMeter {
        FrameMeter(self.counters.clone())
    }

    /// Transmits frames of shards without a device, as far as the device has space.
    fn forward(&mut self, now: Time) {
        let Some(device) = self.device.as_mut().filter(|_| self.transmits_for_others) else { return };
        let shards = self.links.len();
        let mut sent = 0;
        let mut empty = 0;
        let mut from = self.next;
        while sent < FORWARDED_MAX && empty < shards {
            let (source, frame) = match self.blocked.take() {
                Some(blocked) => blocked,
                None => {
                    from = (from + 1) % shards;
                    let received = self.links[from].as_mut().and_then(|link| link.receive(now));
                    let Some(received) = received else {
                        empty += 1;
                        continue;
                    };
                    (from, received.frame)
                }
            };
            empty = 0;
            let bytes = frame.as_ref();
            if device.transmit(now, bytes.len(), &mut |buf| buf.copy_from_slice(bytes)).is_err() {
                self.blocked = Some((source, frame));
                break;
            }
            sent += 1;
            count(&self.counters.forwarded);
            if let Some(link) = &mut self.links[source] {
                link.recycle(frame);
            }
        }
        if sent > 0 {
            device.flush(now);
        }
    }

    /// Passes a received frame to `shard`.
    fn pass_to(&mut self, shard: usize, at: Time, checked: bool, frame: &[u8]) {
        let Some(link) = &mut self.links[shard] else { return };
        count(&self.counters.passed);
        match link.forward(at, checked, frame) {
            Ok(()) => {
                self.unsignalled |= 1 << shard;
                self.passed += 1;
            }
            Err(Full) => count(&self.counters.dropped),
        }
    }

    /// Wakes the shards that were passed frames.
    fn wake(&mut self) {
        while self.unsignalled != 0 {
            let shard = self.unsignalled.trailing_zeros() as usize;
            self.unsignalled &= self.unsignalled - 1;
            self.wakers[shard].wake();
        }
        self.passed = 0;
    }

    /// Next frame of the own queue that this shard owns; passes on the others.
    fn receive_own(&mut self, now: Time) -> Option<ReceivedFrame<SteeredFrame<D::Frame>>> {
        for _ in 0..PASSED_MAX {
            let ReceivedFrame { frame, arrived, checked } = self.device.as_mut()?.receive(now)?;
            let at = arrived.unwrap_or(now);
            match self.steering.owner(frame.as_ref()) {
                FrameOwner::One(shard) if usize::from(shard) != self.shard => {
                    self.pass_to(usize::from(shard), at, checked, frame.as_ref());
                    if let Some(device) = &mut self.device {
                        device.recycle(frame);
                    }
                    continue;
                }
                FrameOwner::One(_) => {}
                FrameOwner::All => {
                    // There is no link to ourselves.
                    for shard in 0..self.links.len() {
                        self.pass_to(shard, at, checked, frame.as_ref());
                    }
                }
            }
            count(&self.counters.own);
            return Some(ReceivedFrame { frame: SteeredFrame::Device(frame), arrived, checked });
        }
        None
    }

    fn receive_from(&mut self, source: usize, now: Time) -> Option<ReceivedFrame<SteeredFrame<D::Frame>>> {
        if source == self.shard {
            return self.receive_own(now);
        }
        // Frames of shards without a device are for transmission: `forward` takes them.
        let link = self.links[source].as_mut().filter(|_| !self.transmits_for_others)?;
        let received = link.receive(now)?;
        count(&self.counters.from_others);
        Some(received.map(|frame| SteeredFrame::Link { from: source, frame }))
    }

    /// True if no other shard's frames wait here.
    fn links_empty(&self) -> bool {
        self.blocked.is_none() && self.links.iter().flatten().all(|link| link.pending() == 0)
    }
}

impl<D: Device> Device for Steered<D> {
    type Frame = SteeredFrame<D::Frame>;

    fn receive(&mut self, now: Time) -> Option<ReceivedFrame<Self::Frame>> {
        self.forward(now);
        let shards = self.links.len();
        let mut received = None;
        for _ in 0..shards {
            let source = self.next;
            self.next = if source + 1 == shards { 0 } else { source + 1 };
            received = self.receive_from(source, now);
            if received.is_some() {
                break;
            }
        }
        if self.unsignalled != 0 && (received.is_none() || self.passed >= UNSIGNALLED_MAX) {
            self.wake();
        }
        received
    }

    fn recycle(&mut self, frame: Self::Frame) {
        match frame {
            SteeredFrame::Device(frame) => {
                if let Some(device) = &mut self.device {
                    device.recycle(frame);
                }
            }
            SteeredFrame::Link { from, frame } => {
                if let Some(link) = &mut self.links[from] {
                    link.recycle(frame);
                }
            }
        }
    }

    fn transmit(&mut self, now: Time, len: usize, fill: &mut dyn FnMut(&mut [u8])) -> Result<(), Full> {
        match (&mut self.device, &mut self.links[0]) {
            (Some(device), _) => device.transmit(now, len, fill),
            (None, Some(link)) => {
                link.transmit(now, len, fill)?;
                self.unsignalled |= 1;
                Ok(())
            }
            (None, None) => Err(Full),
        }
    }

    fn transmit_cut(
        &mut self,
        now: Time,
        len: usize,
        size: u16,
        fill: &mut dyn FnMut(&mut [u8]),
    ) -> Result<(), Full> {
        self.device.as_mut().map_or(Err(Full), |device| device.transmit_cut(now, len, size, fill))
    }

    fn flush(&mut self, now: Time) {
        if let Some(device) = &mut self.device {
            device.flush(now);
        }
        self.wake();
    }

    fn frame_len_max(&self) -> usize {
        self.frame_len_max
    }

    /// Offloads, without segmentation for a shard without a device: a link carries no frames longer than the MTU.
    fn offloads(&self) -> Offloads {
        let tx_segmentation = self.offloads.tx_segmentation && self.device.is_some();
        Offloads { tx_segmentation, ..self.offloads }
    }

    fn wait(&mut self, span: Span) {
        self.wake();
        let waker = &self.wakers[self.shard];
        if self.device.is_none() {
            // The shard may run on another thread than before.
            waker.wakes_this_thread();
        }
        let span = if waker.wakes() { span } else { span.min(POLL_INTERVAL) };
        let wakers = self.wakers.clone();
        let mut device = self.device.take();
        wakers[self.shard].doorbell.sleep_by(
            || self.links_empty(),
            || match &mut device {
                Some(device) => device.wait(span),
                None => std::thread::park_timeout(Duration::from(span)),
            },
        );
        self.device = device;
    }
}

#[cfg(test)]
mod tests;
