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
    pub be_work: Option<BestEffortWork>,
    /// CPU time of other processes, in cores.
    pub other: f64,
}

/// Work of a best-effort program.
pub struct BestEffortWork {
    /// Rate in its own unit.
    pub per_s: f64,
    /// CPU time used by BE, in cores.
    pub cores: f64,
}

/// Smallest interval between samples.
const SAMPLE_INTERVAL_MIN: Duration = Duration::from_millis(20);

impl LimitedProgram {
    /// BE's rate without other load.
    pub fn measure_alone(&mut self, config: &Config) -> Result<f64, Error> {
        let progress = ProgressLines::of(self.stdout.take());
        progress.wait_for_progress(&mut self.child, config.be.program())?;
        signals::sleep_until(Instant::now() + Duration::from(config.warmup));
        let from = Instant::now();
        signals::sleep_until(from + Duration::from(config.duration));
        let per_s = progress.per_s(from, Instant::now());
        match per_s > 0.0 {
            true => Ok(per_s),
            false => Err(Error::new(format!("{} makes no progress when it runs alone", config.be.program()))),
        }
    }
}

/// CPU time and progress at one instant.
struct Sample {
    at: Instant,
    lc: Span,
    be: Span,
    background: BackgroundLoad,
}

impl ColocatedSetup {
    /// Sends `config`'s requests to LC while BE works and the manager runs.
    ///
    /// # Errors
    /// A program fails, or the run was interrupted.
    pub fn drive(mut self, config: &Config) -> Result<ColocatedResults, Error> {
        let be_progress = match &mut self.be {
            Some(be) => {
                let be_progress = ProgressLines::of(be.stdout.take());
                be_progress.wait_for_progress(&mut be.child, config.be.program())?;
                be_progress
            }
            None => ProgressLines::default(),
        };
        let manager = CoreManager::new(config, &self)?;
        let group = TestGroup::preferred("clients")?;
        let (plan, protocol, stop) = (config.plan(), config.lc.protocol(), signals::flag());
        let (start_sender, start_receiver) = channel();
        let (setup, group, manager) = (&self, &group, &manager);
        thread::scope(|scope| {
            let work = scope.spawn(move || {
                let send = || {
                    affinity::pin(CLIENT_CORE)
                        .map_err(|e| Error::new(format!("core {}: {e}", CLIENT_CORE.0)))?;
                    group.join().map_err(|e| Error::new(e.to_string()))?;
                    let mut start_once = Some(start_sender);
                    let mut progress = |progress: Progress| {
                        if progress.due > 0
                            && let Some(start_sender) = start_once.take()
                        {
                            // The receiver is gone when the run is aborted.
                            let _ = start_sender.send(Instant::now());
                        }
                        manager.report_tail(progress.tail);
                    };
                    let clock = Monotonic::new();
                    kernel::run(&plan, setup.target, &protocol, &clock, &mut progress, stop)
                        .map_err(|e| Error::new(e.to_string()))
                };
                setup.client.enter(send)
            });
            let samples = start_receiver.recv().ok().map(|start| {
                manager.run_until(start + Duration::from(config.warmup), setup);
                let before = setup.sample();
                // Slightly shorter than the counted requests, which began a little earlier.
                let end = start + Duration::from(config.warmup + config.duration) - START_DELAY_MAX;
                manager.run_until(end.max(before.at + SAMPLE_INTERVAL_MIN), setup);
                (before, setup.sample())
            });
            let report = panics::join("the clients", work).map_err(Error::new)??;
            let (before, after) = samples.ok_or_else(|| Error::new("the clients did not start"))?;
            if signals::is_set() {
                return Err(Error::interrupted(""));
            }
            let seconds = (after.at - before.at).as_secs_f64();
            let cores =
                |of: fn(&Sample) -> Span| of(&after).saturating_sub(of(&before)).as_secs_f64() / seconds;
            let be_work = setup.be.is_some().then(|| BestEffortWork {
                per_s: be_progress.per_s(before.at, after.at),
                cores: cores(|sample| sample.be),
            });
            manager.check_running()?;
            let other = after.background.since(before.background) / seconds;
            Ok(ColocatedResults { report, lc_cores: cores(|sample| sample.lc), be_work, other })
        })
    }

    fn sample(&self) -> Sample {
        let used = |id: u32| cpu_time::process(id).unwrap_or(Span::ZERO);
        // Processes that it started count as its own.
        let family = self.be.as_ref().map(|be| proc::family(be.child.id()));
        let be = family.into_iter().flatten().map(used).fold(Span::ZERO, |sum, time| sum + time);
        Sample { at: Instant::now(), lc: used(self.lc.id()), be, background: BackgroundLoad::now() }
    }
}

/// Largest delay between the first due request and its notification.
const START_DELAY_MAX: Duration = Duration::from_millis(110);
