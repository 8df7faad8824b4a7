//! `greenwave bench net` runs, small: every server that can run here answers.
//! So does `bench guard`: it says what it is to measure.

#[path = "common/schema.rs"]
mod schema;

use std::collections::BTreeMap;
use std::io::Write as _;
use std::process::Command;

use host::lab::Lab;

/// Says what is not tested. Written past the test harness, which keeps what
/// passing tests print to itself.
fn skipped(test: &str, why: &str) {
    let line = format!("skipped: {test}: {why}\n");
    let _ = std::io::stderr().write_all(line.as_bytes());
}

const SERVERS: &str = "every_server_of_the_benchmark_answers";

#[test]
fn every_server_of_the_benchmark_answers() {
    if let Some(why) = Lab::unavailable() {
        return skipped(SERVERS, &why);
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_greenwave"));
    let out = command.args(["bench", "net", "--scale", "smoke", "--json"]).output().expect("it starts");
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let json: serde_json::Value = serde_json::from_slice(&out.stdout).expect("--json prints JSON");
    schema::conforms(&json);
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
            Err(why) => skipped(SERVERS, &format!("its part with {name}: {why}")),
        }
    }
    for name in ["kernel/veth", "kernel/tap", "greenwave/tap"] {
        assert!(answered[name].is_ok(), "{name}: {:?}", answered[name]);
    }
}

/// Exit 1 says that the machine is slower than is aimed at, which is no matter here.
#[cfg(feature = "bpf")]
#[test]
fn the_guards_three_figures_are_measured_and_said() {
    let btf = std::path::Path::new("/sys/kernel/btf/vmlinux").exists();
    if let Some(why) = Lab::unavailable().or_else(|| (!btf).then(|| "the kernel has no BTF".to_owned())) {
        return skipped("the_guards_three_figures_are_measured_and_said", &why);
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_greenwave"));
    let out = command.args(["bench", "guard", "--duration", "200ms"]).output().expect("it starts");
    assert!(matches!(out.status.code(), Some(0 | 1)), "{}", String::from_utf8_lossy(&out.stderr));
    let text = String::from_utf8(out.stdout).expect("text");
    let behind = |words: &str, to: &str| {
        let figure = text.split_once(words).and_then(|(_, rest)| rest.split_once(to));
        let figure = figure.and_then(|(figure, _)| figure.trim().parse::<f64>().ok());
        assert!(figure.is_some_and(|figure| figure > 0.0), "{words} … {to}: {text}");
    };
    behind("SYN above a rate, shed", "\n");
    behind("100 looks a second: ", " % of a core");
    behind("at most ", " ns for a SYN (aim: 400)");
    behind("(aim: 400), ", " ns for others (aim: 50)");
}
