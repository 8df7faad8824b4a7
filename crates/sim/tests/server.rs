//! Properties of the server simulation in every mode.

use queueing::Span;
use sim::CostModel;
use sim::world::server::{self, Config, Outcome};

/// The paper's bursty mix, scaled down: 5 % urgent, a burst each millisecond, 90 % load.
const BURSTS: &str = r#"
    mode = "MODE"
    workers = 2
    seed = 11
    scenario = { driver = "tag", transport = "span" }
    link = { gbps = 10, delay = "2us" }
    [load]
    connections = 200
    spread = "per-class"
    arrivals = "burst 180 1ms 0ns"
    requests = 20000
    [[load.classes]]
    name = "ls"
    share = 0.05
    service = "10us"
    length = 64
    kind = 0
    priority = 0
    [[load.classes]]
    name = "be"
    share = 0.95
    service = "10us"
    length = 64
    kind = 1
    priority = 7
"#;

fn bursts(mode: &str) -> Config {
    Config::from_toml(&BURSTS.replace("MODE", mode)).unwrap()
}

fn run(config: &Config) -> Outcome {
    server::run(config, &mut |_| {})
}

fn p99_us(outcome: &Outcome, class: &str) -> f64 {
    outcome.report.class(class).unwrap().p99().as_micros_f64()
}

//~ sim: equal seeds give equal results
#[test]
fn equal_seeds_give_equal_outcomes() {
    for mode in ["none", "adps"] {
        let first = run(&bursts(mode));
        assert_eq!(first.digest(), run(&bursts(mode)).digest(), "{mode}");
        let other = run(&Config { seed: 12, ..bursts(mode) });
        assert_ne!(first.digest(), other.digest(), "{mode}: another seed draws other requests");
    }
}

//~ sim: the server world accounts for every request; stages add up to the latency
#[test]
fn every_request_is_accounted_for() {
    for mode in ["none", "lns", "darc", "adps", "ideal"] {
        let outcome = run(&bursts(mode));
        let classes = &outcome.report.classes;
        assert_eq!(classes.iter().map(|class| class.requests).sum::<u64>(), 20_000, "{mode}");
        for class in classes {
            assert_eq!(class.latency.count(), class.requests - class.never_sent - class.unanswered, "{mode}");
        }
        let answered = classes.iter().map(|class| class.latency.count()).sum::<u64>();
        assert!(outcome.shard.responses >= answered, "{mode}: no answer comes from nowhere");
        if mode != "ideal" {
            assert_eq!(answered, 20_000, "{mode}: nothing was lost");
        }
    }
}

#[test]
fn urgent_requests_wait_least_under_adps_and_most_without_priority() {
    let [none, darc, adps, ideal] =
        ["none", "darc", "adps", "ideal"].map(|mode| p99_us(&run(&bursts(mode)), "ls"));
    assert!(adps <= darc && darc <= none, "adps {adps} darc {darc} none {none}");
    assert!(adps < none / 5.0, "adps {adps} none {none}");
    assert!(ideal <= adps, "ideal {ideal} adps {adps}");
}

//~ sim: the server world accounts for every request; stages add up to the latency
#[test]
fn the_stages_add_up_to_the_latency() {
    for mode in ["none", "adps"] {
        for class in &run(&bursts(mode)).report.classes {
            let total = class.at_p99.total().as_micros_f64();
            let p99 = class.p99().as_micros_f64();
            assert!((total / p99 - 1.0).abs() < 0.05, "{mode} {}: stages {total} p99 {p99}", class.name);
            // Cable delay in both directions, two frames, and hand-overs in the server.
            let rest = class.at_p99.client_and_wire.as_micros_f64();
            assert!(rest >= 4.0, "{mode} {}: client and wire {rest}", class.name);
        }
    }
}

//~ sim: the server world accounts for every request; stages add up to the latency
#[test]
fn no_core_is_busier_than_time_allows() {
    let outcome = run(&bursts("adps"));
    for core in &outcome.cores {
        assert!((0.0..=1.0).contains(&core.utilisation), "{core:?}");
    }
    let work = 20_000.0 * 10e-6;
    let busy: f64 = outcome.cores[1..].iter().map(|core| core.busy.as_secs_f64()).sum();
    assert!(busy >= work, "the workers served {work} s of requests in {busy} s");
}

//~ dispatch: mode `ideal` drops less urgent frames in the driver, or preempts them in the simulator
#[test]
fn preemption_keeps_urgent_requests_from_waiting_for_long_ones() {
    let text = r#"
        mode = "adps"
        workers = 1
        cores = "CORES"
        scenario = { driver = "tag" }
        [load]
        connections = 200
        arrivals = "poisson 50000"
        requests = 20000
        classes = [
            { name = "short", share = 0.995, service = "1us", kind = 0, priority = 0 },
            { name = "long", share = 0.005, service = "1ms", kind = 1, priority = 7 },
        ]
    "#;
    let p99 = |cores: &str| p99_us(&run(&Config::from_toml(&text.replace("CORES", cores)).unwrap()), "short");
    let (own, ideal) = (p99("own"), p99("preemptive"));
    assert!(own > 900.0, "a long request blocks the only core: {own}");
    assert!(ideal < 20.0, "nothing blocks: {ideal}");
}

#[test]
fn a_small_ring_drops_and_tcp_repairs() {
    let slow = CostModel { driver_ns: 2000, ..CostModel::default() };
    let mut config = Config { nic_ring: 64, costs: Some(slow), ..bursts("none") };
    // A frame lost twice is resent after a second.
    config.load.timeout = Span::from_secs(10);
    let outcome = run(&config);
    assert!(outcome.nic.dropped > 0);
    let answered: u64 = outcome.report.classes.iter().map(|class| class.latency.count()).sum();
    assert_eq!(answered, 20_000);
}

//~ input: an invalid world is refused with what would be valid
#[test]
fn an_invalid_configuration_is_refused_with_the_valid_range() {
    let refused = |from: &str, to: &str| {
        Config::from_toml(&BURSTS.replace("MODE", "none").replace(from, to)).unwrap_err().to_string()
    };
    assert!(refused("workers = 2", "workers = 300").contains("workers 300 is outside 1..=256"));
    assert!(refused("mode = \"none\"", "mode = \"fast\"").contains("none, lns, darc, adps, learned, ideal"));
    assert!(refused("driver = \"tag\"", "driver = \"size\"").contains("tag, lns, length BYTES"));
    assert!(refused("seed = 11", "sede = 11").contains("sede"));
    assert!(refused("delay = \"2us\"", "delay = \"2 weeks\"").contains("ns, us, ms, s"));
}

/// Short and long requests without a classifier for their tags; long ones are rare and use half
/// a core.
const UNMARKED: &str = r#"
    mode = "MODE"
    workers = 2
    seed = 5
    scenario = { transport = "service-time 100us" }
    steering = { low = [1] }
    [load]
    connections = 1000
    spread = "per-class"
    arrivals = "poisson 25000"
    requests = 20000
    warmup = "20ms"
    classes = [
        { name = "short", share = 0.98, service = "1us", kind = 0, priority = 0 },
        { name = "long", share = 0.02, service = "1ms", kind = 1, priority = 7 },
    ]
"#;

//~ classifiers: scenario 6: kinds measured as long stay on their own worker, end to end in the simulator
#[test]
fn kinds_with_measured_long_service_stay_on_their_own_worker() {
    let [none, adps] =
        ["none", "adps"].map(|mode| run(&Config::from_toml(&UNMARKED.replace("MODE", mode)).unwrap()));
    let p99 = [&none, &adps].map(|outcome| p99_us(outcome, "short"));
    assert!(p99[1] < 30.0 && p99[0] > 10.0 * p99[1], "p99 of the short: none and adps {p99:?} µs");
    // No classifier reads the tags: measured service times keep long requests off worker 0.
    let busy = |outcome: &Outcome, core: usize| outcome.cores[core].utilisation;
    assert!(busy(&adps, 1) < 0.25 && busy(&adps, 2) > 0.35, "{:?}", adps.cores);
    assert!(busy(&none, 1) > 0.25, "{:?}", none.cores);
    for outcome in [none, adps] {
        let long = outcome.report.class("long").unwrap();
        assert_eq!(long.latency.count(), long.requests, "the long ones are answered, too");
    }
}
