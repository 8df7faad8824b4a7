//! What every mechanism can be asked beyond the port of policies.

use std::io;

use queueing::{Span, Time};
use sched::cores::{Cores, TaskId};

use super::journal::Restored;
use super::{Affinity, CoresError, Figures, Scx, Sensor, Setup, Taken};

/// Tasks of this machine, under one mechanism.
pub trait Manager: Cores {
    /// Its name: affinity, scx.
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
    fn taken(&self) -> &Taken;

    /// Whether `task` is parked.
    fn is_parked(&self, task: TaskId) -> bool {
        self.taken().of(task).is_parked()
    }

    /// Whether `task` can be parked. Where not, it stays when it has no core, below everybody who has one.
    fn can_park(&self, task: TaskId) -> bool {
        self.taken().of(task).can_park()
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

impl Setup {
    /// Takes the tasks over at `now`: by a scheduler in the kernel, or by affinity and class.
    ///
    /// # Errors
    /// The mechanism cannot be had here; a task is not there or not ours to schedule. The others are put back.
    pub fn take(self, is_scx: bool, now: Time) -> Result<Box<dyn Manager>, CoresError> {
        if is_scx { Ok(Box::new(Scx::new(self, now)?)) } else { Ok(Box::new(Affinity::new(self, now)?)) }
    }
}
