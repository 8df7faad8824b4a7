//! What a run of the platform found.

use queueing::{Histogram, Span};

use super::config::Config;
use crate::fabric::Counters;

/// A run's result.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Per class, in the configuration's order.
    pub classes: Vec<ClassOutcome>,
    /// For so long requests counted.
    pub counted: Span,
    /// Work that BE did meanwhile, in lanes of a machine of its own, all hosts together.
    pub beside: f64,
    /// Bytes of bulk flows that were done by the end, and the time until then.
    pub bulk_bytes: u64,
    /// Virtual time of the whole run.
    pub elapsed: Span,
    /// What the network did with packets.
    pub packets: Counters,
    /// Events simulated.
    pub events: u64,
}

/// What became of a class.
#[derive(Clone, Debug)]
pub struct ClassOutcome {
    /// Its name.
    pub name: String,
    /// Requests that count.
    pub requests: u64,
    /// Answered within what users wait for.
    pub on_time: u64,
    /// Answered, but later.
    pub late: u64,
    /// Refused by the guard.
    pub refused: u64,
    /// Dropped because they could not make it, somewhere.
    pub shed: u64,
    /// Dropped because there was no room.
    pub lost: u64,
    /// Not over when the run was.
    pub unanswered: u64,
    /// From birth to answer, of all that count: who was refused, dropped or not
    /// answered waited for the patience of clients, or longer.
    pub latency: Histogram,
    /// Of those answered alone.
    pub answered: Histogram,
    /// Where those near p99.9 of the answered spent their time.
    pub spent: TimeBreakdown,
    samples: Vec<(Span, TimeBreakdown)>,
}

/// Where a request spent its time, on the way that took longest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TimeBreakdown {
    /// In the fabric.
    pub fabric: Span,
    /// Received, and not yet delivered.
    pub receive: Span,
    /// Waiting for a core.
    pub queue: Span,
    /// Being served, preemptions included.
    pub service: Span,
}

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Answered(TimeBreakdown),
    Refused,
    Shed,
    Lost,
    Never,
}

impl TimeBreakdown {
    fn parts(self) -> [Span; 4] {
        [self.fabric, self.receive, self.queue, self.service]
    }
}

impl ClassOutcome {
    fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            requests: 0,
            on_time: 0,
            late: 0,
            refused: 0,
            shed: 0,
            lost: 0,
            unanswered: 0,
            latency: Histogram::new(),
            answered: Histogram::new(),
            spent: TimeBreakdown::default(),
            samples: Vec::new(),
        }
    }

    /// Requests of which is known what became of them: all of them.
    #[must_use]
    pub fn accounted(&self) -> u64 {
        self.on_time + self.late + self.refused + self.shed + self.lost + self.unanswered
    }

    /// Those that were not answered in time, of all; NaN of nobody.
    #[must_use]
    pub fn miss_share(&self) -> f64 {
        (self.requests - self.on_time) as f64 / self.requests as f64
    }

    /// A request that counts is over, so long after its birth.
    pub(super) fn ended(&mut self, took: Span, slo: Span, patience: Span, end: End) {
        let count = match end {
            End::Answered(spent) => {
                self.answered.record(took);
                self.samples.push((took, spent));
                if took <= slo { &mut self.on_time } else { &mut self.late }
            }
            End::Refused => &mut self.refused,
            End::Shed => &mut self.shed,
            End::Lost => &mut self.lost,
            End::Never => &mut self.unanswered,
        };
        *count += 1;
        self.latency.record(if matches!(end, End::Answered(_)) { took } else { took.max(patience) });
    }

    /// Finds where those near the 99.9th percentile spent their time.
    fn finish(&mut self) {
        self.samples.sort_unstable_by_key(|(took, _)| *took);
        let count = self.samples.len();
        let place = (count as f64 * 0.999) as usize;
        let around = (count / 2000).max(3);
        let near = &self.samples[place.saturating_sub(around)..(place + around).min(count)];
        let mut sums = [Span::ZERO; 4];
        for (_, spent) in near {
            sums.iter_mut().zip(spent.parts()).for_each(|(sum, part)| *sum += part);
        }
        let [fabric, receive, queue, service] = sums.map(|sum| sum / near.len().max(1) as u64);
        self.spent = TimeBreakdown { fabric, receive, queue, service };
        self.samples = Vec::new();
    }
}

impl Outcome {
    pub(super) fn new(config: &Config) -> Self {
        Self {
            classes: config.classes.iter().map(|class| ClassOutcome::new(&class.name)).collect(),
            counted: config.lasts,
            beside: 0.0,
            bulk_bytes: 0,
            elapsed: Span::ZERO,
            packets: Counters::default(),
            events: 0,
        }
    }

    pub(super) fn finish(mut self) -> Self {
        self.classes.iter_mut().for_each(ClassOutcome::finish);
        self
    }
}
