//! Replay of a capture as if its frames arrived now.
//!
//! Frames arrive at the pace of the capture, counted from the device's first poll, or all at once.
//! Sent frames are discarded: the peers of the capture do not exist. Truncated frames are skipped
//! and counted. Supports both byte orders, microseconds and nanoseconds.
//!
//! Source: the pcap format as libpcap writes it.

use std::fmt;
use std::io::{self, Read};

use queueing::{Span, Time};

use super::LINK_ETHERNET;
use crate::device::{Device, Full, ReceivedFrame};

/// Pace of a replay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReplayPace {
    /// As captured.
    #[default]
    Captured,
    /// As fast as frames are received.
    Fast,
}

/// Device that replays a capture.
#[derive(Debug)]
pub struct Replay<R> {
    reader: R,
    format: Format,
    pace: ReplayPace,
    /// Time at which the first frame was replayed, and its timestamp in the capture.
    start: Option<(Time, Time)>,
    next: Option<Recorded>,
    error: Option<CaptureError>,
    /// Recycled buffers; as many as were in use at once, at most [`SPARE_MAX`].
    spare: Vec<Vec<u8>>,
    counters: Counters,
}

/// Counts of a replay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Frames replayed.
    pub played: u64,
    /// Truncated frames skipped.
    pub cut: u64,
    /// Sent frames discarded.
    pub sent: u64,
}

/// Error of a capture.
#[derive(Debug)]
pub enum CaptureError {
    /// The file cannot be read.
    Read(io::Error),
    /// Unknown magic number.
    Magic([u8; 4]),
    /// Link type other than Ethernet.
    Link(u32),
    /// The file ends within a frame, or a frame exceeds the format's limit.
    Damaged,
}

impl fmt::Display for CaptureError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Read(e) => write!(f, "{e}"),
            Self::Magic([0x0a, 0x0d, 0x0d, 0x0a]) => {
                f.write_str("is a pcapng file; editcap -F nsecpcap makes a pcap file of it")
            }
            Self::Magic(magic) => write!(f, "begins with {magic:02x?} and is no pcap file"),
            Self::Link(link) => {
                write!(f, "holds frames of link type {link}, not of Ethernet, {LINK_ETHERNET}")
            }
            Self::Damaged => f.write_str("ends within a frame"),
        }
    }
}

impl std::error::Error for CaptureError {}

/// Number format of the file.
#[derive(Clone, Copy, Debug)]
struct Format {
    swapped: bool,
    /// Unit of a timestamp's fraction of a second, in nanoseconds.
    unit: u64,
}

impl Format {
    fn u32(self, bytes: &[u8], at: usize) -> u32 {
        let word = [bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]];
        if self.swapped { u32::from_be_bytes(word) } else { u32::from_le_bytes(word) }
    }
}

#[derive(Debug)]
struct Recorded {
    at: Time,
    bytes: Vec<u8>,
}

const SPARE_MAX: usize = 4096;
/// Longest frame that capture tools write.
const FRAME_LEN_MAX: usize = 262_144;

impl<R: Read> Replay<R> {
    /// Replays the capture in `reader`, which should be buffered.
    ///
    /// # Errors
    /// If it is no capture of Ethernet frames.
    pub fn new(mut reader: R, pace: ReplayPace) -> Result<Self, CaptureError> {
        let mut header = [0; 24];
        reader.read_exact(&mut header).map_err(|e| match e.kind() {
            io::ErrorKind::UnexpectedEof => CaptureError::Damaged,
            _ => CaptureError::Read(e),
        })?;
        let format = match header {
            [0xd4, 0xc3, 0xb2, 0xa1, ..] => Format { swapped: false, unit: 1000 },
            [0x4d, 0x3c, 0xb2, 0xa1, ..] => Format { swapped: false, unit: 1 },
            [0xa1, 0xb2, 0xc3, 0xd4, ..] => Format { swapped: true, unit: 1000 },
            [0xa1, 0xb2, 0x3c, 0x4d, ..] => Format { swapped: true, unit: 1 },
            [a, b, c, d, ..] => return Err(CaptureError::Magic([a, b, c, d])),
        };
        // The upper bits of this word describe the FCS.
        match format.u32(&header, 20) & 0xffff {
            LINK_ETHERNET => {}
            link => return Err(CaptureError::Link(link)),
        }
        let spare = Vec::new();
        let counters = Counters::default();
        let mut replay = Self { reader, format, pace, start: None, next: None, error: None, spare, counters };
        replay.read_on();
        Ok(replay)
    }

    /// True if every frame was replayed.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.next.is_none()
    }

    /// Error that ended the replay early, if any.
    #[must_use]
    pub fn error(&self) -> Option<&CaptureError> {
        self.error.as_ref()
    }

    /// Counts so far.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Bytes of the next frame.
    #[must_use]
    pub fn peek(&self) -> Option<&[u8]> {
        self.next.as_ref().map(|next| next.bytes.as_slice())
    }

    /// Reads up to the next complete frame.
    fn read_on(&mut self) {
        self.next = loop {
            match self.read_record() {
                Ok(Some((recorded, true))) => break Some(recorded),
                Ok(Some((recorded, false))) => {
                    self.counters.cut += 1;
                    self.keep(recorded.bytes);
                }
                Ok(None) => break None,
                Err(e) => {
                    self.error = Some(e);
                    break None;
                }
            }
        };
    }

    /// The next record, and true if it is complete; `None` at the end.
    fn read_record(&mut self) -> Result<Option<(Recorded, bool)>, CaptureError> {
        let damaged = |e: io::Error| match e.kind() {
            io::ErrorKind::UnexpectedEof => CaptureError::Damaged,
            _ => CaptureError::Read(e),
        };
        let mut header = [0; 16];
        let first = loop {
            match self.reader.read(&mut header) {
                Ok(0) => return Ok(None),
                Ok(n) => break n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(CaptureError::Read(e)),
            }
        };
        self.reader.read_exact(&mut header[first..]).map_err(damaged)?;
        let [seconds, fraction, kept, is_frame] = [0, 4, 8, 12].map(|at| self.format.u32(&header, at));
        if kept as usize > FRAME_LEN_MAX {
            return Err(CaptureError::Damaged);
        }
        let at =
            Time::from_nanos(u64::from(seconds) * 1_000_000_000 + u64::from(fraction) * self.format.unit);
        let mut bytes = self.spare.pop().unwrap_or_default();
        bytes.resize(kept as usize, 0);
        self.reader.read_exact(&mut bytes).map_err(damaged)?;
        Ok(Some((Recorded { at, bytes }, kept >= is_frame)))
    }

    fn keep(&mut self, bytes: Vec<u8>) {
        if self.spare.len() < SPARE_MAX {
            self.spare.push(bytes);
        }
    }

    /// True if the next frame, captured at `at`, is due at `now`.
    fn is_due(&mut self, now: Time, at: Time) -> bool {
        let (start, first) = *self.start.get_or_insert((now, at));
        self.pace == ReplayPace::Fast || now.since(start) >= at.since(first.min(at))
    }
}

impl<R: Read> Device for Replay<R> {
    type Frame = Vec<u8>;

    fn receive(&mut self, now: Time) -> Option<ReceivedFrame<Vec<u8>>> {
        let at = self.next.as_ref()?.at;
        if !self.is_due(now, at) {
            return None;
        }
        let frame = self.next.take()?.bytes;
        self.counters.played += 1;
        self.read_on();
        // Frames captured at their sender often lack checksums (offload).
        Some(ReceivedFrame { frame, arrived: None, checked: true })
    }

    fn recycle(&mut self, frame: Vec<u8>) {
        self.keep(frame);
    }

    fn transmit(&mut self, _now: Time, len: usize, fill: &mut dyn FnMut(&mut [u8])) -> Result<(), Full> {
        let mut bytes = self.spare.pop().unwrap_or_default();
        bytes.resize(len, 0);
        fill(&mut bytes);
        self.keep(bytes);
        self.counters.sent += 1;
        Ok(())
    }

    /// Returns at once: nothing wakes a sleeping thread when a frame is due, and this crate does
    /// not sleep.
    fn wait(&mut self, _span: Span) {}
}

//~ devices: a capture is written in pcap format and replayed
#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::memory;
    use crate::device::pcap::PcapTap;

    /// A capture with frames of one byte; timestamps are seconds and a fraction in the smaller unit.
    fn capture(magic: [u8; 4], big: bool, frames: &[(u32, u32, u8)]) -> Vec<u8> {
        let word = |value: u32| if big { value.to_be_bytes() } else { value.to_le_bytes() };
        let mut file = [&magic[..], &[0; 16], &word(1)].concat();
        for &(seconds, fraction, byte) in frames {
            [seconds, fraction, 1, 1].iter().for_each(|&value| file.extend(word(value)));
            file.push(byte);
        }
        file
    }

    fn times(file: &[u8]) -> Vec<(u64, u8)> {
        let mut replay = Replay::new(file, ReplayPace::Captured).unwrap();
        let mut got = Vec::new();
        for now in (0..3_000_000_000_u64).step_by(500_000) {
            while let Some(received) = replay.receive(Time::from_nanos(7 + now)) {
                got.push((now, received.frame[0]));
                replay.recycle(received.frame);
            }
        }
        assert!(replay.is_over() && replay.error().is_none());
        got
    }

    #[test]
    fn frames_are_replayed_at_the_captured_pace_in_every_format() {
        let expected = [(0, 1), (1_500_000, 2), (1_000_500_000, 3)];
        let micros = [(9, 999_000, 1), (10, 500, 2), (10, 999_500, 3)];
        let nanos = micros.map(|(seconds, fraction, byte)| (seconds, fraction * 1000, byte));
        assert_eq!(times(&capture([0xd4, 0xc3, 0xb2, 0xa1], false, &micros)), expected);
        assert_eq!(times(&capture([0xa1, 0xb2, 0xc3, 0xd4], true, &micros)), expected);
        assert_eq!(times(&capture([0x4d, 0x3c, 0xb2, 0xa1], false, &nanos)), expected);
        assert_eq!(times(&capture([0xa1, 0xb2, 0x3c, 0x4d], true, &nanos)), expected);
    }

    #[test]
    fn a_fast_replay_does_not_wait_and_discards_sent_frames() {
        let file = capture([0x4d, 0x3c, 0xb2, 0xa1], false, &[(0, 0, 1), (3600, 0, 2), (1, 0, 3)]);
        let mut replay = Replay::new(&file[..], ReplayPace::Fast).unwrap();
        assert_eq!(std::iter::from_fn(|| replay.receive(Time::ZERO)).count(), 3);
        replay.transmit(Time::ZERO, 60, &mut |frame| frame.fill(1)).unwrap();
        assert_eq!(replay.counters(), Counters { played: 3, cut: 0, sent: 1 });
    }

    #[test]
    fn a_written_capture_is_replayed() {
        let (a, mut b) = memory::pair(4, 64);
        let mut tee = PcapTap::new(a, Vec::new()).unwrap();
        for (at, bytes) in [(5, &b"one"[..]), (9, b"three")] {
            b.transmit(Time::from_nanos(at), bytes.len(), &mut |buf| buf.copy_from_slice(bytes)).unwrap();
            tee.receive(Time::ZERO).unwrap();
        }
        let (_, file) = tee.into_parts();
        let mut replay = Replay::new(&file[..], ReplayPace::Captured).unwrap();
        let mut at = |now| replay.receive(Time::from_nanos(now)).map(|received| received.frame);
        assert_eq!([at(100), at(103), at(104)], [Some(b"one".to_vec()), None, Some(b"three".to_vec())]);
    }

    #[test]
    fn other_files_are_refused_and_damage_ends_the_replay() {
        let error_of = |file: &[u8]| Replay::new(file, ReplayPace::Fast).unwrap_err().to_string();
        let good = capture([0xd4, 0xc3, 0xb2, 0xa1], false, &[(0, 0, 1), (0, 0, 2)]);
        assert_eq!(error_of(&good[..23]), "ends within a frame");
        assert_eq!(error_of(&[7; 24]), "begins with [07, 07, 07, 07] and is no pcap file");
        assert!(error_of(&[&[0x0a, 0x0d, 0x0d, 0x0a][..], &[0; 20]].concat()).contains("pcapng"));
        let mut raw = good.clone();
        raw[20] = 101;
        assert_eq!(error_of(&raw), "holds frames of link type 101, not of Ethernet, 1");
        for len in 24..good.len() {
            let mut replay = Replay::new(&good[..len], ReplayPace::Fast).unwrap();
            let played = std::iter::from_fn(|| replay.receive(Time::ZERO)).count();
            let is_frame = (len - 24) % 17 == 0;
            assert_eq!((played, replay.error().is_none()), ((len - 24) / 17, is_frame), "{len} bytes");
        }
        let mut long = good;
        long[32..36].copy_from_slice(&u32::MAX.to_le_bytes());
        assert!(matches!(
            Replay::new(&long[..], ReplayPace::Fast).unwrap().error(),
            Some(CaptureError::Damaged)
        ));
    }

    #[test]
    fn a_truncated_frame_is_skipped() {
        let mut file = capture([0xd4, 0xc3, 0xb2, 0xa1], false, &[(0, 0, 1), (0, 0, 2)]);
        file[36..40].copy_from_slice(&1500_u32.to_le_bytes());
        let mut replay = Replay::new(&file[..], ReplayPace::Fast).unwrap();
        assert_eq!(replay.receive(Time::ZERO).unwrap().frame, [2]);
        assert_eq!(replay.counters(), Counters { played: 1, cut: 1, sent: 0 });
    }
}
