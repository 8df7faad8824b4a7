//! Simulated machine against queueing theory and the paper's oracles.

use queueing::Span;
use queueing::theory::mmc;
use sim::cores::{Config, Outcome, run};

fn outcome(text: &str) -> Outcome {
    run(&Config::from_toml(text).unwrap_or_else(|error| panic!("{error}")))
}

//~ cores: the simulated machine agrees with M/M/c and with the model of interference
#[test]
fn dedicated_logical_cores_are_an_mmc_queue() {
    let found = outcome(
        r#"
        policy = "static"
        duration = "2s"
        machine = { physical = 4, lanes = 1 }
        [[tasks]]
        name = "lc"
        class = "LC"
        guaranteed = 4
        arrivals = "poisson 320000"
        service = "exp 10us"
        needs = { memory = 0.0, bandwidth_gb = 0.0 }
        "#,
    );
    let lc = &found.tasks[0];
    let service = Span::from_micros(10);
    let mean = mmc::sojourn_mean(4, 320_000.0, service).unwrap().as_secs_f64();
    assert!((lc.latency.mean().as_secs_f64() / mean - 1.0).abs() < 0.03, "{} {mean}", lc.latency.mean());
    assert!(
        (lc.cores(found.counted) - 3.2).abs() < 0.03,
        "work is what arrived: {}",
        lc.cores(found.counted)
    );
    assert_eq!(lc.lost, 0);
}

/// One logical core at exactly full load, beside a BE sibling that halves its rate from 5 ms
/// on.
const HALVED: &str = r#"
    policy = "static"
    warmup = "0ns"
    machine = { physical = 1, lanes = 2 }
    [[tasks]]
    name = "lc"
    class = "LC"
    guaranteed = 1
    arrivals = "uniform 1000000"
    service = "1us"
    needs = { memory = 0.0, bandwidth_gb = 0.0, pressure = 0.0, sensitivity = 1.0 }
    [[tasks]]
    name = "be"
    class = "BE"
    threads = 1
    phases = [
        { duration = "5ms", needs = { memory = 0.0, bandwidth_gb = 0.0, pressure = 0.0, sensitivity = 0.0 } },
        { duration = "1s", needs = { memory = 0.0, bandwidth_gb = 0.0, pressure = 1.0, sensitivity = 0.0 } },
    ]
"#;

//~ cores: the simulated machine agrees with M/M/c and with the model of interference
#[test]
fn every_10_us_at_half_the_service_rate_add_5_us_of_queueing_delay() {
    let max = |lasts: &str| outcome(&format!("duration = \"{lasts}\"\n{HALVED}")).tasks[0].latency.max();
    let (early, late) = (max("7ms"), max("9ms"));
    let grown = (late - early).as_micros_f64();
    assert!((grown - 1_000.0).abs() < 20.0, "2 ms more grew the delay by {grown} µs");
    assert!(early.as_micros_f64() > 950.0 && early.as_micros_f64() < 1_050.0, "{early}");
}

//~ cores: loads change at the configured times
#[test]
fn loads_change_on_schedule() {
    let served = |changes: &str| {
        let found = outcome(&format!(
            r#"
            policy = "static"
            warmup = "0ns"
            duration = "40ms"
            machine = {{ physical = 2 }}
            tasks = [{{ name = "lc", class = "LC", guaranteed = 4, arrivals = "uniform 100000", changes = {changes}, service = "1us" }}]
            "#
        ));
        found.tasks[0].answered + found.tasks[0].unanswered
    };
    let near = |found: u64, expected: u64| assert!(found.abs_diff(expected) <= 2, "{found} for {expected}");
    near(served("[]"), 4_000);
    near(served(r#"[{ at = "10ms", arrivals = "uniform 200000" }]"#), 7_000);
    let pause =
        r#"[{ at = "10ms", arrivals = "uniform 1000" }, { at = "30ms", arrivals = "uniform 10000" }]"#;
    near(served(pause), 1_120);
}

#[test]
fn a_seed_replays() {
    let text = |seed: u64| {
        format!(
            r#"
            policy = "caladan"
            duration = "20ms"
            seed = {seed}
            machine = {{ physical = 3 }}
            tasks = [
                {{ name = "lc", class = "LC", guaranteed = 3, arrivals = "poisson 200000", service = "exp 5us", request_max = "10us" }},
                {{ name = "be", class = "BE", threads = 6, needs = {{ memory = 0.9, bandwidth_gb = 9.0 }} }},
            ]
            "#
        )
    };
    let digest = |seed: u64| {
        let found = outcome(&text(seed));
        let of = |n: usize| (found.tasks[n].answered, found.tasks[n].latency.max(), found.tasks[n].work);
        (found.events, found.actions, of(0), of(1))
    };
    assert_eq!(digest(1), digest(1));
    assert_ne!(digest(1), digest(2));
}

/// Requests of 2 µs on four physical cores, beside eight threads of `needs` under `policy`.
fn beside(policy: &str, threads: u32, needs: &str) -> Outcome {
    outcome(&format!(
        r#"
        policy = "{policy}"
        duration = "200ms"
        machine = {{ physical = 4, bandwidth_gb = 12.0 }}
        bandwidth_max_gb = 9.0
        tasks = [
            {{ name = "lc", class = "LC", guaranteed = 8, arrivals = "poisson 200000", service = "exp 2us", needs = {{ memory = 0.4, misses = 0.6, sensitivity = 0.3 }} }},
            {{ name = "be", class = "BE", threads = {threads}, needs = {needs} }},
        ]
        "#
    ))
}

const STREAM: &str = "{ memory = 0.9, bandwidth_gb = 6.0, footprint = \"64MB\", misses = 1.0 }";

#[test]
fn caladan_keeps_the_tail_next_to_stream_and_gives_best_effort_the_spare_bandwidth() {
    let p999 = |found: &Outcome| found.tasks[0].latency.quantile(0.999).as_micros_f64();
    let (alone, caladan, shenango) =
        (beside("caladan", 0, STREAM), beside("caladan", 8, STREAM), beside("shenango", 8, STREAM));
    assert!(p999(&caladan) < 1.3 * p999(&alone), "{} {}", p999(&caladan), p999(&alone));
    assert!(p999(&shenango) > 1.1 * p999(&caladan), "{} {}", p999(&shenango), p999(&caladan));
    let work = |found: &Outcome| found.tasks[1].cores(found.counted);
    assert!(work(&caladan) > 0.7 * work(&shenango), "{} {}", work(&caladan), work(&shenango));
}

#[test]
fn what_lc_leaves_be_has() {
    let found = beside("caladan", 8, "{ memory = 0.0, bandwidth_gb = 0.0, pressure = 0.0 }");
    let (lc, be) = (found.tasks[0].cores(found.counted), found.tasks[1].cores(found.counted));
    assert!((lc - 0.4).abs() < 0.02, "{lc}");
    // BE loses context switches and LC's spinning: a few µs per wake-up.
    assert!(be > 0.7 * (8.0 - lc), "{be}");
}

//~ cores: impossible guarantees are refused with both numbers
#[test]
fn an_invalid_setting_is_refused_with_the_valid_range() {
    for (text, says) in [
        ("policy = \"caladan\"\nduration = \"0ns\"\ntasks = []", "duration 0ns"),
        ("policy = \"caladan\"\nduration = \"1s\"\ntasks = []", "0 tasks are outside"),
        (
            "policy = \"magic\"\nduration = \"1s\"\ntasks = [{ name = \"a\", class = \"BE\" }]",
            "not one of caladan",
        ),
        (
            "policy = \"static\"\nduration = \"1s\"\ntasks = [{ name = \"a\", class = \"LC\" }]",
            "task a: LC needs",
        ),
        (
            "policy = \"static\"\nduration = \"1s\"\ntasks = [{ name = \"a\", class = \"BE\", needs = { memory = 2.0 } }]",
            "memory 2 is outside 0..=1",
        ),
        (
            "policy = \"static\"\nduration = \"1s\"\ntasks = [{ name = \"a\", class = \"BE\", changes = [{ at = \"1s\", arrivals = \"uniform 1\" }] }]",
            "no changes of them",
        ),
        (
            "policy = \"static\"\nduration = \"1s\"\ntasks = [{ name = \"a\", class = \"BE\", guaranteed = 1 }]",
            "guaranteed cores of a BE task must be 0",
        ),
    ] {
        let error = Config::from_toml(text).unwrap_err().to_string();
        assert!(error.contains(says), "{error}");
    }
}
