//! The port between requests and whatever carries them out.
//!
//! Buffers move: into a request, with it into the disk, and out again with what
//! is done. So while a disk, or a kernel behind it, may write to one, nobody
//! else can look at it, free it or give it away.

use std::any::Any;
use std::io;
use std::path::Path;

/// Memory that a disk can read into and write from: of a fixed length, aligned
/// as its files want it, registered with the kernel where there is one.
pub trait Memory: Any + Send + Sync {
    /// All of it; whatever was last in it.
    fn bytes(&self) -> &[u8];
    /// The same, to fill.
    fn bytes_mut(&mut self) -> &mut [u8];
}

/// One buffer of a disk's.
pub type Buffer = Box<dyn Memory>;

/// A file that is open at a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FileId(pub u32);

/// How a file is opened. It is only read unless more is asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// It is written, too.
    pub write: bool,
    /// It is made where it is not there, and then empty.
    pub create: bool,
    /// Past the page cache (`O_DIRECT`): refused where the file system cannot.
    pub direct: bool,
}

/// An open file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opened {
    /// Its name at its disk.
    pub file: FileId,
    /// Offsets and lengths are multiples of it: 1 through the page cache.
    pub align: u32,
}

/// What a disk is asked to do. Offsets are in bytes from the file's beginning.
pub enum Request {
    /// Read `len` bytes into the beginning of `buffer`.
    Read {
        /// From where.
        file: FileId,
        /// From which byte on.
        at: u64,
        /// At most the buffer's length.
        len: u32,
        /// Where they go.
        buffer: Buffer,
    },
    /// Write the first `len` bytes of `buffer`.
    Write {
        /// Where to.
        file: FileId,
        /// From which byte on.
        at: u64,
        /// At most the buffer's length.
        len: u32,
        /// Where they are.
        buffer: Buffer,
    },
    /// Let what was written survive a loss of power.
    Sync {
        /// Of which file.
        file: FileId,
    },
}

impl Request {
    /// What it was to be read into or written from.
    #[must_use]
    pub fn into_buffer(self) -> Option<Buffer> {
        match self {
            Self::Read { buffer, .. } | Self::Write { buffer, .. } => Some(buffer),
            Self::Sync { .. } => None,
        }
    }
}

/// A request that is over.
pub struct IoCompletion {
    /// The number that it was begun with.
    pub number: u32,
    /// Bytes read or written; fewer than asked for at the file's end, or where
    /// the disk is full.
    pub result: io::Result<usize>,
    /// The request's buffer.
    pub buffer: Option<Buffer>,
}

/// Carries out requests on files. Nothing here waits but [`Disk::open`], for
/// the file's name to be looked up, and [`Disk::finish`].
pub trait Disk: Send {
    /// Its buffers, all of one length; asked for once.
    fn buffers(&mut self) -> Vec<Buffer>;

    /// Requests that it carries out at a time, at least 1.
    fn depth(&self) -> usize;

    /// Opens a file.
    ///
    /// # Errors
    /// The system's; [`io::ErrorKind::Unsupported`] where the file cannot be
    /// read past the page cache and is to be.
    fn open(&mut self, path: &Path, options: &Options) -> io::Result<Opened>;

    /// Takes no more requests for `file`; those that have begun are carried out.
    fn close(&mut self, file: FileId);

    /// Begins a request; `number` is told with what becomes of it.
    ///
    /// # Panics
    /// When [`Disk::depth`] have begun and are not over, or the file is not open.
    fn begin(&mut self, number: u32, request: Request);

    /// Hands on what has begun, many at once; `false` when some of it has to be
    /// handed on later, by another call.
    fn flush(&mut self) -> bool;

    /// One that is over, if there is one.
    fn done(&mut self) -> Option<IoCompletion>;

    /// Waits until everything that has begun is over.
    fn finish(&mut self);

    /// Whether a thread that sleeps on its device is woken by what is over. If
    /// not, it has to look.
    fn wakes(&self) -> bool;
}
