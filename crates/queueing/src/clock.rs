//! Port for reading time and spending it.
//!
//! For applications only, which occupy a core: a spinning core on Linux, a
//! number in the simulator. Code that decides holds no clock; it takes `now`.

use std::cell::Cell;

use crate::{Span, Time};

/// Source of time, in which work also takes time.
pub trait Clock {
    /// Current time.
    fn now(&self) -> Time;

    /// Occupies the core for `span`: spins on Linux, advances virtual time in
    /// the simulator.
    fn compute(&self, span: Span);
}

/// Clock that only [`Clock::compute`] advances: for simulators, tests, and
/// measurements that reading a real clock would distort.
#[derive(Debug)]
pub struct VirtualClock(Cell<Time>);

impl VirtualClock {
    /// Clock that reads `now`.
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
