//! Budgets over several machines with unrelated clocks, compared with the paper's formulas on
//! the true delays.

use deadline::codec::field;
use deadline::model::{pum, ssm, variability_range};
use deadline::{Budget, NetworkDelay, Remaining, StageTimer};
use proptest::prelude::{any, prop, prop_assert, prop_assert_eq, proptest};
use queueing::{Label, Priority, Span, Time};

/// True network delay into the stage, queueing time and service time, in microseconds.
type Hop = (u64, u64, u64);

fn us(n: u64) -> Span {
    Span::from_micros(n)
}

/// Sends `budget` through `hops`; each stage's clock starts where `epochs` says.
fn travel(mut budget: Budget, hops: &[Hop], epochs: &[u64]) -> Budget {
    for (&(network, queue, service), &epoch_ns) in hops.iter().zip(epochs.iter().cycle()) {
        let now = Time::from_nanos(epoch_ns);
        let received = field::parse(&field::write(&budget)).expect("what was written can be read");
        let mut timer = StageTimer::arrive(now, received, us(network));
        timer.start(now + us(queue));
        timer.start(now + us(queue + 999_999));
        budget = timer.outgoing_budget(now + us(queue + service));
    }
    budget
}

fn elapsed(hops: &[Hop]) -> Span {
    hops.iter().fold(Span::ZERO, |before, &(c, queue, service)| {
        ssm::elapsed_time(before, us(c), us(queue) + us(service))
    })
}

proptest! {
    //~ deadlines: delays in series add up by (2) and (3), by stage, whatever the machines' clocks show
    #[test]
    fn delays_in_series_add_whatever_the_clocks_say(
        hops in prop::collection::vec((0..5_000_u64, 0..50_000_u64, 0..50_000_u64), 1..12),
        epochs in prop::collection::vec(0..u64::MAX / 2, 12),
        jumped in prop::collection::vec(0..u64::MAX / 2, 12),
    ) {
        let born = Budget::new(us(10_000_000));
        let arrived = travel(born, &hops, &epochs);
        prop_assert_eq!(arrived, travel(born, &hops, &jumped));
        prop_assert_eq!(arrived.elapsed(), elapsed(&hops));
        prop_assert_eq!(arrived.remaining(), ssm::deadline(born.expected(), elapsed(&hops)));
        let by_stage: Span = arrived.stages().iter().map(|stage| stage.total()).sum();
        prop_assert_eq!(by_stage, arrived.elapsed());
        for (stage, &(network, queue, service)) in arrived.stages().iter().zip(&hops).take(7) {
            prop_assert_eq!((stage.network, stage.queue, stage.service), (us(network), us(queue), us(service)));
        }
    }

    //~ deadlines: a fan-out keeps a reserve; the aggregator continues from the slowest worker, (4) and (5)
    #[test]
    fn the_aggregator_counts_on_from_the_slowest_worker(
        before in (0..5_000_u64, 0..50_000_u64, 0..50_000_u64),
        workers in prop::collection::vec(((0..5_000_u64, 0..50_000_u64, 0..50_000_u64), 0..5_000_u64), 1..20),
        reserve in 0..100_000_u64,
        aggregate in 0..50_000_u64,
        epoch_ns in any::<u32>(),
    ) {
        let unsplit = travel(Budget::new(us(200_000)), &[before], &[7]);
        let now = Time::from_nanos(epoch_ns.into());
        let parts = workers.iter().map(|&(hop, back)| {
            let part = travel(unsplit.split(us(reserve)), &[hop], &[1]);
            StageTimer::arrive(now, part, us(back))
        });
        let timer = StageTimer::join(now, parts).expect("there are workers");
        let by_worker = workers.iter().map(|&(hop, back)| (elapsed(&[before, hop]), us(back)));
        let expected = pum::elapsed_time(by_worker, us(aggregate));
        prop_assert_eq!(timer.elapsed(now + us(aggregate)), expected);
        prop_assert_eq!(timer.remaining(now + us(aggregate)), pum::deadline(us(200_000), expected));
        prop_assert!(timer.budget().is_split());
    }

    //~ deadlines: a fan-out keeps a reserve; the aggregator continues from the slowest worker, (4) and (5)
    #[test]
    fn a_sub_request_never_has_more_than_the_whole(expected in 0..1_000_u64, gone in 0..1_000_u64, reserve in 0..2_000_u64, cap in 0..2_000_u64) {
        let resumed = Budget::restored(us(expected), us(gone), &[]);
        let part = resumed.split(us(reserve));
        prop_assert!(part.remaining() <= resumed.remaining());
        prop_assert_eq!(part.for_aggregation().remaining(), resumed.remaining());
        prop_assert!(part.capped(us(cap)).remaining().left() <= us(cap).min(part.remaining().left()));
    }

    //~ deadlines: network delay is learned from spans of both ends, never from clocks
    #[test]
    fn the_network_delay_is_half_of_what_neither_end_had(c in 0..10_000_u64, held in 0..100_000_u64, n in 1..50_usize) {
        let mut delay = NetworkDelay::default();
        for _ in 0..n {
            delay.record(Time::ZERO, us(2 * c + held), us(held));
        }
        let error_ns = delay.one_way(Time::ZERO).as_nanos().abs_diff(us(c).as_nanos());
        prop_assert!(error_ns <= 16, "{error_ns} ns off after {n} exchanges");
        delay.record(Time::ZERO, us(held), us(held + 1));
        prop_assert_eq!(delay.impossible(), 1);
    }
}

//~ deadlines: the network delay is a windowed minimum per peer: slow retries do not raise it, and it expires
#[test]
fn slow_retries_do_not_change_the_network_delay_and_an_old_one_is_unknown() {
    let mut delay = NetworkDelay::default();
    let at = |seconds: u64| Time::ZERO + Span::from_secs(100 + seconds);
    delay.record(at(0), us(41_000), us(40_000));
    for second in 1..25 {
        delay.record(at(second), us(940_000), us(40_000));
    }
    assert_eq!(delay.one_way(at(25)), us(500), "the minimum counts");
    for second in 25..90 {
        delay.record(at(second), us(140_000), us(40_000));
    }
    assert_eq!(delay.one_way(at(90)), us(50_000), "a way that became longer is learned");
    assert_eq!(delay.one_way(at(150)), Span::ZERO, "unknown after a minute without a sample");
}

#[test]
fn a_label_carries_what_is_left_now() {
    let timer = StageTimer::arrive(Time::from_nanos(50), Budget::new(us(100)), us(20));
    let at = |us_later| Time::from_nanos(50) + us(us_later);
    assert_eq!(
        timer.label(at(30), Priority::HIGHEST),
        Label { priority: Priority::HIGHEST, deadline: Some(us(50)) }
    );
    assert_eq!(timer.due(), at(80));
    assert_eq!(timer.remaining(at(79)), Remaining::Left(us(1)));
    assert_eq!(timer.remaining(at(80)), Remaining::Missed(Span::ZERO));
    assert_eq!(timer.label(at(90), Priority::HIGHEST).deadline, Some(Span::ZERO));
}

#[test]
fn the_longest_overdue_is_the_most_urgent() {
    let sorted = [
        Remaining::Missed(us(9)),
        Remaining::Missed(us(1)),
        Remaining::Missed(Span::ZERO),
        Remaining::Left(us(1)),
        Remaining::Left(us(9)),
    ];
    assert!(sorted.is_sorted());
    assert_eq!(Remaining::of(us(5), us(5)), Remaining::Missed(Span::ZERO));
}

#[test]
fn an_aggregator_without_workers_has_nothing_to_count_from() {
    assert_eq!(StageTimer::join(Time::ZERO, []), None);
}

#[test]
fn the_papers_stages_vary_as_it_says() {
    assert_eq!(variability_range(us(150), us(50), us(80)), 125.0);
    assert_eq!(variability_range(Span::ZERO, Span::ZERO, Span::ZERO), 0.0);
}
