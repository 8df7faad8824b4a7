//! Who manages the shared core while requests come.
//!
//! Nobody, where the kernel does or a share is fixed; [`Parties`], which moves
//! that share; or `greenwave sched`, which knows the two programs by process.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::sync::mpsc::channel;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use host::interrupt;
use host::lab::{Child, Folder, Namespace};
use queueing::Span;
use rustix::process::{Pid, Signal, kill_process};

use super::rig::{Rig, SHARED_CORE};
use super::{Config, Sharing};
use crate::error::Error;

/// Who manages.
pub struct Manager {
    parties: Option<Mutex<Parties>>,
    /// The worst tail that was told since the last step.
    tail: Mutex<Span>,
    daemon: Option<Daemon>,
}

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
            (Sharing::Caladan, Some(best)) => Some(Daemon::new(&rig.client, rig.lc.id(), best.child.id())?),
            _ => None,
        };
        Ok(Self { parties, tail: Mutex::new(Span::ZERO), daemon })
    }

    /// The process that manages, if one does.
    pub fn id(&self) -> Option<u32> {
        self.daemon.as_ref().map(|daemon| daemon.child.id())
    }

    /// p99.9 of the last answers.
    pub fn tail(&self, tail: Span) {
        let mut worst = self.tail.lock().unwrap_or_else(PoisonError::into_inner);
        *worst = worst.max(tail);
    }

    /// Manages until `end`.
    pub fn until(&self, end: Instant, rig: &Rig) {
        let (Some(parties), Some(best)) = (&self.parties, &rig.be) else {
            return interrupt::sleep_until(end);
        };
        let mut parties = parties.lock().unwrap_or_else(PoisonError::into_inner);
        while Instant::now() < end && !interrupt::is_set() {
            interrupt::sleep_until(end.min(Instant::now() + STEP_EVERY));
            let tail = std::mem::take(&mut *self.tail.lock().unwrap_or_else(PoisonError::into_inner));
            // The group was there a step ago; that it is gone shows in BE's work.
            let _ = best.limit(parties.step(tail));
        }
    }

    /// Whether it managed to the end.
    ///
    /// # Errors
    /// It has ended.
    pub fn worked(&self) -> Result<(), Error> {
        match &self.daemon {
            Some(daemon) if !daemon.lives() => Err(Error::new("greenwave sched ended during the run")),
            _ => Ok(()),
        }
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

/// `greenwave sched` at work.
struct Daemon {
    child: Child,
    _folder: Folder,
}

/// How long it may take to begin, and to put things back.
const PATIENCE: Duration = Duration::from_secs(10);
const LOOK: Duration = Duration::from_millis(5);

impl Daemon {
    /// One that shares the core between processes `lc` and `be`; it stands back
    /// from that core by itself, to the clients'.
    fn new(place: &Namespace, lc: u32, be: u32) -> Result<Self, Error> {
        let failed = |what: &str| Error::new(format!("greenwave sched: {what}"));
        let folder = Folder::new("sched").map_err(|e| failed(&e.to_string()))?;
        let config =
            folder.write("tasks.toml", tasks(lc, be).as_bytes()).map_err(|e| failed(&e.to_string()))?;
        let this = std::env::current_exe().map_err(|e| failed(&e.to_string()))?;
        let mut command = place.command(&this.to_string_lossy());
        command.args(["sched", "--config"]).arg(config).arg("--journals").arg(folder.path());
        let log = folder.path().join("log");
        let stderr = File::create(&log).map_err(|e| Error::file(&log, &e))?;
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(stderr);
        let mut child = place.spawn(&mut command).map_err(|e| failed(&e.to_string()))?;
        let stdout = child.stdout.take().ok_or_else(|| failed("no stdout"))?;
        let (tell, told) = channel();
        // Reads on to the end, so that it can always write.
        thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                let _ = tell.send(line);
            }
        });
        // It says first what it does; where it cannot, it says why in its log.
        if told.recv_timeout(PATIENCE).is_ok() {
            return Ok(Self { child, _folder: folder });
        }
        let said = std::fs::read_to_string(&log).unwrap_or_default();
        let line = said.lines().next().unwrap_or("it says nothing");
        Err(failed(line.trim_start_matches("error: ")))
    }

    fn lives(&self) -> bool {
        std::path::Path::new(&format!("/proc/{}/fd/0", self.child.id())).exists()
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // It puts back what it changed when asked to end.
        if let Some(pid) = Pid::from_raw(self.child.id() as i32) {
            let _ = kill_process(pid, Signal::TERM);
        }
        let end = Instant::now() + PATIENCE;
        while matches!(self.child.try_wait(), Ok(None)) && Instant::now() < end {
            thread::sleep(LOOK);
        }
    }
}

/// What the daemon is told.
fn tasks(lc: u32, be: u32) -> String {
    format!(
        "policy = \"caladan\"\ncores = \"{}\"\n\
         [[tasks]]\nname = \"lc\"\nclass = \"LC\"\npid = {lc}\nguaranteed = 1\n\
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
