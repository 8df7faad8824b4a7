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
use guard::app_queue::{CombinedSignals, Requests};
use queueing::Time;

use super::error::GuardError;
use host::queue_report;

/// Maximum of queue-report files of a guard or of a task.
pub const JOINED_MAX: usize = 16;

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
    /// Paths of the reports that belong to `port`.
    pub(super) fn of_port(files: &[Self], port: u16) -> Vec<PathBuf> {
        let ours = files.iter().filter(|file| file.port.is_none_or(|its| its == port));
        ours.map(|file| file.path.clone()).collect()
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

/// Reader of queue reports.
#[derive(Debug)]
pub(super) struct QueueReports {
    paths: Vec<PathBuf>,
    joined: CombinedSignals,
}

impl QueueReports {
    /// Reader of these files.
    ///
    /// # Errors
    /// One has no report, or there are too many.
    pub fn new(paths: &[PathBuf]) -> Result<Self, GuardError> {
        for path in paths {
            queue_report::read(path).map_err(|source| GuardError::Untold { path: path.clone(), source })?;
        }
        Self::expected(paths)
    }

    /// Reader of these files, which need not have a report yet.
    ///
    /// # Errors
    /// There are too many.
    pub fn expected(paths: &[PathBuf]) -> Result<Self, GuardError> {
        if paths.len() > JOINED_MAX {
            return Err(GuardError::TooMany { what: "services", given: paths.len(), max: JOINED_MAX });
        }
        Ok(Self { paths: paths.to_vec(), joined: CombinedSignals::new(paths.len()) })
    }

    /// Joins the reports of requests to the signals `seen` of connections.
    pub fn join(&mut self, now: Time, seen: Signals) -> Signals {
        for (at, path) in self.paths.iter().enumerate() {
            if let Ok(told) = queue_report::read(path) {
                self.joined.record(now, at, told);
            }
        }
        self.joined.combine(now, seen)
    }

    /// Requests reported at the last look.
    pub fn requests(&self) -> Requests {
        self.joined.requests()
    }

    /// True if the last reporting service had stopped reporting at that look.
    pub fn is_silenced(&self) -> bool {
        self.joined.is_stale()
    }
}

//~ xdp-guard: partial and foreign queue reports are rejected
#[cfg(test)]
mod tests {
    use guard::app_queue::QueueReport;
    use queueing::Span;

    use super::*;

    #[test]
    fn a_service_is_heard_whose_file_is_written_over_or_replaced() {
        let path = std::env::temp_dir().join(format!("greenwave-tellers-{}", std::process::id()));
        let tell = |turn: u64| {
            let told = QueueReport {
                sequence: turn,
                waiting: turn,
                delay: Span::from_millis(turn),
                ..QueueReport::default()
            };
            std::fs::write(&path, told.line()).unwrap();
        };
        tell(1);
        let mut tellers = QueueReports::new(std::slice::from_ref(&path)).unwrap();
        let mut waiting =
            |ms: u64| tellers.join(Time::from_nanos(ms * 1_000_000), Signals::default()).waiting;
        assert_eq!(waiting(10), 0, "an old report does not count");
        tell(2);
        assert_eq!(waiting(20), 2);
        std::fs::remove_file(&path).unwrap();
        assert_eq!(waiting(30), 2, "an unchanged report counts for a while");
        tell(3);
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
    }

    #[test]
    fn what_tells_nothing_is_refused_and_said() {
        let refused = |path: &str| QueueReports::new(&[path.into()]).map(drop).unwrap_err();
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
        let many = QueueReports::expected(&vec!["/dev/null".into(); 17]).map(drop).unwrap_err();
        assert_eq!(many.to_string(), "17 services exceed the maximum of 16");
    }
}
