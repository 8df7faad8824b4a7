//! Models of whole systems in virtual time, built from the production code.

pub mod cores;
pub mod egress;
pub mod overload;
pub mod overloaded_stack;
pub mod platform;
pub mod server;
pub mod services;
pub mod web;

use queueing::Time;

use crate::Engine;

/// Timer that can be rearmed to an earlier time.
///
/// Events cannot be cancelled; the alarm remembers the valid one.
#[derive(Clone, Copy, Debug)]
struct Alarm {
    armed: Time,
}

impl Alarm {
    const fn new() -> Self {
        Self { armed: Time::MAX }
    }

    /// Schedules `event` at `at`, unless the alarm expires earlier.
    fn arm<E>(&mut self, engine: &mut Engine<E>, at: Time, event: E) {
        if at < self.armed {
            self.armed = at;
            engine.schedule(at, event);
        }
    }

    /// True if the event at `now` is the valid one.
    fn is_due(&mut self, now: Time) -> bool {
        let is_due = self.armed == now;
        if is_due {
            self.armed = Time::MAX;
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_alarm_fires_once_at_its_earliest_time() {
        let mut engine = Engine::new();
        let mut alarm = Alarm::new();
        for ns in [30, 10, 20] {
            alarm.arm(&mut engine, Time::from_nanos(ns), ());
        }
        let fired: Vec<_> =
            std::iter::from_fn(|| engine.next()).filter(|&(now, ())| alarm.is_due(now)).collect();
        assert_eq!(fired, [(Time::from_nanos(10), ())]);
    }
}
