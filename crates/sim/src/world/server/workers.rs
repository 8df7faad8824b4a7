//! The cores that serve jobs.

use std::sync::Arc;

use queueing::{Clock, Span, Time, VirtualClock};
use runtime::shard::Job;
use sched::dispatch::WorkerId;

use super::{Application, Cores, Event};
use crate::CostModel;
use crate::world::cores::{Preemptive, WorkCompletion};

/// Workers, whatever cores they run on.
pub struct Workers {
    cores: Kind,
    /// What each of the shard's workers serves, and when it was given out.
    jobs: Vec<Option<(Job, Time)>>,
    cost: CostModel,
    app: Arc<Application>,
}

enum Kind {
    Own(Vec<Own>),
    Shared { busy: Span },
    Preemptive(Box<Preemptive>),
}

#[derive(Clone, Copy, Debug, Default)]
struct Own {
    free_at: Time,
    busy: Span,
}

/// What will happen because of a change, and when.
pub type ScheduledEvent = Option<(Time, Event)>;

impl Workers {
    /// `workers` idle cores of kind `cores`; the shard gives out jobs to `slots` of its workers.
    pub fn new(cores: Cores, workers: usize, slots: usize, cost: CostModel, app: Arc<Application>) -> Self {
        let cores = match cores {
            Cores::Own => Kind::Own(vec![Own::default(); workers]),
            Cores::Shared => Kind::Shared { busy: Span::ZERO },
            Cores::Preemptive => Kind::Preemptive(Box::new(Preemptive::new(workers))),
        };
        Self { cores, jobs: std::iter::repeat_with(|| None).take(slots).collect(), cost, app }
    }

    /// Starts `job`, which the shard gave out at `now` and whose event the
    /// stack's core has handed over at `handed_over`. Returns when that core
    /// goes on, and what will happen.
    pub fn start(&mut self, now: Time, handed_over: Time, mut job: Job) -> (Time, ScheduledEvent) {
        let (id, priority) = (job.worker.0, job.label.priority);
        let slot = usize::from(id);
        let dispatch = self.cost.dispatch();
        match &mut self.cores {
            Kind::Own(cores) => {
                let core = &mut cores[slot];
                let begin = handed_over.max(core.free_at);
                let end = serve(&self.app, &mut job, now, begin + dispatch);
                core.free_at = end;
                core.busy += end.since(begin);
                self.jobs[slot] = Some((job, now));
                (handed_over, Some((end, Event::Done(id))))
            }
            Kind::Shared { busy } => {
                let end = serve(&self.app, &mut job, now, handed_over + dispatch);
                *busy += end.since(handed_over);
                self.jobs[slot] = Some((job, now));
                (end, Some((end, Event::Done(id))))
            }
            Kind::Preemptive(cores) => {
                self.jobs[slot] = Some((job, now));
                let mut price = price(&self.app, &mut self.jobs);
                (handed_over, expect(cores.arrive(now, id, priority, &mut price)))
            }
        }
    }

    /// `worker` looked at an event in vain, handed over at `at`; returns when
    /// the stack's core goes on.
    pub fn look(&mut self, worker: WorkerId, at: Time) -> Time {
        let event = self.cost.event();
        match &mut self.cores {
            Kind::Own(cores) => {
                let core = &mut cores[usize::from(worker.0)];
                core.free_at = core.free_at.max(at) + event;
                core.busy += event;
                at
            }
            Kind::Shared { busy } => {
                *busy += event;
                at + event
            }
            Kind::Preemptive(_) => at,
        }
    }

    /// The job that `worker` has served.
    pub fn done(&mut self, worker: u8) -> Job {
        self.jobs[usize::from(worker)].take().expect("a worker ends what it began").0
    }

    /// Ends what `ending` announced: the served job and what its core does
    /// next. `None` when the job was interrupted meanwhile.
    pub fn end(&mut self, ending: WorkCompletion) -> Option<(Job, ScheduledEvent)> {
        let Kind::Preemptive(cores) = &mut self.cores else { return None };
        let (worker, next) = cores.end(ending, &mut price(&self.app, &mut self.jobs))?;
        Some((self.done(worker), expect(next)))
    }

    /// How long each core has been busy.
    pub fn busy(&self) -> Vec<Span> {
        match &self.cores {
            Kind::Own(cores) => cores.iter().map(|core| core.busy).collect(),
            Kind::Shared { busy } => vec![*busy],
            Kind::Preemptive(cores) => cores.busy().collect(),
        }
    }
}

fn expect(ending: Option<WorkCompletion>) -> ScheduledEvent {
    ending.map(|ending| (ending.at, Event::Ending(ending)))
}

/// What a preemptive core pays for a job: it is served when it first runs.
fn price<'a>(
    app: &'a Application,
    jobs: &'a mut [Option<(Job, Time)>],
) -> impl FnMut(u8, Time) -> Span + use<'a> {
    move |worker, begin| {
        let (job, given) = jobs[usize::from(worker)].as_mut().expect("it was given out");
        serve(app, job, *given, begin).since(begin)
    }
}

/// Serves `job`, given out at `given`, from `begin` on; returns when it ends.
/// What passes between the two is still waiting for a worker.
fn serve(app: &Application, job: &mut Job, given: Time, begin: Time) -> Time {
    job.stages.event += begin.since(given);
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
