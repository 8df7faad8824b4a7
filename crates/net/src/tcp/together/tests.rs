//! What a device cuts is what would have been sent singly, and leaves the same.

use proptest::collection::vec;
use proptest::prelude::*;

use crate::stack::twins::{Step, World, step};

/// A step with much to send, and a device that has room for it.
fn generous() -> impl Strategy<Value = Step> {
    prop_oneof![
        2 => (0..2usize, 1..40_000usize).prop_map(|(host, len)| Step::Send { host, len }),
        7 => step().prop_map(|step| match step {
            Step::Egress { host, early, .. } => Step::Egress { host, early, room: usize::MAX },
            step => step,
        }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn what_a_device_cuts_is_what_goes_out_singly(kind in 0u8..10, steps in vec(generous(), 1..160)) {
        let (mut singly, mut together) = (World::new(kind, false), World::new(kind, true));
        for step in steps {
            let (one, other) = (singly.take(step), together.take(step));
            // Egress tells how many frames there were.
            if !matches!(step, Step::Egress { .. }) {
                prop_assert_eq!(other, one, "{:?}", step);
            }
            prop_assert_eq!(together.state(), singly.state(), "{:?}", step);
        }
    }
}

#[test]
fn a_window_leaves_in_one_frame_and_what_paces_or_marks_does_not() {
    for (kind, frames) in [(9, 1), (1, 0), (2, 0)] {
        let mut world = World::new(kind, true);
        world.take(Step::Send { host: 0, len: 5000 });
        world.take(Step::Egress { host: 0, early: false, room: usize::MAX });
        assert_eq!(world.wires[0].cut, frames, "kind {kind}");
    }
}
