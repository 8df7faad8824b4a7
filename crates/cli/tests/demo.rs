//! Output of `greenwave demo` for people and scripts. Measured values depend on the machine and are
//! not checked.

#[path = "common/schema.rs"]
mod schema;

use std::path::PathBuf;
use std::process::Command;

/// Runs a demo that writes its page to `name`; returns stdout and the page.
fn demo(name: &str, more: &[&str]) -> (String, String) {
    let page = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    let mut command = Command::new(env!("CARGO_BIN_EXE_greenwave"));
    command.args(["demo", "--duration", "1s", "--burst", "50/10ms", "--out"]).arg(&page).args(more);
    let out = command.output().expect("greenwave starts");
    assert_eq!(out.status.code(), Some(0), "{}", String::from_utf8_lossy(&out.stderr));
    let html = std::fs::read_to_string(&page).expect("the page is there");
    let _ = std::fs::remove_file(&page);
    (String::from_utf8_lossy(&out.stdout).into_owned(), html)
}

//~ demo: `greenwave demo` runs without root or network and measures both classes by stage in four modes
#[test]
fn four_modes_are_measured_in_both_classes_by_stage() {
    let (stdout, html) = demo("demo-json.html", &["--json"]);
    let json: serde_json::Value = serde_json::from_str(&stdout).expect("--json prints JSON");
    schema::conforms(&json);
    assert_eq!(json["world"], "host");
    assert_eq!(
        (&json["settings"]["rounds"], json["settings"]["duration_ns"].as_u64()),
        (&3.into(), Some(1_000_000_000))
    );
    let modes = json["modes"].as_array().expect("there are modes");
    let names: Vec<_> = modes.iter().filter_map(|mode| mode["mode"].as_str()).collect();
    assert_eq!(names, ["none", "lns", "darc", "adps"]);
    for mode in modes {
        let classes = mode["report"]["classes"].as_array().expect("a report has classes");
        assert_eq!(classes.len(), 2, "{mode}");
        for class in classes {
            assert!(class["requests"].as_u64() > Some(0), "{class}");
            assert!(class["never_sent"].is_u64(), "{class}");
            for figure in ["p50_ns", "p99_ns", "p999_ns"] {
                assert!(class[figure].as_u64() > Some(0), "{figure} of {class}");
            }
            for stage in ["nic", "tcp", "event", "service"] {
                assert!(class["at_p99"][format!("{stage}_ns")].is_u64(), "{stage} of {class}");
            }
        }
    }
    let plots = html.matches("<svg").count();
    assert!(plots >= 4, "both classes have a distribution and their stages, and there are {plots} plots");
    let own = html.replace("xmlns=\"http://www.w3.org/2000/svg\"", "");
    assert!(!own.contains("http://") && !own.contains("https://"), "the page needs nothing but itself");
}

//~ demo: the last line compares adps with none
#[test]
fn the_last_lines_compare_adps_with_none_and_name_the_machine() {
    let (stdout, _) = demo("demo-plain.html", &["--modes", "none,adps"]);
    let lines: Vec<_> = stdout.lines().collect();
    let [.., compared, settings] = lines[..] else { panic!("{stdout}") };
    // A machine that is busy with other work may show no difference.
    let is_compared = [" with adps than with none (", " no difference between adps and none ("]
        .iter()
        .any(|text| compared.contains(text));
    assert!(compared.starts_with("LS p99 ") && is_compared, "{compared}");
    assert!(settings.starts_with("(seed 7, world host, "), "{settings}");
}
