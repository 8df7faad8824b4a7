//! Files for tasks: asynchronous reads and writes.
//!
//! A task's request waits in the shard's [`IoScheduler`] at the task's level. The shard submits
//! requests to the disk once per round; completions wake tasks in the order of labels. Bytes are in
//! [`FileBuffer`]s of the disk, which may be registered with the kernel. The number of buffers is
//! fixed; a task waits for a free one. A request whose future is dropped goes on: its buffer is
//! free again once the disk has finished. Any thread may make requests; without a task's label they
//! are the least urgent.

use std::future::Future;
use std::io;
use std::ops::{Deref, DerefMut};
use std::path::Path;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll};

use queueing::Priority;
use storage::{Completion, FileId, FileOptions, IoRequest, IoScheduler, OpenedFile, REQUESTS_MAX, Ticket};

use super::control_block::level;
use super::handle::{Shared, lock};
use super::waiter::Waiter;
use super::{Handle, current};

/// An open file. It is closed once it is dropped and its requests are finished.
pub struct File {
    home: Arc<Shared>,
    file: FileId,
    align: u32,
    buffer_len: usize,
}

/// I/O buffer of the disk, with bytes from or for a file; freed on drop.
pub struct FileBuffer {
    home: Arc<Shared>,
    /// `None` only while the buffer is dropped.
    memory: Option<storage::Buffer>,
    len: usize,
}

impl File {
    /// Opens a file on the disk of the current task's shard; see [`Handle::open_file`].
    ///
    /// # Errors
    /// The errors of [`Handle::open_file`].
    ///
    /// # Panics
    /// If called outside a task.
    pub fn open(path: impl AsRef<Path>, options: &FileOptions) -> io::Result<Self> {
        Handle::current().open_file(path, options)
    }

    /// Alignment of offsets and lengths in bytes: 1 through the page cache, the file system's for
    /// direct I/O.
    #[must_use]
    pub fn align(&self) -> u32 {
        self.align
    }

    /// Reads up to `len` bytes from `at`; fewer at the file's end.
    ///
    /// # Errors
    /// The disk's; [`io::ErrorKind::InvalidInput`] if `at` or `len` is no multiple of
    /// [`File::align`], or a buffer is shorter than `len`; [`io::ErrorKind::QuotaExceeded`] if
    /// [`REQUESTS_MAX`] are unfinished.
    pub async fn read_at(&self, at: u64, len: usize) -> io::Result<FileBuffer> {
        self.check(at, len)?;
        let request = IoRequest::Read { file: self.file, at, len: len as u32 };
        let (read, memory) = FileRequest::new(&self.home, request).await?;
        let mut buffer = FileBuffer { home: self.home.clone(), memory, len: 0 };
        buffer.len = read?;
        Ok(buffer)
    }

    /// Writes all of `buffer` from `at`.
    ///
    /// # Errors
    /// The errors of [`File::read_at`]; [`io::ErrorKind::WriteZero`] if only a part was written;
    /// `InvalidInput` for a buffer of another shard.
    pub async fn write_at(&self, at: u64, mut buffer: FileBuffer) -> io::Result<()> {
        let len = buffer.len;
        self.check(at, len)?;
        if !Arc::ptr_eq(&self.home, &buffer.home) {
            return Err(invalid("the buffer is of another shard's disk; take one where the file is".into()));
        }
        let memory = buffer.memory.take().expect("a buffer has memory until it goes away");
        let request = IoRequest::Write { file: self.file, at, len: len as u32, buffer: memory };
        let (written, memory) = FileRequest::new(&self.home, request).await?;
        buffer.memory = memory;
        match written? {
            all if all == len => Ok(()),
            part => {
                let why = format!("{part} of {len} bytes were written at {at}");
                Err(io::Error::new(io::ErrorKind::WriteZero, why))
            }
        }
    }

    /// Waits until all written bytes survive a power loss.
    ///
    /// # Errors
    /// The disk's; [`io::ErrorKind::QuotaExceeded`] as for [`File::read_at`].
    pub async fn sync(&self) -> io::Result<()> {
        let (synced, _) = FileRequest::new(&self.home, IoRequest::Sync { file: self.file }).await?;
        synced.map(|_| ())
    }

    fn check(&self, at: u64, len: usize) -> io::Result<()> {
        fits(len, self.buffer_len)?;
        let align = u64::from(self.align);
        if !at.is_multiple_of(align) || !(len as u64).is_multiple_of(align) {
            return Err(invalid(format!(
                "{len} bytes at {at} are not multiples of {align}, which direct I/O of this file requires"
            )));
        }
        Ok(())
    }
}

impl Drop for File {
    fn drop(&mut self) {
        if let Some(files) = &self.home.files {
            lock(files).close(self.file);
        }
    }
}

impl FileBuffer {
    /// A buffer of `len` bytes with unspecified content; see [`Handle::buffer`].
    ///
    /// # Errors
    /// The errors of [`Handle::buffer`].
    ///
    /// # Panics
    /// If called outside a task.
    pub async fn new(len: usize) -> io::Result<Self> {
        Handle::current().buffer(len).await
    }
}

impl Deref for FileBuffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.memory.as_ref().map_or(&[], |memory| &memory.bytes()[..self.len])
    }
}

impl DerefMut for FileBuffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        let len = self.len;
        self.memory.as_mut().map_or(&mut [], |memory| &mut memory.bytes_mut()[..len])
    }
}

impl Drop for FileBuffer {
    fn drop(&mut self) {
        if let (Some(memory), Some(files)) = (self.memory.take(), &self.home.files) {
            lock(files).release(memory);
            self.home.notify();
        }
    }
}

impl Handle {
    /// Opens a file on the shard's disk. The calling thread blocks while the kernel looks up the
    /// path; servers should open files before they serve.
    ///
    /// # Errors
    /// The disk's: among them [`io::ErrorKind::Unsupported`] if the file system does not support
    /// [`FileOptions::direct`], or the shard has no disk.
    pub fn open_file(&self, path: impl AsRef<Path>, options: &FileOptions) -> io::Result<File> {
        let mut scheduler = scheduler(&self.0)?;
        let OpenedFile { file, align } = scheduler.open(path.as_ref(), options)?;
        let buffer_len = scheduler.buffer_len();
        drop(scheduler);
        Ok(File { home: self.0.clone(), file, align, buffer_len })
    }

    /// A buffer of `len` bytes to fill and write; waits while all are in use.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] if buffers are shorter; `QuotaExceeded` as for
    /// [`File::read_at`]; `Unsupported` if the shard has no disk.
    pub async fn buffer(&self, len: usize) -> io::Result<FileBuffer> {
        fits(len, scheduler(&self.0)?.buffer_len())?;
        let (_, memory) = FileRequest::new(&self.0, IoRequest::Buffer).await?;
        Ok(FileBuffer { home: self.0.clone(), memory, len })
    }
}

/// I/O scheduler of a shard that has a disk.
fn scheduler(home: &Shared) -> io::Result<MutexGuard<'_, IoScheduler<Waiter>>> {
    home.files.as_ref().map(lock).ok_or_else(|| {
        io::Error::new(io::ErrorKind::Unsupported, "the shard has no disk; its Config can have one")
    })
}

fn fits(len: usize, buffer_len: usize) -> io::Result<()> {
    match len <= buffer_len {
        true => Ok(()),
        false => Err(invalid(format!("{len} bytes are more than a buffer's {buffer_len}"))),
    }
}

fn invalid(why: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, why)
}

/// Future of one request.
struct FileRequest<'a> {
    home: &'a Arc<Shared>,
    stage: Stage,
}

enum Stage {
    Unsubmitted(IoRequest),
    Submitted(Ticket),
    Done,
}

impl<'a> FileRequest<'a> {
    fn new(home: &'a Arc<Shared>, request: IoRequest) -> Self {
        Self { home, stage: Stage::Unsubmitted(request) }
    }

    fn files(&self) -> &'a Mutex<IoScheduler<Waiter>> {
        self.home.files.as_ref().expect("a shard with files has a disk")
    }
}

impl Future for FileRequest<'_> {
    type Output = io::Result<Completion>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let waiter = Waiter::new(cx);
        let files = self.files();
        match std::mem::replace(&mut self.stage, Stage::Done) {
            Stage::Unsubmitted(request) if self.home.has_ended() => {
                self.stage = Stage::Unsubmitted(request);
                let why = "the shard has ended; it carries nothing out any more";
                Poll::Ready(Err(io::Error::new(io::ErrorKind::BrokenPipe, why)))
            }
            Stage::Unsubmitted(request) => {
                let level = current::with(|running| level(running.task.label())).unwrap_or(Priority::LOWEST);
                let submitted = lock(files).begin(self.home.now(), level, request, waiter);
                match submitted {
                    Ok(ticket) => {
                        self.stage = Stage::Submitted(ticket);
                        self.home.notify();
                        Poll::Pending
                    }
                    Err(waiter) => {
                        drop(waiter);
                        let why = format!("{REQUESTS_MAX} requests on files are not over; no more may be");
                        Poll::Ready(Err(io::Error::new(io::ErrorKind::QuotaExceeded, why)))
                    }
                }
            }
            Stage::Submitted(ticket) => {
                let polled = lock(files).poll(ticket, waiter);
                match polled {
                    Ok(answer) => Poll::Ready(Ok(answer)),
                    // The previous waiter is dropped without the lock.
                    Err(_before) => {
                        self.stage = Stage::Submitted(ticket);
                        Poll::Pending
                    }
                }
            }
            Stage::Done => panic!("polled after it was ready"),
        }
    }
}

impl Drop for FileRequest<'_> {
    fn drop(&mut self) {
        let files = self.files();
        let waiter = match std::mem::replace(&mut self.stage, Stage::Done) {
            Stage::Unsubmitted(IoRequest::Write { buffer, .. }) => {
                lock(files).release(buffer);
                None
            }
            Stage::Unsubmitted(_) | Stage::Done => return,
            Stage::Submitted(ticket) => lock(files).cancel(ticket),
        };
        drop(waiter);
        // A buffer may have become free.
        self.home.notify();
    }
}
