//! File I/O scheduling without I/O.
//!
//! [`IoScheduler`] queues requests by priority and keeps at most the device's
//! queue depth in flight at a [`Disk`]. Completions are queued by priority too,
//! and report the delay until notification. Buffers belong to the disk; while
//! the disk uses one, no other code holds it, even if its request is cancelled.
//! Futures are `runtime`'s (`runtime::task::File`); system calls are `host`'s
//! (`host::disk`), or there are none ([`memory`]).
//!
//! ```
//! use queueing::{Priority, Time};
//! use storage::{Disk, FileOptions, IoRequest, IoScheduler, memory::MemoryDisk};
//!
//! let disk = MemoryDisk::new(4, 8, 4096);
//! disk.put("numbers", b"one two three");
//! let mut scheduler = IoScheduler::new(Box::new(disk.clone()));
//! let file = scheduler.open("numbers".as_ref(), &FileOptions::default())?.file;
//! let read = IoRequest::Read { file, at: 4, len: 3 };
//! let ticket = scheduler.begin(Time::ZERO, Priority::HIGHEST, read, "me");
//! scheduler.submit(Time::ZERO);
//! disk.finish_one();
//! scheduler.collect(Time::ZERO);
//! assert_eq!(scheduler.pop_waiter(Time::ZERO), Some(("me", Priority::HIGHEST)));
//! let (read, buffer) = scheduler.poll(ticket.unwrap(), "me").unwrap();
//! assert_eq!((read?, &buffer.unwrap().bytes()[..3]), (3, &b"two"[..]));
//! # Ok::<(), std::io::Error>(())
//! ```
#![forbid(unsafe_code)]

mod disk;
mod io_scheduler;
pub mod memory;
mod request_queue;

pub use disk::{Buffer, BufferMemory, Disk, DiskRequest, FileId, FileOptions, IoCompletion, OpenedFile};
pub use io_scheduler::{Completion, IoRequest, IoScheduler, REQUESTS_MAX, Ticket};
