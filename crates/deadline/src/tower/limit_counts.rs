//! Counters of a server's layer.

use crate::{Cause, InvalidBudget, Outcome};

/// Counters and state of a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LimitCounts {
    /// Requests in the queue now.
    pub waiting: usize,
    /// Requests in the handler now that hold a permit.
    pub serving: usize,
    /// Requests in the handler now that released their permit.
    pub released: usize,
    /// Requests answered by the handler.
    pub served: u64,
    /// Number of the served requests that were answered after their deadline.
    pub served_late: u64,
    /// Requests whose handler was [dropped](super::Settings::abort_late) at their deadline.
    pub aborted: u64,
    /// Number of the served requests whose answer says that a called service did not answer in time
    /// ([`Cause::UpstreamTimeout`]).
    pub upstream_timeout: u64,
    /// Number of the served requests whose answer says that a called service failed or refused the call
    /// ([`Cause::UpstreamFailed`]).
    pub upstream_failed: u64,
    /// Requests rejected with no time left.
    pub expired: u64,
    /// Requests rejected with too little time left.
    pub infeasible: u64,
    /// Requests rejected because the queue was full.
    pub full: u64,
    /// Requests that only a [dry run](super::Settings::dry_run) served: the rule would have dropped them when
    /// they were next.
    pub would_drop: u64,
    /// Number of those requests that were nevertheless answered before their deadline.
    pub would_drop_in_time: u64,
    /// Requests cancelled by the client, in the queue or in the handler.
    pub cancelled: u64,
    /// Requests with a fault in their budget, in the order of [`InvalidBudget::ALL`].
    pub faults: [u64; InvalidBudget::ALL.len()],
    /// Requests that got less than requested.
    pub shortened: u64,
}

impl LimitCounts {
    /// Number of requests that ended with `cause`.
    #[must_use]
    pub fn ended_with(&self, cause: Cause) -> u64 {
        match cause {
            Cause::Expired => self.expired,
            Cause::Infeasible => self.infeasible,
            Cause::QueueFull => self.full,
            Cause::Aborted => self.aborted,
            Cause::UpstreamTimeout => self.upstream_timeout,
            Cause::UpstreamFailed => self.upstream_failed,
        }
    }

    /// Counts the end of a request, except that of an answer.
    pub(super) fn record_end(&mut self, end: Outcome) {
        match end {
            Outcome::InTime | Outcome::Late => {}
            Outcome::Cancelled => self.cancelled += 1,
            Outcome::Failed(Cause::Expired) => self.expired += 1,
            Outcome::Failed(Cause::Infeasible) => self.infeasible += 1,
            Outcome::Failed(Cause::QueueFull) => self.full += 1,
            Outcome::Failed(Cause::Aborted) => self.aborted += 1,
            Outcome::Failed(Cause::UpstreamTimeout) => self.upstream_timeout += 1,
            Outcome::Failed(Cause::UpstreamFailed) => self.upstream_failed += 1,
        }
    }

    /// Counts an answer of the handler, before the deadline if `in_time`.
    pub(super) fn record_answer(&mut self, in_time: bool) {
        self.served += 1;
        self.served_late += u64::from(!in_time);
    }
}
