//! `--pcap FILE`: a capture of whole frames, up to a size.
//!
//! A write error is reported at once, and the file ends with the last whole frame, because readers
//! refuse a capture that ends within one. Traffic continues.

use std::fs::File;
use std::io::{self, ErrorKind, Seek as _, SeekFrom, Write};
use std::path::{Path, PathBuf};

use queueing::Bytes;

use crate::error::plain;
use crate::{Error, failure};

/// The writer for `net::device::pcap::Tee`, which writes the file header, then a header and the
/// bytes of each frame.
pub struct Recording {
    file: File,
    path: PathBuf,
    /// Whole frames that are not in the file yet.
    buffer: Vec<u8>,
    /// Bytes in the file.
    written: u64,
    size_max: u64,
    frames: u64,
    /// Bytes still to come of the frame whose header came last.
    coming: usize,
    is_over: bool,
}

/// Bytes buffered for one write.
const GATHERED: usize = 8192;
/// Length of a frame header, and the offset of the frame length in it.
const HEADER: usize = 16;
const LEN: usize = 8;

impl Recording {
    /// Creates the file at `path`, which will hold `size_max` bytes at most.
    ///
    /// # Errors
    /// The file cannot be created.
    pub fn create(path: &Path, size_max: Bytes) -> Result<Self, Error> {
        let file = host::files::create(path).map_err(|e| Error::unwritable(path, &e))?;
        Ok(Self::to(file, path, size_max))
    }

    fn to(file: File, path: &Path, size_max: Bytes) -> Self {
        let (path, size_max) = (path.to_owned(), size_max.get());
        Self { file, path, buffer: Vec::new(), written: 0, size_max, frames: 0, coming: 0, is_over: false }
    }

    fn end(&mut self) -> io::Error {
        self.is_over = true;
        ErrorKind::StorageFull.into()
    }
}

impl Write for Recording {
    /// Accepts the file header, a frame header, or a frame.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.is_over {
            return Err(self.end());
        }
        if self.coming > 0 {
            self.buffer.extend(bytes);
            self.coming = self.coming.saturating_sub(bytes.len());
            return Ok(bytes.len());
        }
        let size = self.written + self.buffer.len() as u64;
        let len = bytes.get(LEN..).and_then(<[u8]>::first_chunk).map_or(0, |len| u32::from_le_bytes(*len));
        let is_frame = size > 0 && bytes.len() == HEADER;
        let more = bytes.len() + if is_frame { len as usize } else { 0 };
        if size + more as u64 > self.size_max {
            self.flush()?;
            let (path, most, frames) = (self.path.display(), self.size_max, self.frames);
            errln!(
                "note: {path}: {frames} frames written; the limit of {most} bytes (--pcap-max) is reached"
            );
            return Err(self.end());
        }
        if self.buffer.len() + more > GATHERED {
            self.flush()?;
        }
        self.buffer.extend(bytes);
        match is_frame {
            true => (self.coming, self.frames) = (len as usize, self.frames + 1),
            // An unwritable file is detected at the start.
            false => self.flush()?,
        }
        Ok(bytes.len())
    }

    /// Writes the buffered whole frames to the file.
    fn flush(&mut self) -> io::Result<()> {
        if self.is_over {
            return Ok(());
        }
        if let Err(e) = self.file.write_all(&self.buffer) {
            // Pipes and devices have no length.
            let _ = self.file.set_len(self.written);
            let _ = self.file.seek(SeekFrom::End(0));
            self.is_over = true;
            let (path, why) = (self.path.display(), plain(&e.to_string()).to_owned());
            failure::note(format!(
                "{path}: {why}; the file ends after {} bytes, no more frames are written",
                self.written
            ));
            return Err(e);
        }
        self.written += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        let _ = self.flush();
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use net::device::pcap::{PcapTap, Replay, ReplayPace};
    use net::device::{Device, memory};
    use queueing::Time;

    use super::*;

    /// Writes `frames` frames of 100 bytes each; true if the capture has them all.
    fn recorded(file: File, frames: usize, size_max: u64) -> io::Result<bool> {
        let (device, _other) = memory::pair(frames.max(1), 2048);
        let recording = Recording::to(file, Path::new("a.pcap"), Bytes::new(size_max));
        let mut tee = PcapTap::new(device, recording)?;
        for _ in 0..frames {
            tee.transmit(Time::ZERO, 100, &mut |frame| frame.fill(7)).expect("there is room");
        }
        Ok(tee.error().is_none())
    }

    fn scratch(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!(
            "greenwave-record-{name}-{}-{}",
            std::process::id(),
            Ipv4Addr::LOCALHOST
        ))
    }

    fn played(path: &Path) -> usize {
        let mut replay = Replay::new(File::open(path).unwrap(), ReplayPace::Fast).unwrap();
        let frames = std::iter::from_fn(|| replay.receive(Time::ZERO)).count();
        assert!(replay.error().is_none(), "it ends with a whole frame");
        frames
    }

    //~ cli: a capture that cannot be written ends with a whole frame; `--pcap-max` bounds it
    #[test]
    fn a_capture_has_whole_frames_up_to_its_bound() {
        let path = scratch("bound");
        for (frames, size_max, expected) in [
            (0, 24, 0),
            (300, 1 << 20, 300),
            (300, 24 + 116 * 200, 200),
            (300, 24 + 116 * 200 + 115, 200),
            (300, 25, 0),
        ] {
            let complete = recorded(File::create(&path).unwrap(), frames, size_max).unwrap();
            assert_eq!((complete, played(&path)), (frames == expected, expected), "{size_max}");
            assert!(std::fs::metadata(&path).unwrap().len() <= size_max);
        }
        std::fs::remove_file(&path).unwrap();
        assert!(
            recorded(File::create("/dev/full").unwrap(), 1, 1 << 20).is_err(),
            "it is known at the start"
        );
    }
}
