//! Port between I/O requests and the device that executes them.
//!
//! Buffers move: into a request, with it into the disk, and back with its
//! completion. While the disk, or a kernel below it, may write to a buffer, no
//! other code can read, free or reuse it.

use std::any::Any;
use std::io;
use std::path::Path;

/// Memory that a disk reads into and writes from. Its length is fixed, its
/// alignment fits the disk's files, and it is registered with the kernel where
/// there is one.
pub trait BufferMemory: Any + Send + Sync {
    /// All bytes; their values are those of the last use.
    fn bytes(&self) -> &[u8];
    /// All bytes, to fill.
    fn bytes_mut(&mut self) -> &mut [u8];
}

/// One buffer of a disk.
pub type Buffer = Box<dyn BufferMemory>;

/// Identifier of a file open at a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FileId(pub u32);

/// Options for opening a file; read-only by default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileOptions {
    /// Open for writing too.
    pub write: bool,
    /// Create an empty file if there is none.
    pub create: bool,
    /// Bypass the page cache (`O_DIRECT`). An error if the file system cannot.
    pub direct: bool,
}

/// Result of opening a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenedFile {
    /// Identifier at this disk.
    pub file: FileId,
    /// Offsets and lengths must be multiples of this, in bytes; 1 with the page cache.
    pub align: u32,
}

/// I/O request. Offsets are in bytes from the start of the file.
pub enum DiskRequest {
    /// Read `len` bytes into the start of `buffer`.
    Read {
        /// File to read.
        file: FileId,
        /// Offset of the first byte.
        at: u64,
        /// Number of bytes, at most the buffer's length.
        len: u32,
        /// Destination.
        buffer: Buffer,
    },
    /// Write the first `len` bytes of `buffer`.
    Write {
        /// File to write.
        file: FileId,
        /// Offset of the first byte.
        at: u64,
        /// Number of bytes, at most the buffer's length.
        len: u32,
        /// Source.
        buffer: Buffer,
    },
    /// Make completed writes durable (`fsync`).
    Sync {
        /// File to sync.
        file: FileId,
    },
}

impl DiskRequest {
    /// Buffer of the request; `None` for a sync.
    #[must_use]
    pub fn into_buffer(self) -> Option<Buffer> {
        match self {
            Self::Read { buffer, .. } | Self::Write { buffer, .. } => Some(buffer),
            Self::Sync { .. } => None,
        }
    }
}

/// Completed request.
pub struct IoCompletion {
    /// Number that [`Disk::begin`] was given.
    pub number: u32,
    /// Bytes read or written; fewer than requested at the end of the file or when
    /// the disk is full.
    pub result: io::Result<usize>,
    /// Buffer of the request; `None` for a sync.
    pub buffer: Option<Buffer>,
}

/// Asynchronous disk. Only [`Disk::open`], which resolves a path, and
/// [`Disk::finish`] block.
pub trait Disk: Send {
    /// All buffers of the disk, of equal length. Called once.
    fn buffers(&mut self) -> Vec<Buffer>;

    /// Queue depth: the maximum number of requests in flight, at least 1.
    fn depth(&self) -> usize;

    /// Opens a file.
    ///
    /// # Errors
    /// The system's; [`io::ErrorKind::Unsupported`] if `options.direct` is set and
    /// the file cannot bypass the page cache.
    fn open(&mut self, path: &Path, options: &FileOptions) -> io::Result<OpenedFile>;

    /// Closes `file` to new requests; requests in flight complete.
    fn close(&mut self, file: FileId);

    /// Starts a request; its completion carries `number`.
    ///
    /// # Panics
    /// If [`Disk::depth`] requests are in flight, or the file is not open.
    fn begin(&mut self, number: u32, request: DiskRequest);

    /// Submits the started requests as one batch; `false` if another call must
    /// submit the rest.
    fn flush(&mut self) -> bool;

    /// Next completion, if there is one.
    fn done(&mut self) -> Option<IoCompletion>;

    /// Blocks until no request is in flight.
    fn finish(&mut self);

    /// True if a completion wakes a thread that sleeps on its network device. If
    /// false, the disk must be polled.
    fn wakes(&self) -> bool;
}
