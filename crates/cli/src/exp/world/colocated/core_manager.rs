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
    signal_page: Option<SharedPage>,
}

/// Timeout after which a scheduler without a round counts as not reading the signal page.
const LEASE_TIMEOUT: Duration = Duration::from_secs(10);
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// Interval between steps (Caladan §7).
const STEP_EVERY: Duration = Duration::from_millis(500);

impl CoreManager {
    /// Starts the manager of the programs of `setup`.
    ///
    /// # Errors
    /// The manager does not start.
    pub fn new(config: &Config, setup: &ColocatedSetup) -> Result<Self, Error> {
        let parties = (config.sharing == Sharing::Parties)
            .then(|| Mutex::new(Parties::new(config.be_share, config.tail_target)));
        let daemon = match (config.sharing, &setup.be) {
            (Sharing::Caladan | Sharing::CaladanRuntime, Some(be)) => {
                Some(Daemon::new(&setup.client, &tasks(config, setup.lc.id(), be.child.id()))?)
            }
            _ => None,
        };
        let page = (config.sharing == Sharing::CaladanRuntime).then(|| SharedPage::of_process(setup.lc.id()));
        let page = page.transpose().map_err(|e| {
            Error::new(format!("{}: its signal page: {e}", config.lc.program()))
                .advice("cargo build --release -p cli -p workloads, both of one version")
        })?;
        Ok(Self { parties, tail: Mutex::new(Span::ZERO), daemon, signal_page: page })
    }

    /// Reports p99.9 of the last answers.
    pub fn report_tail(&self, tail: Span) {
        let mut worst = self.tail.lock().unwrap_or_else(PoisonError::into_inner);
        *worst = worst.max(tail);
    }

    /// Manages until `end`.
    pub fn run_until(&self, end: Instant, setup: &ColocatedSetup) {
        let (Some(parties), Some(be)) = (&self.parties, &setup.be) else {
            return signals::sleep_until(end);
        };
        let mut parties = parties.lock().unwrap_or_else(PoisonError::into_inner);
        while Instant::now() < end && !signals::is_set() {
            signals::sleep_until(end.min(Instant::now() + STEP_EVERY));
            let tail = std::mem::take(&mut *self.tail.lock().unwrap_or_else(PoisonError::into_inner));
            // The group existed one step ago; if it is gone, BE's work shows it.
            let _ = be.limit(parties.step(tail));
        }
    }

    /// Checks that the core manager ran to the end; for LC's signal page, by its lease.
    ///
    /// # Errors
    /// The manager has ended, or never read LC's signal page.
    pub fn check_running(&self) -> Result<(), Error> {
        self.daemon.as_ref().map_or(Ok(()), Daemon::check_running)?;
        let Some(page) = &self.signal_page else { return Ok(()) };
        let (clock, end) = (Monotonic::new(), Instant::now() + LEASE_TIMEOUT);
        // The lease lasts from round to round; on a busy machine a round may be late.
        while !page.page().is_leased(clock.now()) {
            if Instant::now() > end || signals::is_set() {
                return Err(Error::new("greenwave sched does not read the worker signals of LC"));
            }
            signals::sleep_until(Instant::now() + POLL_INTERVAL);
        }
        Ok(())
    }
}

/// Share of CPU time that follows a tail.
///
/// One step per period, since the effects of several steps could not be distinguished. A step that
/// broke the target is undone, and the next ones are skipped. Same policy as
/// `sched::cores::Parties`, which moves cores.
#[derive(Clone, Debug, PartialEq)]
struct Parties {
    share: f64,
    target: Span,
    has_grown: bool,
    hold_steps: u32,
}

/// Step of the share.
const STEP: f64 = 0.1;
/// Smallest share; the largest is 1 minus this.
const SHARE_MIN: f64 = 0.05;
/// Fraction of the target latency: a step is allowed while the tail latency is below it.
const HEADROOM: f64 = 0.8;
/// Number of steps skipped after one that exceeded the target.
const HOLD: u32 = 10;

impl Parties {
    fn new(share: f64, target: Span) -> Self {
        Self { share, target, has_grown: false, hold_steps: 0 }
    }

    /// BE's share after a period with this tail.
    fn step(&mut self, tail: Span) -> f64 {
        let has_grown = std::mem::take(&mut self.has_grown);
        let of_target = tail.as_secs_f64() / self.target.as_secs_f64();
        if of_target > 1.0 {
            if has_grown {
                self.hold_steps = HOLD;
            }
            self.share -= STEP;
        } else if self.hold_steps > 0 {
            self.hold_steps -= 1;
        } else if of_target < HEADROOM {
            self.share += STEP;
            self.has_grown = true;
        }
        self.share = self.share.clamp(SHARE_MIN, 1.0 - SHARE_MIN);
        self.share
    }
}

/// Task file of the daemon.
fn tasks(config: &Config, lc: u32, be: u32) -> String {
    let (mechanism, has_page) = match config.sharing {
        Sharing::CaladanRuntime => ("runtime", true),
        _ => ("auto", false),
    };
    let delay_max =
        config.delay_max.map_or(String::new(), |span| format!("delay_max = \"{}ns\"\n", span.as_nanos()));
    format!(
        "policy = \"caladan\"\nmechanism = \"{mechanism}\"\ncores = \"{}\"\n\
         [[tasks]]\nname = \"lc\"\nclass = \"LC\"\npid = {lc}\nguaranteed = 1\nsignal_page = {has_page}\n{delay_max}\
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
        let near =
            |share: f64, expected: f64| assert!((share - expected).abs() < 1e-9, "{share} for {expected}");
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
        near(parties.share, SHARE_MIN);
    }
}
