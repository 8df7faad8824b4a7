//! Devices between the stack and the kernel.

use drivers::Tap;
use drivers::afxdp::AfXdp;
use drivers::packet::PacketSocket;
use net::Device;
use net::device::{Full, Offloads, ReceivedFrame};
use queueing::{Span, Time};

/// A kind of device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Tap,
    /// AF_XDP on a veth, with the program in generic mode.
    Xdp,
    /// AF_XDP with the program in the driver.
    XdpNative,
    /// AF_PACKET on a veth.
    Packet,
}

impl Kind {
    pub const ALL: [Self; 4] = [Self::Tap, Self::Xdp, Self::XdpNative, Self::Packet];
}

/// A device of any kind.
#[allow(clippy::large_enum_variant)] // There is one of them.
pub enum Port {
    Tap(Tap),
    Xdp(AfXdp),
    Packet(PacketSocket),
}

/// A frame of any kind of device.
pub enum Frame {
    Tap(<Tap as Device>::Frame),
    Xdp(<AfXdp as Device>::Frame),
    Packet(<PacketSocket as Device>::Frame),
}

impl AsRef<[u8]> for Frame {
    fn as_ref(&self) -> &[u8] {
        match self {
            Self::Tap(frame) => frame.as_ref(),
            Self::Xdp(frame) => frame.as_ref(),
            Self::Packet(frame) => frame.as_ref(),
        }
    }
}

impl Device for Port {
    type Frame = Frame;

    fn receive(&mut self, now: Time) -> Option<ReceivedFrame<Frame>> {
        match self {
            Self::Tap(tap) => tap.receive(now).map(|r| carried(r, Frame::Tap)),
            Self::Xdp(xdp) => xdp.receive(now).map(|r| carried(r, Frame::Xdp)),
            Self::Packet(packet) => packet.receive(now).map(|r| carried(r, Frame::Packet)),
        }
    }

    fn recycle(&mut self, frame: Frame) {
        match (self, frame) {
            (Self::Tap(tap), Frame::Tap(frame)) => tap.recycle(frame),
            (Self::Xdp(xdp), Frame::Xdp(frame)) => xdp.recycle(frame),
            (Self::Packet(packet), Frame::Packet(frame)) => packet.recycle(frame),
            _ => unreachable!("a frame goes back to the device that lent it"),
        }
    }

    fn transmit(&mut self, now: Time, len: usize, fill: &mut dyn FnMut(&mut [u8])) -> Result<(), Full> {
        match self {
            Self::Tap(tap) => tap.transmit(now, len, fill),
            Self::Xdp(xdp) => xdp.transmit(now, len, fill),
            Self::Packet(packet) => packet.transmit(now, len, fill),
        }
    }

    fn flush(&mut self, now: Time) {
        match self {
            Self::Tap(tap) => tap.flush(now),
            Self::Xdp(xdp) => xdp.flush(now),
            Self::Packet(packet) => packet.flush(now),
        }
    }

    fn offloads(&self) -> Offloads {
        match self {
            Self::Tap(tap) => tap.offloads(),
            Self::Xdp(xdp) => xdp.offloads(),
            Self::Packet(packet) => packet.offloads(),
        }
    }

    fn frame_len_max(&self) -> usize {
        match self {
            Self::Tap(tap) => tap.frame_len_max(),
            Self::Xdp(xdp) => xdp.frame_len_max(),
            Self::Packet(packet) => packet.frame_len_max(),
        }
    }

    fn wait(&mut self, span: Span) {
        match self {
            Self::Tap(tap) => tap.wait(span),
            Self::Xdp(xdp) => xdp.wait(span),
            Self::Packet(packet) => packet.wait(span),
        }
    }
}

fn carried<F>(received: ReceivedFrame<F>, wrap: impl FnOnce(F) -> Frame) -> ReceivedFrame<Frame> {
    let ReceivedFrame { frame, arrived, checked } = received;
    ReceivedFrame { frame: wrap(frame), arrived, checked }
}
