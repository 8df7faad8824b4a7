//! Worlds of experiments, and the figures of each.
//!
//! A world turns settings into a run, and a run into rows of figures. The names, columns and plots
//! of the figures are defined here once, so that claims, tables, plots and JSON are independent of
//! the world.

mod background_load;
mod child_process;
mod colocated;
mod cores;
mod egress;
pub mod fabric;
mod host_requirements;
mod httpd;
mod overload;
mod overloaded_stack;
mod platform;
mod processes;
mod progress_lines;
mod sched_daemon;
mod server;
mod services;
mod tiers;
mod web;
mod web_qoe;

use std::fmt::Display;

use netlab::{IdleInhibitor, LabError};
use queueing::{CoreId, Span};
use serde::de::DeserializeOwned;
use toml::Table;

use crate::error::Error;

/// All worlds, by name.
pub const WORLDS: [&World; 17] = [
    &server::WORLD,
    &services::WORLD,
    &fabric::WORLD,
    &overload::WORLD,
    &cores::WORLD,
    &overloaded_stack::WORLD,
    &platform::WORLD,
    &processes::TONIC,
    &processes::DUBBO,
    &processes::FANOUT,
    &processes::STORM,
    &egress::WORLD,
    &httpd::WORLD,
    &colocated::WORLD,
    &tiers::WORLD,
    &web_qoe::WORLD,
    &web::WORLD,
];

/// A world: its figures and their presentation.
pub struct World {
    /// Name in an experiment's file.
    pub name: &'static str,
    /// Kind of time.
    pub kind: TimeKind,
    /// Explanation of the table's terms.
    pub note: &'static str,
    /// Figures of a row, in order.
    pub stats: &'static [MetricColumn],
    /// Titles over groups of columns, including point, mode and class; with their widths in
    /// columns.
    pub groups: &'static [(&'static str, usize)],
    /// Figure that is drawn over the points.
    pub plot_stat: &'static str,
    /// Figures whose sum is `plot_stat`, if any.
    pub parts: &'static [&'static str],
    /// Reads settings; returns the run or the reason why it cannot run.
    pub prepare: fn(mode: &str, settings: Table) -> Result<PreparedRun, String>,
}

/// Kind of time in a world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeKind {
    /// Virtual time: a seed gives the same figures on every machine, and runs use all cores.
    Sim,
    /// Real time: figures depend on the machine. Runs wait more than they compute.
    Host {
        /// Parallel runs per core.
        per_core: usize,
        /// Cores kept from halting for the length of an experiment: on a virtual machine a core
        /// that halted runs slower for seconds afterwards.
        awake: &'static [CoreId],
    },
}

impl TimeKind {
    /// Real time, with the cores' idle state unchanged.
    #[must_use]
    pub const fn host(per_core: usize) -> Self {
        Self::Host { per_core, awake: &[] }
    }

    /// Name in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Sim => "sim",
            Self::Host { .. } => "host",
        }
    }

    /// Keeps the world's cores awake; no-op where its runs are not possible, which they report
    /// themselves.
    ///
    /// # Errors
    /// The errors of [`IdleInhibitor::keep`].
    pub fn keep_awake(self) -> Result<Vec<IdleInhibitor>, LabError> {
        let awake = match self {
            Self::Host { awake, .. } if host_requirements::can_keep_awake(awake) => awake,
            _ => &[],
        };
        awake.iter().map(|&core| IdleInhibitor::keep(core)).collect()
    }

    /// Number of parallel runs on `cores`.
    #[must_use]
    pub fn runs_max(self, cores: usize) -> usize {
        match self {
            Self::Sim => cores,
            Self::Host { per_core, .. } => cores * per_core,
        }
    }
}

/// A figure.
pub struct MetricColumn {
    /// Name in claims and JSON.
    pub name: &'static str,
    /// `1` (a count), `share`, `ratio`, `×`, `%`, `1/s`, `Gbit/s` or `µs`.
    pub unit: &'static str,
    /// Column title in tables; empty if it has no column.
    pub column: &'static str,
}

/// Run that can be started on any thread.
pub type PreparedRun = Box<dyn Fn() -> Result<RunResult, Error> + Send + Sync>;

/// Result of a run.
pub struct RunResult {
    /// Events simulated, or reported.
    pub events: u64,
    /// One row per class of requests (or per stage).
    pub rows: Vec<ClassFigures>,
    /// Deviation from the plan; none in simulations.
    pub noise: Option<Noise>,
}

/// Deviation of a run on a machine from its plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Noise {
    /// Largest delay between a request's birth and its sending.
    pub late: Span,
    /// Mean excess of service times over the plan.
    pub excess: Span,
}

impl Noise {
    /// Maximum of both, per field.
    #[must_use]
    pub fn worse(self, other: Self) -> Self {
        Self { late: self.late.max(other.late), excess: self.excess.max(other.excess) }
    }
}

/// Figures of one class.
pub struct ClassFigures {
    /// Name of the class.
    pub class: String,
    /// In the order of [`World::stats`].
    pub figures: Vec<f64>,
    /// Cumulative distribution of latency: µs and share.
    pub cdf: Vec<(f64, f64)>,
}

impl World {
    /// The world called `name`.
    ///
    /// # Errors
    /// One line: the names that exist.
    pub fn named(name: &str) -> Result<&'static Self, String> {
        WORLDS.into_iter().find(|world| world.name == name).ok_or_else(|| {
            let names: Vec<_> = WORLDS.iter().map(|world| world.name).collect();
            format!("world {name:?} is not one of {}", names.join(", "))
        })
    }

    /// Row with the `known` figures by name; the others are NaN.
    ///
    /// # Panics
    /// A name is none of this world.
    fn row(&self, class: &str, known: &[(&str, f64)], cdf: Vec<(f64, f64)>) -> ClassFigures {
        let mut figures = vec![f64::NAN; self.stats.len()];
        for &(name, value) in known {
            figures[self.stat(name).expect("a figure of this world")] = value;
        }
        ClassFigures { class: class.to_owned(), figures, cdf }
    }

    /// Index of figure `stat` in a row.
    ///
    /// # Errors
    /// One line: the names that exist.
    pub fn stat(&self, stat: &str) -> Result<usize, String> {
        self.stats.iter().position(|known| known.name == stat).ok_or_else(|| {
            let names: Vec<_> = self.stats.iter().map(|known| known.name).collect();
            format!("figure {stat:?} is not one of {}", names.join(", "))
        })
    }
}

/// Parses settings without unknown keys, and checks them with `check`.
///
/// # Errors
/// One line: the parse error, or that of `check`.
fn checked<C: DeserializeOwned, E: Display>(
    settings: Table,
    check: impl FnOnce(&C) -> Result<(), E>,
) -> Result<C, String> {
    let config: C = settings.try_into().map_err(|e: toml::de::Error| line(&e))?;
    check(&config).map_err(|e| line(&e))?;
    Ok(config)
}

/// Conversion of a time to µs; NaN unless `has_samples`, that is, for an empty class.
fn micros_if(has_samples: bool) -> impl Fn(Span) -> f64 {
    move |span| if has_samples { span.as_micros_f64() } else { f64::NAN }
}

/// Points of a distribution of latency, in µs.
fn points(cdf: impl IntoIterator<Item = (Span, f64)>) -> Vec<(f64, f64)> {
    cdf.into_iter().map(|(span, share)| (span.as_micros_f64(), share)).collect()
}

/// Metric that is a column of the printed table.
const fn column(name: &'static str, unit: &'static str, column: &'static str) -> MetricColumn {
    MetricColumn { name, unit, column }
}

/// Metric for claims and JSON only, not in the printed table.
const fn metric(name: &'static str, unit: &'static str) -> MetricColumn {
    MetricColumn { name, unit, column: "" }
}

/// Text of a settings error, on one line.
fn line(error: &dyn Display) -> String {
    error.to_string().trim().replace('\n', " ")
}
