//! Reads return what was written, on each disk, through the page cache and by direct I/O.

//~ tasks: a file read through io_uring returns what was written

use std::io::{ErrorKind, Write as _};
use std::path::Path;
use std::time::{Duration, Instant};

use proptest::prelude::*;
use queueing::Rng;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use storage::{Buffer, Disk, DiskRequest, FileId, FileOptions};

use super::*;
use crate::scratch::Scratch;

const LEN: usize = 4 * PAGE;
const DIRECT: FileOptions = FileOptions { write: true, create: true, direct: true };
const CACHED: FileOptions = FileOptions { direct: false, ..DIRECT };

/// Prints a skipped test, past the harness, which captures the output of passing tests.
fn skipped(test: &str, why: &dyn std::fmt::Display) {
    let _ = std::io::stderr().write_all(format!("skipped: {test}: {why}\n").as_bytes());
}

fn ring(test: &str, depth: usize, buffers: usize) -> Option<Ring> {
    Ring::new(depth, buffers, LEN).map_err(|e| skipped(test, &e)).ok()
}

/// Waits for the next completion.
fn over(disk: &mut dyn Disk) -> storage::IoCompletion {
    let end = Instant::now() + Duration::from_secs(20);
    loop {
        match disk.done() {
            Some(done) => return done,
            None => assert!(Instant::now() < end, "no completion within 20 s"),
        }
        std::thread::yield_now();
    }
}

/// Writes and then reads, compared with a model. `pieces` are offset and length in units of the file's
/// alignment, and the seed of the data to write, if any.
fn agrees_with_a_model(disk: &mut dyn Disk, file: FileId, align: usize, pieces: &[(u16, u16, Option<u64>)]) {
    let mut buffer = disk.buffers().pop();
    let mut model: Vec<u8> = Vec::new();
    for &(at, len, seed) in pieces {
        let unit = align.max(64);
        let (at, len) = (usize::from(at) % 64 * unit, (usize::from(len) % 32 * unit).min(LEN));
        let mut bytes: Buffer = buffer.take().expect("it was returned");
        let wanted = match seed {
            Some(seed) => {
                let mut rng = Rng::seeded(seed);
                bytes.bytes_mut()[..len].fill_with(|| rng.next_u64() as u8);
                if len > 0 {
                    model.resize(model.len().max(at + len), 0);
                    model[at..at + len].copy_from_slice(&bytes.bytes()[..len]);
                }
                disk.begin(7, DiskRequest::Write { file, at: at as u64, len: len as u32, buffer: bytes });
                len
            }
            None => {
                bytes.bytes_mut().fill(0xee);
                disk.begin(7, DiskRequest::Read { file, at: at as u64, len: len as u32, buffer: bytes });
                model.len().saturating_sub(at).min(len)
            }
        };
        assert!(disk.flush());
        let done = over(disk);
        let bytes = done.buffer.expect("the request's");
        assert_eq!((done.number, done.result.expect("no error")), (7, wanted), "{len} bytes at {at}");
        if seed.is_none() {
            assert!(bytes.bytes()[..wanted] == model[at.min(model.len())..][..wanted], "{len} bytes at {at}");
            // Direct I/O may return zeros past the file's end.
            assert!(bytes.bytes()[len..].iter().all(|byte| *byte == 0xee), "the rest is untouched");
        }
        buffer = Some(bytes);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn what_is_read_is_what_was_written(
        pieces in prop::collection::vec((any::<u16>(), any::<u16>(), proptest::option::of(any::<u64>())), 1..24)
    ) {
        let name = "what_is_read_is_what_was_written";
        let folder = Scratch::new("disk-1", 0o755);
        for (n, options) in [CACHED, DIRECT].into_iter().enumerate() {
            let plain = Box::new(BlockingDisk::new(1, 1, LEN).unwrap()) as Box<dyn Disk>;
            let ring = ring(name, 1, 1).map(|ring| Box::new(ring) as Box<dyn Disk>);
            for (which, mut disk) in [plain].into_iter().chain(ring).enumerate() {
                match disk.open(&folder.at(&format!("{n}{which}")), &options) {
                    Ok(opened) => agrees_with_a_model(&mut *disk, opened.file, opened.align as usize, &pieces),
                    Err(e) if e.kind() == ErrorKind::Unsupported => skipped(name, &e),
                    Err(e) => panic!("{e}"),
                }
            }
        }
    }
}

#[test]
fn past_the_cache_is_an_error_where_the_file_system_refuses_it() {
    let mut disk = BlockingDisk::new(1, 1, LEN).unwrap();
    let options = FileOptions { direct: true, ..FileOptions::default() };
    let error = disk.open(Path::new("/proc/version"), &options).expect_err("no disk is behind it");
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(
        error.to_string().starts_with("/proc/version: its file system does not support direct I/O"),
        "{error}"
    );
    assert!(disk.open(Path::new("/proc/version"), &FileOptions::default()).is_ok());
    let error = disk.open(Path::new("/no/such/file"), &options).expect_err("it is not there");
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert!(error.to_string().starts_with("/no/such/file: "), "{error}");
}

#[test]
fn past_the_cache_a_file_says_what_requests_are_multiples_of() {
    let folder = Scratch::new("disk-2", 0o755);
    let mut disk = BlockingDisk::new(1, 1, LEN).unwrap();
    let path = folder.at("file");
    assert_eq!(disk.open(&path, &CACHED).unwrap().align, 1);
    match disk.open(&path, &DIRECT) {
        Err(e) if e.kind() == ErrorKind::Unsupported => {
            skipped("past_the_cache_a_file_says_what_requests_are_multiples_of", &e);
        }
        opened => {
            let align = opened.unwrap().align;
            assert!(align.is_power_of_two() && (2..=PAGE).contains(&(align as usize)), "{align}");
        }
    }
}

#[test]
fn many_requests_are_under_way_at_once_and_each_ends_with_its_own() {
    const DEPTH: usize = 32;
    let Some(mut disk) = ring("many_requests_are_under_way_at_once_and_each_ends_with_its_own", DEPTH, DEPTH)
    else {
        return;
    };
    let folder = Scratch::new("disk-3", 0o755);
    let file = disk.open(&folder.at("file"), &CACHED).unwrap().file;
    for (n, mut buffer) in (0u32..).zip(disk.buffers()) {
        buffer.bytes_mut().fill(n as u8);
        disk.begin(n, DiskRequest::Write { file, at: u64::from(n) * LEN as u64, len: LEN as u32, buffer });
    }
    assert!(disk.flush());
    let written: Vec<_> = (0..DEPTH).map(|_| over(&mut disk)).collect();
    for done in written {
        assert_eq!(done.result.unwrap(), LEN);
        let at = u64::from(done.number) * LEN as u64;
        // All lengths differ, so that no completion is taken for another.
        let len = LEN as u32 - done.number;
        disk.begin(done.number, DiskRequest::Read { file, at, len, buffer: done.buffer.unwrap() });
    }
    // It is closed only after its requests.
    disk.close(file);
    disk.flush();
    let mut seen = [false; DEPTH];
    for _ in 0..DEPTH {
        let done = over(&mut disk);
        let buffer = done.buffer.unwrap();
        assert_eq!(done.result.unwrap(), LEN - done.number as usize);
        assert!(buffer.bytes().iter().all(|byte| *byte == done.number as u8));
        seen[done.number as usize] = true;
    }
    assert!(seen.into_iter().all(|seen| seen) && disk.done().is_none());
}

//~ tasks: a cancelled file request keeps its buffer until the disk is done
#[test]
fn a_ring_that_is_dropped_ends_what_it_has_begun() {
    let Some(mut disk) = ring("a_ring_that_is_dropped_ends_what_it_has_begun", 8, 8) else { return };
    let folder = Scratch::new("disk-4", 0o755);
    let path = folder.at("file");
    let file = disk.open(&path, &CACHED).unwrap().file;
    for (n, mut buffer) in (0u32..).zip(disk.buffers()) {
        buffer.bytes_mut().fill(b'a' + n as u8);
        disk.begin(n, DiskRequest::Write { file, at: u64::from(n) * LEN as u64, len: LEN as u32, buffer });
    }
    // Not even submitted.
    drop(disk);
    let bytes = std::fs::read(&path).unwrap();
    assert_eq!(bytes.len(), 8 * LEN);
    assert!(bytes.chunks(LEN).zip(b'a'..).all(|(piece, letter)| piece.iter().all(|byte| *byte == letter)));
}

#[test]
fn what_is_over_makes_its_descriptor_readable_until_it_is_taken() {
    let Some(mut disk) = ring("what_is_over_makes_its_descriptor_readable_until_it_is_taken", 1, 1) else {
        return;
    };
    assert!(!disk.wakes(), "its descriptor is not in use");
    let ready = disk.readiness().unwrap();
    assert!(disk.wakes());
    let is_ready = |seconds| {
        let timeout = Timespec { tv_sec: seconds, tv_nsec: 0 };
        poll(&mut [PollFd::new(&ready, PollFlags::IN)], Some(&timeout)).unwrap() > 0
    };
    let folder = Scratch::new("disk-5", 0o755);
    let file = disk.open(&folder.at("file"), &CACHED).unwrap().file;
    assert!(!is_ready(0));
    disk.begin(0, DiskRequest::Sync { file });
    disk.flush();
    assert!(is_ready(20));
    assert!(disk.done().is_some_and(|done| done.result.is_ok()) && !is_ready(0));
}

#[test]
fn a_request_of_a_thread_that_has_ended_is_carried_out() {
    let Some(mut disk) = ring("a_request_of_a_thread_that_has_ended_is_carried_out", 8, 8) else { return };
    let folder = Scratch::new("disk-6", 0o755);
    let file = disk.open(&folder.at("file"), &CACHED).unwrap().file;
    let begun = std::thread::spawn(move || {
        for (n, buffer) in (0u32..).zip(disk.buffers()) {
            disk.begin(2 * n, DiskRequest::Write { file, at: 0, len: LEN as u32, buffer });
        }
        disk.flush();
        disk
    });
    let mut disk = begun.join().unwrap();
    assert!((0..8).all(|_| over(&mut disk).result.is_ok_and(|written| written == LEN)));
}
