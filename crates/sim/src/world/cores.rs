//! Cores with preemptive priority scheduling.
//!
//! The ideal that experiments compare with. A more urgent job preempts the least urgent running
//! one immediately and without cost; the preempted job resumes later, ahead of the others of
//! its level. No real dispatcher can do this for requests of a microsecond. Jobs are opaque
//! tokens; their cost is determined when they first run.

use std::collections::VecDeque;

use queueing::{Priority, Span, Time};

/// Cost of the job `token` that first runs at the given time.
pub type WorkCost<'a> = &'a mut dyn FnMut(u8, Time) -> Span;

/// Scheduled completion on a core; stale if the core's generation has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkCompletion {
    /// Index of the core.
    pub core: u8,
    /// Generation: number of jobs started on the core.
    pub generation: u32,
    /// Time of completion.
    pub at: Time,
}

/// Cores under preemptive priority.
#[derive(Debug)]
pub struct Preemptive {
    cores: Vec<Core>,
    ready: [VecDeque<Work>; Priority::LEVELS],
}

#[derive(Clone, Copy, Debug)]
struct Work {
    token: u8,
    priority: Priority,
    /// `None` until the first run.
    remaining: Option<Span>,
}

#[derive(Debug, Default)]
struct Core {
    running: Option<(Work, Time)>,
    generation: u32,
    busy: Span,
}

impl Preemptive {
    /// Creates `n` idle cores, n ≤ 256.
    #[must_use]
    pub fn new(n: usize) -> Self {
        Self { cores: (0..n).map(|_| Core::default()).collect(), ready: Default::default() }
    }

    /// Adds the job `token`; returns its scheduled completion if it started at once.
    #[must_use]
    pub fn arrive(
        &mut self,
        now: Time,
        token: u8,
        priority: Priority,
        cost_of: WorkCost<'_>,
    ) -> Option<WorkCompletion> {
        let work = Work { token, priority, remaining: None };
        let Some(core) = self.victim(priority) else {
            self.ready[priority.index()].push_back(work);
            return None;
        };
        if let Some((mut evicted, since)) = self.cores[core].running.take() {
            let ran = now.since(since);
            self.cores[core].busy += ran;
            evicted.remaining = evicted.remaining.map(|left| left - ran);
            self.ready[evicted.priority.index()].push_front(evicted);
        }
        Some(self.run(now, core, work, cost_of))
    }

    /// Completes `completion`: the finished job and the completion of the next one on its core.
    /// `None` if the job was preempted.
    #[must_use]
    pub fn end(
        &mut self,
        completion: WorkCompletion,
        cost_of: WorkCost<'_>,
    ) -> Option<(u8, Option<WorkCompletion>)> {
        let core = &mut self.cores[completion.core as usize];
        if core.generation != completion.generation {
            return None;
        }
        let (done, since) = core.running.take()?;
        core.busy += completion.at.since(since);
        let next = self.ready.iter_mut().find_map(VecDeque::pop_front);
        let next = next.map(|work| self.run(completion.at, completion.core as usize, work, cost_of));
        Some((done.token, next))
    }

    /// Busy time per core.
    pub fn busy(&self) -> impl Iterator<Item = Span> + '_ {
        self.cores.iter().map(|core| core.busy)
    }

    /// Core to run `priority` on: an idle one, or the one with the least urgent job if less
    /// urgent than `priority`.
    fn victim(&self, priority: Priority) -> Option<usize> {
        if let Some(idle) = self.cores.iter().position(|core| core.running.is_none()) {
            return Some(idle);
        }
        let running = |core: usize| self.cores[core].running.expect("none is idle").0.priority;
        (0..self.cores.len()).max_by_key(|&core| running(core)).filter(|&core| running(core) > priority)
    }

    fn run(&mut self, now: Time, core: usize, mut work: Work, cost_of: WorkCost<'_>) -> WorkCompletion {
        let left = *work.remaining.get_or_insert_with(|| cost_of(work.token, now));
        let generation = self.cores[core].generation.wrapping_add(1);
        self.cores[core].generation = generation;
        self.cores[core].running = Some((work, now));
        WorkCompletion { core: core as u8, generation, at: now + left }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOW: Priority = Priority::LOWEST;
    const HIGH: Priority = Priority::HIGHEST;

    fn at(ns: u64) -> Time {
        Time::from_nanos(ns)
    }

    /// Runs `arrivals` (at, token, priority) whose work takes `cost` each and returns (end,
    /// token).
    fn check(cores: usize, cost: &[u64], arrivals: &[(u64, u8, Priority)]) -> Vec<(u64, u8)> {
        let mut cost_of = |token: u8, _| Span::from_nanos(cost[token as usize]);
        let mut cores = Preemptive::new(cores);
        let mut engine = crate::Engine::new();
        arrivals.iter().for_each(|&(t, ..)| engine.schedule(at(t), None));
        let mut arrivals = arrivals.iter();
        let mut ended = Vec::new();
        while let Some((now, event)) = engine.next() {
            let next = match event {
                None => {
                    let &(_, token, priority) = arrivals.next().unwrap();
                    cores.arrive(now, token, priority, &mut cost_of)
                }
                Some(completion) => cores.end(completion, &mut cost_of).and_then(|(token, next)| {
                    ended.push((now.as_nanos(), token));
                    next
                }),
            };
            if let Some(completion) = next {
                engine.schedule(completion.at, Some(completion));
            }
        }
        assert_eq!(cores.busy().map(Span::as_nanos).sum::<u64>(), cost.iter().sum(), "work is conserved");
        ended
    }

    #[test]
    fn urgent_work_preempts_and_the_preempted_work_resumes() {
        assert_eq!(check(1, &[100, 10], &[(0, 0, LOW), (40, 1, HIGH)]), [(50, 1), (110, 0)]);
    }

    #[test]
    fn equal_priority_does_not_preempt() {
        assert_eq!(check(1, &[100, 10], &[(0, 0, LOW), (40, 1, LOW)]), [(100, 0), (110, 1)]);
    }

    #[test]
    fn preempted_work_resumes_before_its_level() {
        let arrivals = [(0, 0, LOW), (10, 1, LOW), (20, 2, HIGH)];
        assert_eq!(check(1, &[100, 5, 30], &arrivals), [(50, 2), (130, 0), (135, 1)]);
    }

    #[test]
    fn the_core_with_the_least_urgent_work_is_preempted() {
        let middle = Priority::new(3).unwrap();
        let arrivals = [(0, 0, middle), (0, 1, LOW), (10, 2, HIGH)];
        assert_eq!(check(2, &[100, 100, 10], &arrivals), [(20, 2), (100, 0), (110, 1)]);
    }
}
