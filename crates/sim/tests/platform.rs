//! Platform against theory and against itself: requests are accounted for, a seed replays, and
//! a mechanism changes only its part.

use queueing::{Distribution, Span, theory};
use sim::world::platform::{Config, Outcome, run};

/// Small platform with all features.
fn text(mechanisms: &str, more: &str) -> String {
    format!(
        r#"
        mechanisms = "{mechanisms}"
        clients = 1
        warmup = "2ms"
        duration = "10ms"
        machine = {{ physical = 2, lanes = 1 }}
        core_costs = {{ slice = "uniform 200us 400us" }}
        be_phases = [{{ duration = "2ms" }}]
        tiers = [
            {{ name = "front", hosts = 1, service = "exp 5us", merge = "2us" }},
            {{ name = "mid", hosts = 1, service = "exp 10us", merge = "5us", reserve = "20us" }},
            {{ name = "leaf", hosts = 3, parts = 3, service = "exp 20us", answer = "4KB" }},
        ]
        [[classes]]
        name = "ls"
        arrivals = "poisson 30000"
        level = 2
        slo = "500us"
        [[classes]]
        name = "batch"
        arrivals = "burst 10 2ms 0ns"
        level = 5
        slo = "20ms"
        scale = 5.0
        [[classes]]
        name = "new"
        arrivals = "poisson 150000"
        from = "4ms"
        until = "9ms"
        level = 1
        granted = 6
        slo = "1ms"
        scale = 0.2
        newcomers = true
        opening = "20us"
        [network]
        topology = {{ kind = "leaf-spine", leaves = 2, spines = 2, hosts_per_leaf = 3, host = {{ gbps = 10, delay = "1us" }}, core = {{ gbps = 40, delay = "200ns" }} }}
        multipath = "ecmp"
        thresholds = [6, 20, 60, 200]
        bulk = {{ sizes = "list 300000 20000", load = 0.3, level = 3 }}
        {more}
        "#
    )
}

fn outcome(mechanisms: &str, more: &str) -> Outcome {
    let config = Config::from_toml(&text(mechanisms, more));
    run(&config.unwrap_or_else(|error| panic!("{mechanisms}: {error}")))
}

const ALL: [&str; 12] = [
    "none",
    "only fabric",
    "only events",
    "only deadline",
    "only guard",
    "only cores",
    "all but fabric",
    "all but events",
    "all but deadline",
    "all but guard",
    "all but cores",
    "all",
];

//~ platform: every request is answered, refused, dropped or pending, with any mechanisms on
#[test]
fn with_any_mechanisms_every_request_is_accounted_for() {
    let mut request_counts = Vec::new();
    for mechanisms in ALL {
        let outcome = outcome(mechanisms, "");
        for class in &outcome.classes {
            assert_eq!(class.accounted(), class.requests, "{mechanisms}: {class:?}");
            assert_eq!(class.latency.count(), class.requests, "{mechanisms}: {}", class.name);
            assert_eq!(class.answered.count(), class.on_time + class.late, "{mechanisms}: {}", class.name);
            assert_eq!((class.lost, class.unanswered), (0, 0), "{mechanisms}: {}", class.name);
        }
        let sum = |of: fn(&sim::world::platform::ClassOutcome) -> u64| -> u64 {
            outcome.classes.iter().map(of).sum()
        };
        let (refused, shed) = (sum(|class| class.refused), sum(|class| class.shed));
        let has = |name: &str| match mechanisms.strip_prefix("all but ") {
            Some(left_out) => left_out != name,
            None => mechanisms == "all" || mechanisms == format!("only {name}"),
        };
        assert_eq!(refused > 0, has("guard"), "{mechanisms}: only the guard refuses: {refused}");
        assert!(shed == 0 || has("deadline"), "{mechanisms}: only budgets drop: {shed}");
        request_counts.push(outcome.classes.iter().map(|class| class.requests).collect::<Vec<_>>());
    }
    assert!(
        request_counts.iter().all(|these| *these == request_counts[0]),
        "all are given the same work: {request_counts:?}"
    );
    assert!(request_counts[0].iter().all(|&requests| requests > 20), "{request_counts:?}");
}

//~ platform: a seed replays a run; one core alone is an M/G/1 queue
#[test]
fn a_seed_replays_a_run_and_another_does_not() {
    let of = |seed: u64| {
        let config = Config { seed, ..Config::from_toml(&text("all", "")).expect("a platform") };
        let outcome = run(&config);
        let classes = outcome.classes.iter().map(|class| (class.on_time, class.latency.mean()));
        (classes.collect::<Vec<_>>(), outcome.packets, outcome.events)
    };
    assert_eq!(of(1), of(1));
    assert_ne!(of(1), of(2));
}

//~ platform: a client that claims more urgency than granted gains nothing
#[test]
fn claiming_more_than_the_granted_class_gains_nothing() {
    let of = |level: &str| {
        let text = text("all", "").replace("level = 1\n        granted = 6", level);
        let outcome = run(&Config::from_toml(&text).expect("a platform"));
        let class = |class: &sim::world::platform::ClassOutcome| (class.on_time, class.latency.mean());
        (outcome.classes.iter().map(class).collect::<Vec<_>>(), outcome.events)
    };
    let modest = of("level = 6");
    assert_eq!(of("level = 1\n        granted = 6"), modest);
    assert_ne!(of("level = 1"), modest, "to be granted it is another matter");
}

//~ platform: each switch changes its own mechanism only
#[test]
fn without_interference_or_overload_no_mechanism_changes_the_answers() {
    let quiet = |mechanisms: &str| {
        let mut config = Config::from_toml(&text(mechanisms, "")).expect("a platform");
        config.classes.truncate(1);
        config.classes[0].arrivals = "poisson 500".parse().expect("arrivals");
        config.classes[0].slo = Span::from_millis(50);
        config.be_phases.clear();
        config.network.as_mut().expect("there is one").bulk = None;
        config.duration = Span::from_millis(100);
        let class = run(&config).classes.remove(0);
        (class.requests, class.on_time, class.latency.quantile(0.5))
    };
    let (requests, on_time, p50) = quiet("none");
    assert_eq!(on_time, requests);
    for mechanisms in ALL {
        let other = quiet(mechanisms);
        assert_eq!((other.0, other.1), (requests, requests), "{mechanisms}");
        let off = other.2.as_secs_f64() / p50.as_secs_f64() - 1.0;
        assert!(off.abs() < 0.3, "{mechanisms}: {} and {p50}", other.2);
    }
}

#[test]
fn net_s_own_tcp_carries_the_same_requests_after_a_handshake() {
    let quiet = |kind: &str| {
        let more = format!("transport = {{ kind = {kind} }}");
        let mut config = Config::from_toml(&text("all", &more)).expect("a platform");
        config.classes.truncate(1);
        config.be_phases.clear();
        run(&config).classes.remove(0)
    };
    let [warm, fresh] = [r#""modern", established = true"#, r#""modern""#].map(quiet);
    assert_eq!(warm.requests, quiet(r#""ns2""#).requests);
    assert_eq!(warm.requests, fresh.requests);
    assert_eq!(fresh.accounted(), fresh.requests);
    assert!(fresh.latency.quantile(0.5) > warm.latency.quantile(0.5) + Span::from_micros(10));
}

/// One tier, one core, no network, no BE task, no costs.
fn alone(service: &str, rate_per_s: u64) -> Outcome {
    let config = Config::from_toml(&format!(
        r#"
        mechanisms = "none"
        clients = 1
        warmup = "50ms"
        duration = "2s"
        machine = {{ physical = 1, lanes = 1 }}
        core_costs = {{ decide = "0ns", wake = "0ns", preempt = "0ns", resume = "0ns", spin = "0ns" }}
        needs = {{ memory = 0.0, bandwidth_gb = 0.0 }}
        costs = {{ driver_ns = 0, classify_ns = 0, shed_ns = 0, tcp_rx_ns = 0, tcp_ack_ns = 0, tcp_tx_ns = 0, event_ns = 0, dispatch_ns = 0 }}
        tiers = [{{ name = "one", hosts = 1, service = "{service}" }}]
        classes = [{{ name = "all", arrivals = "poisson {rate_per_s}", level = 2, slo = "1s" }}]
        "#
    ));
    run(&config.unwrap_or_else(|error| panic!("{error}")))
}

//~ platform: a seed replays a run; one core alone is an M/G/1 queue
#[test]
fn one_core_alone_is_an_m_g_1_queue() {
    for service in ["exp 10us", "10us", "bimodal 5us 50us 0.1"] {
        let distribution: Distribution = service.parse().expect("a distribution");
        let rate_per_s = 0.7 / distribution.mean().as_secs_f64();
        let outcome = alone(service, rate_per_s as u64);
        let expected =
            theory::mg1::sojourn_mean(rate_per_s as u64 as f64, &distribution).expect("below saturation");
        let found = outcome.classes[0].latency.mean();
        let off = found.as_secs_f64() / expected.as_secs_f64() - 1.0;
        assert!(off.abs() < 0.05, "{service}: {found} where theory has {expected}");
    }
}

#[test]
fn an_invalid_setting_is_refused_with_its_value() {
    let refused = |from: &str, to: &str, says: &str| {
        let text = text("all", "");
        assert!(text.contains(from), "{from:?}");
        let error = Config::from_toml(&text.replace(from, to)).expect_err(to).to_string();
        assert!(error.contains(says), "{error}");
    };
    refused("\"all\"", "\"most\"", "mechanisms \"most\" is not one of");
    refused("clients = 1", "clients = 0", "clients 0");
    refused("clients = 1", "clients = 9", "6 hosts are fewer than 14");
    refused("parts = 3", "parts = 4", "tier leaf: parts 4 are outside 1..=3");
    refused("scale = 5.0", "scale = 0.0", "class batch: scale 0");
    refused("granted = 6", "granted = 9", "class new: level 9");
    refused("load = 0.3", "load = 0.0", "bulk: load 0");
    refused("gbps = 10", "gbps = 0", "gbps 0");
    refused("physical = 2", "physical = 0", "");
}

//~ platform: a request that can bear two losses drops a level and costs no other of its level
#[test]
fn a_loss_tolerant_class_costs_its_level_no_other_requests() {
    // Users with a long objective at once, at the level of those with a short one, and ports
    // with small buffers.
    let missed = |slo: &str| {
        let patient = format!("arrivals = \"burst 30 2ms 0ns\"\n level = 2\n slo = \"{slo}\"");
        let text = text("all", "buffer_size = 30\n scheduler = \"fish-plus\"")
            .replace("arrivals = \"burst 10 2ms 0ns\"\n        level = 5\n        slo = \"20ms\"", &patient)
            .replace("scale = 5.0", "scale = 1.0")
            .replace("slo = \"500us\"", "slo = \"1ms\"")
            .replace("from = \"4ms\"\n        until = \"9ms\"", "from = \"100s\"");
        let outcome = run(&Config::from_toml(&text).expect("a platform"));
        let [ls, patient, _] = &outcome.classes[..] else { panic!("three classes") };
        assert!(patient.requests > 100, "{}", patient.requests);
        (ls.requests, ls.requests - ls.on_time)
    };
    // A loss costs 2 ms: a budget of 4 ms does not allow two.
    let ((requests, protected), (same, beside)) = (missed("20ms"), missed("4ms"));
    assert_eq!(requests, same, "the same work");
    assert!(
        protected == 0 && beside > requests / 10,
        "{protected}, {beside} of {requests} are late or dropped"
    );
}
