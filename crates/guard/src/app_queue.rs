//! Signals of a service's request queue, combined with those of its accept queue.
//!
//! A server that accepts at once and queues requests itself shows no delay at its accept queue.
//! Such a service publishes a [`QueueReport`], one line of text, several times a second.
//! [`CombinedSignals`] adds the reports to the signals of the accept queue, so one policy covers
//! both queues and sheds connections once requests wait longer than they can afford. A report
//! older than [`STALE_AFTER`] is ignored, so a service that stops or hangs blocks nothing.
//!
//! Policies count connections, not requests: served requests are converted by the recent ratio of
//! connections to requests. With long-lived connections shedding new ones takes effect late.
//!
//! Not here: files and clocks. The layer of `guard::tower`, or any other program, writes the
//! line; `host` reads it (ADR 0042).
//!
//! ```
//! use guard::app_queue::{CombinedSignals, QueueReport};
//! use guard::Signals;
//! use queueing::{Span, Time};
//!
//! let at = |ms| Time::ZERO + Span::from_millis(ms);
//! let mut combined = CombinedSignals::new(1);
//! for sequence in 1..3 {
//!     let report =
//!         QueueReport { sequence, waiting: 7, delay: Span::from_millis(30), ..QueueReport::default() };
//!     combined.record(at(10 * sequence), 0, QueueReport::read(&report.line()).unwrap());
//! }
//! let connections = Signals { waiting: 1, delay: Span::from_millis(2), ..Signals::default() };
//! assert_eq!(combined.combine(at(30), connections).delay, Span::from_millis(32));
//! assert_eq!(combined.combine(at(3_000), connections).delay, connections.delay, "the report is stale");
//! ```

use queueing::{Span, Time};

use crate::{Responses, Signals};

/// State of a service's request queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueReport {
    /// Sequence number; a report with an unchanged one is not new.
    pub sequence: u64,
    /// Requests waiting now.
    pub waiting: u64,
    /// Age of the oldest waiting request.
    pub delay: Span,
    /// True if requests may overtake the oldest one.
    pub reordered: bool,
    /// True if a request that needs a core has low slack; for the core scheduler, not for
    /// admission control.
    pub late: bool,
    /// Median of the time that requests can afford to wait, if known.
    pub budget: Option<Span>,
    /// Requests arrived since the service started.
    pub arrived: u64,
    /// Requests served since the service started.
    pub served: u64,
}

/// Prefix of a line: name and version.
const NAME: &str = "greenwave-queue 1 ";

impl QueueReport {
    /// Length of a line in bytes.
    pub const LEN: usize = 256;

    /// Formats the line; its length is fixed, so it can be overwritten in place.
    #[must_use]
    pub fn line(&self) -> String {
        let Self { sequence, waiting, delay, reordered, late, budget, arrived, served } = *self;
        let (reordered, late) = (u8::from(reordered), u8::from(late));
        let (delay_ns, end) = (delay.as_nanos(), sequence);
        let budget_ns = budget.map_or_else(|| "-".to_owned(), |budget| budget.as_nanos().to_string());
        let line = format!(
            "{NAME}turn={sequence} waiting={waiting} delay_ns={delay_ns} reordered={reordered} \
             behind={late} budget_ns={budget_ns} came={arrived} served={served} end={end}"
        );
        format!("{line:<width$}\n", width = Self::LEN - 1)
    }

    /// Parses a line; fields may be in any order, unknown ones are ignored. `None` for other
    /// texts, and for a line read during a write: then `turn` and `end` differ.
    #[must_use]
    pub fn read(text: &str) -> Option<Self> {
        let line = text.lines().next()?.strip_prefix(NAME)?;
        let field = |name: &str| line.split(' ').find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
        let number = |name: &str| field(name)?.parse::<u64>().ok();
        let is = |name: &str| number(name).is_some_and(|number| number > 0);
        let sequence = number("turn").filter(|sequence| number("end") == Some(*sequence))?;
        Some(Self {
            sequence,
            waiting: number("waiting")?,
            delay: Span::from_nanos(number("delay_ns")?),
            reordered: is("reordered"),
            late: is("behind"),
            budget: match field("budget_ns")? {
                "-" => None,
                _ => Some(Span::from_nanos(number("budget_ns")?)),
            },
            arrived: number("came")?,
            served: number("served")?,
        })
    }
}

/// Summary of all fresh reports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Requests {
    /// Services configured.
    pub services: u64,
    /// Services with a fresh report.
    pub reporting: u64,
    /// Requests waiting in those services.
    pub waiting: u64,
    /// Age of the oldest of them.
    pub delay: Span,
    /// Least of the services' median budgets, if known.
    pub budget: Option<Span>,
}

/// Age after which a report is ignored.
pub const STALE_AFTER: Span = Span::from_millis(500);
/// Time constant of the ratio of connections to requests.
const MEMORY: Span = Span::from_secs(10);
/// Time constant that smooths served requests, since services report at their own times.
const SMOOTHING: Span = Span::from_millis(50);

/// Accept-queue signals combined with the services' reports.
#[derive(Clone, Debug)]
pub struct CombinedSignals {
    services: Vec<ReportSource>,
    last_combined: Option<Time>,
    /// Connections accepted and requests arrived, decaying.
    accepted: f64,
    arrived: f64,
    /// Served connections not yet passed to a policy, and the fraction of one.
    pending: f64,
    part: f64,
    requests: Requests,
    is_stale: bool,
}

/// Reports of one service.
#[derive(Clone, Debug, Default)]
pub struct ReportSource {
    last_report: Option<QueueReport>,
    /// Time of the last new report.
    last_news: Option<Time>,
    /// Requests not yet passed on by [`CombinedSignals::combine`].
    arrived: u64,
    served: u64,
}

impl ReportSource {
    /// Records `report`, read at `now`. The first one may be left from an earlier process, so
    /// only later ones count as new.
    pub fn record(&mut self, now: Time, report: QueueReport) {
        if let Some(last) = self.last_report.replace(report)
            && last.sequence != report.sequence
        {
            self.last_news = Some(now);
            // A counter below its last value means that the service restarted.
            self.arrived += report.arrived.saturating_sub(last.arrived);
            self.served += report.served.saturating_sub(last.served);
        }
    }

    /// True if a new report was ever received.
    #[must_use]
    pub const fn has_reported(&self) -> bool {
        self.last_news.is_some()
    }

    /// Last report, if it was new within [`STALE_AFTER`] before `now`.
    #[must_use]
    pub fn fresh(&self, now: Time) -> Option<QueueReport> {
        self.last_report
            .filter(|_| self.last_news.is_some_and(|last_news| now.since(last_news) <= STALE_AFTER))
    }
}

impl CombinedSignals {
    /// Combines the reports of `services` services; none leaves the signals unchanged.
    #[must_use]
    pub fn new(services: usize) -> Self {
        Self {
            services: vec![ReportSource::default(); services],
            last_combined: None,
            accepted: 0.0,
            arrived: 0.0,
            pending: 0.0,
            part: 0.0,
            requests: Requests { services: services as u64, ..Requests::default() },
            is_stale: false,
        }
    }

    /// [`ReportSource::record`] for service `at`, from 0.
    ///
    /// # Panics
    /// If `at` is not less than the number of services.
    pub fn record(&mut self, now: Time, at: usize, report: QueueReport) {
        self.services[at].record(now, report);
    }

    /// `connections`, the signals of the accept queue, plus the requests behind it. Delays
    /// add, since a request waits in both queues.
    #[must_use]
    pub fn combine(&mut self, now: Time, connections: Signals) -> Signals {
        let span = self.last_combined.map_or(Span::ZERO, |last| now.since(last)).as_secs_f64();
        self.last_combined = Some(now);
        let (mut arrived, mut served, mut reordered) = (0, 0, connections.reordered);
        let mut requests = Requests { services: self.requests.services, ..Requests::default() };
        for service in &mut self.services {
            arrived += std::mem::take(&mut service.arrived);
            served += std::mem::take(&mut service.served);
            if let Some(report) = service.fresh(now) {
                requests.reporting += 1;
                requests.waiting = requests.waiting.saturating_add(report.waiting);
                requests.delay = requests.delay.max(report.delay);
                reordered |= report.reordered;
                requests.budget = requests.budget.into_iter().chain(report.budget).min();
            }
        }
        self.is_stale = self.requests.reporting > 0 && requests.reporting == 0;
        self.requests = requests;
        if requests.reporting == 0 {
            (self.accepted, self.arrived, self.pending, self.part) = (0.0, 0.0, 0.0, 0.0);
            return connections;
        }
        let decay = |of: Span| (-span / of.as_secs_f64()).exp();
        self.accepted = self.accepted * decay(MEMORY) + connections.served as f64;
        self.arrived = self.arrived * decay(MEMORY) + arrived as f64;
        let connections_per_request = if self.arrived > 0.0 { self.accepted / self.arrived } else { 1.0 };
        self.pending += served as f64 * connections_per_request;
        self.part += self.pending * (1.0 - decay(SMOOTHING));
        self.pending *= decay(SMOOTHING);
        let whole = self.part.floor();
        self.part -= whole;
        Signals {
            served: whole as u64,
            waiting: connections.waiting.saturating_add(requests.waiting),
            delay: Span::from_nanos(connections.delay.as_nanos().saturating_add(requests.delay.as_nanos())),
            responses: connections
                .responses
                .map(|responses| Responses { time: responses.time + requests.delay, ..responses }),
            reordered,
            budget: requests.budget.into_iter().chain(connections.budget).min(),
            ..connections
        }
    }

    /// Summary at the last [`combine`](Self::combine).
    #[must_use]
    pub const fn requests(&self) -> Requests {
        self.requests
    }

    /// True if the last fresh report became stale at the last [`combine`](Self::combine). A
    /// policy has adapted to the service: create it anew, which admits all requests.
    #[must_use]
    pub const fn is_stale(&self) -> bool {
        self.is_stale
    }
}

//~ guard: the application queue reports waits by class
#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_report_reads_as_it_was_written(sequence: u64, waiting: u64, delay: u64, reordered: bool, late: bool, budget: Option<u64>, arrived: u64, served: u64) {
            let (delay, budget) = (Span::from_nanos(delay), budget.map(Span::from_nanos));
            let report = QueueReport { sequence, waiting, delay, reordered, late, budget, arrived, served };
            prop_assert_eq!(report.line().len(), QueueReport::LEN);
            prop_assert_eq!(QueueReport::read(&report.line()), Some(report));
        }

        /// Part of one line and part of the next is not a line, wherever they are cut.
        #[test]
        fn a_partly_written_line_is_not_read(sequence in 0..u64::MAX, cut in 0..QueueReport::LEN) {
            let old = QueueReport { sequence, waiting: 5, ..QueueReport::default() }.line();
            let new = QueueReport { sequence: sequence + 1, waiting: 6, delay: Span::from_nanos(9), ..QueueReport::default() };
            let mixed = new.line()[..cut].to_owned() + &old[cut..];
            let whole = [QueueReport::read(&old), Some(new), None];
            prop_assert!(whole.contains(&QueueReport::read(&mixed)), "{mixed}");
        }

        #[test]
        fn nonsense_is_not_read(text in ".{0,300}") {
            prop_assert_eq!(QueueReport::read(&text), None);
            prop_assert_eq!(QueueReport::read(&format!("{NAME}turn=1 {text} end=1")), None);
        }
    }

    fn at(ms: u64) -> Time {
        Time::ZERO + Span::from_millis(ms)
    }

    fn report(sequence: u64, requests: u64) -> QueueReport {
        let (delay, budget) = (Span::from_millis(30), Some(Span::from_millis(sequence)));
        QueueReport {
            sequence,
            waiting: 3,
            delay,
            budget,
            arrived: 2 * requests,
            served: requests,
            ..QueueReport::default()
        }
    }

    #[test]
    fn the_longest_wait_and_the_least_budget_are_believed_while_there_is_news() {
        let mut combined = CombinedSignals::new(2);
        let connections =
            Signals { waiting: 1, delay: Span::from_millis(2), served: 9, ..Signals::default() };
        combined.record(at(0), 0, report(7, 0));
        assert_eq!(combined.combine(at(0), connections), connections, "the first report may be old");
        combined.record(at(10), 0, report(8, 0));
        combined.record(at(10), 1, QueueReport { delay: Span::from_millis(50), ..report(20, 0) });
        combined.record(
            at(20),
            1,
            QueueReport { delay: Span::from_millis(50), reordered: true, ..report(21, 0) },
        );
        let both = combined.combine(at(20), connections);
        assert!(both.reordered, "one of the queues reorders");
        assert_eq!((both.waiting, both.delay), (7, Span::from_millis(52)));
        assert_eq!(both.budget, Some(Span::from_millis(8)));
        let one = combined.combine(at(515), connections);
        assert_eq!((one.waiting, one.delay, combined.requests().reporting), (4, Span::from_millis(52), 1));
        combined.record(at(600), 1, report(21, 5));
        assert_eq!(
            combined.combine(at(600), connections),
            connections,
            "an unchanged sequence number is not new"
        );
        assert_eq!(combined.requests(), Requests { services: 2, ..Requests::default() });
    }

    #[test]
    fn served_requests_are_converted_to_connections() {
        let mut combined = CombinedSignals::new(1);
        // Three requests per connection, half of them served; the service restarts half-way.
        let mut served = 0;
        for look in 0..300 {
            let since = if look < 150 { look } else { look - 150 };
            combined.record(at(10 * look), 0, report(look, 30 * since));
            let connections = Signals { served: 20, ..Signals::default() };
            let signals = combined.combine(at(10 * look), connections);
            served += if look >= 100 { signals.served } else { 0 };
        }
        // 30 of 60 requests and 20 connections per 10 ms: 10 connections; none right after the restart.
        assert!((1_970..=2_010).contains(&served), "{served}");
    }
}
