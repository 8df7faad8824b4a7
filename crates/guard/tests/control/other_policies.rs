//! Properties of the policies that are not the default: no shedding without cause, no
//! oscillation without a change of the signal, recovery in bounded time.
//!
//! `syn-paper` and `memory` are tested on arbitrary sequences of their signals. The paper's rule
//! bounds neither delay nor queue length, so its effect on a server is not tested.

//~ guard: every policy sheds nothing below its signal's bound, moves in bounded steps, and recovers within a second

use guard::{Limit, Params, Signals, by_name};
use proptest::prelude::{any, prop, prop_assert, prop_assert_eq, proptest};
use proptest::test_runner::Config as Cases;
use queueing::Span;

use super::{IN_MEMORY, Server, TICK, seconds, tick};

proptest! {
    #![proptest_config(Cases::with_cases(16))]

    /// Closed above the bound, open below nine tenths of it, at the next tick. Each switch needs
    /// a change of the share by a tenth of its bound.
    #[test]
    fn memory_turns_once_for_each_tenth_that_its_share_moves(shares in prop::collection::vec(0.0..1.0_f64, 1..200)) {
        let max = Params::default().memory_share_max;
        let mut policy = by_name("memory", &Params::default()).expect("a policy");
        let (mut closed, mut turns, mut moved, mut last) = (false, 0, 0.0, 0.0);
        for (at, memory_share) in (1..).zip(shares) {
            let limit = tick(&mut *policy, at * 10, Signals { memory_share, ..Signals::default() });
            prop_assert!(memory_share <= max || limit == Limit::Closed, "{memory_share}: {limit:?}");
            prop_assert!(memory_share > 0.9 * max || limit == Limit::Open, "{memory_share}: {limit:?}");
            moved += f64::abs(memory_share - last);
            last = memory_share;
            turns += u32::from(closed != (limit == Limit::Closed));
            closed = limit == Limit::Closed;
        }
        prop_assert!(f64::from(turns) <= 1.0 + moved / (0.1 * max), "{turns} turns by {moved}");
    }

    /// The paper's rule sheds only if kernel share and sockets are both above nine tenths of
    /// their bounds, and always if both are above their bounds.
    #[test]
    fn the_papers_rule_follows_both_of_its_signals(course in prop::collection::vec((0.0..1.0_f64, 0..300_u64), 1..200)) {
        let Params { kernel_share_max, sockets_max, .. } = Params::default();
        let mut policy = by_name("syn-paper", &Params::default()).expect("a policy");
        let (mut closed, mut turns, mut moved, mut last) = (false, 0, 0.0, (0.0, 0.0));
        for (at, (kernel_share, sockets)) in (1..).zip(course) {
            let limit = tick(&mut *policy, at * 10, Signals { kernel_share, sockets, ..Signals::default() });
            let parts = (kernel_share / kernel_share_max, sockets as f64 / sockets_max as f64);
            let (least, most) = (parts.0.min(parts.1), parts.0.max(parts.1));
            prop_assert!(least <= 1.0 || limit == Limit::Closed, "{parts:?}: {limit:?}");
            prop_assert!(least > 0.9 || limit == Limit::Open, "{parts:?} of {most}: {limit:?}");
            moved += f64::abs(parts.0 - last.0) + f64::abs(parts.1 - last.1);
            last = parts;
            turns += u32::from(closed != (limit == Limit::Closed));
            closed = limit == Limit::Closed;
        }
        prop_assert!(f64::from(turns) <= 2.0 + moved / 0.1, "{turns} turns by {moved}");
    }

    /// The limit stays within its bounds. Per tick it falls by at most a tenth and grows by at
    /// most a fifth of its square root.
    #[test]
    fn a_gradient_moves_in_small_steps(course in prop::collection::vec((1..10_000_000_u64, 0..20_000_u64), 1..300)) {
        let params = Params::default();
        let mut policy = by_name("gradient", &params).expect("a policy");
        let mut last: Option<u64> = None;
        for (at, (latency_us, present)) in (1..).zip(course) {
            let signals = Signals { latency: Some(Span::from_micros(latency_us)), present, ..Signals::default() };
            let Limit::Concurrency { max } = tick(&mut *policy, at * 10, signals) else { panic!("a limit") };
            prop_assert!((params.present.0..=params.present.1).contains(&max));
            if let Some(last) = last {
                // The limit is rounded down to an integer.
                let (now, before) = (max as f64, last as f64);
                prop_assert!(now >= 0.9 * before - 1.0, "{before} to {now}");
                prop_assert!(now <= before + 0.2 * (before + 1.0).sqrt() + 1.0, "{before} to {now}");
            }
            last = Some(max);
        }
    }

    /// Latencies up to one and a half times the fastest are not overload.
    #[test]
    fn a_gradient_takes_no_answers_within_its_tolerance_for_overload(
        fastest_us in 10..1_000_000_u64,
        course in prop::collection::vec((1.0..1.49_f64, 0..20_000_u64), 2..300),
    ) {
        let mut policy = by_name("gradient", &Params::default()).expect("a policy");
        let mut last = 0;
        for (at, (times, present)) in (1..).zip(course) {
            let latency = Some(Span::from_secs_f64(fastest_us as f64 * 1e-6 * times));
            let Limit::Concurrency { max } = tick(&mut *policy, at * 10, Signals { latency, present, ..Signals::default() })
            else { panic!("a limit") };
            prop_assert!(max >= last, "{last} to {max}");
            last = max;
        }
    }

    /// A server below its capacity sheds nothing, under any policy.
    #[test]
    fn a_server_below_capacity_sheds_nothing(per_s in 2_000.0..20_000.0_f64, load in 0.1..0.8_f64, seed in 0..1_000_u64) {
        for policy in ["gradient", "memory", "syn-paper", "none"] {
            let observed = Server::new(policy, per_s, seed).run(seconds(2), [load * per_s, 1.0]);
            prop_assert_eq!(observed.shed, [0, 0], "{} of {}", policy, observed.offered);
        }
    }

    /// Requests that exceed the memory bound are shed, the server runs at its full rate, and a
    /// second after load has fallen nothing is shed.
    #[test]
    fn memory_holds_the_server_at_its_bound_and_lets_go(per_s in 500.0..8_000.0_f64, times in 1.3..12.0_f64, seed in 0..1_000_u64) {
        let mut server = Server::new("memory", per_s, seed);
        server.run(seconds(3), [times * per_s, 1.0]);
        let observed = server.run(seconds(3), [times * per_s, 1.0]);
        prop_assert!(observed.served as f64 > 0.95 * 3.0 * per_s, "served {}", observed.served);
        let most = *observed.waiting.iter().max().expect("ticks") as f64;
        // Arrivals between two ticks, with a margin for randomness.
        let per_tick = times * per_s * TICK.as_secs_f64();
        let bound = Params::default().memory_share_max * IN_MEMORY + per_tick + 6.0 * per_tick.sqrt();
        prop_assert!(most <= bound, "{most} of {bound}");
        server.run(seconds(1), [0.6 * per_s, 1.0]);
        let calm = server.run(seconds(2), [0.6 * per_s, 1.0]);
        prop_assert_eq!(calm.shed, [0, 0]);
    }

    /// After a normal start, a surge of two seconds runs at the server's full rate with few
    /// requests in it. A second after load has fallen almost nothing is shed: only arrivals that
    /// meet a dozen others by chance.
    #[test]
    fn a_gradient_bears_a_surge_and_lets_go(per_s in 1_000.0..10_000.0_f64, times in 1.5..12.0_f64, seed in 0..1_000_u64) {
        let mut server = Server::new("gradient", per_s, seed);
        server.run(seconds(3), [0.5 * per_s, 1.0]);
        server.run(seconds(1), [times * per_s, 1.0]);
        let observed = server.run(seconds(1), [times * per_s, 1.0]);
        prop_assert!(observed.served as f64 > 0.95 * per_s, "served {}", observed.served);
        let (least, most) = (observed.waiting.iter().min(), observed.waiting.iter().max());
        prop_assert!(most.is_some_and(|&most| most < 64), "between {least:?} and {most:?}");
        server.run(seconds(1), [0.5 * per_s, 1.0]);
        let calm = server.run(seconds(2), [0.5 * per_s, 1.0]);
        prop_assert!(calm.shed.iter().sum::<u64>() <= 1 + calm.offered / 500, "{:?} of {}", calm.shed, calm.offered);
    }

    /// Policy `none` never sheds.
    #[test]
    fn without_a_policy_everybody_comes_in(delay_ms in any::<u32>(), kernel_share in 0.0..1.0_f64, sockets in any::<u64>()) {
        let mut policy = by_name("none", &Params::default()).expect("a policy");
        let delay = Span::from_millis(delay_ms.into());
        let signals = Signals { delay, kernel_share, sockets, memory_share: 1.0, waiting: 1, ..Signals::default() };
        prop_assert_eq!(tick(&mut *policy, 10, signals), Limit::Open);
    }
}
