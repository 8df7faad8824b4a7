//! Round robin over flows: nobody waits behind another's burst.
//!
//! Each flow has a queue of its own for as long as something of it waits. The
//! queues take turns, each of one entry or, where entries differ in size, of a
//! quantum of bytes; a flow that appears takes its first turn after those who
//! are there. Under strict levels this is FISH's queue.
//!
//! Room is shared by all flows. With push-out, who is behind the longest queue
//! makes it give up its newest entry, so that a burst loses its own packets
//! and not those of the flow that came after it.
//! Source: FISH §3 (round robin, queues made and removed as flows come and
//! go); Shreedhar and Varghese, SIGCOMM '95 (deficits); push-out of the
//! longest queue is ours, after McKenney, INFOCOM '90.

use std::collections::hash_map::DefaultHasher;
use std::collections::{HashMap, VecDeque};
use std::hash::BuildHasherDefault;

use super::{Discipline, Entry, FlowId, Pushed, Starvation};
use crate::{Bytes, Time};

/// Serves flows in turns, each flow's entries in the order they came.
///
/// Starvation: an entry waits for at most `capacity` turns of its flow, and
/// each other flow has one turn between two of them.
#[derive(Clone, Debug)]
pub struct Flows<T> {
    queues: Vec<Queue<T>>,
    free: Vec<u32>,
    /// Where the queue of a flow is. With fixed keys: it is never iterated.
    places: HashMap<FlowId, u32, BuildHasherDefault<DefaultHasher>>,
    /// The queues, in the order of turns; the first has the turn.
    turns: VecDeque<u32>,
    /// Whether the turn of the first has not begun.
    fresh: bool,
    len: usize,
    capacity: usize,
    /// What a flow may send in a turn; `None` is one entry.
    quantum: Option<Bytes>,
    push_out: bool,
}

/// What waits of one flow.
#[derive(Clone, Debug)]
struct Queue<T> {
    flow: FlowId,
    waiting: VecDeque<(Time, T)>,
    /// What all of it costs.
    cost: u64,
    deficit: u64,
}

impl<T> Flows<T> {
    /// At most `capacity` entries over all flows; a turn is one entry. Memory
    /// grows with use and is kept.
    ///
    /// # Panics
    /// When `capacity` is zero.
    #[must_use]
    pub fn new(capacity: usize) -> Self {
        assert!(capacity > 0, "a queue holds at least one entry");
        Self {
            queues: Vec::new(),
            free: Vec::new(),
            places: HashMap::default(),
            turns: VecDeque::new(),
            fresh: true,
            len: 0,
            capacity,
            quantum: None,
            push_out: false,
        }
    }

    /// Makes a turn `quantum` bytes instead of one entry; what it does not use
    /// up is carried over. A larger entry counts as this large.
    ///
    /// # Panics
    /// When `quantum` is zero.
    #[must_use]
    pub fn by_bytes(mut self, quantum: Bytes) -> Self {
        assert!(quantum > Bytes::ZERO, "a turn serves something");
        self.quantum = Some(quantum);
        self
    }

    /// When full, lets an entry take the place of the newest one of the
    /// longest queue, unless its own flow's would then be as long. Costs a
    /// look at every flow that waits.
    #[must_use]
    pub const fn with_push_out(mut self) -> Self {
        self.push_out = true;
        self
    }

    /// Flows of which something waits.
    #[must_use]
    pub fn flows(&self) -> usize {
        self.turns.len()
    }

    /// The queue whose entries cost most, and what; the last of equals in the
    /// order of turns.
    fn longest(&self) -> Option<(usize, u64)> {
        let costs = self.turns.iter().map(|&place| self.queues[place as usize].cost);
        costs.enumerate().max_by_key(|&(_, cost)| cost)
    }

    /// Forgets the flow at `turn`, of which nothing waits any more.
    fn forget(&mut self, turn: usize) {
        let place = self.turns.remove(turn).expect("whoever has a turn is in the ring");
        self.places.remove(&self.queues[place as usize].flow);
        self.free.push(place);
        self.fresh |= turn == 0;
    }
}

impl<T: Entry> Flows<T> {
    /// What `entry` takes of a turn.
    fn cost(&self, entry: &T) -> u64 {
        self.quantum.map_or(1, |quantum| entry.bytes().get().clamp(1, quantum.get()))
    }

    /// The queue of `flow`, made if there is none.
    fn place(&mut self, flow: FlowId) -> usize {
        if let Some(&place) = self.places.get(&flow) {
            return place as usize;
        }
        let place = self.free.pop().unwrap_or_else(|| {
            self.queues.push(Queue { flow, waiting: VecDeque::new(), cost: 0, deficit: 0 });
            self.queues.len() as u32 - 1
        });
        let queue = &mut self.queues[place as usize];
        (queue.flow, queue.deficit) = (flow, 0);
        self.places.insert(flow, place);
        self.turns.push_back(place);
        place as usize
    }

    fn append(&mut self, now: Time, entry: T) {
        let (cost, place) = (self.cost(&entry), self.place(entry.flow()));
        let queue = &mut self.queues[place];
        queue.waiting.push_back((now, entry));
        queue.cost += cost;
        self.len += 1;
    }

    /// Takes an entry out of the queue at `turn`.
    fn take(
        &mut self,
        turn: usize,
        take: impl FnOnce(&mut VecDeque<(Time, T)>) -> Option<(Time, T)>,
    ) -> Option<T> {
        let place = self.turns[turn] as usize;
        let (_, entry) = take(&mut self.queues[place].waiting)?;
        let cost = self.cost(&entry);
        let queue = &mut self.queues[place];
        queue.cost -= cost;
        self.len -= 1;
        if queue.waiting.is_empty() {
            self.forget(turn);
        }
        Some(entry)
    }
}

impl<T: Entry> Discipline<T> for Flows<T> {
    fn push(&mut self, now: Time, entry: T) -> Pushed<T> {
        if self.len == self.capacity {
            return self.replace(now, entry);
        }
        self.append(now, entry);
        Pushed::Queued
    }

    fn pop(&mut self, _now: Time) -> Option<T> {
        loop {
            let place = *self.turns.front()? as usize;
            let cost = self.cost(&self.queues[place].waiting.front()?.1);
            let queue = &mut self.queues[place];
            if std::mem::take(&mut self.fresh) {
                queue.deficit += self.quantum.map_or(1, Bytes::get);
            }
            if cost <= queue.deficit {
                queue.deficit -= cost;
                return self.take(0, VecDeque::pop_front);
            }
            self.turns.rotate_left(1);
            self.fresh = true;
        }
    }

    fn len(&self) -> usize {
        self.len
    }

    /// Looks at every flow that waits.
    fn oldest(&self) -> Option<Time> {
        self.turns
            .iter()
            .filter_map(|&place| self.queues[place as usize].waiting.front())
            .map(|&(at, _)| at)
            .min()
    }

    /// Before its own flow's older entries, at most `capacity - 1`, and itself,
    /// each of the other flows, as many at the most, has one turn: of one
    /// entry, or of a quantum and what it carried over in entries of one byte.
    fn starvation(&self) -> Starvation {
        let turn = self.quantum.map_or(1, |quantum| quantum.get().saturating_mul(2) - 1);
        let (others, turns) = (self.capacity as u64 - 1, self.capacity as u64);
        Starvation::Bounded {
            entries: others.saturating_add(turns.saturating_mul(others).saturating_mul(turn)),
        }
    }

    /// The newest of the longest queue.
    fn evict(&mut self, _now: Time) -> Option<T> {
        let (turn, _) = self.longest()?;
        self.take(turn, VecDeque::pop_back)
    }

    fn replace(&mut self, now: Time, entry: T) -> Pushed<T> {
        let own = self.places.get(&entry.flow()).map_or(0, |&place| self.queues[place as usize].cost);
        match self.longest() {
            Some((_, longest)) if self.push_out && own + self.cost(&entry) < longest => {
                let gone = self.evict(now);
                self.append(now, entry);
                gone.map_or(Pushed::Queued, Pushed::PushedOut)
            }
            _ => Pushed::Refused(entry),
        }
    }
}
