//! Every simulated experiment runs at smoke scale, prints its results in one format, and replays
//! from its seed.

mod common;
#[path = "common/schema.rs"]
mod schema;
#[path = "common/scratch.rs"]
mod scratch;
#[path = "common/tiny.rs"]
mod tiny;

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread;

use common::greenwave;
use serde_json::Value;
use tiny::{Tiny, found};

fn run(name: &str, seed: &str) -> (Option<i32>, Value) {
    let output = greenwave(&["exp", "run", name, "--scale", "smoke", "--seed", seed, "--json"]);
    let text = String::from_utf8_lossy(&output.stdout);
    let stderr = String::from_utf8_lossy(&output.stderr);
    let json = serde_json::from_str(&text).unwrap_or_else(|e| panic!("{name}: {e}\n{text}\n{stderr}"));
    schema::conforms(&json);
    (output.status.code(), json)
}

fn names() -> Vec<String> {
    let output = greenwave(&["exp", "list", "--json"]);
    let list: Value = serde_json::from_slice(&output.stdout).expect("the list is JSON");
    let rows = list["experiments"].as_array().expect("experiments is a list");
    // Experiments on real services do not replay: `host.rs` tests them.
    let simulated = rows.iter().filter(|row| row["world"] == "sim");
    simulated.map(|row| row["name"].as_str().expect("a name").to_owned()).collect()
}

/// True if the claim's value keeps its bound, whatever its interval.
fn keeps_bound(claim: &Value) -> bool {
    let ours = claim["ours"].as_f64().expect("a figure");
    let bound = claim["bound"].as_str().expect("a text");
    let number = |text: &str| text.trim().parse::<f64>().expect("a number");
    match (bound.strip_prefix("<="), bound.strip_prefix(">="), bound.split_once("..")) {
        (Some(most), _, _) => ours <= number(most),
        (_, Some(least), _) => ours >= number(least),
        (_, _, Some((low, high))) => (number(low)..=number(high)).contains(&ours),
        _ => claim["verdict"] == "holds",
    }
}

/// Runs `name` at scale smoke: no claim fails. Two seeds have a wide interval, so some claims are
/// undecided; their values keep the bounds.
fn runs_small_and_its_claims_hold(name: &str) {
    let (code, json) = run(name, "1");
    assert_eq!(json["world"], "sim", "{name} says its world");
    assert!(json["settings"].as_array().is_some_and(|s| !s.is_empty()), "{name} says its settings");
    let claims = json["claims"].as_array().expect("claims is a list");
    assert!(!claims.is_empty(), "{name} claims something");
    for claim in claims {
        assert!(claim["id"].is_string() && claim["unit"].is_string(), "{name}: {claim}");
        assert!(claim["ours"].is_number(), "{name}: {claim}");
        assert!(claim["paper"].is_number() || claim["paper"].is_null(), "{name}: {claim}");
        assert!(keeps_bound(claim), "{name}: {claim}");
        let is_open = claim["verdict"] == "undecided" && claim["interval"].is_number();
        assert!(claim["verdict"] == "holds" || is_open, "{name}: {claim}");
    }
    let all_hold = claims.iter().all(|claim| claim["verdict"] == "holds");
    assert_eq!(code, Some(if all_hold { 0 } else { 3 }), "{name}: no claim fails");
}

// The longest test, with one thread per experiment: as many at once as there are cores.
//~ adps: every simulated experiment runs at scale smoke; no claim fails, and the values of undecided ones keep their bounds
#[test]
fn every_experiment_runs_small_and_its_claims_hold() {
    let (names, next) = (names(), AtomicUsize::new(0));
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while let Some(name) = names.get(next.fetch_add(1, Relaxed)) {
                    runs_small_and_its_claims_hold(name);
                }
            });
        }
    });
}

//~ adps: a seed replays an experiment
#[test]
fn a_seed_replays_a_run_and_another_does_not() {
    let (_, first) = run("adps/fig5", "3");
    let (_, again) = run("adps/fig5", "3");
    let (_, other) = run("adps/fig5", "4");
    assert_eq!(first, again);
    assert_ne!(first["figures"], other["figures"]);
}

//~ cli: `exp run` exits 0 if all claims hold, 1 if one fails, 2 if it could not run, 3 if none fails and some are undecided
#[test]
fn a_claim_that_fails_is_exit_1_a_file_that_is_wrong_2_and_an_undecided_claim_3() {
    let folder = std::env::temp_dir().join(format!("greenwave-exp-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let shipped = include_str!("../../../experiments/adps/fig5.toml");
    let paper = include_str!("../../../experiments/adps/paper.csv");
    std::fs::write(folder.join("paper.csv"), paper).unwrap();
    let check = |from: &str, to: &str, code: i32, says: &str| {
        assert!(shipped.contains(from), "{from:?} is in the file");
        let path = folder.join("changed.toml");
        std::fs::write(&path, shipped.replace(from, to)).unwrap();
        let output = greenwave(&["exp", "run", path.to_str().unwrap()]);
        let text = [output.stdout, output.stderr].concat();
        let text = String::from_utf8_lossy(&text);
        assert_eq!(output.status.code(), Some(code), "{text}");
        assert!(text.contains(says), "{says:?} is not in {text}");
    };
    check("holds = \"<= 0.015\"", "holds = \"<= 0.000001\"", 1, "FAILS");
    // A single run has no interval.
    check(
        "holds = \"<= 0.015\"",
        "holds = \"<= 0.015\"\nsignificant = true",
        3,
        "about 1 more run than the 1 would decide",
    );
    check("[scale.smoke]", "[scale.smoke]\nmodes = [\"none\"]", 0, "was not checked: scale smoke");
    check(
        "holds = \"<= 0.015\"",
        "holds = \"<= 0.015\"\nmargin = -1",
        2,
        "margin -1 is not a number from 0 on",
    );
    check("holds = \"<= 0.015\"", "holds = \"<= 0.015\"\nwithin_interval = true", 2, "within_interval");
    check("workers = 2", "workers = 0", 2, "workers 0 is outside 1..=256");
    check("workers = 2", "wrokers = 2", 2, "wrokers");
    check("adps.LS.p99 / none.LS.p99", "adps.XS.p99 / none.LS.p99", 2, "XS");
    std::fs::remove_dir_all(&folder).unwrap();
}

//~ cli: `exp run --until-decided` adds seeds until every claim is decided or its budget is spent
#[test]
fn seeds_are_added_until_a_claim_is_decided() {
    let run = |claim: &str, more: &[&str]| {
        let text = LONG.0.replace("runs = 10", "runs = 2").replace("holds = \">= 0\"", claim);
        let path = std::env::temp_dir().join(format!("greenwave-decided-{}.toml", std::process::id()));
        std::fs::write(&path, text).unwrap();
        let path = path.to_str().expect("a path of ours is UTF-8");
        let output = greenwave(&[&["exp", "run", path, "--json"], more].concat());
        std::fs::remove_file(path).unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        let json: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        if output.status.code() != Some(2) {
            schema::conforms(&json);
        }
        (output.status.code(), json, stderr)
    };
    // Half of ten seeds' mean lies below that of two by more than what ten differ by, but not two.
    let (_, ten, _) = run("holds = \">= 0\"", &["--runs", "10"]);
    let (_, two, _) = run("holds = \">= 0\"", &[]);
    let figure = |json: &Value, key: &str| json["claims"][0][key].as_f64().expect("a figure");
    assert_eq!((&ten["runs"], &two["runs"]), (&10.into(), &2.into()));
    let again = ten["greenwave"]["command"].as_array().unwrap();
    assert!(again.ends_with(&["--runs".into(), "10".into()]), "{again:?}");
    let bound = figure(&ten, "ours") - 1.5 * figure(&ten, "interval");
    let claim = format!("holds = \">= {bound}\"");
    let (code, open, _) = run(&claim, &[]);
    assert_eq!((code, &open["claims"][0]["verdict"]), (Some(3), &"undecided".into()), "{open}");
    assert!(open["claims"][0]["more_runs"].as_u64().is_some_and(|more| more > 0), "{open}");
    let (code, decided, stderr) = run(&claim, &["--until-decided"]);
    assert_eq!((code, &decided["claims"][0]["verdict"]), (Some(0), &"holds".into()), "{decided}");
    assert!(decided["runs"].as_u64().is_some_and(|runs| runs > 2), "{decided}");
    assert!(stderr.contains("1 undecided after 2 runs"), "{stderr}");
    let (code, _, stderr) = run(&claim, &["--seed", "18446744073709551615"]);
    assert_eq!(code, Some(2), "{stderr}");
    assert!(stderr.contains("is too large for 2 runs"), "{stderr}");
    // A budget in which no seed fits.
    let (code, spent, stderr) = run(&claim, &["--until-decided", "1ns"]);
    assert_eq!((code, &spent["runs"]), (Some(3), &2.into()), "{stderr}");
    assert!(stderr.contains("no further run fits"), "{stderr}");
}

#[test]
fn nothing_that_runs_is_no_success() {
    let output = greenwave(&["exp", "run", "adps/e5", "--world", "sim"]);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert!(stderr.contains("no experiment of adps/e5 runs in world sim"), "{stderr}");
}

//~ results: `exp table` writes a folder of results as one table
#[test]
fn a_folder_of_results_is_one_table() {
    let folder = std::env::temp_dir().join(format!("greenwave-table-{}", std::process::id()));
    let out = folder.to_str().expect("a path of letters");
    let ran = greenwave(&["exp", "run", "adps/fig5", "overload/e3", "--out", out]);
    let stdout = String::from_utf8_lossy(&ran.stdout).into_owned();
    assert_eq!(ran.status.code(), Some(0), "{stdout}");
    let table = String::from_utf8_lossy(&greenwave(&["exp", "table", out]).stdout).into_owned();
    let page = String::from_utf8_lossy(&greenwave(&["exp", "table", out, "--markdown"]).stdout).into_owned();
    // A second run of one of them, in another folder.
    let elsewhere = folder.join("elsewhere");
    std::fs::create_dir(&elsewhere).unwrap();
    let again = std::fs::read_to_string(folder.join("adps-fig5.json")).unwrap();
    std::fs::write(elsewhere.join("adps-fig5.json"), again.replace("\"seed\": 1,", "\"seed\": 77,")).unwrap();
    let other = elsewhere.to_str().expect("a path of letters");
    let both = |first: &str, second: &str| {
        let out = greenwave(&["exp", "table", first, second, "--markdown"]);
        String::from_utf8_lossy(&out.stdout).into_owned()
    };
    assert_eq!(both(out, other), page, "the first counts");
    let changed = both(other, out);
    std::fs::remove_dir_all(&folder).unwrap();
    let differ = page.lines().zip(changed.lines()).filter(|(one, two)| one != two);
    let [(_, changed)] = differ.collect::<Vec<_>>()[..] else { panic!("one row's origin: {changed}") };
    assert!(changed.starts_with("| adps/fig5 | ") && changed.contains(" seed 77, "), "{changed}");
    assert!(stdout.ends_with(&table), "what was run just now ends with the same table: {table}");
    for name in ["adps/fig5", "overload/e3"] {
        let row = |line: &&str| line.starts_with(&format!("| {name} | "));
        let origin =
            page.lines().filter(row).find(|line| line.contains("| world sim, scale smoke, seed 1, "));
        assert!(origin.is_some(), "{name} in {page}");
    }
    let nothing = greenwave(&["exp", "table", "/dev"]);
    assert_eq!(nothing.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&nothing.stderr).contains("/dev holds no results"));
}

/// Twenty runs of a tenth of a second each, on an idle machine.
const LONG: Tiny = Tiny(
    r#"
    title = "long"
    source = "none"
    world = "fabric"
    modes = ["pias", "fish"]
    class = "small"
    [settings]
    topology = { kind = "star", hosts = 2, host = { gbps = 10, delay = "20us" } }
    thresholds = [909, 1329, 1648, 1960, 2143, 2337, 2484]
    room = 240
    mark = 65
    flows = 120
    sizes = "websearch"
    arrivals = "poisson 1000"
    senders = "first"
    [mode.pias]
    scheduler = "pias"
    [mode.fish]
    scheduler = "fish"
    [scale.smoke]
    runs = 10
    [scale.paper]
    runs = 10
    [[claim]]
    id = "there"
    says = "Small flows' mean"
    metric = "fish.small.mean"
    holds = ">= 0"
"#,
);

//~ cli: an interrupted simulation of `exp run --out` resumes to the same figures
#[test]
fn a_simulation_that_is_killed_goes_on_where_it_was() {
    let file = LONG.file("long", "long");
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("killed-{}", std::process::id()));
    let args = ["exp", "run", file.path(), "--out", folder.to_str().expect("a path of ours is UTF-8")];
    let part = || {
        let mut entries =
            std::fs::read_dir(&folder).into_iter().flatten().flatten().map(|entry| entry.path());
        entries.find(|path| path.extension().is_some_and(|kind| kind == "part"))
    };
    // The header and a line for each run; the last may be incomplete.
    let runs =
        || std::fs::read_to_string(part()?).ok().map(|text| text.matches('\n').count().saturating_sub(1));
    let mut command = Command::new(env!("CARGO_BIN_EXE_greenwave"));
    let mut child = command.args(args).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    while runs().unwrap_or(0) < 3 && child.try_wait().unwrap().is_none() {
        std::thread::yield_now();
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let known = runs().expect("it was killed before its end");
    let again = greenwave(&args);
    let stderr = String::from_utf8_lossy(&again.stderr);
    assert_eq!(again.status.code(), Some(0), "{stderr}");
    assert!(stderr.contains(&format!("{known} of 20 runs resumed from an interrupted run")), "{stderr}");
    assert_eq!(part(), None, "the result is written");
    let mut entries = std::fs::read_dir(&folder).unwrap().flatten().map(|entry| entry.path());
    let json = entries.find(|path| path.extension().is_some_and(|kind| kind == "json")).unwrap();
    let json: Value = serde_json::from_str(&std::fs::read_to_string(json).unwrap()).unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
    let complete = found(&LONG.run("long", "long"));
    for key in ["figures", "claims", "events", "plots"] {
        assert_eq!(json[key], complete[key], "{key}");
    }
}

//~ cli: `exp run --resume` keeps results of the same program, file, scale and seed only
#[test]
fn with_resume_only_what_the_same_program_gave_for_the_same_file_scale_and_seed_is_kept() {
    let one = LONG.file("runs = 10", "runs = 1");
    let two = LONG.file("runs = 10", "runs = 1");
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("resumed-{}", std::process::id()));
    let out = folder.to_str().expect("a path of ours is UTF-8");
    let run = |more: &[&str]| {
        let words = ["exp", "run", one.path(), two.path(), "--out", out];
        let ran = greenwave(&[&words[..], more].concat());
        let stderr = String::from_utf8_lossy(&ran.stderr).into_owned();
        assert_eq!(ran.status.code(), Some(0), "{stderr}");
        let table = String::from_utf8_lossy(&ran.stdout).into_owned();
        (table, [one.path(), two.path()].map(|path| stderr.contains(&format!("{path}: kept"))))
    };
    let written = |path: &str| {
        let mut entries = std::fs::read_dir(&folder).unwrap().flatten().map(|entry| entry.path());
        let stem = PathBuf::from(path).with_extension("").file_name().unwrap().to_owned();
        let is_its = |path: &PathBuf| {
            let name = path.file_name().unwrap().to_string_lossy();
            name.contains(&*stem.to_string_lossy()) && name.ends_with(".json")
        };
        entries.find(is_its).expect("it is written")
    };
    let (complete, kept) = run(&["--resume"]);
    assert_eq!(kept, [false, false], "nothing is there");
    std::fs::remove_file(written(two.path())).unwrap();
    let (resumed, kept) = run(&["--resume"]);
    assert_eq!(kept, [true, false], "one is there");
    let last = |text: &str| text.lines().rev().take(4).map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(last(&resumed), last(&complete), "the table at the end is the whole one");
    assert_eq!(run(&["--resume"]).1, [true, true]);
    assert_eq!(run(&[]).1, [false, false], "not requested");
    assert_eq!(run(&["--resume", "--seed", "2"]).1, [false, false]);
    assert_eq!(run(&["--resume", "--seed", "2", "--scale", "paper"]).1, [false, false]);
    let again = ["--resume", "--seed", "2", "--scale", "paper"];
    std::fs::write(one.path(), LONG.0.replace("runs = 10", "runs = 2")).unwrap();
    assert_eq!(run(&again).1, [false, true], "the file is another");
    let text = std::fs::read_to_string(written(two.path())).unwrap();
    std::fs::write(written(two.path()), text.replace("\"program\": \"", "\"program\": \"x")).unwrap();
    assert_eq!(run(&again).1, [true, false], "the program was another");
    std::fs::remove_dir_all(&folder).unwrap();
    let nowhere = greenwave(&["exp", "run", one.path(), "--resume"]);
    assert_eq!(nowhere.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&nowhere.stderr).contains("--out"));
}
