//! Tests of a search: its cases, its record, and a search that goes on after an interruption.

use netlab::TempDir;

use super::*;

/// Loses half of the goodput in every third case that has a Pareto law.
const LOSES: HuntTarget = HuntTarget {
    name: "fake",
    default: "the default",
    nothing: "nothing",
    longer: ("requests", 8),
    known: &[],
    draw: |seed, case, requests| {
        let law = if case % 3 == 0 { "pareto 1ms 2ms 1.1" } else { "exp 1ms" };
        format!("law = \"{law}\"\nseed = {seed}\nrequests = {requests}\n")
    },
    compare: |text| {
        let default = if text.contains("pareto") { 0.5 } else { 1.0 };
        Ok(vec![HuntFigure::goodput("goodput", [default, 1.0])])
    },
};

fn args(folder: &Path, cases: u64, resume: bool) -> Args {
    let (seed, first_case) = (None, None);
    let out = Some(folder.to_owned());
    let duration = Span::from_secs(600);
    Args { mechanism: &LOSES, duration, cases, seed, first_case, out, resume, replay: vec![], json: false }
}

fn record(folder: &Path) -> Value {
    serde_json::from_str(&std::fs::read_to_string(folder.join("hunt-fake.json")).unwrap()).unwrap()
}

//~ deadlines: a search that is continued gives the same record as one that is not
#[test]
fn a_resumed_hunt_is_as_one_hunt() {
    let folder = TempDir::new("hunt-resumed").unwrap();
    let [one, two] = ["one", "two"].map(|name| folder.path().join(name));
    run(&args(&one, 12, false)).unwrap();
    run(&args(&two, 5, false)).unwrap();
    run(&args(&two, 7, true)).unwrap();
    assert_eq!(record(&one), record(&two));
    assert_eq!((&record(&one)["cases"], &record(&one)["findings"]), (&json!(12), &json!(4)));
}

//~ deadlines: a finding of a hunt fails the command, and is written as a small file that replays it
#[test]
fn a_finding_is_shrunk_to_a_file_that_replays_it() {
    let folder = TempDir::new("hunt-shrunk").unwrap();
    let failed = run(&args(folder.path(), 1, false)).unwrap();
    assert_eq!(format!("{failed:?}"), format!("{:?}", ExitCode::from(1)));
    let path = folder.path().join("fake-1-0.toml");
    let text = std::fs::read_to_string(&path).unwrap();
    let (head, case) = text.split_once('\n').unwrap();
    assert_eq!(head, "# Hunt fake, seed 1, case 0: goodput 0.5000 by default, 1.0000 by nothing.");
    assert_eq!(case, "law = \"pareto 1ms 2ms 1.1\"\n", "the rest does not matter");
    let replay = Args { replay: vec![path], out: None, ..args(folder.path(), u64::MAX, false) };
    assert_eq!(format!("{:?}", run(&replay).unwrap()), format!("{failed:?}"));
}

#[test]
fn records_of_other_programs_are_refused() {
    let folder = TempDir::new("hunt-refused").unwrap();
    run(&args(folder.path(), 1, false)).unwrap();
    let path = folder.path().join("hunt-fake.json");
    let other_version =
        std::fs::read_to_string(&path).unwrap().replace(env!("CARGO_PKG_VERSION"), "0.0.0-other");
    for text in ["", "[]", "{}", &other_version] {
        std::fs::write(&path, text).unwrap();
        let error = run(&args(folder.path(), 1, true)).unwrap_err();
        assert!(error.to_string().contains("is not the record of a hunt"), "{error}");
    }
}
