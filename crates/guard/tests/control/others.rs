//! The same of the policies that are not the default: nobody shed without
//! cause, no back and forth without a cause for each turn, and an end in time.
//!
//! `syn-paper` and `memory` are held to any course of what they look at, since
//! what the paper's rule does to a server is its own affair: it bounds neither
//! waits nor queues.

use guard::{Limit, Params, Signals, by_name};
use proptest::prelude::{any, prop, prop_assert, prop_assert_eq, proptest};
use proptest::test_runner::Config as Cases;
use queueing::Span;

use super::{IN_MEMORY, LOOK, Server, look, seconds};

proptest! {
    #![proptest_config(Cases::with_cases(16))]

    /// Closed above a share, open below nine tenths of it, at the next look;
    /// so each turn has cost the share a tenth of its bound.
    #[test]
    fn memory_turns_once_for_each_tenth_that_its_share_moves(shares in prop::collection::vec(0.0..1.0_f64, 1..200)) {
        let max = Params::default().memory_share_max;
        let mut policy = by_name("memory", &Params::default()).expect("a policy");
        let (mut closed, mut turns, mut moved, mut last) = (false, 0, 0.0, 0.0);
        for (at, memory_share) in (1..).zip(shares) {
            let limit = look(&mut *policy, at * 10, Signals { memory_share, ..Signals::default() });
            prop_assert!(memory_share <= max || limit == Limit::Closed, "{memory_share}: {limit:?}");
            prop_assert!(memory_share > 0.9 * max || limit == Limit::Open, "{memory_share}: {limit:?}");
            moved += f64::abs(memory_share - last);
            last = memory_share;
            turns += u32::from(closed != (limit == Limit::Closed));
            closed = limit == Limit::Closed;
        }
        prop_assert!(f64::from(turns) <= 1.0 + moved / (0.1 * max), "{turns} turns by {moved}");
    }

    /// The paper's rule sheds nobody unless the kernel and the sockets are both
    /// above nine tenths of what is too much, and always when both are above it.
    #[test]
    fn the_papers_rule_follows_both_of_its_signals(course in prop::collection::vec((0.0..1.0_f64, 0..300_u64), 1..200)) {
        let Params { kernel_share_max, sockets_max, .. } = Params::default();
        let mut policy = by_name("syn-paper", &Params::default()).expect("a policy");
        let (mut closed, mut turns, mut moved, mut last) = (false, 0, 0.0, (0.0, 0.0));
        for (at, (kernel_share, sockets)) in (1..).zip(course) {
            let limit = look(&mut *policy, at * 10, Signals { kernel_share, sockets, ..Signals::default() });
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

    /// Whatever answers take, the limit stays within its bounds, and between
    /// two looks falls by a tenth at the most and grows by a fifth of its root.
    #[test]
    fn a_gradient_moves_in_small_steps(course in prop::collection::vec((1..10_000_000_u64, 0..20_000_u64), 1..300)) {
        let params = Params::default();
        let mut policy = by_name("gradient", &params).expect("a policy");
        let mut last: Option<u64> = None;
        for (at, (latency_us, present)) in (1..).zip(course) {
            let signals = Signals { latency: Some(Span::from_micros(latency_us)), present, ..Signals::default() };
            let Limit::Concurrency { max } = look(&mut *policy, at * 10, signals) else { panic!("a limit") };
            prop_assert!((params.present.0..=params.present.1).contains(&max));
            if let Some(last) = last {
                // A limit is a whole number, of one that is not.
                let (now, before) = (max as f64, last as f64);
                prop_assert!(now >= 0.9 * before - 1.0, "{before} to {now}");
                prop_assert!(now <= before + 0.2 * (before + 1.0).sqrt() + 1.0, "{before} to {now}");
            }
            last = Some(max);
        }
    }

    /// Answers that take at the most half as long again as the fastest are no overload.
    #[test]
    fn a_gradient_takes_no_answers_within_its_tolerance_for_overload(
        fastest_us in 10..1_000_000_u64,
        course in prop::collection::vec((1.0..1.49_f64, 0..20_000_u64), 2..300),
    ) {
        let mut policy = by_name("gradient", &Params::default()).expect("a policy");
        let mut last = 0;
        for (at, (times, present)) in (1..).zip(course) {
            let latency = Some(Span::from_secs_f64(fastest_us as f64 * 1e-6 * times));
            let Limit::Concurrency { max } = look(&mut *policy, at * 10, Signals { latency, present, ..Signals::default() })
            else { panic!("a limit") };
            prop_assert!(max >= last, "{last} to {max}");
            last = max;
        }
    }

    /// A server that keeps up sheds nobody, under any policy.
    #[test]
    fn who_keeps_up_sheds_nobody(per_s in 2_000.0..20_000.0_f64, load in 0.1..0.8_f64, seed in 0..1_000_u64) {
        for policy in ["gradient", "memory", "syn-paper", "none"] {
            let observed = Server::new(policy, per_s, seed).run(seconds(2), [load * per_s, 1.0]);
            prop_assert_eq!(observed.shed, [0, 0], "{} of {}", policy, observed.offered);
        }
    }

    /// What does not fit in memory does not come in, the server goes on at its
    /// full rate, and a second after load has fallen nobody is shed.
    #[test]
    fn memory_holds_the_server_at_its_bound_and_lets_go(per_s in 500.0..8_000.0_f64, times in 1.3..12.0_f64, seed in 0..1_000_u64) {
        let mut server = Server::new("memory", per_s, seed);
        server.run(seconds(3), [times * per_s, 1.0]);
        let observed = server.run(seconds(3), [times * per_s, 1.0]);
        prop_assert!(observed.served as f64 > 0.95 * 3.0 * per_s, "served {}", observed.served);
        let most = *observed.waiting.iter().max().expect("looks") as f64;
        // Who comes between two looks, by chance some more than on average.
        let one_look = times * per_s * LOOK.as_secs_f64();
        let bound = Params::default().memory_share_max * IN_MEMORY + one_look + 6.0 * one_look.sqrt();
        prop_assert!(most <= bound, "{most} of {bound}");
        server.run(seconds(1), [0.6 * per_s, 1.0]);
        let calm = server.run(seconds(2), [0.6 * per_s, 1.0]);
        prop_assert_eq!(calm.shed, [0, 0]);
    }

    /// A server that was known before overload is kept at its rate for two
    /// seconds of it, with few in it; a second after load has fallen next to nobody is
    /// shed, which is who comes when a dozen others happen to be there.
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

    /// Who sheds nobody never does.
    #[test]
    fn without_a_policy_everybody_comes_in(delay_ms in any::<u32>(), kernel_share in 0.0..1.0_f64, sockets in any::<u64>()) {
        let mut policy = by_name("none", &Params::default()).expect("a policy");
        let delay = Span::from_millis(delay_ms.into());
        let signals = Signals { delay, kernel_share, sockets, memory_share: 1.0, waiting: 1, ..Signals::default() };
        prop_assert_eq!(look(&mut *policy, 10, signals), Limit::Open);
    }
}
