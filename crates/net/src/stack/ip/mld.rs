//! MLD reports: multicast group memberships of this host, and when to report them.
//!
//! Each address has a solicited-node group; a switch with MLD snooping has to know its listeners. A
//! group is reported twice when joined or left, and after each query within the response time of
//! the query. Supports neither source filters nor version 1 reports.
//!
//! Source: RFC 3810 §6, RFC 3590.

use std::net::Ipv6Addr;

use queueing::{Span, Time};
use wire::mld::AddressRecord;

use super::interface::ADDRS_MAX;

/// Number of reports of each change (Robustness Variable), and their interval.
const TIMES: u8 = 2;
const INTERVAL: Span = Span::from_secs(1);
/// Maximum number of groups with a pending report: all that are joined, and as many left.
const WAITING_MAX: usize = 2 * ADDRS_MAX;
/// Longest delay of a response, whatever the query allows.
const DELAY_MAX: Span = Span::from_secs(10);

#[derive(Clone, Copy, Debug)]
struct Waiting {
    group: Ipv6Addr,
    record: AddressRecord,
    /// Number of reports left, and the time of the next.
    times: u8,
    at: Time,
}

/// Pending reports.
#[derive(Debug, Default)]
pub(crate) struct Reports {
    waiting: Vec<Waiting>,
}

impl Reports {
    /// Schedules the report that `group` was joined or left.
    pub(crate) fn on_change(&mut self, now: Time, group: Ipv6Addr, record: AddressRecord) {
        self.waiting.retain(|waiting| waiting.group != group);
        self.push(Waiting { group, record, times: TIMES, at: now });
    }

    /// Schedules the response to a query about `group`, which this host listens to, after
    /// `part`/256 of the response time, so that hosts do not respond all at once.
    pub(crate) fn on_query(&mut self, now: Time, group: Ipv6Addr, within: Span, part: u8) {
        let at = now + within.min(DELAY_MAX) * u64::from(part) / 256;
        match self.waiting.iter_mut().find(|waiting| waiting.group == group) {
            // The pending report serves as the response.
            Some(waiting) => waiting.at = waiting.at.min(at),
            None => self.push(Waiting { group, record: AddressRecord::Listening, times: 1, at }),
        }
    }

    fn push(&mut self, waiting: Waiting) {
        if self.waiting.len() < WAITING_MAX {
            self.waiting.push(waiting);
        }
    }

    /// The next report due at `now`.
    pub(crate) fn poll(&mut self, now: Time) -> Option<(AddressRecord, Ipv6Addr)> {
        let i = self.waiting.iter().position(|waiting| waiting.at <= now)?;
        let waiting = &mut self.waiting[i];
        let due = (waiting.record, waiting.group);
        (waiting.times, waiting.at) = (waiting.times - 1, now + INTERVAL);
        if waiting.times == 0 {
            self.waiting.remove(i);
        }
        Some(due)
    }

    /// Time when [`Reports::poll`] is due.
    pub(crate) fn deadline(&self) -> Time {
        self.waiting.iter().map(|waiting| waiting.at).min().unwrap_or(Time::MAX)
    }
}

//~ ip: MLDv2 reports the groups of the stack's addresses on joining, leaving and when queried (RFC 3810, 3590)
#[cfg(test)]
mod tests {
    use super::*;

    const GROUP: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 1, 0xff00, 1);

    fn at(ms: u64) -> Time {
        Time::ZERO + Span::from_millis(ms)
    }

    #[test]
    fn a_change_is_reported_twice_a_second_apart() {
        let mut reports = Reports::default();
        reports.on_change(at(0), GROUP, AddressRecord::Joined);
        assert_eq!(
            [0, 0, 999].map(|ms| reports.poll(at(ms))),
            [Some((AddressRecord::Joined, GROUP)), None, None]
        );
        assert_eq!(reports.deadline(), at(1000));
        assert_eq!([1000, 5000].map(|ms| reports.poll(at(ms))), [Some((AddressRecord::Joined, GROUP)), None]);
        reports.on_change(at(5000), GROUP, AddressRecord::Joined);
        reports.on_change(at(5000), GROUP, AddressRecord::Left);
        assert_eq!([5000, 5000].map(|ms| reports.poll(at(ms))), [Some((AddressRecord::Left, GROUP)), None]);
    }

    #[test]
    fn a_query_is_answered_once_within_its_time() {
        let mut reports = Reports::default();
        reports.on_query(at(0), GROUP, Span::from_secs(8), 128);
        reports.on_query(at(1), GROUP, Span::from_secs(8), 128);
        assert_eq!(
            [3999, 4000, 9000].map(|ms| reports.poll(at(ms))),
            [None, Some((AddressRecord::Listening, GROUP)), None]
        );
    }

    #[test]
    fn pending_reports_are_bounded() {
        let mut reports = Reports::default();
        for n in 0..1000 {
            reports.on_change(at(0), Ipv6Addr::from_bits(GROUP.to_bits() + n), AddressRecord::Left);
        }
        assert_eq!(reports.waiting.len(), WAITING_MAX);
    }
}
