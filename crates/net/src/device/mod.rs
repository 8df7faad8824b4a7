//! The port between the stack and whatever carries frames.
//!
//! A device owns its frames: `receive` lends one out until it is handed back
//! by `recycle`, so a ring, a UMEM or a pool can all stand behind it without
//! a copy. Sending fills a buffer of the device's in place.

use std::sync::Arc;

use queueing::{Span, Time};

pub mod fault_injector;
pub mod memory;
pub mod multi_queue;
pub mod pcap;

/// A received frame and when the device says it came.
#[derive(Debug)]
pub struct Received<F> {
    /// The frame; give it back with [`Device::recycle`].
    pub frame: F,
    /// Arrival as stamped by the device (hardware stamp, wire model), if it can.
    pub arrived: Option<Time>,
    /// The device has verified the transport checksum, or the frame never left
    /// this machine's memory and has none yet: nobody need sum it up again.
    pub checked: bool,
}

impl<F> Received<F> {
    /// The same, its frame as another type.
    #[inline]
    pub fn map<T>(self, wrap: impl FnOnce(F) -> T) -> Received<T> {
        Received { frame: wrap(self.frame), arrived: self.arrived, checked: self.checked }
    }
}

/// What a device does in the stack's place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Offloads {
    /// It completes the checksum of a TCP segment whose checksum field holds
    /// the sum of the pseudo header, not complemented.
    pub tx_checksum: bool,
    /// It cuts TCP segments that are longer than the path carries, by
    /// [`Device::transmit_cut`] (TSO), and completes the checksums of what it cuts.
    pub tx_segmentation: bool,
}

/// The device has no room to send; try again after it has been served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

/// Ends another thread's [`Device::wait`]; one that has not begun yet ends at once.
pub type Waker = Arc<dyn Fn() + Send + Sync>;

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

    /// Sends a TCP segment of up to 65,535 bytes with its IP header in a frame of
    /// `len` bytes, which `fill` writes as in [`transmit`](Self::transmit): the
    /// device cuts it into segments of `size` bytes of data, the last of which
    /// may be shorter and alone has PSH and FIN. The checksum field holds the sum of the
    /// pseudo header, as for [`Offloads::tx_checksum`].
    ///
    /// # Errors
    /// [`Full`] when there is no room; nothing was sent.
    ///
    /// # Panics
    /// On a device whose [`offloads`](Self::offloads) do not promise it.
    fn transmit_cut(
        &mut self,
        now: Time,
        len: usize,
        size: u16,
        fill: &mut dyn FnMut(&mut [u8]),
    ) -> Result<(), Full> {
        let _ = (now, fill);
        panic!("a frame of {len} bytes for a device that cuts nothing into {size}");
    }

    /// The largest frame the device carries, without FCS.
    fn frame_len_max(&self) -> usize {
        1514
    }

    /// Sends what [`transmit`](Self::transmit) has gathered. A device whose
    /// transmit needs a system call may leave it to this, one for a whole
    /// batch; the stack calls it at the end of each egress.
    fn flush(&mut self, now: Time) {
        let _ = now;
    }

    /// What the device does in the stack's place; the same at every call.
    fn offloads(&self) -> Offloads {
        Offloads::default()
    }

    /// Gives up the core until a frame may have come, at most for `span`.
    /// Devices that cannot sleep return at once.
    fn wait(&mut self, span: Span) {
        let _ = span;
    }

    /// Ends a `wait` early; `None` where the device cannot be woken.
    fn waker(&self) -> Option<Waker> {
        None
    }
}
