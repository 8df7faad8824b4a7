//! Stack under overload: the guard at the driver stage of a real shard, and the share of time
//! for receiving.

//~ guard: the stack under `queue-delay`: nothing shed below the target, nine tenths of goodput in overload

use proptest::prelude::{prop_assert, proptest};
use proptest::test_runner::Config as Cases;
use queueing::Span;
use sim::world::overloaded_stack::{self, Config, Outcome};

/// Server of requests of 50 µs to 200 µs; `more` holds further settings.
fn server(service_us: u64, seed: u64, more: &str) -> Config {
    let toml = format!("service = \"exp {service_us}us\"\nseed = {seed}\n{more}");
    Config::from_toml(&toml).unwrap_or_else(|e| panic!("{e}: {toml}"))
}

fn run(config: &Config) -> Outcome {
    overloaded_stack::run(config).unwrap_or_else(|e| panic!("{e}"))
}

/// Goodput relative to the capacity of one core.
fn goodput(config: &Config, outcome: &Outcome) -> f64 {
    outcome.in_time as f64 / outcome.counting.as_secs_f64() / config.capacity_per_s()
}

const TARGET: Span = Span::from_millis(20);

proptest! {
    #![proptest_config(Cases::with_cases(4))]

    /// A shard that keeps up sheds no client.
    #[test]
    fn below_the_target_no_client_is_shed(service_us in 50_u64..200, load in 0.1..0.8_f64, seed in 0..1_000_u64) {
        let config = server(service_us, seed, &format!(
            "load = {load}\nguard = \"queue-delay\"\nwarmup = \"1ms\"\nduration = \"500ms\""
        ));
        let outcome = run(&config);
        prop_assert!(outcome.delay.max() <= TARGET, "{}", outcome.delay.max());
        prop_assert!(outcome.guard.shed() == 0, "{:?}", outcome.guard);
        prop_assert!(outcome.in_time == outcome.offered, "{} of {}", outcome.in_time, outcome.offered);
    }

    /// Under any overload at least nine tenths of capacity is goodput, and no latency exceeds
    /// three targets after the first second.
    #[test]
    fn overload_costs_neither_goodput_nor_time(service_us in 50_u64..200, load in 1.3..8.0_f64, seed in 0..1_000_u64) {
        let config = server(service_us, seed, &format!(
            "load = {load}\nguard = \"queue-delay\"\nwarmup = \"1s\"\nduration = \"300ms\""
        ));
        let outcome = run(&config);
        let share = goodput(&config, &outcome);
        prop_assert!(share > 0.9, "{share} of what can be served");
        prop_assert!(outcome.latency.quantile(0.999) < TARGET * 3, "{}", outcome.latency.quantile(0.999));
    }

    /// A second after the end of a surge no client is shed.
    #[test]
    fn goodput_recovers_within_a_second(service_us in 50_u64..200, surge in 2.0..8.0_f64, seed in 0..1_000_u64) {
        let config = server(service_us, seed, &format!(
            "load = 0.6\nsurge = {surge}\nsurge_until = \"700ms\"\nguard = \"queue-delay\"\n\
             warmup = \"1700ms\"\nduration = \"300ms\""
        ));
        let outcome = run(&config);
        prop_assert!(outcome.guard.shed() == 0, "{:?}", outcome.guard);
        prop_assert!(outcome.in_time == outcome.offered, "{} of {}", outcome.in_time, outcome.offered);
    }

    //~ guard: G4: receiving takes no more than its share while requests wait
    /// Receiving with priority stays within its share while requests wait, under any load.
    #[test]
    fn receive_processing_is_bounded_under_a_flood(percent in 2_u8..30, load in 20.0..40.0_f64, seed in 0..1_000_u64) {
        let config = server(50, seed, &format!(
            "load = {load}\ntransport = 100000\nreceive_percent = {percent}\nwarmup = \"100ms\"\nduration = \"50ms\""
        ));
        let outcome = run(&config);
        let receiving = outcome.receiving * 100.0;
        prop_assert!(receiving < f64::from(percent) + 1.0, "{receiving} % of {percent}");
    }
}

//~ guard: G4: receiving takes no more than its share while requests wait
#[test]
fn without_a_bound_a_flood_takes_the_core_from_the_requests() {
    let flood = |more: &str| {
        let config = server(
            50,
            1,
            &format!("load = 40\ntransport = 100000\nwarmup = \"100ms\"\nduration = \"50ms\"\n{more}"),
        );
        (run(&config).served_per_s, config.capacity_per_s())
    };
    let ((unbounded, capacity), (bounded, _)) = (flood(""), flood("receive_percent = 5"));
    assert!(unbounded < 0.75 * capacity, "{unbounded} of {capacity}");
    assert!(bounded > 0.8 * capacity, "{bounded} of {capacity}");
}

//~ guard: G3: a SYN flood takes no frame from established connections
/// A dropped frame is resent a second later, passes the guard, and causes work for a client
/// that has left.
#[test]
fn a_sudden_flood_costs_admitted_clients_no_frame() {
    let lost = |guard: &str| {
        let more = format!(
            "load = 10\nguard = \"{guard}\"\npatience = \"25ms\"\nwarmup = \"1ms\"\nduration = \"20ms\""
        );
        run(&server(5, 1, &more)).frames_lost
    };
    assert_eq!(lost("queue-delay"), 0);
    assert!(lost("none") > 1_000, "without a guard many are");
}

//~ guard: where receiving goes first, throughput falls on the line of (7)
/// The paper's (7), with the costs of the stack's steps: a line of slope −µ2/µ1.
#[test]
fn without_a_bound_throughput_falls_linearly_with_arrivals() {
    // The last one: long enough that most warm-up clients have left before measurement.
    for (load, warmup) in [(2, "250ms"), (10, "250ms"), (4, "700ms")] {
        let more = format!("load = {load}\ntransport = 100000\nwarmup = \"{warmup}\"\nduration = \"50ms\"");
        let config = server(20, 1, &more);
        let outcome = run(&config);
        let offered_per_s = outcome.offered as f64 / outcome.counting.as_secs_f64();
        let of_line = outcome.served_per_s / config.line_per_s(offered_per_s);
        assert!((0.9..1.1).contains(&of_line), "{of_line} of the line at load {load}");
    }
}

#[test]
fn the_urgent_class_is_admitted_and_the_others_are_shed() {
    let config = server(
        100,
        1,
        "load = 0.5\nload_others = 5\nguard = \"queue-delay\"\nwarmup = \"1s\"\nduration = \"500ms\"",
    );
    let outcome = run(&config);
    let share = outcome.in_time as f64 / outcome.offered as f64;
    assert!(share > 0.98, "{share} of those who matter");
    let (offered, in_time) = outcome.others;
    assert!(in_time > 0 && in_time < offered / 5, "{in_time} of {offered} others");
}

#[test]
fn a_reset_spares_clients_the_connect_timeout() {
    let more =
        "load = 3\nguard = \"queue-delay\"\nrefusal = \"reset\"\nwarmup = \"1s\"\nduration = \"200ms\"";
    let config = server(100, 1, more);
    let outcome = run(&config);
    assert!(outcome.refused + outcome.in_time > outcome.offered * 98 / 100, "{outcome:?}");
    assert!(goodput(&config, &outcome) > 0.9);
}

#[test]
fn without_a_guard_every_client_is_served_too_late() {
    let config = server(100, 1, "load = 2\nwarmup = \"600ms\"\nduration = \"200ms\"");
    let outcome = run(&config);
    assert!(outcome.served_per_s > 0.9 * config.capacity_per_s());
    assert!(goodput(&config, &outcome) < 0.05);
}

//~ guard: simulated clients take as many addresses as they need
/// Closed connections keep their slots until the server acknowledges, which a flood delays.
#[test]
fn clients_use_as_many_addresses_as_needed_and_too_many_is_an_error() {
    let flood = |each: usize| {
        let more = "load = 20\ntransport = 100000\nwarmup = \"50ms\"\nduration = \"50ms\"";
        overloaded_stack::run(&server(50, 1, &format!("{more}\nconnections_max = {each}")))
    };
    let (one, several) = (flood(1 << 20).unwrap(), flood(15_000).unwrap());
    assert_eq!(one.offered, several.offered, "the same callers come");
    let served = several.served_per_s / one.served_per_s;
    assert!((0.95..1.05).contains(&served), "{served} of what is served to one address");
    let refused = flood(1_000).unwrap_err().to_string();
    assert!(refused.contains("all 8 client addresses are full, with 1000 connections each"), "{refused}");
}

#[test]
fn equal_seeds_replay() {
    let config = server(100, 7, "load = 2\nguard = \"queue-delay\"\nwarmup = \"50ms\"\nduration = \"50ms\"");
    let (once, again) = (run(&config), run(&config));
    assert_eq!((once.events, once.in_time, once.guard), (again.events, again.in_time, again.guard));
}

#[test]
fn invalid_settings_are_refused_with_their_value() {
    let refused = |more: &str| {
        Config::from_toml(&format!("service = \"exp 5us\"\n{more}")).expect_err(more).to_string()
    };
    for (more, says) in [
        ("load = 0", "load 0 is outside"),
        ("load = 1\nguard = \"best\"", "queue-delay"),
        ("load = 1\nreject = \"shout\"", "drop, reset"),
        ("load = 1\nreceive_percent = 101", "receive_percent 101 is outside 1..=100"),
        ("load = 1\ntransport = 0", "transport 0"),
        ("load = 1\nconnections_max = 0", "connections_max 0 is outside 1..=1048576"),
        ("load = 1\nduration = \"0s\"", "duration"),
    ] {
        assert!(refused(more).contains(says), "{more}: {}", refused(more));
    }
}
