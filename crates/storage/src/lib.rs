//! Files without I/O: requests that wait, like everything here, by urgency.
//!
//! A [`IoScheduler`] takes requests in and gives them to a [`Disk`], the most urgent
//! first and never more than that has places for. What is done waits until
//! whoever asked is told, in the order of labels too, and how long it has
//! waited is known. Buffers belong to the disk and are lent: one that the
//! disk works on is nobody else's, whatever becomes of who asked. Who asks
//! and how he waits is `runtime`'s affair (`runtime::task::File`); what
//! carries requests out is `host`'s (`host::disk`), or memory ([`memory`]).
//!
//! ```
//! use queueing::{Priority, Time};
//! use storage::{Asked, Desk, Disk, Options, memory::MemoryDisk};
//!
//! let disk = MemoryDisk::new(4, 8, 4096);
//! disk.put("numbers", b"one two three");
//! let mut desk = Desk::new(Box::new(disk.clone()));
//! let file = desk.open("numbers".as_ref(), &Options::default())?.file;
//! let ticket = desk.begin(Time::ZERO, Priority::HIGHEST, Asked::Read { file, at: 4, len: 3 }, "me");
//! desk.submit(Time::ZERO);
//! disk.finish_one();
//! desk.collect(Time::ZERO);
//! assert_eq!(desk.tell(Time::ZERO), Some(("me", Priority::HIGHEST)));
//! let (read, buffer) = desk.poll(ticket.unwrap(), "me").unwrap();
//! assert_eq!((read?, &buffer.unwrap().bytes()[..3]), (3, &b"two"[..]));
//! # Ok::<(), std::io::Error>(())
//! ```
#![forbid(unsafe_code)]

mod disk;
mod io_scheduler;
pub mod memory;
mod request_queue;

pub use disk::{Buffer, Disk, FileId, IoCompletion, Memory, Opened, Options, Request};
pub use io_scheduler::{Answer, IoRequest, IoScheduler, REQUESTS_MAX, Ticket};
