//! Experiments on real services: what is true of them on any machine.

mod common;
#[path = "common/scratch.rs"]
mod scratch;

use std::path::Path;

use common::greenwave;
use scratch::Scratch;
use serde_json::Value;

/// A file of its own with `settings` changed from the tiny experiment's.
fn with_file<T>(name: &str, from: &str, to: &str, run: impl FnOnce(&str) -> T) -> T {
    assert!(TINY.contains(from), "{from:?} is in the experiment");
    run(Scratch::new(&format!("host-{name}.toml"), &TINY.replace(from, to)).path())
}

/// Half a second, two modes side by side, and both again in the simulator.
const TINY: &str = r#"
    title = "tiny"
    source = "none"
    world = "tonic"
    modes = ["fifo-none", "edf-infeasible", "sim-edf-infeasible"]
    class = "all"
    [settings]
    arrivals = "poisson 200"
    requests = 80
    warmup = 20
    slos = [{ name = "urgent", share = 0.5, slo = "1s" }, { name = "patient", share = 0.5, slo = "9s" }]
    stages = [{ name = "S1", service = "2ms" }, { name = "S2", service = "normal 1ms 300us" }]
    order = "fifo"
    shedding = "none"
    [mode.edf-infeasible]
    order = "edf"
    shedding = "infeasible"
    [mode.sim-edf-infeasible]
    order = "edf"
    shedding = "infeasible"
    on = "sim"
    [scale.smoke]
    runs = 2
    [scale.paper]
    runs = 2
    [[claim]]
    id = "there"
    says = "Requests that count"
    metric = "fifo-none.all.requests"
    holds = "80..80"
"#;

/// Whether the runner was built beside the program; says so when not.
fn runner_is_there(test: &str) -> bool {
    let there = Path::new(env!("CARGO_BIN_EXE_greenwave")).with_file_name("testbed").exists();
    if !there {
        println!("skipped: {test}: testbed is not built; make testbed, or cargo test --workspace");
    }
    there
}

#[test]
fn real_services_give_the_rows_that_the_simulator_gives() {
    if !runner_is_there("real_services_give_the_rows_that_the_simulator_gives") {
        return;
    }
    let output = with_file("tiny", "tiny", "tiny", |path| greenwave(&["exp", "run", path, "--json"]));
    let said = String::from_utf8_lossy(&output.stderr);
    let json: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}\n{said}"));
    assert_eq!(output.status.code(), Some(0), "{json}");
    assert_eq!((&json["world"], json["machine"].is_string()), (&"host".into(), true), "{json}");
    assert!(json["noise_ns"]["late"].is_number() && json["noise_ns"]["beyond"].is_number(), "{json}");
    for mode in ["fifo-none", "edf-infeasible", "sim-edf-infeasible"] {
        let row = |class: &str| {
            let rows = json["figures"].as_array().expect("figures");
            let row = rows.iter().find(|row| row["mode"] == mode && row["class"] == class);
            row.unwrap_or_else(|| panic!("{mode} {class}: {json}"))
        };
        let (all, urgent, patient) = (row("all"), row("urgent"), row("patient"));
        let requests = |row: &Value| row["requests"].as_f64().expect("a number");
        assert_eq!((requests(all), requests(urgent) + requests(patient)), (80.0, 80.0), "{mode}");
        // 20 requests' work takes the first 40 ms away, whatever the machine.
        assert!(all["mean"].as_f64().expect("a time") >= 3_000.0, "{mode}: {all}");
        assert!(row("S1")["mean"].as_f64() < row("S2")["mean"].as_f64(), "{mode}");
    }
}

#[test]
fn what_real_services_cannot_do_is_said_before_any_is_started() {
    let check = |from: &str, to: &str, says: &str| {
        let output = with_file("refused", from, to, |path| greenwave(&["exp", "run", path]));
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{text}");
        assert!(text.contains(says), "{says:?} is not in {text}");
    };
    check("order = \"fifo\"", "order = \"fifo\"\n expects = \"own\"", "real services look ahead");
    check("service = \"2ms\"", "service = \"2ms\", parts = 2", "parts 2 is not 1");
    check("on = \"sim\"", "on = \"mars\"", "on \"mars\" is none of");
    check("world = \"tonic\"", "world = \"tonics\"", "\"tonics\" is none of server");
}
