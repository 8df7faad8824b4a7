//! The machine, the tasks on it, and who divides it.

use queueing::{Arrivals, Bytes, Distribution, Span};
use sched::cores::{Class, CoreAssignment, CoresConfigError, Policy, Settings, TaskSpec, Topology, by_name};
use serde::Deserialize;

use crate::BadConfig;
use crate::text::{text, text_or_none};

/// A machine and its tasks.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// One of `sched::cores::POLICIES`.
    pub policy: String,
    /// What it runs on.
    #[serde(default)]
    pub machine: Machine,
    /// What decisions take.
    #[serde(default)]
    pub costs: Costs,
    /// Who runs, at least one.
    pub tasks: Vec<Task>,
    /// THRESH_BW in GB/s and socket; the paper's 25 when absent.
    pub bandwidth_max_gb: Option<f64>,
    /// Counted for so long, more than 0 …
    #[serde(deserialize_with = "text")]
    pub lasts: Span,
    /// … after so long that is not.
    #[serde(default = "warmup", deserialize_with = "text")]
    pub warmup: Span,
    /// Replays the run.
    #[serde(default = "one")]
    pub seed: u64,
}

/// Lanes, DRAM and cache.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Machine {
    /// Sockets.
    pub sockets: usize,
    /// Physical cores of each that are to be divided: without the scheduler's own.
    pub physical: usize,
    /// Lanes of each: 2 with SMT, 1 without.
    pub lanes: usize,
    /// What DRAM moves at most, GB/s and socket.
    pub bandwidth_gb: f64,
    /// r of DRAM's latency 1 + r·u/(1 − u).
    pub latency_rise: f64,
    /// Last-level cache of each socket.
    #[serde(deserialize_with = "text")]
    pub cache: Bytes,
}

/// The paper's, as far as it says: 24 lanes of a Broadwell socket, two of them for the scheduler.
impl Default for Machine {
    fn default() -> Self {
        Self {
            sockets: 1,
            physical: 11,
            lanes: 2,
            bandwidth_gb: 32.0,
            latency_rise: 0.1,
            cache: Bytes::new(30_000_000),
        }
    }
}

/// What it takes to carry out a decision. Nobody runs on the core meanwhile.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Costs {
    /// From a round's begin until its commands leave.
    #[serde(deserialize_with = "text")]
    pub decide: Span,
    /// A task begins on an idle core.
    #[serde(deserialize_with = "text")]
    pub wake: Span,
    /// A task begins on a core that another one has.
    #[serde(deserialize_with = "text")]
    pub preempt: Span,
    /// The kernel gives a core back to BE.
    #[serde(deserialize_with = "text")]
    pub resume: Span,
    /// A task of the runtime looks for work so long before it gives a core back.
    #[serde(deserialize_with = "text")]
    pub spin: Span,
    /// Where the kernel divides cores: how long BE keeps one that LC wants, being in
    /// the same class; absent where it is in the idle class, and keeps none.
    #[serde(deserialize_with = "text_or_none")]
    pub slice: Option<Distribution>,
}

/// Medians of this project's machine (`greenwave bench sched` is to replace them): a futex
/// wake of a parked thread, the same over BE in its idle class, and its way back. Spinning as in
/// Caladan's runtime.
impl Default for Costs {
    fn default() -> Self {
        Self {
            decide: Span::from_micros(1),
            wake: Span::from_nanos(5_200),
            preempt: Span::from_nanos(6_400),
            resume: Span::from_nanos(3_300),
            spin: Span::from_micros(2),
            slice: None,
        }
    }
}

/// What shares the machine.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Task {
    /// Its name in reports.
    pub name: String,
    /// `LC` or `BE`.
    pub class: ClassName,
    /// Guaranteed cores.
    #[serde(default)]
    pub guaranteed: u16,
    /// Cores beyond that; as many as there are when absent.
    pub burstable: Option<u16>,
    /// LC: when requests come.
    #[serde(default, deserialize_with = "text_or_none")]
    pub arrivals: Option<Arrivals>,
    /// LC: when they come from some time on, ascending.
    #[serde(default)]
    pub changes: Vec<Change>,
    /// LC: what a request takes on a machine of its own.
    #[serde(default, deserialize_with = "text_or_none")]
    pub service: Option<Distribution>,
    /// BE: cores that it could use.
    #[serde(default)]
    pub threads: u32,
    /// THRESH_QD; 10 µs when absent.
    #[serde(default, deserialize_with = "text_or_none")]
    pub delay_max: Option<Span>,
    /// THRESH_HT; never when absent.
    #[serde(default, deserialize_with = "text_or_none")]
    pub request_max: Option<Span>,
    /// What `parties` aims at; 100 µs when absent.
    #[serde(default, deserialize_with = "text_or_none")]
    pub tail_target: Option<Span>,
    /// What it asks of the machine, where it has no phases.
    #[serde(default)]
    pub needs: Needs,
    /// BE: what it asks of it in turn, over and over.
    #[serde(default)]
    pub phases: Vec<Phase>,
}

/// The classes' names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum ClassName {
    /// Latency-critical.
    #[serde(rename = "LC")]
    Critical,
    /// Best-effort.
    #[serde(rename = "BE")]
    BestEffort,
}

/// What a task's lane asks of the machine while it runs.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Needs {
    /// Part of its time that waits for an idle DRAM, 0 to 1.
    pub memory: f64,
    /// GB/s that one lane then moves.
    pub bandwidth_gb: f64,
    /// What it would have in the cache; shared by its lanes.
    #[serde(deserialize_with = "text")]
    pub footprint: Bytes,
    /// Part of its accesses that miss the cache with all of that in it, more than 0 up to 1.
    pub misses: f64,
    /// How much it disturbs a sibling, 0 and more …
    pub pressure: f64,
    /// … and how much one disturbs it: beside pressure p its work takes 1 + sensitivity · p times as long.
    pub sensitivity: f64,
}

/// Work within the core: two lanes of it do 1.3 times what one does (Caladan §3.1).
impl Default for Needs {
    fn default() -> Self {
        Self {
            memory: 0.1,
            bandwidth_gb: 0.2,
            footprint: Bytes::new(1_000_000),
            misses: 0.1,
            pressure: 1.0,
            sensitivity: 0.54,
        }
    }
}

/// A load that changes.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Change {
    /// From so long after the beginning on, warm-up included, …
    #[serde(deserialize_with = "text")]
    pub at: Span,
    /// … requests come like this.
    #[serde(deserialize_with = "text")]
    pub arrivals: Arrivals,
}

/// A phase of a BE task.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Phase {
    /// How long it takes when all threads run undisturbed: less cores, longer phase.
    #[serde(deserialize_with = "text")]
    pub lasts: Distribution,
    /// What it asks for.
    #[serde(default)]
    pub needs: Needs,
}

fn warmup() -> Span {
    Span::from_millis(10)
}

fn one() -> u64 {
    1
}

impl Config {
    /// Reads a configuration and checks it.
    ///
    /// # Errors
    /// One line: the value and what would be valid.
    pub fn from_toml(text: &str) -> Result<Self, BadConfig> {
        crate::text::settings(text, Self::check)
    }

    /// Refuses what cannot be simulated.
    ///
    /// # Errors
    /// One line: the value and what would be valid.
    pub fn check(&self) -> Result<(), BadConfig> {
        let bad = |text: String| Err(BadConfig(text));
        if self.lasts == Span::ZERO {
            return bad("lasts 0ns is nothing to count, more is".to_owned());
        }
        if self.costs.slice.is_some_and(|slice| slice.mean() == Span::ZERO) {
            return bad("costs: a slice of 0ns is none; leave it out".to_owned());
        }
        let machine = &self.machine;
        for (name, value) in [("bandwidth_gb", machine.bandwidth_gb), ("latency_rise", machine.latency_rise)]
        {
            if !(value.is_finite() && value > 0.0) {
                return bad(format!("machine.{name} {value} is not more than 0"));
            }
        }
        for task in &self.tasks {
            task.check().map_err(|error| BadConfig(format!("task {}: {error}", task.name)))?;
        }
        let board = self.board().map_err(|error| BadConfig(error.to_string()))?;
        self.policy(&board).map(drop).map_err(|error| BadConfig(error.to_string()))
    }

    pub(super) fn board(&self) -> Result<CoreAssignment, CoresConfigError> {
        let Machine { sockets, physical, lanes, .. } = self.machine;
        CoreAssignment::new(
            Topology::regular(sockets, physical, lanes)?,
            self.tasks.iter().map(Task::spec).collect(),
        )
    }

    pub(super) fn policy(&self, board: &CoreAssignment) -> Result<Box<dyn Policy>, CoresConfigError> {
        let default = Settings::default();
        let bandwidth_max = self.bandwidth_max_gb.map_or(default.bandwidth_max, |gb| gb * 1e9);
        by_name(&self.policy, &Settings { bandwidth_max, ..default }, board)
    }
}

impl Task {
    fn check(&self) -> Result<(), String> {
        let critical = self.class == ClassName::Critical;
        if critical && (self.arrivals.is_none() || self.service.is_none()) {
            return Err("LC needs arrivals and service".to_owned());
        }
        if !critical && (self.arrivals.is_some() || self.service.is_some() || !self.changes.is_empty()) {
            return Err("BE has threads, no arrivals, no changes of them and no service".to_owned());
        }
        if let Some(pair) = self.changes.windows(2).find(|pair| pair[0].at >= pair[1].at) {
            return Err(format!("a change at {} is not after the one at {}", pair[1].at, pair[0].at));
        }
        if critical && (self.threads > 0 || !self.phases.is_empty()) {
            return Err("LC has neither threads nor phases; BE has".to_owned());
        }
        let needs = self.phases.iter().map(|phase| phase.needs).chain([self.needs]);
        for Needs { memory, misses, bandwidth_gb, pressure, sensitivity, .. } in needs {
            if !(0.0..=1.0).contains(&memory) {
                return Err(format!("memory {memory} is outside 0..=1"));
            }
            if !(misses > 0.0 && misses <= 1.0) {
                return Err(format!("misses {misses} is not more than 0 up to 1"));
            }
            for (name, value) in
                [("bandwidth_gb", bandwidth_gb), ("pressure", pressure), ("sensitivity", sensitivity)]
            {
                if !(value.is_finite() && value >= 0.0) {
                    return Err(format!("{name} {value} is not 0 and more"));
                }
            }
        }
        match self.phases.iter().find(|phase| phase.lasts.mean() == Span::ZERO) {
            Some(_) => Err("a phase that lasts 0ns never begins; more than that does".to_owned()),
            None => Ok(()),
        }
    }

    /// As policies know it.
    fn spec(&self) -> TaskSpec {
        let default = TaskSpec::critical(self.guaranteed);
        TaskSpec {
            class: match self.class {
                ClassName::Critical => Class::Critical,
                ClassName::BestEffort => Class::BestEffort,
            },
            burstable: self.burstable.unwrap_or(default.burstable),
            delay_max: self.delay_max.unwrap_or(default.delay_max),
            request_max: self.request_max,
            tail_target: self.tail_target.unwrap_or(default.tail_target),
            ..default
        }
    }
}
