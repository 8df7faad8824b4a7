//! A place of its own for every flow of which something waits: what [`FairQueue`]
//! and [`FlowPifo`] share.
//!
//! A lane is opened for a flow that appears and closed when the discipline
//! says so; the next flow gets it as it was left, memory and all. Most queues
//! hold few flows and there are thousands of queues: a lane is a cache line, and
//! which is whose is read from one or two more.
//!
//! [`FairQueue`]: super::Flows
//! [`FlowPifo`]: super::RankedFlows

use std::collections::HashMap;
use std::ops::{Index, IndexMut};

use foldhash::fast::FixedState;

use super::FlowId;

#[derive(Clone, Debug)]
pub(super) struct FlowTable<L> {
    lanes: Vec<Slot<L>>,
    closed: Vec<u32>,
    places: Places,
    /// What a lane is at first.
    new: Box<L>,
}

/// A lane and whose it is, or was last.
#[derive(Clone, Debug)]
#[repr(align(64))]
struct Slot<L> {
    flow: FlowId,
    lane: L,
}

/// Where the lane of each flow is that has one.
#[derive(Clone, Debug)]
enum Places {
    /// Each is looked at.
    Few(Vec<(FlowId, u32)>),
    /// The hash is fixed so that runs replay; whoever makes flows collide makes
    /// a look-up as long as the lanes that are open, which the discipline bounds.
    Many(HashMap<FlowId, u32, FixedState>),
}

/// More are many, until half as many are left.
const FEW: usize = 8;

impl<L: Clone> FlowTable<L> {
    pub fn new(new: L) -> Self {
        Self { lanes: Vec::new(), closed: Vec::new(), places: Places::Few(Vec::new()), new: Box::new(new) }
    }

    /// The lane of `flow`, if it has one.
    #[inline]
    pub fn get(&self, flow: FlowId) -> Option<u32> {
        self.places.get(flow)
    }

    /// Opens a lane for `flow`, which has none.
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

    /// What a lane is at first.
    pub fn first(&self) -> &L {
        &self.new
    }

    /// Every lane, those that are closed too.
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
                    // In whatever order: each is found by number.
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
        /// Each step opens the lane of a flow that has none, or closes the one it has.
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
            prop_assert!(most <= 3 * FEW, "who closed a lane left it to the next: {most}");
        }
    }
}
