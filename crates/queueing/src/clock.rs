//! The port through which a shell tells the time.
//!
//! Deciding code never holds a clock: it takes `now`. Only an application,
//! which really occupies a core, needs to read time and to use it up; on
//! Linux that is a spinning core, in the simulator a number.

use crate::{Span, Time};

/// A source of time that an application may also spend.
pub trait Clock {
    /// The time now.
    fn now(&self) -> Time;

    /// Occupies the core for `span`: spins on Linux, advances virtual time in
    /// the simulator.
    fn compute(&self, span: Span);
}
