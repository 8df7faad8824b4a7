//! What a service tells of its requests, read from the file in which it does.
//!
//! A file is opened anew at each look, so one that another has taken the place of is
//! read from then on.
//! Source: [`guard::app_queue`], ADR 0042.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use guard::app_queue::QueueReport;

/// Opens a file that another program writes; what is none, such as a FIFO that nobody writes to, holds up nobody.
pub fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path)
}

/// What is told in a file; what is none, such as a pipe that nobody writes to,
/// holds up nobody.
pub fn read(path: &Path) -> io::Result<QueueReport> {
    let mut file = open(path)?;
    let mut bytes = [0; QueueReport::LEN];
    let len = file.read(&mut bytes)?;
    let told = std::str::from_utf8(&bytes[..len]).ok().and_then(QueueReport::read);
    told.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "it holds no such line"))
}
