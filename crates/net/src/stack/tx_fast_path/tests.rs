//! Fast paths have the output and state of the slow path.

use proptest::collection::vec;
use proptest::prelude::*;

use crate::stack::differential::{Step, World, step};
use crate::tcp::fast_path::testing::{DISABLED, USES};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn fast_path_and_full_path_give_the_same_results_and_state(kind in 0u8..10, steps in vec(step(), 1..160)) {
        DISABLED.set(true);
        let mut long = World::new(kind, false);
        DISABLED.set(false);
        let mut short = World::new(kind, false);
        for step in steps {
            DISABLED.set(true);
            let output = long.run(step);
            DISABLED.set(false);
            prop_assert_eq!(short.run(step), output, "{:?}", step);
            prop_assert_eq!(short.state(), long.state(), "{:?}", step);
        }
    }
}

#[test]
fn a_request_and_its_response_take_the_fast_path() {
    let mut world = World::new(9, false);
    for round in 0..10 {
        for host in [1, 0] {
            world.run(Step::Send { host, len: 64 });
            let before = USES.get();
            world.run(Step::Egress { host, early: true, capacity: 9 });
            world.run(Step::Arrive { host: 1 - host });
            assert_eq!(USES.get() - before, 2, "round {round}: one out, one in");
            world.run(Step::Read { host: 1 - host, part: 1 });
        }
    }
}
