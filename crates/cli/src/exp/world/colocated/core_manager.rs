//! Who manages the shared core while requests come.
//!
//! Nobody, where the kernel does or a share is fixed; [`Parties`], which moves
//! that share; or `greenwave sched`, which knows the two programs by process, and
//! under `caladan-runtime` what LC's worker tells. A run in which it did not is none.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use host::signal_page::SharedPage;
use host::{Monotonic, signals};
use queueing::{Clock, Span};
use sched::cores::worker_signals::SignalMemory;

use super::super::sched_daemon::Daemon;
use super::setup::{Rig, SHARED_CORE};
use super::{Config, Sharing};
use crate::error::Error;

/// Who manages.
pub struct Manager {
    parties: Option<Mutex<Parties>>,
    /// The worst tail that was told since the last step.
    tail: Mutex<Span>,
    daemon: Option<Daemon>,
    /// What LC tells, where it is to be heard.
    pulse: Option<SharedPage>,
}

/// A scheduler that has no round for so long does not listen.
const PATIENCE: Duration = Duration::from_secs(10);
const LOOK: Duration = Duration::from_millis(5);

/// From one step to the next (Caladan §7).
const STEP_EVERY: Duration = Duration::from_millis(500);

impl Manager {
    /// Who manages the programs of `rig`.
    ///
    /// # Errors
    /// It does not start.
    pub fn new(config: &Config, rig: &Rig) -> Result<Self, Error> {
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

    /// p99.9 of the last answers.
    pub fn tail(&self, tail: Span) {
        let mut worst = self.tail.lock().unwrap_or_else(PoisonError::into_inner);
        *worst = worst.max(tail);
    }

    /// Manages until `end`.
    pub fn until(&self, end: Instant, rig: &Rig) {
        let (Some(parties), Some(best)) = (&self.parties, &rig.be) else {
            return signals::sleep_until(end);
        };
        let mut parties = parties.lock().unwrap_or_else(PoisonError::into_inner);
        while Instant::now() < end && !signals::is_set() {
            signals::sleep_until(end.min(Instant::now() + STEP_EVERY));
            let tail = std::mem::take(&mut *self.tail.lock().unwrap_or_else(PoisonError::into_inner));
            // The group was there a step ago; that it is gone shows in BE's work.
            let _ = best.limit(parties.step(tail));
        }
    }

    /// Whether it managed to the end, by what LC told where it is to.
    ///
    /// # Errors
    /// It has ended, or never listened to LC.
    pub fn worked(&self) -> Result<(), Error> {
        self.daemon.as_ref().map_or(Ok(()), Daemon::worked)?;
        let Some(pulse) = &self.pulse else { return Ok(()) };
        let (clock, end) = (Monotonic::new(), Instant::now() + PATIENCE);
        // It leads from round to round; on a busy machine one comes late.
        while !pulse.page().is_leased(clock.now()) {
            if Instant::now() > end || signals::is_set() {
                return Err(Error::new("greenwave sched does not listen to what LC tells"));
            }
            signals::sleep_until(Instant::now() + LOOK);
        }
        Ok(())
    }
}

/// A share of time that follows a tail: one step in each period, since nothing
/// tells which step helped; a step that broke the target is taken back, and
/// none follows for a while. As `sched::cores::Parties`, which moves cores.
#[derive(Clone, Debug, PartialEq)]
struct Parties {
    share: f64,
    target: Span,
    gave: bool,
    holding: u32,
}

/// By how much the share changes.
const STEP: f64 = 0.1;
/// It is never less, or more than 1 less this.
const LEAST: f64 = 0.05;
/// Tails below this part of the target leave room for a step.
const ROOM: f64 = 0.8;
/// Steps that are not taken after one that broke the target.
const HOLD: u32 = 10;

impl Parties {
    fn new(share: f64, target: Span) -> Self {
        Self { share, target, gave: false, holding: 0 }
    }

    /// What BE may have after a period with this tail.
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

/// What the daemon is told.
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
