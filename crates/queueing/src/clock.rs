//! The port through which a shell tells the time.
//!
//! Deciding code never holds a clock: it takes `now`. Only an application,
//! which really occupies a core, needs to read time and to use it up; on
//! Linux that is a spinning core, in the simulator a number.

use std::cell::Cell;

use crate::{Span, Time};

/// A source of time that an application may also spend.
pub trait Clock {
    /// The time now.
    fn now(&self) -> Time;

    /// Occupies the core for `span`: spins on Linux, advances virtual time in
    /// the simulator.
    fn compute(&self, span: Span);
}

/// A core's time that only computing moves: for simulators, tests, and where
/// reading a real clock would cost more than what is measured.
#[derive(Debug)]
pub struct VirtualClock(Cell<Time>);

impl VirtualClock {
    /// A clock at `now`.
    #[must_use]
    pub const fn new(now: Time) -> Self {
        Self(Cell::new(now))
    }
}

impl Clock for VirtualClock {
    fn now(&self) -> Time {
        self.0.get()
    }

    fn compute(&self, span: Span) {
        self.0.set(self.0.get() + span);
    }
}
