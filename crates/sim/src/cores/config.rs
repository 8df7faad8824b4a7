//! Configuration of a machine, its tasks and its core allocation policy.

use queueing::{Arrivals, Bytes, Distribution, Span};
use sched::cores::affinity;
use sched::cores::{Class, CoreAssignment, CoresConfigError, Policy, Settings, TaskSpec, Topology, by_name};
use serde::Deserialize;

use crate::BadConfig;
use crate::serde_text::{text, text_or_none};

/// Machine and tasks.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Core allocation policy, one of `sched::cores::POLICIES`.
    pub policy: String,
    /// Mechanism that carries out the policy's decisions.
    #[serde(default)]
    pub mechanism: CoreMechanism,
    /// Time between rounds; default: the paper's 10 µs, or 2 ms under `affinity`.
    #[serde(default, deserialize_with = "text_or_none")]
    pub period: Option<Span>,
    /// Sensor of DRAM load.
    #[serde(default)]
    pub sensor: DramSensor,
    /// Hardware.
    #[serde(default)]
    pub machine: MachineConfig,
    /// Costs of core allocation decisions.
    #[serde(default)]
    pub costs: Costs,
    /// Tasks, at least one.
    pub tasks: Vec<TaskConfig>,
    /// THRESH_BW in GB/s and socket; default: the paper's 25.
    pub bandwidth_max_gb: Option<f64>,
    /// Measured duration, more than 0.
    #[serde(alias = "lasts", deserialize_with = "text")]
    pub duration: Span,
    /// Warm-up, not measured.
    #[serde(default = "warmup", deserialize_with = "text")]
    pub warmup: Span,
    /// Seed; the same seed replays the run.
    #[serde(default = "one")]
    pub seed: u64,
}

/// Logical cores, DRAM and cache.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct MachineConfig {
    /// Number of sockets.
    pub sockets: usize,
    /// Physical cores per socket available to tasks, the scheduler's own excluded.
    pub physical: usize,
    /// Logical cores per physical core: 2 with SMT, 1 without.
    pub lanes: usize,
    /// DRAM bandwidth, GB/s and socket.
    pub bandwidth_gb: f64,
    /// Factor r in DRAM's latency 1 + r·u/(1 − u), where u is its utilisation.
    pub latency_rise: f64,
    /// Last-level cache per socket.
    #[serde(deserialize_with = "text")]
    pub cache: Bytes,
}

impl MachineConfig {
    /// Number of logical cores.
    #[must_use]
    pub const fn cores(&self) -> usize {
        self.sockets * self.physical * self.lanes
    }
}

/// The paper's machine as far as published: 24 logical cores of a Broadwell socket, two of them
/// for the scheduler.
impl Default for MachineConfig {
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

/// Costs of core allocation decisions. The core is idle meanwhile.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Costs {
    /// Time from the start of a round until its commands are sent.
    #[serde(deserialize_with = "text")]
    pub decide: Span,
    /// Start of a task on an idle core.
    #[serde(deserialize_with = "text")]
    pub wake: Span,
    /// Start of a task on a core that another task occupies.
    #[serde(deserialize_with = "text")]
    pub preempt: Span,
    /// Return of a core to BE by the kernel.
    #[serde(deserialize_with = "text")]
    pub resume: Span,
    /// Time for which a task of the runtime polls for work before it yields a core.
    #[serde(deserialize_with = "text")]
    pub spin: Span,
    /// For the kernel's scheduler: time slice that BE keeps on a core that LC wants, in the
    /// same scheduling class. Absent: BE is in the idle class and is preempted at once.
    #[serde(deserialize_with = "text_or_none")]
    pub slice: Option<Distribution>,
}

/// Medians of this project's machine, until `greenwave bench sched` replaces them: futex wake
/// of a parked thread, the same over idle-class BE, and the return to BE. Spinning as in
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

/// Task on the machine.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TaskConfig {
    /// Name in reports.
    pub name: String,
    /// `LC` or `BE`.
    pub class: TaskClass,
    /// Guaranteed cores.
    #[serde(default)]
    pub guaranteed: u16,
    /// Cores beyond the guaranteed ones; default: all.
    pub burstable: Option<u16>,
    /// LC: arrival process.
    #[serde(default, deserialize_with = "text_or_none")]
    pub arrivals: Option<Arrivals>,
    /// LC: later arrival processes, in ascending order of time.
    #[serde(default)]
    pub changes: Vec<LoadChange>,
    /// LC: service time on an otherwise idle machine.
    #[serde(default, deserialize_with = "text_or_none")]
    pub service: Option<Distribution>,
    /// BE: number of threads.
    #[serde(default)]
    pub threads: u32,
    /// THRESH_QD; default 10 µs.
    #[serde(default, deserialize_with = "text_or_none")]
    pub delay_max: Option<Span>,
    /// THRESH_HT; default: never.
    #[serde(default, deserialize_with = "text_or_none")]
    pub request_max: Option<Span>,
    /// Tail latency target of `parties`; default 100 µs.
    #[serde(default, deserialize_with = "text_or_none")]
    pub tail_target: Option<Span>,
    /// Resource use, for a task without phases.
    #[serde(default)]
    pub needs: Needs,
    /// BE: phases of resource use, repeated.
    #[serde(default)]
    pub phases: Vec<Phase>,
}

/// Mechanisms that carry out decisions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CoreMechanism {
    /// Programs that publish their queues and leave a core at once when asked.
    #[default]
    Runtime,
    /// Any program: the kernel schedules, within the cores that a policy leaves to each task.
    Affinity,
}

/// Sensors of DRAM load.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DramSensor {
    /// Bytes per second.
    #[default]
    Counters,
    /// Latency of a load: twice that of an idle machine counts as THRESH_BW.
    Probe,
}

/// Task classes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum TaskClass {
    /// Latency-critical.
    #[serde(rename = "LC")]
    Critical,
    /// Best-effort.
    #[serde(rename = "BE")]
    BestEffort,
}

/// Resource use of one logical core of a task while it runs.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Needs {
    /// Fraction of time spent waiting for DRAM at idle latency, 0 to 1.
    pub memory: f64,
    /// DRAM traffic of one logical core, GB/s.
    pub bandwidth_gb: f64,
    /// Cache footprint, shared by the task's logical cores.
    #[serde(deserialize_with = "text")]
    pub footprint: Bytes,
    /// Miss ratio with the whole footprint cached, more than 0 up to 1.
    pub misses: f64,
    /// Pressure on a sibling, 0 and more.
    pub pressure: f64,
    /// Slowdown by a sibling: beside pressure p, work takes 1 + sensitivity · p times as long.
    pub sensitivity: f64,
}

/// Core-bound work: two sibling logical cores do 1.3 times the work of one (Caladan §3.1).
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

/// Change of a load.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LoadChange {
    /// Time of the change after the start, warm-up included.
    #[serde(deserialize_with = "text")]
    pub at: Span,
    /// Arrival process from then on.
    #[serde(deserialize_with = "text")]
    pub arrivals: Arrivals,
}

/// Phase of a BE task.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Phase {
    /// Duration when all threads run undisturbed; longer with fewer cores.
    #[serde(alias = "lasts", deserialize_with = "text")]
    pub duration: Distribution,
    /// Resource use.
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
    /// Parses a configuration and checks it.
    ///
    /// # Errors
    /// One line with the invalid value and the valid ones.
    pub fn from_toml(text: &str) -> Result<Self, BadConfig> {
        crate::serde_text::settings(text, Self::check)
    }

    /// Checks that the configuration can be simulated.
    ///
    /// # Errors
    /// One line with the invalid value and the valid ones.
    pub fn check(&self) -> Result<(), BadConfig> {
        let bad = |text: String| Err(BadConfig(text));
        if self.duration == Span::ZERO {
            return bad("duration 0ns is not above 0".to_owned());
        }
        if self.costs.slice.is_some_and(|slice| slice.mean() == Span::ZERO) {
            return bad("costs: slice 0ns is not above 0; omit it for the idle class".to_owned());
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
        let assignment = self.assignment().map_err(|error| BadConfig(error.to_string()))?;
        self.policy(&assignment).map(drop).map_err(|error| BadConfig(error.to_string()))
    }

    pub(super) fn assignment(&self) -> Result<CoreAssignment, CoresConfigError> {
        let MachineConfig { sockets, physical, lanes, .. } = self.machine;
        CoreAssignment::new(Topology::regular(sockets, physical, lanes)?, self.specs())
    }

    /// Task specifications for policies.
    pub(super) fn specs(&self) -> Vec<TaskSpec> {
        self.tasks.iter().map(|task| task.spec(self.mechanism)).collect()
    }

    /// THRESH_BW, in bytes per second.
    pub(super) fn bandwidth_max(&self) -> f64 {
        self.bandwidth_max_gb.map_or(Settings::default().bandwidth_max, |gb| gb * 1e9)
    }

    pub(super) fn policy(&self, assignment: &CoreAssignment) -> Result<Box<dyn Policy>, CoresConfigError> {
        let default = Settings::default();
        let period = self.period.or((self.mechanism == CoreMechanism::Affinity).then_some(affinity::PERIOD));
        let settings = Settings {
            bandwidth_max: self.bandwidth_max(),
            period: period.unwrap_or(default.period),
            period_shenango: period.unwrap_or(default.period_shenango),
            ..default
        };
        by_name(&self.policy, &settings, assignment)
    }
}

impl TaskConfig {
    /// Largest load of an LC task, in cores of an otherwise idle machine.
    #[must_use]
    pub fn load(&self) -> f64 {
        let arrivals = self.arrivals.into_iter().chain(self.changes.iter().map(|change| change.arrivals));
        let rate = arrivals.map(|arrivals| arrivals.rate_per_s()).fold(0.0, f64::max);
        rate * self.service.map_or(0.0, |service| service.mean().as_secs_f64())
    }

    fn check(&self) -> Result<(), String> {
        let critical = self.class == TaskClass::Critical;
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
            return Err("LC takes neither threads nor phases; BE does".to_owned());
        }
        let needs = self.phases.iter().map(|phase| phase.needs).chain([self.needs]);
        for Needs { memory, misses, bandwidth_gb, pressure, sensitivity, .. } in needs {
            if !(0.0..=1.0).contains(&memory) {
                return Err(format!("memory {memory} is outside 0..=1"));
            }
            if !(misses > 0.0 && misses <= 1.0) {
                return Err(format!("misses {misses} is not above 0 and at most 1"));
            }
            for (name, value) in
                [("bandwidth_gb", bandwidth_gb), ("pressure", pressure), ("sensitivity", sensitivity)]
            {
                if !(value.is_finite() && value >= 0.0) {
                    return Err(format!("{name} {value} is not 0 and more"));
                }
            }
        }
        match self.phases.iter().find(|phase| phase.duration.mean() == Span::ZERO) {
            Some(_) => Err("a phase has a duration of 0ns, which is not above 0".to_owned()),
            None => Ok(()),
        }
    }

    /// Task specification for policies.
    fn spec(&self, mechanism: CoreMechanism) -> TaskSpec {
        let default = TaskSpec::critical(self.guaranteed);
        let delay_max = match mechanism {
            CoreMechanism::Runtime => default.delay_max,
            CoreMechanism::Affinity => affinity::DELAY_MAX,
        };
        TaskSpec {
            class: match self.class {
                TaskClass::Critical => Class::Critical,
                TaskClass::BestEffort => Class::BestEffort,
            },
            burstable: self.burstable.unwrap_or(default.burstable),
            delay_max: self.delay_max.unwrap_or(delay_max),
            request_max: self.request_max,
            tail_target: self.tail_target.unwrap_or(default.tail_target),
            ..default
        }
    }
}
