//! Queue report of a service, read from its file.
//!
//! The file is opened for each read, so a replaced file is used from then on.
//!
//! Source: [`guard::app_queue`], ADR 0042.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use guard::app_queue::QueueReport;

/// Opens a file that another program writes, without blocking on a FIFO that has no writer.
pub fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path)
}

/// Reads the report in a file, without blocking on a pipe that has no writer.
pub fn read(path: &Path) -> io::Result<QueueReport> {
    let mut file = open(path)?;
    let mut bytes = [0; QueueReport::LEN];
    let len = file.read(&mut bytes)?;
    let report = std::str::from_utf8(&bytes[..len]).ok().and_then(QueueReport::read);
    report.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "it holds no such line"))
}
