//! A place of its own for every flow of which something waits: what [`Flows`]
//! and [`RankedFlows`] share.
//!
//! A lane is opened for a flow that appears and closed when the discipline
//! says so; the next flow gets it as it was left, memory and all.
//!
//! [`Flows`]: super::Flows
//! [`RankedFlows`]: super::RankedFlows

use std::collections::HashMap;
use std::ops::{Index, IndexMut};

use foldhash::fast::FixedState;

use super::FlowId;

#[derive(Clone, Debug)]
pub(super) struct Lanes<L> {
    lanes: Vec<(FlowId, L)>,
    closed: Vec<u32>,
    /// Where the lane of a flow is: found by number, never iterated. The hash
    /// is fixed so that runs replay; whoever makes flows collide makes a look-up
    /// as long as the lanes that are open, which the discipline bounds.
    places: HashMap<FlowId, u32, FixedState>,
    /// What a lane is at first.
    new: L,
}

impl<L: Clone> Lanes<L> {
    pub fn new(new: L) -> Self {
        Self { lanes: Vec::new(), closed: Vec::new(), places: HashMap::default(), new }
    }

    /// The lane of `flow`, if it has one.
    pub fn get(&self, flow: FlowId) -> Option<u32> {
        self.places.get(&flow).copied()
    }

    /// Opens a lane for `flow`, which has none.
    pub fn open(&mut self, flow: FlowId) -> u32 {
        let place = self.closed.pop().unwrap_or_else(|| {
            self.lanes.push((flow, self.new.clone()));
            self.lanes.len() as u32 - 1
        });
        self.lanes[place as usize].0 = flow;
        self.places.insert(flow, place);
        place
    }

    pub fn close(&mut self, place: u32) {
        self.places.remove(&self.lanes[place as usize].0);
        self.closed.push(place);
    }

    /// What a lane is at first.
    pub fn first(&self) -> &L {
        &self.new
    }

    /// Every lane, those that are closed too.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &L)> {
        self.lanes.iter().enumerate().map(|(place, (_, lane))| (place as u32, lane))
    }
}

impl<L> Index<u32> for Lanes<L> {
    type Output = L;

    fn index(&self, place: u32) -> &L {
        &self.lanes[place as usize].1
    }
}

impl<L> IndexMut<u32> for Lanes<L> {
    fn index_mut(&mut self, place: u32) -> &mut L {
        &mut self.lanes[place as usize].1
    }
}
