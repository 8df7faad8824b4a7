//! The log holds exactly the slowest requests, within its limits.

//~ views: exactly the slow requests become OpenTelemetry spans, at a bounded rate

use queueing::Rng;

use super::*;

fn slow(us: u64) -> Slow {
    Slow {
        side: Side::Served,
        label: Label::default(),
        begun: Time::ZERO,
        stages: [Span::ZERO, Span::ZERO, Span::from_micros(us), Span::ZERO, Span::ZERO],
        app: Span::ZERO,
        request: us as usize,
        response: 0,
        end: RequestEnd::Answered,
        attributes: RequestAttributes::default(),
    }
}

fn of(over_us: u64, most: usize, offered: &[u64]) -> Slowest {
    let mut slowest =
        Slowest::new(SlowRequestLimits { over: Span::from_micros(over_us), most, levels: PrioritySet::ALL });
    offered.iter().for_each(|&us| slowest.offer(Priority::LOWEST, Span::from_micros(us), || slow(us)));
    slowest
}

fn kept(slowest: &mut Slowest) -> Vec<u64> {
    slowest.take().iter().map(|slow| slow.total().as_nanos() / 1_000).collect()
}

#[test]
fn the_slowest_requests_are_kept_in_order_and_all_are_counted() {
    for seed in 0..200 {
        let mut rng = Rng::seeded(seed);
        let (over, most) = (rng.below(60), 1 + rng.below(20) as usize);
        let offered: Vec<u64> = (0..rng.below(200)).map(|_| rng.below(100)).collect();
        let mut expected: Vec<u64> = offered.iter().copied().filter(|us| *us >= over).collect();
        expected.sort_unstable_by(|a, b| b.cmp(a));
        let left_out = expected.len().saturating_sub(most);
        expected.truncate(most);
        let mut slowest = of(over, most, &offered);
        assert_eq!((kept(&mut slowest), slowest.left_out()), (expected, left_out as u64), "seed {seed}");
    }
}

#[test]
fn of_equally_slow_requests_the_first_is_kept() {
    let mut slowest = Slowest::new(SlowRequestLimits { over: Span::ZERO, most: 2, levels: PrioritySet::ALL });
    for number in 1..=3 {
        slowest.offer(Priority::LOWEST, Span::from_micros(5), || Slow { request: number, ..slow(5) });
    }
    let numbers: Vec<usize> = slowest.take().iter().map(|slow| slow.request).collect();
    assert_eq!((numbers, slowest.left_out()), (vec![1, 2], 1));
}

#[test]
fn a_fast_request_is_not_evaluated() {
    let mut slowest =
        Slowest::new(SlowRequestLimits { over: Span::from_millis(1), most: 1, levels: PrioritySet::ALL });
    slowest.offer(Priority::LOWEST, Span::from_micros(999), || unreachable!("it is below the limit"));
    slowest.offer(Priority::LOWEST, Span::from_millis(1), || slow(1_000));
    slowest.offer(Priority::LOWEST, Span::from_millis(1), || {
        unreachable!("it is no slower than the recorded one")
    });
    Slowest::default().offer(Priority::LOWEST, Span::from_secs(1), || unreachable!("the log is off"));
    assert_eq!((kept(&mut slowest), slowest.left_out()), (vec![1_000], 1));
}

//~ cli: traces can be limited to some levels
#[test]
fn requests_of_other_levels_are_neither_kept_nor_counted() {
    let urgent: PrioritySet = "high".parse().unwrap();
    let mut slowest = Slowest::new(SlowRequestLimits { over: Span::ZERO, most: 1, levels: urgent });
    slowest.offer(Priority::LOWEST, Span::from_micros(9), || unreachable!("its level is not recorded"));
    slowest.offer(Priority::HIGHEST, Span::from_micros(5), || slow(5));
    assert_eq!((kept(&mut slowest), slowest.left_out()), (vec![5], 0));
}
