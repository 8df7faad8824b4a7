//! Scheduler's side of a task's workers: reads their signals, requests parking.
//!
//! A task may consist of several programs on this runtime, each with its own page; their
//! workers count as one set. Pure: [`SignalMemory`] wakes, and `now` is an argument.

use queueing::{CoreId, Span, Time};

use super::{ParkPolicy, SignalMemory, WorkerSignals, WorkerSlot};
use crate::cores::TaskSignals;

/// Lease on park requests after a round: the larger of this and [`LEASE_PERIODS`]
/// periods, so that a late scheduler does not count as dead.
const LEASE_MIN: Span = Span::from_millis(100);
const LEASE_PERIODS: u64 = 8;

/// Workers of one task.
pub struct Workers<B> {
    programs: Vec<B>,
    /// Last signals of each worker.
    signals: Vec<WorkerSignals>,
    policy: ParkPolicy,
    /// Time of the last round, and length of the lease after it.
    now: Time,
    lease: Span,
}

impl<B: SignalMemory> Workers<B> {
    /// Empty set, with a round every `period`.
    #[must_use]
    pub fn new(period: Span) -> Self {
        let lease = LEASE_MIN.max(period * LEASE_PERIODS);
        Self { programs: Vec::new(), signals: Vec::new(), policy: ParkPolicy::new(0), now: Time::ZERO, lease }
    }

    /// Memory of each program.
    #[must_use]
    pub fn programs(&self) -> &[B] {
        &self.programs
    }

    /// Adds the workers of `program`.
    pub fn add(&mut self, program: B) {
        self.programs.push(program);
        self.reset();
    }

    /// Keeps the programs for which `is_alive` is true.
    pub fn retain(&mut self, is_alive: impl FnMut(&B) -> bool) {
        let before = self.programs.len();
        self.programs.retain(is_alive);
        if self.programs.len() != before {
            self.reset();
        }
    }

    /// Number of workers.
    #[must_use]
    pub fn len(&self) -> usize {
        self.signals.len()
    }

    /// True if there are no workers.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.signals.is_empty()
    }

    /// Number of parked workers.
    #[must_use]
    pub fn parked(&self) -> usize {
        self.policy.parked()
    }

    /// True if any worker runs: it is busy, has not yet acknowledged a park request, or has
    /// a long poll in another thread.
    #[must_use]
    pub fn is_running(&self) -> bool {
        let slots = self.programs.iter().flat_map(|program| program.page().slots());
        let is_leaving = |(n, slot): (usize, &WorkerSlot)| self.policy.is_parked(n) && !slot.park.is_done();
        self.policy.busy() > 0
            || self.signals.iter().any(|signals| signals.long > 0)
            || slots.take(self.len()).enumerate().any(is_leaving)
    }

    /// Reads the signals at `now` and extends the lease. A slot that cannot be read keeps its
    /// last signals.
    pub fn sense(&mut self, now: Time) -> TaskSignals {
        self.now = now;
        let (mut signals, until) = (TaskSignals::default(), now + self.lease);
        self.programs.iter().for_each(|program| program.page().set_lease(Some(until)));
        let slots = self.programs.iter().flat_map(|program| program.page().slots());
        for (last, slot) in self.signals.iter_mut().zip(slots) {
            *last = slot.read().unwrap_or(*last);
            last.add_to(now, &mut signals);
        }
        signals
    }

    /// Start of the longest request on `core` (Linux's number), as last published.
    #[must_use]
    pub fn request_since(&self, core: CoreId) -> Option<Time> {
        self.signals
            .iter()
            .filter(|signals| signals.core == Some(core))
            .filter_map(|signals| signals.request)
            .min()
    }

    /// Lets as many workers run as there are `cores`, and parks the others with work.
    pub fn act(&mut self, cores: usize) {
        let (signals, now) = (&self.signals, self.now);
        self.policy.round(now, cores, |n| signals[n].needs_core(now));
        let mut first = 0;
        for program in &self.programs {
            let slots = program.page().slots().len().min(self.signals.len() - first);
            for slot in 0..slots {
                program.request_park(slot, self.policy.is_parked(first + slot));
            }
            first += slots;
        }
    }

    /// Resets all state, and earlier schedulers' park requests.
    fn reset(&mut self) {
        let slots = self.programs.iter().map(|program| program.page().slots().len()).sum();
        self.signals = vec![WorkerSignals::default(); slots];
        self.policy = ParkPolicy::new(slots);
        let all = self
            .programs
            .iter()
            .flat_map(|program| (0..program.page().slots().len()).map(move |n| (program, n)));
        all.for_each(|(program, slot)| {
            program.request_park(slot, false);
        });
    }
}

//~ sched: workers of the runtime are parked and resumed by their signals; none is parked for good
#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU32;
    use std::time::Duration;

    use super::super::SignalPage;
    use super::*;

    /// Memory without sleepers.
    struct Local(SignalPage);

    impl SignalMemory for Local {
        fn page(&self) -> &SignalPage {
            &self.0
        }
        fn wait(&self, _: &AtomicU32, _: u32, _: Duration) {}
        fn wake(&self, _: &AtomicU32) {}
    }

    fn at(us: u64) -> Time {
        Time::from_nanos(us * 1000)
    }

    /// True for each worker that is asked to park.
    fn park_requests(workers: &Workers<Local>) -> Vec<bool> {
        let slots = workers.programs().iter().flat_map(|program| program.page().slots());
        slots.map(|slot| slot.park.acknowledge().is_some()).collect()
    }

    /// Two programs, with two workers and with one.
    fn three() -> Workers<Local> {
        let mut workers = Workers::new(Span::from_micros(50));
        [2, 1].into_iter().for_each(|slots| workers.add(Local(SignalPage::new(slots))));
        workers
    }

    fn publish(workers: &Workers<Local>, program: usize, slot: usize, signals: WorkerSignals) {
        workers.programs()[program].page().slots()[slot].publish(&signals);
    }

    #[test]
    fn workers_of_several_programs_are_scheduled_together() {
        let mut workers = three();
        let busy = |since| WorkerSignals { tasks: Some(since), ..WorkerSignals::default() };
        publish(&workers, 0, 1, busy(at(90)));
        publish(
            &workers,
            1,
            0,
            WorkerSignals { core: Some(CoreId(3)), request: Some(at(70)), ..busy(at(60)) },
        );
        let TaskSignals { delay, runnable, .. } = workers.sense(at(100));
        assert_eq!((delay, runnable, workers.len()), (Span::from_micros(40), 2, 3));
        assert_eq!(
            (workers.request_since(CoreId(3)), workers.request_since(CoreId(1))),
            (Some(at(70)), None)
        );
        workers.act(1);
        assert_eq!((park_requests(&workers), workers.parked()), (vec![false, false, true], 1));
        assert!(workers.is_running());
        workers.act(0);
        assert!(workers.is_running(), "the worker has not left its core yet");
        assert_eq!((park_requests(&workers), workers.is_running()), (vec![false, true, true], false));
        workers.retain(|program| program.page().slots().len() == 2);
        assert_eq!((park_requests(&workers), workers.len()), (vec![false, false], 2), "all state is reset");
    }

    #[test]
    fn long_turns_continue_when_all_workers_are_parked() {
        let mut workers = three();
        publish(&workers, 0, 0, WorkerSignals { tasks: Some(at(1)), long: 2, ..WorkerSignals::default() });
        assert_eq!(workers.sense(at(2)).runnable, 3);
        workers.act(0);
        assert_eq!(park_requests(&workers), [true, false, false]);
        assert_eq!((workers.parked(), workers.is_running()), (1, true));
    }

    #[test]
    fn park_requests_expire_with_the_lease() {
        let mut workers = three();
        workers.sense(at(0));
        let leased = |workers: &Workers<Local>, at| {
            workers.programs().iter().all(|program| program.page().is_leased(at))
        };
        assert!(leased(&workers, at(100_000)) && !leased(&workers, at(100_001)));
        let mut slow = Workers::new(Span::from_millis(500));
        slow.add(Local(SignalPage::new(1)));
        slow.sense(at(0));
        assert!(leased(&slow, at(4_000_000)), "a lease of 8 periods");
    }

    #[test]
    fn release_ends_the_lease_and_all_park_requests() {
        let mut workers = three();
        publish(&workers, 1, 0, WorkerSignals { tasks: Some(at(1)), ..WorkerSignals::default() });
        workers.sense(at(2));
        workers.act(0);
        let program = workers.programs.remove(1);
        assert!(program.page().slots()[0].park.acknowledge().is_some());
        program.release();
        assert!(program.page().slots()[0].park.acknowledge().is_none() && !program.page().is_leased(at(2)));
    }
}
