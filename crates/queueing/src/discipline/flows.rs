//! Round robin over flows: nobody waits behind another's burst.
//!
//! Each flow has a queue of its own for as long as something of it waits. The
//! queues take turns, each of one entry or, where entries differ in size, of a
//! quantum of bytes; a flow that appears takes its first turn after those who
//! are there. Under strict levels this is FISH's queue.
//!
//! Room is shared by all flows. With push-out, the flow that has asked for most
//! since it has a queue gives up its newest entry for one that has asked for
//! less, so that a long flow loses its own packets and not those of a short
//! one that came after it.
//! Source: FISH §3 (round robin, queues made and removed as flows come and
//! go); Shreedhar and Varghese, SIGCOMM '95 (deficits). Push-out is ours: of the
//! longest queue, as McKenney has it (INFOCOM '90), but what was served counts
//! too, as least attained service has it.

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
    /// What waits and what was served since the queue was made cost so much.
    asked: u64,
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

    /// When full, lets an entry take the place of the newest one of the flow
    /// that has asked for most, unless its own would then have asked for as
    /// much. Costs a look at every flow that waits.
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

    /// The flow that has asked for most, and how much; the last of equals in
    /// the order of turns.
    fn greediest(&self) -> Option<(usize, u64)> {
        let asked = self.turns.iter().map(|&place| self.queues[place as usize].asked);
        asked.enumerate().max_by_key(|&(_, asked)| asked)
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
            self.queues.push(Queue { flow, waiting: VecDeque::new(), asked: 0, deficit: 0 });
            self.queues.len() as u32 - 1
        });
        let queue = &mut self.queues[place as usize];
        (queue.flow, queue.asked, queue.deficit) = (flow, 0, 0);
        self.places.insert(flow, place);
        self.turns.push_back(place);
        place as usize
    }

    fn append(&mut self, now: Time, entry: T) {
        let (cost, place) = (self.cost(&entry), self.place(entry.flow()));
        let queue = &mut self.queues[place];
        queue.waiting.push_back((now, entry));
        queue.asked += cost;
        self.len += 1;
    }

    /// An entry was taken out of the queue at `turn`.
    fn taken(&mut self, turn: usize, (_, entry): (Time, T)) -> T {
        self.len -= 1;
        if self.queues[self.turns[turn] as usize].waiting.is_empty() {
            self.forget(turn);
        }
        entry
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
                let entry = queue.waiting.pop_front()?;
                return Some(self.taken(0, entry));
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

    /// The newest of the flow that has asked for most.
    fn evict(&mut self, _now: Time) -> Option<T> {
        let (turn, _) = self.greediest()?;
        let place = self.turns[turn] as usize;
        let entry = self.queues[place].waiting.pop_back()?;
        self.queues[place].asked -= self.cost(&entry.1);
        Some(self.taken(turn, entry))
    }

    fn replace(&mut self, now: Time, entry: T) -> Pushed<T> {
        let own = self.places.get(&entry.flow()).map_or(0, |&place| self.queues[place as usize].asked);
        match self.greediest() {
            Some((_, most)) if self.push_out && own + self.cost(&entry) < most => {
                let gone = self.evict(now);
                self.append(now, entry);
                gone.map_or(Pushed::Queued, Pushed::PushedOut)
            }
            _ => Pushed::Refused(entry),
        }
    }
}
