//! DPDK device: one queue of a port, with frames in mbufs and in bursts.

use std::fmt;
use std::ptr::NonNull;
use std::sync::Arc;

use net::Device;
use net::device::{Full, Offloads, ReceivedFrame};
use queueing::{Span, Time};

use super::burst::{BURST, Burst};
use super::port::Port;
use super::shim::{self, CHAINED, CHECKED, Mbuf, RawFrame};
use crate::virtio_net_hdr;

/// One queue of a port, in both directions.
pub struct Dpdk {
    port: Arc<Port>,
    queue: u16,
    /// Frames received and not yet handed out.
    received: Burst<RawFrame>,
    /// Empty mbufs for sending.
    empty: Burst<RawFrame>,
    /// Frames written and not yet accepted by the driver.
    unsent: Burst<RawFrame>,
    /// Mbufs that the stack has returned.
    spent: Vec<*mut Mbuf>,
    frame_len_max: usize,
    offloads: Offloads,
    counts: Counts,
}

/// Counts of dropped frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Received frames longer than one mbuf.
    pub chained: u64,
    /// Frames that the driver rejected.
    pub refused: u64,
}

// SAFETY: mbufs and the queue may be used from any thread, one at a time.
unsafe impl Send for Dpdk {}

impl fmt::Debug for Dpdk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dpdk")
            .field("port", &self.port.id)
            .field("queue", &self.queue)
            .finish_non_exhaustive()
    }
}

/// A received frame in the mbuf that the driver put it into.
///
/// Return it with `recycle`; the mbuf of a dropped frame is lost.
#[derive(Debug)]
pub struct Frame {
    mbuf: NonNull<Mbuf>,
    bytes: NonNull<[u8]>,
}

// SAFETY: a frame is the only owner of its mbuf, whose pool stays while mbufs are lent.
unsafe impl Send for Frame {}

impl AsRef<[u8]> for Frame {
    #[inline]
    fn as_ref(&self) -> &[u8] {
        // SAFETY: the driver wrote these bytes, and the mbuf is this frame's until it is recycled; its
        // pool stays while mbufs are lent.
        unsafe { self.bytes.as_ref() }
    }
}

impl Dpdk {
    pub(super) fn new(port: Arc<Port>, queue: u16, mtu: u16, tx_checksum: bool) -> Self {
        Self {
            port,
            queue,
            received: Burst::new(RawFrame::NONE),
            empty: Burst::new(RawFrame::NONE),
            unsent: Burst::new(RawFrame::NONE),
            spent: Vec::with_capacity(BURST),
            frame_len_max: usize::from(mtu) + ETHERNET,
            offloads: Offloads { tx_checksum, ..Offloads::default() },
            counts: Counts::default(),
        }
    }

    /// Counts of dropped frames.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Passes frames to the driver, as many as it accepts.
    fn send(&mut self) {
        let frames = self.unsent.rest();
        let count = frames.len() as u16;
        if count == 0 {
            return;
        }
        // SAFETY: `count` frames whose mbufs are ours; those accepted are the driver's from now on, and
        // forgotten here.
        let taken = unsafe {
            shim::gw_send(self.port.id, self.queue, frames.as_ptr(), count, &raw mut self.counts.refused)
        };
        self.unsent.skip(taken.into());
    }

    /// Frees the mbufs that the stack has returned.
    fn free_spent(&mut self) {
        free(&mut self.spent);
    }

    /// Fetches the next burst from the driver; true if there was one.
    fn refill(&mut self) -> bool {
        let (port, queue) = (self.port.id, self.queue);
        // SAFETY: room for `max` frames; this thread alone has the queue.
        self.received.fill(|frames, max| unsafe { shim::gw_receive(port, queue, frames, max) })
    }
}

impl Device for Dpdk {
    type Frame = Frame;

    #[inline]
    fn receive(&mut self, _now: Time) -> Option<ReceivedFrame<Frame>> {
        loop {
            let Some(raw) = self.received.next() else {
                if self.refill() {
                    continue;
                }
                self.free_spent();
                self.send();
                return None;
            };
            if raw.note & CHAINED != 0 {
                self.counts.chained += 1;
                self.spent.push(raw.mbuf);
                self.free_spent();
                continue;
            }
            let (Some(mbuf), Some(data)) = (NonNull::new(raw.mbuf), NonNull::new(raw.data)) else { continue };
            let bytes = NonNull::slice_from_raw_parts(data, raw.len.into());
            let checked = raw.note & CHECKED != 0;
            return Some(ReceivedFrame { frame: Frame { mbuf, bytes }, arrived: None, checked });
        }
    }

    #[inline]
    fn recycle(&mut self, frame: Frame) {
        self.spent.push(frame.mbuf.as_ptr());
        if self.spent.len() == BURST {
            self.free_spent();
        }
    }

    #[inline]
    fn transmit(&mut self, _now: Time, len: usize, fill: &mut dyn FnMut(&mut [u8])) -> Result<(), Full> {
        assert!(len <= self.frame_len_max, "a frame of {len} bytes is longer than {}", self.frame_len_max);
        if self.unsent.is_full() {
            self.send();
            if self.unsent.is_full() {
                return Err(Full);
            }
        }
        if self.empty.is_empty() {
            let pool = self.port.pool(self.queue).0.as_ptr();
            // SAFETY: room for `max` frames; the pool lives as long as the port.
            self.empty.fill(|frames, max| unsafe { shim::gw_take(pool, frames, max) });
        }
        let mut raw = self.empty.next().ok_or(Full)?;
        assert!(len <= usize::from(raw.len), "an mbuf holds the longest frame");
        // SAFETY: `raw.len` bytes of an mbuf that is ours alone. Memory of a
        // pool is mapped and zero at first, so any bytes in it are initialised.
        let bytes = unsafe { std::slice::from_raw_parts_mut(raw.data, len) };
        fill(bytes);
        raw.len = len as u16;
        if self.offloads.tx_checksum {
            raw.note = virtio_net_hdr::partial(bytes).unwrap_or(0) as u16;
        }
        self.unsent.push(raw);
        Ok(())
    }

    fn frame_len_max(&self) -> usize {
        self.frame_len_max
    }

    fn flush(&mut self, _now: Time) {
        self.send();
    }

    fn offloads(&self) -> Offloads {
        self.offloads
    }

    /// Returns at once: a DPDK port cannot wake a sleeper.
    fn wait(&mut self, _span: Span) {
        self.send();
    }
}

impl Drop for Dpdk {
    fn drop(&mut self) {
        self.send();
        for frames in [&mut self.received, &mut self.empty, &mut self.unsent] {
            while let Some(raw) = frames.next() {
                self.spent.push(raw.mbuf);
            }
        }
        self.free_spent();
    }
}

/// Returns mbufs to their pools.
fn free(mbufs: &mut Vec<*mut Mbuf>) {
    if !mbufs.is_empty() {
        // SAFETY: the mbufs are ours and, being drained, used no more.
        unsafe { shim::rte_pktmbuf_free_bulk(mbufs.as_mut_ptr(), mbufs.len() as u32) };
        mbufs.clear();
    }
}

/// Bytes of an Ethernet header.
const ETHERNET: usize = 14;
