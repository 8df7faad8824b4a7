//! An AF_XDP queue, with a packet socket for frames that no XDP program may take.

use drivers::{afxdp, packet};
use net::Device;
use net::device::{Full, Offloads, ReceivedFrame, Waker};
use queueing::{Span, Time};

/// A queue of an AF_XDP interface.
pub struct Xdp {
    pub(super) queue: afxdp::AfXdp,
    /// Packet socket for frames that the kernel needs as well; polled when the queue is empty,
    /// never waited for.
    pub(super) packet_socket: Option<Box<packet::PacketSocket>>,
}

/// A frame of either source.
#[derive(Debug)]
pub enum XdpFrame {
    /// From the AF_XDP queue.
    Queue(afxdp::UmemFrame),
    /// From the packet socket.
    Packet(packet::PooledFrame),
}

impl AsRef<[u8]> for XdpFrame {
    #[inline]
    fn as_ref(&self) -> &[u8] {
        match self {
            Self::Queue(frame) => frame.as_ref(),
            Self::Packet(frame) => frame.as_ref(),
        }
    }
}

impl Device for Xdp {
    type Frame = XdpFrame;

    #[inline]
    fn receive(&mut self, now: Time) -> Option<ReceivedFrame<XdpFrame>> {
        if let Some(received) = self.queue.receive(now) {
            return Some(received.map(XdpFrame::Queue));
        }
        let packet_socket = self.packet_socket.as_mut()?;
        packet_socket.receive(now).map(|received| received.map(XdpFrame::Packet))
    }

    #[inline]
    fn recycle(&mut self, frame: XdpFrame) {
        match (frame, &mut self.packet_socket) {
            (XdpFrame::Queue(frame), _) => self.queue.recycle(frame),
            (XdpFrame::Packet(frame), Some(packet_socket)) => packet_socket.recycle(frame),
            (XdpFrame::Packet(_), None) => unreachable!("such a frame comes from a packet socket"),
        }
    }

    #[inline]
    fn transmit(&mut self, now: Time, len: usize, fill: &mut dyn FnMut(&mut [u8])) -> Result<(), Full> {
        self.queue.transmit(now, len, fill)
    }

    fn transmit_cut(
        &mut self,
        now: Time,
        len: usize,
        size: u16,
        fill: &mut dyn FnMut(&mut [u8]),
    ) -> Result<(), Full> {
        self.queue.transmit_cut(now, len, size, fill)
    }

    fn frame_len_max(&self) -> usize {
        self.queue.frame_len_max()
    }

    fn flush(&mut self, now: Time) {
        self.queue.flush(now);
    }

    fn offloads(&self) -> Offloads {
        self.queue.offloads()
    }

    fn wait(&mut self, span: Span) {
        self.queue.wait(span);
    }

    fn waker(&self) -> Option<Waker> {
        self.queue.waker()
    }
}
