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
    lanes: Vec<Slot<L>>,
    closed: Vec<u32>,
    places: Places,
    /// Initial state of an entry.
    new: Box<L>,
}

/// State of a flow, and its current or last flow.
#[derive(Clone, Debug)]
#[repr(align(64))]
struct Slot<L> {
    flow: FlowId,
    lane: L,
}

/// Index from flow to slot.
#[derive(Clone, Debug)]
enum Places {
    /// Searched linearly.
    Few(Vec<(FlowId, u32)>),
    /// Hash table with a fixed hash, so that runs replay. Colliding flows make a
    /// lookup linear in the open entries, which the discipline bounds.
    Many(HashMap<FlowId, u32, FixedState>),
}

/// Size above which the hash table is used; below half of it, the list again.
const FEW: usize = 8;

impl<L: Clone> FlowTable<L> {
    pub fn new(new: L) -> Self {
        Self { lanes: Vec::new(), closed: Vec::new(), places: Places::Few(Vec::new()), new: Box::new(new) }
    }

    /// Slot of `flow`, if it is open.
    #[inline]
    pub fn get(&self, flow: FlowId) -> Option<u32> {
        self.places.get(flow)
    }

    /// Opens a slot for `flow`, which has none.
    pub fn open(&mut self, flow: FlowId) -> u32 {
        let place = match self.closed.pop() {
            Some(place) => {
                self.lanes[place as usize].flow = flow;
                place
            }
            None => {
                self.lanes.push(Slot { flow, lane: (*self.new).clone() });
                self.lanes.len() as u32 - 1
            }
        };
        self.places.insert(flow, place);
        place
    }

    pub fn close(&mut self, place: u32) {
        self.places.remove(self.lanes[place as usize].flow);
        self.closed.push(place);
    }

    /// Initial state of an entry.
    pub fn first(&self) -> &L {
        &self.new
    }

    /// All slots, including closed ones.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &L)> {
        self.lanes.iter().enumerate().map(|(place, slot)| (place as u32, &slot.lane))
    }
}

impl Places {
    #[inline]
    fn get(&self, flow: FlowId) -> Option<u32> {
        match self {
            Self::Few(places) => places.iter().find(|&&(other, _)| other == flow).map(|&(_, place)| place),
            Self::Many(places) => places.get(&flow).copied(),
        }
    }

    fn insert(&mut self, flow: FlowId, place: u32) {
        match self {
            Self::Few(places) if places.len() < FEW => places.push((flow, place)),
            Self::Few(places) => {
                let all = places.drain(..).chain([(flow, place)]);
                *self = Self::Many(all.collect());
            }
            Self::Many(places) => {
                places.insert(flow, place);
            }
        }
    }

    fn remove(&mut self, flow: FlowId) {
        match self {
            Self::Few(places) => {
                let at = places.iter().position(|&(other, _)| other == flow);
                at.map(|at| places.swap_remove(at));
            }
            Self::Many(places) => {
                places.remove(&flow);
                if places.len() <= FEW / 2 {
                    // In hash order: lookups search for the flow.
                    *self = Self::Few(places.drain().collect());
                }
            }
        }
    }
}

impl<L> Index<u32> for FlowTable<L> {
    type Output = L;

    fn index(&self, place: u32) -> &L {
        &self.lanes[place as usize].lane
    }
}

impl<L> IndexMut<u32> for FlowTable<L> {
    fn index_mut(&mut self, place: u32) -> &mut L {
        &mut self.lanes[place as usize].lane
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
        fn every_flow_has_a_lane_of_its_own_be_they_few_or_many(steps in vec(0..3 * FEW as u64, 0..400)) {
            let (mut lanes, mut model) = (FlowTable::new(()), BTreeMap::new());
            for flow in steps.into_iter().map(FlowId) {
                match model.remove(&flow) {
                    Some(place) => lanes.close(place),
                    None => {
                        let place = lanes.open(flow);
                        prop_assert!(model.values().all(|&other| other != place));
                        model.insert(flow, place);
                    }
                }
                for flow in (0..3 * FEW as u64).map(FlowId) {
                    prop_assert_eq!(lanes.get(flow), model.get(&flow).copied());
                }
            }
            let most = lanes.iter().count();
            prop_assert!(most <= 3 * FEW, "closed slots are reused: {most}");
        }
    }
}
