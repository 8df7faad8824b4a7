//! Workers and their cores.

use std::sync::Arc;

use queueing::{Clock, Span, Time, VirtualClock};
use runtime::shard::Job;
use sched::dispatch::WorkerId;

use super::{Application, Event, WorkerPlacement};
use crate::CostModel;
use crate::world::cores::{Preemptive, WorkCompletion};

/// Workers on any kind of cores.
pub struct SimWorkers {
    cores: CoreKind,
    /// Current job of each of the shard's workers, and the time of its assignment.
    jobs: Vec<Option<(Job, Time)>>,
    cost: CostModel,
    app: Arc<Application>,
}

enum CoreKind {
    Own(Vec<Own>),
    Shared { busy: Span },
    Preemptive(Box<Preemptive>),
}

#[derive(Clone, Copy, Debug, Default)]
struct Own {
    free_at: Time,
    busy: Span,
}

/// Event to schedule, and its time.
pub type ScheduledEvent = Option<(Time, Event)>;

impl SimWorkers {
    /// `workers` idle cores of kind `cores`; the shard assigns jobs to `slots` workers.
    pub fn new(
        cores: WorkerPlacement,
        workers: usize,
        slots: usize,
        cost: CostModel,
        app: Arc<Application>,
    ) -> Self {
        let cores = match cores {
            WorkerPlacement::Own => CoreKind::Own(vec![Own::default(); workers]),
            WorkerPlacement::Shared => CoreKind::Shared { busy: Span::ZERO },
            WorkerPlacement::Preemptive => CoreKind::Preemptive(Box::new(Preemptive::new(workers))),
        };
        Self { cores, jobs: std::iter::repeat_with(|| None).take(slots).collect(), cost, app }
    }

    /// Starts `job`, which the shard assigned at `now` and whose event the stack's core has
    /// handed over at `handed_over`. Returns the time at which that core continues, and the
    /// event to schedule.
    pub fn start(&mut self, now: Time, handed_over: Time, mut job: Job) -> (Time, ScheduledEvent) {
        let (id, priority) = (job.worker.0, job.label.priority);
        let slot = usize::from(id);
        let dispatch = self.cost.dispatch();
        match &mut self.cores {
            CoreKind::Own(cores) => {
                let core = &mut cores[slot];
                let begin = handed_over.max(core.free_at);
                let end = serve(&self.app, &mut job, now, begin + dispatch);
                core.free_at = end;
                core.busy += end.since(begin);
                self.jobs[slot] = Some((job, now));
                (handed_over, Some((end, Event::Done(id))))
            }
            CoreKind::Shared { busy } => {
                let end = serve(&self.app, &mut job, now, handed_over + dispatch);
                *busy += end.since(handed_over);
                self.jobs[slot] = Some((job, now));
                (end, Some((end, Event::Done(id))))
            }
            CoreKind::Preemptive(cores) => {
                self.jobs[slot] = Some((job, now));
                let mut cost_of = cost_of(&self.app, &mut self.jobs);
                (handed_over, scheduled(cores.arrive(now, id, priority, &mut cost_of)))
            }
        }
    }

    /// Charges a fruitless poll of `worker`, handed over at `at`; returns the time at which the
    /// stack's core continues.
    pub fn charge_poll(&mut self, worker: WorkerId, at: Time) -> Time {
        let event = self.cost.event();
        match &mut self.cores {
            CoreKind::Own(cores) => {
                let core = &mut cores[usize::from(worker.0)];
                core.free_at = core.free_at.max(at) + event;
                core.busy += event;
                at
            }
            CoreKind::Shared { busy } => {
                *busy += event;
                at + event
            }
            CoreKind::Preemptive(_) => at,
        }
    }

    /// Takes the completed job of `worker`.
    pub fn done(&mut self, worker: u8) -> Job {
        self.jobs[usize::from(worker)].take().expect("the worker has a job").0
    }

    /// Completes `completion`: the served job and the next event of its core. `None` if the job was
    /// preempted.
    pub fn end(&mut self, completion: WorkCompletion) -> Option<(Job, ScheduledEvent)> {
        let CoreKind::Preemptive(cores) = &mut self.cores else { return None };
        let (worker, next) = cores.end(completion, &mut cost_of(&self.app, &mut self.jobs))?;
        Some((self.done(worker), scheduled(next)))
    }

    /// Busy time per core.
    pub fn busy(&self) -> Vec<Span> {
        match &self.cores {
            CoreKind::Own(cores) => cores.iter().map(|core| core.busy).collect(),
            CoreKind::Shared { busy } => vec![*busy],
            CoreKind::Preemptive(cores) => cores.busy().collect(),
        }
    }
}

fn scheduled(completion: Option<WorkCompletion>) -> ScheduledEvent {
    completion.map(|completion| (completion.at, Event::Completion(completion)))
}

/// Cost of a job on a preemptive core: the job is served when it first runs.
fn cost_of<'a>(
    app: &'a Application,
    jobs: &'a mut [Option<(Job, Time)>],
) -> impl FnMut(u8, Time) -> Span + use<'a> {
    move |worker, begin| {
        let (job, assigned_at) = jobs[usize::from(worker)].as_mut().expect("the job was assigned");
        serve(app, job, *assigned_at, begin).since(begin)
    }
}

/// Serves `job`, assigned at `assigned_at`, from `begin` on; returns the end of service. The time
/// from `assigned_at` to `begin` counts as waiting for a worker.
fn serve(app: &Application, job: &mut Job, assigned_at: Time, begin: Time) -> Time {
    job.stages.event += begin.since(assigned_at);
    let clock = VirtualClock::new(begin);
    job.serve(app, &clock);
    clock.now()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn computing_takes_virtual_time() {
        let clock = VirtualClock::new(Time::from_nanos(5));
        clock.compute(Span::from_micros(1));
        assert_eq!(clock.now(), Time::from_nanos(1005));
    }
}
