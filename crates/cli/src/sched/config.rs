//! Configuration file of `greenwave sched`: the tasks that share a machine.

use std::path::{Path, PathBuf};

use hostbpf::guard::QUEUE_REPORTS_MAX;
use hostsched::{Mechanism, TaskSelector, cpulist, group_path};
use queueing::{CoreId, Span};
use sched::cores::affinity;
use sched::cores::{Class, CoreAssignment, Policy, Settings, TaskSpec, Topology, by_name};
use serde::Deserialize;

use crate::settings::{text, text_or_none, within};
use crate::{Error, include, toml_error};

/// Output of `greenwave sched example`: every setting with its default.
pub const EXAMPLE: &str = include_str!("example.toml");

/// The accepted mechanisms.
pub const MECHANISMS: [&str; 4] = ["auto", "affinity", "scx", "runtime"];

/// The file.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    pub policy: String,
    pub mechanism: String,
    pub cores: Option<String>,
    pub sensor: SensorName,
    #[serde(deserialize_with = "text_or_none")]
    pub period: Option<Span>,
    #[serde(deserialize_with = "text_or_none")]
    pub calm: Option<Span>,
    pub real_time: bool,
    pub bandwidth_max_gb: f64,
    pub latency_max: f64,
    #[serde(deserialize_with = "text")]
    pub slice: Span,
    #[serde(deserialize_with = "text")]
    pub starve_max: Span,
    #[serde(deserialize_with = "text")]
    pub period_parties: Span,
    pub slack: f64,
    #[serde(deserialize_with = "text")]
    pub condition_after: Span,
    pub hook: Vec<String>,
    pub metrics: Option<PathBuf>,
    pub tasks: Vec<Task>,
}

/// A task of the file.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Task {
    pub name: String,
    pub class: ClassName,
    pub command: Option<Vec<String>>,
    pub pid: Option<u32>,
    pub cgroup: Option<String>,
    #[serde(default)]
    pub guaranteed: u16,
    pub burstable: Option<u16>,
    #[serde(default, deserialize_with = "text_or_none")]
    pub delay_max: Option<Span>,
    #[serde(default, deserialize_with = "text_or_none")]
    pub request_max: Option<Span>,
    #[serde(default, deserialize_with = "text_or_none")]
    pub tail_target: Option<Span>,
    pub tail: Option<PathBuf>,
    #[serde(default, alias = "joined")]
    pub queue_reports: Vec<PathBuf>,
    #[serde(default, alias = "pulse")]
    pub signal_page: bool,
    pub output: Option<PathBuf>,
}

/// The classes' names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum ClassName {
    LC,
    BE,
}

/// Sensors of DRAM load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SensorName {
    Auto,
    Counters,
    Probe,
    None,
}

impl Default for Config {
    fn default() -> Self {
        let paper = Settings::default();
        Self {
            policy: "caladan".to_owned(),
            mechanism: "auto".to_owned(),
            cores: None,
            sensor: SensorName::Auto,
            period: None,
            calm: None,
            real_time: true,
            bandwidth_max_gb: paper.bandwidth_max / 1e9,
            latency_max: affinity::LATENCY_MAX,
            slice: paper.slice,
            starve_max: paper.starve_max,
            period_parties: paper.period_parties,
            slack: paper.slack,
            condition_after: Span::from_secs(10),
            hook: Vec::new(),
            metrics: None,
            tasks: Vec::new(),
        }
    }
}

/// Advice for a valid file.
const RIGHT: &str = "greenwave sched example, for a valid one";

impl Config {
    /// Reads the file at `path`; `mechanism` overrides its own.
    ///
    /// # Errors
    /// A file that cannot be read, or an invalid value in it with the valid ones.
    pub fn load(path: &Path, mechanism: Option<&str>) -> Result<Self, Error> {
        let start = "greenwave sched example >tasks.toml, for a template";
        let all = include::read(path).map_err(|e| if path.exists() { e } else { e.advice(start) })?;
        Self::of(&path.display().to_string(), &all.text, mechanism, |line| all.location(line))
    }

    /// Parses `text`; `name` is its file.
    ///
    /// # Errors
    /// An invalid value, with the valid ones.
    pub fn parse(name: &str, text: &str) -> Result<Self, Error> {
        Self::of(name, text, None, |line| format!("{name}:{line}"))
    }

    /// Parses `text`; `name` begins its errors, and `location` maps a line to its file.
    fn of(
        name: &str,
        text: &str,
        mechanism: Option<&str>,
        location: impl Fn(usize) -> String,
    ) -> Result<Self, Error> {
        let wrong = |e: toml::de::Error| toml_error::of(text, &e, location).or_advice(|| RIGHT.to_owned());
        let mut config: Self = toml::from_str(text).map_err(wrong)?;
        if let Some(mechanism) = mechanism {
            mechanism.clone_into(&mut config.mechanism);
        }
        config.check().map_err(|(what, advice)| Error::new(format!("{name}: {what}")).advice(advice))?;
        Ok(config)
    }

    /// Refuses mistakes that show without looking at the machine: the error and advice.
    fn check(&self) -> Result<(), (String, String)> {
        let right = |what: String| (what, RIGHT.to_owned());
        let bad = |what: String| Err(right(what));
        let named = match self.mechanism.as_str() {
            "scx" => Mechanism::Scx,
            "runtime" => Mechanism::Runtime,
            _ => Mechanism::Affinity,
        };
        if !MECHANISMS.contains(&self.mechanism.as_str()) {
            let what = format!("mechanism {:?} is not one of {}", self.mechanism, MECHANISMS.join(", "));
            return Err((what, "greenwave doctor sched, for what works here".to_owned()));
        }
        if named == Mechanism::Runtime && !self.has_signal_pages() {
            let what =
                "mechanism runtime reads worker signals, and no task has signal_page = true".to_owned();
            let advice = "signal_page = true for a task on greenwave's runtime, or mechanism = \"affinity\"";
            return Err((what, advice.to_owned()));
        }
        if self.policy == "elfen" && named != Mechanism::Scx {
            let what = "policy elfen keeps LC on first hyperthreads; under affinity LC preempts BE on any hyperthread";
            return Err((what.to_owned(), "policy = \"caladan\", or mechanism = \"scx\"".to_owned()));
        }
        // Rounds that read /proc take hundreds of microseconds.
        let least = match named {
            Mechanism::Affinity => Span::from_millis(1),
            Mechanism::Scx | Mechanism::Runtime => Span::from_micros(10),
        };
        let (period, calm) = self.tempo(named);
        for (name, value, least, most) in [
            ("period", period, least, Span::from_secs(1)),
            ("period_parties", self.period_parties, Span::from_millis(1), Span::from_secs(60)),
            ("calm", calm, least, Span::from_secs(60)),
            ("condition_after", self.condition_after, Span::from_millis(1), Span::from_secs(86_400)),
        ] {
            within(name, value, least..=most).map_err(right)?;
        }
        if !(self.bandwidth_max_gb.is_finite() && self.bandwidth_max_gb > 0.0) {
            return bad(format!("bandwidth_max_gb {} is not more than 0", self.bandwidth_max_gb));
        }
        if !(self.latency_max.is_finite() && self.latency_max > 1.0) {
            return bad(format!("latency_max {} is not more than 1", self.latency_max));
        }
        within("slack", self.slack, 0.0..=1.0).map_err(right)?;
        if self.tasks.is_empty() {
            return bad("no task is given".to_owned());
        }
        for (number, task) in self.tasks.iter().enumerate() {
            let before = &self.tasks[..number];
            if task.name.is_empty() || before.iter().any(|other| other.name == task.name) {
                return bad(format!("task name {:?} is not unique", task.name));
            }
            let same = |other: &&Task| {
                (task.pid.is_some() && other.pid == task.pid)
                    || (task.cgroup.is_some() && other.cgroup == task.cgroup)
            };
            if let Some(other) = before.iter().find(same) {
                return bad(format!("tasks {} and {} contain the same programs", other.name, task.name));
            }
            self.check_task(task)
                .map_err(|(what, advice)| (format!("task {}: {what}", task.name), advice))?;
        }
        Ok(())
    }

    fn check_task(&self, task: &Task) -> Result<(), (String, String)> {
        let refused = |what: String, advice: &str| Err((what, advice.to_owned()));
        let ways = [task.command.is_some(), task.pid.is_some(), task.cgroup.is_some()]
            .into_iter()
            .filter(|way| *way)
            .count();
        if ways != 1 {
            let what = format!("{ways} of command, pid and cgroup are given; exactly 1 is needed");
            return refused(what, "command = [\"memcached\"], or pid = 4242, or cgroup = \"PATH\"");
        }
        if task.command.as_ref().is_some_and(|command| command.is_empty() || command[0].is_empty()) {
            return refused("the command is empty".to_owned(), "command = [\"memcached\"]");
        }
        if task.class == ClassName::BE && task.guaranteed > 0 {
            let what = format!("guaranteed cores of a BE task must be 0, not {}", task.guaranteed);
            return refused(what, "class = \"LC\", or no guaranteed cores");
        }
        if task.guaranteed == 0 && task.burstable == Some(0) {
            return refused(
                "0 guaranteed and 0 burstable cores: the task would have no cores".to_owned(),
                "burstable = 1",
            );
        }
        if task.class == ClassName::LC && self.policy == "static" && task.guaranteed == 0 {
            let what = "under policy static, LC needs guaranteed cores".to_owned();
            return refused(what, "guaranteed = 1, or another policy");
        }
        if task.class == ClassName::LC && self.policy == "parties" && task.tail.is_none() {
            let what = "policy parties needs the task's tail latency".to_owned();
            return refused(
                what,
                "tail = FILE, in which its clients write their p99.9 every 500ms, such as 812us",
            );
        }
        if task.class == ClassName::BE && !task.queue_reports.is_empty() {
            let what = "BE with queue_reports = …: only LC requests a core".to_owned();
            return refused(what, "class = \"LC\", or no queue_reports");
        }
        if task.queue_reports.len() > QUEUE_REPORTS_MAX {
            let what = format!(
                "{} files in queue_reports; at most {QUEUE_REPORTS_MAX} are possible",
                task.queue_reports.len()
            );
            return refused(what, "a task for some of them");
        }
        if task.output.is_some() && task.command.is_none() {
            let what = "output needs a command".to_owned();
            return refused(what, "remove output");
        }
        Ok(())
    }

    /// The managed cores, among those that this process may use.
    ///
    /// # Errors
    /// Not a core, or not ours.
    pub fn managed(&self, ours: &[CoreId]) -> Result<Vec<CoreId>, Error> {
        let Some(text) = &self.cores else { return Ok(ours.to_vec()) };
        let advice = format!("cores = {:?}, which greenwave may use here", cpulist::text(ours));
        let cores = cpulist::parse(text).map_err(|e| Error::new(e).advice(advice.clone()))?;
        match cores.iter().find(|core| !ours.contains(core)) {
            Some(core) => {
                let what = format!(
                    "cores {text:?}: core {} is not among the allowed cores {}",
                    core.0,
                    cpulist::text(ours)
                );
                Err(Error::new(what).advice(advice))
            }
            None => Ok(cores),
        }
    }

    /// The core assignment, at first empty; and the policy that decides every `period`.
    ///
    /// # Errors
    /// More guaranteed cores than there are; an unknown policy.
    pub fn arrange(
        &self,
        topology: Topology,
        mechanism: Mechanism,
        period: Span,
    ) -> Result<(CoreAssignment, Box<dyn Policy>), Error> {
        let cores = topology.cores();
        let specs = self.tasks.iter().map(|task| task.spec(mechanism)).collect();
        let board = CoreAssignment::new(topology, specs).map_err(|e| {
            Error::new(e.to_string())
                .advice(format!("guaranteed cores that add up to {cores} at most, or more cores"))
        })?;
        let policy = by_name(&self.policy, &self.settings(period), &board)
            .map_err(|e| Error::new(e.to_string()).advice("policy = \"caladan\""))?;
        Ok((board, policy))
    }

    /// The period of rounds, and the idle time until a core is returned: as set, or the mechanism's
    /// default.
    pub fn tempo(&self, mechanism: Mechanism) -> (Span, Span) {
        let (period, calm) = match mechanism {
            Mechanism::Scx | Mechanism::Runtime => (Span::from_micros(50), Span::from_micros(100)),
            Mechanism::Affinity => (affinity::PERIOD, affinity::CALM),
        };
        (self.period.unwrap_or(period), self.calm.unwrap_or(calm))
    }

    /// The policy's settings.
    pub fn settings(&self, period: Span) -> Settings {
        Settings {
            period,
            period_shenango: period,
            period_parties: self.period_parties,
            bandwidth_max: self.bandwidth_max_gb * 1e9,
            slice: self.slice,
            starve_max: self.starve_max,
            slack: self.slack,
            ..Settings::default()
        }
    }

    /// True if a task declares that it runs on our runtime.
    pub fn has_signal_pages(&self) -> bool {
        self.tasks.iter().any(|task| task.signal_page)
    }

    /// True if the policy uses bandwidth.
    pub fn needs_bandwidth(&self) -> bool {
        ["caladan", "caladan-no-hyperthread"].contains(&self.policy.as_str())
    }
}

impl Task {
    /// True for an LC task.
    pub fn is_critical(&self) -> bool {
        self.class == ClassName::LC
    }

    /// The task for policies under `mechanism`, with that mechanism's defaults.
    pub fn spec(&self, mechanism: Mechanism) -> TaskSpec {
        let default = TaskSpec::critical(self.guaranteed);
        let is_told = match mechanism {
            Mechanism::Affinity => false,
            Mechanism::Runtime => self.signal_page,
            Mechanism::Scx => true,
        };
        let delay_max = if is_told { default.delay_max } else { affinity::DELAY_MAX };
        TaskSpec {
            class: match self.class {
                ClassName::LC => Class::Critical,
                ClassName::BE => Class::BestEffort,
            },
            burstable: self.burstable.unwrap_or(default.burstable),
            delay_max: self.delay_max.unwrap_or(delay_max),
            request_max: self.request_max,
            tail_target: self.tail_target.unwrap_or(default.tail_target),
            ..default
        }
    }

    /// Processes, where greenwave did not start them.
    pub fn selector(&self) -> Option<TaskSelector> {
        let by_group = || self.cgroup.as_ref().map(|path| TaskSelector::Group(group_path(path)));
        self.pid.map(TaskSelector::Process).or_else(by_group)
    }
}

//~ sched: an invalid configuration is refused before any task starts
#[cfg(test)]
mod tests;
