//! Wrappers of `setsockopt` and `getsockopt` for plain structures.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// Sets an option. `T` is a structure of integers as the kernel defines it for this option.
pub fn set<T: Copy>(socket: impl AsFd, level: i32, option: i32, value: &T) -> io::Result<()> {
    let fd = socket.as_fd().as_raw_fd();
    // SAFETY: the kernel reads `size_of::<T>()` bytes from a reference that
    // lives through the call; the descriptor is borrowed, so open.
    let done = unsafe {
        libc::setsockopt(
            fd,
            level,
            option,
            std::ptr::from_ref(value).cast(),
            size_of::<T>() as libc::socklen_t,
        )
    };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Reads an option into a structure of integers.
///
/// # Safety
/// All-zero bytes, and any bytes that the kernel writes, are a valid `T`.
pub unsafe fn get<T: Copy>(socket: impl AsFd, level: i32, option: i32) -> io::Result<T> {
    let fd = socket.as_fd().as_raw_fd();
    // SAFETY: the caller guarantees that all-zero bytes are valid.
    let mut value: T = unsafe { std::mem::zeroed() };
    let mut len = size_of::<T>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `len` bytes to a value of that size.
    let done = unsafe { libc::getsockopt(fd, level, option, (&raw mut value).cast(), &raw mut len) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(value) }
}
