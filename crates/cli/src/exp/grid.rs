//! Grid of an experiment's runs: every point, seed and mode.
//!
//! Runs in parallel as far as the world allows. Modes of one seed run together, so that background
//! noise affects all of them.

use std::ops::Range;

use super::checkpoint::{Checkpoint, RunKey};
use super::metrics::GridFigures;
use super::spec::{Experiment, Scale};
use super::world::{self, ClassFigures, Noise, RunResult, World};
use crate::error::Error;
use crate::parallel;

/// Results of the grid.
pub struct GridResults {
    /// Figures for claims and tables.
    pub figures: GridFigures,
    /// The first seed's run per (point, mode), for plots.
    pub runs: Vec<GridRun>,
    /// Simulated events of all runs.
    pub events: u64,
    /// Largest deviation of a real run from its plan; none in simulations.
    pub noise: Option<Noise>,
    /// Seeds per point and mode.
    pub seeds: u64,
}

/// One point and mode.
pub struct GridRun {
    /// Name of the point, empty if the experiment has no points.
    pub point: String,
    /// Mode.
    pub mode: String,
    /// Settings of the run.
    pub settings: toml::Table,
    /// Rows of the first seed.
    pub rows: Vec<ClassFigures>,
}

struct Task {
    point: String,
    mode: String,
    settings: toml::Table,
    run: world::PreparedRun,
    first: bool,
}

impl Task {
    fn key(&self) -> RunKey {
        RunKey::new(&self.mode, &self.settings)
    }
}

impl GridResults {
    /// Results without runs.
    #[must_use]
    pub fn new(world: &'static World) -> Self {
        Self { figures: GridFigures::new(world), runs: Vec::new(), events: 0, noise: None, seeds: 0 }
    }
}

/// Runs `experiment` at `scale` with `seeds`, which follow those in `measured`, and adds their
/// figures there. Skips runs that `checkpoint` contains and records the others in it.
///
/// Returns the number of runs that were made, without the skipped ones.
///
/// # Errors
/// Settings are invalid, reported before anything runs; or a run fails.
pub fn extend(
    measured: &mut GridResults,
    name: &str,
    experiment: &Experiment,
    scale: &Scale,
    seeds: Range<u64>,
    checkpoint: Option<&Checkpoint>,
) -> Result<usize, Error> {
    let count = seeds.end.saturating_sub(seeds.start);
    let tasks = tasks(experiment, scale, seeds).map_err(|e| Error::new(format!("experiment {name}: {e}")))?;
    let world = experiment.world().map_err(Error::new)?;
    let remaining = tasks
        .iter()
        .filter(|task| !checkpoint.is_some_and(|checkpoint| checkpoint.contains(&task.key())))
        .count();
    if remaining < tasks.len() {
        let (resumed, total) = (tasks.len() - remaining, tasks.len());
        errln!("note: {name}: {resumed} of {total} runs resumed from an interrupted run");
    }
    let inhibitors = world.kind.keep_awake()?;
    let bar = crate::progress::bar(remaining as u64);
    bar.set_message(name.to_owned());
    let results =
        parallel::map(&tasks, world.kind.runs_max(parallel::cores()), |task| -> Result<RunResult, Error> {
            let checkpoint = checkpoint.map(|checkpoint| (checkpoint, task.key()));
            if let Some(result) = checkpoint.as_ref().and_then(|(checkpoint, run)| checkpoint.result(run)) {
                return Ok(result);
            }
            let result = (task.run)()?;
            if let Some((checkpoint, run)) = checkpoint {
                checkpoint.add(&run, &result)?;
            }
            bar.inc(1);
            Ok(result)
        });
    bar.finish_and_clear();
    drop(inhibitors);

    let is_first = measured.seeds == 0;
    for (task, RunResult { events, rows, noise }) in tasks.into_iter().zip(results?) {
        measured.events += events;
        measured.noise = [measured.noise, noise].into_iter().flatten().reduce(Noise::worse);
        measured.figures.add(&task.point, &task.mode, &rows);
        if is_first && task.first {
            let Task { point, mode, settings, .. } = task;
            measured.runs.push(GridRun { point, mode, settings, rows });
        }
    }
    measured.seeds += count;
    Ok(remaining)
}

fn tasks(experiment: &Experiment, scale: &Scale, seeds: Range<u64>) -> Result<Vec<Task>, String> {
    let mut tasks = Vec::new();
    for point in experiment.points() {
        if !scale.runs_point(&point.name) {
            continue;
        }
        for seed in seeds.clone() {
            let runs = |mode: &&String| scale.runs_mode(mode) && point.has_mode(mode);
            for mode in experiment.modes.iter().filter(runs) {
                let mut settings = experiment.settings_for(scale, &point, mode)?;
                settings.insert("seed".to_owned(), toml::Value::Integer(seed as i64));
                let at = |e: &str| format!("settings of mode {mode}, point {:?}: {e}", point.name);
                let run = (experiment.world()?.prepare)(mode, settings.clone()).map_err(|e| at(&e))?;
                tasks.push(Task {
                    point: point.name.clone(),
                    mode: mode.clone(),
                    settings,
                    run,
                    first: seed == seeds.start,
                });
            }
        }
    }
    Ok(tasks)
}
