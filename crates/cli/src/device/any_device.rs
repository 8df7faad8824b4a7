//! Devices of every kind as one type.

use std::os::fd::OwnedFd;

use drivers::{Tap, dpdk, packet};
use net::Device;
use net::device::fault_injector::{self, FaultInjector};
use net::device::pcap::{PcapTap, Replay};
use net::device::{Full, Offloads, ReceivedFrame, Waker};
use queueing::{Span, Time};

use super::capture::Ending;
use super::record::Recording;
use super::xdp;

/// A device of any kind.
#[allow(clippy::large_enum_variant)] // One or a few of them, always in use.
pub enum AnyDevice {
    /// A TAP device.
    Tap(Tap),
    /// A packet socket.
    Packet(packet::PacketSocket),
    /// A queue of an AF_XDP interface.
    Xdp(xdp::Xdp),
    /// A queue of a DPDK port.
    Dpdk(dpdk::Dpdk),
    /// A capture file.
    Replay(Box<Replay<Ending>>),
}

impl AnyDevice {
    /// Makes [`wait`](Device::wait) also end while `fd` is readable, from now on. Devices that
    /// never sleep, or keep their own pace, ignore it.
    pub fn watch(&mut self, fd: OwnedFd) {
        match self {
            Self::Tap(device) => device.watch(fd),
            Self::Packet(device) => device.watch(fd),
            Self::Xdp(device) => device.queue.watch(fd),
            Self::Dpdk(_) | Self::Replay(_) => {}
        }
    }
}

/// A frame of any device.
#[derive(Debug)]
pub enum AnyFrame {
    /// Frame of a TAP device or packet socket.
    Copied(packet::PooledFrame),
    /// Frame of an AF_XDP socket.
    Xdp(xdp::XdpFrame),
    /// Frame of a DPDK port.
    Dpdk(dpdk::Frame),
    /// Frame of a capture.
    Replayed(Vec<u8>),
}

impl AsRef<[u8]> for AnyFrame {
    #[inline]
    fn as_ref(&self) -> &[u8] {
        match self {
            Self::Copied(frame) => frame.as_ref(),
            Self::Xdp(frame) => frame.as_ref(),
            Self::Dpdk(frame) => frame.as_ref(),
            Self::Replayed(frame) => frame,
        }
    }
}

/// Calls the same method of the device, of any kind.
macro_rules! each {
    ($enum:ident: $($variant:ident)|+, $of:expr, $device:ident => $call:expr) => {
        match $of { $($enum::$variant($device) => $call),+ }
    };
}

impl Device for AnyDevice {
    type Frame = AnyFrame;

    #[inline]
    fn receive(&mut self, now: Time) -> Option<ReceivedFrame<AnyFrame>> {
        match self {
            Self::Tap(device) => device.receive(now).map(|got| got.map(AnyFrame::Copied)),
            Self::Packet(device) => device.receive(now).map(|got| got.map(AnyFrame::Copied)),
            Self::Xdp(device) => device.receive(now).map(|got| got.map(AnyFrame::Xdp)),
            Self::Dpdk(device) => device.receive(now).map(|got| got.map(AnyFrame::Dpdk)),
            Self::Replay(device) => device.receive(now).map(|got| got.map(AnyFrame::Replayed)),
        }
    }

    #[inline]
    fn recycle(&mut self, frame: AnyFrame) {
        match (self, frame) {
            (Self::Tap(device), AnyFrame::Copied(frame)) => device.recycle(frame),
            (Self::Packet(device), AnyFrame::Copied(frame)) => device.recycle(frame),
            (Self::Xdp(device), AnyFrame::Xdp(frame)) => device.recycle(frame),
            (Self::Dpdk(device), AnyFrame::Dpdk(frame)) => device.recycle(frame),
            (Self::Replay(device), AnyFrame::Replayed(frame)) => device.recycle(frame),
            _ => unreachable!("a frame goes back to the device it came from"),
        }
    }

    #[inline]
    fn transmit(&mut self, now: Time, len: usize, fill: &mut dyn FnMut(&mut [u8])) -> Result<(), Full> {
        each!(Self: Tap | Packet | Xdp | Dpdk | Replay, self, device => device.transmit(now, len, fill))
    }

    #[inline]
    fn transmit_cut(
        &mut self,
        now: Time,
        len: usize,
        size: u16,
        fill: &mut dyn FnMut(&mut [u8]),
    ) -> Result<(), Full> {
        each!(Self: Tap | Packet | Xdp | Dpdk | Replay, self, device => device.transmit_cut(now, len, size, fill))
    }

    fn frame_len_max(&self) -> usize {
        each!(Self: Tap | Packet | Xdp | Dpdk | Replay, self, device => device.frame_len_max())
    }

    fn flush(&mut self, now: Time) {
        each!(Self: Tap | Packet | Xdp | Dpdk | Replay, self, device => device.flush(now));
    }

    fn offloads(&self) -> Offloads {
        each!(Self: Tap | Packet | Xdp | Dpdk | Replay, self, device => device.offloads())
    }

    fn wait(&mut self, span: Span) {
        each!(Self: Tap | Packet | Xdp | Dpdk | Replay, self, device => device.wait(span));
    }

    fn waker(&self) -> Option<Waker> {
        each!(Self: Tap | Packet | Xdp | Dpdk | Replay, self, device => device.waker())
    }
}

/// A device, optionally behind injected faults, recorded, or both.
pub enum WrappedDevice<D: Device> {
    /// The device alone.
    Plain(D),
    /// Behind injected faults.
    Faulty(Box<FaultInjector<D>>),
    /// Recorded.
    Tee(Box<PcapTap<D, Recording>>),
    /// Behind injected faults and recorded after them.
    Both(Box<PcapTap<FaultInjector<D>, Recording>>),
}

impl<D: Device> Device for WrappedDevice<D> {
    type Frame = fault_injector::InjectedFrame<D::Frame>;

    #[inline]
    fn receive(&mut self, now: Time) -> Option<ReceivedFrame<Self::Frame>> {
        match self {
            Self::Plain(device) => {
                device.receive(now).map(|got| got.map(fault_injector::InjectedFrame::Device))
            }
            Self::Tee(device) => {
                device.receive(now).map(|got| got.map(fault_injector::InjectedFrame::Device))
            }
            Self::Faulty(device) => device.receive(now),
            Self::Both(device) => device.receive(now),
        }
    }

    #[inline]
    fn recycle(&mut self, frame: Self::Frame) {
        match (self, frame) {
            (Self::Plain(device), fault_injector::InjectedFrame::Device(frame)) => device.recycle(frame),
            (Self::Tee(device), fault_injector::InjectedFrame::Device(frame)) => device.recycle(frame),
            (Self::Faulty(device), frame) => device.recycle(frame),
            (Self::Both(device), frame) => device.recycle(frame),
            _ => unreachable!("only injected faults make copies"),
        }
    }

    #[inline]
    fn transmit(&mut self, now: Time, len: usize, fill: &mut dyn FnMut(&mut [u8])) -> Result<(), Full> {
        each!(Self: Plain | Faulty | Tee | Both, self, device => device.transmit(now, len, fill))
    }

    #[inline]
    fn transmit_cut(
        &mut self,
        now: Time,
        len: usize,
        size: u16,
        fill: &mut dyn FnMut(&mut [u8]),
    ) -> Result<(), Full> {
        each!(Self: Plain | Faulty | Tee | Both, self, device => device.transmit_cut(now, len, size, fill))
    }

    fn frame_len_max(&self) -> usize {
        each!(Self: Plain | Faulty | Tee | Both, self, device => device.frame_len_max())
    }

    fn flush(&mut self, now: Time) {
        each!(Self: Plain | Faulty | Tee | Both, self, device => device.flush(now));
    }

    fn offloads(&self) -> Offloads {
        each!(Self: Plain | Faulty | Tee | Both, self, device => device.offloads())
    }

    fn wait(&mut self, span: Span) {
        each!(Self: Plain | Faulty | Tee | Both, self, device => device.wait(span));
    }

    fn waker(&self) -> Option<Waker> {
        each!(Self: Plain | Faulty | Tee | Both, self, device => device.waker())
    }
}
