//! Steering lists: their meaning and their errors.

use super::*;

type Lists<'a> = &'a [(&'a str, &'a [usize])];

fn check(lists: Lists<'_>, expected: Result<&[(u8, &[u8])], &str>) {
    match (Steering::from_lists(4, lists.iter().copied()), expected) {
        (Ok(steering), Ok(sets)) => {
            for (level, workers) in sets {
                let got: Vec<u8> = steering.sets()[usize::from(*level)].iter().map(|w| w.0).collect();
                assert_eq!(&got, workers, "level {level}");
            }
        }
        (Err(error), Err(text)) => assert_eq!(error.to_string(), text),
        (got, expected) => panic!("{got:?} is not {expected:?}"),
    }
}

//~ mechanisms: M7: steered priorities stay on their workers under every policy; impossible lists are refused
#[test]
fn a_list_steers_its_levels_and_leaves_the_others_to_everyone() {
    check(&[("low", &[3])], Ok(&[(0, &[0, 1, 2, 3]), (3, &[0, 1, 2, 3]), (4, &[3]), (7, &[3])]));
    check(&[("0", &[0, 1]), ("2-5", &[2])], Ok(&[(0, &[0, 1]), (1, &[0, 1, 2, 3]), (2, &[2]), (5, &[2])]));
}

//~ mechanisms: M7: steered priorities stay on their workers under every policy; impossible lists are refused
#[test]
fn levels_without_a_worker_are_refused_with_the_valid_steering() {
    check(&[("low", &[])], Err("steering low: [] lists no worker; list workers of 0..=3"));
    check(&[("low", &[4])], Err("steering low: worker 4 is outside 0..=3"));
    check(
        &[("slow", &[1])],
        Err("steering \"slow\" is no level 0..=7, range such as 2-5, \"high\" (0-3) or \"low\" (4-7)"),
    );
    check(
        &[("5-2", &[1])],
        Err("steering \"5-2\" is no level 0..=7, range such as 2-5, \"high\" (0-3) or \"low\" (4-7)"),
    );
    check(
        &[("low", &[1]), ("5", &[2])],
        Err("steering 5: level 5 is named by another line; name each level once"),
    );
    assert_eq!(
        Steering::from_lists(257, []).map_err(|e| e.to_string()),
        Err("workers 257 is outside 1..=256".to_owned())
    );
}

//~ mechanisms: M7: steered priorities stay on their workers under every policy; impossible lists are refused
#[test]
fn under_every_policy_steered_tasks_stay_on_their_workers() {
    for entry in POLICIES {
        let mut policy = (entry.new)(&Params::new(4, 4));
        let steering = Steering::from_lists(4, [("low", &[3][..])]).unwrap();
        let without_3 = steering.sets().map(|set| set.and(&WorkerSet::first(3)));
        policy.push(Time::ZERO, task(1, 7)).unwrap();
        policy.push(Time::ZERO, task(2, 0)).unwrap();
        let idle = IdleWorkers { accepting: without_3 };
        assert_eq!(policy.assign(Time::ZERO, &idle).unwrap().1.token, 2, "{}", entry.name);
        assert_eq!(policy.assign(Time::ZERO, &idle), None, "{}", entry.name);
        let idle = IdleWorkers { accepting: steering.sets() };
        assert_eq!(policy.assign(Time::ZERO, &idle), Some((WorkerId(3), task(1, 7))), "{}", entry.name);
    }
}
