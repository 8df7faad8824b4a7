//! A service's queue of requests, combined to what is connections at its door.
//!
//! A server that accepts at once and queues by itself shows no wait at its
//! accept queue. Such a service tells of its requests some times a second
//! ([`QueueReport`], a line of text), and whoever stands before it joins that to what
//! it sees ([`CombinedSignals`]): one policy for both queues, which sheds connections
//! once requests wait for longer than they can spare. A service is believed for
//! [`STALE_AFTER`]; one that stops, hangs or ends holds up nobody.
//!
//! Requests are no connections. What a policy is told to be served are the
//! connections that the requests served belong to, by how many requests arrived
//! for each connection lately; where connections last far longer than that,
//! turning new ones away is slow to help.
//!
//! Not here: files and clocks. The layer of `guard::tower` writes the
//! line, `host` reads it; any other program can write it, too (ADR 0042).
//!
//! ```
//! use guard::combined::{Joined, Told};
//! use guard::Signals;
//! use queueing::{Span, Time};
//!
//! let at = |ms| Time::ZERO + Span::from_millis(ms);
//! let mut combined = Joined::new(1);
//! for sequence in 1..3 {
//!     let report = Told { sequence, waiting: 7, delay: Span::from_millis(30), ..Told::default() };
//!     combined.record(at(10 * sequence), 0, Told::read(&report.line()).unwrap());
//! }
//! let connections = Signals { waiting: 1, delay: Span::from_millis(2), ..Signals::default() };
//! assert_eq!(combined.combine(at(30), connections).delay, Span::from_millis(32));
//! assert_eq!(combined.combine(at(3_000), connections).delay, connections.delay, "nobody has told for long");
//! ```

use queueing::{Span, Time};

use crate::Signals;

/// What a service tells of its requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueReport {
    /// Another number each time: the same one again is no news.
    pub sequence: u64,
    /// Requests that wait now.
    pub waiting: u64,
    /// How long the one that has waited longest has waited.
    pub delay: Span,
    /// Whether others may go before that one.
    pub reordered: bool,
    /// Whether somebody has less left than serving him may take, and waits for a core:
    /// of interest to who divides cores, and not to a door.
    pub late: bool,
    /// What half of them can spare at most, where they say so.
    pub budget: Option<Span>,
    /// Requests that arrived since the service began.
    pub arrived: u64,
    /// Of these, those served.
    pub served: u64,
}

/// What a line begins with: of whom it is, and which version.
const NAME: &str = "greenwave-queue 1 ";

impl QueueReport {
    /// Bytes of a line.
    pub const LEN: usize = 256;

    /// The line. All are of one length, so that one can be written over the last.
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

    /// What a line says. `None` where it is none, and where it is half of one
    /// and half of the next, as a file can be that is just being written: then
    /// `sequence` and `end` differ. Further fields may stand in it, in any order.
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

/// What all services told that told lately.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Requests {
    /// Services that are listened to.
    pub services: u64,
    /// Of these, those that told lately.
    pub reporting: u64,
    /// Requests that wait there.
    pub waiting: u64,
    /// How long the one that has waited longest has waited.
    pub delay: Span,
    /// What half of those can spare that can spare least, where that is known.
    pub budget: Option<Span>,
}

/// Without news for so long, what a service told counts for nothing.
pub const STALE_AFTER: Span = Span::from_millis(500);
/// How far back it is remembered how many requests a connection makes.
const MEMORY: Span = Span::from_secs(10);
/// Services tell when it suits them: what was served is spread over this.
const SMOOTHING: Span = Span::from_millis(50);

/// Joins what services tell to what is connections at their door.
#[derive(Clone, Debug)]
pub struct CombinedSignals {
    services: Vec<ReportSource>,
    last_combined: Option<Time>,
    /// Connections that the server took, and requests that arrived, lately.
    accepted: f64,
    arrived: f64,
    /// Connections served that no look was told of yet, and parts of one.
    pending: f64,
    part: f64,
    requests: Requests,
    is_stale: bool,
}

/// A service that is listened to.
#[derive(Clone, Debug, Default)]
pub struct ReportSource {
    last_report: Option<QueueReport>,
    /// When it last had news.
    last_news: Option<Time>,
    /// Requests that [`CombinedSignals::join`] was not told of yet.
    arrived: u64,
    served: u64,
}

impl ReportSource {
    /// It had told this when it was looked at at `now`. What it told when it was first
    /// looked at may be of a service that is long gone: news begin with the next.
    pub fn record(&mut self, now: Time, report: QueueReport) {
        if let Some(last) = self.last_report.replace(report)
            && last.sequence != report.sequence
        {
            self.last_news = Some(now);
            // Less than before is one that has begun anew.
            self.arrived += report.arrived.saturating_sub(last.arrived);
            self.served += report.served.saturating_sub(last.served);
        }
    }

    /// Whether it has ever had news.
    #[must_use]
    pub const fn has_reported(&self) -> bool {
        self.last_news.is_some()
    }

    /// What it report, if it had news within [`STALE_AFTER`] before `now`.
    #[must_use]
    pub fn fresh(&self, now: Time) -> Option<QueueReport> {
        self.last_report
            .filter(|_| self.last_news.is_some_and(|last_news| now.since(last_news) <= STALE_AFTER))
    }
}

impl CombinedSignals {
    /// Listens to so many services; where there are none, nothing is combined.
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

    /// [`ReportSource::hear`] of service `at`, from 0.
    ///
    /// # Panics
    /// When there are not so many services.
    pub fn record(&mut self, now: Time, at: usize, report: QueueReport) {
        self.services[at].record(now, report);
    }

    /// What is `connections` at the door of connections, with the requests late it:
    /// whoever waits, waits in both queues.
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
            reordered,
            budget: requests.budget.into_iter().chain(connections.budget).min(),
            ..connections
        }
    }

    /// What the services report, as of the last look.
    #[must_use]
    pub const fn requests(&self) -> Requests {
        self.requests
    }

    /// Whether the last one that told had fallen silent at that look. What a policy
    /// has learned it learned of that one: it is made anew, and everybody comes in.
    #[must_use]
    pub const fn is_stale(&self) -> bool {
        self.is_stale
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_is_told_is_read(sequence: u64, waiting: u64, delay: u64, reordered: bool, late: bool, budget: Option<u64>, arrived: u64, served: u64) {
            let (delay, budget) = (Span::from_nanos(delay), budget.map(Span::from_nanos));
            let report = QueueReport { sequence, waiting, delay, reordered, late, budget, arrived, served };
            prop_assert_eq!(report.line().len(), QueueReport::LEN);
            prop_assert_eq!(QueueReport::read(&report.line()), Some(report));
        }

        /// Half of one and half of another is none, wherever it is cut.
        #[test]
        fn what_is_half_written_is_not_read(sequence in 0..u64::MAX, cut in 0..QueueReport::LEN) {
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
        assert_eq!(combined.combine(at(0), connections), connections, "it may be of yesterday");
        combined.record(at(10), 0, report(8, 0));
        combined.record(at(10), 1, QueueReport { delay: Span::from_millis(50), ..report(20, 0) });
        combined.record(
            at(20),
            1,
            QueueReport { delay: Span::from_millis(50), reordered: true, ..report(21, 0) },
        );
        let both = combined.combine(at(20), connections);
        assert!(both.reordered, "one of the queues has an order of its own");
        assert_eq!((both.waiting, both.delay), (7, Span::from_millis(52)));
        assert_eq!(both.budget, Some(Span::from_millis(8)));
        let one = combined.combine(at(515), connections);
        assert_eq!((one.waiting, one.delay, combined.requests().reporting), (4, Span::from_millis(52), 1));
        combined.record(at(600), 1, report(21, 5));
        assert_eq!(combined.combine(at(600), connections), connections, "the same sequence again is no news");
        assert_eq!(combined.requests(), Requests { services: 2, ..Requests::default() });
    }

    #[test]
    fn what_is_served_are_connections_by_the_requests_that_each_makes() {
        let mut combined = CombinedSignals::new(1);
        // Three requests for each connection, half of them served; it begins anew in between.
        let mut served = 0;
        for look in 0..300 {
            let since = if look < 150 { look } else { look - 150 };
            combined.record(at(10 * look), 0, report(look, 30 * since));
            let connections = Signals { served: 20, ..Signals::default() };
            let signals = combined.combine(at(10 * look), connections);
            served += if look >= 100 { signals.served } else { 0 };
        }
        // 30 requests of 60 in 10 ms, 20 connections: 10 in 10 ms; once there are none to tell of.
        assert!((1_970..=2_010).contains(&served), "{served}");
    }
}
