//! The devices over which the stack meets the kernel.

use host::Tap;
use net::Device;
use net::device::{Full, Offloads, Received};
use queueing::{Span, Time};

/// A device of any kind.
pub enum Port {
    Tap(Tap),
}

/// A frame of any kind of device.
pub enum Frame {
    Tap(<Tap as Device>::Frame),
}

impl AsRef<[u8]> for Frame {
    fn as_ref(&self) -> &[u8] {
        match self {
            Self::Tap(frame) => frame.as_ref(),
        }
    }
}

impl Device for Port {
    type Frame = Frame;

    fn receive(&mut self, now: Time) -> Option<Received<Frame>> {
        match self {
            Self::Tap(tap) => tap.receive(now).map(|r| carried(r, Frame::Tap)),
        }
    }

    fn recycle(&mut self, frame: Frame) {
        match (self, frame) {
            (Self::Tap(tap), Frame::Tap(frame)) => tap.recycle(frame),
        }
    }

    fn transmit(&mut self, now: Time, len: usize, fill: &mut dyn FnMut(&mut [u8])) -> Result<(), Full> {
        match self {
            Self::Tap(tap) => tap.transmit(now, len, fill),
        }
    }

    fn flush(&mut self, now: Time) {
        match self {
            Self::Tap(tap) => tap.flush(now),
        }
    }

    fn offloads(&self) -> Offloads {
        match self {
            Self::Tap(tap) => tap.offloads(),
        }
    }

    fn frame_len_max(&self) -> usize {
        match self {
            Self::Tap(tap) => tap.frame_len_max(),
        }
    }

    fn wait(&mut self, span: Span) {
        match self {
            Self::Tap(tap) => tap.wait(span),
        }
    }
}

fn carried<F>(received: Received<F>, wrap: impl FnOnce(F) -> Frame) -> Received<Frame> {
    let Received { frame, arrived, checked } = received;
    Received { frame: wrap(frame), arrived, checked }
}
