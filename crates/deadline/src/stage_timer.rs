//! A request at one stage: the clock that runs while it waits and is served.
//!
//! Starts with what the budget said on arrival and the hop's network delay,
//! and counts by this machine's clock alone. The queue counts: the visit
//! begins when the request arrives, not when a thread takes it up.
//! Source: D2P §3 (extract, count, send on).

use queueing::{Label, Priority, Span, Time};

use crate::{Budget, Remaining, Stage};

/// A request between its arrival at a stage and its leaving.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StageTimer {
    budget: Budget,
    network: Span,
    arrived: Time,
    started: Option<Time>,
}

impl StageTimer {
    /// The request with `budget` arrived at `now` over a hop that took
    /// `network` (C, see [`NetworkDelay`](crate::NetworkDelay)); zero where the
    /// sender has taken it off already.
    #[must_use]
    pub fn arrive(now: Time, budget: Budget, network: Span) -> Self {
        Self { budget, network, arrived: now, started: None }
    }

    /// The aggregate phase of a request whose sub-requests are `parts`, as they
    /// arrived here: it counts on from the one that took longest, D2P (4), and
    /// the reserve is there to be used. `None` without parts.
    #[must_use]
    pub fn join(now: Time, parts: impl IntoIterator<Item = Self>) -> Option<Self> {
        let slowest = parts.into_iter().max_by_key(|part| part.elapsed(now))?;
        Some(Self { budget: slowest.budget.for_aggregation(), ..slowest })
    }

    /// Its turn has come: what was waiting until now is service from now on.
    pub fn start(&mut self, now: Time) {
        self.started.get_or_insert(now);
    }

    /// What the budget was on arrival.
    #[must_use]
    pub fn budget(&self) -> &Budget {
        &self.budget
    }

    /// When it arrived.
    #[must_use]
    pub fn arrived(&self) -> Time {
        self.arrived
    }

    /// Time since the request was born.
    #[must_use]
    pub fn elapsed(&self, now: Time) -> Span {
        self.budget.elapsed() + self.network + now.since(self.arrived)
    }

    /// What is left at `now`.
    #[must_use]
    pub fn remaining(&self, now: Time) -> Remaining {
        Remaining::of(self.budget.granted(), self.elapsed(now))
    }

    /// The instant, on this machine's clock, at which nothing is left.
    #[must_use]
    pub fn due(&self) -> Time {
        self.arrived + (self.budget.granted() - self.budget.elapsed() - self.network)
    }

    /// The label for the queues of this machine.
    #[must_use]
    pub fn label(&self, now: Time, priority: Priority) -> Label {
        Label { priority, deadline: Some(self.remaining(now).left()) }
    }

    /// Where the time at this stage went, up to `now`.
    #[must_use]
    pub fn stage(&self, now: Time) -> Stage {
        let started = self.started.unwrap_or(now);
        Stage { network: self.network, queue: started.since(self.arrived), service: now.since(started) }
    }

    /// The budget to send on, to the next service or back.
    #[must_use]
    pub fn outgoing_budget(&self, now: Time) -> Budget {
        self.budget.after(self.stage(now))
    }
}
