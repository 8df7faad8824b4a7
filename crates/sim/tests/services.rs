//! Services simulation against queueing theory, and equivalences between policies, request by
//! request.

//~ d2p: the world of services agrees with M/M/1, Burke's theorem and the maximum of exponentials

use deadline::{ORDERS, SHEDDINGS};
use queueing::{Span, theory};
use sim::world::services::{Config, Outcome, ServiceTimeRecord, Trace, run};

fn config(stages: &str, rate_per_s: f64, slos: &str) -> Config {
    Config::from_toml(&text(stages, rate_per_s, slos)).expect("a world")
}

fn text(stages: &str, rate_per_s: f64, slos: &str) -> String {
    format!(
        "arrivals = \"poisson {rate_per_s}\"\nrequests = 100000\nwarmup = 2000\n\
         order = \"fifo\"\nshedding = \"none\"\nslos = [{slos}]\nstages = [{stages}]"
    )
}

const ONE_SLO: &str = r#"{ name = "all", share = 1.0, slo = "200ms" }"#;
const MIXED: &str =
    r#"{ name = "urgent", share = 0.5, slo = "100ms" }, { name = "patient", share = 0.5, slo = "400ms" }"#;

fn with(config: &Config, order: &str, shedding: &str) -> Outcome {
    let (order, shedding) = (order.parse().expect("an order"), shedding.parse().expect("a shedding"));
    run(&Config { order, shedding, ..config.clone() })
}

fn close(measured: Span, theory: Span, tolerance: f64) {
    let off = measured.as_secs_f64() / theory.as_secs_f64() - 1.0;
    assert!(off.abs() < tolerance, "measured {measured}, theory {theory}");
}

#[test]
fn one_service_is_an_m_m_1_queue_and_two_are_two() {
    let stage = |name| format!(r#"{{ name = "{name}", service = "exp 7ms" }}"#);
    let mean = |stages: &str| run(&config(stages, 100.0, ONE_SLO)).classes[0].latency.mean();
    let alone = theory::mm1::sojourn_mean(100.0, Span::from_millis(7)).expect("below saturation");
    close(mean(&stage("S1")), alone, 0.05);
    // Burke 1956: the output of an M/M/1 queue is Poisson.
    close(mean(&[stage("S1"), stage("S2")].join(",")), alone * 2, 0.05);
}

#[test]
fn a_split_request_waits_for_the_slowest_of_its_parts() {
    let unit = r#"{ name = "W", parts = 18, service = "exp 10ms" }"#;
    let outcome = run(&Config { requests: 20_000, ..config(unit, 0.1, ONE_SLO) });
    let harmonic: f64 = (1..=18).map(|n| 1.0 / f64::from(n)).sum();
    close(outcome.classes[0].latency.mean(), Span::from_secs_f64(0.010 * harmonic), 0.02);
}

#[test]
fn of_requests_split_a_hundred_ways_63_percent_meet_a_one_percent_tail() {
    let unit = r#"{ name = "W", parts = 100, service = "bimodal 1ms 1001ms 0.01" }"#;
    let config = Config { requests: 10_000, ..config(unit, 0.0001, ONE_SLO) };
    let class = &run(&config).classes[0];
    let share = class.late as f64 / class.requests as f64;
    assert!((share - (1.0 - 0.99_f64.powi(100))).abs() < 0.015, "{share}");
}

#[test]
fn with_one_deadline_edf_is_fifo() {
    let config = config(r#"{ name = "S1", service = "normal 9ms 2ms" }"#, 100.0, ONE_SLO);
    for (shedding, _) in SHEDDINGS {
        let [fifo, edf] = ["fifo", "edf"].map(|order| with(&config, order, shedding));
        assert!(fifo.stages[0].elapsed.cdf().eq(edf.stages[0].elapsed.cdf()), "{shedding}");
        assert_eq!(fifo.classes[0].on_time, edf.classes[0].on_time);
    }
}

#[test]
fn every_policy_gets_the_same_work_and_accounts_for_all_of_it() {
    let stages = r#"{ name = "S1", servers = 2, service = "exp 19ms", hop = "exp 1ms" },
        { name = "W", parts = 4, service = "exp 9ms", reserve = "10ms", partial = true },
        { name = "A", service = "3ms" }"#;
    let config = Config { requests: 5_000, ..config(&stages.replace('\n', " "), 105.0, MIXED) };
    let arrivals = |outcome: &Outcome| outcome.classes.iter().map(|class| class.requests).collect::<Vec<_>>();
    let first = arrivals(&run(&config));
    for (order, _) in ORDERS {
        for (shedding, _) in SHEDDINGS {
            let outcome = with(&config, order, shedding);
            assert_eq!(arrivals(&outcome), first, "{order} {shedding}");
            for class in &outcome.classes {
                assert_eq!(class.on_time + class.late + class.dropped, class.requests, "{order} {shedding}");
            }
            if shedding == "none" {
                assert!(outcome.stages.iter().all(|stage| stage.dropped == 0));
            }
        }
    }
}

#[test]
fn edf_and_dropping_late_work_help_mixed_deadlines() {
    let config = config(r#"{ name = "S1", service = "exp 9.2ms" }"#, 100.0, MIXED);
    let [fifo, edf] = ["fifo", "edf"].map(|order| with(&config, order, "none").on_time_share());
    let shedding = with(&config, "edf", "infeasible").on_time_share();
    assert!(fifo < edf && edf < shedding, "{fifo} {edf} {shedding}");
}

#[test]
fn edf_alone_collapses_under_overload_and_dropping_prevents_it() {
    let config = config(r#"{ name = "S1", service = "normal 10ms 2ms" }"#, 130.0, ONE_SLO);
    let pure = with(&config, "edf", "none").on_time_share();
    let shedding = with(&config, "edf", "infeasible").on_time_share();
    assert!(pure < 0.01, "the domino effect: {pure}");
    assert!(shedding > 0.9 / 1.3, "of the bound 1/1.3: {shedding}");
}

#[test]
fn a_run_replays() {
    let config = config(r#"{ name = "S1", service = "exp 9ms" }"#, 100.0, MIXED);
    let [one, two] = [run(&config), run(&config)];
    assert!(one.classes[0].latency.cdf().eq(two.classes[0].latency.cdf()));
    let other = run(&Config { seed: 2, ..config });
    assert_ne!(one.classes[0].latency.mean(), other.classes[0].latency.mean());
}

#[test]
fn an_invalid_configuration_is_refused_with_the_reason() {
    let stages = r#"{ name = "S1", service = "exp 9ms" }"#;
    for (good, bad, says) in [
        ("\"fifo\"", "\"best\"", "\"best\" is not one of fifo, lifo, edf, laxity, paper, pace"),
        ("\"none\"", "\"all\"", "\"all\" is not one of none, expired, infeasible"),
    ] {
        let text = text(stages, 100.0, MIXED).replace(good, bad);
        let error = Config::from_toml(&text).map(drop).expect_err("it cannot be built").to_string();
        assert!(error.contains(says), "{error}");
    }
    let good = config(stages, 100.0, MIXED);
    for (bad, says) in [
        (Config { slos: good.slos[..1].to_vec(), ..good.clone() }, "0.5, not 1"),
        (Config { stages: Vec::new(), ..good.clone() }, "at least 1"),
    ] {
        let text = bad.check().expect_err("it cannot be built").to_string();
        assert!(text.contains(says), "{text}");
    }
}

/// Three queries at three workers; the second is long, and longest at the first worker.
fn recorded(order: &str) -> Config {
    let unit = r#"{ name = "W", parts = 3, record = "times.csv", slower = 1000, learns = "query" }"#;
    let record = "word,w1_ns,w2_ns,w3_ns\na,4000,3000,5000\nb,40000,30000,20000\nc,1000,1000,1000\n";
    let config = Config::from_toml_with(&text(unit, 48.0, ONE_SLO), |name| {
        if name == "times.csv" { Ok(record.to_owned()) } else { Err(format!("{name} is not there")) }
    });
    Config { order: order.parse().expect("an order"), ..config.expect("a world") }
}

#[test]
fn a_query_takes_the_recorded_time_at_each_worker() {
    let config = recorded("fifo");
    let times: Vec<Vec<Span>> = Trace::new(&config)
        .take(50)
        .map(|request| request.parts.iter().map(|part| part.service).collect())
        .collect();
    let ms = |row: [u64; 3]| row.map(Span::from_millis).to_vec();
    let rows = [ms([4, 3, 5]), ms([40, 30, 20]), ms([1, 1, 1])];
    assert!(times.iter().all(|row| rows.contains(row)) && rows.iter().all(|row| times.contains(row)));
    assert!(config.utilisation() > 0.5, "{}", config.utilisation());
}

#[test]
fn pacing_completes_whole_requests_sooner_than_fifo() {
    let p95 = |order| run(&recorded(order)).classes[0].latency.quantile(0.95);
    let [fifo, pace] = ["fifo", "pace"].map(p95);
    assert!(pace < fifo, "{pace} {fifo}");
}

#[test]
fn a_partial_answer_stays_marked_through_later_services() {
    let stages =
        r#"{ name = "W", parts = 4, service = "exp 9ms", partial = true }, { name = "A", service = "1ms" }"#;
    let outcome = with(&Config { requests: 2_000, ..config(stages, 100.0, ONE_SLO) }, "edf", "infeasible");
    let class = &outcome.classes[0];
    assert!(class.parts_used < class.parts, "{} of {}", class.parts_used, class.parts);
    assert_eq!(class.parts, 4 * (class.on_time + class.late));
}

#[test]
fn an_invalid_record_is_reported_with_its_line() {
    for (text, says) in [
        ("word,w1_ns", "no query"),
        ("word,w1_ns\na,5\nb", "line 3 is not a word and 1 times"),
        ("word,w1_ns\na,five", "line 2"),
        ("", "no query"),
    ] {
        let error = ServiceTimeRecord::parse(text, 1).expect_err("no record").to_string();
        assert!(error.contains(says), "{error}");
    }
    let unread = recorded("fifo").stages[0].clone();
    let config = recorded("fifo");
    let unread = Config { stages: vec![sim::world::services::Stage { recorded: None, ..unread }], ..config };
    assert!(unread.check().expect_err("not read").to_string().contains("its record was not read, not 3"));
}

//~ deadlines: at 1.4 times the capacity clients that understate budgets 2 to 1,000 times gain at most 5 points
#[test]
fn a_client_gains_nothing_by_understating_its_budget() {
    for law in ["5ms", "normal 5ms 1.5ms", "exp 5ms", "lognormal 5ms 1.0"] {
        for (share, understates) in
            [(0.1, 2.0), (0.1, 4.0), (0.35, 4.0), (0.5, 10.0), (0.1, 30.0), (0.1, 1_000.0)]
        {
            let honest = 1.0 - share;
            let slos = format!(
                r#"{{ name = "honest", share = {honest}, slo = "400ms" }},
                   {{ name = "liars", share = {share}, slo = "400ms", understates = {understates} }}"#
            );
            let slos = slos.replace('\n', " ");
            let stage = format!(r#"{{ name = "S1", service = "{law}" }}"#);
            let config = Config { requests: 20_000, ..config(&stage, 280.0, &slos) };
            let outcome = with(&config, "edf", "overload");
            let of = |name: &str| outcome.on_time_share_of(|class| class.name == name);
            let (honest, liars) = (of("honest"), of("liars"));
            let case = format!("{law}, {share} understate {understates} times: {honest} against {liars}");
            assert!(liars <= honest + 0.05, "{case}");
            assert!(honest >= 0.68, "of 0.714, the capacity: {case}");
        }
    }
}
