//! A bad path in front of a good device: loss, duplication, reordering,
//! corruption, delay.
//!
//! [`FaultModel`] decides what happens to each frame, from [`Rates`] and a seed; a
//! [`FaultInjector`] device does it to what passes, in both directions. Delayed
//! frames wait here, a bounded number of them, and move on when the device is
//! asked for anything; the owner asks [`FaultInjector::next`] when that is due.
//!
//! ```
//! use net::Device;
//! use net::device::{fault::{Faulty, Rates}, memory};
//! use queueing::{Rng, Time};
//!
//! let (here, mut there) = memory::pair(16, 64);
//! let mut here = Faulty::new(here, "delay=1ms".parse::<Rates>()?, &Rng::seeded(7));
//! here.transmit(Time::ZERO, 1, &mut |frame| frame[0] = 42).unwrap();
//! assert!(there.receive(Time::ZERO).is_none());
//! let due = here.next().unwrap();
//! here.advance(due);
//! assert_eq!(there.receive(due).unwrap().frame.as_ref(), [42]);
//! # Ok::<(), net::device::fault::BadRates>(())
//! ```

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use queueing::{Rng, Span, Time};

use super::{Device, Full, Offloads, Received, Waker};

mod decision;
mod rates;

pub use decision::{Counters, FaultAction, FaultModel};
pub use rates::{BadRates, Burst, Rates};

/// Most frames that wait in one direction; more are dropped.
pub const HELD_MAX: usize = 16_384;

/// A device at the end of a bad path.
pub struct FaultInjector<D> {
    device: D,
    sending: Direction,
    receiving: Direction,
    /// The fate of the next frame to send, when the device had no room for it.
    decided: Option<FaultAction>,
    /// Empty buffers for frames that wait or change; at most [`HELD_MAX`].
    spare: Vec<Vec<u8>>,
    /// When the device was last asked for something.
    now: Time,
}

/// One direction of the path.
struct Direction {
    faults: FaultModel,
    held: BinaryHeap<Reverse<Held>>,
    count: u64,
}

/// A frame that waits; ordered by due time, then by number.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Held {
    due: Time,
    number: u64,
    bytes: Vec<u8>,
    /// As [`Received::checked`]; means nothing when sending.
    checked: bool,
}

/// A received frame: the device's own, or a copy that waited or was damaged.
#[derive(Debug)]
pub enum Frame<F> {
    /// The device's.
    Device(F),
    /// A copy.
    Copy(Vec<u8>),
}

impl<F: AsRef<[u8]>> AsRef<[u8]> for Frame<F> {
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

    /// The next frame that is due at `now`.
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
    /// Puts a path with `rates` in each direction before `device`.
    #[must_use]
    pub fn new(device: D, rates: Rates, rng: &Rng) -> Self {
        Self::with_faults(device, [rates, rates], rng)
    }

    /// Puts a path before `device` on which the first happens to what is sent, and
    /// the second to what is received.
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

    /// What happened to frames that were sent, and to those that were received.
    #[must_use]
    pub fn counters(&self) -> (Counters, Counters) {
        (self.sending.faults.counters(), self.receiving.faults.counters())
    }

    /// When the next delayed frame is due; in the past when the device was full then.
    #[must_use]
    #[allow(clippy::should_implement_trait)] // A time, not the items of an iterator.
    pub fn next(&self) -> Option<Time> {
        [self.sending.next(), self.receiving.next()].into_iter().flatten().min()
    }

    /// The device.
    #[must_use]
    pub fn into_inner(self) -> D {
        self.device
    }

    /// Sends the delayed frames that are due at `now`, as far as the device has room.
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

    /// Takes in the device's frames until one passes untouched; the others wait here.
    fn receive_through(&mut self, now: Time) -> Option<Received<Frame<D::Frame>>> {
        while let Some(received) = self.device.receive(now) {
            let bytes = received.frame.as_ref();
            let entered = received.arrived.unwrap_or(now);
            match self.receiving.faults.decide(entered, bytes.len()) {
                FaultAction::Lost => {}
                FaultAction::Arrives { at, flipped: None, again: None } if at <= entered => {
                    let Received { frame, arrived, checked } = received;
                    return Some(Received { frame: Frame::Device(frame), arrived, checked });
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
    type Frame = Frame<D::Frame>;

    fn receive(&mut self, now: Time) -> Option<Received<Self::Frame>> {
        self.advance(now);
        let through = self.receive_through(now);
        if through.is_some() && self.receiving.next().is_none_or(|due| due > now) {
            return through;
        }
        // What waited goes first, and what just came joins it.
        if let Some(Received { frame: Frame::Device(frame), arrived, checked }) = through {
            let mut copy = self.spare.pop().unwrap_or_default();
            copy.clear();
            copy.extend_from_slice(frame.as_ref());
            self.device.recycle(frame);
            self.hold_copies(arrived.unwrap_or(now), None, copy, checked, |faulty| &mut faulty.receiving);
        }
        let Held { due, bytes, checked, .. } = self.receiving.due(now)?;
        Some(Received { frame: Frame::Copy(bytes), arrived: Some(due), checked })
    }

    fn recycle(&mut self, frame: Self::Frame) {
        match frame {
            Frame::Device(frame) => self.device.recycle(frame),
            Frame::Copy(bytes) => self.give(bytes),
        }
    }

    fn transmit(&mut self, now: Time, len: usize, fill: &mut dyn FnMut(&mut [u8])) -> Result<(), Full> {
        self.advance(now);
        if self.sending.next().is_some_and(|due| due <= now) {
            return Err(Full);
        }
        let mut fate = self.decided.take().unwrap_or_else(|| self.sending.faults.decide(now, len));
        if matches!(fate, FaultAction::Arrives { flipped: Some(_), .. }) && self.offloads().tx_checksum {
            // The device would sum up the damage; whoever receives it has to drop it.
            fate = FaultAction::Lost;
        }
        if let FaultAction::Arrives { at, flipped, again: None } = fate
            && at <= now
        {
            let sent = self.device.transmit(now, len, &mut |buf| {
                fill(buf);
                flip(buf, flipped);
            });
            self.decided = sent.is_err().then_some(fate);
            return sent;
        }
        let mut bytes = self.spare.pop().unwrap_or_default();
        bytes.clear();
        bytes.resize(len, 0);
        fill(&mut bytes);
        match fate {
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

    /// What is lost or late is a frame as the path carries it, so that nothing
    /// is left to be cut behind it.
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
    // A fate that waited for room may meet a shorter frame.
    if let Some(bit) = bit
        && let Some(byte) = bytes.get_mut(bit / 8)
    {
        *byte ^= 1 << (bit % 8);
    }
}

#[cfg(test)]
mod tests;
