//! Runner `testbed series`, driven by the protocol of `spec/testbed.md`.

//~ d2p: runners on real services replay the simulator's trace and write its rows

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::process::{Child, Command, Output, Stdio};

fn start() -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_testbed"));
    let piped = command.arg("series").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    piped.spawn().expect("the runner starts")
}

/// Runs the runner with the input `input`.
fn run(input: &str) -> Output {
    let mut runner = start();
    // A runner that rejects the first line does not read the rest.
    let _ = runner.stdin.take().expect("piped").write_all(input.as_bytes());
    runner.wait_with_output().expect("it ends")
}

fn setup(order: &str, shedding: &str) -> String {
    let stage =
        |name: &str| format!(r#"{{"name":"{name}","threads":1,"parts":1,"reserve_ns":0,"partial":false}}"#);
    let stages = ["S1", "S2", "S3"].map(stage).join(",");
    format!(
        r#"{{"order":"{order}","shedding":"{shedding}","age_max_ns":1000000000,"capacity":1000,"stages":[{stages}],"slos":[{{"name":"all","slo_ns":20000000}}]}}"#
    )
}

/// 60 requests within 30 ms, with 60 ms of work at the first service.
fn plan() -> String {
    (0..60).map(|n| format!("{},0,1000000,500000,200000\n", n * 500_000)).collect()
}

/// Output lines by request.
fn by_request(output: &Output) -> BTreeMap<usize, Vec<Vec<String>>> {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8_lossy(&output.stdout);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "ready");
    assert!(lines[lines.len() - 1].starts_with("late,"), "{text}");
    let mut by_request: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for line in &lines[1..lines.len() - 1] {
        let words: Vec<String> = line.split(',').map(str::to_owned).collect();
        by_request.entry(words[1].parse().expect("a number")).or_default().push(words);
    }
    by_request
}

#[test]
fn every_request_ends_once_and_is_reported_by_each_stage_it_reached() {
    for shedding in ["none", "expired", "infeasible"] {
        let by_request = by_request(&run(&format!("{}\n{}", setup("edf", shedding), plan())));
        assert_eq!(by_request.keys().copied().collect::<Vec<_>>(), (0..60).collect::<Vec<_>>());
        for (request, lines) in by_request {
            let ends: Vec<_> = lines.iter().filter(|words| words[0] == "end").collect();
            assert_eq!(ends.len(), 1, "{shedding}: {lines:?}");
            let mut stages: Vec<_> = lines
                .iter()
                .filter(|words| words[0] == "stage")
                .map(|words| (&words[2], &words[4]))
                .collect();
            stages.sort();
            let reached: Vec<_> = stages.iter().map(|(stage, _)| stage.as_str()).collect();
            assert_eq!(reached, ["0", "1", "2"][..reached.len()], "{shedding}: {lines:?}");
            let dropped = stages.iter().filter(|(_, how)| *how == "dropped").count();
            if ends[0][2] == "answered" {
                assert_eq!((reached.len(), dropped), (3, 0), "{shedding}: {lines:?}");
            } else {
                assert_ne!(shedding, "none", "{request} was given up, and nobody should: {lines:?}");
                assert!(dropped <= 1, "{shedding}: {lines:?}");
            }
        }
    }
}

#[test]
fn work_takes_its_planned_time_one_at_a_time() {
    let by_request = by_request(&run(&format!("{}\n{}", setup("fifo", "none"), plan())));
    let mut ends = Vec::new();
    for (request, lines) in &by_request {
        for words in lines.iter().filter(|words| words[0] == "stage") {
            let planned = [1_000_000, 500_000, 200_000][words[2].parse::<usize>().unwrap()];
            let service: u64 = words[7].parse().unwrap();
            assert!(service >= planned, "{words:?}");
        }
        let first: u64 =
            lines.iter().find(|words| words[2] == "0").expect("it was served")[5].parse().unwrap();
        ends.push(*request as u64 * 500_000 + first);
    }
    // Departures from the first service: work so far bounds their times.
    ends.sort_unstable();
    for (done, end) in (1..).zip(&ends) {
        assert!(*end >= done * 1_000_000, "{done} had been worked on: {ends:?}");
    }
}

#[test]
fn an_unsupported_plan_is_an_error_with_a_remedy() {
    let check = |input: &str, what: &str| {
        let output = run(input);
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0), "{text}");
        let lines: Vec<_> = text.lines().collect();
        assert!(
            lines.len() == 2 && lines[0].starts_with("error: ") && lines[1].starts_with("  try: "),
            "{text}"
        );
        assert!(text.contains(what), "{what:?} is not in {text}");
    };
    check("", "line 1");
    check(&setup("edf", "some"), "shedding \"some\" is not one of none, expired, infeasible");
    check(&setup("edf", "none").replacen("\"parts\":1", "\"parts\":2", 1), "stage S1: parts 2");
    check(&format!("{}\nsoon,0,1,2,3", setup("edf", "none")), "line 2");
}

#[test]
fn a_tier_exits_when_its_stdout_is_closed() {
    let mut runner = start();
    // Requests over an hour.
    let input: String = (0..3_600_u64).map(|n| format!("{},0,1,1,1\n", n * 1_000_000_000)).collect();
    let mut stdin = runner.stdin.take().expect("piped");
    stdin.write_all(format!("{}\n{input}", setup("edf", "none")).as_bytes()).expect("it listens");
    drop(stdin);
    let mut stdout = runner.stdout.take().expect("piped");
    let mut ready = [0; 6];
    stdout.read_exact(&mut ready).expect("it is ready");
    drop(stdout);
    assert!(!runner.wait().expect("it ends").success());
}
