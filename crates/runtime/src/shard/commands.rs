//! What a shard's owner asks of it and tells it between steps.

use std::sync::Arc;

use net::buffer_pool::PoolStats;
use net::classify::DriverClassifier;
use net::{Device, Stack};
use queueing::{Priority, PrioritySet};
use sched::dispatch::{WorkerId, WorkerSet};

use super::{Budget, Shard, Stats};
use crate::app::App;
use crate::mode::Classifiers;

impl<D: Device, A: App> Shard<D, A> {
    /// The stack, to listen, connect, read flows.
    pub fn stack(&mut self) -> &mut Stack {
        &mut self.stack
    }

    /// Replaces `pri_filter` from the next frame on.
    pub fn set_driver_classifier(&mut self, classifier: Option<DriverClassifier>) {
        self.front.set_classifier(classifier);
    }

    /// Replaces both classifiers, the transport's where nobody has one of its
    /// own: from the next frame, and the next segment, on. What waits already
    /// keeps its label.
    pub fn set_classifiers(&mut self, classifiers: Classifiers) {
        self.front.set_classifier(classifiers.driver);
        self.stack.set_default_classifier(classifiers.transport);
    }

    /// What happened so far, and where requests waited.
    #[must_use]
    pub fn stats(&self) -> &Stats {
        &self.stats
    }

    /// The same at the end, with how often buffers were asked for.
    #[must_use]
    pub fn into_stats(self) -> Stats {
        Stats { buffers: self.buffers(), malformed: self.stack.counters().malformed, ..self.stats }
    }

    /// How often payload that waits needed a buffer, in TCP and on the way to a
    /// worker and back, and how often a pool had one.
    #[must_use]
    pub fn buffers(&self) -> PoolStats {
        self.stack.buffers().and(self.buffers.uses())
    }

    /// The application.
    #[must_use]
    pub fn app(&self) -> Arc<A> {
        self.app.clone()
    }

    /// How many workers it gives requests to.
    #[must_use]
    pub fn workers(&self) -> usize {
        self.workers.given.len()
    }

    /// Changes the budgets from the next piece of work on.
    ///
    /// # Panics
    /// When one is 0.
    pub fn set_budget(&mut self, budget: Budget) {
        self.front.set_budget(budget);
    }

    /// How much of each kind of work a round does.
    #[must_use]
    pub fn budget(&self) -> Budget {
        self.front.budget
    }

    /// Starts counting anew, at the end of a warm-up for instance.
    pub fn clear_stats(&mut self) {
        self.stats.clear();
    }

    /// Bytes that connections take up beyond TCP's, without requests under way.
    #[must_use]
    pub fn connection_bytes(&self) -> usize {
        self.conns.bytes()
    }

    /// Frames in the receive buffer.
    #[must_use]
    pub fn rx_waiting(&self) -> usize {
        self.front.waiting()
    }

    /// Tasks in the event queue, stale ones and those waiting to enter included.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.dispatch.len() + self.stalled_len + usize::from(self.datagrams.is_stuck())
    }

    /// Workers without a job.
    #[must_use]
    pub fn idle(&self) -> &WorkerSet {
        &self.workers.idle
    }

    /// From now on `worker` takes tasks of `priorities` only, as far as
    /// steering allows them (M7). A worker that asks for nothing gets nothing.
    pub fn wants(&mut self, worker: WorkerId, priorities: PrioritySet) {
        for p in Priority::all() {
            let accepts = &mut self.workers.accepts[p.index()];
            match priorities.contains(p) && self.workers.steering[p.index()].contains(worker) {
                true => accepts.insert(worker),
                false => accepts.remove(worker),
            }
        }
    }
}
