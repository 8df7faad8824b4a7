//! Request trace: arrival times, classes, network delays, service times.
//!
//! Each has its own random stream and is drawn at the request's arrival, independent of policy:
//! all modes of one seed get the same work, in simulation and with real services.

use queueing::{Rng, Span, Time};

use super::{Config, Stage};

/// Requests of a run, in order of arrival.
#[derive(Clone, Debug)]
pub struct Trace {
    times: queueing::ArrivalTimes,
    class: Rng,
    stages: Vec<StageDraws>,
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
    /// Kind of work, as the service distinguishes kinds.
    pub kind: usize,
}

/// Random stream of a stage, and its last service time.
#[derive(Clone, Debug)]
struct StageDraws {
    rng: Rng,
    last: Option<(Span, usize)>,
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
            stages: (0..config.stages.len())
                .map(|stage| StageDraws { rng: stream(2 + stage), last: None })
                .collect(),
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
        for (stage, draws) in self.config.stages.iter().zip(&mut self.stages) {
            draw(stage, draws, &mut request);
        }
        Some(request)
    }
}

/// Draws the values of all parts of `stage`.
fn draw(stage: &Stage, StageDraws { rng, last }: &mut StageDraws, request: &mut TraceRequest) {
    let record = stage.recorded.as_deref();
    let query = record.map(|record| record.draw(rng));
    request.query = query.or(request.query);
    for part in 0..stage.parts {
        let hop = stage.hop.sample(rng);
        let (service, kind) = match (record, query) {
            (Some(record), Some(query)) => (record.times(query)[part], 0),
            _ => draw_service(stage, rng, last),
        };
        let service = match stage.change {
            Some(change) if (change.from..change.to).contains(&request.at.since(Time::ZERO)) => {
                Span::from_secs_f64(service.as_secs_f64() * change.factor)
            }
            _ => service,
        };
        let kind = if stage.kinds_named { kind } else { 0 };
        request.parts.push(SampledWork { hop, service, back: stage.hop.sample(rng), kind });
    }
}

/// Service time and kind; the last ones with the probability that `repeats` gives.
fn draw_service(stage: &Stage, rng: &mut Rng, last: &mut Option<(Span, usize)>) -> (Span, usize) {
    if let Some(last) = *last
        && stage.repeats > 1.0
        && !rng.chance(1.0 / stage.repeats)
    {
        return last;
    }
    let mut unit = if stage.kinds.is_empty() { 1.0 } else { rng.unit() };
    let within = |kind: &super::WorkKind| {
        unit -= kind.share;
        unit < 0.0
    };
    let other = stage.kinds.iter().position(within);
    let service = other.map_or(stage.service, |other| stage.kinds[other].service).sample(rng);
    let drawn = (service, other.map_or(0, |other| other + 1));
    *last = Some(drawn);
    drawn
}
