//! A synthetic video as input of Debian's x264, which itself reports no progress as JSON.
//!
//! Frames go into x264 and its stream comes out, with a delimiter before each frame (`--aud`).
//! Delimiters are counted; in the end as many frames must have come out as went in. The quality of
//! the stream is not checked. Source: ITU-T H.264 §7.3.1, §7.4.1.2.3 and annex B.

use std::io::{self, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use queueing::Rng;

use crate::progress::{Check, ProgressArgs, ProgressReporter};

/// Small, so that progress shows in much less than a second.
const WIDTH: usize = 320;
const HEIGHT: usize = 176;
/// Number of frames made before the encoding; they are repeated.
const FRAMES: usize = 48;
/// Number of pixels by which each frame moves.
const STEP: usize = 3;
/// Bytes read at once.
const PIECE: usize = 16 * 1024;

/// Arguments of x264: one thread, raw frames in, a raw stream with delimiters out.
const ARGUMENTS: [&str; 16] = [
    "--demuxer",
    "raw",
    "--input-csp",
    "i420",
    "--input-res",
    "320x176",
    "--fps",
    "30",
    "--threads",
    "1",
    "--aud",
    "--quiet",
    "--no-progress",
    "--muxer",
    "raw",
    "--output=-",
];

/// Frames as planes: luma and, a quarter each, two of chroma.
pub struct Video(Vec<Vec<u8>>);

impl Video {
    /// A moving gradient, with noise drawn from `seed`.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let mut rng = Rng::seeded(seed);
        let mut frame = |number: usize| {
            let luma = (0..WIDTH * HEIGHT).map(|at| {
                let slope = at % WIDTH + at / WIDTH + number * STEP;
                (slope % 224) as u8 + rng.below(16) as u8
            });
            let mut frame: Vec<u8> = luma.collect();
            frame.resize(WIDTH * HEIGHT * 3 / 2, 128);
            frame
        };
        Self((0..FRAMES).map(&mut frame).collect())
    }

    /// Writes frames until `over`; returns their number.
    fn write_frames(&self, mut encoder: impl Write, over: &AtomicBool) -> io::Result<u64> {
        let mut written = 0;
        for frame in self.0.iter().cycle().take_while(|_| !over.load(Ordering::Relaxed)) {
            encoder.write_all(frame)?;
            written += 1;
        }
        Ok(written)
    }
}

/// Counts the frames of a stream, in pieces of any size.
#[derive(Default)]
struct Marks {
    /// Number of zeros before this byte; a unit begins after two zeros and a one.
    zeros: u32,
    begins: bool,
}

/// Type of the unit before each frame.
const DELIMITER: u8 = 9;

impl Marks {
    /// Number of frames that begin in `bytes`.
    fn count(&mut self, bytes: &[u8]) -> u64 {
        let mut frames = 0;
        for &byte in bytes {
            frames += u64::from(std::mem::take(&mut self.begins) && byte & 0x1f == DELIMITER);
            self.begins = self.zeros >= 2 && byte == 1;
            self.zeros = if byte == 0 { self.zeros.saturating_add(1) } else { 0 };
        }
        frames
    }
}

/// An x264 process, killed on drop.
struct Encoder(Child);

impl Drop for Encoder {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Encodes for as long as `pace` says or until `stop`, and checks that every frame has come out.
///
/// # Errors
/// There is no x264, it ends early, or its pipes fail.
pub fn encode(pace: ProgressArgs, stop: &'static AtomicBool) -> io::Result<ExitCode> {
    let video = Video::new(pace.seed);
    // Ctrl-C must not reach x264, which would end with frames in flight.
    let mut command = Command::new("x264");
    command.args(ARGUMENTS).arg("-").stdin(Stdio::piped()).stdout(Stdio::piped()).process_group(0);
    let started = command.spawn().map_err(|e| match e.kind() {
        io::ErrorKind::NotFound => io::Error::other("x264 is not there\n  try: apt-get install x264"),
        _ => e,
    });
    let mut x264 = Encoder(started?);
    let (Some(stdin), Some(mut stdout)) = (x264.0.stdin.take(), x264.0.stdout.take()) else {
        return Err(io::Error::other("x264 has no pipes"));
    };
    let mut progress = ProgressReporter::new("x264", "frames", pace, stop);
    let over = AtomicBool::new(false);
    let (written, done, read) = thread::scope(|scope| {
        let writer = scope.spawn(|| video.write_frames(stdin, &over));
        let (mut marks, mut done, mut piece) = (Marks::default(), 0, vec![0; PIECE]);
        let read = loop {
            match stdout.read(&mut piece) {
                Ok(0) => break Ok(over.load(Ordering::Relaxed)),
                Ok(len) => {
                    let frames = marks.count(&piece[..len]);
                    done += frames;
                    if !progress.add(frames) {
                        over.store(true, Ordering::Relaxed);
                    }
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => {
                    // With its output unread, x264 would stop reading its input.
                    let _ = x264.0.kill();
                    break Err(e);
                }
            }
        };
        over.store(true, Ordering::Relaxed);
        (writer.join(), done, read)
    });
    let was_stopped = read?;
    let status = x264.0.wait()?;
    if !was_stopped {
        return Err(io::Error::other(format!("x264 ended early: {status}, {done} frames out")));
    }
    let written = written.map_err(|_| io::Error::other("the thread that writes to x264 panicked"))??;
    let says = format!("{written} frames in, {done} out; x264: {status}");
    Ok(progress.end(&Check { holds: written == done && status.success(), says }))
}

//~ workloads: x264 encodes a generated video, and every frame is counted
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_determines_the_video() {
        assert!(Video::new(1).0 == Video::new(1).0);
        assert!(Video::new(1).0 != Video::new(2).0);
        assert!(Video::new(1).0.iter().all(|frame| frame.len() == WIDTH * HEIGHT * 3 / 2));
    }

    #[test]
    fn frames_are_counted_by_their_marks_across_chunk_boundaries() {
        let stream = [0, 0, 0, 1, 9, 0xf0, 0, 0, 1, 0x65, 9, 9, 0, 0, 3, 1, 9, 0, 0, 1, 0x29, 0x10, 0, 1, 9];
        for cut in 0..=stream.len() {
            let (one, two) = stream.split_at(cut);
            let mut marks = Marks::default();
            assert_eq!(marks.count(one) + marks.count(two), 2, "cut at {cut}");
        }
    }

    #[test]
    fn feeding_ends_at_the_end_of_the_run() {
        let over = AtomicBool::new(true);
        assert_eq!(Video::new(1).write_frames(Vec::new(), &over).unwrap(), 0);
    }
}
