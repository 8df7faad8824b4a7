//! Interface of every mechanism, beyond the policies' trait `Cores`.

use std::io;

use queueing::{Span, Time};
use sched::cores::{Cores, TaskId, TaskSpec};

use super::undo_log::Restored;
use super::{Affinity, CoresError, Figures, ManagedTasks, Runtime, Scx, Sensor, Setup};

/// Tasks under one mechanism.
pub trait Manager: Cores {
    /// Name: affinity, scx, runtime.
    fn mechanism(&self) -> &'static str;

    /// Restores everything; afterwards only figures can be read.
    ///
    /// # Errors
    /// The undo log cannot be read.
    fn put_back(&mut self) -> io::Result<Restored>;

    /// Figures of `task`.
    fn figures(&self, task: TaskId) -> &Figures;

    /// Longest wait of `task` since the last call.
    fn take_longest(&mut self, task: TaskId) -> Span;

    /// State that all mechanisms share.
    fn taken(&self) -> &ManagedTasks;

    /// State that all mechanisms share, mutable.
    fn taken_mut(&mut self) -> &mut ManagedTasks;

    /// Replaces the thresholds of `task` by those of `spec`.
    fn set_thresholds(&mut self, task: TaskId, spec: &TaskSpec) {
        self.taken_mut().specs[task.index()].set_thresholds(spec);
    }

    /// True if `task` is parked.
    fn is_parked(&self, task: TaskId) -> bool {
        self.taken().of(task).is_parked()
    }

    /// True if `task` should be real-time but lacks the permission.
    fn lacks_real_time(&self, task: TaskId) -> bool {
        self.taken().of(task).lacks_real_time()
    }

    /// True if `task` can be parked. Otherwise a task without cores keeps running, below all that have
    /// one.
    fn can_park(&self, task: TaskId) -> bool {
        self.taken().of(task).can_park()
    }

    /// Workers of `task` that publish their waits, and how many of those are parked; `None` where its
    /// threads are observed instead.
    fn workers(&self, _task: TaskId) -> Option<(usize, usize)> {
        None
    }

    /// True if no process of `task` is left.
    fn is_over(&self, task: TaskId) -> bool {
        self.taken().of(task).is_over()
    }

    /// DRAM sensor.
    fn sensor(&self) -> &dyn Sensor {
        &*self.taken().sensor
    }

    /// Reason why cores are no longer managed; the kernel then schedules all tasks.
    fn lost(&self) -> Option<String> {
        None
    }
}

/// Mechanism that carries out decisions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mechanism {
    /// Class and affinity: any program, any kernel.
    Affinity,
    /// A scheduler in the kernel (sched_ext).
    Scx,
    /// Affinity, and requests to the workers of programs on greenwave's runtime.
    Runtime,
}

impl Setup {
    /// Takes the tasks over at `now` with `mechanism`.
    ///
    /// # Errors
    /// The mechanism is not available here; a task does not exist or we may not schedule it. The others
    /// are restored.
    pub fn take(self, mechanism: Mechanism, now: Time) -> Result<Box<dyn Manager>, CoresError> {
        Ok(match mechanism {
            Mechanism::Affinity => Box::new(Affinity::new(self, now)?),
            Mechanism::Scx => Box::new(Scx::new(self, now)?),
            Mechanism::Runtime => Box::new(Runtime::new(self, now)?),
        })
    }
}
