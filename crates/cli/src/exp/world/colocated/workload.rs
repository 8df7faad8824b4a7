//! Workload of a run, and the samples taken during it.

use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use ::load::kernel;
use ::load::{Progress, Report};
use host::{Monotonic, affinity, cpu_time, proc, signals};
use netlab::TestGroup;
use queueing::Span;

use super::super::background_load::BackgroundLoad;
use super::super::progress_lines::ProgressLines;
use super::Config;
use super::core_manager::CoreManager;
use super::setup::{CLIENT_CORE, ColocatedSetup, LimitedProgram};
use crate::error::Error;
use crate::panics;

/// Results of a run.
pub struct ColocatedResults {
    pub report: Report,
    /// Cores that LC used.
    pub lc_cores: f64,
    /// BE's work, if BE runs.
    pub done: Option<Done>,
    /// CPU time of other processes, in cores.
    pub other: f64,
}

/// Work of a best-effort program.
pub struct Done {
    /// Rate in its own unit.
    pub per_s: f64,
    /// Cores that it used.
    pub cores: f64,
}

/// Smallest interval between samples.
const NAP: Duration = Duration::from_millis(20);

impl LimitedProgram {
    /// BE's rate without other load.
    pub fn by_itself(&mut self, config: &Config) -> Result<f64, Error> {
        let said = ProgressLines::of(self.stdout.take());
        said.works(&mut self.child, config.be.program())?;
        signals::sleep_until(Instant::now() + Duration::from(config.warmup));
        let from = Instant::now();
        signals::sleep_until(from + Duration::from(config.duration));
        let per_s = said.per_s(from, Instant::now());
        match per_s > 0.0 {
            true => Ok(per_s),
            false => Err(Error::new(format!("{} does nothing on its own", config.be.program()))),
        }
    }
}

/// CPU time and progress at one instant.
struct Read {
    at: Instant,
    lc: Span,
    be: Span,
    others: BackgroundLoad,
}

impl ColocatedSetup {
    /// Sends `config`'s requests to LC while BE works and the manager runs.
    ///
    /// # Errors
    /// A program fails, or the run was interrupted.
    pub fn drive(mut self, config: &Config) -> Result<ColocatedResults, Error> {
        let said = match &mut self.be {
            Some(best) => {
                let said = ProgressLines::of(best.stdout.take());
                said.works(&mut best.child, config.be.program())?;
                said
            }
            None => ProgressLines::default(),
        };
        let manager = CoreManager::new(config, &self)?;
        let group = TestGroup::preferred("clients")?;
        let (plan, protocol, stop) = (config.plan(), config.lc.protocol(), signals::flag());
        let (starts, started) = channel();
        let (rig, joined, managed) = (&self, &group, &manager);
        thread::scope(|scope| {
            let work = scope.spawn(move || {
                let send = || {
                    affinity::pin(CLIENT_CORE)
                        .map_err(|e| Error::new(format!("core {}: {e}", CLIENT_CORE.0)))?;
                    joined.join().map_err(|e| Error::new(e.to_string()))?;
                    let mut told = Some(starts);
                    let mut progress = |progress: Progress| {
                        if progress.due > 0
                            && let Some(starts) = told.take()
                        {
                            // The receiver is gone when the run is aborted.
                            let _ = starts.send(Instant::now());
                        }
                        managed.tail(progress.tail);
                    };
                    let clock = Monotonic::new();
                    kernel::run(&plan, rig.target, &protocol, &clock, &mut progress, stop)
                        .map_err(|e| Error::new(e.to_string()))
                };
                rig.client.enter(send)
            });
            let read = started.recv().ok().map(|start| {
                managed.until(start + Duration::from(config.warmup), rig);
                let before = rig.read();
                // Slightly shorter than the counted requests, which began a little earlier.
                let end = start + Duration::from(config.warmup + config.duration) - LATE_START;
                managed.until(end.max(before.at + NAP), rig);
                (before, rig.read())
            });
            let report = panics::join("the clients", work).map_err(Error::new)??;
            let (before, after) = read.ok_or_else(|| Error::new("the clients did not start"))?;
            if signals::is_set() {
                return Err(Error::interrupted(""));
            }
            let seconds = (after.at - before.at).as_secs_f64();
            let cores =
                |of: fn(&Read) -> Span| of(&after).saturating_sub(of(&before)).as_secs_f64() / seconds;
            let done = rig
                .be
                .is_some()
                .then(|| Done { per_s: said.per_s(before.at, after.at), cores: cores(|read| read.be) });
            managed.worked()?;
            let other = after.others.since(before.others) / seconds;
            Ok(ColocatedResults { report, lc_cores: cores(|read| read.lc), done, other })
        })
    }

    fn read(&self) -> Read {
        let used = |id: u32| cpu_time::process(id).unwrap_or(Span::ZERO);
        // Processes that it started count as its own.
        let family = self.be.as_ref().map(|best| proc::family(best.child.id()));
        let be = family.into_iter().flatten().map(used).fold(Span::ZERO, |sum, its| sum + its);
        Read { at: Instant::now(), lc: used(self.lc.id()), be, others: BackgroundLoad::now() }
    }
}

/// Largest delay between the first due request and its notification.
const LATE_START: Duration = Duration::from_millis(110);
