//! Fair queueing: round robin between flows, so that no flow waits for another's burst.
//!
//! Each backlogged flow has its own queue. A turn of round robin is one entry
//! or, if entries differ in size, a quantum of bytes. A new flow joins at the end
//! of the round, or at its start ([`FairQueue::with_newcomers_first`]). Below
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
    lanes: FlowTable<FlowQueue<Q>>,
    /// Backlogged flows in round-robin order; the first is served next.
    turns: VecDeque<u32>,
    /// Number of flows at the front that have not had a turn; 0 unless new flows go first.
    newcomers: usize,
    newcomers_first: bool,
    len: usize,
    capacity: usize,
    /// Bytes that a flow may send in a turn; `None` is one entry.
    quantum: Option<Bytes>,
    push_out: bool,
    entries: PhantomData<T>,
}

/// State of one flow.
#[derive(Clone, Debug)]
struct FlowQueue<Q> {
    queue: Q,
    /// Cost of the entries queued and served since the flow became active.
    asked: u64,
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
            lanes: FlowTable::new(FlowQueue { queue, asked: 0, sent: 0 }),
            turns: VecDeque::new(),
            newcomers: 0,
            newcomers_first: false,
            len: 0,
            capacity,
            quantum: None,
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
        self.quantum = Some(quantum);
        self
    }

    /// Lets an entry evict the newest one of the flow with the most attained and
    /// queued service when the queue is full, unless the entry's own flow would
    /// then have as much. O(active flows).
    #[must_use]
    pub const fn with_push_out(mut self) -> Self {
        self.push_out = true;
        self
    }

    /// Gives a new flow its first turn before all others. So that a pause does not
    /// make a flow new again, an empty flow stays in the round until its next turn.
    /// Above `capacity` flows it leaves at that turn even if new flows keep coming,
    /// so at most `2 * capacity + 2` flows are in the round.
    /// Source: RFC 8290 §4.2; the bound is an addition.
    #[must_use]
    pub const fn with_newcomers_first(mut self) -> Self {
        self.newcomers_first = true;
        self
    }

    /// Active flows: those with queued entries or a debt.
    #[must_use]
    pub fn flow_count(&self) -> usize {
        self.turns.len()
    }
}

/// Cost of `entry` against a quantum.
fn cost<T: Entry>(quantum: Option<Bytes>, entry: &T) -> u64 {
    quantum.map_or(1, |quantum| entry.bytes().get().clamp(1, quantum.get()))
}

impl<T: Entry, Q: Discipline<T> + Clone> FairQueue<T, Q> {
    /// Flow with the most attained and queued service, and that service; the last
    /// of equals in round-robin order.
    fn greediest(&self) -> Option<(u32, u64)> {
        let waiting = self.turns.iter().filter(|&&place| !self.lanes[place].queue.is_empty());
        waiting.map(|&place| (place, self.lanes[place].asked)).max_by_key(|&(_, asked)| asked)
    }

    /// Moves the flow at the front to the end of the round; it is no longer new.
    fn pass_turn(&mut self, place: u32) {
        self.newcomers = self.newcomers.saturating_sub(1);
        self.turns.pop_front();
        self.turns.push_back(place);
    }

    /// Removes the flow at the front, `place`.
    fn close_first(&mut self, place: u32) {
        self.newcomers = self.newcomers.saturating_sub(1);
        self.turns.pop_front();
        self.lanes.close(place);
    }

    /// True if there are too many flows in the round to keep empty ones.
    fn is_crowded(&self) -> bool {
        self.newcomers_first && self.turns.len() > self.capacity
    }

    fn append(&mut self, now: Time, entry: T) -> PushResult<T> {
        let (flow, asked) = (entry.flow(), cost(self.quantum, &entry));
        let place = match self.lanes.get(flow) {
            Some(place) => place,
            None => {
                let place = self.lanes.open(flow);
                (self.lanes[place].asked, self.lanes[place].sent) = (0, 0);
                if self.newcomers_first {
                    self.turns.insert(self.newcomers, place);
                    self.newcomers += 1;
                } else {
                    self.turns.push_back(place);
                }
                place
            }
        };
        let lane = &mut self.lanes[place];
        let outcome = lane.queue.push(now, entry);
        match &outcome {
            PushResult::Queued => self.len += 1,
            PushResult::PushedOut(gone) => lane.asked -= cost(self.quantum, gone),
            PushResult::Refused(_) => return outcome,
        }
        lane.asked += asked;
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
            let place = *self.turns.front()?;
            let crowded = self.is_crowded();
            let lane = &mut self.lanes[place];
            let leaves = crowded && lane.queue.is_empty();
            if lane.sent >= quantum && !leaves {
                lane.sent -= quantum;
                self.pass_turn(place);
                continue;
            }
            let Some(entry) = lane.queue.pop(now) else {
                if self.newcomers > 0 && !leaves {
                    self.pass_turn(place);
                } else {
                    self.close_first(place);
                }
                continue;
            };
            if !entry.doomed() {
                lane.sent += cost(self.quantum, &entry);
            }
            // A flow in debt stays, so that a pause does not cancel the debt.
            if !self.newcomers_first && lane.queue.is_empty() && lane.sent <= quantum {
                self.close_first(place);
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
        self.turns.iter().filter_map(|&place| self.lanes[place].queue.oldest()).min()
    }

    /// Before each of the older entries of its flow, at most `capacity - 1`, and
    /// before itself, each of at most as many other flows has one turn: one entry,
    /// or a quantum in entries of one byte.
    fn starvation(&self) -> StarvationBound {
        if self.newcomers_first {
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
        !self.newcomers_first && self.turns.is_empty() && self.lanes.first().queue.passes(entry)
    }

    /// Evicts from the flow with the most attained and queued service; its queue chooses.
    fn evict(&mut self, now: Time) -> Option<T> {
        let (place, _) = self.greediest()?;
        let keeps = self.newcomers_first && !self.is_crowded();
        let lane = &mut self.lanes[place];
        let entry = lane.queue.evict(now)?;
        lane.asked -= cost(self.quantum, &entry);
        self.len -= 1;
        if !keeps && lane.queue.is_empty() {
            let is_new = self.turns.iter().take(self.newcomers).any(|&other| other == place);
            self.newcomers -= usize::from(is_new);
            self.turns.retain(|&other| other != place);
            self.lanes.close(place);
        }
        Some(entry)
    }

    fn replace(&mut self, now: Time, entry: T) -> PushResult<T> {
        let own = self.lanes.get(entry.flow()).map_or(0, |place| self.lanes[place].asked);
        match self.greediest() {
            Some((_, most)) if self.push_out && own + cost(self.quantum, &entry) < most => {
                match self.append(now, entry) {
                    PushResult::Queued => self.evict(now).map_or(PushResult::Queued, PushResult::PushedOut),
                    outcome => outcome,
                }
            }
            _ => PushResult::Refused(entry),
        }
    }
}
