//! Request trace: arrival times, classes, network delays, service times.
//!
//! Each has its own random stream and is drawn at the request's arrival, independent of policy:
//! all modes of one seed get the same work, in simulation and with real services.

use queueing::{Distribution, Rng, Span, Time};

use super::{Config, Stage};

/// Requests of a run, in order of arrival.
#[derive(Clone, Debug)]
pub struct Trace {
    times: queueing::ArrivalTimes,
    class: Rng,
    stages: Vec<Rng>,
    config: Config,
    left: u64,
}

/// Request with all its random values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceRequest {
    /// Arrival time.
    pub at: Time,
    /// User class, an index of [`Config::slos`].
    pub class: usize,
    /// Values for each part of each stage, in order.
    pub parts: Vec<SampledWork>,
    /// Query, where a stage's service times were recorded.
    pub query: Option<usize>,
}

/// Random values of one part at one stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SampledWork {
    /// Network delay to the stage.
    pub hop: Span,
    /// Service time.
    pub service: Span,
    /// Network delay back from a unit's worker.
    pub back: Span,
}

impl Trace {
    /// Requests of `config`, warm-up included.
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
    type Item = TraceRequest;

    fn next(&mut self) -> Option<TraceRequest> {
        self.left = self.left.checked_sub(1)?;
        let at = self.times.next()?;
        let class = self.config.class(self.class.unit());
        let mut request = TraceRequest { at, class, parts: Vec::new(), query: None };
        for (stage, rng) in self.config.stages.iter().zip(&mut self.stages) {
            draw(stage, rng, &mut request);
        }
        Some(request)
    }
}

/// Draws the values of all parts of `stage`.
fn draw(stage: &Stage, rng: &mut Rng, request: &mut TraceRequest) {
    let record = stage.recorded.as_deref();
    let query = record.map(|record| record.draw(rng));
    request.query = query.or(request.query);
    for part in 0..stage.parts {
        let mut draw = |distribution: Distribution| distribution.sample(rng);
        let hop = draw(stage.hop);
        let service = match (record, query) {
            (Some(record), Some(query)) => record.times(query)[part],
            _ => draw(stage.service),
        };
        request.parts.push(SampledWork { hop, service, back: draw(stage.hop) });
    }
}
