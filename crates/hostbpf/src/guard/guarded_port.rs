//! Guarded port: signals of its listeners, and the limit in force.
//!
//! Each port has signals, a policy and a limit of its own, so an overloaded service costs the others
//! nothing. Listeners that share a port share its limit. The program counts SYNs, the policy connections
//! ([`Handshakes`]).

use std::io;

use guard::app_queue::QueueReport;
use guard::{HandshakeEnds, Handshakes, Limit, ResponseWaits, Signals};
use queueing::{Span, Time};

use super::accept_queue;
use super::map_layout::{Connections, LimitEntry, LimitInForce, ObservedSignals, Queue};
use super::maps::Maps;
use super::queue_reports::QueueReports;
use super::response_wait::PendingResponses;
use super::stuck_queues::StuckQueues;
use super::system_load::SystemLoad;

/// A port of a guard, at `slot` of its maps.
pub(super) struct GuardedPort {
    number: u16,
    slot: usize,
    /// Connections in its accept queues at the attach, and all its connections then.
    waiting_before: u64,
    present_before: u64,
    stuck: StuckQueues,
    reports: QueueReports,
    response_waits: ResponseWaits,
    handshakes: Handshakes,
    /// Counts at the last control step.
    last: Last,
    entry: LimitEntry,
}

/// Counts at the last control step.
#[derive(Clone, Copy, Debug)]
struct Last {
    at: Time,
    offered: u64,
    shed: u64,
    opened: u64,
    closed: u64,
    answered: u64,
    by_time: [u64; ResponseWaits::BINS],
    present: u64,
}

/// Observations of all ports at one control step.
pub(super) struct Observed<'a> {
    pub now: Time,
    /// Accept queues, each with true if it is stuck among those of all ports.
    pub queues: &'a [(accept_queue::Queue, bool)],
    /// Connections without a response, by slot, if they are observed.
    pub unanswered: Option<&'a [PendingResponses]>,
    /// Reports of all queue-report files, in their order.
    pub reports: &'a [Option<QueueReport>],
    pub load: SystemLoad,
    /// True if no connection is shed.
    pub watching: bool,
}

impl GuardedPort {
    /// The port `number` with its counts at the attach.
    pub fn new(
        (slot, number): (usize, u16),
        now: Time,
        [waiting_before, present_before]: [u64; 2],
        reports: QueueReports,
    ) -> Self {
        let by_time = [0; ResponseWaits::BINS];
        let last =
            Last { at: now, offered: 0, shed: 0, opened: 0, closed: 0, answered: 0, by_time, present: 0 };
        let entry = LimitEntry { alive: now, ..LimitEntry::default() };
        let stuck = StuckQueues::default();
        let response_waits = ResponseWaits::default();
        Self {
            number,
            slot,
            waiting_before,
            present_before,
            stuck,
            reports,
            response_waits,
            handshakes: Handshakes::default(),
            last,
            entry,
        }
    }

    /// Time before which connections without a response were made that are long polls at `now`.
    pub fn long_polls_end(&mut self, now: Time) -> Time {
        self.response_waits.long_polls_end(now)
    }

    /// Connections accepted since the attach, of `opened` ones, given the accept queues of all ports.
    pub fn count_accepted(&self, opened: u64, queues: &[accept_queue::Queue]) -> u64 {
        let own = queues.iter().filter(|queue| queue.port == self.number);
        let waiting: u64 = own.map(|queue| u64::from(queue.waiting)).sum();
        (opened + self.waiting_before).saturating_sub(waiting).max(self.entry.seen.served)
    }

    /// Signals of this port, with the counts since the last control step. `accepted` is the result
    /// of [`count_accepted`](Self::count_accepted), `connections` that of [`Maps::connections`].
    ///
    /// # Errors
    /// The kernel's error.
    pub fn observe(
        &mut self,
        maps: &Maps,
        observed: &Observed<'_>,
        accepted: u64,
        connections: &Connections,
    ) -> io::Result<Signals> {
        let Observed { now, load, .. } = *observed;
        let Connections { opened, closed, answered, by_time } = *connections;
        let (last, span) = (self.last, now.since(self.last.at));
        let (mut seen, progressing) = self.see_queues(observed, accepted, span);
        let counts = maps.counts(self.slot)?;
        let (offered, shed) = (counts.offered(), counts.shed());
        let present = (opened + self.present_before).saturating_sub(closed);
        let left = closed.saturating_sub(last.closed);
        let area = span.as_secs_f64() * (present + last.present) as f64 / 2.0;
        let arrived = offered.saturating_sub(last.offered);
        let unanswered = observed.unanswered.map(|ports| ports[self.slot]);
        let signals = Signals {
            offered: arrived,
            admitted: match observed.watching {
                true => arrived,
                false => arrived.saturating_sub(shed.saturating_sub(last.shed)),
            },
            served: accepted - self.entry.seen.served,
            waiting: progressing.waiting,
            delay: progressing.delay,
            latency: (left > 0).then(|| Span::from_secs_f64(area / left as f64)),
            present,
            kernel_share: load.kernel_share,
            sockets: load.sockets,
            memory_share: load.memory_share,
            ..Signals::default()
        };
        // A SYN at a full accept queue is shed.
        let ends = HandshakeEnds::completed(opened.saturating_sub(last.opened));
        let signals = self.handshakes.signals(span, ends, signals);
        let signals =
            unanswered.map_or(signals, |PendingResponses { waiting, long_polls, delay_recent, .. }| {
                let new = by_time.iter().zip(last.by_time).map(|(now, before)| now.saturating_sub(before));
                self.response_waits.record_bins(new);
                let served = answered.saturating_sub(last.answered);
                let waiting = waiting.saturating_sub(long_polls);
                let seen = Signals { served, waiting, delay: delay_recent, ..signals };
                self.response_waits.signals(seen, long_polls)
            });
        let signals = self.reports.join(now, observed.reports, signals);
        self.last = Last { at: now, offered, shed, opened, closed, answered, by_time, present };
        (seen.served, seen.requests) = (accepted, self.reports.requests());
        let unanswered = unanswered.unwrap_or_default();
        (seen.unanswered, seen.unanswered_delay) = (unanswered.waiting, unanswered.delay);
        seen.handshakes_ppm = (1e6 * self.handshakes.share()).round() as u64;
        self.entry.seen = seen;
        Ok(signals)
    }

    /// Summary of this port's queues, and of those among them that are not stuck. A first connection of
    /// unknown age has waited since the last control step at least.
    fn see_queues(
        &mut self,
        observed: &Observed<'_>,
        accepted: u64,
        span: Span,
    ) -> (ObservedSignals, Progressing) {
        let unknown = self.entry.seen.delay + span;
        let own = observed.queues.iter().filter(|(queue, _)| queue.port == self.number);
        let (queues, stuck_of_all): (Vec<_>, Vec<bool>) = own.copied().unzip();
        let stuck = self.stuck.find(observed.now, accepted, &queues);
        let (mut seen, mut progressing) = (ObservedSignals::default(), Progressing::default());
        for ((queue, of_port), of_all) in queues.iter().zip(stuck).zip(stuck_of_all) {
            let accept_queue::Queue { port, waiting, room, since, .. } = *queue;
            let delay = match waiting {
                0 => Span::ZERO,
                _ => since.map_or(unknown, |since| observed.now.since(since)),
            };
            seen.waiting += u64::from(waiting);
            seen.room += u64::from(room);
            seen.delay = seen.delay.max(delay);
            if !of_port {
                progressing.waiting += u64::from(waiting);
                progressing.delay = progressing.delay.max(delay);
            }
            seen.insert(Queue { port, waiting, room, delay, is_stuck: of_port || of_all });
        }
        (seen, progressing)
    }

    /// Sets `limit` on connections as one on SYNs, and renews the heartbeat of the controller.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn hold(&mut self, maps: &Maps, now: Time, limit: Limit, classes: usize) -> io::Result<()> {
        let held = LimitInForce::new(self.handshakes.limit(limit), classes);
        if let LimitInForce::Rate { cost_ns, .. } = held
            && !matches!(self.entry.held, LimitInForce::Rate { .. })
        {
            // The bucket starts empty.
            maps.set_spent(self.slot, Time::from_nanos(now.as_nanos().saturating_sub(cost_ns)))?;
        }
        (self.entry.alive, self.entry.held) = (now, held);
        maps.set_limit(self.slot, &self.entry)
    }

    /// Limit in force and signals at the last control step.
    pub fn entry(&self) -> &LimitEntry {
        &self.entry
    }

    /// True if the last service that reported its queue for this port had stopped at the last control step.
    pub fn is_silenced(&self) -> bool {
        self.reports.is_silenced()
    }
}

/// Connections in the queues that are not stuck, and the longest wait there.
#[derive(Default)]
struct Progressing {
    waiting: u64,
    delay: Span,
}
