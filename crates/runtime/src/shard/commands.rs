//! Commands and queries of a shard's owner between steps.

use std::sync::Arc;

use net::buffer_pool::PoolStats;
use net::{Device, Stack};
use queueing::{Priority, PrioritySet};
use sched::dispatch::{WorkerId, WorkerSet};

use super::{Shard, Stats, WorkBudget};
use crate::app::App;
use crate::mode::Classifiers;

impl<D: Device, A: App> Shard<D, A> {
    /// The stack, to listen, connect and read flows.
    pub fn stack(&mut self) -> &mut Stack {
        &mut self.stack
    }

    /// Replaces both classifiers from the next frame and segment on. A listener's or connection's
    /// own transport classifier stays. Queued frames and tasks keep their labels.
    pub fn set_classifiers(&mut self, classifiers: Classifiers) {
        self.front.set_classifier(classifiers.driver);
        self.stack.set_default_classifier(classifiers.transport);
    }

    /// Counters and waiting times so far.
    #[must_use]
    pub fn stats(&self) -> &Stats {
        &self.stats
    }

    /// Final statistics, including use of the buffer pools.
    #[must_use]
    pub fn into_stats(self) -> Stats {
        Stats { buffers: self.buffers(), malformed: self.stack.counters().malformed, ..self.stats }
    }

    /// Uses and hits of the buffer pools, in TCP and for requests and responses.
    #[must_use]
    pub fn buffers(&self) -> PoolStats {
        self.stack.buffers().and(self.buffers.uses())
    }

    /// The application.
    #[must_use]
    pub fn app(&self) -> Arc<A> {
        self.app.clone()
    }

    /// Number of workers.
    #[must_use]
    pub fn workers(&self) -> usize {
        self.workers.given.len()
    }

    /// Changes the budgets from the next step on.
    ///
    /// # Panics
    /// If a budget is 0.
    pub fn set_budget(&mut self, budget: WorkBudget) {
        self.front.set_budget(budget);
    }

    /// Maximum of each kind of work in a round.
    #[must_use]
    pub fn budget(&self) -> WorkBudget {
        self.front.budget
    }

    /// Memory of connections in bytes, without TCP's and without requests in flight.
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

    /// Restricts `worker` to tasks of `priorities`, as far as steering allows them (M7). With no
    /// priorities it gets none.
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
