//! Services as processes: `testbed tier`, called by `testbed calls`.

//~ platform: a service of the testbed forwards label and budget

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdout, Command, Stdio};

/// Service process, killed on drop.
struct Tier {
    process: Child,
    stdout: BufReader<ChildStdout>,
    address: String,
}

impl Tier {
    fn start(parts: &[&Tier], shedding: &str) -> Self {
        let parts: Vec<String> = parts.iter().map(|part| format!("{:?}", part.address)).collect();
        let settings = format!(
            r#"{{"listen":"127.0.0.1:0","parts":[{}],"threads":1,"order":"edf","shedding":"{shedding}",
                "age_max_ns":1000000000,"capacity":1000,"answer":5000,"dscp":[46,10],"guard":"none",
                "guard_target_ns":20000000}}"#,
            parts.join(",")
        );
        let mut command = Command::new(env!("CARGO_BIN_EXE_testbed"));
        command.args(["tier", &settings]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.spawn().expect("it starts");
        let stdout = BufReader::new(process.stdout.take().expect("piped"));
        let mut tier = Self { process, stdout, address: String::new() };
        let line = tier.line();
        tier.address = line.strip_prefix("listens ").unwrap_or_else(|| panic!("{line:?}")).to_owned();
        tier
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.stdout.read_line(&mut line).expect("it says lines");
        line.trim_end().to_owned()
    }

    /// Statistics that the service prints at its end.
    fn end(mut self) -> serde_json::Value {
        drop(self.process.stdin.take());
        let line = self.line();
        assert!(self.process.wait().expect("it ends").success(), "{line}");
        serde_json::from_str(&line).unwrap_or_else(|e| panic!("{line:?}: {e}"))
    }
}

impl Drop for Tier {
    fn drop(&mut self) {
        // Both fail if the process has already ended.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Output of `testbed calls` for 40 requests, with 200 µs of work at `front` and at each of two
/// workers.
fn calls(front: &str, shedding: &str) -> String {
    let stage = |name: &str, parts: u32| {
        format!(r#"{{"name":"{name}","threads":1,"parts":{parts},"reserve_ns":0,"partial":false}}"#)
    };
    let setup = format!(
        r#"{{"order":"edf","shedding":"{shedding}","age_max_ns":1000000000,"capacity":1000,"stages":[{},{}],"slos":[{{"name":"urgent","slo_ns":100000000000}},{{"name":"patient","slo_ns":200000000000}}]}}"#,
        stage("front", 1),
        stage("worker", 2)
    );
    let plan: String = (0..40).map(|n| format!("{},{},200000,200000,200000\n", n * 500_000, n % 2)).collect();
    let mut command = Command::new(env!("CARGO_BIN_EXE_testbed"));
    command.args(["calls", front, "46", "10"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut caller = command.spawn().expect("it starts");
    caller.stdin.take().expect("piped").write_all(format!("{setup}\n{plan}").as_bytes()).expect("it listens");
    let mut stdout = String::new();
    caller.stdout.take().expect("piped").read_to_string(&mut stdout).expect("it says text");
    assert!(caller.wait().expect("it ends").success(), "{stdout}");
    stdout
}

#[test]
fn each_request_is_worked_on_once_at_every_service_and_brings_its_budget() {
    for shedding in ["none", "infeasible"] {
        let workers = [Tier::start(&[], shedding), Tier::start(&[], shedding)];
        let front = Tier::start(&[&workers[0], &workers[1]], shedding);
        let stdout = calls(&front.address, shedding);
        let answered = stdout.lines().filter(|line| line.contains(",answered,")).count();
        assert_eq!((answered, stdout.lines().next()), (40, Some("ready")), "{shedding}: {stdout}");
        for tier in [front].into_iter().chain(workers) {
            let did = tier.end();
            assert_eq!(
                [&did["worked"], &did["unbudgeted"], &did["refused"], &did["shed"]],
                [40, 0, 0, 0],
                "{did}"
            );
        }
    }
}

#[test]
fn a_request_without_time_for_its_part_is_refused() {
    let worker = Tier::start(&[], "none");
    let front = Tier::start(&[&worker], "none");
    // The plan has times for two workers, but there is one.
    let stdout = calls(&front.address, "none");
    assert_eq!(stdout.lines().filter(|line| line.contains(",failed,")).count(), 40, "{stdout}");
    assert_eq!([front.end()["worked"].clone(), worker.end()["worked"].clone()], [0, 0]);
}

#[test]
fn an_invalid_tier_is_an_error_with_a_remedy() {
    for (settings, says) in [("", "tier: EOF"), ("{}", "missing field")] {
        let output = Command::new(env!("CARGO_BIN_EXE_testbed")).args(["tier", settings]).output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0), "{text}");
        assert!(text.contains(says) && text.contains("\n  try: "), "{says:?} is not in {text}");
    }
}
