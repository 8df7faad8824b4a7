//! Files of this machine, as a disk that tasks ask.
//!
//! [`Ring`] hands requests to the kernel by io_uring, many in one system call,
//! and nobody waits for them. [`BlockingDisk`] carries each out by a system call that its
//! thread waits for: for where io_uring cannot be had, as in many containers.
//! Both have buffers of whole pages, so files can be opened past the page
//! cache (`O_DIRECT`). A file system that refuses that is an error, never
//! a quiet way through the cache; some (btrfs with checksums) take it and cache
//! all the same, which nobody can see from here.
//! Source: io_uring(7), open(2), statx(2).

mod blocking;
mod buffers;
mod files;
mod ring;

pub use blocking::BlockingDisk;
pub use ring::{Ring, RingError};

/// Memory pages: what buffers begin at and are long in multiples of.
pub const PAGE: usize = 4096;

#[cfg(test)]
mod tests;
