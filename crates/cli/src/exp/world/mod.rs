//! The worlds an experiment can run in, and what each of them measures.
//!
//! A world turns settings into a run and a run into rows of figures; which
//! figures there are, what they are called in tables and which of them are
//! drawn is said here once, so that claims, tables, plots and JSON need not
//! know one world from another.

mod background_load;
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

use host::netlab::{IdleInhibitor, LabError};
use queueing::{CoreId, Span};
use serde::de::DeserializeOwned;
use toml::Table;

use crate::error::Error;

/// Every world, by name.
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

/// What a world measures and how it is shown.
pub struct World {
    /// Its name in an experiment's file.
    pub name: &'static str,
    /// What time is there.
    pub kind: Kind,
    /// What the table's words mean.
    pub note: &'static str,
    /// The figures of a row, in order.
    pub stats: &'static [MetricColumn],
    /// Titles over the columns that are shown, point, mode and class included.
    pub groups: &'static [(&'static str, usize)],
    /// The figure that is drawn over the points.
    pub drawn: &'static str,
    /// The figures that `drawn` is the sum of, if any.
    pub parts: &'static [&'static str],
    /// Reads settings: what runs, or why it cannot.
    pub prepare: fn(mode: &str, settings: Table) -> Result<Run, String>,
}

/// What time is in a world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Virtual: a seed gives the same figures everywhere, and runs take all
    /// cores.
    Sim,
    /// The machine's, so figures are too. Runs wait more than they work.
    Host {
        /// So many of them per core go side by side.
        per_core: usize,
        /// Cores that would halt now and then, and are kept from it for as long as an experiment takes:
        /// on a virtual machine the time of one that halts is worth less for seconds afterwards.
        awake: &'static [CoreId],
    },
}

impl Kind {
    /// The machine's, whose cores are left as they are.
    #[must_use]
    pub const fn host(per_core: usize) -> Self {
        Self::Host { per_core, awake: &[] }
    }

    /// Its name in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Sim => "sim",
            Self::Host { .. } => "host",
        }
    }

    /// Keeps awake what is to be; nothing where its runs are not possible, which they say themselves.
    ///
    /// # Errors
    /// As [`IdleInhibitor::keep`].
    pub fn keep_awake(self) -> Result<Vec<IdleInhibitor>, LabError> {
        let awake = match self {
            Self::Host { awake, .. } if host_requirements::can_keep_awake(awake) => awake,
            _ => &[],
        };
        awake.iter().map(|&core| IdleInhibitor::keep(core)).collect()
    }

    /// How many runs go side by side on `cores`.
    #[must_use]
    pub fn at_once(self, cores: usize) -> usize {
        match self {
            Self::Sim => cores,
            Self::Host { per_core, .. } => cores * per_core,
        }
    }
}

/// A figure.
pub struct MetricColumn {
    /// Its name in claims and JSON.
    pub name: &'static str,
    /// `1` (a count), `share`, `ratio`, `×`, `%`, `1/s`, `Gbit/s` or `µs`.
    pub unit: &'static str,
    /// Its column in tables; empty where it has none.
    pub column: &'static str,
}

/// A run that can be started, on any thread.
pub type Run = Box<dyn Fn() -> Result<RunResult, Error> + Send + Sync>;

/// What a run found.
pub struct RunResult {
    /// Events simulated, or told of.
    pub events: u64,
    /// One row per class of requests (or per stage).
    pub rows: Vec<Row>,
    /// How well the machine kept to the plan, where it is a real one.
    pub noise: Option<Noise>,
}

/// How far a run on a machine was from its plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Noise {
    /// A request was sent so long after its birth, at worst.
    pub late: Span,
    /// Services took so much longer than planned, on average.
    pub beyond: Span,
}

impl Noise {
    /// The noisier of both, in each respect.
    #[must_use]
    pub fn worse(self, other: Self) -> Self {
        Self { late: self.late.max(other.late), beyond: self.beyond.max(other.beyond) }
    }
}

/// The figures of one class.
pub struct Row {
    /// Its name.
    pub class: String,
    /// In the order of [`World::stats`].
    pub figures: Vec<f64>,
    /// Its cumulative distribution of latency: µs and share.
    pub cdf: Vec<(f64, f64)>,
}

impl World {
    /// The world called `name`.
    ///
    /// # Errors
    /// One line: what there is.
    pub fn named(name: &str) -> Result<&'static Self, String> {
        WORLDS.into_iter().find(|world| world.name == name).ok_or_else(|| {
            let names: Vec<_> = WORLDS.iter().map(|world| world.name).collect();
            format!("world {name:?} is none of {}", names.join(", "))
        })
    }

    /// The place of figure `stat` in a row.
    ///
    /// # Errors
    /// One line: what there is.
    pub fn stat(&self, stat: &str) -> Result<usize, String> {
        self.stats.iter().position(|known| known.name == stat).ok_or_else(|| {
            let names: Vec<_> = self.stats.iter().map(|known| known.name).collect();
            format!("figure {stat:?} is none of {}", names.join(", "))
        })
    }
}

/// Settings that nobody else reads; none that `check` refuses.
///
/// # Errors
/// One line: what cannot be read, or what `check` says.
fn checked<C: DeserializeOwned, E: Display>(
    settings: Table,
    check: impl FnOnce(&C) -> Result<(), E>,
) -> Result<C, String> {
    let config: C = settings.try_into().map_err(|e: toml::de::Error| line(&e))?;
    check(&config).map_err(|e| line(&e))?;
    Ok(config)
}

/// A time in µs; no number unless there `is_somebody` whose it is.
fn micros_if(is_somebody: bool) -> impl Fn(Span) -> f64 {
    move |span| if is_somebody { span.as_micros_f64() } else { f64::NAN }
}

/// The points of a distribution of latency, in µs.
fn points(cdf: impl IntoIterator<Item = (Span, f64)>) -> Vec<(f64, f64)> {
    cdf.into_iter().map(|(span, share)| (span.as_micros_f64(), share)).collect()
}

/// A figure with a column.
const fn shown(name: &'static str, unit: &'static str, column: &'static str) -> MetricColumn {
    MetricColumn { name, unit, column }
}

/// A figure that only claims and JSON use.
const fn kept(name: &'static str, unit: &'static str) -> MetricColumn {
    MetricColumn { name, unit, column: "" }
}

/// Text of an error in settings, on one line.
fn line(error: &dyn Display) -> String {
    error.to_string().trim().replace('\n', " ")
}
