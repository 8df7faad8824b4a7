//! Multi-queue device: the queues of one NIC as one device, for a stack on a single core.
//!
//! Receives from the devices round robin in batches, so that a busy one delays a frame of another
//! by at most a batch per device. Sends by the device of the frame received last, or by the next
//! that has space.

use std::sync::Arc;

use queueing::{Span, Time};

use super::{Device, Full, Offloads, ReceivedFrame, Waker};

/// Several devices as one.
#[derive(Debug)]
pub struct MultiQueue<D> {
    devices: Vec<D>,
    /// Device polled now, and frames left of its batch.
    next: usize,
    left: u32,
}

/// A frame and the index of its device.
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

/// Maximum number of frames received from one device before the next is polled.
const BATCH: u32 = 32;

impl<D: Device> MultiQueue<D> {
    /// Combines `devices`.
    ///
    /// # Panics
    /// Without devices.
    #[must_use]
    pub fn new(devices: Vec<D>) -> Self {
        assert!(!devices.is_empty(), "a multi-queue device needs a device");
        Self { devices, next: 0, left: BATCH }
    }

    fn pass_on(&mut self) {
        self.next = (self.next + 1) % self.devices.len();
        self.left = BATCH;
    }

    /// Sends by the current device, or by the next that has space: a full one has written nothing.
    fn first_with_room(&mut self, mut send: impl FnMut(&mut D) -> Result<(), Full>) -> Result<(), Full> {
        let count = self.devices.len();
        let is_sent = (0..count).any(|n| send(&mut self.devices[(self.next + n) % count]).is_ok());
        if is_sent { Ok(()) } else { Err(Full) }
    }
}

impl<D: Device> Device for MultiQueue<D> {
    type Frame = MergedFrame<D::Frame>;

    fn receive(&mut self, now: Time) -> Option<ReceivedFrame<Self::Frame>> {
        for _ in 0..self.devices.len() {
            if self.left == 0 {
                self.pass_on();
            }
            if let Some(ReceivedFrame { frame, arrived, checked }) = self.devices[self.next].receive(now) {
                self.left -= 1;
                let frame = MergedFrame { frame, from: self.next };
                return Some(ReceivedFrame { frame, arrived, checked });
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

    /// Offloads that all devices have.
    fn offloads(&self) -> Offloads {
        let all = |does: fn(Offloads) -> bool| self.devices.iter().all(|device| does(device.offloads()));
        Offloads {
            tx_checksum: all(|offloads| offloads.tx_checksum),
            tx_segmentation: all(|offloads| offloads.tx_segmentation),
        }
    }

    /// Sleeps on the devices round robin, on each for a short part of `span`, as others may have
    /// received frames.
    fn wait(&mut self, span: Span) {
        let devices = self.devices.len() as u64;
        let part = if devices == 1 {
            span
        } else {
            Span::from_nanos(span.min(POLL_INTERVAL_MAX).as_nanos() / devices)
        };
        self.devices[self.next].wait(part);
        self.pass_on();
    }

    /// Wakes all devices.
    fn waker(&self) -> Option<Waker> {
        let wakers = self.devices.iter().map(Device::waker).collect::<Option<Vec<_>>>()?;
        Some(Arc::new(move || wakers.iter().for_each(|wake| wake())))
    }
}

/// Longest time for sleeping on all of several devices.
const POLL_INTERVAL_MAX: Span = Span::from_millis(1);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::memory;

    fn send(device: &mut impl Device, byte: u8) -> Result<(), Full> {
        device.transmit(Time::ZERO, 1, &mut |buf| buf[0] = byte)
    }

    #[test]
    fn a_busy_device_does_not_starve_the_others() {
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
