//! Park policy: which of a program's workers leave their cores.
//!
//! An idle worker is not parked: it sleeps, costs no core, and wakes up sooner than a
//! parked one. At most as many workers with work run as there are cores; those that
//! got work last are parked. **No starvation**: while a worker is parked, one that has
//! run for [`SLICE`] swaps with it, one pair per round, longest parked first.

use queueing::{Span, Time};

/// Time slice of a worker while others are parked. 2 ms: the slice of
/// [`Settings`](crate::cores::Settings).
pub const SLICE: Span = Span::from_millis(2);

/// State of each worker: idle, busy or parked.
#[derive(Clone, Debug)]
pub struct ParkPolicy {
    workers: Vec<WorkerState>,
}

/// State of one worker.
#[derive(Clone, Copy, Debug)]
struct WorkerState {
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
        Self { workers: vec![WorkerState { state: State::Idle, since: Time::ZERO }; workers] }
    }

    /// True if worker `n` is parked.
    #[must_use]
    pub fn is_parked(&self, n: usize) -> bool {
        self.workers[n].state == State::Parked
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
        for (n, worker) in self.workers.iter_mut().enumerate() {
            match (worker.state, has_work(n)) {
                (State::Idle, true) => *worker = WorkerState { state: State::Busy, since: now },
                (State::Busy | State::Parked, false) => {
                    *worker = WorkerState { state: State::Idle, since: now }
                }
                (State::Idle, false) | (State::Busy | State::Parked, true) => {}
            }
        }
        while self.busy() > cores {
            let latest = (0..self.workers.len()).filter(|&n| self.workers[n].state == State::Busy);
            self.move_to(now, latest.max_by_key(|&n| self.workers[n].since), State::Parked);
        }
        while self.busy() < cores && self.parked() > 0 {
            self.move_to(now, self.longest(State::Parked), State::Busy);
        }
        let expired = |n: &usize| now.since(self.workers[*n].since) >= SLICE;
        let (running, parked) = (self.longest(State::Busy).filter(expired), self.longest(State::Parked));
        if running.is_some() && parked.is_some() {
            self.move_to(now, running, State::Parked);
            self.move_to(now, parked, State::Busy);
        }
    }

    fn count(&self, state: State) -> usize {
        self.workers.iter().filter(|worker| worker.state == state).count()
    }

    /// Worker that has been in `state` longest; the first of equals.
    fn longest(&self, state: State) -> Option<usize> {
        let candidates = (0..self.workers.len()).filter(|&n| self.workers[n].state == state);
        candidates.min_by_key(|&n| self.workers[n].since)
    }

    fn move_to(&mut self, now: Time, worker: Option<usize>, state: State) {
        if let Some(n) = worker {
            self.workers[n] = WorkerState { state, since: now };
        }
    }
}

//~ sched: workers of the runtime are parked and resumed by their signals; none is parked for good
#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(us: u64) -> Time {
        Time::from_nanos(us * 1000)
    }

    /// States as text: busy `!`, parked `p`, idle `.`.
    fn text(policy: &ParkPolicy) -> String {
        let symbol = |worker: &WorkerState| match worker.state {
            State::Idle => '.',
            State::Busy => '!',
            State::Parked => 'p',
        };
        policy.workers.iter().map(symbol).collect()
    }

    #[test]
    fn the_latest_is_parked_and_idle_workers_are_not() {
        let mut policy = ParkPolicy::new(3);
        let mut check = |us: u64, cores: usize, work: [bool; 3], expected: &str| {
            policy.round(at(us), cores, |n| work[n]);
            assert_eq!(text(&policy), expected, "at {us} µs");
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
        let mut policy = ParkPolicy::new(3);
        let mut check = |us: u64, expected: &str| {
            policy.round(at(us), 1, |_| true);
            assert_eq!(text(&policy), expected, "at {us} µs");
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
        fn running_workers_equal_the_cores_and_none_starves(
            rounds in proptest::collection::vec((proptest::array::uniform4(any::<bool>()), 0usize..5), 1..200),
        ) {
            let (mut policy, step) = (ParkPolicy::new(4), Span::from_micros(50));
            for (nth, (work, cores)) in rounds.into_iter().enumerate() {
                policy.round(Time::ZERO + step * nth as u64, cores, |n| work[n]);
                let wanted = work.iter().filter(|has| **has).count();
                prop_assert_eq!(policy.busy(), wanted.min(cores));
                prop_assert_eq!(policy.busy() + policy.parked(), wanted);
                prop_assert!((0..4).all(|n| work[n] || !policy.is_parked(n)), "a worker without work is parked");
            }
            // From now on all have work, and one core.
            let end = Time::ZERO + Span::from_secs(1);
            let mut ran = [false; 4];
            for nth in 0..=(SLICE * 4).as_nanos() / step.as_nanos() {
                policy.round(end + step * nth, 1, |_| true);
                (0..4).for_each(|n| ran[n] |= !policy.is_parked(n));
            }
            prop_assert_eq!(ran, [true; 4]);
        }
    }
}
