//! Packet capture: [`PcapTap`] records the frames of a device for Wireshark and tcpdump; [`Replay`]
//! is a device that replays a capture.
//!
//! The file keeps the order in which this host saw the frames, stamped in nanoseconds since the
//! clock's epoch. Recording does not stop traffic: after the first error nothing more is written,
//! and [`PcapTap::error`] returns it.
//!
//! Source: the pcap format as libpcap writes it, magic 0xa1b23c4d.

use std::io::{self, Write};

use queueing::{Span, Time};

use super::{Device, Full, Offloads, ReceivedFrame, Waker};

mod replay;

pub use replay::{CaptureError, Counters, Replay, ReplayPace};

/// A device that records the frames of another.
pub struct PcapTap<D, W> {
    device: D,
    log: Log<W>,
}

impl<D: Device, W: Write> PcapTap<D, W> {
    /// Wraps `device` and records its frames to `writer`, which should be buffered.
    ///
    /// # Errors
    /// If the file header cannot be written.
    pub fn new(device: D, mut writer: W) -> io::Result<Self> {
        let mut header = [0; 24];
        header[..4].copy_from_slice(&0xa1b2_3c4d_u32.to_le_bytes());
        header[4..8].copy_from_slice(&[2, 0, 4, 0]);
        header[16..20].copy_from_slice(&SNAP_LEN.to_le_bytes());
        header[20..24].copy_from_slice(&LINK_ETHERNET.to_le_bytes());
        writer.write_all(&header)?;
        Ok(Self { device, log: Log { writer, error: None } })
    }

    /// Error that stopped recording, if any.
    #[must_use]
    pub fn error(&self) -> Option<&io::Error> {
        self.log.error.as_ref()
    }

    /// Returns the device and the writer.
    #[must_use]
    pub fn into_parts(self) -> (D, W) {
        (self.device, self.log.writer)
    }
}

impl<D: Device, W: Write> Device for PcapTap<D, W> {
    type Frame = D::Frame;

    fn receive(&mut self, now: Time) -> Option<ReceivedFrame<D::Frame>> {
        let received = self.device.receive(now)?;
        self.log.record(received.arrived.unwrap_or(now), received.frame.as_ref());
        Some(received)
    }

    fn recycle(&mut self, frame: D::Frame) {
        self.device.recycle(frame);
    }

    fn transmit(&mut self, now: Time, len: usize, fill: &mut dyn FnMut(&mut [u8])) -> Result<(), Full> {
        let log = &mut self.log;
        self.device.transmit(now, len, &mut |frame| {
            fill(frame);
            log.record(now, frame);
        })
    }

    /// Records the frame before the device segments it.
    fn transmit_cut(
        &mut self,
        now: Time,
        len: usize,
        size: u16,
        fill: &mut dyn FnMut(&mut [u8]),
    ) -> Result<(), Full> {
        let log = &mut self.log;
        self.device.transmit_cut(now, len, size, &mut |frame| {
            fill(frame);
            log.record(now, frame);
        })
    }

    fn frame_len_max(&self) -> usize {
        self.device.frame_len_max()
    }

    fn flush(&mut self, now: Time) {
        self.device.flush(now);
    }

    fn offloads(&self) -> Offloads {
        self.device.offloads()
    }

    fn wait(&mut self, span: Span) {
        self.device.wait(span);
    }

    fn waker(&self) -> Option<Waker> {
        self.device.waker()
    }
}

struct Log<W> {
    writer: W,
    error: Option<io::Error>,
}

impl<W: Write> Log<W> {
    fn record(&mut self, at: Time, frame: &[u8]) {
        if self.error.is_some() {
            return;
        }
        let len = frame.len() as u32;
        let mut header = [0; 16];
        // The format's seconds end in 2106.
        header[..4].copy_from_slice(&((at.as_nanos() / NANOS) as u32).to_le_bytes());
        header[4..8].copy_from_slice(&((at.as_nanos() % NANOS) as u32).to_le_bytes());
        header[8..12].copy_from_slice(&len.to_le_bytes());
        header[12..].copy_from_slice(&len.to_le_bytes());
        self.error = self.writer.write_all(&header).and_then(|()| self.writer.write_all(frame)).err();
    }
}

const NANOS: u64 = 1_000_000_000;
/// Larger than any frame, including those merged by a kernel (GRO).
const SNAP_LEN: u32 = 262_144;
const LINK_ETHERNET: u32 = 1;

//~ devices: a capture is written in pcap format and replayed
#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::memory;

    //~ cli: `--pcap` writes both directions with nanoseconds
    #[test]
    fn both_directions_are_written_with_nanoseconds() {
        let (a, mut b) = memory::pair(2, 64);
        let mut tee = PcapTap::new(a, Vec::new()).unwrap();
        tee.transmit(Time::from_nanos(1_000_000_007), 3, &mut |buf| buf.copy_from_slice(b"out")).unwrap();
        b.transmit(Time::from_nanos(2_000_000_009), 2, &mut |buf| buf.copy_from_slice(b"in")).unwrap();
        assert_eq!(tee.receive(Time::ZERO).unwrap().frame.as_ref(), b"in");
        let (_, file) = tee.into_parts();
        assert_eq!(file[..8], [0x4d, 0x3c, 0xb2, 0xa1, 2, 0, 4, 0]);
        assert_eq!(file[24..43], *b"\x01\0\0\0\x07\0\0\0\x03\0\0\0\x03\0\0\0out");
        assert_eq!(file[43..], *b"\x02\0\0\0\x09\0\0\0\x02\0\0\0\x02\0\0\0in");
    }

    #[test]
    fn a_full_disk_stops_the_file_and_not_the_traffic() {
        let (a, mut b) = memory::pair(4, 64);
        let mut disk = [0; 24 + 16 + 1];
        let mut tee = PcapTap::new(a, &mut disk[..]).unwrap();
        for _ in 0..3 {
            tee.transmit(Time::ZERO, 1, &mut |buf| buf.fill(7)).unwrap();
        }
        assert!(tee.error().is_some());
        assert_eq!(std::iter::from_fn(|| b.receive(Time::ZERO)).count(), 3);
    }
}
