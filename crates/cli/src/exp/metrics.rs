//! Measured values that claims refer to, averaged over seeds.

use std::collections::BTreeMap;

use super::world::{ClassFigures, World};

/// Point, mode and class for which values were measured.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Cell {
    point: String,
    mode: String,
    class: String,
}

/// All measured values of an experiment.
pub struct GridFigures {
    world: &'static World,
    /// Per cell one row for each seed, in their order; an empty row where a run had no such row.
    cells: BTreeMap<Cell, Vec<Vec<f64>>>,
    /// Added runs per point and mode.
    runs: BTreeMap<(String, String), usize>,
}

impl GridFigures {
    /// Creates an empty set of values.
    #[must_use]
    pub fn new(world: &'static World) -> Self {
        Self { world, cells: BTreeMap::new(), runs: BTreeMap::new() }
    }

    /// Adds one run; runs of one cell arrive in the order of their seeds.
    pub fn add(&mut self, point: &str, mode: &str, rows: &[ClassFigures]) {
        let runs = self.runs.entry((point.to_owned(), mode.to_owned())).or_default();
        let missing = vec![f64::NAN; self.world.stats.len()];
        for row in rows {
            let cell = Cell { point: point.to_owned(), mode: mode.to_owned(), class: row.class.clone() };
            let seeds = self.cells.entry(cell).or_default();
            seeds.resize(*runs, missing.clone());
            seeds.push(row.figures.clone());
        }
        *runs += 1;
        for (_, seeds) in self.cells.iter_mut().filter(|(cell, _)| cell.point == point && cell.mode == mode) {
            seeds.resize(*runs, missing.clone());
        }
    }

    /// Mean of `stat` over the seeds that have it; NaN where no seed has it.
    ///
    /// # Errors
    /// One line: the name requested and the names that exist.
    pub fn mean(&self, point: &str, mode: &str, class: &str, stat: &str) -> Result<f64, String> {
        let (runs, index) = self.runs(point, mode, class, stat)?;
        let values: Vec<f64> = runs.iter().map(|run| run[index]).filter(|figure| !figure.is_nan()).collect();
        Ok(values.iter().sum::<f64>() / values.len() as f64)
    }

    /// `stat` of the run with index `run`.
    ///
    /// # Errors
    /// The errors of [`mean`](Self::mean).
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

    /// `stat` of each seed, in their order.
    ///
    /// # Errors
    /// The errors of [`mean`](Self::mean).
    pub fn by_seed(&self, point: &str, mode: &str, class: &str, stat: &str) -> Result<Vec<f64>, String> {
        let (runs, index) = self.runs(point, mode, class, stat)?;
        Ok(runs.iter().map(|row| row[index]).collect())
    }

    fn runs(&self, point: &str, mode: &str, class: &str, stat: &str) -> Result<(&[Vec<f64>], usize), String> {
        let index = self.world.stat(stat)?;
        let cell = Cell { point: point.to_owned(), mode: mode.to_owned(), class: class.to_owned() };
        let runs = self
            .cells
            .get(&cell)
            .ok_or_else(|| format!("no result for mode {mode:?}, class {class:?}, point {point:?}"))?;
        Ok((runs, index))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_without_requests_in_a_run_keeps_the_order_of_seeds() {
        let world = World::named("server").unwrap();
        let row = |class: &str, p99: f64| {
            let mut figures = vec![0.0; world.stats.len()];
            figures[world.stat("p99").unwrap()] = p99;
            ClassFigures { class: class.to_owned(), figures, cdf: Vec::new() }
        };
        let mut figures = GridFigures::new(world);
        figures.add("", "none", &[row("a", 1.0)]);
        figures.add("", "none", &[row("a", 2.0), row("b", 20.0)]);
        figures.add("", "none", &[row("b", 30.0)]);
        let of = |class| figures.by_seed("", "none", class, "p99").unwrap();
        assert_eq!((&of("a")[..2], of("a")[2].is_nan()), (&[1.0, 2.0][..], true));
        assert_eq!((&of("b")[1..], of("b")[0].is_nan()), (&[20.0, 30.0][..], true));
        assert_eq!(figures.mean("", "none", "b", "p99"), Ok(25.0));
    }
}
