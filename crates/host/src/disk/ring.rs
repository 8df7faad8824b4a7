//! A disk that is asked through io_uring.
//!
//! What is begun is written into memory that the kernel reads, and handed on by one
//! system call a round; what is over the kernel writes into memory that we
//! read, without a call. Buffers are registered, so the kernel has their pages at
//! hand. Nothing is taken back that was begun: a buffer that the kernel may
//! write to is the ring's until it has said that it is done.
//!
//! The kernel carries out what a thread began on behalf of that thread: one that ends
//! has its requests cancelled, and those begin again; one that is in the idle
//! class hears of them when it next runs.
//! Source: io_uring(7), io_uring_setup(2), io_uring_enter(2); the rings are the
//! crate `io-uring`'s (ADR 0052).

use std::collections::VecDeque;
use std::fmt;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;

use io_uring::types::Fd;
use io_uring::{IoUring, opcode, squeue};
use storage::{Buffer, Disk, FileId, IoCompletion, Opened, Options, Request};

use super::buffers::BufferArena;
use super::files::Files;

/// Why there is no ring.
#[derive(Debug)]
pub enum RingError {
    /// The kernel has none for us.
    Ring(io::Error),
    /// It does not take the buffers: how many KiB they have.
    Buffers(usize, io::Error),
}

impl RingError {
    /// What is wrong.
    pub(crate) fn why(&self) -> String {
        match self {
            Self::Ring(e) if is_unknown(e) => format!("this kernel has no io_uring ({e})"),
            Self::Ring(e) => format!("io_uring cannot be had ({e})"),
            Self::Buffers(kib, e) => format!("{kib} KiB of buffers cannot be registered ({e})"),
        }
    }

    /// What would help.
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

/// Whether the kernel does not know the call.
fn is_unknown(e: &io::Error) -> bool {
    e.raw_os_error() == Some(libc::ENOSYS)
}

impl std::error::Error for RingError {}

/// See the module.
pub struct Ring {
    ring: IoUring,
    pieces: Arc<BufferArena>,
    buffers: Vec<Buffer>,
    files: Files,
    /// What the kernel has, by the number that it tells us with its end.
    flights: Vec<Option<Flight>>,
    free: Vec<u32>,
    over: VecDeque<IoCompletion>,
    /// The kernel did not take everything yet.
    held: bool,
    wakes: bool,
}

/// A request, and all that the kernel may touch for it.
struct Flight {
    number: u32,
    request: Request,
    file: Arc<File>,
}

impl Ring {
    /// A ring that has up to `depth` requests under way, with as many `buffers` of
    /// `len` bytes.
    ///
    /// # Errors
    /// [`RingError`].
    ///
    /// # Panics
    /// When `depth` is outside 1..=4096, `buffers` outside 1..=1024, or `len` is no
    /// multiple of [`PAGE`](super::PAGE).
    pub fn new(depth: usize, buffers: usize, len: usize) -> Result<Self, RingError> {
        assert!((1..=4096).contains(&depth), "a depth of {depth} is outside 1..=4096");
        assert!((1..=1024).contains(&buffers), "{buffers} buffers are outside 1..=1024");
        let ring =
            IoUring::builder().dontfork().build(depth.next_power_of_two() as u32).map_err(RingError::Ring)?;
        let refused = |e| RingError::Buffers(buffers * len / 1024, e);
        let (pieces, all) = BufferArena::new(buffers, len).map_err(refused)?;
        let places = pieces.places();
        let vectors: Vec<_> = places
            .map(|(start, len)| libc::iovec { iov_base: start.as_ptr().cast(), iov_len: len })
            .collect();
        // SAFETY: the memory stays mapped while `pieces` lives, which the ring's
        // field before it does not outlive.
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

    /// A descriptor that is readable while something is over: for the device's
    /// `watch`, so that it ends its thread's sleep. Without it that thread looks
    /// now and then while requests are under way.
    ///
    /// # Errors
    /// No descriptor is left.
    pub fn readiness(&mut self) -> io::Result<OwnedFd> {
        let fd = self.ring.as_fd().try_clone_to_owned()?;
        self.wakes = true;
        Ok(fd)
    }

    /// Requests that the kernel has.
    fn in_flight(&self) -> usize {
        self.flights.len() - self.free.len()
    }

    /// Writes down for the kernel what is in place `at`.
    fn put(&mut self, at: u32, flight: Flight) {
        let fd = Fd(flight.file.as_raw_fd());
        let entry = match &flight.request {
            Request::Read { at, len, buffer, .. } => {
                let place = self.pieces.place(buffer);
                let start = self.pieces.begin_of(place);
                opcode::ReadFixed::new(fd, start, *len, place as u16).offset(*at).build()
            }
            Request::Write { at, len, buffer, .. } => {
                let place = self.pieces.place(buffer);
                let start = self.pieces.begin_of(place);
                opcode::WriteFixed::new(fd, start, *len, place as u16).offset(*at).build()
            }
            Request::Sync { .. } => opcode::Fsync::new(fd).build(),
        };
        self.flights[at as usize] = Some(flight);
        self.push(&entry.user_data(at.into()));
    }

    fn push(&mut self, entry: &squeue::Entry) {
        // SAFETY: buffer and file that the entry names are in `flights` until the
        // kernel says that it is over, or are leaked.
        let pushed = unsafe { self.ring.submission().push(entry) };
        pushed.expect("the queue has a place for each flight");
    }

    /// Takes in what the kernel has done.
    fn reap(&mut self) {
        loop {
            let next = self.ring.completion().next();
            let Some(entry) = next else { return };
            let at = entry.user_data() as u32;
            let flight = self.flights[at as usize].take().expect("what is over was under way");
            match entry.result() {
                // The thread that began it has ended: we never take back.
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

    fn open(&mut self, path: &Path, options: &Options) -> io::Result<Opened> {
        self.files.open(path, options)
    }

    fn close(&mut self, file: FileId) {
        self.files.close(file);
    }

    fn begin(&mut self, number: u32, request: Request) {
        let (Request::Read { file, .. } | Request::Write { file, .. } | Request::Sync { file }) = &request;
        if let Request::Read { len, buffer, .. } | Request::Write { len, buffer, .. } = &request {
            assert!(*len as usize <= buffer.bytes().len(), "a request stays in its buffer");
        }
        let file = self.files.get(*file);
        let at = self.free.pop().expect("no more begin than places are");
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
                // The kernel may write for ever: what it writes to stays.
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

/// Whether the kernel may say otherwise when it is asked again.
fn is_busy(e: &io::Error) -> bool {
    matches!(e.raw_os_error(), Some(libc::EINTR | libc::EAGAIN | libc::EBUSY | libc::ENOMEM))
}

impl Drop for Ring {
    fn drop(&mut self) {
        self.finish();
    }
}
