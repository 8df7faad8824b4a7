//! What a run of the services found: per class of users, and per stage.

use deadline::{Budget, Stage};
use queueing::{Histogram, Span, Time};

use super::Config;

/// A run's result.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Per class, in the configuration's order.
    pub classes: Vec<Class>,
    /// Per stage, in the order of calls.
    pub stages: Vec<StageReport>,
    /// From the birth of the first request that counts to the last one's.
    pub arriving: Span,
    /// Virtual time of the whole run.
    pub elapsed: Span,
    /// Events simulated.
    pub events: u64,
    first: Option<Time>,
}

/// What the users of one class got.
#[derive(Clone, Debug)]
pub struct Class {
    /// Its name.
    pub name: String,
    /// Requests that count.
    pub requests: u64,
    /// Answered within what was expected.
    pub on_time: u64,
    /// Answered, but later.
    pub late: u64,
    /// Dropped somewhere.
    pub dropped: u64,
    /// Of the parts of answers at the last unit, how many there were.
    pub parts_used: u64,
    /// … and would have been.
    pub parts: u64,
    /// `elapsed_time` of those answered.
    pub latency: Histogram,
    /// The shortest of them.
    pub shortest: Span,
}

/// What went on at one stage, over all its servers and classes.
#[derive(Clone, Debug)]
pub struct StageReport {
    /// Its name.
    pub name: String,
    /// `elapsed_time` when served here: since the request was born.
    pub elapsed: Histogram,
    /// Waiting for a server here.
    pub queue: Histogram,
    /// Parts or requests dropped here.
    pub dropped: u64,
    /// Service given here.
    pub busy: Span,
}

impl Outcome {
    /// Nothing has happened yet in a world of `config`.
    #[must_use]
    pub fn new(config: &Config) -> Self {
        let class = |slo: &super::Slo| Class {
            name: slo.name.clone(),
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

    /// A request of `class` was born at `now`, later than those before;
    /// `counted`: not just to fill the queues.
    pub fn born(&mut self, now: Time, class: usize, counted: bool) {
        if counted {
            let first = *self.first.get_or_insert(now);
            self.arriving = now.since(first);
            self.classes[class].requests += 1;
        }
    }

    /// A request that counts, or a part of one, was served at `stage`, where it
    /// `spent` its time so, `elapsed` after it was born.
    pub fn served(&mut self, stage: usize, spent: &Stage, elapsed: Span) {
        let report = &mut self.stages[stage];
        report.elapsed.record(elapsed);
        report.queue.record(spent.queue);
        report.busy += spent.service;
    }

    /// A request that counts, or a part of one, was dropped at `stage`.
    pub fn dropped(&mut self, stage: usize) {
        self.stages[stage].dropped += 1;
    }

    /// A request that counts was answered; `budget` as its user sees it, and how
    /// many parts of a unit's answer there were, of how many.
    pub fn answered(&mut self, class: usize, budget: &Budget, (used, parts): (usize, usize)) {
        let class = &mut self.classes[class];
        let in_time = budget.elapsed() <= budget.expected();
        *(if in_time { &mut class.on_time } else { &mut class.late }) += 1;
        class.latency.record(budget.elapsed());
        class.shortest = class.shortest.min(budget.elapsed());
        class.parts_used += used as u64;
        class.parts += parts as u64;
    }

    /// A request that counts will not be answered.
    pub fn failed(&mut self, class: usize) {
        self.classes[class].dropped += 1;
    }

    /// Requests answered in time, of all that count, 0.0..=1.0.
    #[must_use]
    pub fn on_time_share(&self) -> f64 {
        let sum = |of: fn(&Class) -> u64| self.classes.iter().map(of).sum::<u64>() as f64;
        sum(|class| class.on_time) / sum(|class| class.requests).max(1.0)
    }
}

impl Class {
    /// `(T_max − T_min) / T_avg × 100 %` of those answered, D2P (1).
    #[must_use]
    pub fn variability_range(&self) -> f64 {
        let shortest = self.shortest.min(self.latency.max());
        deadline::model::variability_range(self.latency.max(), shortest, self.latency.mean())
    }
}
