//! Park policy: which of a program's workers leave their cores.
//!
//! An idle worker is not parked: it sleeps, costs no core, and wakes up sooner than a
//! parked one. As many workers with work run as there are cores; the latest are
//! parked. **No starvation**: while a worker is parked, one that has run for [`TURN`]
//! swaps with it, one pair per round, longest parked first.

use queueing::{Span, Time};

/// Time slice of a worker while others are parked. 2 ms: the slice of
/// [`Settings`](crate::cores::Settings).
pub const TURN: Span = Span::from_millis(2);

/// State of each worker: idle, busy or parked.
#[derive(Clone, Debug)]
pub struct ParkPolicy {
    places: Vec<Place>,
}

/// State of one worker.
#[derive(Clone, Copy, Debug)]
struct Place {
    state: State,
    since: Time,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Idle,
    Busy,
    Parked,
}

impl ParkPolicy {
    /// Policy for `workers` idle workers.
    #[must_use]
    pub fn new(workers: usize) -> Self {
        Self { places: vec![Place { state: State::Idle, since: Time::ZERO }; workers] }
    }

    /// True if worker `n` is parked.
    #[must_use]
    pub fn is_parked(&self, n: usize) -> bool {
        self.places[n].state == State::Parked
    }

    /// Workers that run with work, as of the last round.
    #[must_use]
    pub fn busy(&self) -> usize {
        self.count(State::Busy)
    }

    /// Parked workers.
    #[must_use]
    pub fn parked(&self) -> usize {
        self.count(State::Parked)
    }

    /// Runs one round; `has_work(n)` is true if worker `n` has work, and `cores` is the
    /// number of cores for these workers.
    pub fn round(&mut self, now: Time, cores: usize, has_work: impl Fn(usize) -> bool) {
        for (n, place) in self.places.iter_mut().enumerate() {
            match (place.state, has_work(n)) {
                (State::Idle, true) => *place = Place { state: State::Busy, since: now },
                (State::Busy | State::Parked, false) => *place = Place { state: State::Idle, since: now },
                (State::Idle, false) | (State::Busy | State::Parked, true) => {}
            }
        }
        while self.busy() > cores {
            let latest = (0..self.places.len()).filter(|&n| self.places[n].state == State::Busy);
            self.move_to(now, latest.max_by_key(|&n| self.places[n].since), State::Parked);
        }
        while self.busy() < cores && self.parked() > 0 {
            self.move_to(now, self.longest(State::Parked), State::Busy);
        }
        let rested = |n: &usize| now.since(self.places[*n].since) >= TURN;
        let (on, off) = (self.longest(State::Busy).filter(rested), self.longest(State::Parked));
        if on.is_some() && off.is_some() {
            self.move_to(now, on, State::Parked);
            self.move_to(now, off, State::Busy);
        }
    }

    fn count(&self, state: State) -> usize {
        self.places.iter().filter(|place| place.state == state).count()
    }

    /// Worker that has been in `state` longest; the first of equals.
    fn longest(&self, state: State) -> Option<usize> {
        let those = (0..self.places.len()).filter(|&n| self.places[n].state == state);
        those.min_by_key(|&n| self.places[n].since)
    }

    fn move_to(&mut self, now: Time, who: Option<usize>, state: State) {
        if let Some(n) = who {
            self.places[n] = Place { state, since: now };
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(us: u64) -> Time {
        Time::from_nanos(us * 1000)
    }

    /// States as text: busy `!`, parked `p`, idle `.`.
    fn text(shifts: &ParkPolicy) -> String {
        let letter = |place: &Place| match place.state {
            State::Idle => '.',
            State::Busy => '!',
            State::Parked => 'p',
        };
        shifts.places.iter().map(letter).collect()
    }

    #[test]
    fn the_latest_is_parked_and_idle_workers_are_not() {
        let mut shifts = ParkPolicy::new(3);
        let mut check = |us: u64, cores: usize, work: [bool; 3], expected: &str| {
            shifts.round(at(us), cores, |n| work[n]);
            assert_eq!(text(&shifts), expected, "at {us} µs");
        };
        check(0, 1, [false, false, false], "...");
        check(50, 1, [false, true, false], ".!.");
        check(100, 1, [true, true, false], "p!.");
        check(150, 2, [true, true, false], "!!.");
        check(200, 1, [true, true, true], "p!p");
        check(250, 1, [true, false, true], "!.p");
        check(300, 0, [true, false, true], "p.p");
        check(350, 0, [false, false, true], "..p");
    }

    #[test]
    fn after_a_slice_the_longest_parked_runs() {
        let mut shifts = ParkPolicy::new(3);
        let mut check = |us: u64, expected: &str| {
            shifts.round(at(us), 1, |_| true);
            assert_eq!(text(&shifts), expected, "at {us} µs");
        };
        check(0, "!pp");
        check(1999, "!pp");
        check(2000, "p!p");
        check(4000, "pp!");
        check(6000, "!pp");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn no_more_go_on_than_there_are_cores_none_is_left_unused_and_nobody_starves(
            rounds in proptest::collection::vec((proptest::array::uniform4(any::<bool>()), 0usize..5), 1..200),
        ) {
            let (mut shifts, step) = (ParkPolicy::new(4), Span::from_micros(50));
            for (nth, (work, cores)) in rounds.into_iter().enumerate() {
                shifts.round(Time::ZERO + step * nth as u64, cores, |n| work[n]);
                let wanted = work.iter().filter(|has| **has).count();
                prop_assert_eq!(shifts.busy(), wanted.min(cores));
                prop_assert_eq!(shifts.busy() + shifts.parked(), wanted);
                prop_assert!((0..4).all(|n| work[n] || !shifts.is_parked(n)), "a worker without work is parked");
            }
            // From now on all have work, and one core.
            let end = Time::ZERO + Span::from_secs(1);
            let mut went_on = [false; 4];
            for nth in 0..=(TURN * 4).as_nanos() / step.as_nanos() {
                shifts.round(end + step * nth, 1, |_| true);
                (0..4).for_each(|n| went_on[n] |= !shifts.is_parked(n));
            }
            prop_assert_eq!(went_on, [true; 4]);
        }
    }
}
