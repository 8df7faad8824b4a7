//! Tasks under management: the state that all mechanisms share.
//!
//! Not here: the owner of each core, which the mechanism keeps.

use std::io;
use std::path::Path;

use queueing::{Span, Time};
use sched::cores::{Signals, TaskId, TaskSpec};

use super::pressure_files::PressureReports;
use super::tail_latency_files::TailFiles;
use super::task::{Managed, RESCAN};
use super::undo_log::Restored;
use super::{CoresError, Journal, Layout, Sensor, TaskSetup};
use host::sched_policy::SchedPolicy;

/// Parameters of a mechanism.
pub struct Setup {
    /// The managed cores.
    pub layout: Layout,
    /// Tasks, each with its name for errors.
    pub tasks: Vec<(String, TaskSetup)>,
    /// Makes LC threads that sleep regularly real-time, where that is permitted.
    pub real_time: bool,
    /// Time without need after which LC gives a core back.
    pub calm: Span,
    /// Time between rounds.
    pub period: Span,
    /// DRAM sensor.
    pub sensor: Box<dyn Sensor>,
    /// Undo log, written before every change.
    pub journal: Journal,
}

/// Tasks under management, and their earlier state.
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
    /// Takes the tasks over at `now`; LC gets class `lc` and BE class `be`, if given.
    ///
    /// # Errors
    /// A task does not exist or we may not schedule it; the others are restored.
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
                    // What could not be restored stays in the log for the next start.
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

    /// Rescans processes and threads when that is due; true if it did.
    pub(super) fn rescan(&mut self, now: Time) -> bool {
        let due = now.since(self.scanned) >= RESCAN;
        if due {
            self.scanned = now;
            self.tasks.iter_mut().for_each(|task| task.scan(now, &mut self.journal));
            let tasks = &self.tasks;
            // Tried again at the next scan.
            let _ = self.journal.keep();
            // If the log cannot be shortened, the longer one stays in use.
            let _ = self.journal.shorten(|task, thread| tasks[task].is_watched(thread));
        }
        due
    }

    /// Reads the clients' tail latencies and the services' queue reports.
    pub(super) fn listen(&mut self, now: Time, signals: &mut Signals) {
        self.tails.read(now, &mut signals.tasks);
        self.asking.read(now);
        for (number, seen) in signals.tasks.iter_mut().enumerate() {
            seen.late = self.asking.is_behind(TaskId(number as u16));
        }
    }

    /// Queue-report files of `task` that no service has ever written.
    pub fn silent(&self, task: TaskId) -> impl Iterator<Item = &Path> {
        self.asking.silent(task)
    }

    /// True if tasks were rescanned at `now`.
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
