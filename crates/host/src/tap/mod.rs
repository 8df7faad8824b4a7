//! A TAP device: a network card whose other end is the kernel's own stack.
//!
//! One frame per system call, so it is for talking to ordinary clients, not
//! for speed. The device is not persistent: it disappears when it is dropped
//! or the process ends. [`Tap::up`] gives the kernel's end an address by
//! ioctl, so no `ip` command is needed.
//! Source: Linux, Documentation/networking/tuntap.rst.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::net::Ipv4Addr;
use std::os::unix::fs::OpenOptionsExt;

use net::device::{Full, Received};
use queueing::{Span, Time};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

mod error;
mod ioctl;

pub use error::TapError;

/// Bytes of an Ethernet header.
const ETHERNET: usize = 14;

/// A TAP device, non-blocking.
#[derive(Debug)]
pub struct Tap {
    file: File,
    name: String,
    mtu: usize,
    /// Buffers that wait for a frame; [`POOL`] at most.
    pool: Vec<Box<[u8]>>,
    scratch: Box<[u8]>,
}

/// Buffers that are kept; more in flight at once are allocated and freed.
const POOL: usize = 256;

/// A received frame in one of the device's buffers.
#[derive(Debug)]
pub struct Frame {
    buffer: Box<[u8]>,
    len: usize,
}

impl AsRef<[u8]> for Frame {
    fn as_ref(&self) -> &[u8] {
        &self.buffer[..self.len]
    }
}

impl Tap {
    /// Creates device `name` (1..=15 bytes) with an MTU of 1500.
    ///
    /// # Errors
    /// A name the kernel cannot take or has already, no permission, no TAP
    /// support. Nothing is left behind.
    pub fn create(name: &str) -> Result<Self, TapError> {
        const MTU: usize = 1500;
        let c_name = ioctl::Name::new(name)?;
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(libc::O_NONBLOCK)
            .open("/dev/net/tun")
            .map_err(TapError::open)?;
        ioctl::attach(&file, c_name).map_err(|e| TapError::attach(name, e))?;
        let len = MTU + ETHERNET;
        Ok(Self {
            file,
            name: name.to_owned(),
            mtu: MTU,
            pool: Vec::with_capacity(POOL),
            scratch: vec![0; len].into_boxed_slice(),
        })
    }

    /// Gives the kernel's end `addr`/`prefix` and brings it up.
    ///
    /// # Errors
    /// The kernel's refusal, with what was asked of it.
    pub fn up(&self, addr: Ipv4Addr, prefix: u8) -> Result<(), TapError> {
        if prefix > 32 {
            return Err(TapError::Prefix(prefix));
        }
        let name = ioctl::Name::new(&self.name)?;
        ioctl::configure(name, addr, prefix).map_err(|source| TapError::Up {
            name: self.name.clone(),
            addr,
            prefix,
            source,
        })
    }

    /// The device's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl net::Device for Tap {
    type Frame = Frame;

    fn receive(&mut self, _now: Time) -> Option<Received<Frame>> {
        let max = self.frame_len_max();
        let mut buffer = self.pool.pop().unwrap_or_else(|| vec![0; max].into_boxed_slice());
        match (&self.file).read(&mut buffer) {
            Ok(len) if len > 0 => {
                Some(Received { frame: Frame { buffer, len }, arrived: None, checked: false })
            }
            // Nothing there, or the device is going away: either way no frame.
            _ => {
                self.pool.push(buffer);
                None
            }
        }
    }

    fn recycle(&mut self, frame: Frame) {
        if self.pool.len() < POOL {
            self.pool.push(frame.buffer);
        }
    }

    fn transmit(&mut self, _now: Time, len: usize, fill: &mut dyn FnMut(&mut [u8])) -> Result<(), Full> {
        assert!(len <= self.scratch.len(), "a frame of {len} bytes exceeds {}", self.scratch.len());
        // `fill` may run once only, so ask for room before it does.
        if !self.ready(PollFlags::OUT, Span::ZERO) {
            return Err(Full);
        }
        fill(&mut self.scratch[..len]);
        loop {
            match (&self.file).write(&self.scratch[..len]) {
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                // A device that is down (EIO) loses the frame, as a cable would.
                _ => return Ok(()),
            }
        }
    }

    fn frame_len_max(&self) -> usize {
        self.mtu + ETHERNET
    }

    fn wait(&mut self, span: Span) {
        self.ready(PollFlags::IN, span);
    }
}

impl Tap {
    /// Whether the device becomes ready for `flags` within `span`.
    fn ready(&self, flags: PollFlags, span: Span) -> bool {
        const SECOND: u64 = 1_000_000_000;
        let ns = span.as_nanos();
        let timeout = Timespec { tv_sec: (ns / SECOND) as i64, tv_nsec: (ns % SECOND) as _ };
        let mut fds = [PollFd::new(&self.file, flags)];
        // An interrupted wait is a short one; the caller looks again.
        poll(&mut fds, Some(&timeout)).is_ok_and(|n| n > 0)
    }
}

#[cfg(test)]
mod tests;
