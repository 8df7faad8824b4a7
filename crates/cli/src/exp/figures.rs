//! Measured figures: what claims look up, averaged over seeds.

use std::collections::BTreeMap;

use load::report::{ClassReport, Report};
use queueing::Span;

/// Names of the figures a class has, with the unit of each.
pub const STATS: &[(&str, &str)] = &[
    ("requests", "1"),
    ("never_sent", "1"),
    ("late", "1"),
    ("unanswered", "1"),
    ("mean", "µs"),
    ("p50", "µs"),
    ("p99", "µs"),
    ("p999", "µs"),
    ("max", "µs"),
    ("wire", "µs"),
    ("nic", "µs"),
    ("tcp", "µs"),
    ("event", "µs"),
    ("service", "µs"),
];

/// One class's figures in the order of [`STATS`].
fn of_class(class: &ClassReport) -> [f64; STATS.len()] {
    let us = Span::as_micros_f64;
    let at = &class.at_p99;
    [
        class.requests as f64,
        class.never_sent as f64,
        class.late as f64,
        class.unanswered as f64,
        us(class.latency.mean()),
        us(class.p50()),
        us(class.p99()),
        us(class.p999()),
        us(class.max()),
        us(at.client_and_wire),
        us(at.nic),
        us(at.tcp),
        us(at.event),
        us(at.service),
    ]
}

/// Where a figure was measured.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cell {
    /// Point of the experiment.
    pub point: String,
    /// Mode.
    pub mode: String,
    /// Class.
    pub class: String,
}

/// All figures of an experiment.
#[derive(Debug, Default)]
pub struct Figures {
    cells: BTreeMap<Cell, Vec<[f64; STATS.len()]>>,
}

impl Figures {
    /// Takes in one run.
    pub fn add(&mut self, point: &str, mode: &str, report: &Report) {
        for class in &report.classes {
            let cell = Cell { point: point.to_owned(), mode: mode.to_owned(), class: class.name.clone() };
            self.cells.entry(cell).or_default().push(of_class(class));
        }
    }

    /// The mean over seeds of `stat`.
    ///
    /// # Errors
    /// One line: what was asked for and what there is.
    pub fn mean(&self, point: &str, mode: &str, class: &str, stat: &str) -> Result<f64, String> {
        let index = STATS.iter().position(|(name, _)| *name == stat).ok_or_else(|| {
            let names: Vec<_> = STATS.iter().map(|(name, _)| *name).collect();
            format!("figure {stat:?} is none of {}", names.join(", "))
        })?;
        let cell = Cell { point: point.to_owned(), mode: mode.to_owned(), class: class.to_owned() };
        let runs = self.cells.get(&cell).ok_or_else(|| {
            format!("nothing was measured for mode {mode:?}, class {class:?}, point {point:?}")
        })?;
        Ok(runs.iter().map(|run| run[index]).sum::<f64>() / runs.len() as f64)
    }
}
