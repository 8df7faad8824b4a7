//! Device: the interface between the stack and a carrier of frames.
//!
//! A device owns its frames: `receive` lends one until `recycle` returns it, so that a ring, a UMEM
//! or a pool can implement it without a copy. Sending fills a buffer of the device in place.

use std::sync::Arc;

use queueing::{Span, Time};

pub mod fault_injector;
pub mod memory;
pub mod multi_queue;
pub mod pcap;

/// A received frame and its arrival time.
#[derive(Debug)]
pub struct ReceivedFrame<F> {
    /// The frame; return it with [`Device::recycle`].
    pub frame: F,
    /// Arrival time stamped by the device (hardware timestamp, link model), if available.
    pub arrived: Option<Time>,
    /// True if the device verified the transport checksum, or if the frame never left this
    /// machine's memory and has none yet: it need not be verified.
    pub checked: bool,
}

impl<F> ReceivedFrame<F> {
    /// The same frame converted to another type.
    #[inline]
    pub fn map<T>(self, wrap: impl FnOnce(F) -> T) -> ReceivedFrame<T> {
        ReceivedFrame { frame: wrap(self.frame), arrived: self.arrived, checked: self.checked }
    }
}

/// Offloads of a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Offloads {
    /// Completes the checksum of a TCP segment whose checksum field holds the sum of the pseudo
    /// header, not complemented.
    pub tx_checksum: bool,
    /// Segments TCP data that exceeds the MTU by [`Device::transmit_cut`] (TSO), and completes the
    /// checksums of the segments.
    pub tx_segmentation: bool,
}

/// Error: the device has no space to send; retry after it was polled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

/// Ends another thread's [`Device::wait`], or the next one if none is running.
pub type Waker = Arc<dyn Fn() + Send + Sync>;

/// Carrier of Ethernet frames without FCS.
pub trait Device {
    /// A received frame, from the destination MAC on.
    type Frame: AsRef<[u8]>;

    /// The next received frame, if any. Never blocks.
    fn receive(&mut self, now: Time) -> Option<ReceivedFrame<Self::Frame>>;

    /// Returns a frame's buffer.
    fn recycle(&mut self, frame: Self::Frame);

    /// Sends a frame of `len` bytes that `fill` writes. Calls `fill` once, or not at all if the
    /// device is full.
    ///
    /// # Errors
    /// [`Full`] without space; nothing was sent.
    fn transmit(&mut self, now: Time, len: usize, fill: &mut dyn FnMut(&mut [u8])) -> Result<(), Full>;

    /// Sends a TCP segment of up to 65,535 bytes with its IP header in a frame of `len` bytes,
    /// which `fill` writes as in [`transmit`](Self::transmit). The device splits it into segments
    /// of `size` bytes of data; the last may be shorter, and only it has PSH and FIN. The checksum
    /// field holds the sum of the pseudo header, as for [`Offloads::tx_checksum`].
    ///
    /// # Errors
    /// [`Full`] without space; nothing was sent.
    ///
    /// # Panics
    /// If [`offloads`](Self::offloads) lacks `tx_segmentation`.
    fn transmit_cut(
        &mut self,
        now: Time,
        len: usize,
        size: u16,
        fill: &mut dyn FnMut(&mut [u8]),
    ) -> Result<(), Full> {
        let _ = (now, fill);
        panic!("a frame of {len} bytes to segment at {size} for a device without TSO");
    }

    /// Largest frame of the device, without FCS.
    fn frame_len_max(&self) -> usize {
        1514
    }

    /// Sends frames gathered by [`transmit`](Self::transmit). A device whose transmit needs a
    /// system call may defer it to this, one per batch; the stack calls it at the end of each
    /// egress.
    fn flush(&mut self, now: Time) {
        let _ = now;
    }

    /// Offloads of the device; constant.
    fn offloads(&self) -> Offloads {
        Offloads::default()
    }

    /// Sleeps until a frame may have arrived, at most for `span`. Devices that cannot sleep return
    /// at once.
    fn wait(&mut self, span: Span) {
        let _ = span;
    }

    /// Handle that ends a `wait` early; `None` if the device cannot be woken.
    fn waker(&self) -> Option<Waker> {
        None
    }
}
