//! Moments and text forms of distributions.

use proptest::prelude::{Strategy, prop_assert, prop_assert_eq, prop_oneof, proptest};

use super::*;

const TEXTS: [&str; 9] = [
    "3us",
    "exp 10us",
    "uniform 1us 5us",
    "normal 20ms 6ms",
    "lognormal 10us 1.0",
    "bimodal 1us 1ms 0.005",
    "pareto 1us 1ms 1.2",
    "pareto 1us 1ms 1.0",
    "pareto 10us 100us 2.0",
];

//~ queueing: seeded service times have the moments and bounds of their distribution; impossible ones are refused
#[test]
fn samples_have_the_moments_of_the_distribution() {
    for text in TEXTS {
        let distribution: Distribution = text.parse().expect(text);
        let mut rng = Rng::seeded(5);
        let n = 400_000;
        let (mut mean, mut second) = (0.0, 0.0);
        for _ in 0..n {
            let s = distribution.sample(&mut rng).as_secs_f64();
            mean += s / f64::from(n);
            second += s * s / f64::from(n);
        }
        let off = |measured: f64, stated: f64| (measured / stated - 1.0).abs();
        assert!(
            off(mean, distribution.mean().as_secs_f64()) < 0.03,
            "{text}: mean {mean}, stated {}",
            distribution.mean()
        );
        assert!(
            off(second, distribution.second_moment()) < 0.05,
            "{text}: {second}, stated {}",
            distribution.second_moment()
        );
    }
}

#[test]
fn distributions_print_as_they_parse() {
    for text in TEXTS {
        assert_eq!(
            text.parse::<Distribution>().map(|distribution| distribution.to_string()).as_deref(),
            Ok(text)
        );
    }
}

//~ queueing: seeded service times have the moments and bounds of their distribution; impossible ones are refused
#[test]
fn invalid_distributions_are_refused_with_the_valid_ones() {
    for text in [
        "",
        "10",
        "exp",
        "exp 10",
        "exp 10us 3",
        "uniform 5us 1us",
        "normal 20us 7us",
        "lognormal 10us -1",
        "lognormal 10us NaN",
        "bimodal 1us 1ms 1.5",
        "pareto 0ns 1ms 1",
        "pareto 1ms 1ms 1",
        "pareto 1us 1ms 0",
    ] {
        let refused = text.parse::<Distribution>().expect_err(text).to_string();
        assert!(refused.contains("bimodal SHORT LONG SHARE"), "{refused}");
    }
}

#[test]
fn a_uniform_distribution_of_one_value_is_constant() {
    let distribution: Distribution = "uniform 7us 7us".parse().expect("a distribution");
    assert_eq!(
        (distribution.sample(&mut Rng::seeded(1)), distribution.mean()),
        (Span::from_micros(7), Span::from_micros(7))
    );
    assert!((distribution.second_moment() / 49e-12 - 1.0).abs() < 1e-9);
}

fn spans() -> impl Strategy<Value = Span> {
    (1..1u64 << 50).prop_map(Span::from_nanos)
}

fn distributions() -> impl Strategy<Value = Distribution> {
    prop_oneof![
        spans().prop_map(Distribution::Constant),
        spans().prop_map(|mean| Distribution::Exponential { mean }),
        (spans(), spans()).prop_map(|(a, b)| Distribution::Uniform { min: a.min(b), max: a.max(b) }),
        (spans(), 0.0..3.0).prop_map(|(mean, sigma)| Distribution::LogNormal { mean, sigma }),
        (spans(), spans(), 0.0..=1.0).prop_map(|(short, long, share_long)| Distribution::Bimodal {
            short,
            long,
            share_long
        }),
        (spans(), 0..=3_u64)
            .prop_map(|(sd, more)| Distribution::Normal { mean: sd * 3 + Span::from_nanos(more), sd }),
        (spans(), spans(), 0.1..4.0).prop_map(|(a, b, shape)| Distribution::Pareto {
            min: a.min(b),
            max: a.max(b) + Span::from_nanos(1),
            shape
        }),
    ]
}

proptest! {
    #[test]
    fn any_distribution_survives_a_round_trip_through_text(distribution in distributions()) {
        prop_assert_eq!(distribution.to_string().parse::<Distribution>(), Ok(distribution));
    }

    //~ queueing: seeded service times have the moments and bounds of their distribution; impossible ones are refused
    #[test]
    fn samples_stay_within_the_bounds_of_the_distribution(distribution in distributions(), seed: u64) {
        let span = distribution.sample(&mut Rng::seeded(seed));
        match distribution {
            Distribution::Constant(only) => prop_assert_eq!(span, only),
            Distribution::Bimodal { short, long, .. } => prop_assert!(span == short || span == long),
            Distribution::Uniform { min, max } => prop_assert!(min <= span && span <= max),
            Distribution::Pareto { min, max, .. } => {
                // Powers of large numbers round; the bounds hold to one millionth.
                let slack = Span::from_nanos(max.as_nanos() / 1_000_000 + 1);
                prop_assert!(min <= span + slack && span <= max + slack);
            }
            Distribution::Exponential { .. } | Distribution::Normal { .. } | Distribution::LogNormal { .. } => {}
        }
    }
}
