//! io_uring disk.
//!
//! New requests are written to shared memory and submitted by one system call per round; completions
//! are read from shared memory without a call. Buffers are registered, so the kernel has their pages
//! pinned. Submitted requests are never cancelled: a buffer that the kernel may write to belongs to the
//! ring until its completion.
//!
//! The kernel runs a request on behalf of the thread that submitted it. When that thread ends, its
//! requests are cancelled and submitted again. A thread in the idle class sees completions only when it
//! next runs.
//!
//! Source: io_uring(7), io_uring_setup(2), io_uring_enter(2); the rings are the crate `io-uring`'s (ADR
//! 0052).

use std::collections::VecDeque;
use std::fmt;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;

use io_uring::types::Fd;
use io_uring::{IoUring, opcode, squeue};
use storage::{Buffer, Disk, DiskRequest, FileId, FileOptions, IoCompletion, OpenedFile};

use super::buffers::BufferArena;
use super::files::Files;

/// Error of creating a ring.
#[derive(Debug)]
pub enum RingError {
    /// io_uring is not available.
    Ring(io::Error),
    /// The kernel rejects the buffers; their size in KiB.
    Buffers(usize, io::Error),
}

impl RingError {
    /// The reason.
    #[must_use]
    pub fn why(&self) -> String {
        match self {
            Self::Ring(e) if is_unknown(e) => format!("this kernel has no io_uring ({e})"),
            Self::Ring(e) => format!("io_uring is not available ({e})"),
            Self::Buffers(kib, e) => format!("{kib} KiB of buffers cannot be registered ({e})"),
        }
    }

    /// A remedy.
    #[must_use]
    pub fn advice(&self) -> String {
        match self {
            Self::Ring(e) if is_unknown(e) => "Linux 5.6 or newer",
            Self::Ring(_) => {
                "sysctl -w kernel.io_uring_disabled=0, and in a container a seccomp profile that allows it"
            }
            Self::Buffers(..) => "a higher ulimit -l, or fewer buffers",
        }
        .to_owned()
    }
}

impl fmt::Display for RingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; try {}", self.why(), self.advice())
    }
}

/// True if the kernel does not have the call.
fn is_unknown(e: &io::Error) -> bool {
    e.raw_os_error() == Some(libc::ENOSYS)
}

impl std::error::Error for RingError {}

/// Disk that uses io_uring.
pub struct Ring {
    ring: IoUring,
    pieces: Arc<BufferArena>,
    buffers: Vec<Buffer>,
    files: Files,
    /// Requests in progress, by the number that the kernel returns on completion.
    flights: Vec<Option<Flight>>,
    free: Vec<u32>,
    over: VecDeque<IoCompletion>,
    /// True if the kernel has not accepted all submissions yet.
    held: bool,
    wakes: bool,
}

/// A request, with all memory that the kernel may access for it.
struct Flight {
    number: u32,
    request: DiskRequest,
    file: Arc<File>,
}

impl Ring {
    /// A ring for `depth` concurrent requests, with `buffers` buffers of `len` bytes.
    ///
    /// # Errors
    /// [`RingError`].
    ///
    /// # Panics
    /// `depth` is outside 1..=4096, `buffers` outside 1..=1024, or `len` not a multiple of
    /// [`PAGE`](super::PAGE).
    pub fn new(depth: usize, buffers: usize, len: usize) -> Result<Self, RingError> {
        assert!((1..=4096).contains(&depth), "a depth of {depth} is outside 1..=4096");
        assert!((1..=1024).contains(&buffers), "{buffers} buffers are outside 1..=1024");
        let ring =
            IoUring::builder().dontfork().build(depth.next_power_of_two() as u32).map_err(RingError::Ring)?;
        let refused = |e| RingError::Buffers(buffers * len / 1024, e);
        let (pieces, all) = BufferArena::new(buffers, len).map_err(refused)?;
        let pieces_at = pieces.buffers();
        let vectors: Vec<_> = pieces_at
            .map(|(start, len)| libc::iovec { iov_base: start.as_ptr().cast(), iov_len: len })
            .collect();
        // SAFETY: the memory stays mapped while `pieces` lives, which outlives the ring's field.
        unsafe { ring.submitter().register_buffers(&vectors) }.map_err(refused)?;
        Ok(Self {
            ring,
            pieces,
            buffers: all,
            files: Files::default(),
            flights: (0..depth).map(|_| None).collect(),
            free: (0..depth as u32).rev().collect(),
            over: VecDeque::new(),
            held: false,
            wakes: false,
        })
    }

    /// A descriptor that is readable while a completion is pending. Pass it to the device's `watch` to
    /// wake the thread; otherwise that thread polls while requests are in progress.
    ///
    /// # Errors
    /// No descriptor is left.
    pub fn readiness(&mut self) -> io::Result<OwnedFd> {
        let fd = self.ring.as_fd().try_clone_to_owned()?;
        self.wakes = true;
        Ok(fd)
    }

    /// Number of requests in progress.
    fn in_flight(&self) -> usize {
        self.flights.len() - self.free.len()
    }

    /// Writes the submission of the request in place `at`.
    fn put(&mut self, at: u32, flight: Flight) {
        let fd = Fd(flight.file.as_raw_fd());
        let entry = match &flight.request {
            DiskRequest::Read { at, len, buffer, .. } => {
                let index = self.pieces.index_of(buffer);
                let start = self.pieces.begin_of(index);
                opcode::ReadFixed::new(fd, start, *len, index as u16).offset(*at).build()
            }
            DiskRequest::Write { at, len, buffer, .. } => {
                let index = self.pieces.index_of(buffer);
                let start = self.pieces.begin_of(index);
                opcode::WriteFixed::new(fd, start, *len, index as u16).offset(*at).build()
            }
            DiskRequest::Sync { .. } => opcode::Fsync::new(fd).build(),
        };
        self.flights[at as usize] = Some(flight);
        self.push(&entry.user_data(at.into()));
    }

    fn push(&mut self, entry: &squeue::Entry) {
        // SAFETY: buffer and file of the entry stay in `flights` until its completion, or are leaked.
        let pushed = unsafe { self.ring.submission().push(entry) };
        pushed.expect("the queue holds every request");
    }

    /// Reads completions.
    fn reap(&mut self) {
        loop {
            let next = self.ring.completion().next();
            let Some(entry) = next else { return };
            let at = entry.user_data() as u32;
            let flight = self.flights[at as usize].take().expect("a completion has a request");
            match entry.result() {
                // The submitting thread has ended: we never cancel.
                result if [-libc::ECANCELED, -libc::EINTR].contains(&result) => {
                    self.put(at, flight);
                    self.held = true;
                }
                result => {
                    let result = match result {
                        0.. => Ok(result as usize),
                        _ => Err(io::Error::from_raw_os_error(-result)),
                    };
                    self.free.push(at);
                    let Flight { number, request, .. } = flight;
                    self.over.push_back(IoCompletion { number, result, buffer: request.into_buffer() });
                }
            }
        }
    }
}

impl Disk for Ring {
    fn buffers(&mut self) -> Vec<Buffer> {
        std::mem::take(&mut self.buffers)
    }

    fn depth(&self) -> usize {
        self.flights.len()
    }

    fn open(&mut self, path: &Path, options: &FileOptions) -> io::Result<OpenedFile> {
        self.files.open(path, options)
    }

    fn close(&mut self, file: FileId) {
        self.files.close(file);
    }

    fn begin(&mut self, number: u32, request: DiskRequest) {
        let (DiskRequest::Read { file, .. } | DiskRequest::Write { file, .. } | DiskRequest::Sync { file }) =
            &request;
        if let DiskRequest::Read { len, buffer, .. } | DiskRequest::Write { len, buffer, .. } = &request {
            assert!(*len as usize <= buffer.bytes().len(), "a request stays in its buffer");
        }
        let file = self.files.get(*file);
        let at = self.free.pop().expect("at most `depth` requests begin");
        self.put(at, Flight { number, request, file });
    }

    fn flush(&mut self) -> bool {
        self.held = match self.ring.submit() {
            Ok(_) => !self.ring.submission().is_empty(),
            Err(e) if is_busy(&e) => true,
            Err(e) => panic!("io_uring_enter: {e}"),
        };
        !self.held
    }

    fn done(&mut self) -> Option<IoCompletion> {
        if self.over.is_empty() {
            self.reap();
            if self.held {
                self.flush();
            }
        }
        self.over.pop_front()
    }

    fn finish(&mut self) {
        while self.in_flight() > 0 {
            let waited = self.ring.submit_and_wait(1);
            self.reap();
            match waited {
                Ok(_) => {}
                Err(e) if is_busy(&e) => std::thread::yield_now(),
                // The kernel may write at any later time: the memory stays.
                Err(_) => {
                    std::mem::forget(std::mem::take(&mut self.flights));
                    self.free.clear();
                }
            }
        }
    }

    fn wakes(&self) -> bool {
        self.wakes && !self.held
    }
}

/// True if a retry may succeed.
fn is_busy(e: &io::Error) -> bool {
    matches!(e.raw_os_error(), Some(libc::EINTR | libc::EAGAIN | libc::EBUSY | libc::ENOMEM))
}

impl Drop for Ring {
    fn drop(&mut self) {
        self.finish();
    }
}
