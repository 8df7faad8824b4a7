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
    flows: FlowTable<FlowQueue<T>>,
    /// Backlogged flows, by the rank of the next entry.
    order: RankIndex<FlowSlot>,
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
    handle: Option<EntryHandle>,
}

/// Index of a backlogged flow.
#[derive(Clone, Copy, Debug)]
struct FlowSlot(u32);

impl Entry for FlowSlot {
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
            flows: FlowTable::new(FlowQueue { queue, rank: 0, handle: None }),
            order,
            rank,
            len: 0,
            capacity,
        }
    }
}

impl<T: Entry + Clone, F: Fn(&T) -> u64> FlowPifo<T, F> {
    /// Inserts the flow at `slot` by its next entry's rank, or closes it if empty.
    fn reinsert(&mut self, slot: u32) {
        let state = &mut self.flows[slot];
        let Some(next) = state.queue.peek() else {
            state.handle = None;
            return self.flows.close(slot);
        };
        state.rank = (self.rank)(next);
        match self.order.push(Time::ZERO, state.rank, FlowSlot(slot)) {
            PushResult::Queued => state.handle = self.order.newest(),
            PushResult::Refused(_) | PushResult::PushedOut(_) => {
                unreachable!("more backlogged flows than entries")
            }
        }
    }

    fn append(&mut self, now: Time, entry: T) {
        let flow = entry.flow();
        let slot = self.flows.get(flow).unwrap_or_else(|| self.flows.open(flow));
        let state = &mut self.flows[slot];
        match state.queue.push(now, entry) {
            PushResult::Queued => self.len += 1,
            PushResult::Refused(_) | PushResult::PushedOut(_) => {
                unreachable!("a flow's queue is below capacity")
            }
        }
        if state.handle.is_none() {
            self.reinsert(slot);
        }
    }

    /// Flow of the greatest rank, and that rank; the last of equals.
    fn last(&self) -> Option<(u32, u64)> {
        let waiting = self.flows.iter().filter(|(_, state)| state.handle.is_some());
        waiting.map(|(slot, state)| (slot, state.rank)).max_by_key(|&(_, rank)| rank)
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
        let FlowSlot(slot) = self.order.pop(PrioritySet::ALL)?;
        let entry = self.flows[slot].queue.pop(now)?;
        self.len -= 1;
        self.reinsert(slot);
        Some(entry)
    }

    fn len(&self) -> usize {
        self.len
    }

    /// O(flows).
    fn oldest(&self) -> Option<Time> {
        self.flows.iter().filter_map(|(_, state)| state.queue.oldest()).min()
    }

    fn starvation(&self) -> StarvationBound {
        StarvationBound::Unbounded { from: Priority::HIGHEST }
    }

    /// Evicts the newest entry of the flow with the greatest rank.
    fn evict(&mut self, now: Time) -> Option<T> {
        let (slot, _) = self.last()?;
        let state = &mut self.flows[slot];
        let entry = state.queue.evict(now)?;
        self.len -= 1;
        if state.queue.is_empty() {
            if let Some(handle) = state.handle.take() {
                self.order.remove(handle);
            }
            self.flows.close(slot);
        }
        Some(entry)
    }

    fn replace(&mut self, now: Time, entry: T) -> PushResult<T> {
        let own = self.flows.get(entry.flow()).map(|slot| self.flows[slot].rank);
        let own = own.unwrap_or_else(|| (self.rank)(&entry));
        match self.last() {
            Some((_, most)) if own < most => {
                let evicted = self.evict(now);
                self.append(now, entry);
                evicted.map_or(PushResult::Queued, PushResult::PushedOut)
            }
            _ => PushResult::Refused(entry),
        }
    }
}
