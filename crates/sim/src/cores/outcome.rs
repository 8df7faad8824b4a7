//! What became of the tasks.

use queueing::{Histogram, Span, Time};

use super::machine::World;

/// A run's result.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// By task.
    pub tasks: Vec<TaskOutcome>,
    /// The time that it is about.
    pub counted: Span,
    /// The policy's rounds in it.
    pub rounds: u64,
    /// What the policy ordered in it.
    pub actions: u64,
    /// Events simulated.
    pub events: u64,
}

/// A task's result.
#[derive(Clone, Debug)]
pub struct TaskOutcome {
    /// Requests answered.
    pub answered: u64,
    /// Requests that were not by the end.
    pub unanswered: u64,
    /// Requests that found no room.
    pub lost: u64,
    /// From arrival to answer; of who still waits, to the end.
    pub latency: Histogram,
    /// The worst p99.9 of any 100 ms.
    pub peak: Span,
    /// Work done, in time of one lane on a machine of its own.
    pub work: Span,
}

impl TaskOutcome {
    /// Work per time: lanes of a machine of its own.
    #[must_use]
    pub fn cores(&self, counted: Span) -> f64 {
        self.work.as_secs_f64() / counted.as_secs_f64()
    }
}

impl World {
    /// What became of it all. Who still waits counts with the time that he has waited.
    pub fn finish(mut self, end: Time) -> Outcome {
        (0..self.lanes.len()).for_each(|core| self.touch(end, core));
        let serving: Vec<_> =
            self.lanes.iter().filter_map(|lane| Some((lane.holder?, lane.request?))).collect();
        for (holder, request) in serving {
            self.tasks[holder.index()].queue.push_back(request);
        }
        let from = self.from;
        let tasks = self.tasks.into_iter().map(|mut task| {
            for request in task.queue.iter().filter(|request| request.at >= from) {
                task.unanswered += 1;
                task.latency.record(end.since(request.at));
                task.window.record(end.since(request.at));
            }
            task.turn_window();
            TaskOutcome {
                answered: task.latency.count() - task.unanswered,
                unanswered: task.unanswered,
                lost: task.lost,
                latency: task.latency,
                peak: task.peak,
                work: Span::from_nanos(task.work_ns as u64),
            }
        });
        Outcome {
            tasks: tasks.collect(),
            counted: self.lasts,
            rounds: self.rounds,
            actions: self.actions,
            events: self.engine.scheduled(),
        }
    }
}
