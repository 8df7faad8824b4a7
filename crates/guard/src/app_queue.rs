//! A service's queue of requests, joined to what is seen at its door.
//!
//! A server that accepts at once and queues by itself shows no wait at its
//! accept queue. Such a service tells of its requests some times a second
//! ([`QueueReport`], a line of text), and whoever stands before it joins that to what
//! it sees ([`CombinedSignals`]): one policy for both queues, which sheds connections
//! once requests wait for longer than they can spare. A service is believed for
//! [`SILENT`]; one that stops, hangs or ends holds up nobody.
//!
//! Requests are no connections. What a policy is told to be served are the
//! connections that the requests served belong to, by how many requests came
//! for each connection lately; where connections last far longer than that,
//! turning new ones away is slow to help.
//!
//! Not here: files and clocks. The layer of `guard::tower` writes the
//! line, `host` reads it; any other program can write it, too (ADR 0042).
//!
//! ```
//! use guard::joined::{Joined, Told};
//! use guard::Signals;
//! use queueing::{Span, Time};
//!
//! let at = |ms| Time::ZERO + Span::from_millis(ms);
//! let mut joined = Joined::new(1);
//! for turn in 1..3 {
//!     let told = Told { turn, waiting: 7, delay: Span::from_millis(30), ..Told::default() };
//!     joined.hear(at(10 * turn), 0, Told::read(&told.line()).unwrap());
//! }
//! let seen = Signals { waiting: 1, delay: Span::from_millis(2), ..Signals::default() };
//! assert_eq!(joined.join(at(30), seen).delay, Span::from_millis(32));
//! assert_eq!(joined.join(at(3_000), seen).delay, seen.delay, "nobody has told for long");
//! ```

use queueing::{Span, Time};

use crate::Signals;

/// What a service tells of its requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueReport {
    /// Another number each time: the same one again is no news.
    pub turn: u64,
    /// Requests that wait now.
    pub waiting: u64,
    /// How long the one that has waited longest has waited.
    pub delay: Span,
    /// Whether others may go before that one.
    pub reordered: bool,
    /// Whether somebody has less left than serving him may take, and waits for a core:
    /// of interest to who divides cores, and not to a door.
    pub behind: bool,
    /// What half of them can spare at most, where they say so.
    pub budget: Option<Span>,
    /// Requests that came since the service began.
    pub came: u64,
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
        let Self { turn, waiting, delay, reordered, behind, budget, came, served } = *self;
        let (reordered, behind) = (u8::from(reordered), u8::from(behind));
        let (delay_ns, end) = (delay.as_nanos(), turn);
        let budget_ns = budget.map_or_else(|| "-".to_owned(), |budget| budget.as_nanos().to_string());
        let line = format!(
            "{NAME}turn={turn} waiting={waiting} delay_ns={delay_ns} reordered={reordered} \
             behind={behind} budget_ns={budget_ns} came={came} served={served} end={end}"
        );
        format!("{line:<width$}\n", width = Self::LEN - 1)
    }

    /// What a line says. `None` where it is none, and where it is half of one
    /// and half of the next, as a file can be that is just being written: then
    /// `turn` and `end` differ. Further fields may stand in it, in any order.
    #[must_use]
    pub fn read(text: &str) -> Option<Self> {
        let line = text.lines().next()?.strip_prefix(NAME)?;
        let field = |name: &str| line.split(' ').find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
        let number = |name: &str| field(name)?.parse::<u64>().ok();
        let is = |name: &str| number(name).is_some_and(|number| number > 0);
        let turn = number("turn").filter(|turn| number("end") == Some(*turn))?;
        Some(Self {
            turn,
            waiting: number("waiting")?,
            delay: Span::from_nanos(number("delay_ns")?),
            reordered: is("reordered"),
            behind: is("behind"),
            budget: match field("budget_ns")? {
                "-" => None,
                _ => Some(Span::from_nanos(number("budget_ns")?)),
            },
            came: number("came")?,
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
    pub telling: u64,
    /// Requests that wait there.
    pub waiting: u64,
    /// How long the one that has waited longest has waited.
    pub delay: Span,
    /// What half of those can spare that can spare least, where that is known.
    pub budget: Option<Span>,
}

/// Without news for so long, what a service told counts for nothing.
pub const SILENT: Span = Span::from_millis(500);
/// How far back it is remembered how many requests a connection makes.
const MEMORY: Span = Span::from_secs(10);
/// Services tell when it suits them: what was served is spread over this.
const EVEN: Span = Span::from_millis(50);

/// Joins what services tell to what is seen at their door.
#[derive(Clone, Debug)]
pub struct CombinedSignals {
    services: Vec<ReportSource>,
    looked: Option<Time>,
    /// Connections that the server took, and requests that came, lately.
    accepted: f64,
    came: f64,
    /// Connections served that no look was told of yet, and parts of one.
    pending: f64,
    part: f64,
    requests: Requests,
    silenced: bool,
}

/// A service that is listened to.
#[derive(Clone, Debug, Default)]
pub struct ReportSource {
    told: Option<QueueReport>,
    /// When it last had news.
    heard: Option<Time>,
    /// Requests that [`CombinedSignals::join`] was not told of yet.
    came: u64,
    served: u64,
}

impl ReportSource {
    /// It had told this when it was looked at at `now`. What it told when it was first
    /// looked at may be of a service that is long gone: news begin with the next.
    pub fn record(&mut self, now: Time, told: QueueReport) {
        if let Some(last) = self.told.replace(told)
            && last.turn != told.turn
        {
            self.heard = Some(now);
            // Less than before is one that has begun anew.
            self.came += told.came.saturating_sub(last.came);
            self.served += told.served.saturating_sub(last.served);
        }
    }

    /// Whether it has ever had news.
    #[must_use]
    pub const fn has_reported(&self) -> bool {
        self.heard.is_some()
    }

    /// What it told, if it had news within [`SILENT`] before `now`.
    #[must_use]
    pub fn fresh(&self, now: Time) -> Option<QueueReport> {
        self.told.filter(|_| self.heard.is_some_and(|heard| now.since(heard) <= SILENT))
    }
}

impl CombinedSignals {
    /// Listens to so many services; where there are none, nothing is joined.
    #[must_use]
    pub fn new(services: usize) -> Self {
        Self {
            services: vec![ReportSource::default(); services],
            looked: None,
            accepted: 0.0,
            came: 0.0,
            pending: 0.0,
            part: 0.0,
            requests: Requests { services: services as u64, ..Requests::default() },
            silenced: false,
        }
    }

    /// [`ReportSource::hear`] of service `at`, from 0.
    ///
    /// # Panics
    /// When there are not so many services.
    pub fn hear(&mut self, now: Time, at: usize, told: QueueReport) {
        self.services[at].record(now, told);
    }

    /// What is `seen` at the door of connections, with the requests behind it:
    /// whoever waits, waits in both queues.
    #[must_use]
    pub fn join(&mut self, now: Time, seen: Signals) -> Signals {
        let span = self.looked.map_or(Span::ZERO, |looked| now.since(looked)).as_secs_f64();
        self.looked = Some(now);
        let (mut came, mut served, mut reordered) = (0, 0, seen.reordered);
        let mut requests = Requests { services: self.requests.services, ..Requests::default() };
        for service in &mut self.services {
            came += std::mem::take(&mut service.came);
            served += std::mem::take(&mut service.served);
            if let Some(told) = service.fresh(now) {
                requests.telling += 1;
                requests.waiting = requests.waiting.saturating_add(told.waiting);
                requests.delay = requests.delay.max(told.delay);
                reordered |= told.reordered;
                requests.budget = requests.budget.into_iter().chain(told.budget).min();
            }
        }
        self.silenced = self.requests.telling > 0 && requests.telling == 0;
        self.requests = requests;
        if requests.telling == 0 {
            (self.accepted, self.came, self.pending, self.part) = (0.0, 0.0, 0.0, 0.0);
            return seen;
        }
        let left = |of: Span| (-span / of.as_secs_f64()).exp();
        self.accepted = self.accepted * left(MEMORY) + seen.served as f64;
        self.came = self.came * left(MEMORY) + came as f64;
        let each = if self.came > 0.0 { self.accepted / self.came } else { 1.0 };
        self.pending += served as f64 * each;
        self.part += self.pending * (1.0 - left(EVEN));
        self.pending *= left(EVEN);
        let whole = self.part.floor();
        self.part -= whole;
        Signals {
            served: whole as u64,
            waiting: seen.waiting.saturating_add(requests.waiting),
            delay: Span::from_nanos(seen.delay.as_nanos().saturating_add(requests.delay.as_nanos())),
            reordered,
            budget: requests.budget.into_iter().chain(seen.budget).min(),
            ..seen
        }
    }

    /// What the services told, as of the last look.
    #[must_use]
    pub const fn requests(&self) -> Requests {
        self.requests
    }

    /// Whether the last one that told had fallen silent at that look. What a policy
    /// has learned it learned of that one: it is made anew, and everybody comes in.
    #[must_use]
    pub const fn is_stale(&self) -> bool {
        self.silenced
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_is_told_is_read(turn: u64, waiting: u64, delay: u64, reordered: bool, behind: bool, budget: Option<u64>, came: u64, served: u64) {
            let (delay, budget) = (Span::from_nanos(delay), budget.map(Span::from_nanos));
            let told = QueueReport { turn, waiting, delay, reordered, behind, budget, came, served };
            prop_assert_eq!(told.line().len(), QueueReport::LEN);
            prop_assert_eq!(QueueReport::read(&told.line()), Some(told));
        }

        /// Half of one and half of another is none, wherever it is cut.
        #[test]
        fn what_is_half_written_is_not_read(turn in 0..u64::MAX, cut in 0..QueueReport::LEN) {
            let old = QueueReport { turn, waiting: 5, ..QueueReport::default() }.line();
            let new = QueueReport { turn: turn + 1, waiting: 6, delay: Span::from_nanos(9), ..QueueReport::default() };
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

    fn told(turn: u64, requests: u64) -> QueueReport {
        let (delay, budget) = (Span::from_millis(30), Some(Span::from_millis(turn)));
        QueueReport {
            turn,
            waiting: 3,
            delay,
            budget,
            came: 2 * requests,
            served: requests,
            ..QueueReport::default()
        }
    }

    #[test]
    fn the_longest_wait_and_the_least_budget_are_believed_while_there_is_news() {
        let mut joined = CombinedSignals::new(2);
        let seen = Signals { waiting: 1, delay: Span::from_millis(2), served: 9, ..Signals::default() };
        joined.hear(at(0), 0, told(7, 0));
        assert_eq!(joined.join(at(0), seen), seen, "it may be of yesterday");
        joined.hear(at(10), 0, told(8, 0));
        joined.hear(at(10), 1, QueueReport { delay: Span::from_millis(50), ..told(20, 0) });
        joined.hear(at(20), 1, QueueReport { delay: Span::from_millis(50), reordered: true, ..told(21, 0) });
        let both = joined.join(at(20), seen);
        assert!(both.reordered, "one of the queues has an order of its own");
        assert_eq!((both.waiting, both.delay), (7, Span::from_millis(52)));
        assert_eq!(both.budget, Some(Span::from_millis(8)));
        let one = joined.join(at(515), seen);
        assert_eq!((one.waiting, one.delay, joined.requests().telling), (4, Span::from_millis(52), 1));
        joined.hear(at(600), 1, told(21, 5));
        assert_eq!(joined.join(at(600), seen), seen, "the same turn again is no news");
        assert_eq!(joined.requests(), Requests { services: 2, ..Requests::default() });
    }

    #[test]
    fn what_is_served_are_connections_by_the_requests_that_each_makes() {
        let mut joined = CombinedSignals::new(1);
        // Three requests for each connection, half of them served; it begins anew in between.
        let mut served = 0;
        for look in 0..300 {
            let since = if look < 150 { look } else { look - 150 };
            joined.hear(at(10 * look), 0, told(look, 30 * since));
            let seen = Signals { served: 20, ..Signals::default() };
            let signals = joined.join(at(10 * look), seen);
            served += if look >= 100 { signals.served } else { 0 };
        }
        // 30 requests of 60 in 10 ms, 20 connections: 10 in 10 ms; once there are none to tell of.
        assert!((1_970..=2_010).contains(&served), "{served}");
    }
}
