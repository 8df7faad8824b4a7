//! What every mechanism can be asked beyond the port of policies.

use std::io;

use sched::cores::{Cores, TaskId};

use super::journal::Restored;
use super::{Figures, Sensor};
use queueing::Span;

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

    /// Whether `task` is parked.
    fn is_parked(&self, task: TaskId) -> bool;

    /// Whether `task` can be parked.
    fn can_park(&self, task: TaskId) -> bool;

    /// Whether nobody of `task` is left.
    fn is_over(&self, task: TaskId) -> bool;

    /// What tells how busy DRAM is.
    fn sensor(&self) -> &dyn Sensor;

    /// Why cores are not shared out any more, if that is so: all tasks are the kernel's then.
    fn lost(&self) -> Option<String> {
        None
    }
}
