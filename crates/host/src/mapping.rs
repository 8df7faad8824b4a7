//! Memory that is shared with the kernel.

use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::ptr::NonNull;

const READ_WRITE: i32 = libc::PROT_READ | libc::PROT_WRITE;

/// A mapping, unmapped when dropped unless it was [leaked](Self::leak).
#[derive(Debug)]
pub(crate) struct Mapping {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: a mapping belongs to the process, not to a thread; whoever reads or
// writes it vouches for that access.
unsafe impl Send for Mapping {}

// SAFETY: a shared mapping gives out its address only.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// `len` bytes of `file` from `offset` on, populated.
    pub(crate) fn of(file: impl AsFd, offset: i64, len: usize) -> io::Result<Self> {
        let flags = libc::MAP_SHARED | libc::MAP_POPULATE;
        Self::map(len, READ_WRITE, flags, file.as_fd().as_raw_fd(), offset)
    }

    /// The first `len` bytes of `file`, which others have mapped, too; only to
    /// be read unless `writable`.
    pub(crate) fn shared(file: impl AsFd, len: usize, writable: bool) -> io::Result<Self> {
        let protection = if writable { READ_WRITE } else { libc::PROT_READ };
        Self::map(len, protection, libc::MAP_SHARED, file.as_fd().as_raw_fd(), 0)
    }

    /// `len` zero bytes, populated; in huge pages of 2 MiB if asked, of which
    /// `len` must then be a multiple.
    pub(crate) fn anonymous(len: usize, hugepages: bool) -> io::Result<Self> {
        let huge = if hugepages { libc::MAP_HUGETLB | libc::MAP_HUGE_2MB } else { 0 };
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_POPULATE | huge;
        Self::map(len, READ_WRITE, flags, -1, 0)
    }

    fn map(len: usize, protection: i32, flags: i32, fd: i32, offset: i64) -> io::Result<Self> {
        // SAFETY: a new mapping, placed by the kernel where nothing is.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), len, protection, flags, fd, offset) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { start, len })
    }

    /// The first byte.
    pub(crate) fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// The memory at byte `at`, where `T` fits and is aligned.
    ///
    /// # Panics
    /// When it does not fit.
    pub(crate) fn at<T>(&self, at: usize) -> NonNull<T> {
        assert!(at + size_of::<T>() <= self.len, "byte {at} is outside a mapping of {}", self.len);
        assert!(at.is_multiple_of(align_of::<T>()), "byte {at} is not aligned");
        // SAFETY: within the mapping, as just asserted.
        unsafe { self.start.add(at).cast() }
    }

    /// Gives the memory of `len` bytes at `at`, whole pages of a file in memory, back: they are zero from
    /// now on, in every process that has it mapped.
    ///
    /// # Panics
    /// When they are not in it.
    pub(crate) fn give_back(&self, at: usize, len: usize) -> io::Result<()> {
        assert!(at + len <= self.len, "{len} bytes at {at} are outside a mapping of {}", self.len);
        // SAFETY: within the mapping, as just asserted; it stays mapped, and reads as zero.
        match unsafe { libc::madvise(self.start.as_ptr().add(at).cast(), len, libc::MADV_REMOVE) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Keeps the memory mapped until the process ends.
    pub(crate) fn leak(self) {
        std::mem::forget(self);
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: mapped by us with this length; whoever holds pointers into
        // it has leaked it instead.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.len) };
    }
}
