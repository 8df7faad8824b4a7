//! World `egress`: what is true of its experiments on any machine.

mod common;
#[path = "common/scratch.rs"]
mod scratch;

use std::io::Write;
use std::process::Output;
use std::sync::atomic::{AtomicU32, Ordering};

use common::greenwave;
use host::lab::Lab;
use scratch::Scratch;
use serde_json::Value;

/// Two bursts beside one endless flow.
const TINY: &str = r#"
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
"#;

/// What `greenwave exp run` makes of the tiny experiment, with `from` changed to `to`.
fn experiment(from: &str, to: &str) -> Output {
    assert!(TINY.contains(from), "{from:?} is in the experiment");
    // Tests run side by side.
    static FILES: AtomicU32 = AtomicU32::new(0);
    let number = FILES.fetch_add(1, Ordering::Relaxed);
    let file = Scratch::new(&format!("egress-{number}.toml"), &TINY.replace(from, to));
    greenwave(&["exp", "run", file.path(), "--json"])
}

#[test]
fn an_experiment_on_an_egress_times_every_flow() {
    if let Some(why) = Lab::unavailable() {
        let line = format!("skipped: an_experiment_on_an_egress_times_every_flow: {why}\n");
        return std::io::stderr().write_all(line.as_bytes()).unwrap();
    }
    let out = experiment("tiny", "tiny");
    let said = String::from_utf8_lossy(&out.stderr);
    assert_eq!(out.status.code(), Some(0), "{said}");
    let json: Value = serde_json::from_slice(&out.stdout).unwrap();
    for mode in ["fifo", "fish"] {
        let rows = json["figures"].as_array().unwrap();
        let figure = |class: &str, stat: &str| {
            let row = rows.iter().find(|row| row["mode"] == mode && row["class"] == class).unwrap();
            row[stat].as_f64().unwrap_or_else(|| panic!("{mode} {class} {stat}: {row}"))
        };
        assert_eq!(["small", "large", "all"].map(|class| figure(class, "flows")), [6.0, 2.0, 8.0]);
        // 100 KB take 8 ms of the line.
        assert!(figure("large", "p50") > 7_000.0 && figure("small", "p50") > 100.0, "{mode}: {json}");
        let utilisation = figure("all", "utilisation");
        assert!((1.0..110.0).contains(&utilisation), "{mode}: {utilisation} %");
    }
}

#[test]
fn what_an_experiment_on_an_egress_cannot_be_is_said_before_any_runs() {
    let check = |from: &str, to: &str, says: &str| {
        let out = experiment(from, to);
        let said = String::from_utf8_lossy(&out.stderr);
        assert_eq!(out.status.code(), Some(2), "{said}");
        assert!(said.contains(says), "{says:?} is not in {said:?}");
    };
    check("rate = \"100mbit\"", "rate = \"fast\"", "rate \"fast\" is not a number");
    check("rate = \"100mbit\"", "rate = \"1bit\"", "rate 1bit is outside");
    check("policy = \"fish\"", "policy = \"fisch\"", "fisch: No such file");
    check("flows = 3", "flows = 0", "0 small ones are outside 1 small..=200");
    check("flows = 3", "flows = 300", "302 flows");
    check("bursts = 2", "bursts = 0", "bursts, period and bytes must be above 0");
    check("bulk = 1", "bulks = 1", "bulks");
}
