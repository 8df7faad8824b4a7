//! Experiments on real services: properties that hold on any machine.

//~ d2p: runners on real services replay the simulator's trace and write its rows

mod common;
#[path = "common/schema.rs"]
mod schema;
#[path = "common/scratch.rs"]
mod scratch;

use std::path::Path;
use std::sync::{Mutex, PoisonError};

use common::greenwave;
use scratch::Scratch;
use serde_json::Value;

/// Runs with a file of the tiny experiment, with `from` changed to `to`.
fn with_file<T>(name: &str, from: &str, to: &str, run: impl FnOnce(&str) -> T) -> T {
    assert!(TINY.contains(from), "{from:?} is in the experiment");
    run(Scratch::new(&format!("host-{name}.toml"), &TINY.replace(from, to)).path())
}

/// Each of these experiments takes the whole machine: beside another one a program may get no time
/// at all.
static TURN: Mutex<()> = Mutex::new(());

/// The result of the experiment in file `path`; checks that its claims hold.
fn result(path: &str) -> Value {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let output = greenwave(&["exp", "run", path, "--json"]);
    let stderr = String::from_utf8_lossy(&output.stderr);
    let json: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}\n{stderr}"));
    schema::conforms(&json);
    assert_eq!(output.status.code(), Some(0), "{stderr}\n{json}");
    json
}

/// The figures of a class in a mode, if any.
fn row<'a>(result: &'a Value, mode: &str, class: &str) -> Option<&'a Value> {
    let mut rows = result["figures"].as_array().expect("figures").iter();
    rows.find(|row| row["mode"] == mode && row["class"] == class)
}

/// Half a second in two modes in parallel, and both again in the simulator.
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

/// True if the runner was built beside the program; reports if not.
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
    let json = with_file("tiny", "tiny", "tiny", result);
    assert_eq!((&json["world"], json["machine"].is_string()), (&"host".into(), true), "{json}");
    assert!(json["noise_ns"]["late"].is_number() && json["noise_ns"]["beyond"].is_number(), "{json}");
    for mode in ["fifo-none", "edf-infeasible", "sim-edf-infeasible"] {
        let row = |class: &str| row(&json, mode, class).unwrap_or_else(|| panic!("{mode} {class}: {json}"));
        let (all, urgent, patient) = (row("all"), row("urgent"), row("patient"));
        let requests = |row: &Value| row["requests"].as_f64().expect("a number");
        assert_eq!((requests(all), requests(urgent) + requests(patient)), (80.0, 80.0), "{mode}");
        // 20 requests' work takes the first 40 ms, on any machine.
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
    check(
        "order = \"fifo\"",
        "order = \"fifo\"\n expects = \"own\"",
        "real services count their downstream services",
    );
    check("service = \"2ms\"", "service = \"2ms\", parts = 2", "parts 2 is not 1");
    check("on = \"sim\"", "on = \"mars\"", "on \"mars\" is not one of");
    check("world = \"tonic\"", "world = \"tonics\"", "\"tonics\" is not one of server");
}

/// One latency-critical program, alone and beside another on its core.
const SHARED: &str = r#"
    title = "tiny"
    source = "none"
    world = "colocated"
    modes = ["alone", "idle", "static"]
    class = "lc"
    [settings]
    lc = "memcached"
    be = "stream-l2"
    rate = 500.0
    warmup = "200ms"
    duration = "1s"
    [scale.smoke]
    runs = 1
    [scale.paper]
    runs = 1
    [[claim]]
    id = "there"
    says = "Requests that are answered"
    metric = "alone.lc.answered"
    holds = ">= 100"
"#;

/// The reason programs cannot share a core here, among them `workloads` of these names.
fn no_sharing(workloads: &[&str]) -> Option<String> {
    let there = |name: &str| Path::new(env!("CARGO_BIN_EXE_greenwave")).with_file_name(name).exists();
    let cores = host::affinity::cores().map_or(0, |cores| cores.len());
    let why = netlab::NetLab::unavailable().or_else(netlab::TestGroup::unavailable);
    let why = why.or_else(|| (cores < 2).then(|| "it needs two cores".to_owned()));
    why.or_else(|| {
        (!workloads.iter().all(|name| there(name)))
            .then(|| "workloads are not built; cargo test --workspace builds them".to_owned())
    })
}

//~ sched: memcached, storage and TPC-C share a core with best-effort work, and both are measured
#[test]
fn programs_that_share_a_core_are_both_reported() {
    let test = "programs_that_share_a_core_are_both_reported";
    let why = (!netlab::is_installed("memcached")).then(|| "memcached is not there".to_owned());
    if let Some(why) = no_sharing(&["stream-l2"]).or(why) {
        return println!("skipped: {test}: {why}");
    }
    let file = Scratch::new("host-shared.toml", SHARED);
    let json = result(file.path());
    let named =
        |mode: &str, class: &str| row(&json, mode, class).unwrap_or_else(|| panic!("{mode} {class}: {json}"));
    for mode in ["alone", "idle", "static"] {
        let figure = |stat: &str| named(mode, "lc")[stat].as_f64().unwrap_or_else(|| panic!("{mode} {stat}"));
        assert_eq!(figure("lost"), 0.0, "{mode}");
        assert!(
            figure("p50") > 0.0 && figure("p50") <= figure("p99") && figure("p99") <= figure("max"),
            "{mode}"
        );
    }
    assert_eq!(row(&json, "alone", "be"), None);
    for mode in ["idle", "static"] {
        let row = named(mode, "be");
        assert!(row["work"].as_f64() > Some(0.0) && row["cpu"].as_f64() > Some(0.0), "{mode}: {row}");
    }
}

//~ sched: memcached, storage and TPC-C share a core with best-effort work, and both are measured
#[test]
fn a_program_on_our_runtime_shares_its_core_by_what_it_tells() {
    let test = "a_program_on_our_runtime_shares_its_core_by_what_it_tells";
    let why = (!host::proc::may_schedule()).then(|| "no CAP_SYS_NICE".to_owned());
    let why = why.or_else(|| (!Path::new("/dev/net/tun").exists()).then(|| "no TAP devices".to_owned()));
    if let Some(why) = no_sharing(&["stream-l2", "storage"]).or(why) {
        return println!("skipped: {test}: {why}");
    }
    let text = SHARED
        .replace("\"alone\", \"idle\", \"static\"", "\"caladan-runtime\"")
        .replace("\"memcached\"", "\"storage\"")
        .replace("alone.lc", "caladan-runtime.lc");
    let file = Scratch::new("host-told.toml", &text);
    // A run without reports to the scheduler ends with an error.
    let json = result(file.path());
    let mode = "caladan-runtime";
    let [lc, be] =
        ["lc", "be"].map(|class| row(&json, mode, class).unwrap_or_else(|| panic!("{class}: {json}")));
    assert_eq!(lc["lost"].as_f64(), Some(0.0), "{lc}");
    assert!(be["work"].as_f64() > Some(0.0) && be["cpu"].as_f64() > Some(0.0), "{be}");
}
