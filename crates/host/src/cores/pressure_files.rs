//! Services that tell that somebody there is behind, in the file in which they tell a
//! guard of their queue.
//!
//! A scheduler sees threads. That a request has less left than it may take only its
//! service knows, and the cores may be others' by the time its threads wait for one.
//! A file need not be there yet. What cannot be read, or says nothing new, counts for
//! nothing after a while.
//! Source: ADR 0060.

use std::path::{Path, PathBuf};

use guard::app_queue::ReportSource;
use queueing::{Span, Time};
use sched::cores::TaskId;

use crate::queue_report;

/// How often files are read.
const EVERY: Span = Span::from_millis(1);

/// Who is listened to.
#[derive(Debug)]
pub struct PressureReports {
    /// By task, each with its file.
    tasks: Vec<Vec<(PathBuf, ReportSource)>>,
    read: Option<Time>,
}

impl PressureReports {
    /// Listens to services that tell in these files, by task.
    pub fn new(files: Vec<Vec<PathBuf>>) -> Self {
        let listen =
            |files: Vec<PathBuf>| files.into_iter().map(|file| (file, ReportSource::default())).collect();
        Self { tasks: files.into_iter().map(listen).collect(), read: None }
    }

    /// Reads the files, if it is time to.
    pub fn read(&mut self, now: Time) {
        if self.read.is_some_and(|read| now.since(read) < EVERY) {
            return;
        }
        self.read = Some(now);
        for (file, service) in self.tasks.iter_mut().flatten() {
            if let Ok(told) = queue_report::read(file) {
                service.record(now, told);
            }
        }
    }

    /// Whether somebody of `task` is behind, as of the last look.
    pub fn is_behind(&self, task: TaskId) -> bool {
        let told = |service: &ReportSource| service.fresh(self.read?);
        self.tasks[task.index()].iter().any(|(_, service)| told(service).is_some_and(|told| told.late))
    }

    /// Files of `task` in which nobody has ever told anything.
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
    fn who_tells_that_somebody_is_behind_is_believed_while_there_is_news() {
        let path = std::env::temp_dir().join(format!("greenwave-asking-{}", std::process::id()));
        let (web, batch) = (TaskId(0), TaskId(1));
        let mut asking = PressureReports::new(vec![vec![path.clone()], Vec::new()]);
        let mut look = |ms: u64, told: Option<(u64, bool)>| {
            if let Some((turn, behind)) = told {
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
        assert_eq!(look(0, None), (false, 1), "it is not there yet");
        assert_eq!(look(10, Some((7, true))), (false, 1), "it may be of yesterday");
        assert_eq!(look(20, Some((8, true))), (true, 0));
        assert_eq!(look(30, Some((9, false))), (false, 0));
        assert_eq!(look(40, Some((10, true))), (true, 0));
        assert_eq!(look(500, None), (true, 0));
        assert_eq!(look(600, None), (false, 0), "there was no news for long");
        std::fs::remove_file(&path).unwrap();
    }
}
