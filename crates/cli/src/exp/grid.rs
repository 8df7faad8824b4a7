//! Runs every point, mode and seed of an experiment, side by side on all cores.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use sim::world::server::{self, Config, Outcome};

use super::figures::Figures;
use super::spec::{Experiment, Scale};
use crate::error::Error;

/// What the grid measured.
pub struct Measured {
    /// Figures, for claims and tables.
    pub figures: Figures,
    /// The first seed's outcome per (point, mode), for plots.
    pub outcomes: Vec<Run>,
    /// Simulated events, all runs.
    pub events: u64,
    /// Runs per point and mode.
    pub runs: u64,
}

/// One point and mode.
pub struct Run {
    /// Point's name, empty if the experiment has none.
    pub point: String,
    /// Mode.
    pub mode: String,
    /// Settings it ran with.
    pub settings: toml::Table,
    /// Its outcome with the first seed.
    pub outcome: Outcome,
}

struct Task {
    point: String,
    mode: String,
    settings: toml::Table,
    config: Config,
    first: bool,
}

/// Runs `experiment` at `scale` with seeds from `seed` on.
///
/// # Errors
/// When settings are invalid; nothing has run then.
pub fn run(name: &str, experiment: &Experiment, scale: &Scale, seed: u64) -> Result<Measured, Error> {
    let tasks = tasks(experiment, scale, seed).map_err(|e| Error::new(format!("experiment {name}: {e}")))?;
    let bar = crate::progress::bar(tasks.len() as u64);
    bar.set_message(name.to_owned());
    let next = AtomicUsize::new(0);
    let outcomes: Mutex<Vec<Option<Outcome>>> = Mutex::new(tasks.iter().map(|_| None).collect());
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(tasks.len());
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(task) = tasks.get(index) else { break };
                    let outcome = server::run(&task.config, &mut |_| {});
                    outcomes.lock().unwrap_or_else(PoisonError::into_inner)[index] = Some(outcome);
                    bar.inc(1);
                }
            });
        }
    });
    bar.finish_and_clear();

    let mut measured =
        Measured { figures: Figures::default(), outcomes: Vec::new(), events: 0, runs: scale.runs };
    let outcomes = outcomes.into_inner().unwrap_or_else(PoisonError::into_inner);
    for (task, outcome) in tasks.into_iter().zip(outcomes) {
        let outcome = outcome.expect("every task ran");
        measured.events += outcome.events;
        measured.figures.add(&task.point, &task.mode, &outcome.report);
        if task.first {
            let Task { point, mode, settings, .. } = task;
            measured.outcomes.push(Run { point, mode, settings, outcome });
        }
    }
    Ok(measured)
}

fn tasks(experiment: &Experiment, scale: &Scale, seed: u64) -> Result<Vec<Task>, String> {
    let mut tasks = Vec::new();
    for point in experiment.points() {
        if scale.points.as_ref().is_some_and(|wanted| !wanted.contains(&point.name)) {
            continue;
        }
        for mode in &experiment.modes {
            for run in 0..scale.runs {
                let mut settings = experiment.settings_for(scale, &point, mode)?;
                settings.insert("seed".to_owned(), toml::Value::Integer((seed + run) as i64));
                let at = |e: &dyn std::fmt::Display| {
                    format!("settings of mode {mode}, point {:?}: {}", point.name, e.to_string().trim())
                };
                let config: Config = settings.clone().try_into().map_err(|e: toml::de::Error| at(&e))?;
                config.check().map_err(|e| at(&e))?;
                tasks.push(Task {
                    point: point.name.clone(),
                    mode: mode.clone(),
                    settings,
                    config,
                    first: run == 0,
                });
            }
        }
    }
    Ok(tasks)
}
