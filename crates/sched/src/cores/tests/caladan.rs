//! Order in which caladan grants cores, and what its controllers take.

use super::*;

const LC: TaskSpec = TaskSpec::critical(2);
const BE: TaskSpec = TaskSpec::best_effort();

#[test]
fn be_gets_the_cores_that_lc_does_not_use() {
    let (mut assignment, mut caladan) = setup("caladan", (2, 2), &[LC, BE]);
    let idle = signals(&assignment, &[(0, 0), (9, 0)]);
    caladan.round(at(0), &idle, &mut assignment);
    assert_eq!(shown(&assignment), "bbbb");
}

//~ cores: C3: a queue older than the threshold takes one core per round, by the score of cores
#[test]
fn a_queue_older_than_the_threshold_takes_one_core_a_round() {
    let (mut assignment, mut caladan) = setup("caladan", (3, 2), &[LC, BE]);
    let rounds = [
        (10, (0, 0), "bbbbbb"),
        (20, (1, 5), "abbbbb"),  // work and no core
        (30, (4, 11), "abbbbb"), // the granted core has had no effect yet
        (40, (4, 10), "abbbbb"),
        (50, (4, 11), "ababbb"),
        (60, (4, 21), "ababbb"),
        (70, (4, 31), "ababab"),
        (80, (4, 0), "ababab"),
    ];
    for (us, lc, expected) in rounds {
        let signals = signals(&assignment, &[lc, (9, 0)]);
        caladan.round(at(us), &signals, &mut assignment);
        assert_eq!(shown(&assignment), expected, "at {us} µs");
    }
}

//~ cores: C3: a queue older than the threshold takes one core per round, by the score of cores
#[test]
fn idle_siblings_are_preferred_then_siblings_of_other_tasks_then_the_last_used_core() {
    let (mut assignment, mut caladan) = setup("caladan", (3, 2), &[LC, LC]);
    assignment.set(at(0), CoreId(0), CoreState::Granted(TaskId(0)));
    assignment.set(at(0), CoreId(2), CoreState::Granted(TaskId(1)));
    let signals = signals(&assignment, &[(9, 99), (1, 0)]);
    caladan.round(at(100), &signals, &mut assignment);
    assert_eq!(shown(&assignment), "a.b.a.", "both lanes of the third physical core were idle");
    caladan.round(at(200), &signals, &mut assignment);
    assert_eq!(shown(&assignment), "a.baa.", "beside another task");
    caladan.round(at(300), &signals, &mut assignment);
    assert_eq!(shown(&assignment), "aabaa.", "beside itself, the lower number of equals");
}

//~ cores: C3: a queue older than the threshold takes one core per round, by the score of cores
#[test]
fn be_never_preempts_lc_but_alternates_with_be() {
    let (mut assignment, mut caladan) = setup("caladan", (1, 2), &[TaskSpec::critical(1), BE, BE]);
    assignment.set(at(0), CoreId(0), CoreState::Granted(TaskId(0)));
    assignment.set(at(0), CoreId(1), CoreState::Granted(TaskId(1)));
    let signals = signals(&assignment, &[(1, 0), (9, 0), (9, 0)]);
    for (us, expected) in [(10, "ab"), (1_900, "ab"), (2_010, "ac"), (2_020, "ac"), (4_020, "ab")] {
        caladan.round(at(us), &signals, &mut assignment);
        assert_eq!(shown(&assignment), expected, "at {us} µs");
    }
}

//~ cores: C3: a queue older than the threshold takes one core per round, by the score of cores
#[test]
fn a_guarantee_preempts_cores_beyond_anothers_guarantee() {
    let (mut assignment, mut caladan) =
        setup("caladan", (2, 1), &[TaskSpec::critical(1), TaskSpec::critical(1)]);
    assignment.set(at(0), CoreId(0), CoreState::Granted(TaskId(0)));
    assignment.set(at(0), CoreId(1), CoreState::Granted(TaskId(0)));
    let signals = signals(&assignment, &[(9, 50), (1, 0)]);
    caladan.round(at(10), &signals, &mut assignment);
    assert_eq!(shown(&assignment).matches('b').count(), 1, "{}", shown(&assignment));
    caladan.round(at(50), &signals, &mut assignment);
    assert_eq!(shown(&assignment).matches('a').count(), 1, "and not more than that: {}", shown(&assignment));
}

//~ cores: a service with late requests takes a core before the longest wait
#[test]
fn a_task_behind_its_deadline_gets_a_core_before_the_longest_waiting_task() {
    for (delay_us, late, expected) in
        [(9, [false, false], "c"), (9, [true, false], "a"), (9_000, [false, true], "b")]
    {
        let lc = TaskSpec::critical(0);
        let (mut assignment, mut caladan) = setup("caladan", (1, 1), &[lc.clone(), lc, BE]);
        let mut signals = signals(&assignment, &[(0, 0), (0, 0), (9, 0)]);
        caladan.round(at(10), &signals, &mut assignment);
        assert_eq!(shown(&assignment), "c", "no LC needs a core");
        signals.tasks[0].delay = Span::from_micros(delay_us);
        (signals.tasks[0].late, signals.tasks[1].late) = (late[0], late[1]);
        caladan.round(at(30), &signals, &mut assignment);
        assert_eq!(shown(&assignment), expected, "{delay_us} µs, {late:?}");
    }
}

/// Runs `rounds` of 10 µs at `gb` GB/s; in each, a core's counter rises by its `misses`.
fn saturate(
    assignment: &mut CoreAssignment,
    policy: &mut dyn Policy,
    wants: &[(u32, u64)],
    gb: f64,
    misses: &[u64],
    rounds: std::ops::Range<u64>,
) {
    for round in rounds {
        let mut signals = signals(assignment, wants);
        signals.bandwidth.fill(Some(gb * 1e9));
        for (core, &per_round) in signals.cores.iter_mut().zip(misses) {
            core.sample = Some(Sample { misses: per_round * round, at: at(10 * round) });
        }
        policy.round(at(10 * round), &signals, assignment);
    }
}

//~ cores: C4: over the memory bandwidth the task with most misses loses one core per round
#[test]
fn over_the_bandwidth_the_task_with_most_misses_loses_its_worst_core_every_round() {
    let (mut assignment, mut caladan) = setup("caladan", (4, 1), &[TaskSpec::critical(1), BE]);
    (0..4).for_each(|core| {
        assignment.set(at(0), CoreId(core), CoreState::Granted(TaskId(u16::from(core > 0))))
    });
    let (wants, misses) = ([(1, 0), (9, 0)], [70, 10, 90, 50]);
    saturate(&mut assignment, &mut *caladan, &wants, 26.0, &misses, 1..3);
    assert_eq!(shown(&assignment), "abbb", "detected, and sampled once");
    saturate(&mut assignment, &mut *caladan, &wants, 26.0, &misses, 3..4);
    assert_eq!(shown(&assignment), "ab.b", "20 µs after detection");
    saturate(&mut assignment, &mut *caladan, &wants, 26.0, &misses, 4..5);
    assert_eq!(shown(&assignment), "ab..");
    saturate(&mut assignment, &mut *caladan, &wants, 26.0, &misses, 5..9);
    assert_eq!(shown(&assignment), "a...", "LC keeps its guarantee");
    saturate(&mut assignment, &mut *caladan, &wants, 24.0, &misses, 9..11);
    assert_eq!(shown(&assignment).matches('b').count(), 2, "one core is given back per round");
}

//~ cores: C4: best effort loses no core to memory bandwidth while no latency-critical task has run for 1 s
#[test]
fn nothing_is_taken_for_tasks_that_do_not_run() {
    let (mut assignment, mut caladan) = setup("caladan", (4, 1), &[TaskSpec::critical(1), BE]);
    let mut round = |at_us: u64, idle: bool| {
        let mut signals = signals(&assignment, &[(0, 0), (9, 0)]);
        signals.tasks[0].idle = idle;
        signals.bandwidth.fill(Some(30e9));
        for (core, misses) in signals.cores.iter_mut().zip([70, 10, 90, 50]) {
            core.sample = Some(Sample { misses: misses * at_us, at: at(at_us) });
        }
        caladan.round(at(at_us), &signals, &mut assignment);
        assignment.actions(&mut Vec::new());
        shown(&assignment)
    };
    for us in (10..1_000).step_by(10) {
        assert_eq!(round(us, true), "bbbb", "{us}");
    }
    let taken = (1_000..1_100).step_by(10).map(|us| round(us, false)).last();
    assert_eq!(taken.as_deref(), Some("...."), "a task that runs is protected");
    let given = (1_100..1_002_000).step_by(10).map(|us| round(us, true)).last();
    assert_eq!(given.as_deref(), Some("bbbb"), "and again after 1 s without one");
}

//~ cores: C4: over the memory bandwidth the task with most misses loses one core per round
#[test]
fn an_lc_task_that_floods_the_memory_loses_its_burst_too() {
    let (mut assignment, mut caladan) =
        setup("caladan", (4, 1), &[TaskSpec::critical(1), TaskSpec::critical(1)]);
    (0..4).for_each(|core| {
        assignment.set(at(0), CoreId(core), CoreState::Granted(TaskId(u16::from(core > 0))))
    });
    saturate(&mut assignment, &mut *caladan, &[(1, 0), (3, 0)], 30.0, &[1, 50, 60, 70], 1..9);
    assert_eq!(shown(&assignment), "ab..");
}

//~ cores: C4: over the memory bandwidth the task with most misses loses one core per round
#[test]
fn disturbed_readings_count_for_nothing() {
    let (mut assignment, mut caladan) = setup("caladan", (2, 1), &[TaskSpec::critical(1), BE]);
    for round in 1..20 {
        // The core is granted anew in every round: no two readings belong to one grant.
        assignment.set(at(10 * round - 5), CoreId(1), CoreState::Free);
        assignment.set(at(10 * round - 5), CoreId(1), CoreState::Granted(TaskId(1)));
        saturate(&mut assignment, &mut *caladan, &[(0, 0), (9, 0)], 30.0, &[0, 99], round..round + 1);
        assert_eq!(assignment.state(CoreId(1)), CoreState::Granted(TaskId(1)), "round {round}");
    }
}

//~ cores: C4: over the memory bandwidth the task with most misses loses one core per round
#[test]
fn sockets_are_limited_one_by_one() {
    let tasks = vec![BE, BE, TaskSpec::critical(1)];
    let mut assignment = CoreAssignment::new(Topology::regular(2, 2, 1).unwrap(), tasks).unwrap();
    let mut caladan = Caladan::new(&Settings::default(), &assignment);
    (0..4).for_each(|core| assignment.set(at(0), CoreId(core), CoreState::Granted(TaskId(core % 2))));
    for round in 1..4 {
        let mut signals = signals(&assignment, &[(9, 0), (9, 0), (0, 0)]);
        signals.bandwidth = vec![Some(1e9), Some(30e9)];
        for core in &mut signals.cores {
            core.sample = Some(Sample { misses: 100 * round, at: at(10 * round) });
        }
        signals.cores[1].sample = Some(Sample { misses: 900 * round, at: at(10 * round) });
        caladan.round(at(10 * round), &signals, &mut assignment);
    }
    assert_eq!(shown(&assignment)[..2], *"ab", "the first socket is not saturated");
    assert!(shown(&assignment)[2..] != *"ab", "{}", shown(&assignment));
}

//~ cores: C5: a long request has its physical core alone until its queue grows
#[test]
fn a_long_request_has_its_physical_core_alone_until_it_ends() {
    let lc = TaskSpec { request_max: Some(Span::from_micros(40)), ..LC };
    let (mut assignment, mut caladan) = setup("caladan", (2, 2), &[lc, BE]);
    assignment.set(at(0), CoreId(0), CoreState::Granted(TaskId(0)));
    let mut signals = signals(&assignment, &[(1, 0), (9, 0)]);
    signals.cores[0].request_since = Some(at(5));
    for (us, expected) in [(20, "abbb"), (44, "abbb"), (45, "a-bb"), (90, "a-bb")] {
        caladan.round(at(us), &signals, &mut assignment);
        assert_eq!(shown(&assignment), expected, "at {us} µs");
    }
    signals.cores[0].request_since = Some(at(95));
    caladan.round(at(100), &signals, &mut assignment);
    assert_eq!(shown(&assignment), "abbb", "the next request is young");
}

//~ cores: C5: a long request has its physical core alone until its queue grows
#[test]
fn of_two_long_requests_on_one_core_the_longer_stays() {
    let lc = TaskSpec { request_max: Some(Span::from_micros(40)), ..LC };
    let (mut assignment, mut caladan) = setup("caladan", (1, 2), &[lc]);
    (0..2).for_each(|core| assignment.set(at(0), CoreId(core), CoreState::Granted(TaskId(0))));
    let mut signals = signals(&assignment, &[(2, 0)]);
    signals.cores[0].request_since = Some(at(20));
    signals.cores[1].request_since = Some(at(10));
    caladan.round(at(100), &signals, &mut assignment);
    assert_eq!(shown(&assignment), "-a");
}

//~ cores: C5: a long request has its physical core alone until its queue grows
#[test]
fn a_growing_queue_lifts_the_ban() {
    let lc = TaskSpec { request_max: Some(Span::from_micros(40)), ..LC };
    let (mut assignment, mut caladan) = setup("caladan", (1, 2), &[lc]);
    assignment.set(at(0), CoreId(0), CoreState::Granted(TaskId(0)));
    let mut signals = signals(&assignment, &[(1, 0)]);
    signals.cores[0].request_since = Some(at(0));
    caladan.round(at(50), &signals, &mut assignment);
    assert_eq!(shown(&assignment), "a-");
    signals.tasks[0] = TaskSignals { runnable: 5, delay: Span::from_micros(11), ..TaskSignals::default() };
    caladan.round(at(60), &signals, &mut assignment);
    assert_eq!(shown(&assignment), "aa");
}
