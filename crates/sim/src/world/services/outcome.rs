//! Result of a services run: per user class, and per stage.

use deadline::{Budget, StageTime};
use queueing::{Histogram, Span, Time};

use super::Config;

/// Result of a run.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Results per class, in the configuration's order.
    pub classes: Vec<UserClassOutcome>,
    /// Results per stage, in the order of calls.
    pub stages: Vec<StageReport>,
    /// Time from the first measured arrival to the last.
    pub arriving: Span,
    /// Virtual duration of the run.
    pub elapsed: Span,
    /// Events simulated.
    pub events: u64,
    first: Option<Time>,
}

/// Result of a user class.
#[derive(Clone, Debug)]
pub struct UserClassOutcome {
    /// Class name.
    pub name: String,
    /// Latency objective.
    pub slo: Span,
    /// True if its clients send the budgets that they have.
    pub is_honest: bool,
    /// Measured requests.
    pub requests: u64,
    /// Answered within the objective.
    pub on_time: u64,
    /// Answered late.
    pub late: u64,
    /// Number of requests dropped at some stage.
    pub dropped: u64,
    /// Parts used in the answers of the last unit.
    pub parts_used: u64,
    /// Parts of complete answers of the last unit.
    pub parts: u64,
    /// `elapsed_time` of answered requests.
    pub latency: Histogram,
    /// Shortest latency of an answered request.
    pub shortest: Span,
}

/// Result of a stage, over all its servers and classes.
#[derive(Clone, Debug)]
pub struct StageReport {
    /// Stage name.
    pub name: String,
    /// `elapsed_time` at the end of service, since the request's arrival.
    pub elapsed: Histogram,
    /// Queueing delay.
    pub queue: Histogram,
    /// Parts or requests dropped.
    pub dropped: u64,
    /// Total service time.
    pub busy: Span,
}

impl Outcome {
    /// Empty result for `config`.
    #[must_use]
    pub fn new(config: &Config) -> Self {
        let class = |slo: &super::Slo| UserClassOutcome {
            name: slo.name.clone(),
            slo: slo.slo,
            is_honest: slo.is_honest(),
            requests: 0,
            on_time: 0,
            late: 0,
            dropped: 0,
            parts_used: 0,
            parts: 0,
            latency: Histogram::new(),
            shortest: Span::MAX,
        };
        let stage = |stage: &super::Stage| StageReport {
            name: stage.name.clone(),
            elapsed: Histogram::new(),
            queue: Histogram::new(),
            dropped: 0,
            busy: Span::ZERO,
        };
        Self {
            classes: config.slos.iter().map(class).collect(),
            stages: config.stages.iter().map(stage).collect(),
            arriving: Span::ZERO,
            elapsed: Span::ZERO,
            events: 0,
            first: None,
        }
    }

    /// Counts a request of `class` that arrived at `now`; arrivals are in order. `counted` is
    /// false during warm-up.
    pub fn count_arrival(&mut self, now: Time, class: usize, counted: bool) {
        if counted {
            let first = *self.first.get_or_insert(now);
            self.arriving = now.since(first);
            self.classes[class].requests += 1;
        }
    }

    /// Records a measured request, or a part of one, served at `stage`, `elapsed` after its
    /// arrival.
    pub fn served(&mut self, stage: usize, spent: &StageTime, elapsed: Span) {
        let report = &mut self.stages[stage];
        report.elapsed.record(elapsed);
        report.queue.record(spent.queue);
        report.busy += spent.service;
    }

    /// Counts a measured request, or a part of one, dropped at `stage`.
    pub fn dropped(&mut self, stage: usize) {
        self.stages[stage].dropped += 1;
    }

    /// Records an answered measured request: `budget` as its user sees it, and the used and all
    /// parts of the last unit's answer.
    pub fn answered(&mut self, class: usize, budget: &Budget, (used, parts): (usize, usize)) {
        let class = &mut self.classes[class];
        let in_time = budget.elapsed() <= class.slo;
        *(if in_time { &mut class.on_time } else { &mut class.late }) += 1;
        class.latency.record(budget.elapsed());
        class.shortest = class.shortest.min(budget.elapsed());
        class.parts_used += used as u64;
        class.parts += parts as u64;
    }

    /// Counts a measured request that will not be answered.
    pub fn failed(&mut self, class: usize) {
        self.classes[class].dropped += 1;
    }

    /// Fraction of measured requests answered in time, 0.0..=1.0.
    #[must_use]
    pub fn on_time_share(&self) -> f64 {
        self.on_time_share_of(|_| true)
    }

    /// The same for the requests of the classes that `is_counted` selects.
    #[must_use]
    pub fn on_time_share_of(&self, is_counted: impl Fn(&UserClassOutcome) -> bool) -> f64 {
        let counted = || self.classes.iter().filter(|class| is_counted(class));
        let requests: u64 = counted().map(|class| class.requests).sum();
        counted().map(|class| class.on_time).sum::<u64>() as f64 / (requests as f64).max(1.0)
    }
}

impl UserClassOutcome {
    /// `(T_max − T_min) / T_avg × 100 %` of answered requests, D2P (1).
    #[must_use]
    pub fn variability_range(&self) -> f64 {
        let shortest = self.shortest.min(self.latency.max());
        deadline::model::variability_range(self.latency.max(), shortest, self.latency.mean())
    }
}
