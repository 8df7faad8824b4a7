//! Equivalence of segments split by a device and segments sent one by one.

use proptest::collection::vec;
use proptest::prelude::*;

use crate::stack::differential::{Step, World, step};

/// Step with much data, and a device with unlimited space.
fn generous() -> impl Strategy<Value = Step> {
    prop_oneof![
        2 => (0..2usize, 1..40_000usize).prop_map(|(host, len)| Step::Send { host, len }),
        7 => step().prop_map(|step| match step {
            Step::Egress { host, early, .. } => Step::Egress { host, early, capacity: usize::MAX },
            step => step,
        }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    //~ devices: segmentation offload (TSO) puts the same bytes on the wire as single segments
    #[test]
    fn frames_that_a_device_segments_equal_single_segments(kind in 0u8..10, steps in vec(generous(), 1..160)) {
        let (mut singly, mut together) = (World::new(kind, false), World::new(kind, true));
        for step in steps {
            let (one, other) = (singly.run(step), together.run(step));
            // Egress returns the number of frames, which differs.
            if !matches!(step, Step::Egress { .. }) {
                prop_assert_eq!(other, one, "{:?}", step);
            }
            prop_assert_eq!(together.state(), singly.state(), "{:?}", step);
        }
    }
}

//~ devices: segmentation offload (TSO) puts the same bytes on the wire as single segments
#[test]
fn a_window_leaves_in_one_frame_unless_it_is_paced_or_marked() {
    for (kind, frames) in [(9, 1), (1, 0), (2, 0)] {
        let mut world = World::new(kind, true);
        world.run(Step::Send { host: 0, len: 5000 });
        world.run(Step::Egress { host: 0, early: false, capacity: usize::MAX });
        assert_eq!(world.wires[0].segmented, frames, "kind {kind}");
    }
}

#[test]
fn a_path_mtu_probe_is_not_segmented() {
    let mut world = World::new(9, true);
    let egress = |host| Step::Egress { host, early: false, capacity: usize::MAX };
    for step in [Step::Send { host: 0, len: 1400 }, egress(0), Step::Narrow { host: 0, mtu: 600 }] {
        world.run(step);
    }
    // Runs the exchange; collects the result of each egress of host 0.
    let exchange = |world: &mut World| {
        let mut flights = Vec::new();
        for host in [0, 1, 0, 1, 0, 1, 0, 1] {
            world.run(egress(host));
            if host == 0 {
                flights.push(world.lens(0));
            }
            while !world.lens(host).is_empty() {
                world.run(Step::Arrive { host: 1 - host });
            }
            world.run(Step::Read { host: 1 - host, part: 1 });
            world.run(Step::Wait { us: 100 });
        }
        flights
    };
    exchange(&mut world);
    // The path is probed for a larger MTU after ten minutes.
    (0..11).for_each(|_| drop(world.run(Step::Wait { us: 60_000_000 })));
    world.run(Step::Send { host: 0, len: 30_000 });
    let long = |flight: &Vec<usize>| flight.iter().filter(|&&len| len > 614).count();
    let flights = exchange(&mut world);
    let probes = flights.iter().map(long).find(|&probes| probes > 0);
    assert_eq!((probes, world.wires[0].segmented), (Some(1), 0), "{flights:?}");
}
