//! Requests in flight: order of sending, and accounting.

use proptest::prelude::*;

use super::*;
use crate::plan::RequestClass;

fn plan(arrivals: &str, connections: u32, requests: u64) -> Plan {
    let service = "1us".parse().expect("distribution");
    let class = RequestClass { name: "c".into(), share: 1.0, service, length: 64, kind: 0, priority: 0 };
    let mut plan = Plan::new(connections, arrivals.parse().expect(arrivals), vec![class]);
    plan.requests = Some(requests);
    plan
}

fn ms(n: u64) -> Time {
    Time::ZERO + Span::from_millis(n)
}

/// Runs `plan` in steps of 1 ms; sends requests in steps where `sends` is true, and receives
/// responses in steps where `answers` is true.
fn run(plan: &Plan, sends: impl Fn(u64) -> bool, answers: impl Fn(u64) -> bool) -> ClassReport {
    let mut in_flight = InFlightTable::new(plan);
    let mut n = 0;
    while !in_flight.is_done() {
        let now = ms(n);
        in_flight.expire(now);
        while in_flight.enqueue_due(now).is_some() {}
        for conn in 0..plan.connections {
            while sends(n) && in_flight.unsent(conn).is_some() {
                in_flight.sent(conn, now, 64, 64);
            }
            while answers(n) && in_flight.answered(conn, None, now, ServerStages::default()).is_ok() {}
        }
        n += 1;
    }
    in_flight.report().remove(0)
}

//~ load: an overloaded or stalled server is sent every request on time (open loop)
#[test]
fn a_stalled_servers_delays_are_all_recorded() {
    let plan = plan("uniform 1000", 1, 1000);
    let report = run(&plan, |_| true, |n| !(500..600).contains(&n));
    // 100 requests fall into the stall and wait 50 ms on average; a closed loop would have
    // measured a single slow one.
    assert_eq!((report.answered(), report.late), (1000, 0));
    assert_eq!(report.max(), Span::from_millis(100));
    let p95 = report.latency.quantile(0.95).as_secs_f64();
    assert!((p95 - 0.050).abs() < 0.002, "{p95}");
}

//~ load: latency counts from the intended send time
#[test]
fn latency_is_measured_from_the_scheduled_send_time() {
    let mut plan = plan("uniform 1000", 1, 10);
    plan.late_after = Span::from_millis(5);
    let report = run(&plan, |n| n == 9, |n| n == 9);
    // Due at 0, 1, … 9 ms, all sent at 9 ms: those due before 4 ms are late.
    assert_eq!((report.late, report.answered()), (4, 10));
    assert_eq!(report.max(), Span::from_millis(9));
}

//~ load: requests never sent are counted and reported first
#[test]
fn unsent_requests_are_counted_as_unsent() {
    let mut plan = plan("uniform 1000", 3, 100);
    plan.timeout = Span::from_millis(20);
    let report = run(&plan, |n| n < 40, |n| n < 40);
    assert_eq!((report.requests, report.never_sent, report.unanswered), (100, 60, 0));
    assert_eq!(report.answered(), 40);
}

#[test]
fn a_response_after_the_timeout_counts_as_unanswered() {
    let mut plan = plan("uniform 1000", 1, 100);
    plan.timeout = Span::from_millis(20);
    let report = run(&plan, |_| true, |n| n == 50 || n > 90);
    // At 50 ms the requests of 31..=50 ms are in time, from 91 ms on those due after 71 ms.
    assert_eq!(report.answered(), 20 + 28);
    assert_eq!((report.never_sent, report.unanswered), (0, 52));
    assert!(report.max() < plan.timeout);
}

#[test]
fn warm_up_requests_are_sent_and_not_recorded() {
    let mut plan = plan("uniform 1000", 1, 100);
    plan.warmup = Span::from_millis(30);
    assert_eq!(run(&plan, |_| true, |_| true).requests, 70);
}

#[test]
fn a_broken_connection_loses_sent_requests_and_keeps_queued_ones() {
    let plan = plan("uniform 1000", 1, 4);
    let mut in_flight = InFlightTable::new(&plan);
    while in_flight.enqueue_due(ms(3)).is_some() {}
    in_flight.sent(0, ms(3), 64, 64);
    in_flight.sent(0, ms(3), 30, 64);
    assert_eq!(in_flight.unsent(0).map(|(r, offset)| (r.id, offset)), Some((1, 30)));
    in_flight.on_disconnect(0);
    assert_eq!(
        in_flight.unsent(0).map(|(r, offset)| (r.id, offset)),
        Some((1, 0)),
        "a partly sent request is sent again"
    );
    assert_eq!(in_flight.answered(0, Some(0), ms(4), ServerStages::default()), Err(UnmatchedResponse));
    while in_flight.unsent(0).is_some() {
        in_flight.sent(0, ms(5), 64, 64);
    }
    assert_eq!(
        in_flight.answered(0, Some(2), ms(6), ServerStages::default()),
        Err(UnmatchedResponse),
        "1 comes first"
    );
    for id in 1..4 {
        assert_eq!(in_flight.answered(0, Some(id), ms(6), ServerStages::default()), Ok(()));
    }
    assert!(in_flight.is_done());
    assert_eq!(in_flight.report()[0].unanswered, 1);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    //~ load: every request is accounted for once
    #[test]
    fn every_request_is_accounted_for_once(
        seed: u64,
        steps in proptest::collection::vec((0u32..4, 0u8..6, 1usize..64), 1..400),
    ) {
        let mut plan = plan("poisson 2000", 4, 200);
        (plan.seed, plan.timeout) = (seed, Span::from_millis(20));
        let mut in_flight = InFlightTable::new(&plan);
        for (n, (conn, what, bytes)) in steps.into_iter().enumerate() {
            let now = ms(n as u64);
            match what {
                0 | 1 => while in_flight.enqueue_due(now).is_some() {},
                2 | 3 => if let Some((_, offset)) = in_flight.unsent(conn) {
                    in_flight.sent(conn, now, bytes.min(64 - offset), 64);
                },
                4 => { let _ = in_flight.answered(conn, None, now, ServerStages::default()); }
                _ if bytes < 8 => in_flight.on_disconnect(conn),
                _ => { in_flight.expire(now); }
            }
        }
        while in_flight.enqueue_due(Time::MAX).is_some() {}
        in_flight.abandon();
        prop_assert!(in_flight.is_done());
        (0..4).for_each(|conn| in_flight.on_disconnect(conn));
        prop_assert_eq!(in_flight.free.len(), in_flight.slab.len(), "every slot is free again");
        let report = &in_flight.report()[0];
        prop_assert_eq!(report.requests, 200);
        prop_assert_eq!(report.latency.count(), report.answered());
    }
}
