//! Tests that need no service.

use super::*;

const TEXT: &str = r#"
    arrivals = "poisson 100"
    requests = 10
    slos = [{ name = "urgent", share = 0.5, slo = "50ms" }, { name = "patient", share = 0.5, slo = "500ms" }]
    stages = [{ name = "front", service = "1ms" }, { name = "worker", service = "1ms", parts = 2 }]
    mechanisms = "all"
    [host]
    rate = "40mbit"
    bulk = 1
    congestion = "reno"
    answer = 1000
    dscp = [46, 10]
    guard_target = "10ms"
    unanswered = "1s"
    other_max = 10.0
"#;

fn prepared(text: &str) -> Result<PreparedRun, String> {
    prepare("all", toml::from_str(text).map_err(|e: toml::de::Error| line(&e))?)
}

#[test]
fn settings_that_make_no_sense_are_refused() {
    assert!(prepared(TEXT).is_ok());
    let check = |from: &str, to: &str, says: &str| {
        assert!(TEXT.contains(from), "{from:?} is not in the settings");
        let error = prepared(&TEXT.replace(from, to)).err().unwrap_or_default();
        assert!(error.contains(says), "{says:?} is not in {error:?}");
    };
    check("\"all\"", "\"most\"", "mechanisms \"most\" is not one of: none, all, only NAME");
    check("mechanisms = \"all\"", "", "mechanisms is missing");
    check("requests = 10", "requests = 10\norder = \"edf\"", "order follows from mechanisms");
    check("[46, 10]", "[46]", "host.dscp [46] is not one of 1..=63 for each of 2 slos");
    check("[46, 10]", "[46, 46]", "host.dscp [46, 46]");
    check("[46, 10]", "[46, 0]", "host.dscp [46, 0]");
    check("\"40mbit\"", "\"1bit\"", "rate 1bit is outside");
    check("guard_target = \"10ms\"", "guard_target = \"11s\"", "host.guard_target in seconds 11 is outside");
    check("bulk = 1", "bulk = 100", "host.bulk 100 is outside 0..=16");
    check("answer = 1000", "answer = 0", "host.answer 0 is outside");
    check("parts = 2", "parts = 9", "stage worker: parts 9 is outside 1..=8");
    check("parts = 2", "parts = 2, partial = true", "workers that it waits for");
}

#[test]
fn a_label_has_a_level_of_its_own_where_there_are_levels() {
    let host: Table = toml::from_str(TEXT).unwrap();
    let host: Host = host["host"].clone().try_into().unwrap();
    let levels = |on: &str| {
        let policy = policy(on.parse().unwrap(), &host).unwrap();
        policy.pin_dscp.iter().map(|(dscp, level)| (*dscp, level.index())).collect::<Vec<_>>()
    };
    assert_eq!(levels("all"), [(46, 0), (10, 1)]);
    assert_eq!(levels("all but fabric"), [(46, 0), (10, 0)]);
}

#[test]
fn an_unanswered_request_counts_as_the_longest_wait() {
    let mut class = UserClassOutcome {
        name: "urgent".to_owned(),
        requests: 4,
        on_time: 2,
        late: 1,
        dropped: 1,
        ..none()
    };
    for ms in [10, 20, 3_000] {
        class.latency.record(Span::from_millis(ms));
    }
    let row = of_class(&class, Span::from_secs(1), 2.0);
    let figure = |name: &str| row.figures[WORLD.stat(name).unwrap()];
    assert_eq!(["answered", "good", "miss", "dropped"].map(figure), [1.5, 1.0, 50.0, 25.0]);
    assert!(figure("p50") < 21_000.0 && figure("p999") > 2_900_000.0 && figure("max") > 2_900_000.0);
    assert!(figure("be").is_nan());
}

/// A class without requests.
fn none() -> UserClassOutcome {
    let config = Config::from_toml(
        r#"
        arrivals = "uniform 100"
        requests = 1
        order = "fifo"
        shedding = "none"
        slos = [{ name = "all", share = 1.0, slo = "20ms" }]
        stages = [{ name = "S1", service = "2us" }]
        "#,
    );
    let outcome = sim::world::services::Outcome::new(&config.unwrap());
    outcome.classes.into_iter().next().unwrap()
}
