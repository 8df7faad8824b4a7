//! Result of a platform run.

use queueing::{Histogram, Span};

use super::config::Config;
use crate::fabric::Counters;

/// Result of a run.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Results per class, in the configuration's order.
    pub classes: Vec<ClassOutcome>,
    /// Measured duration.
    pub counted: Span,
    /// Average of undisturbed logical cores that BE's work equals, all hosts together.
    pub beside: f64,
    /// Bytes of background flows completed by the end.
    pub bulk_bytes: u64,
    /// Virtual duration of the run.
    pub elapsed: Span,
    /// Packet counters of the network.
    pub packets: Counters,
    /// Events simulated.
    pub events: u64,
}

/// Result of a class.
#[derive(Clone, Debug)]
pub struct ClassOutcome {
    /// Class name.
    pub name: String,
    /// Measured requests.
    pub requests: u64,
    /// Answered within the objective.
    pub on_time: u64,
    /// Answered late.
    pub late: u64,
    /// Rejected by the guard.
    pub refused: u64,
    /// Dropped as infeasible.
    pub shed: u64,
    /// Dropped at a full queue.
    pub lost: u64,
    /// Unfinished at the end.
    pub unanswered: u64,
    /// Latency of all measured requests; rejected, dropped and unanswered ones count with at
    /// least `timeout`.
    pub latency: Histogram,
    /// Latency of answered requests.
    pub answered: Histogram,
    /// Mean breakdown of answered requests near p99.9.
    pub spent: TimeBreakdown,
    samples: Vec<(Span, TimeBreakdown)>,
}

/// Time of a request by cause, along its slowest path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TimeBreakdown {
    /// Crossing the fabric.
    pub fabric: Span,
    /// Between reception by the NIC and delivery.
    pub receive: Span,
    /// Waiting for a core.
    pub queue: Span,
    /// In service, preemptions included.
    pub service: Span,
}

/// End of a request.
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

    /// Requests with a known end: all measured ones.
    #[must_use]
    pub fn accounted(&self) -> u64 {
        self.on_time + self.late + self.refused + self.shed + self.lost + self.unanswered
    }

    /// Fraction of requests not answered in time; NaN without requests.
    #[must_use]
    pub fn miss_share(&self) -> f64 {
        (self.requests - self.on_time) as f64 / self.requests as f64
    }

    /// Records the end of a measured request, `took` after its arrival.
    pub(super) fn ended(&mut self, took: Span, slo: Span, timeout: Span, end: End) {
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
        self.latency.record(if matches!(end, End::Answered(_)) { took } else { took.max(timeout) });
    }

    /// Computes the breakdown near the 99.9th percentile.
    fn finish(&mut self) {
        self.samples.sort_unstable_by_key(|(took, _)| *took);
        let count = self.samples.len();
        let index = (count as f64 * 0.999) as usize;
        let half_window = (count / 2000).max(3);
        let near = &self.samples[index.saturating_sub(half_window)..(index + half_window).min(count)];
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
            counted: config.duration,
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
