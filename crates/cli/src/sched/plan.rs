//! Checks before anything is started or changed, common to `sched` and `check`.

use std::path::{Path, PathBuf};

use host::{affinity, files};
use hostsched::{Layout, Protected, Sensor};
use queueing::{CoreId, Span};
use sched::cores::{CoreAssignment, Policy, Settings};

use super::config::Config;
use super::mechanism::{self, Choice};
use super::sensor::sensor;
use crate::Error;

/// A configuration applied to this machine.
pub struct Plan {
    pub ours: Vec<CoreId>,
    pub cores: Vec<CoreId>,
    pub layout: Layout,
    pub choice: Choice,
    pub settings: Settings,
    pub board: CoreAssignment,
    pub policy: Box<dyn Policy>,
    pub period: Span,
    pub calm: Span,
    pub sensor: Box<dyn Sensor>,
    pub sensor_why: String,
}

impl Plan {
    /// Examines this machine, and changes nothing.
    ///
    /// # Errors
    /// A missing prerequisite, with advice.
    pub fn new(config: &Config) -> Result<Self, Error> {
        let ours =
            affinity::cores().map_err(|e| Error::new(format!("cannot read the allowed cores: {e}")))?;
        let cores = config.managed(&ours)?;
        let layout = Layout::new(&cores).map_err(|e| Error::new(e.to_string()))?;
        let choice = mechanism::choose(config, &ours, &cores)?;
        let (period, calm) = config.tempo(choice.mechanism);
        let (board, policy) = config.arrange(layout.topology().clone(), choice.mechanism, period)?;
        let settings = config.settings(period);
        let period = policy.period().max(period);
        for task in &config.tasks {
            let of_task = |e: Error| e.begin(&format!("task {}: ", task.name));
            let checked = task.selector().map_or(Ok(()), |selector| selector.check(task.is_critical()));
            checked.map_err(|e| Error::from(e.of_task(&task.name)))?;
            task.command.iter().try_for_each(|words| program(&words[0])).map_err(of_task)?;
            task.output.iter().try_for_each(|path| Error::unless_writable(path)).map_err(of_task)?;
        }
        check_processes(config)?;
        config.hook.first().map_or(Ok(()), |hook| program(hook)).map_err(|e| e.begin("hook "))?;
        config.metrics.iter().try_for_each(|path| Error::unless_writable(path))?;
        let (sensor, sensor_why) = sensor(config, &cores)?;
        Ok(Self { ours, cores, layout, choice, settings, board, policy, period, calm, sensor, sensor_why })
    }
}

/// Checks that no task contains greenwave or what it depends on, and that no two tasks overlap.
///
/// # Errors
/// The task or the pair, and advice.
pub fn check_processes(config: &Config) -> Result<(), Error> {
    let given: Vec<_> =
        config.tasks.iter().filter_map(|task| Some((&*task.name, task.selector()?))).collect();
    hostsched::check_all(given.iter().map(|(name, selector)| (*name, selector)), &Protected::current(None))?;
    Ok(())
}

/// Checks that the program exists where execvp(3) looks for it.
fn program(name: &str) -> Result<(), Error> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = match name.contains('/') {
        true => files::check_runnable(Path::new(name)),
        false => std::env::split_paths(&path)
            .map(|folder: PathBuf| files::check_runnable(&folder.join(name)))
            .find(Result::is_ok)
            .unwrap_or_else(|| Err(std::io::Error::from_raw_os_error(2))),
    };
    found.map_err(|e| {
        Error::file(Path::new(name), &e).advice("an existing program: an absolute path, or a name in PATH")
    })
}
