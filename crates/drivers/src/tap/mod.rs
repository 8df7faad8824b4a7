//! TAP device: a virtual network interface whose other end is the kernel's stack.
//!
//! One frame per system call: it serves ordinary clients, not speed. Frames never leave the machine's
//! memory, so checksums are left out in both directions, and frames to be segmented are passed whole,
//! up to 64 KiB. The device is not persistent: it disappears when it is dropped or the process ends.
//! [`Tap::up`] sets the address of the kernel's end by ioctl, so no `ip` command is needed.
//!
//! Source: Linux, Documentation/networking/tuntap.rst.

use std::fs::{File, OpenOptions};
use std::io::{IoSliceMut, Read};
use std::net::IpAddr;
use std::os::unix::fs::OpenOptionsExt;

use net::device::{Full, Offloads, ReceivedFrame, Waker};
use queueing::{Span, Time};
use rustix::event::PollFlags;

use crate::frame_pool::{LARGE_LEN, Pool};
use crate::tx_frame::TxFrame;
use crate::virtio_net_hdr;
use host::wait;

mod error;
mod ioctl;

pub use crate::frame_pool::PooledFrame;
pub use error::TapError;

/// Bytes of an Ethernet header.
const ETHERNET: usize = 14;
/// MTU of a new device.
const MTU: usize = 1500;

/// A TAP device, or one of its queues; non-blocking.
#[derive(Debug)]
pub struct Tap {
    file: File,
    name: String,
    pool: Pool,
    /// Buffer for the part of a received frame beyond an ordinary one.
    rest: Box<[u8]>,
    /// Frame being sent.
    outgoing: TxFrame,
    /// Ends a wait.
    eventfd: wait::EventFd,
}

impl Tap {
    /// Ends `wait` also while `fd` is readable, from now on.
    pub fn watch(&mut self, fd: std::os::fd::OwnedFd) {
        self.eventfd.watch(fd);
    }

    /// Creates device `name` (1..=15 bytes) with an MTU of 1500.
    ///
    /// # Errors
    /// An invalid name, a name in use, no permission, no TAP support. Nothing is left behind.
    pub fn create(name: &str) -> Result<Self, TapError> {
        Self::attach(name, ioctl::TunSetIff::Single)
    }

    /// Creates device `name` with `queues` queues (1..=256), one device for each. The kernel keeps a
    /// flow on the queue that last sent for it.
    ///
    /// # Errors
    /// The errors of [`Tap::create`].
    ///
    /// # Panics
    /// `queues` is outside 1..=256.
    pub fn create_queues(name: &str, queues: u16) -> Result<Vec<Self>, TapError> {
        assert!((1..=256).contains(&queues), "{queues} queues are outside 1..=256");
        if queues == 1 {
            return Self::create(name).map(|tap| vec![tap]);
        }
        let kinds =
            [ioctl::TunSetIff::FirstQueue].into_iter().chain(std::iter::repeat(ioctl::TunSetIff::NextQueue));
        kinds.take(queues.into()).map(|kind| Self::attach(name, kind)).collect()
    }

    fn attach(name: &str, kind: ioctl::TunSetIff) -> Result<Self, TapError> {
        let c_name = ioctl::Name::new(name)?;
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(libc::O_NONBLOCK)
            .open("/dev/net/tun")
            .map_err(TapError::open)?;
        ioctl::attach(&file, c_name, kind).map_err(|e| TapError::attach(name, e))?;
        let eventfd = wait::EventFd::new().map_err(TapError::open)?;
        let len = MTU + ETHERNET;
        Ok(Self {
            file,
            name: name.to_owned(),
            pool: Pool::new(len),
            rest: vec![0; LARGE_LEN - len].into_boxed_slice(),
            outgoing: TxFrame::new(),
            eventfd,
        })
    }

    /// Sets `addr`/`prefix` at the kernel's end and brings it up. May be called again for the other
    /// family. An IPv6 address is usable at once if the kernel permits turning duplicate detection off:
    /// no other host can have it.
    ///
    /// # Errors
    /// The kernel's error, with the address.
    pub fn up(&self, addr: impl Into<IpAddr>, prefix: u8) -> Result<(), TapError> {
        let addr = addr.into();
        let max = if addr.is_ipv4() { 32 } else { 128 };
        if prefix > max {
            return Err(TapError::Prefix { prefix, max });
        }
        let name = ioctl::Name::new(&self.name)?;
        let done = match addr {
            IpAddr::V4(addr) => ioctl::configure(name, addr, prefix).and_then(|()| ioctl::up(name)),
            IpAddr::V6(addr) => {
                let check = format!("/proc/sys/net/ipv6/conf/{}/accept_dad", self.name);
                // If this cannot be written, the client merely waits a second.
                let _ = std::fs::write(check, "0");
                ioctl::up(name).and_then(|()| ioctl::configure6(name, addr, prefix))
            }
        };
        done.map_err(|source| match source.raw_os_error() {
            Some(libc::EACCES | libc::EAFNOSUPPORT) if addr.is_ipv6() => TapError::NoIpv6(self.name.clone()),
            _ => TapError::Up { name: self.name.clone(), addr, prefix, source },
        })
    }

    /// Brings the kernel's end up without an address.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn up_bare(&self) -> Result<(), TapError> {
        ioctl::up(ioctl::Name::new(&self.name)?).map_err(TapError::Other)
    }

    /// Name of the device.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl net::Device for Tap {
    type Frame = PooledFrame;

    fn receive(&mut self, _now: Time) -> Option<ReceivedFrame<PooledFrame>> {
        let mut header = [0; virtio_net_hdr::HEADER_LEN];
        let mut small = self.pool.small();
        let parts =
            &mut [IoSliceMut::new(&mut header), IoSliceMut::new(&mut small), IoSliceMut::new(&mut self.rest)];
        let got = (&self.file).read_vectored(parts);
        let len = got.ok().and_then(|got| got.checked_sub(header.len())).filter(|&len| len > 0);
        let frame = match len {
            // No frame, or the device is being removed.
            None => {
                self.pool.take_back_buffer(small);
                return None;
            }
            Some(len) if len <= small.len() => Pool::frame(small, len),
            Some(len) => {
                let mut large = self.pool.large();
                let (first, second) = large.split_at_mut(small.len());
                first.copy_from_slice(&small);
                second[..len - small.len()].copy_from_slice(&self.rest[..len - small.len()]);
                self.pool.take_back_buffer(small);
                Pool::frame(large, len)
            }
        };
        Some(ReceivedFrame { frame, arrived: None, checked: virtio_net_hdr::is_checked(&header) })
    }

    fn recycle(&mut self, frame: PooledFrame) {
        self.pool.take_back(frame);
    }

    fn transmit(&mut self, _now: Time, len: usize, fill: &mut dyn FnMut(&mut [u8])) -> Result<(), Full> {
        assert!(len <= MTU + ETHERNET, "a frame of {len} bytes exceeds {}", MTU + ETHERNET);
        self.outgoing.send(&self.file, len, None, fill)
    }

    fn transmit_cut(
        &mut self,
        _now: Time,
        len: usize,
        size: u16,
        fill: &mut dyn FnMut(&mut [u8]),
    ) -> Result<(), Full> {
        self.outgoing.send(&self.file, len, Some(size), fill)
    }

    fn frame_len_max(&self) -> usize {
        MTU + ETHERNET
    }

    fn flush(&mut self, _now: Time) {
        self.outgoing.flush(&self.file);
    }

    fn offloads(&self) -> Offloads {
        Offloads { tx_checksum: true, tx_segmentation: true }
    }

    fn wait(&mut self, span: Span) {
        let sending = if self.outgoing.is_held() { PollFlags::OUT } else { PollFlags::empty() };
        self.eventfd.within(&self.file, PollFlags::IN | sending, span);
    }

    fn waker(&self) -> Option<Waker> {
        Some(self.eventfd.waker())
    }
}

#[cfg(test)]
mod tests;
