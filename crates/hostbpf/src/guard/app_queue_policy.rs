//! Guard policy on greenwave's own stack that includes the services' queue reports.
//!
//! The stack sees connections that a program has not read. Requests that a program has read and queued
//! are in its queue report, as for a guard in the kernel. This wrapper joins both, so the stack needs
//! no files.
//!
//! Source: ADR 0042.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use guard::{Limit, Policy, Signals};
use queueing::{Span, Time};

use super::GuardError;
use super::queue_reports::QueueReports;

/// A policy whose signals include queue reports.
pub struct AppQueuePolicy<Make> {
    /// Creates a fresh policy.
    anew: Make,
    policy: Box<dyn Policy>,
    tellers: QueueReports,
    /// Target delay, if it was changed.
    target: Option<Span>,
    heard: ReportCounter,
}

/// Number of looks with a report, readable elsewhere.
#[derive(Clone, Debug, Default)]
pub struct ReportCounter(Arc<AtomicU64>);

impl ReportCounter {
    /// Looks at which at least one service had reported recently.
    #[must_use]
    pub fn looks(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl<Make: Fn() -> Box<dyn Policy>> AppQueuePolicy<Make> {
    /// The policy made by `anew`, joined with reports in `paths`. The files need not exist yet: the
    /// programs that the stack serves may create them.
    ///
    /// # Errors
    /// [`GuardError::TooMany`] files.
    pub fn new(anew: Make, paths: &[PathBuf], heard: &ReportCounter) -> Result<Self, GuardError> {
        let (policy, tellers) = (anew(), QueueReports::expected(paths)?);
        Ok(Self { anew, policy, tellers, target: None, heard: heard.clone() })
    }
}

impl<Make: Fn() -> Box<dyn Policy> + Send> Policy for AppQueuePolicy<Make> {
    fn tick(&mut self, now: Time, signals: &Signals) -> Limit {
        let signals = self.tellers.join(now, *signals);
        self.heard.0.fetch_add(u64::from(self.tellers.requests().reporting > 0), Ordering::Relaxed);
        if self.tellers.is_silenced() {
            self.policy = (self.anew)();
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
        let path = std::env::temp_dir().join(format!("greenwave-joining-{}", std::process::id()));
        let heard = ReportCounter::default();
        let anew = || by_name("queue-delay", &Params::default()).expect("the policy exists");
        let mut policy = AppQueuePolicy::new(anew, std::slice::from_ref(&path), &heard).unwrap();
        let at = |look: u64| Time::ZERO + Span::from_millis(10 * look);
        // No connection waits in the stack, and the file does not exist yet.
        let seen = Signals { offered: 10, admitted: 10, served: 3, ..Signals::default() };
        assert_eq!((policy.tick(at(0), &seen), heard.looks()), (Limit::Open, 0));
        let mut look = 1;
        for turn in 1..=50 {
            let (delay, served) = (Span::from_millis(300), 3 * turn);
            let told = QueueReport {
                sequence: turn,
                waiting: 900,
                delay,
                arrived: 10 * turn,
                served,
                ..QueueReport::default()
            };
            std::fs::write(&path, told.line()).unwrap();
            policy.tick(at(look), &seen);
            look += 1;
        }
        assert_eq!(heard.looks(), 49, "an old report does not count");
        assert_ne!(policy.tick(at(look), &seen), Limit::Open);
        let later = at(look) + STALE_AFTER + STALE_AFTER;
        assert_eq!(policy.tick(later, &seen), Limit::Open);
        assert_eq!(policy.tick(later + Span::from_millis(10), &seen), Limit::Open);
        std::fs::remove_file(&path).unwrap();
    }
}
