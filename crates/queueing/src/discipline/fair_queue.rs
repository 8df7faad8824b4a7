//! Fair queueing: round robin between flows, so that no flow waits for another's burst.
//!
//! Each backlogged flow has its own queue. A turn of round robin is one entry
//! or, if entries differ in size, a quantum of bytes. A new flow joins at the end
//! of the round, or at its start ([`FairQueue::with_new_flows_first`]). Below
//! strict priority this is FISH's queue; with new flows first and CoDel in every
//! queue it is FQ-CoDel.
//!
//! All flows share the capacity. With push-out, the flow with the most attained
//! and queued service loses its newest entry to a flow with less, so a long flow
//! does not cost a later short flow its packets.
//! Source: FISH §3 (round robin, queues per active flow); Shreedhar and
//! Varghese, SIGCOMM '95 (byte quanta), with debts instead of deficits as in RFC
//! 8290; RFC 8290 §4.2 (new flows). Push-out from the longest queue is McKenney's
//! (INFOCOM '90); to count attained service too is an addition, after least
//! attained service.

use std::collections::VecDeque;
use std::marker::PhantomData;

use super::flow_table::FlowTable;
use super::{Discipline, Entry, Fifo, PushResult, StarvationBound};
use crate::{Bytes, Priority, Time};

/// Serves flows by round robin; `Q` is each flow's queue, in order of arrival.
///
/// Starvation: an entry waits for at most `capacity` turns of its flow, with
/// one turn of each other flow between two of them. With new flows first it is
/// unbounded: an endless series of new flows precedes the others.
#[derive(Clone, Debug)]
pub struct FairQueue<T, Q = Fifo<T>> {
    flows: FlowTable<FlowQueue<Q>>,
    /// Active flows in round-robin order; the first is served next.
    round: VecDeque<u32>,
    /// Number of flows at the front that have not had a turn; 0 unless new flows go first.
    new_flows: usize,
    new_flows_first: bool,
    len: usize,
    capacity: usize,
    /// Bytes that a flow may send in a turn; `None` is one entry.
    quantum: Option<Bytes>,
    /// Maximum number of bytes that an entry counts as.
    entry_max: u64,
    push_out: bool,
    entries: PhantomData<T>,
}

/// State of one flow.
#[derive(Clone, Debug)]
struct FlowQueue<Q> {
    queue: Q,
    /// Cost of the entries queued and served since the flow became active.
    service: u64,
    /// Bytes of this turn's quantum that were sent.
    sent: u64,
}

impl<T> FairQueue<T> {
    /// Queue of at most `capacity` entries over all flows; a turn is one entry.
    /// Memory grows with use and is kept.
    ///
    /// # Panics
    /// If `capacity` is zero.
    #[must_use]
    pub fn new(capacity: usize) -> Self
    where
        T: Clone,
    {
        Self::over(capacity, Fifo::new(capacity))
    }
}

impl<T, Q: Clone> FairQueue<T, Q> {
    /// As [`FairQueue::new`], with a copy of `queue` for each flow. `queue` must be
    /// empty and serve in order of arrival. The queue of an inactive flow is reused
    /// for the next one with its state, as in hashed queues.
    ///
    /// # Panics
    /// If `capacity` is zero.
    #[must_use]
    pub fn over(capacity: usize, queue: Q) -> Self {
        assert!(capacity > 0, "capacity 0 is not above 0");
        Self {
            flows: FlowTable::new(FlowQueue { queue, service: 0, sent: 0 }),
            round: VecDeque::new(),
            new_flows: 0,
            new_flows_first: false,
            len: 0,
            capacity,
            quantum: None,
            entry_max: 1,
            push_out: false,
            entries: PhantomData,
        }
    }

    /// Makes a turn `quantum` bytes instead of one entry. A flow with any quantum
    /// left sends; the excess is deducted from its next turn. A larger entry counts
    /// as `quantum`.
    ///
    /// # Panics
    /// If `quantum` is zero.
    #[must_use]
    pub fn by_bytes(mut self, quantum: Bytes) -> Self {
        assert!(quantum > Bytes::ZERO, "quantum 0 is not above 0");
        (self.quantum, self.entry_max) = (Some(quantum), quantum.get());
        self
    }

    /// As [`FairQueue::by_bytes`], but a larger entry counts as it is: its flow waits for several
    /// rounds. [`Discipline::starvation`] holds for entries of at most `quantum`.
    ///
    /// # Panics
    /// If `quantum` is zero.
    #[must_use]
    pub fn by_all_bytes(self, quantum: Bytes) -> Self {
        Self { entry_max: u64::MAX, ..self.by_bytes(quantum) }
    }

    /// Lets an entry evict the newest one of the flow with the most attained and
    /// queued service when the queue is full, unless the entry's own flow would
    /// then have as much. O(active flows).
    #[must_use]
    pub const fn with_push_out(mut self) -> Self {
        self.push_out = true;
        self
    }

    /// Gives a new flow its first turn before all others. An empty flow stays in the
    /// round until its next turn, so that a pause does not make it new again. Above
    /// `capacity` flows it leaves at that turn even if new flows keep coming,
    /// so at most `2 * capacity + 2` flows are in the round.
    /// Source: RFC 8290 §4.2; the bound is an addition.
    #[must_use]
    pub const fn with_new_flows_first(mut self) -> Self {
        self.new_flows_first = true;
        self
    }

    /// Active flows: those with queued entries or a debt.
    #[must_use]
    pub fn flow_count(&self) -> usize {
        self.round.len()
    }
}

/// Cost of `entry`, of at most `entry_max` bytes, against a quantum.
fn cost<T: Entry>(entry_max: u64, entry: &T) -> u64 {
    if entry_max == 1 { 1 } else { entry.bytes().get().clamp(1, entry_max) }
}

impl<T: Entry, Q: Discipline<T> + Clone> FairQueue<T, Q> {
    /// Flow with the most attained and queued service, and that service; the last
    /// of equals in round-robin order.
    fn largest(&self) -> Option<(u32, u64)> {
        let waiting = self.round.iter().filter(|&&slot| !self.flows[slot].queue.is_empty());
        waiting.map(|&slot| (slot, self.flows[slot].service)).max_by_key(|&(_, service)| service)
    }

    /// Moves the flow at the front to the end of the round; it is no longer new.
    fn rotate(&mut self, slot: u32) {
        self.new_flows = self.new_flows.saturating_sub(1);
        self.round.pop_front();
        self.round.push_back(slot);
    }

    /// Removes the flow at the front, `slot`.
    fn remove_first(&mut self, slot: u32) {
        self.new_flows = self.new_flows.saturating_sub(1);
        self.round.pop_front();
        self.flows.close(slot);
    }

    /// True if there are too many flows in the round to keep empty ones.
    fn is_crowded(&self) -> bool {
        self.new_flows_first && self.round.len() > self.capacity
    }

    fn append(&mut self, now: Time, entry: T) -> PushResult<T> {
        let (flow, service) = (entry.flow(), cost(self.entry_max, &entry));
        let slot = match self.flows.get(flow) {
            Some(slot) => slot,
            None => {
                let slot = self.flows.open(flow);
                (self.flows[slot].service, self.flows[slot].sent) = (0, 0);
                if self.new_flows_first {
                    self.round.insert(self.new_flows, slot);
                    self.new_flows += 1;
                } else {
                    self.round.push_back(slot);
                }
                slot
            }
        };
        let state = &mut self.flows[slot];
        let outcome = state.queue.push(now, entry);
        match &outcome {
            PushResult::Queued => self.len += 1,
            PushResult::PushedOut(evicted) => state.service -= cost(self.entry_max, evicted),
            PushResult::Refused(_) => return outcome,
        }
        state.service += service;
        outcome
    }
}

impl<T: Entry, Q: Discipline<T> + Clone> Discipline<T> for FairQueue<T, Q> {
    fn push(&mut self, now: Time, entry: T) -> PushResult<T> {
        if self.len == self.capacity {
            return self.replace(now, entry);
        }
        self.append(now, entry)
    }

    fn pop(&mut self, now: Time) -> Option<T> {
        let quantum = self.quantum.map_or(1, Bytes::get);
        loop {
            let slot = *self.round.front()?;
            let crowded = self.is_crowded();
            let state = &mut self.flows[slot];
            let leaves = crowded && state.queue.is_empty();
            if state.sent >= quantum && !leaves {
                state.sent -= quantum;
                self.rotate(slot);
                continue;
            }
            let Some(entry) = state.queue.pop(now) else {
                if self.new_flows > 0 && !leaves {
                    self.rotate(slot);
                } else {
                    self.remove_first(slot);
                }
                continue;
            };
            if !entry.doomed() {
                state.sent += cost(self.entry_max, &entry);
            }
            // A flow in debt stays, so that a pause does not cancel the debt.
            if !self.new_flows_first && state.queue.is_empty() && state.sent <= quantum {
                self.remove_first(slot);
            }
            self.len -= 1;
            return Some(entry);
        }
    }

    fn len(&self) -> usize {
        self.len
    }

    /// O(active flows).
    fn oldest(&self) -> Option<Time> {
        self.round.iter().filter_map(|&slot| self.flows[slot].queue.oldest()).min()
    }

    /// Before each of the older entries of its flow, at most `capacity - 1`, and
    /// before itself, each of at most as many other flows has one turn: one entry,
    /// or a quantum in entries of one byte.
    fn starvation(&self) -> StarvationBound {
        if self.new_flows_first {
            return StarvationBound::Unbounded { from: Priority::HIGHEST };
        }
        let turn = self.quantum.map_or(1, Bytes::get);
        let (others, turns) = (self.capacity as u64 - 1, self.capacity as u64);
        StarvationBound::Bounded {
            entries: others.saturating_add(turns.saturating_mul(others).saturating_mul(turn)),
        }
    }

    /// `false` if a flow is in debt, or the entry's flow would be new.
    #[inline]
    fn passes(&self, entry: &T) -> bool {
        !self.new_flows_first && self.round.is_empty() && self.flows.initial().queue.passes(entry)
    }

    /// Evicts from the flow with the most attained and queued service; its queue chooses.
    fn evict(&mut self, now: Time) -> Option<T> {
        let (slot, _) = self.largest()?;
        let keeps = self.new_flows_first && !self.is_crowded();
        let state = &mut self.flows[slot];
        let entry = state.queue.evict(now)?;
        state.service -= cost(self.entry_max, &entry);
        self.len -= 1;
        if !keeps && state.queue.is_empty() {
            let is_new = self.round.iter().take(self.new_flows).any(|&other| other == slot);
            self.new_flows -= usize::from(is_new);
            self.round.retain(|&other| other != slot);
            self.flows.close(slot);
        }
        Some(entry)
    }

    fn replace(&mut self, now: Time, entry: T) -> PushResult<T> {
        let own = self.flows.get(entry.flow()).map_or(0, |slot| self.flows[slot].service);
        match self.largest() {
            Some((_, most)) if self.push_out && own + cost(self.entry_max, &entry) < most => {
                match self.append(now, entry) {
                    PushResult::Queued => self.evict(now).map_or(PushResult::Queued, PushResult::PushedOut),
                    outcome => outcome,
                }
            }
            _ => PushResult::Refused(entry),
        }
    }
}
