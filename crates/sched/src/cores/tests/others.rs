//! Differences of the other policies from caladan.

use super::*;

const BE: TaskSpec = TaskSpec::best_effort();

fn rounds(assignment: &mut CoreAssignment, policy: &mut dyn Policy, signals: &Signals, n: u64) {
    (0..n).for_each(|round| policy.round(Time::ZERO + policy.period() * round, signals, assignment));
}

#[test]
fn shenango_reacts_to_queues_only() {
    let lc = TaskSpec { request_max: Some(Span::from_micros(10)), ..TaskSpec::critical(2) };
    let (mut assignment, mut shenango) = setup("shenango", (2, 2), &[lc, BE]);
    let mut signals = signals(&assignment, &[(1, 5), (9, 0)]);
    signals.bandwidth.fill(Some(99e9));
    signals.cores[0].request_since = Some(Time::ZERO);
    rounds(&mut assignment, &mut *shenango, &signals, 50);
    assert_eq!(shown(&assignment), "abbb");
}

#[test]
fn elfen_keeps_be_off_the_siblings_of_lc() {
    let (mut assignment, mut elfen) = setup("elfen", (3, 2), &[TaskSpec::critical(2), BE]);
    let (idle, busy) = (signals(&assignment, &[(0, 0), (9, 0)]), signals(&assignment, &[(2, 50), (9, 0)]));
    rounds(&mut assignment, &mut *elfen, &idle, 2);
    assert_eq!(shown(&assignment), ".b.b.b", "first lanes are kept for LC");
    rounds(&mut assignment, &mut *elfen, &busy, 8);
    assert_eq!(shown(&assignment), "a.a.a.", "the siblings are idle");
}

//~ cores: impossible guarantees are refused with both numbers
#[test]
fn elfen_refuses_more_guarantees_than_first_hyperthreads() {
    let assignment =
        CoreAssignment::new(Topology::regular(1, 2, 2).unwrap(), vec![TaskSpec::critical(3)]).unwrap();
    let error = by_name("elfen", &Settings::default(), &assignment).err().unwrap().to_string();
    assert!(error.contains("3 cores are guaranteed") && error.contains("2 physical"), "{error}");
}

#[test]
fn static_keeps_idle_cores_and_be_alternates_on_too_few() {
    let (mut assignment, mut fixed) = setup("static", (2, 2), &[TaskSpec::critical(3), BE, BE]);
    let idle = signals(&assignment, &[(0, 0), (9, 0), (9, 0)]);
    rounds(&mut assignment, &mut *fixed, &idle, 1);
    assert_eq!(shown(&assignment), "aaab");
    rounds(&mut assignment, &mut *fixed, &idle, 1);
    assert_eq!(shown(&assignment), "aaac");
}

#[test]
fn linux_leaves_every_decision_to_the_kernel() {
    let (mut assignment, mut linux) = setup("linux", (2, 1), &[TaskSpec::critical(1), BE]);
    let signals = signals(&assignment, &[(1, 0), (1, 0)]);
    rounds(&mut assignment, &mut *linux, &signals, 1);
    assert_eq!(shown(&assignment), "**");
}

#[test]
fn parties_moves_one_physical_core_a_period_by_tail_latency() {
    let (mut assignment, mut parties) = setup("parties", (4, 2), &[TaskSpec::critical(2), BE]);
    let mut signals = signals(&assignment, &[(1, 0), (9, 0)]);
    let mut round = 0;
    let mut check = |tail_us: u64, expected: &str| {
        signals.tasks[0].tail = Some(Span::from_micros(tail_us));
        parties.round(Time::ZERO + parties.period() * round, &signals, &mut assignment);
        round += 1;
        assert_eq!(shown(&assignment), expected, "round {round}");
    };
    check(500, "aaaabbbb"); // the first round has no tail yet
    check(500, "aaaaaabb");
    check(90, "aaaaaabb");
    check(50, "aaaabbbb");
    check(50, "aabbbbbb");
    check(150, "aaaabbbb"); // the release broke the target
    check(50, "aaaabbbb"); // no release during the backoff
}

#[test]
fn parties_starts_with_whole_physical_cores_and_yields_all_beyond_its_guarantee() {
    // An equal share of ten is five.
    let (mut assignment, mut parties) = setup("parties", (5, 2), &[TaskSpec::critical(2), BE]);
    let mut signals = signals(&assignment, &[(1, 0), (9, 0)]);
    signals.tasks[0].tail = Some(Span::from_micros(50));
    for (round, expected) in (0..).zip(["aaaabbbbbb", "aabbbbbbbb", "aabbbbbbbb"]) {
        parties.round(Time::ZERO + parties.period() * round, &signals, &mut assignment);
        assert_eq!(shown(&assignment), expected, "round {round}");
    }
}
