//! Table of per-flow state, shared by [`FairQueue`] and [`FlowPifo`].
//!
//! The discipline opens an entry for a new flow and closes it; the next flow
//! reuses it as it was left, with its memory. Most queues hold few flows, and
//! there are thousands of queues: an entry is a cache line, and a lookup reads
//! one or two more.
//!
//! [`FairQueue`]: super::FairQueue
//! [`FlowPifo`]: super::FlowPifo

use std::collections::HashMap;
use std::ops::{Index, IndexMut};

use foldhash::fast::FixedState;

use super::FlowId;

#[derive(Clone, Debug)]
pub(super) struct FlowTable<L> {
    slots: Vec<Slot<L>>,
    free: Vec<u32>,
    lookup: Lookup,
    /// Initial state of an entry.
    initial: Box<L>,
}

/// Entry of the table: a flow's state, and the flow that uses or last used it.
#[derive(Clone, Debug)]
#[repr(align(64))]
struct Slot<L> {
    flow: FlowId,
    state: L,
}

/// Index from flow to slot.
#[derive(Clone, Debug)]
enum Lookup {
    /// Searched linearly.
    Few(Vec<(FlowId, u32)>),
    /// Hash table with a fixed hash, so that runs replay. Colliding flows make a
    /// lookup linear in the open entries, which the discipline bounds.
    Many(HashMap<FlowId, u32, FixedState>),
}

/// Size above which the hash table is used; below half of it, the list again.
const FEW: usize = 8;

impl<L: Clone> FlowTable<L> {
    pub fn new(initial: L) -> Self {
        Self {
            slots: Vec::new(),
            free: Vec::new(),
            lookup: Lookup::Few(Vec::new()),
            initial: Box::new(initial),
        }
    }

    /// Slot of `flow`, if it is open.
    #[inline]
    pub fn get(&self, flow: FlowId) -> Option<u32> {
        self.lookup.get(flow)
    }

    /// Opens a slot for `flow`, which has none.
    pub fn open(&mut self, flow: FlowId) -> u32 {
        let index = match self.free.pop() {
            Some(index) => {
                self.slots[index as usize].flow = flow;
                index
            }
            None => {
                self.slots.push(Slot { flow, state: (*self.initial).clone() });
                self.slots.len() as u32 - 1
            }
        };
        self.lookup.insert(flow, index);
        index
    }

    pub fn close(&mut self, index: u32) {
        self.lookup.remove(self.slots[index as usize].flow);
        self.free.push(index);
    }

    /// Initial state of an entry.
    pub fn initial(&self) -> &L {
        &self.initial
    }

    /// All slots, including closed ones.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &L)> {
        self.slots.iter().enumerate().map(|(index, slot)| (index as u32, &slot.state))
    }
}

impl Lookup {
    #[inline]
    fn get(&self, flow: FlowId) -> Option<u32> {
        match self {
            Self::Few(entries) => entries.iter().find(|&&(other, _)| other == flow).map(|&(_, index)| index),
            Self::Many(entries) => entries.get(&flow).copied(),
        }
    }

    fn insert(&mut self, flow: FlowId, index: u32) {
        match self {
            Self::Few(entries) if entries.len() < FEW => entries.push((flow, index)),
            Self::Few(entries) => {
                let all = entries.drain(..).chain([(flow, index)]);
                *self = Self::Many(all.collect());
            }
            Self::Many(entries) => {
                entries.insert(flow, index);
            }
        }
    }

    fn remove(&mut self, flow: FlowId) {
        match self {
            Self::Few(entries) => {
                let at = entries.iter().position(|&(other, _)| other == flow);
                at.map(|at| entries.swap_remove(at));
            }
            Self::Many(entries) => {
                entries.remove(&flow);
                if entries.len() <= FEW / 2 {
                    // In hash order: lookups search for the flow.
                    *self = Self::Few(entries.drain().collect());
                }
            }
        }
    }
}

impl<L> Index<u32> for FlowTable<L> {
    type Output = L;

    fn index(&self, index: u32) -> &L {
        &self.slots[index as usize].state
    }
}

impl<L> IndexMut<u32> for FlowTable<L> {
    fn index_mut(&mut self, index: u32) -> &mut L {
        &mut self.slots[index as usize].state
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::collection::vec;
    use proptest::prelude::{prop_assert, prop_assert_eq, proptest};

    use super::*;

    proptest! {
        /// Each step opens the slot of a flow that has none, or closes it.
        #[test]
        fn every_flow_has_its_own_table_entry(steps in vec(0..3 * FEW as u64, 0..400)) {
            let (mut slots, mut model) = (FlowTable::new(()), BTreeMap::new());
            for flow in steps.into_iter().map(FlowId) {
                match model.remove(&flow) {
                    Some(index) => slots.close(index),
                    None => {
                        let index = slots.open(flow);
                        prop_assert!(model.values().all(|&other| other != index));
                        model.insert(flow, index);
                    }
                }
                for flow in (0..3 * FEW as u64).map(FlowId) {
                    prop_assert_eq!(slots.get(flow), model.get(&flow).copied());
                }
            }
            let count = slots.iter().count();
            prop_assert!(count <= 3 * FEW, "closed slots are reused: {count}");
        }
    }
}
