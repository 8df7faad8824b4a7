//! Memory mappings, shared with the kernel or other processes.

use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};

use rustix::process::{Resource, getrlimit};

/// Bytes mapped by [`Mapping::modest`].
static MODEST: AtomicUsize = AtomicUsize::new(0);
/// Divisor of the address-space limit: all those mappings together may use this fraction of it.
const PART: u64 = 8;

const READ_WRITE: i32 = libc::PROT_READ | libc::PROT_WRITE;

/// A mapping, unmapped when dropped unless it was [leaked](Self::leak).
#[derive(Debug)]
pub struct Mapping {
    start: NonNull<u8>,
    len: usize,
    is_modest: bool,
}

// SAFETY: a mapping belongs to the process, not to a thread; each access to it is justified by its
// caller.
unsafe impl Send for Mapping {}

// SAFETY: a shared reference gives access to the address only.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// `len` bytes of `file` from `offset` on, populated.
    pub fn of(file: impl AsFd, offset: i64, len: usize) -> io::Result<Self> {
        let flags = libc::MAP_SHARED | libc::MAP_POPULATE;
        Self::map(len, READ_WRITE, flags, file.as_fd().as_raw_fd(), offset)
    }

    /// The first `len` bytes of `file`, shared with other mappings; read-only unless `writable`.
    pub fn shared(file: impl AsFd, len: usize, writable: bool) -> io::Result<Self> {
        let protection = if writable { READ_WRITE } else { libc::PROT_READ };
        Self::map(len, protection, libc::MAP_SHARED, file.as_fd().as_raw_fd(), 0)
    }

    /// `len` bytes of `file` from `offset` on, shared with other mappings.
    pub fn part(file: impl AsFd, offset: usize, len: usize) -> io::Result<Self> {
        Self::map(len, READ_WRITE, libc::MAP_SHARED, file.as_fd().as_raw_fd(), offset as i64)
    }

    /// `len` bytes of `file` from `offset` on, for a process that is not ours; read-only unless
    /// `writable`.
    ///
    /// The memory is excluded from core dumps, since it is other processes' too. Pages become resident
    /// on first access, even in a process that locks its memory (mlockall(2)). Under a limit of address
    /// space (RLIMIT_AS), most of it stays the program's.
    ///
    /// # Errors
    /// `ENOMEM` beyond that share; otherwise the kernel's error.
    pub fn modest(file: impl AsFd, offset: usize, len: usize, writable: bool) -> io::Result<Self> {
        let has_room = Self::has_room(len);
        MODEST.fetch_add(len, Ordering::Relaxed);
        let of = || {
            if !has_room {
                return Err(io::ErrorKind::OutOfMemory.into());
            }
            let fd = file.as_fd().as_raw_fd();
            // PROT_NONE prevents population, which a process that locks its mappings would cause at
            // once.
            let mapping = Self::map(len, libc::PROT_NONE, libc::MAP_SHARED, fd, offset as i64)?;
            let protection = if writable { READ_WRITE } else { libc::PROT_READ };
            let start = mapping.start.as_ptr().cast();
            // SAFETY: it is this mapping, to which no pointer exists yet.
            let done = unsafe {
                libc::madvise(start, len, libc::MADV_DONTDUMP) == 0
                    && libc::munlock(start, len) == 0
                    && libc::mprotect(start, len, protection) == 0
            };
            if done { Ok(mapping) } else { Err(io::Error::last_os_error()) }
        };
        let mapping = of();
        if mapping.is_err() {
            MODEST.fetch_sub(len, Ordering::Relaxed);
        }
        mapping.map(|mut mapping| {
            mapping.is_modest = true;
            mapping
        })
    }

    /// True if `len` more bytes are within the share of [`modest`](Self::modest).
    pub fn has_room(len: usize) -> bool {
        let mapped = MODEST.load(Ordering::Relaxed) + len;
        getrlimit(Resource::As).current.is_none_or(|limit| mapped as u64 <= limit / PART)
    }

    /// A page of zeros that is zero again in a child, however it is forked (`MADV_WIPEONFORK`).
    ///
    /// # Errors
    /// The kernel's error; it is older than Linux 4.14.
    pub fn wiped_on_fork() -> io::Result<Self> {
        const PAGE: usize = 4096;
        let mapping = Self::map(PAGE, READ_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1, 0)?;
        // SAFETY: it is this mapping.
        match unsafe { libc::madvise(mapping.start.as_ptr().cast(), PAGE, libc::MADV_WIPEONFORK) } {
            0 => Ok(mapping),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// `len` zero bytes, populated; with `hugepages` in pages of 2 MiB, of which `len` must then be a
    /// multiple.
    pub fn anonymous(len: usize, hugepages: bool) -> io::Result<Self> {
        let huge = if hugepages { libc::MAP_HUGETLB | libc::MAP_HUGE_2MB } else { 0 };
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_POPULATE | huge;
        Self::map(len, READ_WRITE, flags, -1, 0)
    }

    fn map(len: usize, protection: i32, flags: i32, fd: i32, offset: i64) -> io::Result<Self> {
        // SAFETY: a new mapping at an address of the kernel's choice.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), len, protection, flags, fd, offset) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { start, len, is_modest: false })
    }

    /// Address of the first byte.
    pub fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// Address of byte `at`, for a `T` that fits and is aligned.
    ///
    /// # Panics
    /// A `T` at `at` does not fit or is not aligned.
    pub fn at<T>(&self, at: usize) -> NonNull<T> {
        assert!(at + size_of::<T>() <= self.len, "byte {at} is outside a mapping of {}", self.len);
        assert!(at.is_multiple_of(align_of::<T>()), "byte {at} is not aligned");
        // SAFETY: within the mapping, as just asserted.
        unsafe { self.start.add(at).cast() }
    }

    /// Frees the memory of `len` bytes at `at`, whole pages of a memory file: they read as zero from
    /// now on, in every process that maps them.
    ///
    /// # Panics
    /// The bytes are outside the mapping.
    pub fn discard(&self, at: usize, len: usize) -> io::Result<()> {
        assert!(at + len <= self.len, "{len} bytes at {at} are outside a mapping of {}", self.len);
        // SAFETY: within the mapping, as just asserted; it stays mapped, and reads as zero.
        match unsafe { libc::madvise(self.start.as_ptr().add(at).cast(), len, libc::MADV_REMOVE) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Keeps the memory mapped until the process ends.
    pub fn leak(self) -> NonNull<u8> {
        let start = self.start;
        std::mem::forget(self);
        start
    }

    /// Excludes the memory from core dumps.
    pub fn without_dumps(self) -> Self {
        // SAFETY: it is this mapping. A kernel without this advice dumps it, as before.
        unsafe { libc::madvise(self.start.as_ptr().cast(), self.len, libc::MADV_DONTDUMP) };
        self
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: mapped by us with this length; a mapping with outstanding pointers is leaked instead.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.len) };
        if self.is_modest {
            MODEST.fetch_sub(self.len, Ordering::Relaxed);
        }
    }
}
