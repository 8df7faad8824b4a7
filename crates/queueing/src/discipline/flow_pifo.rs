//! PIFO of flows: serves flows in order of a rank of their next entry.
//!
//! The rank decides between flows and never reorders one. With the remaining
//! size as rank it is shortest remaining processing time first (SRPT); with the
//! attained service, least attained service (LAS). Flows of equal rank take
//! turns. A full queue evicts the newest entry of the flow with the greatest
//! rank. No aging, on purpose: these orders are the bounds in comparisons.
//! Source: pFabric (Alizadeh et al., SIGCOMM '13) §4 (order and drops); Nuyens
//! and Wierman, Performance Evaluation 65 (2008) (least attained service).

use super::flow_table::FlowTable;
use super::rank_index::{EntryHandle, RankIndex};
use super::{Discipline, Entry, Fifo, PushResult, StarvationBound};
use crate::{Label, Priority, PrioritySet, Time};

/// Serves the flow whose next entry has the least rank; within a flow, in order
/// of arrival.
///
/// Starvation: unbounded.
#[derive(Clone, Debug)]
pub struct FlowPifo<T, F> {
    lanes: FlowTable<FlowQueue<T>>,
    /// Backlogged flows, by the rank of the next entry.
    order: RankIndex<Place>,
    rank: F,
    len: usize,
    capacity: usize,
}

#[derive(Clone, Debug)]
struct FlowQueue<T> {
    queue: Fifo<T>,
    /// Rank of the next entry.
    rank: u64,
    /// Handle in the order, while backlogged.
    ticket: Option<EntryHandle>,
}

/// Index of a backlogged flow.
#[derive(Clone, Copy, Debug)]
struct Place(u32);

impl Entry for Place {
    fn label(&self) -> Label {
        Label::default()
    }
}

impl<T: Clone, F> FlowPifo<T, F> {
    /// Queue of at most `capacity` entries over all flows, in the order of
    /// `rank(&entry)`. Memory grows with use and is kept.
    ///
    /// # Panics
    /// If `capacity` is zero or 2^32 - 1 and more.
    #[must_use]
    pub fn new(capacity: usize, rank: F) -> Self {
        let queue = Fifo::new(capacity);
        // One more during a replacement.
        let order = RankIndex::new(capacity + 1);
        Self {
            lanes: FlowTable::new(FlowQueue { queue, rank: 0, ticket: None }),
            order,
            rank,
            len: 0,
            capacity,
        }
    }
}

impl<T: Entry + Clone, F: Fn(&T) -> u64> FlowPifo<T, F> {
    /// Inserts the flow at `place` by its next entry's rank, or closes it if empty.
    fn settle(&mut self, place: u32) {
        let lane = &mut self.lanes[place];
        let Some(next) = lane.queue.peek() else {
            lane.ticket = None;
            return self.lanes.close(place);
        };
        lane.rank = (self.rank)(next);
        match self.order.push(Time::ZERO, lane.rank, Place(place)) {
            PushResult::Queued => lane.ticket = self.order.newest(),
            PushResult::Refused(_) | PushResult::PushedOut(_) => {
                unreachable!("more backlogged flows than entries")
            }
        }
    }

    fn append(&mut self, now: Time, entry: T) {
        let flow = entry.flow();
        let place = self.lanes.get(flow).unwrap_or_else(|| self.lanes.open(flow));
        let lane = &mut self.lanes[place];
        match lane.queue.push(now, entry) {
            PushResult::Queued => self.len += 1,
            PushResult::Refused(_) | PushResult::PushedOut(_) => {
                unreachable!("a flow's queue is below capacity")
            }
        }
        if lane.ticket.is_none() {
            self.settle(place);
        }
    }

    /// Flow of the greatest rank, and that rank; the last of equals.
    fn last(&self) -> Option<(u32, u64)> {
        let waiting = self.lanes.iter().filter(|(_, lane)| lane.ticket.is_some());
        waiting.map(|(place, lane)| (place, lane.rank)).max_by_key(|&(_, rank)| rank)
    }
}

impl<T: Entry + Clone, F: Fn(&T) -> u64> Discipline<T> for FlowPifo<T, F> {
    fn push(&mut self, now: Time, entry: T) -> PushResult<T> {
        if self.len == self.capacity {
            return self.replace(now, entry);
        }
        self.append(now, entry);
        PushResult::Queued
    }

    fn pop(&mut self, now: Time) -> Option<T> {
        let Place(place) = self.order.pop(PrioritySet::ALL)?;
        let entry = self.lanes[place].queue.pop(now)?;
        self.len -= 1;
        self.settle(place);
        Some(entry)
    }

    fn len(&self) -> usize {
        self.len
    }

    /// O(flows).
    fn oldest(&self) -> Option<Time> {
        self.lanes.iter().filter_map(|(_, lane)| lane.queue.oldest()).min()
    }

    fn starvation(&self) -> StarvationBound {
        StarvationBound::Unbounded { from: Priority::HIGHEST }
    }

    /// Evicts the newest entry of the flow with the greatest rank.
    fn evict(&mut self, now: Time) -> Option<T> {
        let (place, _) = self.last()?;
        let lane = &mut self.lanes[place];
        let entry = lane.queue.evict(now)?;
        self.len -= 1;
        if lane.queue.is_empty() {
            if let Some(ticket) = lane.ticket.take() {
                self.order.remove(ticket);
            }
            self.lanes.close(place);
        }
        Some(entry)
    }

    fn replace(&mut self, now: Time, entry: T) -> PushResult<T> {
        let own = self.lanes.get(entry.flow()).map(|place| self.lanes[place].rank);
        let own = own.unwrap_or_else(|| (self.rank)(&entry));
        match self.last() {
            Some((_, most)) if own < most => {
                let gone = self.evict(now);
                self.append(now, entry);
                gone.map_or(PushResult::Queued, PushResult::PushedOut)
            }
            _ => PushResult::Refused(entry),
        }
    }
}
