//! Queue reports of services, read from their files.
//!
//! A file that cannot be read or is empty counts as no report; an unchanged report expires after a
//! while.
//!
//! Source: [`guard::app_queue`], ADR 0042.

use std::convert::Infallible;
use std::path::PathBuf;
use std::str::FromStr;

use guard::Signals;
use guard::app_queue::{CombinedSignals, QueueReport, Requests};
use queueing::Time;

use super::error::GuardError;
use host::queue_report;

/// Maximum number of queue-report files of a guard or of a task.
pub const QUEUE_REPORTS_MAX: usize = 16;

/// File in which a service reports its queue, and the guarded port that leads to the service: `FILE` for
/// every port, `8443=FILE` for one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReportFile {
    /// The port; `None`: every guarded one.
    pub port: Option<u16>,
    /// The file.
    pub path: PathBuf,
}

impl ReportFile {
    /// Paths of the reports that belong to `port`, each once.
    pub(super) fn of_port(files: &[Self], port: u16) -> Vec<PathBuf> {
        let of_port = files.iter().filter(|file| file.port.is_none_or(|own| own == port));
        let mut paths: Vec<PathBuf> = Vec::new();
        for ReportFile { path, .. } in of_port {
            if !paths.contains(path) {
                paths.push(path.clone());
            }
        }
        paths
    }
}

impl FromStr for ReportFile {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        let of_port = text.split_once('=').and_then(|(port, path)| Some((port.parse().ok()?, path)));
        Ok(match of_port {
            Some((port, path)) => Self { port: Some(port), path: path.into() },
            None => Self { port: None, path: text.into() },
        })
    }
}

/// Queue-report files, read once per control step, whatever the number of ports.
#[derive(Debug)]
pub(super) struct ReportFiles(Vec<PathBuf>);

impl ReportFiles {
    /// Files that have a report each.
    ///
    /// # Errors
    /// A file has no report, or there are too many files.
    pub fn new(paths: &[PathBuf]) -> Result<Self, GuardError> {
        for path in paths {
            queue_report::read(path).map_err(|source| GuardError::NoReport { path: path.clone(), source })?;
        }
        Self::expected(paths)
    }

    /// Files that need not have a report yet.
    ///
    /// # Errors
    /// There are too many files.
    pub fn expected(paths: &[PathBuf]) -> Result<Self, GuardError> {
        check_number(paths.len())?;
        Ok(Self(paths.to_vec()))
    }

    /// The report of each file; `None` where it cannot be read.
    pub fn read(&self) -> Vec<Option<QueueReport>> {
        self.0.iter().map(|path| queue_report::read(path).ok()).collect()
    }

    /// Signals of all files.
    pub fn signals_of_all(&self) -> QueueReports {
        QueueReports::of((0..self.0.len()).collect())
    }

    /// Signals of those `files` that belong to `port`.
    ///
    /// # Errors
    /// There are too many files for the port.
    pub fn signals_of_port(&self, files: &[ReportFile], port: u16) -> Result<QueueReports, GuardError> {
        let paths = ReportFile::of_port(files, port);
        check_number(paths.len())?;
        Ok(QueueReports::of(
            paths.iter().filter_map(|path| self.0.iter().position(|own| own == path)).collect(),
        ))
    }
}

fn check_number(given: usize) -> Result<(), GuardError> {
    match given {
        0..=QUEUE_REPORTS_MAX => Ok(()),
        _ => Err(GuardError::TooMany { what: "services", given, max: QUEUE_REPORTS_MAX }),
    }
}

/// Signals of the services that report in some of the files.
#[derive(Debug)]
pub(super) struct QueueReports {
    /// Places of the files in [`ReportFiles::read`].
    files: Vec<usize>,
    signals: CombinedSignals,
}

impl QueueReports {
    fn of(files: Vec<usize>) -> Self {
        let signals = CombinedSignals::new(files.len());
        Self { files, signals }
    }

    /// Adds the requests in the reports `read` to the signals `seen` of connections.
    pub fn join(&mut self, now: Time, read: &[Option<QueueReport>], seen: Signals) -> Signals {
        for (service, &file) in self.files.iter().enumerate() {
            if let Some(report) = read[file] {
                self.signals.record(now, service, report);
            }
        }
        self.signals.combine(now, seen)
    }

    /// Requests reported at the last control step.
    pub fn requests(&self) -> Requests {
        self.signals.requests()
    }

    /// True if no service reports any longer at that control step, and one did before.
    pub fn is_silenced(&self) -> bool {
        self.signals.is_stale()
    }
}

//~ xdp-guard: partial and foreign queue reports are rejected
#[cfg(test)]
mod tests {
    use queueing::Span;

    use super::*;

    #[test]
    fn a_report_file_may_be_overwritten_or_replaced() {
        let path = std::env::temp_dir().join(format!("greenwave-queue-reports-{}", std::process::id()));
        let write = |sequence: u64| {
            let report = QueueReport {
                sequence,
                waiting: sequence,
                delay: Span::from_millis(sequence),
                ..QueueReport::default()
            };
            std::fs::write(&path, report.line()).unwrap();
        };
        write(1);
        let files = ReportFiles::new(std::slice::from_ref(&path)).unwrap();
        let mut reports = files.signals_of_all();
        let mut waiting = |ms: u64| {
            reports.join(Time::from_nanos(ms * 1_000_000), &files.read(), Signals::default()).waiting
        };
        assert_eq!(waiting(10), 0, "an old report does not count");
        write(2);
        assert_eq!(waiting(20), 2);
        std::fs::remove_file(&path).unwrap();
        assert_eq!(waiting(30), 2, "an unchanged report counts for a while");
        write(3);
        assert_eq!(waiting(40), 3);
        std::fs::write(&path, "greenwave-queue 1 turn=4").unwrap();
        assert_eq!((waiting(50), waiting(600)), (3, 0));
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn a_report_belongs_to_its_port_or_to_every_port() {
        let files: Vec<ReportFile> =
            ["8443=/run/a=b", "/run/c", "./80=d"].map(|text| text.parse().unwrap()).into();
        assert_eq!(ReportFile::of_port(&files, 8443), ["/run/a=b", "/run/c", "./80=d"].map(PathBuf::from));
        assert_eq!(ReportFile::of_port(&files, 80), ["/run/c", "./80=d"].map(PathBuf::from));
        let twice: Vec<ReportFile> = ["80=/run/c", "/run/c"].map(|text| text.parse().unwrap()).into();
        assert_eq!(ReportFile::of_port(&twice, 80), [PathBuf::from("/run/c")], "it counts once");
    }

    #[test]
    fn a_file_without_a_report_is_refused_with_its_path() {
        let refused = |path: &str| ReportFiles::new(&[path.into()]).map(drop).unwrap_err();
        for (path, why) in [
            ("/no/such/file", "No such file"),
            ("/dev/null", "no such line"),
            ("/dev/zero", "no such line"),
            ("/proc/self/status", "no such line"),
            ("/", "Is a directory"),
        ] {
            let error = refused(path);
            assert!(error.to_string().contains(path) && error.to_string().contains(why), "{error}");
            assert!(error.advice().is_some());
        }
        let many = ReportFiles::expected(&vec!["/dev/null".into(); 17]).map(drop).unwrap_err();
        assert_eq!(many.to_string(), "17 services exceed the maximum of 16");
    }
}
