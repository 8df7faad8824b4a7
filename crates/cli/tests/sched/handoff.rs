//! `greenwave bench sched` ends in time, prints its observations, and leaves nothing behind.

use std::io::Read as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use host::{affinity, proc};
use hostsched::Hierarchy;
use rustix::process::{Signal, kill_process};
use serde_json::Value;

use super::{GREENWAVE, Program, greenwave, schema, skipped, until};

fn unavailable() -> Option<&'static str> {
    let cores = affinity::cores().map_or(0, |cores| cores.len());
    let one = (cores < 2).then_some("it needs two cores");
    one.or_else(|| (!proc::may_schedule()).then_some("no CAP_SYS_NICE"))
}

//~ cli: `bench guard` and `bench sched` measure within their bounds and leave nothing when interrupted
#[test]
fn handing_a_core_over_is_measured_within_its_bounds() {
    if let Some(why) = unavailable() {
        return skipped("handing_a_core_over_is_measured_within_its_bounds", why);
    }
    let out = greenwave(&["bench", "sched", "--count", "10", "--duration-max", "100ms", "--json"]);
    let stderr = String::from_utf8_lossy(&out.stderr);
    assert!(matches!(out.status.code(), Some(0 | 1)), "{stderr}");
    let json: Value = serde_json::from_slice(&out.stdout).expect("--json prints JSON");
    schema::conforms(&json);
    assert_eq!(json["machine"], host::Machine::this().to_string(), "not the core of the benchmark alone");
    assert_eq!((&json["tries_max"], &json["limit_s"]), (&10.into(), &0.1.into()));
    let without = json["not_measured"].to_string();
    let operations = json["operations"].as_array().expect("a list");
    for name in
        ["bare preempt", "bare give back", "preempt", "park", "migrate", "runtime park", "runtime resume"]
    {
        let Some(found) = operations.iter().find(|op| op["operation"] == name) else {
            assert!(without.contains(name), "{name} is neither measured nor said: {json}");
            continue;
        };
        // A busy machine may leave a measurement without samples: it reports that, and does not
        // pass.
        let [samples, tries] = ["count", "tries"].map(|what| found[what].as_u64().expect("a count"));
        let (p50, p99) = (found["p50_ns"].as_f64(), found["p99_ns"].as_f64());
        assert!(samples <= tries && (1..=10).contains(&tries), "{found}");
        assert!(p50.is_some() == (samples > 0) && p50 <= p99, "{found}");
        let is_said = without.contains(&format!("{name}: no sample in {tries} tries"));
        assert!(samples > 0 || is_said && json["holds"] == false, "{name}: {json}");
    }
    assert_eq!(json["holds"].as_bool(), Some(out.status.code() == Some(0)));
}

//~ cli: `bench guard` and `bench sched` measure within their bounds and leave nothing when interrupted
//~ cli: an interrupted measurement is marked partial and exits 130
#[test]
fn a_measurement_that_is_interrupted_leaves_nothing() {
    let test = "a_measurement_that_is_interrupted_leaves_nothing";
    if let Some(why) = unavailable() {
        return skipped(test, why);
    }
    let trees = [Hierarchy::freezer(), Hierarchy::idle()].into_iter().flatten();
    let parents: Vec<PathBuf> = trees.filter_map(|tree| tree.folder_of(std::process::id())).collect();
    if parents.is_empty() {
        return skipped(test, "there are no control groups that it would make");
    }
    let mut command = Command::new(GREENWAVE);
    command.args(["bench", "sched", "--count", "3000", "--duration-max", "5s"]).stdin(Stdio::null());
    let child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("greenwave starts");
    let mut bench = Program(child);
    let its = format!("greenwave-sched-{}-", bench.0.id());
    let is_its = |name: &std::ffi::OsStr| name.to_string_lossy().starts_with(&its);
    let groups = || {
        let entries = parents.iter().filter_map(|parent| parent.read_dir().ok()).flatten().flatten();
        entries.filter(|entry| is_its(&entry.file_name())).count()
    };
    // First by hand, without a group; then the mechanism creates its own.
    until("its groups are there", || groups() > 0);
    let parts = proc::family(bench.0.id());
    assert!(parts.len() > 2, "it, and two that take part: {parts:?}");
    kill_process(bench.pid().expect("it runs"), Signal::INT).expect("it runs");
    let mut stderr = String::new();
    bench.0.stderr.take().expect("a pipe").read_to_string(&mut stderr).expect("text");
    assert_eq!((bench.0.wait().expect("it ends").code(), stderr.trim()), (Some(130), "error: interrupted"));
    assert_eq!(groups(), 0);
    let folder = std::env::temp_dir().join(format!("greenwave-bench-sched-{}", bench.0.id()));
    assert!(!folder.exists(), "{}", folder.display());
    until("all participants have ended", || parts.iter().all(|&id| proc::began(id, id).is_none()));
}
