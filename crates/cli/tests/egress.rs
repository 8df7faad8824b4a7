//! World `egress`: properties of its experiments that hold on any machine.

mod common;
#[path = "common/scratch.rs"]
mod scratch;
#[path = "common/tiny.rs"]
mod tiny;

use std::io::Write;

use netlab::NetLab;
use tiny::{Tiny, figure, found};

/// Two bursts beside one endless flow.
const TINY: Tiny = Tiny(
    r#"
    title = "tiny"
    source = "none"
    world = "egress"
    modes = ["fifo", "fish"]
    class = "small"
    [settings]
    policy = "fifo"
    rate = "100mbit"
    congestion = "reno"
    bulk = 1
    small = { flows = 3, bytes = 20_000 }
    large = { flows = 1, bytes = 100_000 }
    period = "50ms"
    bursts = 2
    [mode.fish]
    policy = "fish"
    [scale.smoke]
    runs = 1
    [scale.paper]
    runs = 1
    [[claim]]
    id = "there"
    says = "Flows that end"
    metric = "fish.all.flows"
    holds = "8..8"
"#,
);

//~ egress: an experiment on an egress queue times every flow
#[test]
fn an_experiment_on_an_egress_times_every_flow() {
    if let Some(why) = NetLab::unavailable() {
        let line = format!("skipped: an_experiment_on_an_egress_times_every_flow: {why}\n");
        return std::io::stderr().write_all(line.as_bytes()).unwrap();
    }
    let json = found(&TINY.run("tiny", "tiny"));
    for mode in ["fifo", "fish"] {
        let figure = |class: &str, stat: &str| figure(&json, mode, class, stat);
        assert_eq!(["small", "large", "all"].map(|class| figure(class, "flows")), [6.0, 2.0, 8.0]);
        // 100 KB take 8 ms of the line.
        assert!(figure("large", "p50") > 7_000.0 && figure("small", "p50") > 100.0, "{mode}: {json}");
        let utilisation = figure("all", "utilisation");
        assert!((1.0..110.0).contains(&utilisation), "{mode}: {utilisation} %");
    }
}

#[test]
fn an_invalid_egress_experiment_is_refused_before_any_run() {
    TINY.is_refused("rate = \"100mbit\"", "rate = \"fast\"", "rate \"fast\" is not a number");
    TINY.is_refused("rate = \"100mbit\"", "rate = \"1bit\"", "rate 1bit is outside");
    TINY.is_refused("policy = \"fish\"", "policy = \"fisch\"", "fisch: No such file");
    TINY.is_refused("flows = 3", "flows = 0", "0 small ones are outside 1 small..=200");
    TINY.is_refused("flows = 3", "flows = 300", "302 flows");
    TINY.is_refused("bursts = 2", "bursts = 0", "bursts, period and bytes must be above 0");
    TINY.is_refused("bulk = 1", "bulks = 1", "bulks");
}
