//! Comparison of a run with its plan: was the load offered that was asked for, and if not, why.
//!
//! An open-loop measurement is about the load of its plan. If fewer requests were sent, its latencies
//! are those of another load, and too low. Either the connections could not take the requests, or the
//! generator did not come to them in time: only [`Pace`](crate::report::Pace) tells.

use queueing::Span;

use crate::plan::Plan;
use crate::report::Report;

/// Share of requests that may be missing or lagging.
const TOLERANCE: f64 = 0.01;
/// Time after the end of the plan at which the last request may be sent, so that one stall does not
/// spoil a short run.
const OVERRUN: Span = Span::from_millis(250);

/// Offered load and planned load.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PlanCheck {
    /// Requests due per second, as the seed drew them.
    pub planned_per_s: f64,
    /// Requests sent per second, until the last was sent.
    pub sent_per_s: f64,
    /// 99th percentile of the time from due until the generator came to a request.
    pub lag_p99: Span,
    /// Share of requests to which the generator came later than `late_after`.
    pub lagging: f64,
    is_kept: bool,
}

impl PlanCheck {
    /// Compares `report` with `plan`, which has a duration.
    #[must_use]
    pub fn of(report: &Report, plan: &Plan) -> Self {
        let (requests, pace) = (report.requests(), &report.pace);
        let never_sent: u64 = report.classes.iter().map(|class| class.never_sent).sum();
        let measured = |end: Span| end.saturating_sub(plan.warmup).as_secs_f64().max(1e-9);
        let end = plan.duration.unwrap_or(pace.last_sent);
        let planned_per_s = requests as f64 / measured(end);
        let sent_per_s = (requests - never_sent) as f64 / measured(end.max(pace.last_sent));
        let missing = never_sent as f64 / requests.max(1) as f64;
        let is_on_time = pace.last_sent <= end + OVERRUN || sent_per_s >= (1.0 - TOLERANCE) * planned_per_s;
        Self {
            planned_per_s,
            sent_per_s,
            lag_p99: pace.lag.quantile(0.99),
            lagging: pace.lagging as f64 / requests.max(1) as f64,
            is_kept: missing <= TOLERANCE && is_on_time,
        }
    }

    /// True if at least 99 % of the planned requests were sent, at the planned rate.
    #[must_use]
    pub fn is_kept(&self) -> bool {
        self.is_kept
    }

    /// True if the generator, not the server, was late: it came late to more than 1 % of the requests.
    #[must_use]
    pub fn is_generator_late(&self) -> bool {
        self.lagging > TOLERANCE
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::RequestClass;
    use crate::report::{ClassReport, Pace};

    fn check(requests: u64, never_sent: u64, lagging: u64, last_sent: Span) -> PlanCheck {
        let class = RequestClass {
            name: "all".to_owned(),
            share: 1.0,
            service: "1us".parse().unwrap(),
            length: 64,
            kind: 0,
            priority: 0,
        };
        let mut plan = Plan::new(1, "poisson 1000".parse().unwrap(), vec![class]);
        (plan.duration, plan.warmup) = (Some(Span::from_secs(11)), Span::from_secs(1));
        let class = ClassReport { requests, never_sent, ..ClassReport::default() };
        let pace = Pace { lagging, last_sent, ..Pace::default() };
        let report = Report { classes: vec![class], pace, ..Report::default() };
        PlanCheck::of(&report, &plan)
    }

    //~ load: a run with less load than its plan is recognized, with the cause
    #[test]
    fn a_plan_is_kept_if_its_requests_are_sent_at_its_rate() {
        let end = Span::from_secs(11);
        let kept = check(10_000, 0, 0, end);
        assert_eq!((kept.is_kept(), kept.is_generator_late(), kept.planned_per_s), (true, false, 1000.0));
        assert!(check(10_000, 100, 0, end).is_kept() && !check(10_000, 101, 0, end).is_kept());
        let slow = check(10_000, 0, 5_000, Span::from_secs(21));
        assert_eq!((slow.is_kept(), slow.is_generator_late(), slow.sent_per_s), (false, true, 500.0));
        assert!(check(10_000, 0, 0, Span::from_millis(11_090)).is_kept(), "0.9 % longer");
        assert!(check(10, 0, 0, Span::from_millis(11_240)).is_kept(), "a stall at the end of a short run");
        assert!(!check(10_000, 0, 0, Span::from_millis(11_300)).is_kept());
        assert!(check(0, 0, 0, Span::ZERO).is_kept(), "no request was due");
    }
}
