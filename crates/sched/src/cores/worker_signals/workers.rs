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
    boards: Vec<B>,
    /// Last signals of each worker.
    told: Vec<WorkerSignals>,
    shifts: ParkPolicy,
    /// Time of the last round, and length of the lease after it.
    now: Time,
    lease: Span,
}

impl<B: SignalMemory> Workers<B> {
    /// Empty set, with a round every `period`.
    #[must_use]
    pub fn new(period: Span) -> Self {
        let lease = LEASE_MIN.max(period * LEASE_PERIODS);
        Self { boards: Vec::new(), told: Vec::new(), shifts: ParkPolicy::new(0), now: Time::ZERO, lease }
    }

    /// Memory of each program.
    #[must_use]
    pub fn boards(&self) -> &[B] {
        &self.boards
    }

    /// Adds the workers of `board`.
    pub fn add(&mut self, board: B) {
        self.boards.push(board);
        self.begin();
    }

    /// Keeps the programs for which `is_there` is true.
    pub fn retain(&mut self, is_there: impl FnMut(&B) -> bool) {
        let before = self.boards.len();
        self.boards.retain(is_there);
        if self.boards.len() != before {
            self.begin();
        }
    }

    /// Number of workers.
    #[must_use]
    pub fn len(&self) -> usize {
        self.told.len()
    }

    /// True if there are no workers.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.told.is_empty()
    }

    /// Number of parked workers.
    #[must_use]
    pub fn parked(&self) -> usize {
        self.shifts.parked()
    }

    /// True if any worker runs: it is busy, has not yet acknowledged a park request, or has
    /// a long poll in another thread.
    #[must_use]
    pub fn goes_on(&self) -> bool {
        let lanes = self.boards.iter().flat_map(|board| board.page().lanes());
        let stays = |(n, lane): (usize, &WorkerSlot)| self.shifts.is_parked(n) && !lane.asked.is_done();
        self.shifts.busy() > 0
            || self.told.iter().any(|pulse| pulse.long > 0)
            || lanes.take(self.len()).enumerate().any(stays)
    }

    /// Reads the signals at `now` and extends the lease. A slot that cannot be read keeps its
    /// last signals.
    pub fn sense(&mut self, now: Time) -> TaskSignals {
        self.now = now;
        let (mut signals, until) = (TaskSignals::default(), now + self.lease);
        self.boards.iter().for_each(|board| board.page().lead(Some(until)));
        let lanes = self.boards.iter().flat_map(|board| board.page().lanes());
        for (told, lane) in self.told.iter_mut().zip(lanes) {
            *told = lane.read().unwrap_or(*told);
            told.add_to(now, &mut signals);
        }
        signals
    }

    /// Start of the longest request on `core` (Linux's number), as last published.
    #[must_use]
    pub fn request_since(&self, core: CoreId) -> Option<Time> {
        self.told.iter().filter(|pulse| pulse.core == Some(core)).filter_map(|pulse| pulse.request).min()
    }

    /// Lets as many workers run as there are `cores`, and parks the others with work.
    pub fn act(&mut self, cores: usize) {
        let (told, now) = (&self.told, self.now);
        self.shifts.round(now, cores, |n| told[n].wants(now));
        let mut first = 0;
        for board in &self.boards {
            let lanes = board.page().lanes().len().min(self.told.len() - first);
            for lane in 0..lanes {
                board.ask(lane, self.shifts.is_parked(first + lane));
            }
            first += lanes;
        }
    }

    /// Resets all state, and earlier schedulers' park requests.
    fn begin(&mut self) {
        let lanes = self.boards.iter().map(|board| board.page().lanes().len()).sum();
        self.told = vec![WorkerSignals::default(); lanes];
        self.shifts = ParkPolicy::new(lanes);
        let all =
            self.boards.iter().flat_map(|board| (0..board.page().lanes().len()).map(move |n| (board, n)));
        all.for_each(|(board, lane)| {
            board.ask(lane, false);
        });
    }
}

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
    fn asked(workers: &Workers<Local>) -> Vec<bool> {
        let lanes = workers.boards().iter().flat_map(|board| board.page().lanes());
        lanes.map(|lane| lane.asked.parked().is_some()).collect()
    }

    /// Two programs, with two workers and with one.
    fn three() -> Workers<Local> {
        let mut workers = Workers::new(Span::from_micros(50));
        [2, 1].into_iter().for_each(|lanes| workers.add(Local(SignalPage::new(lanes))));
        workers
    }

    fn tells(workers: &Workers<Local>, board: usize, lane: usize, pulse: WorkerSignals) {
        workers.boards()[board].page().lanes()[lane].publish(&pulse);
    }

    #[test]
    fn workers_of_several_programs_are_one_crowd() {
        let mut workers = three();
        let busy = |since| WorkerSignals { tasks: Some(since), ..WorkerSignals::default() };
        tells(&workers, 0, 1, busy(at(90)));
        tells(&workers, 1, 0, WorkerSignals { core: Some(CoreId(3)), request: Some(at(70)), ..busy(at(60)) });
        let TaskSignals { delay, runnable, .. } = workers.sense(at(100));
        assert_eq!((delay, runnable, workers.len()), (Span::from_micros(40), 2, 3));
        assert_eq!(
            (workers.request_since(CoreId(3)), workers.request_since(CoreId(1))),
            (Some(at(70)), None)
        );
        workers.act(1);
        assert_eq!((asked(&workers), workers.parked()), (vec![false, false, true], 1));
        assert!(workers.goes_on());
        workers.act(0);
        assert!(workers.goes_on(), "the worker has not left its core yet");
        assert_eq!((asked(&workers), workers.goes_on()), (vec![false, true, true], false));
        workers.retain(|board| board.page().lanes().len() == 2);
        assert_eq!((asked(&workers), workers.len()), (vec![false, false], 2), "all state is reset");
    }

    #[test]
    fn long_turns_go_on_when_all_workers_are_parked() {
        let mut workers = three();
        tells(&workers, 0, 0, WorkerSignals { tasks: Some(at(1)), long: 2, ..WorkerSignals::default() });
        assert_eq!(workers.sense(at(2)).runnable, 3);
        workers.act(0);
        assert_eq!(asked(&workers), [true, false, false]);
        assert_eq!((workers.parked(), workers.goes_on()), (1, true));
    }

    #[test]
    fn park_requests_expire_with_the_lease() {
        let mut workers = three();
        workers.sense(at(0));
        let led = |workers: &Workers<Local>, at| workers.boards().iter().all(|board| board.page().is_led(at));
        assert!(led(&workers, at(100_000)) && !led(&workers, at(100_001)));
        let mut slow = Workers::new(Span::from_millis(500));
        slow.add(Local(SignalPage::new(1)));
        slow.sense(at(0));
        assert!(led(&slow, at(4_000_000)), "a lease of 8 periods");
    }

    #[test]
    fn release_ends_the_lease_and_all_park_requests() {
        let mut workers = three();
        tells(&workers, 1, 0, WorkerSignals { tasks: Some(at(1)), ..WorkerSignals::default() });
        workers.sense(at(2));
        workers.act(0);
        let board = workers.boards.remove(1);
        assert!(board.page().lanes()[0].asked.parked().is_some());
        board.release();
        assert!(board.page().lanes()[0].asked.parked().is_none() && !board.page().is_led(at(2)));
    }
}
