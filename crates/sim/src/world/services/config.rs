//! Configuration of the services simulation, read from an experiment's TOML.

use std::sync::Arc;

use deadline::{Order, Shedding};
use queueing::{Arrivals, Distribution, Span};

use super::ServiceTimeRecord;
use crate::BadConfig;
use crate::serde_text::text;

/// Services in series, and their load.
///
/// ```
/// let config = sim::world::services::Config::from_toml(r#"
///     arrivals = "poisson 100"
///     requests = 1000
///     order = "edf"
///     shedding = "infeasible"
///     slos = [{ name = "all", share = 1.0, slo = "200ms" }]
///     stages = [{ name = "S1", service = "normal 8ms 2ms" }]
/// "#)?;
/// assert_eq!(config.stages[0].servers, 1);
/// # Ok::<(), sim::world::services::BadConfig>(())
/// ```
#[derive(Clone, Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Arrival process.
    #[serde(deserialize_with = "text")]
    pub arrivals: Arrivals,
    /// Number of measured requests, at least 1.
    pub requests: u64,
    /// Number of requests before the measured ones, which fill the queues.
    #[serde(default)]
    pub warmup: u64,
    /// User classes and their objectives.
    pub slos: Vec<Slo>,
    /// Services, in the order of calls.
    pub stages: Vec<Stage>,
    /// Order of queues.
    #[serde(deserialize_with = "text")]
    pub order: Order,
    /// Load shedding of queues.
    #[serde(deserialize_with = "text")]
    pub shedding: Shedding,
    /// Scope of expected service times.
    #[serde(default)]
    pub expects: Expects,
    /// Maximum time for which a request may be passed over.
    #[serde(default = "age_max_default", alias = "patience", deserialize_with = "text")]
    pub age_max: Span,
    /// Capacity of a server's queue.
    #[serde(default = "capacity_default")]
    pub capacity: usize,
    /// Seed; the same seed replays the run.
    #[serde(default = "seed_default")]
    pub seed: u64,
}

/// Scope of the expected service time of a request, estimated by the 95th percentile of earlier
/// answered requests. Workers of a unit always use their own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Expects {
    /// Service at this stage.
    Own,
    /// Time until the user has the answer, later services and their queues included.
    #[default]
    Rest,
}

/// Granularity at which a unit learns service times of parts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Learns {
    /// All requests together: 95th percentile of earlier ones.
    #[default]
    All,
    /// Each query at each worker, smoothed; gives the slowest part as well.
    Query,
}

/// User class and its latency objective.
#[derive(Clone, Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Slo {
    /// Name in reports.
    pub name: String,
    /// Share of all requests; the shares sum to 1.
    pub share: f64,
    /// `expected_deadline`; without it the class has no deadline, and each answer counts.
    #[serde(default = "no_deadline", deserialize_with = "text")]
    pub slo: Span,
    /// Factor by which its clients understate their budgets, to be served before others; 1: honest.
    #[serde(default = "honest")]
    pub understates: f64,
}

/// Kind of request at a stage.
#[derive(Clone, Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorkKind {
    /// Share of the requests; the rest are of the stage's own `service`.
    pub share: f64,
    /// Service time.
    #[serde(deserialize_with = "text")]
    pub service: Distribution,
}

/// Change of speed in the middle of a run.
#[derive(Clone, Copy, Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SpeedChange {
    /// Start, since the first arrival.
    #[serde(deserialize_with = "text")]
    pub from: Span,
    /// End.
    #[serde(deserialize_with = "text")]
    pub to: Span,
    /// Factor on service times in between.
    pub factor: f64,
}

/// Service, or parallel unit of services.
#[derive(Clone, Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stage {
    /// Name in reports.
    pub name: String,
    /// Threads of the service, or of each worker of the unit.
    #[serde(default = "one")]
    pub servers: usize,
    /// Service time, unless a record is given.
    #[serde(default = "nothing", deserialize_with = "text")]
    pub service: Distribution,
    /// Name of a record of service times, which [`Config::load`] reads.
    #[serde(default)]
    pub record: Option<String>,
    /// Factor on recorded service times.
    #[serde(default = "as_recorded")]
    pub slower: u64,
    /// Parsed record.
    #[serde(skip)]
    pub recorded: Option<Arc<ServiceTimeRecord>>,
    /// Other kinds of requests at this service.
    #[serde(default)]
    pub kinds: Vec<WorkKind>,
    /// The service tells the kinds apart (methods); else they have one name.
    #[serde(default)]
    pub kinds_named: bool,
    /// Mean number of successive requests with the same service time; 1: independent.
    #[serde(default = "independent")]
    pub repeats: f64,
    /// Change of speed.
    #[serde(default)]
    pub change: Option<SpeedChange>,
    /// Network delay to the stage, and back from a unit's worker.
    #[serde(default = "nothing", deserialize_with = "text")]
    pub hop: Distribution,
    /// Fan-out: workers among which each request is split; 1: a single service.
    #[serde(default = "one")]
    pub parts: usize,
    /// Budget reserved for the aggregate phase and later stages.
    #[serde(default, deserialize_with = "text")]
    pub reserve: Span,
    /// Answer with the available parts when their time is up.
    #[serde(default)]
    pub partial: bool,
    /// Granularity at which the unit learns service times.
    #[serde(default)]
    pub learns: Learns,
}

impl Slo {
    /// `expected_deadline` as the clients of this class send it.
    #[must_use]
    pub fn claim(&self) -> Span {
        if self.is_honest() {
            self.slo
        } else {
            Span::from_secs_f64(self.slo.as_secs_f64() / self.understates)
        }
    }

    /// True if its clients send the budgets that they have.
    #[must_use]
    pub fn is_honest(&self) -> bool {
        self.understates <= 1.0 || self.slo == Span::MAX
    }
}

impl Config {
    /// Range of the parts of `stage` in [`TraceRequest::parts`](super::TraceRequest::parts).
    #[must_use]
    pub fn parts(&self, stage: usize) -> std::ops::Range<usize> {
        let before = self.stages[..stage].iter().map(|stage| stage.parts).sum();
        before..before + self.stages[stage].parts
    }

    /// Parses a configuration and checks it.
    ///
    /// # Errors
    /// One line with the invalid value and the valid ones.
    pub fn from_toml(text: &str) -> Result<Self, BadConfig> {
        Self::from_toml_with(text, |name| Err(format!("record {name:?}: no reader is given")))
    }

    /// Same as [`from_toml`](Self::from_toml), with records read by `read`.
    ///
    /// # Errors
    /// One line with the invalid value and the valid ones, or `read`'s error.
    pub fn from_toml_with(
        text: &str,
        read: impl Fn(&str) -> Result<String, String>,
    ) -> Result<Self, BadConfig> {
        let mut config: Self = toml::from_str(text).map_err(|error| BadConfig(error.to_string()))?;
        config.load(read)?;
        config.check()?;
        Ok(config)
    }

    /// Reads the records that stages name, each by `read`.
    ///
    /// # Errors
    /// `read`'s error, or one line: the parse error.
    pub fn load(&mut self, read: impl Fn(&str) -> Result<String, String>) -> Result<(), BadConfig> {
        for stage in &mut self.stages {
            if let Some(name) = &stage.record {
                let text = read(name).map_err(BadConfig)?;
                stage.recorded = Some(Arc::new(ServiceTimeRecord::parse(&text, stage.slower)?));
            }
        }
        Ok(())
    }

    /// Checks that the simulation can be built.
    ///
    /// # Errors
    /// One line with the invalid value and the valid ones.
    pub fn check(&self) -> Result<(), BadConfig> {
        let bad = |text: String| Err(BadConfig(text));
        let shares: f64 = self.slos.iter().map(|slo| slo.share).sum();
        if (shares - 1.0).abs() > 1e-6 || self.slos.iter().any(|slo| !(0.0..=1.0).contains(&slo.share)) {
            return bad(format!("shares of slos make {shares}, not 1"));
        }
        if let Some(slo) = self.slos.iter().find(|slo| !(1.0..=1e6).contains(&slo.understates)) {
            return bad(format!(
                "class {}: understates {} is outside 1..=1000000",
                slo.name, slo.understates
            ));
        }
        if self.stages.is_empty() {
            return bad("stages is empty, at least 1 is required".to_owned());
        }
        for stage in &self.stages {
            let name = &stage.name;
            if !(1..=1_000).contains(&stage.servers) {
                return bad(format!("stage {name}: servers {} is outside 1..=1000", stage.servers));
            }
            if !(1..=1_000).contains(&stage.parts) {
                return bad(format!("stage {name}: parts {} is outside 1..=1000", stage.parts));
            }
            if stage.parts == 1 && (stage.partial || stage.reserve > Span::ZERO) {
                return bad(format!("stage {name}: reserve and partial require a unit of at least 2 parts"));
            }
            let recorded = stage.recorded.as_ref().map(|record| record.parts());
            if stage.record.is_some() && recorded != Some(stage.parts) {
                let has = recorded.map_or("was not read".to_owned(), |parts| format!("has {parts} workers"));
                return bad(format!("stage {name}: its record {has}, not {}", stage.parts));
            }
            let share: f64 = stage.kinds.iter().map(|kind| kind.share).sum();
            if !(0.0..=1.0).contains(&share) || stage.kinds.iter().any(|kind| kind.share < 0.0) {
                return bad(format!("stage {name}: shares of kinds make {share}, not 0..=1"));
            }
            if stage.repeats < 1.0 {
                return bad(format!("stage {name}: repeats {} is not at least 1", stage.repeats));
            }
            if stage.learns == Learns::Query && stage.record.is_none() {
                return bad(format!("stage {name}: learns \"query\" requires a record"));
            }
        }
        if !(1..=100_000_000).contains(&self.capacity) {
            return bad(format!("capacity {} is outside 1..=100000000", self.capacity));
        }
        if self.requests == 0 {
            return bad("requests 0 is not at least 1".to_owned());
        }
        Ok(())
    }

    /// Class selected by a uniform number in 0..1.
    pub(super) fn class(&self, unit: f64) -> usize {
        let mut below = 0.0;
        let within = |slo: &Slo| {
            below += slo.share;
            unit < below
        };
        self.slos.iter().position(within).unwrap_or(self.slos.len() - 1)
    }

    /// Utilisation of the most loaded stage.
    #[must_use]
    pub fn utilisation(&self) -> f64 {
        let of =
            |stage: &Stage| self.arrivals.rate_per_s() * stage.mean().as_secs_f64() / stage.servers as f64;
        self.stages.iter().map(of).fold(0.0, f64::max)
    }
}

impl Stage {
    /// Mean service time.
    #[must_use]
    pub fn mean(&self) -> Span {
        let Some(record) = &self.recorded else {
            let others: f64 =
                self.kinds.iter().map(|kind| kind.share * kind.service.mean().as_secs_f64()).sum();
            let share: f64 = self.kinds.iter().map(|kind| kind.share).sum();
            return Span::from_secs_f64(others + (1.0 - share) * self.service.mean().as_secs_f64());
        };
        record.mean()
    }
}

fn one() -> usize {
    1
}

fn seed_default() -> u64 {
    1
}

fn capacity_default() -> usize {
    10_000_000
}

fn age_max_default() -> Span {
    Span::from_secs(3_600)
}

fn no_deadline() -> Span {
    Span::MAX
}

fn honest() -> f64 {
    1.0
}

fn independent() -> f64 {
    1.0
}

fn as_recorded() -> u64 {
    1
}

fn nothing() -> Distribution {
    Distribution::Constant(Span::ZERO)
}
