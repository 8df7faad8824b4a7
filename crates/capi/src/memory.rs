//! Access to the program's memory at addresses that may be invalid.
//!
//! The kernel returns `EFAULT` for an invalid address; a library that accesses it crashes. The
//! address is therefore probed first by system calls without other effect: rt_sigprocmask(2) with
//! an invalid operation reads eight bytes, and getrandom(2) writes bytes that are about to be
//! overwritten anyway. seccomp filters commonly allow both. The main thread's stack and the brk(2)
//! heap need no probe.
//!
//! Memory that another thread unmaps, or a mapped file that is truncated, between probe and access
//! is not covered. Rejected: process_vm_readv(2), which has no such gap but costs three times a
//! probe and is refused by many filters; a SIGSEGV handler, which belongs to the program.

use std::ffi::{c_int, c_long, c_void};
use std::mem::MaybeUninit;
use std::ops::Deref;
use std::sync::atomic::{AtomicUsize, Ordering};

use libc::iovec;
use rustix::io::Errno;

use crate::shm_send;

/// Start of the heap when the library was loaded, and of the main thread's stack.
static HEAP: AtomicUsize = AtomicUsize::new(usize::MAX);
static STACK: AtomicUsize = AtomicUsize::new(0);
/// Distance below the main thread's stack that the kernel keeps free (mmap_base, 128 MiB at least).
const STACK_MAX: usize = 64 << 20;
/// Smallest page size; every page size is a multiple.
const PAGE: usize = 4096;
/// Number of iovecs that fit without an allocation.
const FEW: usize = 64;
/// Bytes that getrandom(2) writes completely or not at all.
const WRITTEN_MAX: usize = 256;

/// Records where the heap and the main thread's stack are. The main thread calls it.
pub(crate) fn record_memory_layout() {
    // SAFETY: an increment of 0 moves nothing.
    let heap = unsafe { libc::sbrk(0) };
    HEAP.store(heap.addr(), Ordering::Relaxed);
    unsafe extern "C" {
        static environ: *const *const libc::c_char;
    }
    // SAFETY: no other thread runs yet that could change it; it is not dereferenced.
    STACK.store(unsafe { environ }.addr(), Ordering::Relaxed);
}

/// True if the bytes from `start` to `end` are in the heap, or in the main thread's stack and this
/// thread is the main one.
fn is_known(start: usize, end: usize) -> bool {
    let address = (&raw const start).addr();
    let stack = STACK.load(Ordering::Relaxed);
    if start >= address && end <= stack && stack - address < STACK_MAX {
        return true;
    }
    let heap = HEAP.load(Ordering::Relaxed);
    // SAFETY: an increment of 0 moves nothing.
    start >= heap && end <= unsafe { libc::sbrk(0) }.addr()
}

/// Makes a system call and restores `errno`.
fn ask(number: c_long, arguments: [usize; 4]) -> Result<usize, Errno> {
    // SAFETY: every thread has an `errno`.
    let errno_ptr = unsafe { libc::__errno_location() };
    // SAFETY: as above.
    let before = unsafe { errno_ptr.read() };
    let [a, b, c, d] = arguments;
    // SAFETY: the callers' system calls write only memory that the program wants written.
    let result = unsafe { libc::syscall(number, a, b, c, d) };
    let asked = usize::try_from(result).map_err(|_| crate::errno());
    // SAFETY: as above.
    unsafe { errno_ptr.write(before) };
    asked
}

/// True if `len` bytes at `start` can be read.
pub(crate) fn is_readable(start: *const c_void, len: usize) -> bool {
    const NO_ORDER: usize = c_int::MAX as usize;
    let Some(end) = start.addr().checked_add(len).filter(|_| !start.is_null()) else { return len == 0 };
    if len == 0 || cfg!(miri) || is_known(start.addr(), end) || shm_send::is_confined() {
        return true;
    }
    let first = start.addr() & !(PAGE - 1);
    // An aligned word does not cross a page.
    (first..end).step_by(PAGE).all(|page| {
        let word = page.max(start.addr()) & !7;
        ask(libc::SYS_rt_sigprocmask, [NO_ORDER, word, 0, 8]) == Err(Errno::INVAL)
    })
}

/// True if `len` bytes at `start`, all of which are about to be overwritten, can be written.
fn is_writable(start: *mut c_void, len: usize) -> bool {
    let Some(end) = start.addr().checked_add(len).filter(|_| !start.is_null()) else { return len == 0 };
    if len == 0 || cfg!(miri) || is_known(start.addr(), end) || shm_send::is_confined() {
        return true;
    }
    (start.addr()..end).step_by(WRITTEN_MAX).all(|at| {
        let len = WRITTEN_MAX.min(end - at);
        ask(libc::SYS_getrandom, [at, len, libc::GRND_NONBLOCK as usize, 0]) == Ok(len)
    })
}

/// Value at `ptr`, aligned or not.
///
/// # Errors
/// `EFAULT`.
///
/// # Safety
/// No other thread writes there meanwhile, and any bytes are a valid `T`.
pub(crate) unsafe fn read<T: Copy>(ptr: *const T) -> Result<T, Errno> {
    if !is_readable(ptr.cast(), size_of::<T>()) {
        return Err(Errno::FAULT);
    }
    // SAFETY: it can be read, and is a `T` by the caller's contract.
    Ok(unsafe { ptr.read_unaligned() })
}

/// Writes `value` to `ptr`, aligned or not.
///
/// # Errors
/// `EFAULT`.
///
/// # Safety
/// The program wants `value` written there.
pub(crate) unsafe fn write<T: Copy>(ptr: *mut T, value: T) -> Result<(), Errno> {
    if !is_writable(ptr.cast(), size_of::<T>()) {
        return Err(Errno::FAULT);
    }
    // SAFETY: it can be written to.
    unsafe { ptr.write_unaligned(value) };
    Ok(())
}

/// Writes `bytes` to `dest`.
///
/// # Errors
/// `EFAULT`.
///
/// # Safety
/// The same as for [`write`].
pub(crate) unsafe fn write_bytes(dest: *mut u8, bytes: &[u8]) -> Result<(), Errno> {
    if !is_writable(dest.cast(), bytes.len()) {
        return Err(Errno::FAULT);
    }
    // SAFETY: they can be written, and do not overlap memory of this library.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), dest, bytes.len()) };
    Ok(())
}

/// Copy of a program's iovecs.
#[expect(
    clippy::large_enum_variant,
    reason = "few are on the stack: a signal's handler may write, and allocates nothing"
)]
pub(crate) enum Pieces {
    Few([MaybeUninit<iovec>; FEW], usize),
    Many(Vec<iovec>),
}

impl Deref for Pieces {
    type Target = [iovec];

    fn deref(&self) -> &[iovec] {
        match self {
            // SAFETY: the first `len` were read.
            Self::Few(pieces, len) => unsafe { std::slice::from_raw_parts(pieces.as_ptr().cast(), *len) },
            Self::Many(pieces) => pieces,
        }
    }
}

/// Copies the program's iovecs; empty if `count` is 0.
///
/// # Errors
/// `EMSGSIZE`: more than 1024; `EFAULT`.
///
/// # Safety
/// The same as for [`read`].
pub(crate) unsafe fn pieces(start: *const iovec, count: usize) -> Result<Pieces, Errno> {
    if count > 1024 {
        return Err(Errno::MSGSIZE);
    }
    if !is_readable(start.cast(), count * size_of::<iovec>()) {
        return Err(Errno::FAULT);
    }
    // SAFETY: this many can be read.
    let piece = |at| unsafe { start.add(at).read_unaligned() };
    if count > FEW {
        return Ok(Pieces::Many((0..count).map(piece).collect()));
    }
    let mut few = [const { MaybeUninit::uninit() }; FEW];
    for (at, slot) in few.iter_mut().take(count).enumerate() {
        slot.write(piece(at));
    }
    Ok(Pieces::Few(few, count))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two pages; the second has `protection`.
    fn pages(protection: c_int) -> *mut u8 {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        let read_write = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping, placed by the kernel in free address space.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), 2 * PAGE, read_write, flags, -1, 0) };
        assert_ne!(start, libc::MAP_FAILED);
        // SAFETY: the page is part of that mapping.
        assert_eq!(unsafe { libc::mprotect(start.byte_add(PAGE), PAGE, protection) }, 0);
        start.cast()
    }

    #[test]
    #[cfg_attr(miri, ignore = "it has no memory that is not there")]
    fn unmapped_memory_is_distinguished_from_mapped_memory() {
        record_memory_layout();
        let (none, reads) = (pages(libc::PROT_NONE), pages(libc::PROT_READ));
        let both = libc::PROT_READ | libc::PROT_WRITE;
        let writes = pages(both);
        for (start, second) in [(none, (false, false)), (reads, (true, false)), (writes, (true, true))] {
            for (at, len) in [(0, PAGE), (PAGE - 8, 8), (7, 1)] {
                let ptr = start.wrapping_add(at).cast();
                assert!(is_readable(ptr, len) && is_writable(ptr, len), "{len} at {at}");
            }
            for (at, len) in [(PAGE, 1), (PAGE - 1, 2), (0, 2 * PAGE), (2 * PAGE - 1, 1), (PAGE - 300, 600)] {
                let ptr = start.wrapping_add(at).cast();
                assert_eq!((is_readable(ptr, len), is_writable(ptr, len)), second, "{len} at {at}");
            }
            for at in [0, 4, PAGE - 4] {
                let ptr = start.wrapping_add(at).cast::<u32>();
                // SAFETY: the memory is this test's.
                assert_eq!(unsafe { (write(ptr, 7), read(ptr)) }, (Ok(()), Ok(7)));
            }
            // SAFETY: as above; the second half may be inaccessible.
            let torn = unsafe { read(start.wrapping_add(PAGE - 2).cast::<u32>()) };
            assert_eq!(torn.is_ok(), second.0);
        }
        for wild in [0, 8, usize::MAX, usize::MAX - 7, 1 << 63, 0xdead_beef] {
            let ptr = std::ptr::without_provenance_mut(wild);
            assert!(!is_readable(ptr, 16) && !is_writable(ptr, 16), "{wild:#x}");
            assert!(is_readable(ptr, 0) && is_writable(ptr, 0));
        }
        assert!(!is_readable(writes.cast(), usize::MAX) && !is_readable(writes.cast(), isize::MAX as usize));
    }

    #[test]
    #[cfg_attr(miri, ignore = "it has no heap of brk's")]
    fn what_is_known_is_there_and_errno_stays() {
        let (mut local, boxed) = (7_u64, Box::new(8_u64));
        record_memory_layout();
        // SAFETY: both are locals of this test.
        unsafe {
            *libc::__errno_location() = 77;
            assert_eq!((read(&raw const local), read(&raw const *boxed)), (Ok(7), Ok(8)));
            assert_eq!(write(&raw mut local, 9), Ok(()));
            assert_eq!((local, *libc::__errno_location()), (9, 77));
        }
    }

    #[test]
    fn pieces_are_read_wherever_they_stand() {
        let mut bytes = [0_u8; 200 * size_of::<iovec>() + 8];
        for shift in [0, 1, 4] {
            for count in [0, 1, FEW, FEW + 1, 200] {
                let start = bytes[shift..].as_mut_ptr().cast::<iovec>();
                for at in 0..count {
                    let piece = iovec { iov_base: std::ptr::without_provenance_mut(at), iov_len: at };
                    // SAFETY: the buffer holds 200.
                    unsafe { start.add(at).write_unaligned(piece) };
                }
                // SAFETY: the buffer holds `count`.
                let read = unsafe { pieces(start, count) }.unwrap();
                assert!(
                    read.iter().enumerate().all(|(at, piece)| piece.iov_len == at) && read.len() == count
                );
            }
        }
        // SAFETY: too many are refused before any is read.
        assert_eq!(unsafe { pieces(std::ptr::null(), 1025) }.err(), Some(Errno::MSGSIZE));
        // SAFETY: the address is probed before it is read.
        assert_eq!(unsafe { pieces(std::ptr::null(), 1) }.err(), Some(Errno::FAULT));
    }
}
