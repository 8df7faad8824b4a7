//! Manager of the shared core during a run.
//!
//! None, where the kernel or a fixed share decides; [`Parties`], which adapts that share; or
//! `greenwave sched`, which is given the two processes, and under `caladan-runtime` the signal page
//! of LC's worker. A run whose manager stopped is invalid.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use host::signal_page::SharedPage;
use host::{Monotonic, signals};
use queueing::{Clock, Span};
use sched::cores::worker_signals::SignalMemory;

use super::super::sched_daemon::Daemon;
use super::setup::{ColocatedSetup, SHARED_CORE};
use super::{Config, Sharing};
use crate::error::Error;

/// Manager of the shared core.
pub struct CoreManager {
    parties: Option<Mutex<Parties>>,
    /// The worst tail reported since the last step.
    tail: Mutex<Span>,
    daemon: Option<Daemon>,
    /// Signal page of LC, if `greenwave sched` must read it.
    pulse: Option<SharedPage>,
}

/// Timeout after which a scheduler without a round counts as not reading the signal page.
const PATIENCE: Duration = Duration::from_secs(10);
const LOOK: Duration = Duration::from_millis(5);

/// Interval between steps (Caladan §7).
const STEP_EVERY: Duration = Duration::from_millis(500);

impl CoreManager {
    /// Starts the manager of the programs of `rig`.
    ///
    /// # Errors
    /// It does not start.
    pub fn new(config: &Config, rig: &ColocatedSetup) -> Result<Self, Error> {
        let parties = (config.sharing == Sharing::Parties)
            .then(|| Mutex::new(Parties::new(config.be_share, config.tail_target)));
        let daemon = match (config.sharing, &rig.be) {
            (Sharing::Caladan | Sharing::CaladanRuntime, Some(best)) => {
                Some(Daemon::new(&rig.client, &tasks(config, rig.lc.id(), best.child.id()))?)
            }
            _ => None,
        };
        let pulse = (config.sharing == Sharing::CaladanRuntime).then(|| SharedPage::of_process(rig.lc.id()));
        let pulse = pulse.transpose().map_err(|e| {
            Error::new(format!("{}: its pulse: {e}", config.lc.program()))
                .advice("cargo build --release -p cli -p workloads, both of one version")
        })?;
        Ok(Self { parties, tail: Mutex::new(Span::ZERO), daemon, pulse })
    }

    /// Reports p99.9 of the last answers.
    pub fn tail(&self, tail: Span) {
        let mut worst = self.tail.lock().unwrap_or_else(PoisonError::into_inner);
        *worst = worst.max(tail);
    }

    /// Manages until `end`.
    pub fn until(&self, end: Instant, rig: &ColocatedSetup) {
        let (Some(parties), Some(best)) = (&self.parties, &rig.be) else {
            return signals::sleep_until(end);
        };
        let mut parties = parties.lock().unwrap_or_else(PoisonError::into_inner);
        while Instant::now() < end && !signals::is_set() {
            signals::sleep_until(end.min(Instant::now() + STEP_EVERY));
            let tail = std::mem::take(&mut *self.tail.lock().unwrap_or_else(PoisonError::into_inner));
            // The group existed one step ago; if it is gone, BE's work shows it.
            let _ = best.limit(parties.step(tail));
        }
    }

    /// Checks that the core manager ran to the end; for LC's signal page, by its lease.
    ///
    /// # Errors
    /// It has ended, or never read LC's signal page.
    pub fn worked(&self) -> Result<(), Error> {
        self.daemon.as_ref().map_or(Ok(()), Daemon::worked)?;
        let Some(pulse) = &self.pulse else { return Ok(()) };
        let (clock, end) = (Monotonic::new(), Instant::now() + PATIENCE);
        // The lease lasts from round to round; on a busy machine a round may be late.
        while !pulse.page().is_leased(clock.now()) {
            if Instant::now() > end || signals::is_set() {
                return Err(Error::new("greenwave sched does not read the worker signals of LC"));
            }
            signals::sleep_until(Instant::now() + LOOK);
        }
        Ok(())
    }
}

/// Share of CPU time that follows a tail.
///
/// One step per period, since the effect of several steps could not be told apart. A step that
/// broke the target is undone, and the next ones are skipped. Same policy as
/// `sched::cores::Parties`, which moves cores.
#[derive(Clone, Debug, PartialEq)]
struct Parties {
    share: f64,
    target: Span,
    gave: bool,
    holding: u32,
}

/// Step of the share.
const STEP: f64 = 0.1;
/// Smallest share; the largest is 1 minus this.
const LEAST: f64 = 0.05;
/// Tails below this fraction of the target allow a step.
const ROOM: f64 = 0.8;
/// Steps skipped after one that broke the target.
const HOLD: u32 = 10;

impl Parties {
    fn new(share: f64, target: Span) -> Self {
        Self { share, target, gave: false, holding: 0 }
    }

    /// BE's share after a period with this tail.
    fn step(&mut self, tail: Span) -> f64 {
        let gave = std::mem::take(&mut self.gave);
        let of_target = tail.as_secs_f64() / self.target.as_secs_f64();
        if of_target > 1.0 {
            if gave {
                self.holding = HOLD;
            }
            self.share -= STEP;
        } else if self.holding > 0 {
            self.holding -= 1;
        } else if of_target < ROOM {
            self.share += STEP;
            self.gave = true;
        }
        self.share = self.share.clamp(LEAST, 1.0 - LEAST);
        self.share
    }
}

/// Task file of the daemon.
fn tasks(config: &Config, lc: u32, be: u32) -> String {
    let (mechanism, pulse) = match config.sharing {
        Sharing::CaladanRuntime => ("runtime", true),
        _ => ("auto", false),
    };
    let delay_max =
        config.delay_max.map_or(String::new(), |span| format!("delay_max = \"{}ns\"\n", span.as_nanos()));
    format!(
        "policy = \"caladan\"\nmechanism = \"{mechanism}\"\ncores = \"{}\"\n\
         [[tasks]]\nname = \"lc\"\nclass = \"LC\"\npid = {lc}\nguaranteed = 1\npulse = {pulse}\n{delay_max}\
         [[tasks]]\nname = \"be\"\nclass = \"BE\"\npid = {be}\n",
        SHARED_CORE.0
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_grows_while_there_is_room_and_shrinks_when_the_target_is_missed() {
        let mut parties = Parties::new(0.5, Span::from_micros(100));
        let near = |share: f64, what: f64| assert!((share - what).abs() < 1e-9, "{share} for {what}");
        near(parties.step(Span::from_micros(50)), 0.6);
        near(parties.step(Span::from_micros(90)), 0.6);
        near(parties.step(Span::from_micros(101)), 0.5);
        near(parties.step(Span::from_micros(50)), 0.6);
        near(parties.step(Span::from_micros(200)), 0.5);
        (0..HOLD).for_each(|_| near(parties.step(Span::ZERO), 0.5));
        near(parties.step(Span::ZERO), 0.6);
        for _ in 0..20 {
            parties.step(Span::from_secs(1));
        }
        near(parties.share, LEAST);
    }
}
