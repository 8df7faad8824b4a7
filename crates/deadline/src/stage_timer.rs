//! Timer of a request at one stage, queueing and service.
//!
//! Starts from the received budget and the hop's network delay, and uses the local clock
//! only. It runs from arrival, not from the start of service.
//! Source: D2P §3 (extract, count, send on).

use queueing::{Label, Priority, Span, Time};

use crate::{Budget, Remaining, StageTime};

/// Request between arrival at a stage and departure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StageTimer {
    budget: Budget,
    network: Span,
    arrived: Time,
    started: Option<Time>,
}

impl StageTimer {
    /// Timer of a request that arrived at `now` with `budget` over a hop with delay
    /// `network` (C, see [`NetworkDelay`](crate::NetworkDelay)). Pass zero if the sender
    /// has subtracted the delay.
    #[must_use]
    pub fn arrive(now: Time, budget: Budget, network: Span) -> Self {
        Self { budget, network, arrived: now, started: None }
    }

    /// Timer of the aggregate phase. Continues from the sub-request in `parts` with the
    /// longest elapsed time, D2P (4), and releases the reserve. `None` without parts.
    #[must_use]
    pub fn join(now: Time, parts: impl IntoIterator<Item = Self>) -> Option<Self> {
        let slowest = parts.into_iter().max_by_key(|part| part.elapsed(now))?;
        Some(Self { budget: slowest.budget.for_aggregation(), ..slowest })
    }

    /// The same timer, of a request whose past is not believed: what it sends on has the time left, and this stage
    /// as its first. The response to the peer needs the timer with the past, from which the peer computes C.
    #[must_use]
    pub fn without_past(self) -> Self {
        Self { budget: self.budget.without_past(), ..self }
    }

    /// Marks the start of service: time until `now` was queueing.
    pub fn start(&mut self, now: Time) {
        self.started.get_or_insert(now);
    }

    /// Budget on arrival.
    #[must_use]
    pub fn budget(&self) -> &Budget {
        &self.budget
    }

    /// Arrival time.
    #[must_use]
    pub fn arrived(&self) -> Time {
        self.arrived
    }

    /// Time since the request was created.
    #[must_use]
    pub fn elapsed(&self, now: Time) -> Span {
        self.budget.elapsed() + self.network + now.since(self.arrived)
    }

    /// Time left at `now`.
    #[must_use]
    pub fn remaining(&self, now: Time) -> Remaining {
        Remaining::of(self.budget.granted(), self.elapsed(now))
    }

    /// Deadline on the local clock.
    #[must_use]
    pub fn due(&self) -> Time {
        self.arrived + (self.budget.granted() - self.budget.elapsed() - self.network)
    }

    /// Label for local queues.
    #[must_use]
    pub fn label(&self, now: Time, priority: Priority) -> Label {
        Label { priority, deadline: Some(self.remaining(now).left()) }
    }

    /// Time at this stage up to `now`.
    #[must_use]
    pub fn stage(&self, now: Time) -> StageTime {
        let started = self.started.unwrap_or(now);
        StageTime { network: self.network, queue: started.since(self.arrived), service: now.since(started) }
    }

    /// Budget to send on, to the next service or in the response.
    #[must_use]
    pub fn outgoing_budget(&self, now: Time) -> Budget {
        self.budget.after(self.stage(now))
    }
}
