//! Tests that need no server.

use super::super::line;
use super::*;

const TEXT: &str = r#"
    server = "nginx"
    bytes = 1000
    load = 2.0
    timeout = "500ms"
    warmup = "1s"
    duration = "2s"
    capacity = "1s"
"#;

fn config(more: &str) -> Result<Config, String> {
    let config: Config = toml::from_str(&format!("{TEXT}{more}")).map_err(|e| line(&e))?;
    config.check().map(|()| config)
}

#[test]
fn settings_that_make_no_sense_are_refused() {
    assert!(config("").is_ok());
    let check = |more: &str, says: &str| {
        let error = config(more).expect_err(more);
        assert!(error.contains(says), "{says:?} is not in {error:?}");
    };
    check("share = 2", "share 2 is outside 0.05..=1");
    check("slice = \"0ms\"", "slice in seconds 0 is outside");
    check("visitors = 0", "visitors 0 is outside 1..=20000");
    check("sysctl = { \"vm.swappiness\" = 1 }", "\"vm.swappiness\" does not belong to a network namespace");
    check(
        "swell = { times = 9.0, length = \"1s\", period = \"1s\" }",
        "swell.length in seconds 1 is outside",
    );
    check("backlogs = 3", "backlogs");
}

#[test]
fn a_closed_loop_s_think_time_gives_the_requested_load() {
    let visits = config("visitors = 400").unwrap().visits(1000.0);
    assert_eq!(visits.pace, ArrivalModel::Closed { clients: 400, think: Span::from_millis(200) });
}

#[test]
fn spread_is_standard_deviation_over_mean() {
    assert_eq!(spread(&[1.0, 3.0]), 50.0);
    assert_eq!(spread(&[7.0, 7.0, 7.0]), 0.0);
}
