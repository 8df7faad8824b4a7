//! The port between the stack and whatever carries frames.
//!
//! A device owns its frames: `receive` lends one out until it is handed back
//! by `recycle`, so a ring, a UMEM or a pool can all stand behind it without
//! a copy. Sending fills a buffer of the device's in place.

use queueing::{Span, Time};

pub mod memory;
pub mod pcap;

/// A received frame and when the device says it came.
#[derive(Debug)]
pub struct Received<F> {
    /// The frame; give it back with [`Device::recycle`].
    pub frame: F,
    /// Arrival as stamped by the device (hardware stamp, wire model), if it can.
    pub arrived: Option<Time>,
}

/// The device has no room to send; try again after it has been served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

/// Carries Ethernet frames without FCS.
pub trait Device {
    /// A received frame: the bytes from the destination MAC on.
    type Frame: AsRef<[u8]>;

    /// The next received frame, if there is one. Never blocks.
    fn receive(&mut self, now: Time) -> Option<Received<Self::Frame>>;

    /// Takes a frame's buffer back.
    fn recycle(&mut self, frame: Self::Frame);

    /// Sends a frame of `len` bytes that `fill` writes. `fill` is called once,
    /// or not at all when the device is full.
    ///
    /// # Errors
    /// [`Full`] when there is no room; nothing was sent.
    fn transmit(&mut self, now: Time, len: usize, fill: &mut dyn FnMut(&mut [u8])) -> Result<(), Full>;

    /// The largest frame the device carries, without FCS.
    fn frame_len_max(&self) -> usize {
        1514
    }

    /// Gives up the core until a frame may have come, at most for `span`.
    /// Devices that cannot sleep return at once.
    fn wait(&mut self, span: Span) {
        let _ = span;
    }
}
