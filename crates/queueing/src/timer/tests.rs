//! Timers fire in order and never early.

use std::collections::BTreeMap;

use proptest::prelude::{Strategy, any, prop, prop_oneof, proptest};

use super::*;

#[derive(Clone, Copy, Debug)]
enum Step {
    /// Sets a timer this many ns ahead, or in the past.
    Insert(i64),
    /// Sets a timer for any instant.
    InsertAt(u64),
    /// Cancels one of all keys so far.
    Cancel(usize),
    /// Advances time and expires due timers.
    Advance(u64),
    /// Advances to the instant that [`TimerWheel::next`] gives.
    Follow,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    // Spans of every magnitude, to use every level of the wheel.
    let span = (0..45_u32, any::<u64>()).prop_map(|(bits, n)| n & ((1 << bits) - 1));
    let step = prop_oneof![
        4 => span.clone().prop_map(|ns| Step::Insert(ns as i64)),
        1 => (0..10_000_i64).prop_map(|ns| Step::Insert(-ns)),
        1 => any::<u64>().prop_map(Step::InsertAt),
        2 => any::<usize>().prop_map(Step::Cancel),
        3 => span.prop_map(Step::Advance),
        2 => prop::strategy::Just(Step::Follow),
    ];
    prop::collection::vec(step, 1..200)
}

/// Runs `steps` on a wheel and on a sorted map. Both must agree, except that the
/// wheel may be less than a tick late.
fn check(mut wheel: TimerWheel<usize>, start: u64, steps: &[Step]) {
    let mut model: BTreeMap<usize, Time> = BTreeMap::new();
    let mut keys = Vec::new();
    let mut now = Time::from_nanos(start);
    for &step in steps {
        match step {
            Step::Insert(_) | Step::InsertAt(_) => {
                let at = match step {
                    Step::InsertAt(ns) => Time::from_nanos(ns),
                    Step::Insert(ns) if ns < 0 => now - Span::from_nanos(ns.unsigned_abs()),
                    Step::Insert(ns) => now + Span::from_nanos(ns as u64),
                    _ => unreachable!(),
                };
                model.insert(keys.len(), at);
                keys.push(wheel.insert(at, keys.len()));
            }
            Step::Cancel(which) if !keys.is_empty() => {
                let item = which % keys.len();
                assert_eq!(wheel.cancel(keys[item]), model.remove(&item).map(|_| item));
            }
            Step::Cancel(_) => {}
            Step::Advance(_) | Step::Follow => {
                now = match step {
                    Step::Advance(ns) => now + Span::from_nanos(ns),
                    _ => wheel.next().map_or(now, |next| next.max(now)),
                };
                while let Some((at, item)) = wheel.expire(now) {
                    assert!(at <= now, "a timer for {at:?} fired early, at {now:?}");
                    assert_eq!(model.remove(&item), Some(at), "timer {item} fires once, for its instant");
                }
                let next = wheel.next().unwrap_or(Time::MAX);
                assert!(next > now || next == Time::MAX, "next is {next:?} after an expiry at {now:?}");
                let late = model.values().find(|&&at| at + wheel.tick() <= now && now < Time::MAX);
                assert_eq!(late, None, "a timer is a tick late at {now:?}");
            }
        }
        assert_eq!(wheel.len(), model.len());
        assert_eq!(wheel.next().is_some(), !model.is_empty());
        let first_due = model.values().map(|&at| at.max(now) + wheel.tick()).min();
        assert!(wheel.next() <= first_due, "next is {:?}, the first fires by {first_due:?}", wheel.next());
    }
}

proptest! {
    //~ queueing: a timer never fires early and at most one tick late, and reuses its memory
    #[test]
    fn the_wheel_agrees_with_a_sorted_map(start in 0..1_u64 << 50, steps in steps()) {
        check(TimerWheel::new(), start, &steps);
    }

    //~ queueing: a timer never fires early and at most one tick late, and reuses its memory
    #[test]
    fn a_wheel_of_any_tick_agrees_with_a_sorted_map(bits in 0..=32_u32, steps in steps()) {
        check(TimerWheel::with_tick_bits(bits), 0, &steps);
    }
}

#[test]
fn timers_of_different_ticks_fire_in_order() {
    let mut wheel = TimerWheel::new();
    let mut rng = crate::Rng::seeded(3);
    for item in 0..1_000_u32 {
        wheel.insert(Time::from_nanos(rng.below(1 << 40)), item);
    }
    let fired: Vec<u64> = std::iter::from_fn(|| wheel.expire(Time::from_nanos(1 << 41)))
        .map(|(at, _)| at.as_nanos().div_ceil(1 << 10))
        .collect();
    assert_eq!(fired.len(), 1_000);
    assert!(fired.is_sorted());
}

#[test]
fn following_next_reaches_a_far_timer_in_a_few_steps() {
    let mut wheel = TimerWheel::new();
    let at = Time::ZERO + Span::from_secs(3_600);
    wheel.insert(at, ());
    let mut wakes = 0;
    let mut now = Time::ZERO;
    while wheel.expire(now).is_none() {
        now = wheel.next().expect("a timer is set");
        wakes += 1;
    }
    assert!(now >= at && now < at + wheel.tick());
    assert!(wakes <= LEVELS, "{wakes} wakes, at most one per level");
}

#[test]
fn a_key_is_invalid_after_its_timer() {
    let mut wheel = TimerWheel::new();
    let first = wheel.insert(Time::from_nanos(10), 'a');
    assert_eq!(wheel.expire(Time::from_nanos(2_000)), Some((Time::from_nanos(10), 'a')));
    let second = wheel.insert(Time::from_nanos(5_000), 'b');
    assert_eq!(wheel.cancel(first), None, "the node was reused");
    assert_eq!(wheel.cancel(second), Some('b'));
    assert_eq!(wheel.cancel(second), None);
}

//~ queueing: a timer never fires early and at most one tick late, and reuses its memory
#[test]
fn a_warm_wheel_reuses_its_memory() {
    let mut wheel = TimerWheel::new();
    wheel.reserve(100);
    let capacity = wheel.nodes.capacity();
    for round in 0..1_000 {
        for item in 0..100_u64 {
            wheel.insert(Time::from_nanos(round * 100_000 + item * 777), item);
        }
        while wheel.expire(Time::from_nanos((round + 1) * 100_000)).is_some() {}
    }
    assert_eq!((wheel.nodes.capacity(), wheel.len()), (capacity, 0));
}

#[test]
fn a_timer_of_a_small_item_takes_24_bytes() {
    assert_eq!(size_of::<Node<u32>>(), 24);
    assert_eq!(size_of::<Option<TimerKey>>(), 8);
    assert!(size_of::<TimerWheel<u32>>() <= 3 << 10);
}
