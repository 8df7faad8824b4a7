//! Several shards behind one host's devices: each frame finds the shard that
//! owns its flow.
//!
//! A [`Steered`] device stands between a shard and what carries its frames. It
//! hands on what belongs to another shard, by a wire of memory between the
//! two: bounded, one sender and one receiver, a copy into the wire's own
//! buffers, no lock. When the wire is full the frame is dropped and counted,
//! as a card with a full queue does; nobody waits. Either every shard has a
//! queue of the device for itself ([`over_queues`]; where the card hashes as
//! [`Steering`] does, nothing has to be handed on), or the first shard's
//! thread drives the only one ([`over_one`]) and sends for all.
//!
//! A shard that sleeps is woken by the bell of the one that hands it a frame;
//! that no interleaving loses a wake-up is what `tests/doorbell.rs` checks.

mod counts;
mod waker;

use std::sync::Arc;
use std::time::Duration;

use net::Device;
use net::device::memory::{MemoryDevice, MemoryFrame, pair};
use net::device::{Full, Offloads, Received};
use net::steer::{Owner, Steering};
use queueing::{Span, Time};

use counts::{Counters, count};
pub use counts::{Counts, Meter};
use waker::ShardWaker;

/// A shard's device, shared with others or not.
pub struct Steered<D: Device> {
    shard: usize,
    steering: Steering,
    /// The shard's own queue; a guest has none and sends through the first.
    device: Option<D>,
    /// Sends for guests.
    drives: bool,
    frame_len_max: usize,
    offloads: Offloads,
    /// By shard: the wire to it.
    links: Vec<Option<MemoryDevice>>,
    /// Who is looked at next: a shard's wire or, by our own number, the device.
    next: usize,
    /// A guest's frame that the device had no room for.
    stuck: Option<(usize, MemoryFrame)>,
    /// Shards that were handed something since their bell was rung.
    unrung: u128,
    handed: u32,
    gates: Arc<[ShardWaker]>,
    counters: Arc<Counters>,
}

/// A received frame: the device's own, or one that another shard handed on.
#[derive(Debug)]
pub enum Frame<F> {
    /// From the shard's own queue.
    Device(F),
    /// From another shard.
    Link {
        /// Whose wire the buffer belongs to.
        from: usize,
        /// The copy.
        frame: MemoryFrame,
    },
}

impl<F: AsRef<[u8]>> AsRef<[u8]> for Frame<F> {
    fn as_ref(&self) -> &[u8] {
        match self {
            Self::Device(frame) => frame.as_ref(),
            Self::Link { frame, .. } => frame.as_ref(),
        }
    }
}

/// A device for each of the shards; `devices[n]` is shard `n`'s queue. Between
/// any two, `frames` frames may be under way in each direction.
///
/// # Panics
/// When there are not as many devices as `steering` has shards, or `frames` is 0.
#[must_use]
pub fn over_queues<D: Device>(devices: Vec<D>, steering: Steering, frames: usize) -> Vec<Steered<D>> {
    build(devices.into_iter().map(Some).collect(), steering, frames)
}

/// One device for all shards, driven by the first one's thread; `frames`
/// frames may be under way to and from each of the others.
///
/// # Panics
/// When `frames` is 0.
#[must_use]
pub fn over_one<D: Device>(device: D, steering: Steering, frames: usize) -> Vec<Steered<D>> {
    let mut devices = vec![Some(device)];
    devices.resize_with(usize::from(steering.shards()), || None);
    build(devices, steering, frames)
}

fn build<D: Device>(devices: Vec<Option<D>>, steering: Steering, frames: usize) -> Vec<Steered<D>> {
    let shards = devices.len();
    assert_eq!(shards, usize::from(steering.shards()), "a shard has one device");
    let first = devices[0].as_ref().expect("the first shard has a device");
    let (frame_len_max, offloads) = (first.frame_len_max(), first.offloads());
    let drives = devices.iter().any(Option::is_none);
    let gates: Arc<[ShardWaker]> =
        devices.iter().map(|device| ShardWaker::new(device.as_ref().and_then(Device::waker))).collect();
    let mut steered: Vec<_> = devices
        .into_iter()
        .enumerate()
        .map(|(shard, device)| Steered {
            shard,
            steering,
            drives: drives && shard == 0,
            device,
            frame_len_max,
            offloads,
            links: (0..shards).map(|_| None).collect(),
            next: 0,
            stuck: None,
            unrung: 0,
            handed: 0,
            gates: gates.clone(),
            counters: Arc::default(),
        })
        .collect();
    for a in 0..shards {
        for b in a + 1..shards {
            if a == 0 || !drives {
                let (near, far) = pair(frames, frame_len_max);
                (steered[a].links[b], steered[b].links[a]) = (Some(near), Some(far));
            }
        }
    }
    steered
}

/// Frames under way from one shard to another, where nobody says otherwise.
pub const LINK_FRAMES: usize = 1024;
/// Foreign frames handed on before a call gives the shard its turn again.
const HANDED_MAX: usize = 64;
/// Bells are rung at the latest after so many frames.
const UNRUNG_MAX: u32 = 16;
/// Guests' frames sent before the device is looked at again.
const FORWARDED_MAX: usize = 64;
/// The longest sleep on a device that cannot be woken: frames of other shards may wait.
const GLANCE: Span = Span::from_micros(50);

impl<D: Device> Steered<D> {
    /// Reads the counters while the device serves.
    #[must_use]
    pub fn meter(&self) -> Meter {
        Meter(self.counters.clone())
    }

    /// Sends what guests have left, as far as the device has room.
    fn forward(&mut self, now: Time) {
        let Some(device) = self.device.as_mut().filter(|_| self.drives) else { return };
        let shards = self.links.len();
        let mut sent = 0;
        let mut empty = 0;
        let mut from = self.next;
        while sent < FORWARDED_MAX && empty < shards {
            let (guest, frame) = match self.stuck.take() {
                Some(stuck) => stuck,
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
                self.stuck = Some((guest, frame));
                break;
            }
            sent += 1;
            count(&self.counters.forwarded);
            if let Some(link) = &mut self.links[guest] {
                link.recycle(frame);
            }
        }
        if sent > 0 {
            device.flush(now);
        }
    }

    /// Hands a frame of ours to `shard`.
    fn hand(&mut self, shard: usize, at: Time, checked: bool, frame: &[u8]) {
        let Some(link) = &mut self.links[shard] else { return };
        count(&self.counters.handed);
        match link.forward(at, checked, frame) {
            Ok(()) => {
                self.unrung |= 1 << shard;
                self.handed += 1;
            }
            Err(Full) => count(&self.counters.dropped),
        }
    }

    /// Wakes those who were handed something.
    fn ring(&mut self) {
        while self.unrung != 0 {
            let shard = self.unrung.trailing_zeros() as usize;
            self.unrung &= self.unrung - 1;
            self.gates[shard].ring();
        }
        self.handed = 0;
    }

    /// The next frame of the own queue that is ours; others go their way.
    fn receive_own(&mut self, now: Time) -> Option<Received<Frame<D::Frame>>> {
        for _ in 0..HANDED_MAX {
            let Received { frame, arrived, checked } = self.device.as_mut()?.receive(now)?;
            let at = arrived.unwrap_or(now);
            match self.steering.owner(frame.as_ref()) {
                Owner::One(shard) if usize::from(shard) != self.shard => {
                    self.hand(usize::from(shard), at, checked, frame.as_ref());
                    if let Some(device) = &mut self.device {
                        device.recycle(frame);
                    }
                    continue;
                }
                Owner::One(_) => {}
                Owner::All => {
                    // There is no wire to ourselves.
                    for shard in 0..self.links.len() {
                        self.hand(shard, at, checked, frame.as_ref());
                    }
                }
            }
            count(&self.counters.own);
            return Some(Received { frame: Frame::Device(frame), arrived, checked });
        }
        None
    }

    fn receive_from(&mut self, source: usize, now: Time) -> Option<Received<Frame<D::Frame>>> {
        if source == self.shard {
            return self.receive_own(now);
        }
        // What comes from a guest is to be sent.
        let link = self.links[source].as_mut().filter(|_| !self.drives)?;
        let received = link.receive(now)?;
        count(&self.counters.taken);
        Some(received.map(|frame| Frame::Link { from: source, frame }))
    }

    /// Whether no other shard has left anything for this one.
    fn is_quiet(&self) -> bool {
        self.stuck.is_none() && self.links.iter().flatten().all(|link| link.pending() == 0)
    }
}

impl<D: Device> Device for Steered<D> {
    type Frame = Frame<D::Frame>;

    fn receive(&mut self, now: Time) -> Option<Received<Self::Frame>> {
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
        if self.unrung != 0 && (received.is_none() || self.handed >= UNRUNG_MAX) {
            self.ring();
        }
        received
    }

    fn recycle(&mut self, frame: Self::Frame) {
        match frame {
            Frame::Device(frame) => {
                if let Some(device) = &mut self.device {
                    device.recycle(frame);
                }
            }
            Frame::Link { from, frame } => {
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
                self.unrung |= 1;
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
        self.ring();
    }

    fn frame_len_max(&self) -> usize {
        self.frame_len_max
    }

    /// A wire to another shard carries no longer frames than the device's path.
    fn offloads(&self) -> Offloads {
        let tx_segmentation = self.offloads.tx_segmentation && self.device.is_some();
        Offloads { tx_segmentation, ..self.offloads }
    }

    fn wait(&mut self, span: Span) {
        self.ring();
        let gate = &self.gates[self.shard];
        if self.device.is_none() {
            // Whichever thread the shard has got to.
            gate.wakes_this_thread();
        }
        let span = if gate.wakes() { span } else { span.min(GLANCE) };
        let gates = self.gates.clone();
        let mut device = self.device.take();
        gates[self.shard].bell.sleep_by(
            || self.is_quiet(),
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
