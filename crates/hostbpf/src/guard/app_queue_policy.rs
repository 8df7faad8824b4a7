//! Guard policy on greenwave's own stack that includes the services' queue reports.
//!
//! The stack sees connections that a program has not read. Requests that a program has read and queued
//! are in its queue report, as for a guard in the kernel. This wrapper adds them to the signals, so
//! the stack itself reads no files.
//!
//! Source: ADR 0042.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use guard::{Limit, Policy, Signals};
use queueing::{Span, Time};

use super::GuardError;
use super::queue_reports::{QueueReports, ReportFiles};

/// A policy whose signals include queue reports.
pub struct AppQueuePolicy<Make> {
    /// Creates a policy without learned state.
    make: Make,
    policy: Box<dyn Policy>,
    files: ReportFiles,
    reports: QueueReports,
    /// Target delay, if it was changed.
    target: Option<Span>,
    counter: ReportCounter,
}

/// Number of control steps with a report; clones share the number.
#[derive(Clone, Debug, Default)]
pub struct ReportCounter(Arc<AtomicU64>);

impl ReportCounter {
    /// Control steps at which at least one service had reported recently.
    #[must_use]
    pub fn steps(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl<Make: Fn() -> Box<dyn Policy>> AppQueuePolicy<Make> {
    /// The policy made by `make`, whose signals include the reports in `paths`. The files need not exist
    /// yet: the programs that the stack serves may create them.
    ///
    /// # Errors
    /// [`GuardError::TooMany`] files.
    pub fn new(make: Make, paths: &[PathBuf], counter: &ReportCounter) -> Result<Self, GuardError> {
        let (policy, files) = (make(), ReportFiles::expected(paths)?);
        let reports = files.signals_of_all();
        Ok(Self { make, policy, files, reports, target: None, counter: counter.clone() })
    }
}

impl<Make: Fn() -> Box<dyn Policy> + Send> Policy for AppQueuePolicy<Make> {
    fn tick(&mut self, now: Time, signals: &Signals) -> Limit {
        let signals = self.reports.join(now, &self.files.read(), *signals);
        self.counter.0.fetch_add(u64::from(self.reports.requests().reporting > 0), Ordering::Relaxed);
        if self.reports.is_silenced() {
            self.policy = (self.make)();
            self.target.into_iter().for_each(|target| self.policy.on_target(target));
            return Limit::Open;
        }
        self.policy.tick(now, &signals)
    }

    fn on_target(&mut self, target: Span) {
        self.target = Some(target);
        self.policy.on_target(target);
    }

    fn needs_system_signals(&self) -> bool {
        self.policy.needs_system_signals()
    }

    fn never_sheds(&self) -> bool {
        self.policy.never_sheds()
    }
}

//~ guard: a reported long queue sheds new connections until the reports stop
#[cfg(test)]
mod tests {
    use guard::app_queue::{QueueReport, STALE_AFTER};
    use guard::{Params, by_name};

    use super::*;

    #[test]
    fn a_long_reported_queue_sheds_until_the_reports_stop() {
        let path = std::env::temp_dir().join(format!("greenwave-queue-report-{}", std::process::id()));
        let counter = ReportCounter::default();
        let make = || by_name("queue-delay", &Params::default()).expect("the policy exists");
        let mut policy = AppQueuePolicy::new(make, std::slice::from_ref(&path), &counter).unwrap();
        let at = |step: u64| Time::ZERO + Span::from_millis(10 * step);
        // No connection waits in the stack, and the file does not exist yet.
        let seen = Signals { offered: 10, admitted: 10, served: 3, ..Signals::default() };
        assert_eq!((policy.tick(at(0), &seen), counter.steps()), (Limit::Open, 0));
        let mut step = 1;
        for sequence in 1..=50 {
            let (delay, served) = (Span::from_millis(300), 3 * sequence);
            let report = QueueReport {
                sequence,
                waiting: 900,
                delay,
                arrived: 10 * sequence,
                served,
                ..QueueReport::default()
            };
            std::fs::write(&path, report.line()).unwrap();
            policy.tick(at(step), &seen);
            step += 1;
        }
        assert_eq!(counter.steps(), 49, "an old report does not count");
        assert_ne!(policy.tick(at(step), &seen), Limit::Open);
        let later = at(step) + STALE_AFTER + STALE_AFTER;
        assert_eq!(policy.tick(later, &seen), Limit::Open);
        assert_eq!(policy.tick(later + Span::from_millis(10), &seen), Limit::Open);
        std::fs::remove_file(&path).unwrap();
    }
}
