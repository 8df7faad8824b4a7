//! What requests bring: instants of birth, classes, delays, service times.
//!
//! A stream of random numbers for each, so that none depends on what a policy
//! does, and drawn when a request is born: modes of one seed are given exactly
//! the same work, here and where real services are called.

use queueing::{Distribution, Rng, Span, Time};

use super::{Config, Stage};

/// The requests of a run, in order of birth.
#[derive(Clone, Debug)]
pub struct Trace {
    times: queueing::ArrivalTimes,
    class: Rng,
    stages: Vec<Rng>,
    config: Config,
    left: u64,
}

/// A request, with everything it will bring to every stage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Born {
    /// When.
    pub at: Time,
    /// Its class of users, a place among [`Config::slos`].
    pub class: usize,
    /// One for each part of each stage, in their order.
    pub parts: Vec<SampledWork>,
    /// The query that it is, where a stage's service times were recorded.
    pub query: Option<usize>,
}

/// What a part of a request brings to a stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SampledWork {
    /// On the way to it.
    pub hop: Span,
    /// Being served.
    pub service: Span,
    /// On the way back from a unit's worker.
    pub back: Span,
}

impl Trace {
    /// The requests of `config`, those that only fill the queues first.
    #[must_use]
    pub fn new(config: &Config) -> Self {
        let rng = Rng::seeded(config.seed);
        let stream = |n: usize| rng.fork(n as u64);
        Self {
            times: config.arrivals.times(Time::ZERO, stream(0)),
            class: stream(1),
            stages: (0..config.stages.len()).map(|stage| stream(2 + stage)).collect(),
            config: config.clone(),
            left: config.warmup + config.requests,
        }
    }
}

impl Iterator for Trace {
    type Item = Born;

    fn next(&mut self) -> Option<Born> {
        self.left = self.left.checked_sub(1)?;
        let at = self.times.next()?;
        let class = self.config.class(self.class.unit());
        let mut born = Born { at, class, parts: Vec::new(), query: None };
        for (stage, rng) in self.config.stages.iter().zip(&mut self.stages) {
            draw(stage, rng, &mut born);
        }
        Some(born)
    }
}

/// What a request brings to the parts of `stage`.
fn draw(stage: &Stage, rng: &mut Rng, born: &mut Born) {
    let record = stage.recorded.as_deref();
    let query = record.map(|record| record.draw(rng));
    born.query = query.or(born.query);
    for part in 0..stage.parts {
        let mut draw = |law: Distribution| law.sample(rng);
        let hop = draw(stage.hop);
        let service = match (record, query) {
            (Some(record), Some(query)) => record.times(query)[part],
            _ => draw(stage.service),
        };
        born.parts.push(SampledWork { hop, service, back: draw(stage.hop) });
    }
}
