//! Whole machines in virtual time, running the real code.

pub mod cores;
pub mod overload;
pub mod overloaded_stack;
pub mod platform;
pub mod server;
pub mod services;
pub mod web;

use queueing::Time;

use crate::Engine;

/// A sleeper that can be woken earlier than it had planned.
///
/// Events cannot be taken back; this one remembers which still counts.
#[derive(Clone, Copy, Debug)]
struct Alarm {
    armed: Time,
}

impl Alarm {
    const fn new() -> Self {
        Self { armed: Time::MAX }
    }

    /// Lets `event` happen at `at`, unless the alarm rings before that anyway.
    fn arm<E>(&mut self, engine: &mut Engine<E>, at: Time, event: E) {
        if at < self.armed {
            self.armed = at;
            engine.schedule(at, event);
        }
    }

    /// Whether the event that happens `now` is the one that counts.
    fn rings(&mut self, now: Time) -> bool {
        let rings = self.armed == now;
        if rings {
            self.armed = Time::MAX;
        }
        rings
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_alarm_rings_once_at_its_earliest_time() {
        let mut engine = Engine::new();
        let mut alarm = Alarm::new();
        for ns in [30, 10, 20] {
            alarm.arm(&mut engine, Time::from_nanos(ns), ());
        }
        let rung: Vec<_> =
            std::iter::from_fn(|| engine.next()).filter(|&(now, ())| alarm.rings(now)).collect();
        assert_eq!(rung, [(Time::from_nanos(10), ())]);
    }
}
