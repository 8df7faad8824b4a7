//! Disks for the tasks' files.
//!
//! [`Ring`] submits requests by io_uring, many per system call, without blocking. [`BlockingDisk`]
//! makes one blocking system call per request, for systems without io_uring, as in many containers.
//! Both have buffers of whole pages, so files can be opened for direct I/O (`O_DIRECT`). A file system
//! that refuses this is an error, never a silent fallback to the page cache; some (btrfs with
//! checksums) accept it and cache all the same, which is not detectable.
//!
//! Source: io_uring(7), open(2), statx(2).

mod blocking;
mod buffers;
mod files;
mod ring;

pub use blocking::BlockingDisk;
pub use ring::{Ring, RingError};

/// Memory page: alignment and length unit of buffers.
pub const PAGE: usize = 4096;

#[cfg(test)]
mod tests;
