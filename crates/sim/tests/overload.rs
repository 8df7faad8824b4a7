//! Two-stage server against its model and against invariants.

use proptest::prelude::{prop_assert_eq, proptest};
use proptest::sample::select;
use queueing::Span;
use queueing::theory::mm1k;
use sim::world::overload::{Config, Outcome, run};

/// Receiving takes 30 µs, serving 300.
fn config(rate_per_s: f64, more: &str) -> Config {
    let text = format!(
        "arrivals = \"poisson {rate_per_s}\"\nrequests = 200000\nreceive = \"exp 30us\"\nserve = \"exp 300us\"\n\
         receive_capacity = 64\nserve_capacity = 128\ntimeout = \"1s\"\n"
    );
    // Later keys replace earlier ones.
    let mut table: toml::Table = text.parse().expect("settings");
    table.extend(more.parse::<toml::Table>().expect("settings"));
    Config::from_toml(&table.to_string()).expect("a server")
}

fn served_per_s(outcome: &Outcome) -> f64 {
    (outcome.in_time + outcome.in_vain) as f64 / outcome.arriving.as_secs_f64()
}

//~ guard: throughput of a simulated server agrees with (1) to (7) within 5 %
#[test]
fn throughput_is_within_5_percent_of_the_model() {
    for rate_per_s in [1_000.0, 2_000.0, 2_700.0, 3_500.0, 6_000.0, 15_000.0, 25_000.0] {
        let config = config(rate_per_s, "");
        let (model, seen) =
            (config.model().outcome(rate_per_s).served * rate_per_s, served_per_s(&run(&config)));
        assert!((model / seen - 1.0).abs() < 0.05, "{rate_per_s}: {model} {seen}");
    }
}

#[test]
fn shedding_keeps_throughput_near_its_peak_where_it_fell_to_a_quarter() {
    let peak = served_per_s(&run(&config(3_000.0, "")));
    let (bare, guarded) =
        (run(&config(28_000.0, "")), run(&config(28_000.0, "guard = \"model\"\nshed = \"300ns\"")));
    assert!(served_per_s(&bare) < 0.25 * peak);
    assert!(served_per_s(&guarded) > 0.9 * peak, "{} of {peak}", served_per_s(&guarded));
}

//~ guard: at ten times capacity a delay-based policy keeps goodput where a long queue serves in vain
/// Ten times capacity, client timeout of 100 ms, capacity for 511 requests.
#[test]
fn a_delay_policy_keeps_the_goodput_that_a_large_buffer_wastes() {
    let goodput = |more: &str| {
        let base = "serve_capacity = 511\ntimeout = \"100ms\"\nreceive = \"exp 10us\"\nshed = \"300ns\"\n";
        let outcome = run(&config(33_000.0, &format!("{base}{more}")));
        outcome.in_time as f64 / outcome.arriving.as_secs_f64()
    };
    let alone = 1.0 / 310e-6;
    assert!(goodput("") < 0.05 * alone);
    for target in ["20ms", "50ms"] {
        let more = format!("guard = \"queue-delay\"\ndelay_target = \"{target}\"");
        assert!(goodput(&more) > 0.9 * alone, "{target}: {} of {alone}", goodput(&more));
    }
}

#[test]
fn without_receive_cost_a_full_backlog_wastes_work_as_the_formula_predicts() {
    for room in [20, 128] {
        let more = format!("receive = \"exp 1ns\"\nserve_capacity = {room}\ntimeout = \"15ms\"");
        let outcome = run(&config(4_300.0, &more));
        let seen = outcome.in_time as f64 / 200_000.0;
        let within = mm1k::within(room, 4_300.0, Span::from_micros(300), Span::from_millis(15));
        assert!((seen - within).abs() < 0.01, "{room}: {seen} {within}");
    }
}

fn ends(outcome: &Outcome) -> [u64; 5] {
    let Outcome { shed, lost_receiving, lost_serving, in_time, in_vain, .. } = *outcome;
    [shed, lost_receiving, lost_serving, in_time, in_vain]
}

proptest! {
    #![proptest_config(proptest::test_runner::Config::with_cases(24))]

    #[test]
    fn every_client_has_one_outcome_and_a_seed_replays(
        rate in select(vec!["poisson 2000", "poisson 50000", "uniform 3300", "burst 400 100ms 0ns"]),
        capacities in [1..100_u32, 1..100_u32],
        shed in select(vec!["0ns", "300ns", "100us"]),
        guard in select(vec!["none", "model", "queue-delay", "syn-paper", "gradient", "memory"]),
        seed in 0..1_000_u64,
    ) {
        let [receive_room, serve_room] = capacities;
        let config = config(1.0, &format!(
            "arrivals = \"{rate}\"\nrequests = 2000\nguard = \"{guard}\"\nshed = \"{shed}\"\nseed = {seed}\ntimeout = \"5ms\"\n\
             receive_capacity = {receive_room}\nserve_capacity = {serve_room}"
        ));
        let outcome = run(&config);
        prop_assert_eq!(ends(&outcome).iter().sum::<u64>(), 2000);
        prop_assert_eq!(outcome.sojourn.count(), outcome.in_time + outcome.in_vain);
        let again = run(&config);
        prop_assert_eq!((ends(&again), again.sojourn.max()), (ends(&outcome), outcome.sojourn.max()));
    }
}

#[test]
fn invalid_servers_are_refused_with_their_value() {
    let good = "arrivals = \"poisson 10\"\nrequests = 5\nreceive = \"1us\"\nserve = \"2us\"\nreceive_capacity = 3\n\
                serve_capacity = 4\ntimeout = \"1s\"\n";
    assert!(Config::from_toml(good).is_ok());
    for (from, to, expected) in [
        ("receive_capacity = 3", "receive_capacity = 0", "receive_capacity 0"),
        ("requests = 5", "requests = 0", "requests 0"),
        ("\"2us\"", "\"0ns\"", "serve takes no time"),
        ("timeout", "timeouts", "timeouts"),
        ("timeout", "guard = \"dog\"\ntimeout", "syn-paper"),
        ("poisson 10", "poisson 0", "more than 0"),
    ] {
        let error = Config::from_toml(&good.replace(from, to)).map(drop).unwrap_err().to_string();
        assert!(error.contains(expected), "{to}: {error}");
    }
}
