//! Small runs of `greenwave bench net`: every server that can run here answers. `bench guard` names
//! its measurements.

#[cfg(feature = "bpf")]
mod common;
#[path = "common/schema.rs"]
mod schema;
#[cfg(feature = "bpf")]
#[path = "common/scratch.rs"]
mod scratch;

use std::collections::BTreeMap;
use std::io::Write as _;
use std::process::Command;

use netlab::NetLab;
#[cfg(feature = "bpf")]
use scratch::Scratch;
use serde_json::Value;

/// Reports a skipped test, bypassing the test harness, which hides the output of passing tests.
fn skipped(test: &str, why: &str) {
    let line = format!("skipped: {test}: {why}\n");
    let _ = std::io::stderr().write_all(line.as_bytes());
}

const SERVERS: &str = "every_server_of_the_benchmark_answers";

#[test]
fn every_server_of_the_benchmark_answers() {
    if let Some(why) = NetLab::unavailable() {
        return skipped(SERVERS, &why);
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_greenwave"));
    let out = command.args(["bench", "net", "--scale", "smoke", "--json"]).output().expect("it starts");
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let json: Value = serde_json::from_slice(&out.stdout).expect("--json prints JSON");
    schema::conforms(&json);
    // A busy machine may starve a server in one case, not in all.
    let mut answered = BTreeMap::new();
    for row in json["rows"].as_array().expect("there are rows") {
        let name = format!("{}/{}", row["stack"].as_str().unwrap(), row["device"].as_str().unwrap());
        let answers = answered.entry(name).or_insert(Ok(0.0));
        match (row["not_run"].as_str(), answers) {
            (None, Ok(answers)) => {
                *answers += row["answers_per_s"].as_f64().expect("a rate");
                assert_eq!(row["broken"], 0, "{row}");
            }
            (Some(why), answers) if *answers == Ok(0.0) => *answers = Err(why.to_owned()),
            _ => {}
        }
    }
    for (name, answers) in &answered {
        match answers {
            Ok(answers) => assert!(*answers > 0.0, "{name} never answered"),
            Err(why) => skipped(SERVERS, &format!("its part with {name}: {why}")),
        }
    }
    for name in ["kernel/veth", "kernel/tap", "greenwave/tap"] {
        assert!(answered[name].is_ok(), "{name}: {:?}", answered[name]);
    }
}

/// Output of a small run of `bench`, as text or JSON. Accepts exit 1: this machine may miss the
/// performance targets.
#[cfg(feature = "bpf")]
fn small(args: &[&str]) -> String {
    let out = Command::new(env!("CARGO_BIN_EXE_greenwave")).arg("bench").args(args).output();
    let out = out.expect("it starts");
    let stderr = String::from_utf8_lossy(&out.stderr);
    assert!(matches!(out.status.code(), Some(0 | 1)), "{stderr}");
    String::from_utf8(out.stdout).expect("text")
}

/// Checks `text` against the schema; each of `goals` is measured, and a comparison shows it as a
/// claim.
#[cfg(feature = "bpf")]
fn has_goals(name: &str, text: &str, goals: &[&str]) {
    let result: Value = serde_json::from_str(text).expect("--json prints JSON");
    schema::conforms(&result);
    let all = result["goals"].as_array().expect("a list");
    let names: Vec<_> = all.iter().map(|goal| goal["goal"].as_str().expect("a text")).collect();
    assert_eq!(names, goals);
    for goal in all {
        let (worst, target) = (goal["worst"][0].as_f64(), goal["target"].as_f64());
        assert_eq!(goal["holds"].as_bool(), Some(worst.expect("a figure") <= target.expect("a bound")));
    }
    let file = Scratch::new(&format!("{name}.json"), text);
    let out = common::greenwave(&["report", "--compare", file.path(), file.path()]);
    let compared = String::from_utf8_lossy(&out.stdout);
    assert_eq!(out.status.code(), Some(0), "{compared}");
    let is_claim = |line: &&str| line.ends_with(" holds in both") || line.ends_with(" fails in both");
    let claims = compared.lines().filter(is_claim).filter(|line| !line.starts_with("claims: "));
    assert_eq!(claims.count(), goals.len(), "{compared}");
}

//~ cli: `bench guard` and `bench sched` measure within their bounds and leave nothing when interrupted
#[cfg(feature = "bpf")]
#[test]
fn the_guards_three_figures_are_measured_and_said() {
    let test = "the_guards_three_figures_are_measured_and_said";
    let btf = std::path::Path::new("/sys/kernel/btf/vmlinux").exists();
    if let Some(why) = NetLab::unavailable().or_else(|| (!btf).then(|| "the kernel has no BTF".to_owned())) {
        return skipped(test, &why);
    }
    let text = small(&["guard", "--duration", "200ms"]);
    let behind = |words: &str, to: &str| {
        let figure = text.split_once(words).and_then(|(_, rest)| rest.split_once(to));
        let figure = figure.and_then(|(figure, _)| figure.trim().parse::<f64>().ok());
        assert!(figure.is_some_and(|figure| figure > 0.0), "{words} … {to}: {text}");
    };
    behind("SYN above a rate, shed", "\n");
    behind("100 intervals per second: ", " % of a core");
    behind("XDP program: ns per SYN ≤ 400: worst ", " (");
    behind("XDP program: ns per other frame ≤ 50: worst ", " (");
    behind("controller: % of a core ≤ 1: ", " (100 intervals per second)");
    let text = small(&["guard", "--duration", "200ms", "--json"]);
    let goals = ["XDP program: ns per SYN", "XDP program: ns per other frame", "controller: % of a core"];
    has_goals("bench-guard", &text, &goals);
}
