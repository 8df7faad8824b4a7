//! Promises of every policy, from one table, and the order of each.

use std::collections::BTreeSet;

use proptest::prelude::*;
use queueing::{DrrConfig, Priority, PrioritySet, StarvationBound};

use super::*;

mod darc;
mod steering;

fn task(token: u64, level: u8) -> Task {
    Task { token, label: Label::new(Priority::new(level).unwrap()), kind: None }
}

fn due(token: u64, deadline_us: u64) -> Task {
    let label = Label { deadline: Some(Span::from_micros(deadline_us)), ..Label::default() };
    Task { token, label, kind: None }
}

fn all_idle(workers: usize) -> IdleWorkers {
    IdleWorkers { accepting: [WorkerSet::first(workers); 8] }
}

fn at(us: u64) -> Time {
    Time::ZERO + Span::from_micros(us)
}

/// Pushes `tasks` 1 µs apart, then assigns all of them to one worker.
fn check(policy: &mut dyn Dispatch, tasks: &[Task], expected: &[u64]) {
    for (i, &task) in tasks.iter().enumerate() {
        policy.push(at(i as u64), task).unwrap();
    }
    let now = at(tasks.len() as u64);
    let order: Vec<u64> =
        std::iter::from_fn(|| policy.assign(now, &all_idle(1))).map(|(_, task)| task.token).collect();
    assert_eq!(order, expected);
    assert!(policy.is_empty());
}

//~ dispatch: FCFS serves in order of arrival
#[test]
fn fcfs_serves_in_order_of_arrival_whatever_the_priority() {
    let tasks = [task(1, 7), task(2, 0), task(3, 3), task(4, 0)];
    check(&mut fcfs(9), &tasks, &[1, 2, 3, 4]);
}

//~ dispatch: strict priority serves the most urgent, then the oldest
#[test]
fn strict_serves_the_most_urgent_and_then_the_oldest() {
    let tasks = [task(1, 7), task(2, 3), task(3, 0), task(4, 3), task(5, 0)];
    check(&mut strict(9), &tasks, &[3, 5, 2, 4, 1]);
}

#[test]
fn edf_serves_the_earliest_deadline_and_applies_the_default_to_entries_without() {
    let tasks = [task(1, 0), due(2, 500), due(3, 50), due(4, 49), due(5, 90)];
    check(&mut edf(9, Span::from_micros(100)), &tasks, &[3, 4, 5, 1, 2]);
}

//~ dispatch: strict-edf serves the most urgent level first, and the earliest deadline within it
#[test]
fn strict_edf_serves_by_level_and_then_by_deadline() {
    let at_level = |token, level, us| {
        let deadline = Some(Span::from_micros(us));
        Task { label: Label { deadline, ..task(token, level).label }, ..task(token, level) }
    };
    let tasks = [task(1, 7), at_level(2, 7, 50), at_level(3, 3, 90), at_level(4, 3, 20), at_level(5, 0, 99)];
    check(&mut strict_edf(9, Span::from_micros(100)), &tasks, &[5, 4, 3, 2, 1]);
}

#[test]
fn weighted_shares_service_by_weight() {
    let shares = DrrConfig::by_count([2, 1, 1, 1, 1, 1, 1, 1], Span::MAX);
    let tasks: Vec<Task> = (0..6).map(|n| task(n, 0)).chain((6..9).map(|n| task(n, 7))).collect();
    check(&mut weighted(99, shares), &tasks, &[0, 1, 6, 2, 3, 7, 4, 5, 8]);
}

//~ dispatch: EDF and weighted with aging serve within their stated bounds
#[test]
fn aged_heads_get_every_ninth_turn() {
    let shares = DrrConfig::by_count([100, 1, 1, 1, 1, 1, 1, 1], Span::from_micros(3));
    let mut policy = weighted(99, shares);
    let mut tasks = vec![task(1, 7), task(2, 7)];
    tasks.extend((3..13).map(|token| task(token, 0)));
    check(&mut policy, &tasks, &[1, 3, 4, 5, 6, 7, 8, 9, 10, 2, 11, 12]);
}

//~ dispatch: EDF and weighted with aging serve within their stated bounds
#[test]
fn a_bounded_policy_serves_a_task_within_its_bound() {
    for entry in POLICIES {
        let mut policy = (entry.new)(&Params::new(1, 32));
        let StarvationBound::Bounded { entries } = policy.starvation() else { continue };
        for token in 0..20 {
            policy.push(Time::ZERO, task(token, 0)).unwrap();
        }
        policy.push(Time::ZERO, task(99, 7)).unwrap();
        let mut served = 0;
        loop {
            // Urgent work keeps arriving.
            policy.push(Time::ZERO, task(served + 100, 0)).unwrap();
            if policy.assign(Time::ZERO, &all_idle(1)).unwrap().1.token == 99 {
                break;
            }
            served += 1;
            assert!(served <= entries, "{}: {served} tasks were served first", entry.name);
        }
    }
}

//~ dispatch: EDF and weighted with aging serve within their stated bounds
#[test]
fn under_edf_nothing_pushed_after_a_task_is_due_goes_before_it() {
    let window = Span::from_micros(100);
    let mut policy = edf(32, window);
    assert_eq!(policy.starvation(), StarvationBound::Window { span: window });
    let far = Label { deadline: Some(Span::from_secs(9)), ..Label::default() };
    policy.push(Time::ZERO, Task { token: 0, label: far, kind: None }).unwrap();
    let last = (1..).find(|&us| {
        // Work due at once keeps arriving.
        policy.push(at(us), due(us, 0)).unwrap();
        policy.assign(at(us), &all_idle(1)).unwrap().1.token == 0
    });
    assert_eq!(last, Some(100));
}

#[test]
fn a_full_queue_returns_the_task() {
    for entry in POLICIES {
        let mut policy = (entry.new)(&Params::new(1, 2));
        policy.push(Time::ZERO, task(1, 0)).unwrap();
        policy.push(Time::ZERO, task(2, 7)).unwrap();
        assert_eq!(policy.push(Time::ZERO, task(3, 0)), Err(task(3, 0)), "{}", entry.name);
        assert_eq!(policy.len(), 2);
    }
}

#[test]
fn an_unknown_policy_is_refused_with_the_valid_names() {
    let error = by_name("sjf", &Params::new(1, 1)).err().unwrap();
    assert_eq!(
        error.to_string(),
        "policy \"sjf\" is not one of fcfs, strict, edf, strict-edf, weighted, darc"
    );
}

//~ dispatch: DARC bounds the number of request kinds, profiles exactly, and supports 256 workers
#[test]
fn worker_sets_hold_256_workers() {
    let all = WorkerSet::first(256);
    assert_eq!(all.len(), 256);
    assert!(all.iter().map(|w| usize::from(w.0)).eq(0..256));
    let mut last = WorkerSet::NONE;
    last.insert(WorkerId(255));
    assert_eq!((last.lowest(), last.len()), (Some(WorkerId(255)), 1));
    assert_eq!(all.and(&last), last);
    last.remove(WorkerId(255));
    assert!(last.is_empty() && last.lowest().is_none());
}

/// Events of the property tests.
#[derive(Clone, Debug)]
enum Act {
    Push {
        level: u8,
        kind: Option<u16>,
        deadline_us: Option<u64>,
    },
    /// Idle workers request tasks, each of some levels.
    Assign {
        busy: u8,
        levels: u8,
    },
    Done {
        kind: Option<u16>,
        service_us: u64,
    },
}

fn act() -> impl Strategy<Value = Act> {
    let kind = || prop::option::of(0u16..5);
    prop_oneof![
        3 => (0u8..8, kind(), prop::option::of(0u64..50))
            .prop_map(|(level, kind, deadline_us)| Act::Push { level, kind, deadline_us }),
        2 => (any::<u8>(), any::<u8>()).prop_map(|(busy, levels)| Act::Assign { busy, levels }),
        1 => (kind(), 0u64..100).prop_map(|(kind, service_us)| Act::Done { kind, service_us }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    //~ dispatch: every policy loses and duplicates nothing, and gives tasks only to workers that ask
    /// No task is lost or assigned twice, a worker is chosen only if it accepts the
    /// task, and the number of queued tasks is right.
    #[test]
    fn every_policy_meets_its_guarantees(
        acts in prop::collection::vec(act(), 1..150),
        workers in prop_oneof![1usize..9, Just(256)],
    ) {
        for entry in POLICIES {
            let mut params = Params::new(workers, 40);
            params.darc.samples = 10;
            let mut policy = (entry.new)(&params);
            let mut waiting: Vec<Task> = Vec::new();
            let mut assigned = BTreeSet::new();
            for (n, act) in acts.iter().enumerate() {
                let now = at(n as u64);
                match *act {
                    Act::Push { level, kind, deadline_us } => {
                        let label = Label {
                            priority: Priority::new(level).unwrap(),
                            deadline: deadline_us.map(Span::from_micros),
                        };
                        let task = Task { token: n as u64, label, kind: kind.map(RequestType) };
                        let pushed = policy.push(now, task);
                        prop_assert_eq!(pushed.is_ok(), waiting.len() < 40);
                        if pushed.is_ok() {
                            waiting.push(task);
                        }
                    }
                    Act::Assign { busy, levels } => {
                        let idle: WorkerSet = (0..workers)
                            .filter(|w| busy >> (w % 8) & 1 == 0)
                            .map(|w| WorkerId(w as u8))
                            .collect();
                        let accepting =
                            std::array::from_fn(|p| if levels >> p & 1 == 1 { idle } else { WorkerSet::NONE });
                        let idle = IdleWorkers { accepting };
                        let wanted = idle.wanted();
                        let Some((worker, task)) = policy.assign(now, &idle) else {
                            let conserving = entry.name != "darc";
                            let refused = waiting.iter().all(|t| !wanted.contains(t.label.priority));
                            prop_assert!(!conserving || refused, "{} left a task queued and a worker idle", entry.name);
                            continue;
                        };
                        prop_assert!(idle.accepting[task.label.priority.index()].contains(worker));
                        prop_assert!(assigned.insert(task.token), "{} assigned a task twice", entry.name);
                        let index = waiting.iter().position(|t| *t == task);
                        prop_assert!(index.is_some(), "{} assigned a task that was not queued", entry.name);
                        let candidates = || waiting.iter().filter(|t| wanted.contains(t.label.priority));
                        match entry.name {
                            "fcfs" => prop_assert_eq!(Some(&task), candidates().next()),
                            "strict" => {
                                prop_assert_eq!(Some(&task), candidates().min_by_key(|t| t.label.priority));
                            }
                            _ => {}
                        }
                        waiting.remove(index.unwrap());
                    }
                    Act::Done { kind, service_us } => {
                        policy.on_done(now, WorkerId(0), kind.map(RequestType), Span::from_micros(service_us));
                    }
                }
                prop_assert_eq!(policy.len(), waiting.len());
            }
            // Queued tasks are served once every worker accepts everything.
            let late = at(1_000);
            while let Some((_, task)) = policy.assign(late, &all_idle(workers)) {
                prop_assert!(assigned.insert(task.token));
                waiting.retain(|t| *t != task);
            }
            prop_assert!(waiting.is_empty(), "{} kept {:?}", entry.name, waiting);
        }
    }

    #[test]
    fn without_accepted_levels_nothing_is_assigned(level in 0u8..8) {
        for entry in POLICIES {
            let mut policy = (entry.new)(&Params::new(4, 4));
            policy.push(Time::ZERO, task(1, level)).unwrap();
            let idle = IdleWorkers { accepting: [WorkerSet::NONE; 8] };
            prop_assert_eq!(idle.wanted(), PrioritySet::NONE);
            prop_assert_eq!(policy.assign(Time::ZERO, &idle), None);
        }
    }
}
