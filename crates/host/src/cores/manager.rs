//! What every mechanism can be asked beyond the port of policies.

use std::io;

use queueing::{Span, Time};
use sched::cores::{Cores, TaskId, TaskSpec};

use super::undo_log::Restored;
use super::{Affinity, CoresError, Figures, ManagedTasks, Runtime, Scx, Sensor, Setup};

/// Tasks of this machine, under one mechanism.
pub trait Manager: Cores {
    /// Its name: affinity, scx, runtime.
    fn mechanism(&self) -> &'static str;

    /// Puts everything back; there are only figures to be had from it then.
    ///
    /// # Errors
    /// The journal cannot be read.
    fn put_back(&mut self) -> io::Result<Restored>;

    /// What `task` did.
    fn figures(&self, task: TaskId) -> &Figures;

    /// The longest wait of `task` since this was asked last.
    fn take_longest(&mut self, task: TaskId) -> Span;

    /// What was taken over.
    fn taken(&self) -> &ManagedTasks;

    /// The same, to change what is known of it.
    fn taken_mut(&mut self) -> &mut ManagedTasks;

    /// From now on `task` has the thresholds of `spec`.
    fn set_thresholds(&mut self, task: TaskId, spec: &TaskSpec) {
        self.taken_mut().specs[task.index()].set_thresholds(spec);
    }

    /// Whether `task` is parked.
    fn is_parked(&self, task: TaskId) -> bool {
        self.taken().of(task).is_parked()
    }

    /// Whether `task` was to be real-time and may not.
    fn stays_fair(&self, task: TaskId) -> bool {
        self.taken().of(task).stays_fair()
    }

    /// Whether `task` can be parked. Where not, it stays when it has no core, below everybody who has one.
    fn can_park(&self, task: TaskId) -> bool {
        self.taken().of(task).can_park()
    }

    /// Workers of `task` that tell what waits for them, and how many of those are parked;
    /// `None` where its threads are looked at instead.
    fn workers(&self, _task: TaskId) -> Option<(usize, usize)> {
        None
    }

    /// Whether nobody of `task` is left.
    fn is_over(&self, task: TaskId) -> bool {
        self.taken().of(task).is_over()
    }

    /// What tells how busy DRAM is.
    fn sensor(&self) -> &dyn Sensor {
        &*self.taken().sensor
    }

    /// Why cores are not shared out any more, if that is so: all tasks are the kernel's then.
    fn lost(&self) -> Option<String> {
        None
    }
}

/// How decisions are carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mechanism {
    /// By class and affinity: any program, any kernel.
    Affinity,
    /// By a scheduler of ours in the kernel.
    Scx,
    /// By affinity, and by asking the workers of programs on our runtime.
    Runtime,
}

impl Setup {
    /// Takes the tasks over at `now`, by `mechanism`.
    ///
    /// # Errors
    /// The mechanism cannot be had here; a task is not there or not ours to schedule. The others are put back.
    pub fn take(self, mechanism: Mechanism, now: Time) -> Result<Box<dyn Manager>, CoresError> {
        Ok(match mechanism {
            Mechanism::Affinity => Box::new(Affinity::new(self, now)?),
            Mechanism::Scx => Box::new(Scx::new(self, now)?),
            Mechanism::Runtime => Box::new(Runtime::new(self, now)?),
        })
    }
}
