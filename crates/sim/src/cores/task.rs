//! Task at run time: queue, phases, statistics.

use std::collections::VecDeque;

use queueing::{ArrivalTimes, Distribution, Histogram, Rng, Span, Time};

use sched::cores::affinity::ThreadSample;

use super::config::{LoadChange, Needs, TaskClass, TaskConfig};
use super::external_arrivals::{RequestQueue, Served};

/// Request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Request {
    /// Arrival; for an external request, start of service.
    pub at: Time,
    /// Time since which it waits for a core.
    pub ready: Time,
    /// Remaining work, in ns on an otherwise idle machine.
    pub left_ns: f64,
    /// Identity of an external request.
    pub external: Option<Served>,
}

/// Queue capacity; further requests are dropped.
pub(super) const QUEUE_MAX: usize = 1 << 20;

/// Running task.
pub(super) struct TaskState {
    pub critical: bool,
    pub threads: u32,
    pub service: Option<Distribution>,
    times: Option<ArrivalTimes>,
    /// Pending changes of the load, and the random stream of their arrivals.
    changes: VecDeque<LoadChange>,
    load_rng: Rng,
    pub rng: Rng,
    pub queue: VecDeque<Request>,
    /// Queue of external requests; those in `queue`, preempted ones, go first.
    pub external: Option<Box<dyn RequestQueue>>,
    /// Logical cores that poll for work.
    pub spinning: Vec<usize>,
    /// Logical cores that the kernel is switching to this task.
    pub waking: usize,
    /// Requests in service.
    pub serving: u32,
    /// Running threads.
    pub working: u32,
    needs: Needs,
    phases: Vec<(Distribution, Needs)>,
    phase: usize,
    /// Remaining work of the phase, in ns of one logical core.
    phase_left_ns: f64,
    /// Measured work, in ns of one logical core.
    pub work_ns: f64,
    /// Measured time on logical cores, in ns.
    pub ran_ns: f64,
    pub latency: Histogram,
    /// Latency in the current window, and worst p99.9 of past windows.
    pub window: Histogram,
    pub peak: Span,
    /// Waits for a core since the last round.
    pub sample: ThreadSample,
    /// Latency since the last report to the policy.
    pub recent: Histogram,
    pub lost: u64,
    pub unanswered: u64,
}

impl TaskState {
    pub fn new(task: &TaskConfig, number: u64, seed: &Rng) -> Self {
        let start = |n: u64| seed.fork(number * 3 + n);
        let mut state = Self {
            critical: task.class == TaskClass::Critical,
            threads: task.threads,
            service: task.service,
            times: task.arrivals.map(|arrivals| arrivals.times(Time::ZERO, start(0))),
            changes: task.changes.iter().copied().collect(),
            load_rng: start(2),
            rng: start(1),
            queue: VecDeque::new(),
            external: None,
            spinning: Vec::new(),
            waking: 0,
            serving: 0,
            working: 0,
            needs: task.needs,
            phases: task.phases.iter().map(|phase| (phase.duration, phase.needs)).collect(),
            phase: 0,
            phase_left_ns: 0.0,
            work_ns: 0.0,
            ran_ns: 0.0,
            latency: Histogram::new(),
            window: Histogram::coarse(),
            peak: Span::ZERO,
            sample: ThreadSample::default(),
            recent: Histogram::coarse(),
            lost: 0,
            unanswered: 0,
        };
        state.enter_phase();
        state
    }

    /// Time of the next arrival.
    pub fn next_arrival(&mut self) -> Option<Time> {
        let mut next = self.times.as_mut().and_then(Iterator::next);
        while let Some(&LoadChange { at, arrivals }) = self.changes.front()
            && next.is_none_or(|next| next >= Time::ZERO + at)
        {
            self.changes.pop_front();
            let mut times = arrivals.times(Time::ZERO + at, self.load_rng.fork(self.changes.len() as u64));
            next = times.next();
            self.times = Some(times);
        }
        next
    }

    /// Queue length.
    pub fn waiting(&self) -> usize {
        self.queue.len() + self.external.as_ref().map_or(0, |external| external.len())
    }

    /// Arrival of the oldest queued request.
    pub fn oldest(&self) -> Option<Time> {
        let own = self.queue.front().map(|request| request.at);
        own.into_iter().chain(self.external.as_ref().and_then(|external| external.oldest())).min()
    }

    /// Dequeues the next request; dropped external requests are appended to `shed`.
    pub fn dequeue(&mut self, now: Time, shed: &mut Vec<u64>) -> Option<Request> {
        self.queue.pop_front().or_else(|| {
            let offer = self.external.as_mut()?.next(now, shed)?;
            let served = Served { token: offer.token, started: now };
            Some(Request {
                at: now,
                ready: now,
                left_ns: offer.work.as_nanos() as f64,
                external: Some(served),
            })
        })
    }

    /// Current resource use.
    pub fn needs(&self) -> &Needs {
        self.phases.get(self.phase).map_or(&self.needs, |(_, needs)| needs)
    }

    /// Subtracts `work_ns` from the remaining work of the phase.
    pub fn progress(&mut self, work_ns: f64) {
        self.phase_left_ns -= work_ns;
    }

    /// Enters the next phase if this one is over; returns `true` if it did.
    pub fn advance_phase(&mut self) -> bool {
        let over = self.phases.len() > 1 && self.phase_left_ns <= 0.0;
        if over {
            self.phase = (self.phase + 1) % self.phases.len();
            self.enter_phase();
        }
        over
    }

    fn enter_phase(&mut self) {
        if let Some((lasts, _)) = self.phases.get(self.phase) {
            let threads = f64::from(self.threads.max(1));
            self.phase_left_ns = lasts.sample(&mut self.rng).as_nanos() as f64 * threads;
        }
    }

    /// Ends a latency window.
    pub fn end_window(&mut self) {
        self.peak = self.peak.max(self.window.quantile(0.999));
        self.window.clear();
    }
}
