//! Writer of queue reports, the only file that this crate writes.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

use super::Queue;
use crate::app_queue::QueueReport;

/// File with one line, overwritten in place.
pub(super) struct ReportWriter {
    file: File,
    last_report: QueueReport,
}

impl ReportWriter {
    /// Creates the file with an empty report.
    pub fn create(path: &Path) -> io::Result<Self> {
        let file = match OpenOptions::new().write(true).create_new(true).open(path) {
            Err(e) if e.kind() == ErrorKind::AlreadyExists => open_owned(path)?,
            made => made?,
        };
        let report = QueueReport::default();
        file.write_all_at(report.line().as_bytes(), 0)?;
        Ok(Self { file, last_report: report })
    }

    /// Publishes the queue's state, and `arrived` and `served` requests since the last report.
    pub fn publish(&mut self, queue: Queue, arrived: u64, served: u64) {
        let Queue { waiting, delay, reordered, late, budget } = queue;
        let (arrived, served) = (self.last_report.arrived + arrived, self.last_report.served + served);
        self.write(QueueReport {
            sequence: self.last_report.sequence + 1,
            waiting,
            delay,
            reordered,
            late,
            budget,
            arrived,
            served,
        });
    }

    /// Publishes `late` if it has changed.
    pub fn publish_late(&mut self, late: bool) {
        if self.last_report.late != late {
            self.write(QueueReport { sequence: self.last_report.sequence + 1, late, ..self.last_report });
        }
    }

    fn write(&mut self, report: QueueReport) {
        self.last_report = report;
        // On failure readers see a stale report, which they ignore.
        let _ = self.file.write_all_at(report.line().as_bytes(), 0);
    }
}

/// The file at `path`, truncated. Refuses links and files of other users: services may write to
/// shared folders such as `/tmp`.
fn open_owned(path: &Path) -> io::Result<File> {
    let refused = |what: &str| Err(io::Error::new(ErrorKind::PermissionDenied, what.to_owned()));
    // Opening another kind of file, such as a FIFO, could block the service.
    let link = path.symlink_metadata()?;
    if !link.is_file() {
        return refused("it is not a regular file; remove it, or use a folder of the service's own");
    }
    let file = OpenOptions::new().write(true).open(path)?;
    let opened = file.metadata()?;
    let user = std::fs::metadata("/proc/self")?.uid();
    if (opened.dev(), opened.ino()) != (link.dev(), link.ino()) || opened.uid() != user || opened.nlink() > 1
    {
        return refused(
            "it belongs to another user or has several hard links; remove it, or use another folder",
        );
    }
    file.set_len(0)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_its_own_is_written_over_and_a_link_is_not_followed() {
        let folder = std::env::temp_dir().join(format!("greenwave-tell-{}", std::process::id()));
        std::fs::create_dir(&folder).unwrap();
        let [file, precious, link, second] =
            ["file", "precious", "link", "second"].map(|name| folder.join(name));
        for _ in 0..2 {
            drop(ReportWriter::create(&file).unwrap());
            assert!(std::fs::read_to_string(&file).unwrap().starts_with("greenwave-queue "));
        }
        std::fs::write(&precious, "precious").unwrap();
        std::os::unix::fs::symlink(&precious, &link).unwrap();
        std::fs::hard_link(&precious, &second).unwrap();
        for path in [&link, &second, &folder] {
            let error = ReportWriter::create(path).map(drop).unwrap_err().to_string();
            assert!(error.contains("remove it, or use "), "{error}");
        }
        assert_eq!(std::fs::read_to_string(&precious).unwrap(), "precious");
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
