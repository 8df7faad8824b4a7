//! Stub of DPDK for builds without it: opening always fails, so callers need no conditional code.

use net::Device;
use net::device::{Full, ReceivedFrame};
use queueing::Time;

use super::{DpdkError, Opened, Options};

/// One queue of a port; uninhabited without DPDK.
#[derive(Debug)]
pub enum Dpdk {}

/// A received frame; uninhabited without DPDK.
#[derive(Debug)]
pub enum Frame {}

impl AsRef<[u8]> for Frame {
    fn as_ref(&self) -> &[u8] {
        match *self {}
    }
}

/// Always fails.
///
/// # Errors
/// [`DpdkError::NotBuilt`].
pub fn open(_device: &str, _options: &Options) -> Result<Opened, DpdkError> {
    Err(DpdkError::NotBuilt)
}

impl Device for Dpdk {
    type Frame = Frame;

    fn receive(&mut self, _now: Time) -> Option<ReceivedFrame<Frame>> {
        match *self {}
    }

    fn recycle(&mut self, frame: Frame) {
        match frame {}
    }

    fn transmit(&mut self, _now: Time, _len: usize, _fill: &mut dyn FnMut(&mut [u8])) -> Result<(), Full> {
        match *self {}
    }
}
