//! Runs every point, seed and mode of an experiment, as many side by side as
//! its world allows; modes of one seed go together, so that a machine's noise
//! meets all of them.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use super::figures::Figures;
use super::spec::{Experiment, Scale};
use super::world::{self, Found, Noise, Row};
use crate::error::Error;

/// What the grid measured.
pub struct Measured {
    /// Figures, for claims and tables.
    pub figures: Figures,
    /// The first seed's run per (point, mode), for plots.
    pub runs: Vec<Run>,
    /// Simulated events, all runs.
    pub events: u64,
    /// Of real services: how far the worst run was from its plan.
    pub noise: Option<Noise>,
    /// Seeds per point and mode.
    pub seeds: u64,
}

/// One point and mode.
pub struct Run {
    /// Point's name, empty if the experiment has none.
    pub point: String,
    /// Mode.
    pub mode: String,
    /// Settings it ran with.
    pub settings: toml::Table,
    /// What it found with the first seed.
    pub rows: Vec<Row>,
}

struct Task {
    point: String,
    mode: String,
    settings: toml::Table,
    run: world::Run,
    first: bool,
}

/// Runs `experiment` at `scale` with seeds from `seed` on.
///
/// # Errors
/// When settings are invalid, before anything runs; and when a run fails.
pub fn run(name: &str, experiment: &Experiment, scale: &Scale, seed: u64) -> Result<Measured, Error> {
    let tasks = tasks(experiment, scale, seed).map_err(|e| Error::new(format!("experiment {name}: {e}")))?;
    let world = experiment.world().map_err(Error::new)?;
    let bar = crate::progress::bar(tasks.len() as u64);
    bar.set_message(name.to_owned());
    let next = AtomicUsize::new(0);
    let stop = AtomicBool::new(false);
    let all_found: Mutex<Vec<Option<Result<Found, Error>>>> =
        Mutex::new(tasks.iter().map(|_| None).collect());
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = world.kind.at_once(cores).min(tasks.len());
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(task) = tasks.get(index) else { break };
                    let found = (task.run)();
                    if found.is_err() {
                        stop.store(true, Ordering::Relaxed);
                    }
                    all_found.lock().unwrap_or_else(PoisonError::into_inner)[index] = Some(found);
                    bar.inc(1);
                }
            });
        }
    });
    bar.finish_and_clear();

    let figures = Figures::new(world);
    let mut measured = Measured { figures, runs: Vec::new(), events: 0, noise: None, seeds: scale.runs };
    let mut all_found = all_found.into_inner().unwrap_or_else(PoisonError::into_inner);
    if let Some(failed) = all_found.iter().position(|found| matches!(found, Some(Err(_)))) {
        return all_found.swap_remove(failed).expect("it ran").map(|_| measured);
    }
    for (task, found) in tasks.into_iter().zip(all_found) {
        let Found { events, rows, noise } = found.expect("every task ran")?;
        measured.events += events;
        measured.noise = [measured.noise, noise].into_iter().flatten().reduce(Noise::worse);
        measured.figures.add(&task.point, &task.mode, &rows);
        if task.first {
            let Task { point, mode, settings, .. } = task;
            measured.runs.push(Run { point, mode, settings, rows });
        }
    }
    Ok(measured)
}

fn tasks(experiment: &Experiment, scale: &Scale, seed: u64) -> Result<Vec<Task>, String> {
    let mut tasks = Vec::new();
    for point in experiment.points() {
        if !scale.runs_point(&point.name) {
            continue;
        }
        for seed_offset in 0..scale.runs {
            for mode in experiment.modes.iter().filter(|mode| scale.runs_mode(mode)) {
                let mut settings = experiment.settings_for(scale, &point, mode)?;
                settings.insert("seed".to_owned(), toml::Value::Integer((seed + seed_offset) as i64));
                let at = |e: &str| format!("settings of mode {mode}, point {:?}: {e}", point.name);
                let run = (experiment.world()?.prepare)(mode, settings.clone()).map_err(|e| at(&e))?;
                tasks.push(Task {
                    point: point.name.clone(),
                    mode: mode.clone(),
                    settings,
                    run,
                    first: seed_offset == 0,
                });
            }
        }
    }
    Ok(tasks)
}
