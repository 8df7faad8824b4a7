//! What a world of services is made of, as an experiment's TOML has it.

use std::sync::Arc;

use deadline::{Order, Shedding};
use queueing::{Arrivals, Distribution, Span};

use super::Record;
use crate::BadConfig;
use crate::text::text;

/// Services in series, and who calls them.
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
    /// When requests are born.
    #[serde(deserialize_with = "text")]
    pub arrivals: Arrivals,
    /// Requests that are counted, 1 and more.
    pub requests: u64,
    /// Requests before those, which only fill the queues.
    #[serde(default)]
    pub warmup: u64,
    /// What users expect.
    pub slos: Vec<Slo>,
    /// The services, in the order of calls.
    pub stages: Vec<Stage>,
    /// Who goes next.
    #[serde(deserialize_with = "text")]
    pub order: Order,
    /// Who is dropped.
    #[serde(deserialize_with = "text")]
    pub shedding: Shedding,
    /// What a service expects of a request.
    #[serde(default)]
    pub expects: Expects,
    /// How long a request may be passed over.
    #[serde(default = "patience_default", deserialize_with = "text")]
    pub patience: Span,
    /// Requests that wait at one server.
    #[serde(default = "capacity_default")]
    pub capacity: usize,
    /// Replays the run.
    #[serde(default = "seed_default")]
    pub seed: u64,
}

/// What a service takes a request to take once its turn comes: 95 % of those
/// answered before took no longer. At a unit's worker it is always its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Expects {
    /// The service here.
    Own,
    /// Until the user has the answer, later services and their queues included.
    #[default]
    Rest,
}

/// Of what a unit learns how long its parts take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Learns {
    /// Of all requests together: 95 % of those before took no longer.
    #[default]
    All,
    /// Of each query at each worker, smoothed; the slowest part's is known too.
    Query,
}

/// A class of users and the response time they expect.
#[derive(Clone, Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Slo {
    /// Its name in reports.
    pub name: String,
    /// Its share of all requests; all shares are 1 together.
    pub share: f64,
    /// `expected_deadline`.
    #[serde(deserialize_with = "text")]
    pub slo: Span,
}

/// A service, or a parallel unit of some.
#[derive(Clone, Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stage {
    /// Its name in reports.
    pub name: String,
    /// Threads of the service, or of each worker of the unit.
    #[serde(default = "one")]
    pub servers: usize,
    /// How long a thread takes, unless there is a record.
    #[serde(default = "nothing", deserialize_with = "text")]
    pub service: Distribution,
    /// The name of a record of service times, which [`Config::load`] reads.
    #[serde(default)]
    pub record: Option<String>,
    /// How many times slower workers are than where it was recorded.
    #[serde(default = "as_recorded")]
    pub slower: u64,
    /// The record, once it was read.
    #[serde(skip)]
    pub recorded: Option<Arc<Record>>,
    /// Network delay into it, and back from a unit's worker.
    #[serde(default = "nothing", deserialize_with = "text")]
    pub hop: Distribution,
    /// Workers among whom each request is split; 1 is a service.
    #[serde(default = "one")]
    pub parts: usize,
    /// Kept for the aggregate phase and what comes after it.
    #[serde(default, deserialize_with = "text")]
    pub reserve: Span,
    /// Whether the unit answers with the parts it has once their time is up.
    #[serde(default)]
    pub partial: bool,
    /// Of what it learns how long its parts take.
    #[serde(default)]
    pub learns: Learns,
}

impl Config {
    /// Where the parts of the `stage`-th are among those that a request brings
    /// ([`NewRequest::parts`](super::Born::parts)).
    #[must_use]
    pub fn parts(&self, stage: usize) -> std::ops::Range<usize> {
        let before = self.stages[..stage].iter().map(|stage| stage.parts).sum();
        before..before + self.stages[stage].parts
    }

    /// Reads a configuration and checks it.
    ///
    /// # Errors
    /// One line: the value and what would be valid.
    pub fn from_toml(text: &str) -> Result<Self, BadConfig> {
        Self::from_toml_with(text, |name| Err(format!("record {name:?}: there is nobody to read it")))
    }

    /// As [`from_toml`](Self::from_toml), and the records it names by `read`.
    ///
    /// # Errors
    /// One line: the value and what would be valid, or what `read` says.
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
    /// What `read` says, or one line: what is wrong with the text.
    pub fn load(&mut self, read: impl Fn(&str) -> Result<String, String>) -> Result<(), BadConfig> {
        for stage in &mut self.stages {
            if let Some(name) = &stage.record {
                let text = read(name).map_err(BadConfig)?;
                stage.recorded = Some(Arc::new(Record::parse(&text, stage.slower)?));
            }
        }
        Ok(())
    }

    /// Whether the world can be built.
    ///
    /// # Errors
    /// One line: the value and what would be valid.
    pub fn check(&self) -> Result<(), BadConfig> {
        let bad = |text: String| Err(BadConfig(text));
        let shares: f64 = self.slos.iter().map(|slo| slo.share).sum();
        if (shares - 1.0).abs() > 1e-6 || self.slos.iter().any(|slo| !(0.0..=1.0).contains(&slo.share)) {
            return bad(format!("shares of slos make {shares}, not 1"));
        }
        if self.stages.is_empty() {
            return bad("stages is empty, not 1 and more".to_owned());
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
                return bad(format!("stage {name}: reserve and partial are for units of 2 parts and more"));
            }
            let recorded = stage.recorded.as_ref().map(|record| record.parts());
            if stage.record.is_some() && recorded != Some(stage.parts) {
                let has = recorded.map_or("was not read".to_owned(), |parts| format!("has {parts} workers"));
                return bad(format!("stage {name}: its record {has}, not {}", stage.parts));
            }
            if stage.learns == Learns::Query && stage.record.is_none() {
                return bad(format!("stage {name}: learns \"query\" is for stages with a record"));
            }
        }
        if !(1..=100_000_000).contains(&self.capacity) {
            return bad(format!("capacity {} is outside 1..=100000000", self.capacity));
        }
        if self.requests == 0 {
            return bad("requests 0 is not 1 and more".to_owned());
        }
        Ok(())
    }

    /// The class that a number in 0..1 stands for.
    pub(super) fn class(&self, unit: f64) -> usize {
        let mut below = 0.0;
        let within = |slo: &Slo| {
            below += slo.share;
            unit < below
        };
        self.slos.iter().position(within).unwrap_or(self.slos.len() - 1)
    }

    /// Work that arrives at a stage's busiest servers per unit of time they have.
    #[must_use]
    pub fn utilisation(&self) -> f64 {
        let of =
            |stage: &Stage| self.arrivals.rate_per_s() * stage.mean().as_secs_f64() / stage.servers as f64;
        self.stages.iter().map(of).fold(0.0, f64::max)
    }
}

impl Stage {
    /// How long its service takes on average.
    #[must_use]
    pub fn mean(&self) -> Span {
        self.recorded.as_ref().map_or_else(|| self.service.mean(), |record| record.mean())
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

fn patience_default() -> Span {
    Span::from_secs(3_600)
}

fn as_recorded() -> u64 {
    1
}

fn nothing() -> Distribution {
    Distribution::Constant(Span::ZERO)
}
