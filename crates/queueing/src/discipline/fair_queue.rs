//! Round robin over flows: nobody waits behind another's burst.
//!
//! Each flow has a queue of its own for as long as something of it waits. The
//! queues take turns, each of one entry or, where entries differ in size, of a
//! quantum of bytes; a flow that appears takes its first turn after those who
//! are there, or before them ([`FairQueue::with_newcomers_first`]). Under strict
//! levels this is FISH's queue; with newcomers first and CoDel in every queue
//! it is FQ-CoDel.
//!
//! Room is shared by all flows. With push-out, the flow that has asked for most
//! since it has a queue gives up its newest entry for one that has asked for
//! less, so that a long flow loses its own packets and not those of a short
//! one that came after it.
//! Source: FISH §3 (round robin, queues made and removed as flows come and
//! go); Shreedhar and Varghese, SIGCOMM '95 (turns of bytes), with debts
//! instead of deficits as RFC 8290 has them; RFC 8290 §4.2 (newcomers).
//! Push-out is ours: of the longest queue, as McKenney has it (INFOCOM '90),
//! but what was served counts too, as least attained service has it.

use std::collections::VecDeque;
use std::marker::PhantomData;

use super::flow_table::FlowTable;
use super::{Discipline, Entry, Fifo, PushResult, StarvationBound};
use crate::{Bytes, Priority, Time};

/// Serves flows in turns; `Q` is each flow's queue, in order of arrival.
///
/// Starvation: an entry waits for at most `capacity` turns of its flow, and
/// each other flow has one turn between two of them. With newcomers first
/// there is no bound: ever new flows go before one that has had its turn.
#[derive(Clone, Debug)]
pub struct FairQueue<T, Q = Fifo<T>> {
    lanes: FlowTable<FlowQueue<Q>>,
    /// Lanes in the order of turns; the first has the turn.
    turns: VecDeque<u32>,
    /// So many of them have their first turn, where that comes first.
    newcomers: usize,
    newcomers_first: bool,
    len: usize,
    capacity: usize,
    /// What a flow may send in a turn; `None` is one entry.
    quantum: Option<Bytes>,
    push_out: bool,
    entries: PhantomData<T>,
}

/// What waits of one flow.
#[derive(Clone, Debug)]
struct FlowQueue<Q> {
    queue: Q,
    /// What waits and what was served since the lane was opened cost so much.
    asked: u64,
    /// What was sent of this turn's quantum.
    sent: u64,
}

impl<T> FairQueue<T> {
    /// At most `capacity` entries over all flows; a turn is one entry. Memory
    /// grows with use and is kept.
    ///
    /// # Panics
    /// When `capacity` is zero.
    #[must_use]
    pub fn new(capacity: usize) -> Self
    where
        T: Clone,
    {
        Self::over(capacity, Fifo::new(capacity))
    }
}

impl<T, Q: Clone> FairQueue<T, Q> {
    /// As [`FairQueue::new`], where each flow's queue is a copy of `queue`, which
    /// is empty and serves in order of arrival. The queue of a flow that has
    /// gone is given to the next one, with what it knows, as hashed queues do.
    ///
    /// # Panics
    /// When `capacity` is zero.
    #[must_use]
    pub fn over(capacity: usize, queue: Q) -> Self {
        assert!(capacity > 0, "a queue holds at least one entry");
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

    /// Makes a turn `quantum` bytes instead of one entry: who has any left
    /// sends, and owes in its next turn what the entry took beyond it. A larger
    /// entry counts as this large.
    ///
    /// # Panics
    /// When `quantum` is zero.
    #[must_use]
    pub fn by_bytes(mut self, quantum: Bytes) -> Self {
        assert!(quantum > Bytes::ZERO, "a turn serves something");
        self.quantum = Some(quantum);
        self
    }

    /// When full, lets an entry take the place of the newest one of the flow
    /// that has asked for most, unless its own would then have asked for as
    /// much. Costs a look at every flow that waits.
    #[must_use]
    pub const fn with_push_out(mut self) -> Self {
        self.push_out = true;
        self
    }

    /// Lets a flow that appears take its first turn before those who are there.
    /// So that nobody becomes a newcomer by pausing, a flow of which nothing
    /// waits any more keeps its place until its turn has come once more. While
    /// more flows than `capacity` have a place, it leaves with the turn that it
    /// has: were there always newcomers, no other would ever come. So at most
    /// twice `capacity` flows and two have a place.
    /// Source: RFC 8290 §4.2; the bound is ours.
    #[must_use]
    pub const fn with_newcomers_first(mut self) -> Self {
        self.newcomers_first = true;
        self
    }

    /// Flows that have a queue: something waits, or they owe something yet.
    #[must_use]
    pub fn flow_count(&self) -> usize {
        self.turns.len()
    }
}

/// What `entry` takes of a turn.
fn cost<T: Entry>(quantum: Option<Bytes>, entry: &T) -> u64 {
    quantum.map_or(1, |quantum| entry.bytes().get().clamp(1, quantum.get()))
}

impl<T: Entry, Q: Discipline<T> + Clone> FairQueue<T, Q> {
    /// The flow that has asked for most, and how much; the last of equals in
    /// the order of turns.
    fn greediest(&self) -> Option<(u32, u64)> {
        let waiting = self.turns.iter().filter(|&&place| !self.lanes[place].queue.is_empty());
        waiting.map(|&place| (place, self.lanes[place].asked)).max_by_key(|&(_, asked)| asked)
    }

    /// The lane at `place`, which has the turn, is the last to have one again, and
    /// no newcomer any more.
    fn pass_turn(&mut self, place: u32) {
        self.newcomers = self.newcomers.saturating_sub(1);
        self.turns.pop_front();
        self.turns.push_back(place);
    }

    /// The lane at `place`, which has the turn, is closed.
    fn close_first(&mut self, place: u32) {
        self.newcomers = self.newcomers.saturating_sub(1);
        self.turns.pop_front();
        self.lanes.close(place);
    }

    /// Whether so many flows have a place that none keeps it of which nothing waits.
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
            // Who owes something stays for it: nobody gets rid of a debt by pausing.
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

    /// Looks at every flow that waits.
    fn oldest(&self) -> Option<Time> {
        self.turns.iter().filter_map(|&place| self.lanes[place].queue.oldest()).min()
    }

    /// Before its own flow's older entries, at most `capacity - 1`, and itself,
    /// each of the other flows, as many at the most, has one turn: of one
    /// entry, or of a quantum in entries of one byte.
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

    /// Unless somebody owes something, or would be a newcomer.
    #[inline]
    fn passes(&self, entry: &T) -> bool {
        !self.newcomers_first && self.turns.is_empty() && self.lanes.first().queue.passes(entry)
    }

    /// One of the flow that has asked for most; its queue says which.
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
