//! Tasks that were taken over: what every mechanism knows of them.
//!
//! Not here: who has which core, which is the mechanism's.

use std::io;
use std::path::Path;

use queueing::{Span, Time};
use sched::cores::{Signals, TaskId, TaskSpec};

use super::pressure_files::PressureReports;
use super::sched_policy::SchedPolicy;
use super::tail_latency_files::TailFiles;
use super::task::{Managed, RESCAN};
use super::undo_log::Restored;
use super::{CoresError, Journal, Layout, Sensor, TaskSetup};

/// What a mechanism is made of.
pub struct Setup {
    /// The cores that are shared out.
    pub layout: Layout,
    /// Who shares them, each with its name for errors.
    pub tasks: Vec<(String, TaskSetup)>,
    /// LC's threads that sleep now and then become real-time, where that is allowed.
    pub real_time: bool,
    /// LC gives a core back that it had no use for during this time.
    pub calm: Span,
    /// From one round to the next.
    pub period: Span,
    /// What tells how busy DRAM is.
    pub sensor: Box<dyn Sensor>,
    /// Where everything that is changed is written before.
    pub journal: Journal,
}

/// Tasks of this machine, and what they had before.
pub struct ManagedTasks {
    pub(super) layout: Layout,
    pub(super) specs: Vec<TaskSpec>,
    pub(super) tasks: Vec<Managed>,
    tails: TailFiles,
    asking: PressureReports,
    pub(super) sensor: Box<dyn Sensor>,
    pub(super) journal: Journal,
    scanned: Time,
}

impl ManagedTasks {
    /// Takes them over at `now`, LC and BE into the classes `lc` and `be`, if those are given.
    ///
    /// # Errors
    /// A task is not there or not ours to schedule; the others are put back.
    pub(super) fn new(
        setup: Setup,
        [lc, be]: [Option<SchedPolicy>; 2],
        now: Time,
    ) -> Result<Self, CoresError> {
        let Setup { layout, tasks, real_time: _, calm: _, period: _, sensor, mut journal } = setup;
        let mut managed = Vec::new();
        for (number, (name, task)) in tasks.iter().enumerate() {
            let critical = task.spec.is_critical();
            let class = if critical { lc } else { be };
            match Managed::take(number, critical, class, task.who.clone(), now, &mut journal) {
                Ok(task) => managed.push(task),
                Err(e) => {
                    // What could not be put back stays in the journal's words to the next start.
                    let _ = journal.put_back();
                    return Err(e.of_task(name));
                }
            }
        }
        let (mut specs, mut tails, mut joined) = (Vec::new(), Vec::new(), Vec::new());
        for (_, TaskSetup { spec, tail, joined: files, .. }) in tasks {
            specs.push(spec);
            tails.push(tail);
            joined.push(files);
        }
        let (tails, asking) = (TailFiles::new(tails, now), PressureReports::new(joined));
        Ok(Self { layout, specs, tasks: managed, tails, asking, sensor, journal, scanned: now })
    }

    /// Looks for processes and threads that are new, where it is time to; whether it was.
    pub(super) fn rescan(&mut self, now: Time) -> bool {
        let due = now.since(self.scanned) >= RESCAN;
        if due {
            self.scanned = now;
            self.tasks.iter_mut().for_each(|task| task.scan(now, &mut self.journal));
            let tasks = &self.tasks;
            // Where a shorter one cannot be written, the longer one goes on.
            let _ = self.journal.shorten(|task, thread| tasks[task].is_watched(thread));
        }
        due
    }

    /// What clients measure, and what services tell.
    pub(super) fn listen(&mut self, now: Time, signals: &mut Signals) {
        self.tails.read(now, &mut signals.tasks);
        self.asking.read(now);
        for (number, seen) in signals.tasks.iter_mut().enumerate() {
            seen.late = self.asking.is_behind(TaskId(number as u16));
        }
    }

    /// Files in which services of `task` were to tell of their requests and none ever did.
    pub fn silent(&self, task: TaskId) -> impl Iterator<Item = &Path> {
        self.asking.silent(task)
    }

    /// Whether they were looked for at `now`.
    pub(super) fn was_scanned(&self, now: Time) -> bool {
        self.scanned == now
    }

    pub(super) fn put_back(&self) -> io::Result<Restored> {
        self.journal.put_back()
    }

    pub(super) fn of(&self, task: TaskId) -> &Managed {
        &self.tasks[task.index()]
    }
}
