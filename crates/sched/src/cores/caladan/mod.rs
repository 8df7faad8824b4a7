//! Caladan: core allocation by queueing delay, bandwidth and hyperthreads.
//!
//! Three parts, separable for ablations. [`top`] gives cores to tasks whose queues
//! grow. [`bandwidth`] takes cores from the task with the most cache misses while
//! DRAM is near saturation. [`hyperthread`] idles the siblings of a core whose
//! request runs long. The last two act before a queue has grown.
//! Unlike the original, LC is sampled as well as BE, every socket has its own
//! bandwidth controller, cores beyond a guarantee are protected too, and starvation
//! is bounded.
//! Source: Caladan (OSDI '20) §5.2.

use queueing::{Span, Time};

use super::{CoreAssignment, Guarantees, Policy, Settings, Signals};

pub(super) mod bandwidth;
pub(super) mod hyperthread;
pub(super) mod top;

use bandwidth::Bandwidth;
use hyperthread::Hyperthread;
use top::Top;

/// Composed policy.
#[derive(Clone, Debug)]
pub struct Caladan {
    period: Span,
    top: Top,
    bandwidth: Option<Bandwidth>,
    hyperthread: bool,
    longest: Hyperthread,
}

impl Caladan {
    /// Policy with all of C3 to C5.
    #[must_use]
    pub fn new(settings: &Settings, assignment: &CoreAssignment) -> Self {
        Self {
            period: settings.period,
            top: Top::new(settings, assignment),
            bandwidth: Some(Bandwidth::new(settings, assignment)),
            hyperthread: true,
            longest: Hyperthread::new(assignment),
        }
    }

    /// Removes the bandwidth controller (C4).
    #[must_use]
    pub fn without_bandwidth(self) -> Self {
        Self { bandwidth: None, ..self }
    }

    /// Removes the hyperthread controller (C5).
    #[must_use]
    pub fn without_hyperthread(self) -> Self {
        Self { hyperthread: false, ..self }
    }
}

impl Policy for Caladan {
    fn period(&self) -> Span {
        self.period
    }

    fn round(&mut self, now: Time, signals: &Signals, assignment: &mut CoreAssignment) {
        if let Some(bandwidth) = &mut self.bandwidth {
            bandwidth.round(now, signals, assignment);
        }
        if self.hyperthread {
            self.longest.round(now, signals, assignment);
        }
        let bandwidth = &self.bandwidth;
        self.top.round(now, signals, assignment, &|assignment, core, task| {
            bandwidth.as_ref().is_none_or(|bandwidth| bandwidth.allows(assignment, core, task))
        });
    }

    fn promise(&self) -> Guarantees {
        Guarantees { guarantees: true, starvation: Some(self.top.starvation()) }
    }
}
