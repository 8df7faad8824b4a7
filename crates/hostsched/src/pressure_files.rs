//! Pressure reports: services that report a late request in their queue-report file.
//!
//! A scheduler sees threads. Only the service knows that a request has less time left than it may need,
//! and by the time its threads wait for a core, others may have it.
//!
//! A file need not exist yet. A file that cannot be read or does not change stops counting after a
//! while.
//!
//! Source: ADR 0060.

use std::path::{Path, PathBuf};

use guard::app_queue::ReportSource;
use queueing::{Span, Time};
use sched::cores::TaskId;

use host::queue_report;

/// Interval at which files are read.
const EVERY: Span = Span::from_millis(1);

/// Reports by task.
#[derive(Debug)]
pub struct PressureReports {
    /// Report sources by task, each with its file.
    tasks: Vec<Vec<(PathBuf, ReportSource)>>,
    read: Option<Time>,
}

impl PressureReports {
    /// Reads these files, listed by task.
    pub fn new(files: Vec<Vec<PathBuf>>) -> Self {
        let listen =
            |files: Vec<PathBuf>| files.into_iter().map(|file| (file, ReportSource::default())).collect();
        Self { tasks: files.into_iter().map(listen).collect(), read: None }
    }

    /// Reads the files when that is due.
    pub fn read(&mut self, now: Time) {
        if self.read.is_some_and(|read| now.since(read) < EVERY) {
            return;
        }
        self.read = Some(now);
        for (file, service) in self.tasks.iter_mut().flatten() {
            if let Ok(report) = queue_report::read(file) {
                service.record(now, report);
            }
        }
    }

    /// True if a service of `task` was behind at the last read.
    pub fn is_behind(&self, task: TaskId) -> bool {
        let fresh_report = |service: &ReportSource| service.fresh(self.read?);
        self.tasks[task.index()]
            .iter()
            .any(|(_, service)| fresh_report(service).is_some_and(|report| report.late))
    }

    /// Files of `task` that no service has ever written.
    pub fn silent(&self, task: TaskId) -> impl Iterator<Item = &Path> {
        let silent = self.tasks[task.index()].iter().filter(|(_, service)| !service.has_reported());
        silent.map(|(file, _)| file.as_path())
    }
}

#[cfg(test)]
mod tests {
    use guard::app_queue::QueueReport;

    use super::*;

    #[test]
    fn a_pressure_file_is_believed_while_it_is_renewed() {
        let path = std::env::temp_dir().join(format!("greenwave-asking-{}", std::process::id()));
        let (web, batch) = (TaskId(0), TaskId(1));
        let mut asking = PressureReports::new(vec![vec![path.clone()], Vec::new()]);
        let mut sample = |ms: u64, report: Option<(u64, bool)>| {
            if let Some((turn, behind)) = report {
                std::fs::write(
                    &path,
                    QueueReport { sequence: turn, late: behind, ..QueueReport::default() }.line(),
                )
                .unwrap();
            }
            asking.read(Time::ZERO + Span::from_millis(ms));
            assert!(!asking.is_behind(batch));
            (asking.is_behind(web), asking.silent(web).count())
        };
        assert_eq!(sample(0, None), (false, 1), "the file does not exist yet");
        assert_eq!(sample(10, Some((7, true))), (false, 1), "an old report does not count");
        assert_eq!(sample(20, Some((8, true))), (true, 0));
        assert_eq!(sample(30, Some((9, false))), (false, 0));
        assert_eq!(sample(40, Some((10, true))), (true, 0));
        assert_eq!(sample(500, None), (true, 0));
        assert_eq!(sample(600, None), (false, 0), "the report has not changed for long");
        std::fs::remove_file(&path).unwrap();
    }
}
