//! Several devices as one: a card's queues for a stack on a single core.
//!
//! Frames are taken from the devices in turns, a batch at a time, so a busy
//! one holds up a frame of another by at most a batch. What is sent leaves by
//! the device of the frame received last, or by the next that has room.

use std::sync::Arc;

use queueing::{Span, Time};

use super::{Device, Full, Offloads, Received, Waker};

/// Several devices as one.
#[derive(Debug)]
pub struct MultiQueue<D> {
    devices: Vec<D>,
    /// Whose turn it is, and frames left in it.
    turn: usize,
    left: u32,
}

/// A frame and the device it came from.
#[derive(Debug)]
pub struct MergedFrame<F> {
    frame: F,
    from: usize,
}

impl<F: AsRef<[u8]>> AsRef<[u8]> for MergedFrame<F> {
    #[inline]
    fn as_ref(&self) -> &[u8] {
        self.frame.as_ref()
    }
}

/// Frames that are taken from one device in its turn.
const BATCH: u32 = 32;

impl<D: Device> MultiQueue<D> {
    /// `devices` as one.
    ///
    /// # Panics
    /// When there are none.
    #[must_use]
    pub fn new(devices: Vec<D>) -> Self {
        assert!(!devices.is_empty(), "no devices make no device");
        Self { devices, turn: 0, left: BATCH }
    }

    fn pass_on(&mut self) {
        self.turn = (self.turn + 1) % self.devices.len();
        self.left = BATCH;
    }

    /// Sends by the device at hand, or by the next that has room: a full one has
    /// written nothing.
    fn first_with_room(&mut self, mut send: impl FnMut(&mut D) -> Result<(), Full>) -> Result<(), Full> {
        let count = self.devices.len();
        let room = (0..count).any(|n| send(&mut self.devices[(self.turn + n) % count]).is_ok());
        if room { Ok(()) } else { Err(Full) }
    }
}

impl<D: Device> Device for MultiQueue<D> {
    type Frame = MergedFrame<D::Frame>;

    fn receive(&mut self, now: Time) -> Option<Received<Self::Frame>> {
        for _ in 0..self.devices.len() {
            if self.left == 0 {
                self.pass_on();
            }
            if let Some(Received { frame, arrived, checked }) = self.devices[self.turn].receive(now) {
                self.left -= 1;
                let frame = MergedFrame { frame, from: self.turn };
                return Some(Received { frame, arrived, checked });
            }
            self.pass_on();
        }
        None
    }

    fn recycle(&mut self, frame: Self::Frame) {
        self.devices[frame.from].recycle(frame.frame);
    }

    fn transmit(&mut self, now: Time, len: usize, fill: &mut dyn FnMut(&mut [u8])) -> Result<(), Full> {
        self.first_with_room(|device| device.transmit(now, len, fill))
    }

    fn transmit_cut(
        &mut self,
        now: Time,
        len: usize,
        size: u16,
        fill: &mut dyn FnMut(&mut [u8]),
    ) -> Result<(), Full> {
        self.first_with_room(|device| device.transmit_cut(now, len, size, fill))
    }

    fn frame_len_max(&self) -> usize {
        self.devices.iter().map(Device::frame_len_max).min().unwrap_or(0)
    }

    fn flush(&mut self, now: Time) {
        self.devices.iter_mut().for_each(|device| device.flush(now));
    }

    /// What all of them do.
    fn offloads(&self) -> Offloads {
        let all = |does: fn(Offloads) -> bool| self.devices.iter().all(|device| does(device.offloads()));
        Offloads {
            tx_checksum: all(|offloads| offloads.tx_checksum),
            tx_segmentation: all(|offloads| offloads.tx_segmentation),
        }
    }

    /// Sleeps on each in turn, for a part of `span` and never for long: the
    /// others may have something.
    fn wait(&mut self, span: Span) {
        let devices = self.devices.len() as u64;
        let part = if devices == 1 { span } else { Span::from_nanos(span.min(GLANCE).as_nanos() / devices) };
        self.devices[self.turn].wait(part);
        self.pass_on();
    }

    /// Wakes whichever is slept on.
    fn waker(&self) -> Option<Waker> {
        let wakers = self.devices.iter().map(Device::waker).collect::<Option<Vec<_>>>()?;
        Some(Arc::new(move || wakers.iter().for_each(|wake| wake())))
    }
}

/// How long all of several devices are slept on, together.
const GLANCE: Span = Span::from_millis(1);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::memory;

    fn send(device: &mut impl Device, byte: u8) -> Result<(), Full> {
        device.transmit(Time::ZERO, 1, &mut |buf| buf[0] = byte)
    }

    #[test]
    fn a_busy_device_lets_the_others_have_their_turn() {
        let ((a, mut far_a), (b, mut far_b)) = (memory::pair(64, 64), memory::pair(64, 64));
        let mut merged = MultiQueue::new(vec![a, b]);
        for _ in 0..64 {
            send(&mut far_a, 1).unwrap();
        }
        send(&mut far_b, 2).unwrap();
        let first: Vec<u8> = (0..=BATCH)
            .map(|_| {
                let got = merged.receive(Time::ZERO).unwrap().frame;
                let byte = got.as_ref()[0];
                merged.recycle(got);
                byte
            })
            .collect();
        assert_eq!(first.iter().position(|&byte| byte == 2), Some(BATCH as usize));
        assert_eq!(std::iter::from_fn(|| merged.receive(Time::ZERO)).count(), 64 - BATCH as usize);
    }

    #[test]
    fn when_one_is_full_the_next_sends() {
        let ((a, mut far_a), (b, mut far_b)) = (memory::pair(1, 64), memory::pair(1, 64));
        let mut merged = MultiQueue::new(vec![a, b]);
        assert_eq!([1, 2, 3].map(|byte| send(&mut merged, byte)), [Ok(()), Ok(()), Err(Full)]);
        assert_eq!(far_a.receive(Time::ZERO).unwrap().frame.as_ref(), [1]);
        assert_eq!(far_b.receive(Time::ZERO).unwrap().frame.as_ref(), [2]);
    }
}
