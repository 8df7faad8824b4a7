//! AF_XDP device: one receive queue of an interface.
//!
//! A chunk is in one place at a time: in the fill ring, lent as a frame, in the rings for sending, or
//! free for sending. Frames that cannot be sent at once stay in the ring and are sent at the next
//! flush.
//!
//! Source: Linux, Documentation/networking/af_xdp.rst.

use std::sync::Arc;

use net::Device;
use net::device::{Full, Offloads, ReceivedFrame, Waker};
use queueing::{Span, Time};
use rustix::event::PollFlags;

use super::socket::{Descriptor, Socket};
use super::umem::{Umem, UmemFrame};
use super::{Options, Steering};
use crate::packet::RawSocket;
use host::wait;

/// One receive queue of an interface.
#[derive(Debug)]
pub struct AfXdp {
    socket: Socket,
    umem: Umem,
    /// Free chunks for sending, by address.
    free: Vec<u64>,
    frame_len_max: usize,
    busy_poll: bool,
    /// True if the kernel has not sent everything: a call has a budget, or the link was busy.
    unsent: bool,
    /// Socket for frames to be segmented, if available.
    long: Option<RawSocket>,
    eventfd: wait::EventFd,
    _steering: Arc<Steering>,
}

/// Parts of a device.
pub(super) struct Parts {
    pub(super) socket: Socket,
    pub(super) umem: Umem,
    pub(super) long: Option<RawSocket>,
    pub(super) eventfd: wait::EventFd,
    pub(super) steering: Arc<Steering>,
}

impl AfXdp {
    /// Ends [`wait`](Device::wait) also while `fd` is readable, from now on.
    pub fn watch(&mut self, fd: std::os::fd::OwnedFd) {
        self.eventfd.watch(fd);
    }

    pub(super) fn new(parts: Parts, chunk: usize, options: &Options, frame_len_max: usize) -> Self {
        let Parts { socket, umem, long, eventfd, steering } = parts;
        let (frames, chunk) = (u64::from(options.frames), chunk as u64);
        let receiving = u64::from(options.receive_chunks());
        let mut device = Self {
            socket,
            umem,
            free: (receiving..receiving + frames).map(|index| index * chunk).collect(),
            frame_len_max,
            busy_poll: options.busy_poll,
            unsent: false,
            long,
            eventfd,
            _steering: steering,
        };
        for index in 0..receiving {
            assert!(
                device.socket.fill.push(index * chunk),
                "the fill ring has two slots for each receive chunk"
            );
        }
        device.socket.fill.publish();
        device.socket.kick_receive();
        device
    }

    /// Frames that the kernel dropped because the rings were full or empty.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.socket.dropped()
    }

    /// Wakes the kernel or polls the card after an empty receive.
    fn nudge(&mut self) {
        self.socket.fill.publish();
        if self.unsent {
            self.send();
        }
        if self.busy_poll || self.socket.fill.words().needs_wakeup() {
            self.socket.kick_receive();
        }
    }

    /// Makes the kernel send, as long as it makes progress.
    fn send(&mut self) {
        self.unsent = false;
        if !self.socket.sending.words().needs_wakeup() {
            return;
        }
        // The kernel copies frames up to a budget per call.
        for _ in 0..KICKS_MAX {
            if !self.socket.kick_send() {
                break;
            }
        }
        // Also after a busy link: no other caller would wake the kernel.
        self.unsent = self.socket.sending.is_pending();
    }

    /// Reclaims the chunks of frames that were sent.
    fn reap(&mut self) {
        while let Some(address) = self.socket.completed.pop() {
            self.free.push(self.umem.chunk_of(address));
        }
    }
}

impl Device for AfXdp {
    type Frame = UmemFrame;

    #[inline]
    fn receive(&mut self, _now: Time) -> Option<ReceivedFrame<UmemFrame>> {
        loop {
            let Some(Descriptor { addr, len, .. }) = self.socket.received.pop() else {
                self.nudge();
                return None;
            };
            // SAFETY: the kernel hands out a chunk once, and again only after `recycle` has put it into
            // the fill ring.
            if let Some(frame) = unsafe { self.umem.lend(addr, len) } {
                return Some(ReceivedFrame { frame, arrived: None, checked: false });
            }
        }
    }

    #[inline]
    fn recycle(&mut self, frame: UmemFrame) {
        let chunk = self.umem.take_back(frame);
        let pushed = self.socket.fill.push(chunk);
        debug_assert!(pushed, "the fill ring has two slots for each receive chunk");
        if self.socket.fill.unpublished() >= FILL_BATCH {
            self.socket.fill.publish();
        }
    }

    #[inline]
    fn transmit(&mut self, _now: Time, len: usize, fill: &mut dyn FnMut(&mut [u8])) -> Result<(), Full> {
        assert!(len <= self.frame_len_max, "a frame of {len} bytes is longer than {}", self.frame_len_max);
        if self.free.is_empty() {
            self.reap();
        }
        // Earlier frames go first.
        if self.long.as_mut().is_some_and(RawSocket::flush) {
            return Err(Full);
        }
        if !self.socket.sending.has_room() {
            return Err(Full);
        }
        let address = self.free.pop().ok_or(Full)?;
        // SAFETY: free chunks are in no ring and not lent.
        fill(unsafe { self.umem.chunk_mut(address, len) });
        let pushed = self.socket.sending.push(Descriptor { addr: address, len: len as u32, options: 0 });
        debug_assert!(pushed, "the ring has a slot");
        Ok(())
    }

    fn transmit_cut(
        &mut self,
        now: Time,
        len: usize,
        size: u16,
        fill: &mut dyn FnMut(&mut [u8]),
    ) -> Result<(), Full> {
        self.flush(now);
        let Some(long) = self.long.as_mut().filter(|_| !self.unsent) else { return Err(Full) };
        long.send(len, size, fill)
    }

    fn frame_len_max(&self) -> usize {
        self.frame_len_max
    }

    fn offloads(&self) -> Offloads {
        Offloads { tx_checksum: false, tx_segmentation: self.long.is_some() }
    }

    fn flush(&mut self, _now: Time) {
        self.long.as_mut().map(RawSocket::flush);
        if self.socket.sending.unpublished() > 0 {
            self.socket.sending.publish();
            self.send();
        } else if self.unsent {
            self.send();
        }
        self.reap();
    }

    fn wait(&mut self, span: Span) {
        self.nudge();
        let waits = self.unsent || self.long.as_mut().is_some_and(RawSocket::flush);
        let span = if waits { span.min(RETRY) } else { span };
        self.eventfd.within(&self.socket, PollFlags::IN, span);
    }

    fn waker(&self) -> Option<Waker> {
        Some(self.eventfd.waker())
    }
}

/// Number of chunks that are put on the fill ring at once.
const FILL_BATCH: u32 = 16;
/// Retry interval after a busy link when the device is otherwise idle.
const RETRY: Span = Span::from_millis(1);
/// Maximum of consecutive calls to send a batch.
const KICKS_MAX: usize = 64;
