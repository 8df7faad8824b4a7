//! Fault injector: a device behind a path with loss, duplication, reordering, corruption and delay.
//!
//! [`FaultModel`] decides the outcome of each frame from [`Rates`] and a seed; [`FaultInjector`]
//! applies it to the frames of a device, in both directions. A bounded number of delayed frames is
//! held and released by calls of the device; [`FaultInjector::next`] is the time of the next.
//!
//! ```
//! use net::Device;
//! use net::device::{fault_injector::{FaultInjector, Rates}, memory};
//! use queueing::{Rng, Time};
//!
//! let (here, mut there) = memory::pair(16, 64);
//! let mut here = FaultInjector::new(here, "delay=1ms".parse::<Rates>()?, &Rng::seeded(7));
//! here.transmit(Time::ZERO, 1, &mut |frame| frame[0] = 42).unwrap();
//! assert!(there.receive(Time::ZERO).is_none());
//! let due = here.next().unwrap();
//! here.advance(due);
//! assert_eq!(there.receive(due).unwrap().frame.as_ref(), [42]);
//! # Ok::<(), net::device::fault_injector::BadRates>(())
//! ```

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use queueing::{Rng, Span, Time};

use super::{Device, Full, Offloads, ReceivedFrame, Waker};

mod decision;
mod rates;

pub use decision::{Counters, FaultAction, FaultModel};
pub use rates::{BadRates, BurstLoss, Rates};

/// Maximum number of frames held in one direction; further ones are dropped.
pub const HELD_MAX: usize = 16_384;

/// Device behind a faulty path.
pub struct FaultInjector<D> {
    device: D,
    sending: Direction,
    receiving: Direction,
    /// Outcome of the next frame to send, decided when the device was full.
    decided: Option<FaultAction>,
    /// Free buffers for held or changed frames; at most [`HELD_MAX`].
    spare: Vec<Vec<u8>>,
    /// Time of the latest call.
    now: Time,
}

/// One direction of the path.
struct Direction {
    faults: FaultModel,
    held: BinaryHeap<Reverse<Held>>,
    count: u64,
}

/// A held frame; ordered by due time, then by number.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Held {
    due: Time,
    number: u64,
    bytes: Vec<u8>,
    /// As [`ReceivedFrame::checked`]; unused for sent frames.
    checked: bool,
}

/// A received frame: the device's own, or a copy that was held or corrupted.
#[derive(Debug)]
pub enum InjectedFrame<F> {
    /// Frame of the device.
    Device(F),
    /// Copy of a frame.
    Copy(Vec<u8>),
}

impl<F: AsRef<[u8]>> AsRef<[u8]> for InjectedFrame<F> {
    fn as_ref(&self) -> &[u8] {
        match self {
            Self::Device(frame) => frame.as_ref(),
            Self::Copy(bytes) => bytes,
        }
    }
}

impl Direction {
    fn new(rates: Rates, rng: &Rng) -> Self {
        Self { faults: FaultModel::new(rates, rng), held: BinaryHeap::new(), count: 0 }
    }

    fn hold(&mut self, due: Time, bytes: Vec<u8>, checked: bool) -> Result<(), Vec<u8>> {
        if self.held.len() >= HELD_MAX {
            self.faults.on_overflow();
            return Err(bytes);
        }
        self.held.push(Reverse(Held { due, number: self.count, bytes, checked }));
        self.count += 1;
        Ok(())
    }

    /// The next frame due at `now`.
    fn due(&mut self, now: Time) -> Option<Held> {
        if self.next()? > now {
            return None;
        }
        self.held.pop().map(|Reverse(held)| held)
    }

    fn next(&self) -> Option<Time> {
        self.held.peek().map(|Reverse(held)| held.due)
    }
}

impl<D: Device> FaultInjector<D> {
    /// Wraps `device` in a path with `rates` in each direction.
    #[must_use]
    pub fn new(device: D, rates: Rates, rng: &Rng) -> Self {
        Self::with_faults(device, [rates, rates], rng)
    }

    /// Wraps `device` in a path with separate rates for sent and received frames.
    #[must_use]
    pub fn with_faults(device: D, [sending, receiving]: [Rates; 2], rng: &Rng) -> Self {
        Self {
            device,
            sending: Direction::new(sending, &rng.fork(1)),
            receiving: Direction::new(receiving, &rng.fork(2)),
            decided: None,
            spare: Vec::new(),
            now: Time::ZERO,
        }
    }

    /// Counts of sent frames and of received frames.
    #[must_use]
    pub fn counters(&self) -> (Counters, Counters) {
        (self.sending.faults.counters(), self.receiving.faults.counters())
    }

    /// Due time of the next delayed frame; in the past if the device was full then.
    #[must_use]
    #[allow(clippy::should_implement_trait)] // A time, not the items of an iterator.
    pub fn next(&self) -> Option<Time> {
        [self.sending.next(), self.receiving.next()].into_iter().flatten().min()
    }

    /// Returns the device.
    #[must_use]
    pub fn into_inner(self) -> D {
        self.device
    }

    /// Sends the delayed frames due at `now`, until the device is full.
    pub fn advance(&mut self, now: Time) {
        self.now = now;
        while let Some(held) = self.sending.due(now) {
            let bytes = &held.bytes;
            if self.device.transmit(now, bytes.len(), &mut |buf| buf.copy_from_slice(bytes)).is_err() {
                self.sending.held.push(Reverse(held));
                return;
            }
            self.give(held.bytes);
        }
    }

    /// Receives frames from the device until one passes unchanged; the others are held.
    fn receive_through(&mut self, now: Time) -> Option<ReceivedFrame<InjectedFrame<D::Frame>>> {
        while let Some(received) = self.device.receive(now) {
            let bytes = received.frame.as_ref();
            let entered = received.arrived.unwrap_or(now);
            match self.receiving.faults.decide(entered, bytes.len()) {
                FaultAction::Lost => {}
                FaultAction::Arrives { at, flipped: None, again: None } if at <= entered => {
                    let ReceivedFrame { frame, arrived, checked } = received;
                    return Some(ReceivedFrame { frame: InjectedFrame::Device(frame), arrived, checked });
                }
                FaultAction::Arrives { at, flipped, again } => {
                    let mut copy = self.spare.pop().unwrap_or_default();
                    copy.clear();
                    copy.extend_from_slice(bytes);
                    flip(&mut copy, flipped);
                    let checked = received.checked && flipped.is_none();
                    self.hold_copies(at, again, copy, checked, |faulty| &mut faulty.receiving);
                }
            }
            self.device.recycle(received.frame);
        }
        None
    }

    fn hold_copies(
        &mut self,
        at: Time,
        again: Option<Time>,
        bytes: Vec<u8>,
        checked: bool,
        direction: fn(&mut Self) -> &mut Direction,
    ) {
        if let Some(again) = again {
            let mut copy = self.spare.pop().unwrap_or_default();
            copy.clone_from(&bytes);
            if let Err(copy) = direction(self).hold(again, copy, checked) {
                self.give(copy);
            }
        }
        if let Err(bytes) = direction(self).hold(at, bytes, checked) {
            self.give(bytes);
        }
    }

    fn give(&mut self, bytes: Vec<u8>) {
        if self.spare.len() < HELD_MAX {
            self.spare.push(bytes);
        }
    }
}

impl<D: Device> Device for FaultInjector<D> {
    type Frame = InjectedFrame<D::Frame>;

    fn receive(&mut self, now: Time) -> Option<ReceivedFrame<Self::Frame>> {
        self.advance(now);
        let through = self.receive_through(now);
        if through.is_some() && self.receiving.next().is_none_or(|due| due > now) {
            return through;
        }
        // Held frames come first; the one just received is queued behind them.
        if let Some(ReceivedFrame { frame: InjectedFrame::Device(frame), arrived, checked }) = through {
            let mut copy = self.spare.pop().unwrap_or_default();
            copy.clear();
            copy.extend_from_slice(frame.as_ref());
            self.device.recycle(frame);
            self.hold_copies(arrived.unwrap_or(now), None, copy, checked, |faulty| &mut faulty.receiving);
        }
        let Held { due, bytes, checked, .. } = self.receiving.due(now)?;
        Some(ReceivedFrame { frame: InjectedFrame::Copy(bytes), arrived: Some(due), checked })
    }

    fn recycle(&mut self, frame: Self::Frame) {
        match frame {
            InjectedFrame::Device(frame) => self.device.recycle(frame),
            InjectedFrame::Copy(bytes) => self.give(bytes),
        }
    }

    fn transmit(&mut self, now: Time, len: usize, fill: &mut dyn FnMut(&mut [u8])) -> Result<(), Full> {
        self.advance(now);
        if self.sending.next().is_some_and(|due| due <= now) {
            return Err(Full);
        }
        let mut action = self.decided.take().unwrap_or_else(|| self.sending.faults.decide(now, len));
        if matches!(action, FaultAction::Arrives { flipped: Some(_), .. }) && self.offloads().tx_checksum {
            // The device would checksum the corrupted bytes; the receiver would drop the frame.
            action = FaultAction::Lost;
        }
        if let FaultAction::Arrives { at, flipped, again: None } = action
            && at <= now
        {
            let sent = self.device.transmit(now, len, &mut |buf| {
                fill(buf);
                flip(buf, flipped);
            });
            self.decided = sent.is_err().then_some(action);
            return sent;
        }
        let mut bytes = self.spare.pop().unwrap_or_default();
        bytes.clear();
        bytes.resize(len, 0);
        fill(&mut bytes);
        match action {
            FaultAction::Lost => self.give(bytes),
            FaultAction::Arrives { at, flipped, again } => {
                flip(&mut bytes, flipped);
                self.hold_copies(at, again, bytes, false, |faulty| &mut faulty.sending);
                self.advance(now);
            }
        }
        Ok(())
    }

    fn frame_len_max(&self) -> usize {
        self.device.frame_len_max()
    }

    fn flush(&mut self, now: Time) {
        self.advance(now);
        self.device.flush(now);
    }

    /// Faults apply to frames as the path carries them, so that segmentation offload is off.
    fn offloads(&self) -> Offloads {
        Offloads { tx_segmentation: false, ..self.device.offloads() }
    }

    fn wait(&mut self, span: Span) {
        let due = self.next().map_or(span, |due| due.since(self.now).min(span));
        self.device.wait(due);
    }

    fn waker(&self) -> Option<Waker> {
        self.device.waker()
    }
}

fn flip(bytes: &mut [u8], bit: Option<usize>) {
    // An outcome decided while the device was full may apply to a shorter frame.
    if let Some(bit) = bit
        && let Some(byte) = bytes.get_mut(bit / 8)
    {
        *byte ^= 1 << (bit % 8);
    }
}

//~ devices: the fault injector loses, duplicates, reorders, damages and delays frames around any device
#[cfg(test)]
mod tests;
