//! Change of the target delay at run time.

//~ operations: SIGHUP reloads targets of `guard attach` and thresholds of `sched`

use super::*;

#[test]
fn a_new_target_holds_from_the_next_tick_and_the_service_rate_stays() {
    let mut policy = by_name("queue-delay", &Params::default()).expect("a policy");
    // Service rate 3,000 per second, twice as many arrivals, delay 30 ms.
    let delay = Span::from_millis(30);
    let late = Signals { offered: 60, admitted: 30, waiting: 90, served: 30, delay, ..Signals::default() };
    let mut limit = |tick: u64, target: Option<Span>| {
        target.into_iter().for_each(|target| policy.on_target(target));
        match policy.tick(Time::ZERO + TICK * tick, &late) {
            Limit::Rate { per_s, .. } => per_s,
            _ => 0.0,
        }
    };
    let below = (1..100).map(|tick| limit(tick, None)).last().expect("ticks");
    assert!((2_000.0..3_000.0).contains(&below), "30 ms are more than 20 ms: {below}");
    let above = limit(100, Some(Span::from_millis(100)));
    assert!((3_000.0..4_000.0).contains(&above), "and less than 100 ms: {above}");
}
