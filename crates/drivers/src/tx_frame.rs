//! Frame sent by its own system call, with the virtio header before it: for TAP devices, and for frames
//! that fit no slot.
//!
//! A frame that the kernel cannot buffer waits here and goes before the next.

use std::fs::File;
use std::io::{ErrorKind, Write};

use net::device::Full;

use crate::frame_pool::LARGE_LEN;
use crate::virtio_net_hdr;

/// The frame being sent, or waiting.
#[derive(Debug)]
pub(crate) struct TxFrame {
    /// The virtio header and the frame.
    buffer: Box<[u8]>,
    /// Bytes that the kernel has not taken yet; 0 if none.
    held: usize,
}

impl TxFrame {
    pub(crate) fn new() -> Self {
        Self { buffer: vec![0; virtio_net_hdr::HEADER_LEN + LARGE_LEN].into_boxed_slice(), held: 0 }
    }

    /// Sends a frame of `len` bytes that `fill` writes, to be segmented into `size` bytes of data if
    /// given.
    ///
    /// # Errors
    /// [`Full`] while the previous frame waits; `fill` was not called.
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

    /// Passes the waiting frame to the kernel, if it takes it now.
    pub(crate) fn flush(&mut self, mut file: &File) {
        while self.is_held() {
            match file.write(&self.buffer[..self.held]) {
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) if e.kind() == ErrorKind::WouldBlock => return,
                // A device that is down (EIO, ENETDOWN) or has a full queue (ENOBUFS) loses the frame,
                // as a wire or a switch would.
                _ => self.held = 0,
            }
        }
    }

    /// True if a frame waits.
    pub(crate) fn is_held(&self) -> bool {
        self.held > 0
    }
}
