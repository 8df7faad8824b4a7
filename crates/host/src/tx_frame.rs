//! One frame on its way to the kernel by a system call of its own, with the
//! virtio header before it: for TAP devices, and for what fits no ring's slot.
//!
//! A frame that the kernel has no room for stays here and goes before the next.

use std::fs::File;
use std::io::{ErrorKind, Write};

use net::device::Full;

use crate::frame_pool::LARGE_LEN;
use crate::virtio_net_hdr;

/// The frame that is sent, or waits to be.
#[derive(Debug)]
pub(crate) struct TxFrame {
    /// The virtio header and the frame.
    buffer: Box<[u8]>,
    /// How many bytes of it the kernel has not taken yet; 0 when it has.
    held: usize,
}

impl TxFrame {
    pub(crate) fn new() -> Self {
        Self { buffer: vec![0; virtio_net_hdr::HEADER_LEN + LARGE_LEN].into_boxed_slice(), held: 0 }
    }

    /// Sends a frame of `len` bytes that `fill` writes, to be cut into segments
    /// of `size` bytes of data if that is asked for.
    ///
    /// # Errors
    /// [`Full`] while the one before it waits; `fill` was not called.
    pub(crate) fn send(
        &mut self,
        file: &File,
        len: usize,
        size: Option<u16>,
        fill: &mut dyn FnMut(&mut [u8]),
    ) -> Result<(), Full> {
        assert!(len <= LARGE_LEN, "a frame of {len} bytes is longer than {LARGE_LEN}");
        self.flush(file);
        if self.is_held() {
            return Err(Full);
        }
        let (header, rest) = self.buffer.split_at_mut(virtio_net_hdr::HEADER_LEN);
        let frame = &mut rest[..len];
        fill(frame);
        header.copy_from_slice(&virtio_net_hdr::header_for(frame, size));
        self.held = virtio_net_hdr::HEADER_LEN + len;
        self.flush(file);
        Ok(())
    }

    /// Hands the frame that waits to the kernel, if it takes it now.
    pub(crate) fn flush(&mut self, mut file: &File) {
        while self.is_held() {
            match file.write(&self.buffer[..self.held]) {
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) if e.kind() == ErrorKind::WouldBlock => return,
                // A device that is down (EIO, ENETDOWN) or a queue before it that is
                // full (ENOBUFS) loses the frame, as a cable and a switch would.
                _ => self.held = 0,
            }
        }
    }

    /// Whether a frame waits.
    pub(crate) fn is_held(&self) -> bool {
        self.held > 0
    }
}
