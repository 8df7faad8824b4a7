//! Results of a run, per task.

use queueing::{Histogram, Span, Time};

use super::machine::MachineState;

/// Result of a run.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Results by task.
    pub tasks: Vec<TaskOutcome>,
    /// Measured duration.
    pub counted: Span,
    /// Number of rounds of the policy in the measured duration.
    pub rounds: u64,
    /// Number of actions of the policy in the measured duration.
    pub actions: u64,
    /// Events simulated.
    pub events: u64,
}

/// Result of a task.
#[derive(Clone, Debug)]
pub struct TaskOutcome {
    /// Requests answered.
    pub answered: u64,
    /// Requests unanswered at the end.
    pub unanswered: u64,
    /// Requests dropped at a full queue.
    pub lost: u64,
    /// Latency from arrival to answer, or to the end for unanswered requests.
    pub latency: Histogram,
    /// Worst p99.9 of any 100 ms window.
    pub peak: Span,
    /// Work done, in time of one undisturbed logical core.
    pub work: Span,
    /// Time on logical cores, however slow.
    pub ran: Span,
}

impl TaskOutcome {
    /// Average number of undisturbed logical cores that would do the same work.
    #[must_use]
    pub fn cores(&self, counted: Span) -> f64 {
        self.work.as_secs_f64() / counted.as_secs_f64()
    }
}

impl MachineState {
    /// Collects the results. Unanswered requests count with their age.
    pub fn finish(mut self, end: Time) -> Outcome {
        (0..self.logical_cores.len()).for_each(|core| self.account(end, core));
        let serving: Vec<_> = self
            .logical_cores
            .iter()
            .filter_map(|logical_core| Some((logical_core.holder?, logical_core.request?)))
            .collect();
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
            task.end_window();
            TaskOutcome {
                answered: task.latency.count() - task.unanswered,
                unanswered: task.unanswered,
                lost: task.lost,
                latency: task.latency,
                peak: task.peak,
                work: Span::from_nanos(task.work_ns as u64),
                ran: Span::from_nanos(task.ran_ns as u64),
            }
        });
        Outcome {
            tasks: tasks.collect(),
            counted: self.duration,
            rounds: self.rounds,
            actions: self.actions,
            events: self.engine.scheduled(),
        }
    }
}
