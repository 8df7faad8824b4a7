//! `greenwave bench net` runs, small: every server that can run here answers.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::process::Command;

use host::lab::Lab;

/// Says what is not tested. Written past the test harness, which keeps what
/// passing tests print to itself.
fn skipped(why: &str) {
    let line = format!("skipped: every_server_of_the_benchmark_answers: {why}\n");
    let _ = std::io::stderr().write_all(line.as_bytes());
}

#[test]
fn every_server_of_the_benchmark_answers() {
    if let Some(why) = Lab::unavailable() {
        return skipped(&why);
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_greenwave"));
    let out = command.args(["bench", "net", "--scale", "smoke", "--json"]).output().expect("it starts");
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let json: serde_json::Value = serde_json::from_slice(&out.stdout).expect("--json prints JSON");
    // A busy machine may leave a server no time in a case, not in all of them.
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
            Err(why) => skipped(&format!("its part with {name}: {why}")),
        }
    }
    for name in ["kernel/veth", "kernel/tap", "greenwave/tap"] {
        assert!(answered[name].is_ok(), "{name}: {:?}", answered[name]);
    }
}
