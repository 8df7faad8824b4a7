//! Measured figures: what claims look up, averaged over seeds.

use std::collections::BTreeMap;

use super::world::{Row, World};

/// Where a figure was measured.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Cell {
    point: String,
    mode: String,
    class: String,
}

/// All figures of an experiment.
pub struct Figures {
    world: &'static World,
    /// Per cell a row for each seed, in their order.
    cells: BTreeMap<Cell, Vec<Vec<f64>>>,
}

impl Figures {
    /// No figures yet.
    #[must_use]
    pub fn new(world: &'static World) -> Self {
        Self { world, cells: BTreeMap::new() }
    }

    /// Takes in one run; those of one cell come in the order of their seeds.
    pub fn add(&mut self, point: &str, mode: &str, rows: &[Row]) {
        for row in rows {
            let cell = Cell { point: point.to_owned(), mode: mode.to_owned(), class: row.class.clone() };
            self.cells.entry(cell).or_default().push(row.figures.clone());
        }
    }

    /// The mean over seeds of `stat`; over those that have it, where some had
    /// nothing to measure, and NaN where none has.
    ///
    /// # Errors
    /// One line: what was asked for and what there is.
    pub fn mean(&self, point: &str, mode: &str, class: &str, stat: &str) -> Result<f64, String> {
        let (runs, index) = self.runs(point, mode, class, stat)?;
        let had: Vec<f64> = runs.iter().map(|run| run[index]).filter(|figure| !figure.is_nan()).collect();
        Ok(had.iter().sum::<f64>() / had.len() as f64)
    }

    /// `stat` as the seed number `run` gave it.
    ///
    /// # Errors
    /// As [`mean`](Self::mean).
    pub fn of_run(
        &self,
        run: usize,
        point: &str,
        mode: &str,
        class: &str,
        stat: &str,
    ) -> Result<f64, String> {
        let (runs, index) = self.runs(point, mode, class, stat)?;
        runs.get(run).map(|row| row[index]).ok_or_else(|| format!("there is no run {run}"))
    }

    /// `stat` seed by seed, in their order.
    ///
    /// # Errors
    /// As [`mean`](Self::mean).
    pub fn by_seed(&self, point: &str, mode: &str, class: &str, stat: &str) -> Result<Vec<f64>, String> {
        let (runs, index) = self.runs(point, mode, class, stat)?;
        Ok(runs.iter().map(|row| row[index]).collect())
    }

    fn runs(&self, point: &str, mode: &str, class: &str, stat: &str) -> Result<(&[Vec<f64>], usize), String> {
        let index = self.world.stat(stat)?;
        let cell = Cell { point: point.to_owned(), mode: mode.to_owned(), class: class.to_owned() };
        let runs = self.cells.get(&cell).ok_or_else(|| {
            format!("nothing was measured for mode {mode:?}, class {class:?}, point {point:?}")
        })?;
        Ok((runs, index))
    }
}
